//! Gathers small batches, as they come out of a shuffle.
//!
//! Every exchange cuts a batch by the parallelism behind it, and what an operator does once per batch is then done that much
//! more often. So small batches wait until there are enough rows, and are joined by one copy. A batch that is large enough
//! goes through as it is, behind what waits; order is kept. How long rows may wait is decided by the caller, who flushes.

use std::collections::VecDeque;

use streamfusion_row::Batch;
use streamfusion_row::gather::GatherError;

/// So many rows are enough: what is spent once per batch no longer counts, and their columns still lie in the cache.
const ENOUGH_ROWS: usize = 1_024;
/// A batch with at least this part of enough rows is not worth a copy.
const LARGE_ENOUGH: usize = 4;
/// Bytes after which rows wait no longer, whatever their number.
const MAX_BYTES: usize = 4 << 20;

/// Gathers batches. See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Coalescer {
    /// Rows up to which batches are gathered; 0: nothing ever waits.
    max_rows: usize,
    waiting: Vec<Batch>,
    rows: usize,
    bytes: usize,
}

impl Coalescer {
    /// Gathers batches of up to `max_rows` rows, or [`ENOUGH_ROWS`] if that is less; with 0 none.
    pub(crate) fn new(max_rows: usize) -> Self {
        Self { max_rows: max_rows.min(ENOUGH_ROWS), ..Self::default() }
    }

    /// Takes a batch of about so many bytes; what needs not wait any more goes to `ready`.
    pub(crate) fn push(&mut self, batch: Batch, bytes: usize, ready: &mut VecDeque<Batch>) -> Result<(), GatherError> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let large = !self.is_small(&batch) || bytes >= MAX_BYTES;
        // fields that nobody reads may be columns of type Null in some batches and not in others
        let unlike = self.waiting.last().is_some_and(|last| !same_types(last, &batch));
        if large || unlike || self.rows + rows > self.max_rows {
            self.flush(ready)?;
        }
        if large {
            ready.push_back(batch);
            return Ok(());
        }
        self.waiting.push(batch);
        self.rows += rows;
        self.bytes += bytes;
        if self.rows >= self.max_rows || self.bytes >= MAX_BYTES {
            self.flush(ready)?;
        }
        Ok(())
    }

    /// Whether a batch has so few rows that it may wait.
    pub(crate) fn is_small(&self, batch: &Batch) -> bool {
        batch.num_rows() < self.max_rows.div_ceil(LARGE_ENOUGH)
    }

    /// Lets everything go that waits.
    pub(crate) fn flush(&mut self, ready: &mut VecDeque<Batch>) -> Result<(), GatherError> {
        if !self.waiting.is_empty() {
            let joined = Batch::concat(&self.waiting)?;
            self.waiting.clear();
            (self.rows, self.bytes) = (0, 0);
            ready.push_back(joined);
        }
        Ok(())
    }

    /// Rows that wait.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// About how many bytes wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn same_types(a: &Batch, b: &Batch) -> bool {
    a.columns().iter().map(|column| column.data_type()).eq(b.columns().iter().map(|column| column.data_type()))
}
