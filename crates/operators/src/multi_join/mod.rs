//! A join of several inputs on a key that all of them have, without the state of the joins between.
//!
//! What a row of one input makes of the rows of the others is decided by [`walk`]. No plan leads here yet: how the rows of the
//! inputs are kept, and stages of more than two inputs, are missing.
//!
//! Follows: StreamingMultiJoinOperator, Flink 2.2.

pub mod walk;
