//! Where a bundle ends.
//!
//! With `table.exec.mini-batch.enabled` Flink emits once per bundle of rows, and a bundle is a logical thing: so many rows,
//! or a marker, a watermark, a checkpoint, the end of the input. [`Boundary`] decides it for one operator, whatever
//! batches the rows come in; [`Split`] cuts a batch at these places without copying; [`Frames`] drives an operator that keeps rows until
//! their bundle ends; [`assigner`] makes the markers.
//!
//! Invariants: a bundle has at least one row and never more than the configured number; rows are counted as they arrive,
//! before anything is folded, and an operator with two inputs counts both with one boundary; after a flush, for whatever
//! reason, counting starts anew. What a bundle is folded to is not decided here: see [`crate::changelog`].
//!
//! With mini-batch off an operator has no boundary at all.

pub mod assigner;
mod boundary;
mod frames;
mod metrics;
mod split;

pub use assigner::{ProcTimeMiniBatchAssigner, RowTimeMiniBatchAssigner};
pub use boundary::{Boundary, FlushReason};
pub(crate) use frames::{Emitted, FrameFold, Frames};
pub use metrics::{BundleMetrics, BundleShape, FlushCounts};
pub use split::{Part, Split};
