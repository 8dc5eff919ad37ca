//! One value per key: a column of a table.

use std::any::Any;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;

use crate::canonical::Fault;
use crate::codec::{Codec, SectionColumns};
use crate::keyed::RestoreError;
use crate::paged::{PagedSnapshot, PagedVec, Value};
use crate::slots::{UsedPage, bits};

/// Values by slot. A slot whose key was just added has the empty value.
#[derive(Debug)]
pub struct Column<T> {
    values: PagedVec<T>,
    /// Bytes that values have on the heap, beyond those of the empty value.
    heap: usize,
    empty_heap: usize,
}

impl<T: Value> Column<T> {
    pub(crate) fn new(empty: T) -> Self {
        let empty_heap = empty.heap_bytes();
        Self { values: PagedVec::new(empty), heap: 0, empty_heap }
    }

    /// What a value adds to `heap`: nothing if it is the empty one, which lies in places that were never counted.
    #[inline]
    fn heap_of(value: &T, empty_heap: usize) -> usize {
        value.heap_bytes().saturating_sub(empty_heap)
    }

    /// The value at `slot`.
    #[inline]
    pub fn get(&self, slot: u32) -> &T {
        self.values.get(slot)
    }

    /// Replaces the value at `slot` by the empty one.
    #[inline]
    pub fn take(&mut self, slot: u32) -> T {
        let empty = self.values.empty().clone();
        let taken = std::mem::replace(self.values.get_mut(slot), empty);
        self.heap -= Self::heap_of(&taken, self.empty_heap);
        taken
    }

    /// Sets the value at `slot`.
    #[inline]
    pub fn set(&mut self, slot: u32, value: T) {
        let place = self.values.get_mut(slot);
        self.heap = self.heap - Self::heap_of(place, self.empty_heap) + Self::heap_of(&value, self.empty_heap);
        *place = value;
    }
}

/// Which column of its table.
#[derive(Debug)]
pub struct ColumnId<T> {
    pub(crate) place: usize,
    pub(crate) value: PhantomData<fn() -> T>,
}

impl<T> Clone for ColumnId<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ColumnId<T> {}

/// A column, whatever its values.
pub(crate) trait AnyColumn: Debug + Send {
    /// The [`Column`] itself.
    fn typed(&mut self) -> &mut dyn Any;

    fn reset(&mut self, slot: u32);

    fn maintain(&mut self, pages: usize);

    fn bytes(&self) -> usize;

    fn fields(&self, out: &mut Vec<Field>);

    fn snapshot(&mut self) -> Box<dyn ColumnSnapshot>;

    /// Adds the Arrow columns of some slots in use, in their order.
    fn encode_slots(&self, slots: &[u32], out: &mut Vec<ArrayRef>) -> Result<(), Fault>;

    /// Sets the values of a batch; `slots` are those of its rows.
    fn restore(&mut self, columns: &mut SectionColumns<'_>, slots: &[u32]) -> Result<(), RestoreError>;
}

/// The values of a column at one moment.
pub(crate) trait ColumnSnapshot: Debug + Send + Sync {
    /// Adds the Arrow columns of the slots in use, `rows` of them.
    fn encode(&self, pages: &[UsedPage], rows: usize, out: &mut Vec<ArrayRef>) -> Result<(), Fault>;

    /// Bytes that the values of the slots in use take at most, `rows` of them.
    fn bytes_bound(&self, pages: &[UsedPage], rows: usize) -> usize;
}

/// A column with what makes it Arrow columns.
#[derive(Debug)]
pub(crate) struct Stored<T, C> {
    column: Column<T>,
    format: Arc<Format<C>>,
}

#[derive(Debug)]
struct Format<C> {
    prefix: String,
    codec: C,
    /// What the values are, in words.
    definition: Option<String>,
}

impl<T: Value, C: Codec<T>> Stored<T, C> {
    pub(crate) fn new(prefix: String, definition: Option<String>, codec: C, empty: T) -> Self {
        Self { column: Column::new(empty), format: Arc::new(Format { prefix, codec, definition }) }
    }
}

impl<T: Value, C: Codec<T>> AnyColumn for Stored<T, C> {
    fn typed(&mut self) -> &mut dyn Any {
        &mut self.column
    }

