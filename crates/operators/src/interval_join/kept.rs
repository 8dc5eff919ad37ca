//! The rows of one input, wherever they lie.
//!
//! Until the next checkpoint a row is a reference into the batch that it came in, so that rows which expire before are never
//! written; a checkpoint [stores](Kept::store) those that are left, each once. What was restored or stored lies in state.
//!
//! Invariant: a [`Place`] is valid until its row is removed, or until [`Kept::settle`] or [`Kept::store`] move it, which tell the index.

use arrow::array::ArrayRef;
use streamfusion_row::Batch;
use streamfusion_state::{KeyedTable, RowEntries};

use super::cache::Cached;
use crate::OperatorError;
use crate::changelog::{BatchNumber, BundleRows, RowRef, value_bytes_of_rows};
use crate::time_index::TimeIndex;
use crate::timed_input::{TimedInput, Writing};

/// Where a row lies, as one number: an enum of two halves is put together in memory, for which the processor waits at each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u64);

/// What a [`Place`] says.
enum At {
    Batch(RowRef),
    /// Its position in state.
    State(u32),
}

/// Rows that were not stored yet.
#[derive(Debug, Default)]
pub(super) struct Recent {
    batches: BundleRows,
    /// Per batch, what is beside its rows.
    beside: Vec<Beside>,
    /// Rows that were not removed.
    live: usize,
}

/// What is known of the rows of a batch.
#[derive(Debug, Default)]
struct Beside {
    /// Whether a pair with a row went out; empty where that is not kept.
    emitted: Vec<bool>,
    /// Bytes of text; empty where there is none.
    bytes: Vec<usize>,
}

impl Recent {
    /// Adds a batch, of which `live` rows are kept.
    pub(super) fn add(&mut self, batch: &Batch, emitted: &[bool], live: usize) -> Result<BatchNumber, OperatorError> {
        let number = self.batches.add(batch)?;
        // measures it, so that it is not measured over and over
        self.batches.bytes();
        self.beside.push(Beside { emitted: emitted.to_vec(), bytes: value_bytes_of_rows(batch).unwrap_or_default() });
        self.live += live;
        Ok(number)
    }

    fn emitted(&self, row: RowRef) -> bool {
        self.beside.get(row.batch()).and_then(|beside| beside.emitted.get(row.row())).copied().unwrap_or_default()
    }

    fn clear(&mut self) {
        self.batches.clear();
        self.beside.clear();
        self.live = 0;
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        let beside = |beside: &Beside| beside.emitted.len() + beside.bytes.len() * size_of::<usize>();
        self.batches.held_bytes() + self.beside.iter().map(beside).sum::<usize>()
    }
}

/// See the [module](self).
pub(super) struct Kept<'a> {
    pub(super) recent: &'a mut Recent,
    pub(super) entries: &'a mut RowEntries<Cached>,
}

impl Kept<'_> {
    /// Whether a pair with a row went out.
    #[inline]
    pub(super) fn emitted(&self, place: Place) -> bool {
        match place.at() {
            At::Batch(row) => self.recent.emitted(row),
            At::State(position) => self.entries.value(position).emitted,
        }
    }

    /// Notes that a pair with a row went out.
    #[inline]
    pub(super) fn set_emitted(&mut self, place: Place) {
        match place.at() {
            At::Batch(row) => {
                let beside = self.recent.beside.get_mut(row.batch());
                if let Some(emitted) = beside.and_then(|beside| beside.emitted.get_mut(row.row())) {
                    *emitted = true;
                }
            }
            At::State(position) => {
                if !self.entries.value(position).emitted {
                    self.entries.value_mut(position).emitted = true;
                }
            }
        }
    }

    /// About how many bytes a row has, of those that differ from row to row.
    #[inline]
    pub(super) fn row_bytes(&self, place: Place) -> usize {
        match place.at() {
            At::Batch(row) => {
                let beside = self.recent.beside.get(row.batch());
                beside.and_then(|beside| beside.bytes.get(row.row())).copied().unwrap_or_default()
            }
            At::State(position) => self.entries.row(position).len(),
        }
    }

    /// A row has left.
    #[inline]
    pub(super) fn remove(&mut self, place: Place) {
        match place.at() {
            At::Batch(_) => self.recent.live = self.recent.live.saturating_sub(1),
            At::State(position) => {
                self.entries.remove(position);
            }
        }
    }

    /// These rows, in this order.
    pub(super) fn gather(&self, places: &[Place]) -> Result<Vec<ArrayRef>, OperatorError> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let (mut refs, mut positions) = (Vec::with_capacity(places.len()), Vec::new());
        for place in places {
            match place.at() {
                At::Batch(row) => refs.push(row),
                At::State(position) => positions.push(position),
            }
        }
        if positions.is_empty() {
            return Ok(self.recent.batches.gather_or_slice(&refs)?.columns().to_vec());
        }
        let stored = self.entries.gather(&positions)?;
        if refs.is_empty() {
            return Ok(stored);
        }
        let parts = [self.recent.batches.gather(&refs)?, Batch::try_new(stored, positions.len(), None)?];
        let mut taken = [0, 0];
        let order = places.iter().map(|place| {
            let part = usize::from(place.row().is_none());
            taken[part] += 1;
            (part, taken[part] - 1)
        });
        Ok(Batch::interleave(&parts, &order.collect::<Vec<_>>())?.columns().to_vec())
    }
}

