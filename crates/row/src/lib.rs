//! Flink rows in columns and in bytes.
//!
//! [`types`] says which Arrow type carries which Flink type, [`batch`] is the unit that flows through a stage, [`gather`]
//! makes batches of rows of other batches, [`names`] makes their ROWs alike.
//!
//! Rows come in through [`entry`] and leave through [`export`]. Between stages [`exchange`] sends each row to the subtask that
//! owns its key, whose bytes and hash are made in [`binary`] and [`hash`]; the values of an ARRAY or MAP are read by [`collection`]; [`frame`] is a batch on the wire, [`fragment`] a
//! part of one that may wait in a checkpoint.
//! Whoever reads Arrow IPC messages that may be damaged does so through [`ipc`].
// tests of entry and export write and read at addresses, as Java does
#![cfg_attr(not(test), forbid(unsafe_code))]

pub mod batch;
pub mod binary;
pub mod collection;
pub mod entry;
pub mod exchange;
pub mod export;
pub mod fragment;
pub mod frame;
pub mod gather;
pub mod hash;
pub mod ipc;
pub mod names;
#[cfg(test)]
mod random;
pub mod timestamp;
pub mod types;

pub use batch::{Batch, RowKind};
pub use hash::KeyGroup;
