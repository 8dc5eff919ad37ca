//! Reads Flink compiled plans and decides what runs natively.
//!
//! The input is the JSON that Flink writes for `COMPILE PLAN`. Whatever is not known here, a node, a function, a type or a
//! property, is never an error: it becomes a [`Reason`] tied to its node, and that node stays on Flink.
#![forbid(unsafe_code)]

pub mod entry;
pub mod node;
pub mod reason;
pub mod rex;
pub mod types;

pub use entry::EntryField;
pub use reason::Reason;