/// Lets go of batches of which few rows are left. Nothing but the index may know a place.
pub(super) fn settle(recent: &mut Recent, index: &mut TimeIndex<Place>) -> Result<(), OperatorError> {
    if recent.live == 0 {
        recent.clear();
    } else if recent.batches.wants_compaction(recent.live) {
        let in_batches = index.iter_mut().filter_map(|(_, row)| Some((row.position.row()?, &mut row.position)));
        let mut rows: Vec<(RowRef, &mut Place)> = in_batches.collect();
        rows.sort_unstable_by_key(|(row, _)| *row);
        let emitted: Vec<bool> = rows.iter().map(|(row, _)| recent.emitted(*row)).collect();
        recent.batches.compact(rows.iter_mut().map(|(row, _)| row))?;
        recent.beside.clear();
        for ((row, place), emitted) in rows.into_iter().zip(emitted) {
            *place = Place::in_batch(row);
            if row.batch() >= recent.beside.len() {
                let batch = recent.batches.batch(row)?;
                let bytes = value_bytes_of_rows(batch).unwrap_or_default();
                recent.beside.push(Beside { emitted: Vec::with_capacity(batch.num_rows()), bytes });
            }
            if let Some(beside) = recent.beside.get_mut(row.batch()) {
                beside.emitted.push(emitted);
            }
        }
    }
    Ok(())
}

/// Moves all rows into state, in front of a checkpoint, in the order in which they came.
pub(super) fn store(
    recent: &mut Recent,
    index: &mut TimeIndex<Place>,
    input: &mut TimedInput<Cached>,
    table: &mut KeyedTable,
) -> Result<(), OperatorError> {
    if recent.live > 0 {
        let mut rows: Vec<(RowRef, u32, i64, &mut Place)> = Vec::with_capacity(recent.live);
        let in_batches = index.iter_mut().filter_map(|(slot, row)| Some((row.position.row()?, slot, row)));
        rows.extend(in_batches.map(|(at, slot, row)| (at, slot, row.time, &mut row.position)));
        rows.sort_unstable_by_key(|(at, ..)| *at);
        for rows in rows.chunk_by_mut(|a, b| a.0.batch() == b.0.batch()) {
            let Some((first, ..)) = rows.first() else { continue };
            let numbers: Vec<u32> = rows.iter().map(|(at, ..)| at.number()).collect();
            let batch = recent.batches.batch(*first)?;
            let Writing { entries, slots, packed } = input.write(batch, &numbers, table)?;
            for (number, (at, slot, time, place)) in rows.iter_mut().enumerate() {
                let cached = Cached { time: *time, emitted: recent.emitted(*at) };
                **place = Place::in_state(entries.append(slots, *slot, packed, number, cached)?);
            }
            let slots: Vec<u32> = rows.iter().map(|(_, slot, ..)| *slot).collect();
            table.commit(&slots);
        }
    }
    recent.clear();
    Ok(())
}

impl Place {
    #[inline]
    pub(super) fn in_batch(row: RowRef) -> Self {
        Self(row.to_bits())
    }

    #[inline]
    pub(super) fn in_state(position: u32) -> Self {
        Self(u64::from(position))
    }

    #[inline]
    fn at(self) -> At {
        RowRef::from_bits(self.0).map_or_else(At::State, At::Batch)
    }

    fn row(self) -> Option<RowRef> {
        RowRef::from_bits(self.0).ok()
    }
}
