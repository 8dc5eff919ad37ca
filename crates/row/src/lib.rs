//! Flink rows in columns and in bytes.
//!
//! [`types`] says which Arrow type carries which Flink type, [`batch`] is the unit that flows through a stage.

pub mod batch;
pub mod types;

pub use batch::{Batch, RowKind};
