//! The keyed exchange: rows go to the subtask that owns the key group of their key, in batches.
//!
//! Flink decides where a row goes by its key group, and so does this module, in one of two ways. Where barriers are aligned
//! ([`KeySplitter`]), a batch is split into at most one batch per destination. Where a checkpoint may store what is on its
//! way ([`FragmentSplitter`]), it is split into one [fragment](crate::fragment) per key group, because Flink reroutes stored
//! records as a whole after a rescaling. Rows keep their order within a key group either way.
//!
//! Follows: KeyGroupStreamPartitioner, KeyGroupRangeAssignment, Flink 2.2. Differences: none.

mod destinations;
mod fragments;
mod key_groups;

pub use destinations::{KeySplitter, Part};
pub use fragments::FragmentSplitter;

use crate::batch::Batch;
use crate::binary::KeyError;
use crate::gather::GatherError;

/// A batch that cannot be split.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The batch has no such column.
    #[error("key column {column} of a batch of {columns} columns")]
    Column {
        /// The key column.
        column: usize,
        /// Columns of the batch.
        columns: usize,
    },
    /// The key columns are not of the expected types.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The rows cannot be gathered.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// More rows than fit into a row number.
    #[error("a batch of {rows} rows is too large to be split")]
    TooLarge {
        /// Rows of the batch.
        rows: usize,
    },
}

/// The number of rows, as one that row numbers count to.
fn row_count(batch: &Batch) -> Result<u32, ExchangeError> {
    u32::try_from(batch.num_rows()).map_err(|_| ExchangeError::TooLarge { rows: batch.num_rows() })
}

#[cfg(test)]
mod tests;
