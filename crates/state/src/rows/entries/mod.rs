//! Several whole rows per key: what a join side without a unique key keeps, or a ranked buffer.
//!
//! A row is packed as in [`Rows`](super::Rows) and has a *position*, valid until it is removed, and a small value of fixed
//! width beside it (a count, a degree). The rows of a slot are in a list, in the order in which they were appended or to
//! which they were inserted; the order survives snapshot, restore and rescaling. Where an [`Identity`] says what makes rows
//! the same, an index over all slots finds them.
//!
//! Rows come in by batch: [`RowEntries::pack`] packs and hashes many of them, column by column, and what follows per
//! row copies or compares bytes.
//!
//! Invariants: a row is in the pages, in the list of its slot and in the index, or in none of them; no two rows of a slot
//! are the same by the identity. Positions and packed rows stay where they are from one batch to the next.

mod packed;
mod stored;
#[cfg(test)]
mod tests;

use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::ArrayRef;
use hashbrown::HashTable;

use self::packed::Identifier;
pub use self::packed::{Identity, PackedRows};
pub(crate) use self::stored::StoredRowEntries;
use super::gather;
use super::layout::RowLayout;
use crate::StateError;
use crate::heap::{ByteHeap, LARGEST_CHUNK, OWNER_BYTES, Owner, Span};
use crate::keyed::KeyGroups;
use crate::map::{combine, place};
use crate::paged::{PagedVec, Value};
use crate::slots::{NONE, Slots};
use crate::ttl::{LastWrites, StateTtl};

/// Fewer rows are in the cache anyway.
const WORTH_WARMING: usize = 16 << 10;

/// A row in its list. The first one of a list has the last one in front of it.
#[derive(Debug, Clone, Copy)]
struct Node<V> {
    slot: u32,
    previous: u32,
    next: u32,
    /// The hash in the index.
    hash: u32,
    span: Span,
    value: V,
}

impl<V: Value> Value for Node<V> {}

impl<V: Value> Owner for Node<V> {
    fn span(&self) -> Span {
        self.span
    }

    fn move_to(&mut self, span: Span) {
        self.span = span;
    }
}

/// Rows by position, in lists by slot, each with a value that has nothing on the heap.
#[derive(Debug)]
pub struct RowEntries<V> {
    layout: Arc<RowLayout>,
    identifier: Identifier,
    nodes: PagedVec<Node<V>>,
    positions: Slots,
    /// First row of each slot.
    heads: PagedVec<u32>,
    heap: ByteHeap,
    /// A hash of slot and identity, and the position: one table has the rows of all slots.
    index: HashTable<(u32, u32)>,
    /// With a time-to-live: when each row was written last.
    writes: Option<LastWrites>,
    /// Whether rows stay when they have expired.
    keeps_expired: bool,
    /// Bytes that were stored since chunks were cleaned.
    stored: usize,
    /// How often the rows of each slot were removed all at once.
    clearings: Vec<u32>,
}

/// Which rows of their table.
#[derive(Debug)]
pub struct RowEntriesId<V> {
    pub(crate) place: usize,
    pub(crate) value: PhantomData<fn() -> V>,
}

impl<V> Clone for RowEntriesId<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for RowEntriesId<V> {}

impl<V: Value + Copy> RowEntries<V> {
    /// No rows. Errors if the identity has a column that rows do not have.
    pub(crate) fn new(
        groups: KeyGroups,
        layout: RowLayout,
        identity: Identity,
        nothing: V,
        ttl: Option<StateTtl>,
    ) -> Result<Self, StateError> {
        let empty = Node { slot: NONE, previous: NONE, next: NONE, hash: 0, span: Span::default(), value: nothing };
        Ok(Self {
            identifier: Identifier::try_new(identity, &layout)?,
            layout: Arc::new(layout),
            nodes: PagedVec::new(empty),
            positions: Slots::new(groups),
            heads: PagedVec::new(NONE),
            heap: ByteHeap::default(),
            index: HashTable::new(),
            writes: ttl.map(LastWrites::new),
            keeps_expired: false,
            stored: 0,
            clearings: Vec::new(),
        })
    }

    /// Leaves rows that have expired where they are, for the operator to take them out: others may hang on them. They leave by
    /// themselves only with all of their key.
    pub fn keep_expired(&mut self) {
        self.keeps_expired = true;
    }

    /// How its rows are packed.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Packs rows `rows[i]` of `columns` into `batch`, where each is `i` from then on, with the hash of its identity. Errors
    /// if the columns are of other types or different lengths.
    pub fn pack(&self, columns: &[ArrayRef], rows: &[u32], batch: &mut PackedRows) -> Result<(), StateError> {
        batch.pack(&self.layout, &self.identifier, columns, rows)
    }

