//! Takes batches apart into frames and bundles, for operators that keep rows until their bundle ends.
//!
//! What an operator does with the rows is its [`FrameFold`]. Here is decided when: without mini-batch every batch is a frame and
//! every row a bundle; with it the rows of an open bundle are kept, and nothing is looked up before the first bundle of a frame
//! ends, as Flink reads state then. A bundle that is large and has few keys is [compacted](FrameFold::survivors) on the way.
//!
//! Invariants: a frame is worked off when its output is pulled, never before that of the frame in front of it has been; rows
//! stay in the order in which they came.

use std::num::NonZeroU64;
use std::ops::Range;

use streamfusion_row::Batch;

use super::{Boundary, BundleMetrics, FlushReason, Split};
use crate::OperatorError;

/// Rows that a bundle keeps at least before it is compacted.
const COMPACTION_ROWS: usize = 1 << 16;

/// What came of the bundles of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Emitted {
    /// Changes, at most one per key and bundle.
    pub(crate) changes: usize,
    /// Rows of output.
    pub(crate) rows: usize,
}

/// What an operator does with the rows of a frame.
///
/// Called in this order: [`begin`](FrameFold::begin); then either [`bundle`](FrameFold::bundle) for the rows of each bundle, or
/// [`each_row`](FrameFold::each_row); [`end`](FrameFold::end); [`pull`](FrameFold::pull) until nothing is left.
pub(crate) trait FrameFold {
    /// Begins a frame of these batches; its rows are numbered through all of them.
    fn begin(&mut self, batches: &[Batch]) -> Result<(), OperatorError>;

    /// Folds the next rows of the frame, which are one bundle. Returns how many keys they touch.
    fn bundle(&mut self, rows: Range<usize>) -> Result<usize, OperatorError>;

    /// Folds all rows of the frame, each of them a bundle of its own.
    fn each_row(&mut self) -> Result<(), OperatorError>;

    /// Ends the frame: writes to state what is left of it, and makes the output.
    fn end(&mut self) -> Result<Emitted, OperatorError>;

    /// The next rows of the output. With `None` the rows of the frame are forgotten.
    fn pull(&mut self) -> Result<Option<Batch>, OperatorError>;

    /// The rows of a frame that was begun, and is begun anew later, without which the rest of the bundle comes to the same; in
    /// batches, in first-touch order of their keys. `None` if all rows are needed.
    fn survivors(&mut self) -> Result<Option<Vec<Batch>>, OperatorError>;

    /// Bytes that the frame takes, beside its batches and state.
    fn bytes(&self) -> usize;
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Frames {
    /// Absent without mini-batch.
    boundary: Option<Boundary>,
    split: Option<Split>,
    /// The rows of the open bundle.
    open: Vec<Batch>,
    open_rows: usize,
    open_bytes: usize,
    /// Rows of the open bundle at which it is compacted, and those of a new bundle.
    compaction_rows: usize,
    least_compaction_rows: usize,
}

impl Frames {
    /// No bundle is open. `size` is `table.exec.mini-batch.size`, at least 1; `None` without mini-batch.
    pub(crate) fn new(size: Option<u64>) -> Self {
        Self {
            boundary: size.map(|size| Boundary::new(NonZeroU64::new(size).unwrap_or(NonZeroU64::MIN))),
            split: None,
            open: Vec::new(),
            open_rows: 0,
            open_bytes: 0,
            compaction_rows: COMPACTION_ROWS,
            least_compaction_rows: COMPACTION_ROWS,
        }
    }

    /// Takes a batch. The one before it must have been worked off.
    pub(crate) fn push(&mut self, batch: Batch) {
        self.split = (batch.num_rows() > 0).then(|| Split::new(batch));
    }

    /// The next rows of output, or `None` when the batch has been worked off.
    pub(crate) fn pull(&mut self, fold: &mut impl FrameFold) -> Result<Option<Batch>, OperatorError> {
        loop {
            if let Some(batch) = fold.pull()? {
                return Ok(Some(batch));
            }
            if !self.next_frame(fold)? {
                return Ok(None);
            }
        }
    }

    /// Ends the open bundle.
    pub(crate) fn flush(&mut self, reason: FlushReason, fold: &mut impl FrameFold) -> Result<(), OperatorError> {
        let Some(boundary) = self.boundary.as_mut().filter(|boundary| boundary.is_open()) else { return Ok(()) };
        fold.begin(&self.open)?;
        let keys = fold.bundle(0..self.open_rows)?;
        boundary.end(reason, keys);
        self.end_frame(fold)
    }

    /// Works off the rows up to the end of the frame. Returns whether one ended.
    fn next_frame(&mut self, fold: &mut impl FrameFold) -> Result<bool, OperatorError> {
        let Some(split) = &mut self.split else { return Ok(false) };
        let Some(boundary) = &mut self.boundary else {
            fold.begin(std::slice::from_ref(split.batch()))?;
            self.split = None;
            fold.each_row()?;
            fold.end()?;
            return Ok(true);
        };
        let rows = split.frame(boundary);
        if rows.is_empty() {
            self.split = None;
            return Ok(false);
        }
        let view = split.view_rows(&rows)?;
        let mut bundle = 0..self.open_rows;
        self.open_bytes += view.bytes();
        self.open_rows += view.num_rows();
        self.open.push(view);
        while let Some(part) = split.next_part(boundary) {
            bundle.end += part.rows.len();
            if !part.ends_bundle {
                self.split = None;
                self.compact(fold)?;
                return Ok(false);
            }
            if bundle.start == 0 {
                fold.begin(&self.open)?;
            }
            let keys = fold.bundle(bundle.clone())?;
            boundary.end(FlushReason::Count, keys);
            bundle.start = bundle.end;
            if part.ends_frame {
                break;
            }
        }
        self.end_frame(fold)?;
        Ok(true)
    }

    fn end_frame(&mut self, fold: &mut impl FrameFold) -> Result<(), OperatorError> {
        let Emitted { changes, rows } = fold.end()?;
        if let Some(boundary) = &mut self.boundary {
            boundary.emitted(changes, rows);
        }
        self.open.clear();
        (self.open_rows, self.open_bytes, self.compaction_rows) = (0, 0, self.least_compaction_rows);
        Ok(())
    }

    fn compact(&mut self, fold: &mut impl FrameFold) -> Result<(), OperatorError> {
        if self.open_rows < self.compaction_rows {
            return Ok(());
        }
        fold.begin(&self.open)?;
        if let Some(survivors) = fold.survivors()? {
            self.open_rows = survivors.iter().map(Batch::num_rows).sum();
            self.open_bytes = survivors.iter().map(Batch::bytes).sum();
            self.open = survivors;
        }
        // so that a row is looked at twice on average, however many of them stay
        self.compaction_rows = self.least_compaction_rows.max(2 * self.open_rows);
        Ok(())
    }

    /// Whether a bundle has rows and waits for more.
    pub(crate) fn is_open(&self) -> bool {
        self.boundary.as_ref().is_some_and(Boundary::is_open)
    }

    /// What the bundles came to, with mini-batch.
    pub(crate) fn metrics(&self) -> Option<&BundleMetrics> {
        self.boundary.as_ref().map(Boundary::metrics)
    }

    /// Bytes of the open bundle.
    pub(crate) fn bytes(&self) -> usize {
        self.open_bytes + self.open.capacity() * size_of::<Batch>()
    }

    /// Compacts a bundle already when it has as many rows.
    #[cfg(test)]
    pub(crate) fn compact_at(&mut self, rows: usize) {
        (self.compaction_rows, self.least_compaction_rows) = (rows, rows);
    }
}
