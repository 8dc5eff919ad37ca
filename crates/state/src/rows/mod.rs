//! Whole rows by slot: what an operator keeps that hands rows on as they came.
//!
//! A row is packed into one run of bytes ([`layout`](RowLayout)), and rows lie one behind the other in chunks (`heap`), in the
//! order in which they were stored. Under a slot lies where its row is. So a row costs two cache misses however many
//! columns it has, storing rows is writing ahead, and a page that a snapshot shares is copied without looking at a row.
//! Rows go in and come out by column, many at once; nothing is decoded one by one.
//!
//! Packing is canonical: rows are equal exactly if their bytes are. So equality is that of Flink's BinaryRowData: NULL equals
//! NULL, FLOAT and DOUBLE are compared bit for bit, and row kinds do not count.
//!
//! Several rows per key are [`RowEntries`], packed alike.

mod column;
mod entries;
mod gather;
mod layout;
mod pack;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;

use crate::StateError;
use crate::heap::{ByteHeap, LARGEST_CHUNK, OWNER_BYTES, Span};
use crate::paged::PagedVec;

pub(crate) use self::column::StoredRows;
pub(crate) use self::entries::StoredRowEntries;
pub use self::entries::{Identity, PackedRows, RowEntries, RowEntriesId};
pub(crate) use self::gather::columns as gather_columns;
pub use self::layout::RowLayout;
pub(crate) use self::pack::Packed;

/// Which rows of their table.
#[derive(Debug, Clone, Copy)]
pub struct RowsId {
    pub(crate) place: usize,
}

/// Rows by slot. A slot whose key was just added has none.
#[derive(Debug)]
pub struct Rows {
    layout: Arc<RowLayout>,
    spans: PagedVec<Span>,
    heap: ByteHeap,
    packed: Packed,
}

impl Rows {
    /// No rows.
    pub fn new(layout: RowLayout) -> Self {
        Self {
            layout: Arc::new(layout),
            spans: PagedVec::new(Span::default()),
            heap: ByteHeap::default(),
            packed: Packed::default(),
        }
    }

    /// How its rows are packed.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Whether there is a row at `slot`.
    #[inline]
    pub fn has(&self, slot: u32) -> bool {
        !self.spans.get(slot).is_empty()
    }

    /// Stores row `rows[i]` of `columns` at `slots[i]`, in place of what is there; of a slot that comes twice the last one stays.
    /// Errors if the columns are of other types, or lists or columns of different lengths.
    pub fn store(&mut self, columns: &[ArrayRef], rows: &[u32], slots: &[u32]) -> Result<(), StateError> {
        if rows.len() != slots.len() {
            return Err(StateError::RowColumns);
        }
        self.packed.pack(&self.layout, columns, rows)?;
        for (slot, row) in slots.iter().zip(self.packed.rows()) {
            let span = self.heap.push(*slot, [row, &[]])?;
            let before = std::mem::replace(self.spans.get_mut(*slot), span);
            self.heap.discard(before);
        }
        // twice what came in: cleaning frees at least half of what it looks at
        self.heap.clean(&mut self.spans, |row| self.layout.row_bytes(row), 2 * self.packed.bytes())
    }

    /// Forgets the row at `slot`, if there is one.
    pub fn remove(&mut self, slot: u32) {
        if self.has(slot) {
            let before = std::mem::take(self.spans.get_mut(slot));
            self.heap.discard(before);
        }
    }

    /// The rows at `slots`, in this order, as columns of the types of the layout. Errors if there is none at a slot, and if
    /// they have more text than a column can.
    pub fn gather(&self, slots: &[u32]) -> Result<Vec<ArrayRef>, StateError> {
        gather::columns(&self.layout, &self.packed_at(slots)?)
    }

    /// Of the rows at `slots` the columns of these numbers. Errors as [`Rows::gather`] does.
    pub fn gather_columns(&self, slots: &[u32], columns: &[usize]) -> Result<Vec<ArrayRef>, StateError> {
        gather::some_columns(&self.layout, &self.packed_at(slots)?, columns)
    }

    fn packed_at(&self, slots: &[u32]) -> Result<Vec<&[u8]>, StateError> {
        slots.iter().map(|slot| self.get(*slot)).collect::<Option<Vec<_>>>().ok_or(StateError::NoRow)
    }

    /// Bit `i`: whether there is a row at `slots[i]` that equals row `rows[i]` of `columns`. Errors as [`Rows::store`] does.
    pub fn equal(&mut self, columns: &[ArrayRef], rows: &[u32], slots: &[u32]) -> Result<BooleanBuffer, StateError> {
        if rows.len() != slots.len() {
            return Err(StateError::RowColumns);
        }
        self.packed.pack(&self.layout, columns, rows)?;
        let pairs = slots.iter().zip(self.packed.rows());
        Ok(pairs.map(|(slot, row)| self.get(*slot) == Some(row)).collect())
    }

    /// The packed row at `slot`: equal bytes are equal rows.
    #[inline]
    pub fn get(&self, slot: u32) -> Option<&[u8]> {
        let span = *self.spans.get(slot);
        (!span.is_empty()).then(|| &self.heap.get(span)[OWNER_BYTES..])
    }

    /// Takes back what snapshots do not need any more, and cleans up behind rows that were removed.
    pub(crate) fn maintain(&mut self, pages: usize) {
        self.spans.maintain(pages);
        self.heap.maintain();
        // if that fails, rows stay where they are
        let _ = self.heap.clean(&mut self.spans, |row| self.layout.row_bytes(row), LARGEST_CHUNK);
    }

    /// Bytes taken, with what only snapshots still have.
    pub fn bytes(&self) -> usize {
        self.spans.bytes() + self.heap.bytes() + self.packed.capacity()
    }
}
