//! Which rows of a key and window may get a rank, and which one they get.
//!
//! Of equal sort keys the row that came first ranks first. So rows are compared by sort key and place, and what is behind the last
//! rank stays there for good. Rows in excess are tolerated until there are about twice as many as ranks, so that each is
//! looked at a few times only.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, NullArray};
use streamfusion_row::Batch;
use streamfusion_state::{RowEntries, Touched};

use crate::rank::sort_key::SortKeys;
use crate::window::open::OpenWindows;
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError};

/// Rows in excess that are always tolerated.
const TOLERATED: usize = 4;

/// What is known of the rows of a slot.
#[derive(Debug)]
struct Kept<K> {
    rows: usize,
    /// The sort key of the last rank as it was when rows were counted out.
    bound: Option<K>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Best<S: SortKeys> {
    keys: S,
    /// The sort columns.
    order_by: Vec<usize>,
    /// How many columns rows have.
    columns: usize,
    /// The first rank that goes out, counted from 0.
    first: usize,
    /// Behind the last one.
    end: usize,
    /// By slot.
    kept: Vec<Kept<S::Key>>,
    /// Slots with too many rows.
    full: Vec<u32>,
    key_bytes: usize,
}

/// Rows of several keys in sort order, one key behind the other.
#[derive(Debug, Default)]
struct Sorted {
    positions: Vec<u32>,
    /// Behind the last row of each key.
    ends: Vec<usize>,
}

impl<S: SortKeys> Best<S> {
    /// Ranks from `start` to `end`, counted from 1.
    pub(super) fn new(keys: S, order_by: Vec<usize>, columns: usize, start: i64, end: i64) -> Self {
        let count = |rank: i64| usize::try_from(rank).unwrap_or_default();
        Self {
            keys,
            order_by,
            columns,
            first: count(start.saturating_sub(1)),
            end: count(end),
            kept: Vec::new(),
            full: Vec::new(),
            key_bytes: 0,
        }
    }

    fn kept(&mut self, slot: u32) -> &mut Kept<S::Key> {
        let place = slot as usize;
        if place >= self.kept.len() {
            self.kept.resize_with(place + 1, || Kept { rows: 0, bound: None });
        }
        &mut self.kept[place]
    }

    /// Notes that so many rows of a slot came out of a snapshot.
    pub(super) fn restore(&mut self, slot: u32, rows: usize) {
        self.kept(slot).rows = rows;
    }

    /// Notes another row of a slot; whether it is the first one.
    pub(super) fn add(&mut self, slot: u32) -> bool {
        let most = self.end.saturating_add(self.end.max(TOLERATED));
        let kept = self.kept(slot);
        kept.rows += 1;
        let rows = kept.rows;
        if rows == most.saturating_add(1) {
            self.full.push(slot);
        }
        rows == 1
    }

    /// The rows of a batch that may get a rank, as far as bounds and the batch itself say.
    pub(super) fn candidates(&self, batch: &Batch, touched: &Touched) -> Result<Vec<u32>, OperatorError> {
        let encoded = self.keys.encode(batch.columns(), batch.num_rows())?;
        let bound = |slot: &u32| self.kept.get(*slot as usize).and_then(|kept| kept.bound.as_ref());
        let bounds: Vec<Option<&S::Key>> = touched.slots.iter().map(bound).collect();
        let mut counts = vec![0_usize; touched.slots.len()];
        let mut candidates = Vec::with_capacity(batch.num_rows());
        for (row, group) in (0_u32..).zip(&touched.groups) {
            let bound = bounds.get(*group as usize).copied().flatten();
            if bound.is_none_or(|bound| S::compare(&encoded, row as usize, bound).is_lt()) {
                candidates.push(row);
                if let Some(count) = counts.get_mut(*group as usize) {
                    *count += 1;
                }
            }
        }
        if counts.iter().any(|count| *count > self.end.saturating_add(TOLERATED)) {
            self.count_out(&mut candidates, &counts, touched, &encoded);
        }
        Ok(candidates)
    }

    /// Takes out of the rows of a batch those that rows of the same batch come before, where there are many of them.
    fn count_out(&self, candidates: &mut Vec<u32>, counts: &[usize], touched: &Touched, encoded: &S::Encoded) {
        let mut crowds: Vec<Vec<u32>> = Vec::new();
        // the number of the crowd of each key, from 1 on
        let mut crowd_of = vec![0_usize; counts.len()];
        for (crowd, count) in crowd_of.iter_mut().zip(counts) {
            if *count > self.end.saturating_add(TOLERATED) {
                crowds.push(Vec::with_capacity(*count));
                *crowd = crowds.len();
            }
        }
        candidates.retain(|row| {
            let group = touched.groups.get(*row as usize).copied().unwrap_or_default();
            let crowd = crowd_of.get(group as usize).and_then(|crowd| crowd.checked_sub(1));
            match crowd.and_then(|crowd| crowds.get_mut(crowd)) {
                Some(crowd) => crowd.push(*row),
                None => return true,
            }
            false
        });
        for mut crowd in crowds {
            if let Some(last) = self.end.checked_sub(1) {
                crowd.select_nth_unstable_by(last, |a, b| S::order(encoded, *a as usize, *b as usize).then(a.cmp(b)));
            }
            crowd.truncate(self.end);
            candidates.append(&mut crowd);
        }
        candidates.sort_unstable();
    }