    fn reset(&mut self, slot: u32) {
        self.column.take(slot);
    }

    fn maintain(&mut self, pages: usize) {
        self.column.values.maintain(pages);
    }

    fn bytes(&self) -> usize {
        self.column.values.bytes() + self.column.heap
    }

    fn fields(&self, out: &mut Vec<Field>) {
        let Format { prefix, codec, definition } = &*self.format;
        let mut fields = Vec::new();
        codec.fields(prefix, &mut fields);
        out.extend(fields.into_iter().map(|field| crate::codec::with_definition(field, definition.as_deref())));
    }

    fn snapshot(&mut self) -> Box<dyn ColumnSnapshot> {
        Box::new(Snapshot { values: self.column.values.snapshot(), format: Arc::clone(&self.format) })
    }

    fn encode_slots(&self, slots: &[u32], out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        let codec = &self.format.codec;
        let mut writer = codec.writer(slots.len());
        slots.iter().for_each(|slot| codec.write(&mut writer, self.column.get(*slot)));
        codec.finish(writer, out)
    }

    fn restore(&mut self, columns: &mut SectionColumns<'_>, slots: &[u32]) -> Result<(), RestoreError> {
        let Format { prefix, codec, definition } = &*self.format;
        columns.define(definition.as_deref());
        let reader = codec.reader(prefix, columns)?;
        for (row, slot) in slots.iter().enumerate() {
            let value = codec.read(&reader, row).map_err(|what| columns.value_error(row, what))?;
            self.column.set(*slot, value);
        }
        columns.define(None);
        Ok(())
    }
}

#[derive(Debug)]
struct Snapshot<T, C> {
    values: PagedSnapshot<T>,
    format: Arc<Format<C>>,
}

/// Calls `each` with the values of the slots in use, page by page.
#[inline]
pub(crate) fn for_each_used<T: Value>(values: &PagedSnapshot<T>, pages: &[UsedPage], mut each: impl FnMut(&T)) {
    for UsedPage { page, used } in pages {
        match values.page(*page as usize) {
            Some(page) if *used == u64::MAX => page.iter().for_each(&mut each),
            Some(page) => bits(*used).for_each(|bit| each(&page[bit])),
            None => bits(*used).for_each(|_| each(values.empty())),
        }
    }
}

impl<T: Value, C: Codec<T>> ColumnSnapshot for Snapshot<T, C> {
    fn encode(&self, pages: &[UsedPage], rows: usize, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        let codec = &self.format.codec;
        let mut writer = codec.writer(rows);
        for_each_used(&self.values, pages, |value| codec.write(&mut writer, value));
        codec.finish(writer, out)
    }

    fn bytes_bound(&self, pages: &[UsedPage], rows: usize) -> usize {
        let mut fields = Vec::new();
        self.format.codec.fields("", &mut fields);
        let fixed = fields.iter().map(|field| field_bytes(field.data_type())).sum::<usize>() * rows;
        let mut heap = 0;
        if fields.iter().any(|field| field.data_type().primitive_width().is_none()) {
            for_each_used(&self.values, pages, |value| heap += value.heap_bytes());
        }
        fixed + heap
    }
}

/// Bytes per row of a column of this type, with the bit that says whether it is NULL and without what is on the heap.
pub(crate) fn field_bytes(ty: &arrow::datatypes::DataType) -> usize {
    ty.primitive_width().unwrap_or(size_of::<i32>()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_value_with_bytes_on_the_heap_counts_nothing() {
        let text = |len: usize| -> Arc<[u8]> { vec![0; len].into() };
        let mut column = Column::new(text(100));
        column.take(0);
        assert_eq!(column.heap, 0);
        column.set(0, text(1000));
        column.set(1, text(5));
        assert_eq!(column.heap, 900);
        column.take(0);
        column.take(1);
        assert_eq!(column.heap, 0);
    }
}