    /// The position of the row of `slot` that is the same as row `row` of `batch`. One that has expired is removed and not
    /// found; without identity none is.
    #[inline]
    pub fn find(&mut self, slot: u32, batch: &PackedRows, row: usize) -> Option<u32> {
        let short = combine(slot, batch.hash(row)?);
        let is_row = |candidate: &(u32, u32)| candidate.0 == short && self.is_same(candidate.1, slot, batch, row);
        let position = self.index.find(place(&(short, 0)), is_row)?.1;
        if self.expired(position) {
            self.remove(position);
            return None;
        }
        Some(position)
    }

    /// Reads what [`find`](RowEntries::find) and [`append`](RowEntries::append) of these rows, each a slot and a row of `batch`, will read,
    /// for nothing but to have it in the cache. No row depends on another one here, so that the processor waits for many of
    /// them at once; in what follows each would wait for itself.
    pub fn warm(&self, batch: &PackedRows, rows: impl Iterator<Item = (u32, usize)> + Clone) {
        if self.len() < WORTH_WARMING {
            return;
        }
        let found = |(slot, row): (u32, usize)| {
            let short = combine(slot, batch.hash(row)?);
            self.index.find(place(&(short, 0)), |candidate| candidate.0 == short).map(|found| found.1)
        };
        black_box(rows.clone().filter_map(found).fold(0, u32::wrapping_add));
        let behind_last = |(slot, _): (u32, usize)| self.last(slot).map(|last| self.nodes.get(last).next);
        black_box(rows.filter_map(behind_last).fold(0, u32::wrapping_add));
    }

    /// Whether the row at `position` is one of `slot`, and the same as row `row` of `batch`.
    #[inline]
    fn is_same(&self, position: u32, slot: u32, batch: &PackedRows, row: usize) -> bool {
        let node = self.nodes.get(position);
        node.slot == slot && self.identifier.same(&self.layout, self.bytes_at(node.span), batch, row)
    }

    /// Adds row `row` of `batch` behind the last row of `slot`, which must not have the same one, and returns its position.
    pub fn append(
        &mut self,
        slots: &Slots,
        slot: u32,
        batch: &PackedRows,
        row: usize,
        value: V,
    ) -> Result<u32, StateError> {
        self.insert(slots, slot, None, batch, row, value)
    }

    /// Adds row `row` of `batch` in front of the row at `before`, which is one of `slot`, or behind the last one. For the
    /// rest see [`RowEntries::append`].
    pub fn insert(
        &mut self,
        slots: &Slots,
        slot: u32,
        before: Option<u32>,
        batch: &PackedRows,
        row: usize,
        value: V,
    ) -> Result<u32, StateError> {
        let position = self.positions.acquire(slots.group(slot), "rows of keys")?;
        let bytes = batch.row(row);
        let span = match self.heap.push(position, [bytes, &[]]) {
            Ok(span) => span,
            Err(error) => {
                self.positions.release(position);
                return Err(error);
            }
        };
        self.stored += bytes.len();
        let hash = batch.hash(row).map_or(0, |hash| combine(slot, hash));
        let (previous, next) = self.link(slot, position, before);
        *self.nodes.get_mut(position) = Node { slot, previous, next, hash, span, value };
        if self.identifier.finds() {
            self.index.insert_unique(place(&(hash, 0)), (hash, position), place);
        }
        self.touch(position);
        Ok(position)
    }

    /// Makes room in the list of `slot` for a row at `position`; returns what is in front of it and behind it.
    fn link(&mut self, slot: u32, position: u32, before: Option<u32>) -> (u32, u32) {
        let head = *self.heads.get(slot);
        match before {
            _ if head == NONE => {
                *self.heads.get_mut(slot) = position;
                (position, NONE)
            }
            None => {
                let last = std::mem::replace(&mut self.nodes.get_mut(head).previous, position);
                self.nodes.get_mut(last).next = position;
                (last, NONE)
            }
            Some(before) => {
                let previous = std::mem::replace(&mut self.nodes.get_mut(before).previous, position);
                if before == head {
                    *self.heads.get_mut(slot) = position;
                } else {
                    self.nodes.get_mut(previous).next = position;
                }
                (previous, before)
            }
        }
    }