    /// The sort keys of rows in state.
    fn encode(&self, rows: &RowEntries<()>, positions: &[u32]) -> Result<S::Encoded, OperatorError> {
        let without_values: ArrayRef = Arc::new(NullArray::new(positions.len()));
        let mut columns = vec![without_values; self.columns];
        for (number, column) in self.order_by.iter().zip(rows.gather_columns(positions, &self.order_by)?) {
            columns[*number] = column;
        }
        self.keys.encode(&columns, positions.len())
    }

    /// Forgets rows of slots that have too many.
    pub(super) fn prune(&mut self, rows: &mut RowEntries<()>) -> Result<(), OperatorError> {
        for slot in std::mem::take(&mut self.full) {
            let mut positions: Vec<u32> = rows.walk(slot).collect();
            let encoded = self.encode(rows, &positions)?;
            let mut numbers: Vec<usize> = (0..positions.len()).collect();
            let Some(last) = self.end.checked_sub(1) else { continue };
            let by_key = |a: &usize, b: &usize| S::order(&encoded, *a, *b).then(a.cmp(b));
            let (_, last, excess) = numbers.select_nth_unstable_by(last, by_key);
            let bound = S::key(&encoded, *last);
            excess.iter().for_each(|number| {
                rows.remove(std::mem::take(&mut positions[*number]));
            });
            let rows = self.end;
            let added = S::heap_bytes(&bound);
            let before = std::mem::replace(self.kept(slot), Kept { rows, bound: Some(bound) });
            self.key_bytes = self.key_bytes + added - before.bound.as_ref().map_or(0, S::heap_bytes);
        }
        Ok(())
    }

    /// Ranks the rows of slots that are due, about as many as make a batch; whether there are any.
    pub(super) fn rank(
        &mut self,
        windows: &mut OpenWindows,
        rows: &RowEntries<()>,
        ranked: &mut Ranked,
    ) -> Result<bool, OperatorError> {
        let mut sorted = Sorted::default();
        while sorted.positions.len() < OUTPUT_BATCH_ROWS {
            let Some(slot) = windows.next_due() else { break };
            sorted.positions.extend(rows.walk(slot));
            sorted.ends.push(sorted.positions.len());
            let kept = std::mem::replace(self.kept(slot), Kept { rows: 0, bound: None });
            self.key_bytes -= kept.bound.as_ref().map_or(0, S::heap_bytes);
            ranked.slots.push(slot);
        }
        if sorted.ends.is_empty() {
            return Ok(false);
        }
        self.sort(rows, &mut sorted)?;
        let mut start = 0;
        for end in sorted.ends {
            let of_key = sorted.positions.get(start..end).unwrap_or_default();
            for (rank, position) in of_key.iter().enumerate().take(self.end).skip(self.first) {
                ranked.positions.push(*position);
                // counted in 31 bits
                ranked.ranks.push(rank as i64 + 1);
            }
            start = end;
        }
        Ok(true)
    }

    fn sort(&self, rows: &RowEntries<()>, sorted: &mut Sorted) -> Result<(), OperatorError> {
        if sorted.positions.len() == sorted.ends.len() {
            return Ok(());
        }
        let encoded = self.encode(rows, &sorted.positions)?;
        let mut numbers: Vec<usize> = (0..sorted.positions.len()).collect();
        let mut start = 0;
        for end in &sorted.ends {
            if let Some(of_key) = numbers.get_mut(start..*end) {
                // in the order in which they came, as before
                of_key.sort_by(|a, b| S::order(&encoded, *a, *b));
            }
            start = *end;
        }
        sorted.positions = numbers.iter().filter_map(|number| sorted.positions.get(*number)).copied().collect();
        Ok(())
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.kept.capacity() * size_of::<Kept<S::Key>>() + self.full.capacity() * size_of::<u32>() + self.key_bytes
    }
}

/// Rows with their ranks, on their way out.
#[derive(Debug)]
pub(super) struct Ranked {
    row_number: bool,
    /// The slots that they are of.
    slots: Vec<u32>,
    positions: Vec<u32>,
    ranks: Vec<i64>,
    pulled: usize,
}

impl Ranked {
    /// `row_number` is whether the rank goes out.
    pub(super) fn new(row_number: bool) -> Self {
        Self { row_number, slots: Vec::new(), positions: Vec::new(), ranks: Vec::new(), pulled: 0 }
    }

    /// The next rows of output; `None` when all were pulled.
    pub(super) fn pull(&mut self, rows: &RowEntries<()>) -> Result<Option<Batch>, OperatorError> {
        let mut bytes = 0;
        let left = self.positions.get(self.pulled..).unwrap_or_default();
        let fitting = left.iter().take(OUTPUT_BATCH_ROWS).take_while(|position| {
            bytes += rows.row(**position).len();
            bytes <= OUTPUT_BATCH_BYTES
        });
        let count = fitting.count().max(1).min(left.len());
        if count == 0 {
            self.positions.clear();
            self.ranks.clear();
            self.pulled = 0;
            return Ok(None);
        }
        let places = self.pulled..self.pulled + count;
        let mut columns = rows.gather(&left[..count])?;
        if self.row_number {
            let ranks = self.ranks.get(places.clone()).unwrap_or_default().to_vec();
            columns.push(Arc::new(Int64Array::from(ranks)));
        }
        self.pulled = places.end;
        Ok(Some(Batch::try_new(columns, count, None)?))
    }

    /// The slots whose rows went out.
    pub(super) fn take_slots(&mut self) -> std::vec::IntoIter<u32> {
        std::mem::take(&mut self.slots).into_iter()
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        (self.slots.capacity() + self.positions.capacity()) * size_of::<u32>()
            + self.ranks.capacity() * size_of::<i64>()
    }
}
