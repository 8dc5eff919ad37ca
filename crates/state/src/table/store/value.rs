//! What lies under a key: the values of the table's columns, then those of its entries.
//!
//! ```text
//! u32 little-endian: bytes of the row | the row of the main section, packed | per kind of entries: u32 number of rows | each row, packed
//! ```
//!
//! Rows are packed as in [`RowLayout`]; the columns are those of the sections of the canonical form, without key, namespace and row number. The
//! version record says which they are.

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;

use super::StoreError;
use crate::StateError;
use crate::rows::{Packed, RowLayout, gather_columns};

/// Columns and how they are packed.
#[derive(Debug)]
pub(super) struct SectionLayout {
    pub(super) schema: SchemaRef,
    layout: RowLayout,
    packed: Packed,
}

impl SectionLayout {
    pub(super) fn try_new(schema: SchemaRef) -> Result<Self, StateError> {
        let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        Ok(Self { layout: RowLayout::try_new(&types)?, schema, packed: Packed::default() })
    }

    pub(super) fn pack(&mut self, columns: &[ArrayRef], rows: usize) -> Result<(), StateError> {
        let numbers: Vec<u32> = (0..).take(rows).collect();
        self.packed.pack(&self.layout, columns, &numbers)
    }

    fn row(&self, number: usize) -> &[u8] {
        self.packed.row(number)
    }

    /// Rows that [`ValueLayout::split`] has found, as columns.
    pub(super) fn columns(&self, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, StateError> {
        gather_columns(&self.layout, rows)
    }
}

/// The sections of a table.
#[derive(Debug)]
pub(super) struct ValueLayout {
    pub(super) main: SectionLayout,
    pub(super) entries: Vec<SectionLayout>,
}

/// Rows of the values that were read: `main` has one per value, `entries` any number, each with the number of its value.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    pub(super) main: Vec<&'a [u8]>,
    pub(super) entries: Vec<(Vec<u32>, Vec<&'a [u8]>)>,
}

impl ValueLayout {
    /// Appends the value of number `number` of those that were packed: `counts` has per kind of entries how many each number has, and
    /// `starts` which one is its first.
    pub(super) fn append(
        &self,
        number: usize,
        counts: &[Vec<u32>],
        starts: &mut [usize],
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let main = self.main.row(number);
        out.extend(u32::try_from(main.len()).ok()?.to_le_bytes());
        out.extend_from_slice(main);
        for ((section, counts), start) in self.entries.iter().zip(counts).zip(starts) {
            let count = *counts.get(number)?;
            out.extend(count.to_le_bytes());
            let rows = *start..*start + count as usize;
            *start = rows.end;
            rows.for_each(|row| out.extend_from_slice(section.row(row)));
        }
        Some(())
    }

    pub(super) fn found<'a>(&self) -> Found<'a> {
        Found { main: Vec::new(), entries: self.entries.iter().map(|_| Default::default()).collect() }
    }

    /// Adds the rows of a value to those that were found. Errors, and says why, if it is none.
    pub(super) fn split<'a>(&self, value: &'a [u8], found: &mut Found<'a>) -> Result<(), &'static str> {
        let mut rest = value;
        let length = take_u32(&mut rest)? as usize;
        let main = take(&mut rest, length)?;
        if !self.main.layout.is_row(main) {
            return Err("its row has another layout");
        }
        let number = u32::try_from(found.main.len()).map_err(|_| "too many values at once")?;
        found.main.push(main);
        for (section, (numbers, rows)) in self.entries.iter().zip(&mut found.entries) {
            for _ in 0..take_u32(&mut rest)? {
                if rest.len() < section.layout.fixed_bytes() {
                    return Err("it ends in the middle of a row");
                }
                let length = section.layout.row_bytes(rest);
                let row = take(&mut rest, length)?;
                if !section.layout.is_row(row) {
                    return Err("a row has another layout");
                }
                numbers.push(number);
                rows.push(row);
            }
        }
        if rest.is_empty() { Ok(()) } else { Err("it has bytes behind its end") }
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], &'static str> {
    let (taken, left) = rest.split_at_checked(length).ok_or("it ends too early")?;
    *rest = left;
    Ok(taken)
}

fn take_u32(rest: &mut &[u8]) -> Result<u32, &'static str> {
    let bytes = take(rest, size_of::<u32>())?;
    Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
}

/// A value that does not fit.
pub(super) fn too_large() -> StateError {
    StoreError::Unwritable("a key has 4 GiB of values or more".to_owned()).into()
}