    /// Replaces the row at `position` by row `row` of `batch`, which must be the same by the identity or new to the slot. It
    /// keeps its place and its value, and lives anew.
    pub fn replace(&mut self, position: u32, batch: &PackedRows, row: usize) -> Result<(), StateError> {
        let bytes = batch.row(row);
        let span = self.heap.push(position, [bytes, &[]])?;
        self.stored += bytes.len();
        let slot = self.nodes.get(position).slot;
        let hash = batch.hash(row).map_or(0, |hash| combine(slot, hash));
        let node = self.nodes.get_mut(position);
        self.heap.discard(std::mem::replace(&mut node.span, span));
        let before = std::mem::replace(&mut node.hash, hash);
        if before != hash && self.identifier.finds() {
            self.unindex(before, position);
            self.index.insert_unique(place(&(hash, 0)), (hash, position), place);
        }
        self.touch(position);
        Ok(())
    }

    fn unindex(&mut self, hash: u32, position: u32) {
        if let Ok(found) = self.index.find_entry(place(&(hash, 0)), |entry| entry.1 == position) {
            found.remove();
        }
    }

    /// Takes the row at `position` out of its list and out of the index. It can still be read and gathered, until it is
    /// [released](RowEntries::release), which must be before the batch ends.
    pub fn detach(&mut self, position: u32) -> V {
        let nothing = self.nodes.empty().slot;
        let node = self.nodes.get_mut(position);
        let Node { previous, next, hash, value, .. } = *node;
        let slot = std::mem::replace(&mut node.slot, nothing);
        let head = *self.heads.get(slot);
        if head == position {
            *self.heads.get_mut(slot) = next;
        } else {
            self.nodes.get_mut(previous).next = next;
        }
        let behind = if next == NONE { head } else { next };
        if behind != position {
            self.nodes.get_mut(behind).previous = previous;
        }
        if self.identifier.finds() {
            self.unindex(hash, position);
        }
        if let Some(writes) = &mut self.writes {
            writes.forget(position);
        }
        value
    }

    /// Forgets the row at `position`, which was [detached](RowEntries::detach).
    pub fn release(&mut self, position: u32) {
        let empty = *self.nodes.empty();
        let node = std::mem::replace(self.nodes.get_mut(position), empty);
        self.heap.discard(node.span);
        self.positions.release(position);
    }

    /// Removes the row at `position`.
    pub fn remove(&mut self, position: u32) -> V {
        let value = self.detach(position);
        self.release(position);
        value
    }

    /// How often the rows of `slot` were removed all at once. Positions that were noted when it was another number are not valid, though
    /// the key may have the same rows again: while a table in a database is short of memory, keys come and go.
    #[inline]
    pub fn clearings(&self, slot: u32) -> u32 {
        self.clearings.get(slot as usize).copied().unwrap_or_default()
    }

    /// Removes all rows of `slot`.
    pub fn clear(&mut self, slot: u32) {
        if slot as usize >= self.clearings.len() {
            self.clearings.resize(slot as usize + 1, 0);
        }
        if let Some(clearings) = self.clearings.get_mut(slot as usize) {
            *clearings = clearings.wrapping_add(1);
        }
        let mut next = *self.heads.get(slot);
        if next == NONE {
            return;
        }
        *self.heads.get_mut(slot) = NONE;
        // none of them needs its place in the list any more
        while next != NONE {
            let position = next;
            let Node { next: behind, hash, .. } = *self.nodes.get(position);
            next = behind;
            if self.identifier.finds() {
                self.unindex(hash, position);
            }
            if let Some(writes) = &mut self.writes {
                writes.forget(position);
            }
            self.release(position);
        }
    }

    /// The value beside the row at `position`.
    #[inline]
    pub fn value(&self, position: u32) -> &V {
        &self.nodes.get(position).value
    }

    /// The value beside the row at `position`, for writing. The row lives anew from now on.
    #[inline]
    pub fn value_mut(&mut self, position: u32) -> &mut V {
        self.touch(position);
        &mut self.nodes.get_mut(position).value
    }

    /// Notes a write to the row at `position`, which lives anew from now on.
    #[inline]
    pub fn touch(&mut self, position: u32) {
        if let Some(writes) = &mut self.writes {
            writes.touch(position);
        }
    }

    /// Sets the value beside the row at `position`, which is as old as it was, or has expired from now on.
    pub fn set_value_of_expired(&mut self, position: u32, value: V) {
        self.nodes.get_mut(position).value = value;
        if let Some(writes) = &mut self.writes
            && !writes.expired(position)
        {
            writes.set(position, i64::MIN);
        }
    }

