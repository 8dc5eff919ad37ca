//! What a batch of rows makes Top-N emit: rows of the batch and rows of state, by reference until they are pulled.
//!
//! A row of state that is emitted is read once per batch, however often it goes out. So a row that leaves state in the
//! middle of a batch stays readable to its end.

use arrow::array::{ArrayRef, Int64Array, UInt8Array};
use std::sync::Arc;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::RowEntries;

use super::Emission;
use crate::OperatorError;
use crate::changelog::{BundleRows, RowRef, UpdateBefore};

/// Set in the source of a row of state.
const STATE: u32 = 1 << 31;

/// A change: its row is one of the batch, or one of those that are read from state.
#[derive(Debug, Clone, Copy)]
struct Change {
    source: u32,
    kind: RowKind,
    rank: i64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Output {
    emission: Emission,
    /// Number of the batch.
    batch: u32,
    /// Per position: the batch in which its source was set last, and its source.
    origins: Vec<(u32, u32)>,
    /// Positions of the rows that are read from state.
    fetched: Vec<u32>,
    /// Positions of rows that leave state with the batch.
    gone: Vec<u32>,
    changes: Vec<Change>,
    frame: BundleRows,
    rows: Vec<RowRef>,
    pulled: usize,
}

impl Output {
    pub(super) fn new(emission: Emission) -> Self {
        Self {
            emission,
            batch: 0,
            origins: Vec::new(),
            fetched: Vec::new(),
            gone: Vec::new(),
            changes: Vec::new(),
            frame: BundleRows::new(),
            rows: Vec::new(),
            pulled: 0,
        }
    }

    /// Begins a batch.
    pub(super) fn begin(&mut self) {
        self.batch = match self.batch.checked_add(1) {
            Some(batch) => batch,
            None => {
                self.origins.clear();
                1
            }
        };
        self.changes.clear();
        self.fetched.clear();
    }

    fn origin(&mut self, position: u32) -> &mut (u32, u32) {
        let at = position as usize;
        if at >= self.origins.len() {
            self.origins.resize(at + 1, (0, 0));
        }
        &mut self.origins[at]
    }

    /// Notes that the row at `position` came as row `row` of the batch.
    #[inline]
    pub(super) fn arrived(&mut self, position: u32, row: u32) {
        *self.origin(position) = (self.batch, row);
    }

    /// Notes that the row at `position` was detached.
    #[inline]
    pub(super) fn detached(&mut self, position: u32) {
        self.gone.push(position);
    }

    /// Emits the row at `position`.
    #[inline]
    pub(super) fn emit(&mut self, kind: RowKind, position: u32, rank: i64) {
        let batch = self.batch;
        // no more rows than positions, of which there are fewer than 2^31 where memory ends
        let next = STATE | self.fetched.len() as u32;
        let origin = self.origin(position);
        if origin.0 != batch {
            *origin = (batch, next);
            self.fetched.push(position);
        }
        let source = self.origin(position).1;
        self.changes.push(Change { source, kind, rank });
    }

    /// Emits row `row` of the batch.
    #[inline]
    pub(super) fn emit_input(&mut self, kind: RowKind, row: u32, rank: i64) {
        self.changes.push(Change { source: row, kind, rank });
    }

    /// Whether rows of this rank are emitted.
    #[inline]
    pub(super) fn in_range(&self, rank: i64, end: i64) -> bool {
        rank <= end && rank >= self.emission.start
    }

    /// Emits the row at `position` if its rank is in range.
    #[inline]
    pub(super) fn ranked(&mut self, kind: RowKind, position: u32, rank: i64, end: i64) {
        if self.in_range(rank, end) {
            self.emit(kind, position, rank);
        }
    }

    /// The same for -U, which may not be wanted.
    #[inline]
    pub(super) fn ranked_update_before(&mut self, position: u32, rank: i64, end: i64) {
        if self.emission.update_before == UpdateBefore::Emit {
            self.ranked(RowKind::UpdateBefore, position, rank, end);
        }
    }

    /// -U, which may not be wanted.
    #[inline]
    pub(super) fn update_before(&mut self, position: u32, rank: i64) {
        if self.emission.update_before == UpdateBefore::Emit {
            self.emit(RowKind::UpdateBefore, position, rank);
        }
    }

    /// Ends the batch: reads what is emitted of state and forgets there what left.
    pub(super) fn end(&mut self, batch: &Batch, state: &mut RowEntries<u32>) -> Result<(), OperatorError> {
        self.frame.clear();
        self.rows.clear();
        self.pulled = 0;
        if !self.changes.is_empty() {
            let input = self.frame.add(batch)?;
            let mut loaded = input;
            if !self.fetched.is_empty() {
                let columns = state.gather(&self.fetched)?;
                loaded = self.frame.add(&Batch::try_new(columns, self.fetched.len(), None)?)?;
            }
            self.rows.extend(self.changes.iter().map(|change| match change.source & STATE {
                0 => RowRef::new(input, change.source),
                _ => RowRef::new(loaded, change.source & !STATE),
            }));
        }
        for position in self.gone.drain(..) {
            state.release(position);
        }
        Ok(())
    }

    /// The same where no state is kept of rows.
    pub(super) fn end_stateless(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        self.frame.clear();
        self.rows.clear();
        self.pulled = 0;
        let input = self.frame.add(batch)?;
        self.rows.extend(self.changes.iter().map(|change| RowRef::new(input, change.source)));
        Ok(())
    }

    /// The next rows of output.
    pub(super) fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let left = &self.rows[self.pulled..];
        if left.is_empty() {
            self.frame.clear();
            return Ok(None);
        }
        let count = self.frame.fitting(left)?;
        let rows = self.frame.gather(&left[..count])?;
        let changes = &self.changes[self.pulled..self.pulled + count];
        self.pulled += count;
        let kinds = changes.iter().any(|change| change.kind != RowKind::Insert);
        let kinds = kinds.then(|| UInt8Array::from_iter_values(changes.iter().map(|change| change.kind as u8)));
        let mut columns = rows.columns().to_vec();
        if self.emission.row_number {
            let ranks: ArrayRef = Arc::new(Int64Array::from_iter_values(changes.iter().map(|change| change.rank)));
            columns.push(ranks);
        }
        Ok(Some(Batch::try_new(columns, count, kinds)?))
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.origins.capacity() * size_of::<(u32, u32)>()
            + self.changes.capacity() * size_of::<Change>()
            + self.rows.capacity() * size_of::<RowRef>()
            + (self.fetched.capacity() + self.gone.capacity()) * size_of::<u32>()
    }
}
