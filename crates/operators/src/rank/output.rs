//! What a batch of rows makes Top-N emit: rows by reference, until they are pulled.
//!
//! One row is emitted many times, as ranks shift. So what is emitted is noted by position, in columns, and each row is read once per
//! batch, however often it goes out; the rest is gathering by index. For that a row that leaves state in the middle of a
//! batch stays readable to its end.

use arrow::array::{ArrayRef, Int64Array, UInt8Array, UInt32Array};
use std::sync::Arc;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::RowEntries;

use super::Emission;
use crate::changelog::{UpdateBefore, value_bytes_of_rows};
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Output {
    emission: Emission,
    /// Whether changes are left out.
    muted: bool,
    /// Per change its row: the position, and from the end of the batch on the number in `source`.
    rows: Vec<u32>,
    /// Per change its kind.
    kinds: Vec<u8>,
    /// Per change its rank, where that goes out.
    ranks: Vec<i64>,
    /// Positions of rows that leave state with the batch.
    gone: Vec<u32>,
    /// Number of the batch.
    batch: u32,
    /// Per position: the batch in which it was read last, and its number there.
    numbers: Vec<(u32, u32)>,
    /// Positions of the rows that were read.
    read: Vec<u32>,
    source: Option<Source>,
    pulled: usize,
}

/// The rows that are emitted, each once.
#[derive(Debug)]
struct Source {
    batch: Batch,
    /// Per row, if there are any: bytes of text and binary values.
    value_bytes: Option<Vec<usize>>,
}

impl Output {
    pub(super) fn new(emission: Emission) -> Self {
        Self {
            emission,
            muted: false,
            rows: Vec::new(),
            kinds: Vec::new(),
            ranks: Vec::new(),
            gone: Vec::new(),
            batch: 0,
            numbers: Vec::new(),
            read: Vec::new(),
            source: None,
            pulled: 0,
        }
    }

    /// Begins a batch.
    pub(super) fn begin(&mut self) {
        self.rows.clear();
        self.kinds.clear();
        self.ranks.clear();
        self.source = None;
        self.pulled = 0;
    }

    /// Leaves out changes, or no longer.
    pub(super) fn mute(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// Notes that the row at `position` was detached.
    #[inline]
    pub(super) fn detached(&mut self, position: u32) {
        self.gone.push(position);
    }

    /// Emits the row at `position`; where no state is kept of rows, row `position` of the batch.
    #[inline]
    pub(super) fn emit(&mut self, kind: RowKind, position: u32, rank: i64) {
        if self.muted {
            return;
        }
        self.rows.push(position);
        self.kinds.push(kind as u8);
        if self.emission.row_number {
            self.ranks.push(rank);
        }
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

    /// Emits -U and +U of a rank if it is in range.
    #[inline]
    pub(super) fn update(&mut self, rank: i64, end: i64, before: u32, after: u32) {
        if !self.in_range(rank, end) {
            return;
        }
        self.update_before(before, rank);
        self.emit(RowKind::UpdateAfter, after, rank);
    }

    /// -U, which may not be wanted.
    #[inline]
    pub(super) fn update_before(&mut self, position: u32, rank: i64) {
        if self.emission.update_before == UpdateBefore::Emit {
            self.emit(RowKind::UpdateBefore, position, rank);
        }
    }

    /// How many changes the batch has.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Ends the batch: reads what is emitted of state and forgets there what left.
    pub(super) fn end(&mut self, state: &mut RowEntries<u32>) -> Result<(), OperatorError> {
        if !self.rows.is_empty() {
            self.number_rows();
            let columns = state.gather(&self.read)?;
            self.set_source(Batch::try_new(columns, self.read.len(), None)?);
        }
        for position in self.gone.drain(..) {
            state.release(position);
        }
        Ok(())
    }

    /// Numbers the rows that are emitted.
    fn number_rows(&mut self) {
        self.batch = match self.batch.checked_add(1) {
            Some(batch) => batch,
            None => {
                self.numbers.clear();
                1
            }
        };
        self.read.clear();
        let bound = self.rows.iter().max().map_or(0, |most| *most as usize + 1);
        if bound > self.numbers.len() {
            self.numbers.resize(bound, (0, 0));
        }
        for row in &mut self.rows {
            let number = &mut self.numbers[*row as usize];
            if number.0 != self.batch {
                // no more rows than positions
                *number = (self.batch, self.read.len() as u32);
                self.read.push(*row);
            }
            *row = number.1;
        }
    }

    /// The same where no state is kept of rows.
    pub(super) fn end_stateless(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        self.set_source(batch.clone().with_kinds(None)?);
        Ok(())
    }

    fn set_source(&mut self, batch: Batch) {
        self.source = Some(Source { value_bytes: value_bytes_of_rows(&batch), batch });
    }

    /// How many of these rows, from the first one, go out as one batch.
    fn fitting(source: &Source, rows: &[u32]) -> usize {
        let rows = &rows[..rows.len().min(OUTPUT_BATCH_ROWS)];
        let Some(value_bytes) = &source.value_bytes else { return rows.len() };
        let mut total = 0_usize;
        let fitting = rows.iter().take_while(|row| {
            total = total.saturating_add(value_bytes.get(**row as usize).copied().unwrap_or_default());
            total <= OUTPUT_BATCH_BYTES
        });
        fitting.count().max(1).min(rows.len())
    }

    /// The next rows of output.
    pub(super) fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let left = &self.rows[self.pulled..];
        let Some(source) = self.source.as_ref().filter(|_| !left.is_empty()) else {
            self.source = None;
            return Ok(None);
        };
        let count = Self::fitting(source, left);
        let rows = source.batch.take(&UInt32Array::from(left[..count].to_vec()))?;
        let pulled = self.pulled..self.pulled + count;
        self.pulled = pulled.end;
        let kinds = &self.kinds[pulled.clone()];
        let changes = kinds.iter().any(|kind| *kind != RowKind::Insert as u8);
        let kinds = changes.then(|| UInt8Array::from(kinds.to_vec()));
        let mut columns = rows.columns().to_vec();
        if self.emission.row_number {
            let ranks: ArrayRef = Arc::new(Int64Array::from(self.ranks[pulled].to_vec()));
            columns.push(ranks);
        }
        Ok(Some(Batch::try_new(columns, count, kinds)?))
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<(u32, u32)>()
            + self.rows.capacity() * size_of::<u32>()
            + self.kinds.capacity()
            + self.ranks.capacity() * size_of::<i64>()
            + (self.read.capacity() + self.gone.capacity()) * size_of::<u32>()
            + self.source.as_ref().map_or(0, |source| source.batch.bytes())
    }
}