    /// The slot of the row at `position`.
    #[inline]
    pub fn slot(&self, position: u32) -> u32 {
        self.nodes.get(position).slot
    }

    /// The packed row at `position`: equal bytes are equal rows.
    #[inline]
    pub fn row(&self, position: u32) -> &[u8] {
        self.bytes_at(self.nodes.get(position).span)
    }

    #[inline]
    fn bytes_at(&self, span: Span) -> &[u8] {
        self.heap.get(span).get(OWNER_BYTES..).unwrap_or_default()
    }

    /// Whether the row at `position` has expired: it counts as absent.
    #[inline]
    pub fn expired(&self, position: u32) -> bool {
        self.writes.as_ref().is_some_and(|writes| writes.expired(position))
    }

    /// The first row of `slot`, expired or not.
    #[inline]
    pub fn first(&self, slot: u32) -> Option<u32> {
        Some(*self.heads.get(slot)).filter(|position| *position != NONE)
    }

    /// The last row of `slot`, expired or not.
    #[inline]
    pub fn last(&self, slot: u32) -> Option<u32> {
        self.first(slot).map(|first| self.nodes.get(first).previous)
    }

    /// The row behind the one at `position`, expired or not.
    #[inline]
    pub fn next(&self, position: u32) -> Option<u32> {
        Some(self.nodes.get(position).next).filter(|position| *position != NONE)
    }

    /// The row in front of the one at `position`, expired or not.
    #[inline]
    pub fn previous(&self, position: u32) -> Option<u32> {
        let node = self.nodes.get(position);
        (*self.heads.get(node.slot) != position).then_some(node.previous)
    }

    /// The positions of the rows of `slot` in order, without those that have expired, unless [they are kept](Self::keep_expired).
    #[inline]
    pub fn walk(&self, slot: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.first(slot), |position| self.next(*position))
            .filter(|position| self.keeps_expired || !self.expired(*position))
    }

    /// The rows at `positions`, in this order, as columns of the types of the layout. Errors if there is none at one, and if
    /// they have more text than a column can.
    pub fn gather(&self, positions: &[u32]) -> Result<Vec<ArrayRef>, StateError> {
        gather::columns(&self.layout, &self.packed_at(positions)?)
    }

    /// Of the rows at `positions` the columns of these numbers. Errors as [`RowEntries::gather`] does.
    pub fn gather_columns(&self, positions: &[u32], columns: &[usize]) -> Result<Vec<ArrayRef>, StateError> {
        gather::some_columns(&self.layout, &self.packed_at(positions)?, columns)
    }

    fn packed_at(&self, positions: &[u32]) -> Result<Vec<&[u8]>, StateError> {
        let row = |position: &u32| {
            let span = self.nodes.get(*position).span;
            (!span.is_empty()).then(|| self.bytes_at(span))
        };
        positions.iter().map(row).collect::<Option<Vec<_>>>().ok_or(StateError::NoRow)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Bytes taken, with what only snapshots still have.
    pub fn bytes(&self) -> usize {
        self.nodes.bytes()
            + self.positions.bytes()
            + self.heads.bytes()
            + self.heap.bytes()
            + self.index.allocation_size()
            + self.writes.as_ref().map_or(0, LastWrites::bytes)
            + self.clearings.capacity() * size_of::<u32>()
    }

    /// Takes back what snapshots do not need any more, and cleans up behind rows that were removed.
    fn maintain(&mut self, pages: usize) {
        self.nodes.maintain(pages);
        self.positions.maintain(pages);
        self.heads.maintain(pages);
        self.heap.maintain();
        if let Some(writes) = &mut self.writes {
            writes.maintain(pages);
        }
        // cleaning frees at least half of what it looks at
        let budget = LARGEST_CHUNK + 2 * std::mem::take(&mut self.stored);
        let layout = &self.layout;
        // if that fails, rows stay where they are
        let _ = self.heap.clean(&mut self.nodes, |row| layout.row_bytes(row), budget);
    }

    /// Adds a row that is restored. False if there is the same one already.
    fn restore(
        &mut self,
        slots: &Slots,
        slot: u32,
        batch: &PackedRows,
        row: usize,
        value: V,
    ) -> Result<Option<u32>, StateError> {
        if let Some(hash) = batch.hash(row) {
            let short = combine(slot, hash);
            let is_row = |candidate: &(u32, u32)| candidate.0 == short && self.is_same(candidate.1, slot, batch, row);
            if self.index.find(place(&(short, 0)), is_row).is_some() {
                return Ok(None);
            }
        }
        self.append(slots, slot, batch, row, value).map(Some)
    }
}
