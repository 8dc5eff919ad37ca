//! Rows of a batch to packed rows, column by column.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowNativeType, DataType};

use super::layout::{END_BYTES, Place, RowLayout, ValuePlace};
use crate::StateError;
use crate::codec::fixed_values;

/// Packed rows, one behind the other. Used again from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// Where each row begins, and where the last one ends.
    starts: Vec<usize>,
    /// Per row: how much text it has so far.
    text: Vec<usize>,
}

impl Packed {
    /// Packs the rows of these numbers. Errors if the columns are of other types than the layout says, or do not have a row.
    pub(crate) fn pack(&mut self, layout: &RowLayout, columns: &[ArrayRef], rows: &[u32]) -> Result<(), StateError> {
        let most = rows.iter().copied().max().map_or(0, |row| row as usize + 1);
        if columns.len() != layout.fields.len() || columns.iter().any(|column| column.len() < most) {
            return Err(StateError::RowColumns);
        }
        self.text.clear();
        self.text.resize(rows.len(), 0);
        for (place, column) in layout.fields.iter().zip(columns) {
            add_text_bytes(place, column, None, rows, &mut self.text)?;
        }
        self.starts.clear();
        let mut end = 0;
        for text in &self.text {
            self.starts.push(end);
            if u32::try_from(*text).is_err() {
                return Err(StateError::Full { what: "bytes of text in one row", limit: u64::from(u32::MAX) });
            }
            end += layout.fixed + text;
        }
        self.bytes.resize(end, 0);
        // what stands in the place of a NULL is zero; all text is written
        for start in &self.starts {
            self.bytes[*start..start + layout.fixed].fill(0);
        }
        self.text.fill(0);
        let mut writer =
            Writer { bytes: &mut self.bytes, starts: &self.starts, text: &mut self.text, rows, fixed: layout.fixed };
        for (place, column) in layout.fields.iter().zip(columns) {
            writer.column(place, column, None)?;
        }
        self.starts.push(end);
        Ok(())
    }

    /// The rows, in the order in which they were asked for.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.starts.windows(2).map(|ends| match ends {
            [start, end] => &self.bytes[*start..*end],
            _ => &[],
        })
    }

    /// The row that was asked for as number `number`.
    #[inline]
    pub(crate) fn row(&self, number: usize) -> &[u8] {
        match self.starts.get(number..number + 2) {
            Some([start, end]) => &self.bytes[*start..*end],
            _ => &[],
        }
    }

    /// Bytes of all rows.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes held.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity() + (self.starts.capacity() + self.text.capacity()) * size_of::<usize>()
    }
}

/// What is NULL in a field: the field itself, or the ROW around it.
fn nulls(column: &ArrayRef, around: Option<&NullBuffer>) -> Option<NullBuffer> {
    NullBuffer::union(column.nulls(), around).filter(|nulls| nulls.null_count() > 0)
}

fn text_parts(column: &ArrayRef) -> Option<(&[i32], &[u8])> {
    Some(match column.data_type() {
        DataType::Utf8 => {
            let array = column.as_string_opt::<i32>()?;
            (array.value_offsets(), array.value_data())
        }
        DataType::Binary => {
            let array = column.as_binary_opt::<i32>()?;
            (array.value_offsets(), array.value_data())
        }
        _ => return None,
    })
}

/// The children of a ROW.
fn children<'a>(column: &'a ArrayRef, places: &[Place]) -> Result<&'a [ArrayRef], StateError> {
    let columns = column.as_struct_opt().map(|array| array.columns()).unwrap_or_default();
    if columns.len() == places.len() { Ok(columns) } else { Err(StateError::RowColumns) }
}

/// Adds how many bytes of text each row has in this column.
fn add_text_bytes(
    place: &Place,
    column: &ArrayRef,
    around: Option<&NullBuffer>,
    rows: &[u32],
    sums: &mut [usize],
) -> Result<(), StateError> {
    match &place.value {
        ValuePlace::Boolean { .. } | ValuePlace::Fixed { .. } => {}
        ValuePlace::Text { .. } => {
            let (offsets, _) =
                text_parts(column).filter(|_| column.data_type() == &place.ty).ok_or(StateError::RowColumns)?;
            // offsets ascend
            let length = |row: usize| (offsets[row + 1] - offsets[row]) as usize;
            match nulls(column, around) {
                None => sums.iter_mut().zip(rows).for_each(|(sum, row)| *sum += length(*row as usize)),
                Some(nulls) => {
                    for (sum, row) in sums.iter_mut().zip(rows) {
                        *sum += if nulls.is_valid(*row as usize) { length(*row as usize) } else { 0 };
                    }
                }
            }
        }
        ValuePlace::Row { children: places, .. } => {
            let nulls = nulls(column, around);
            for (place, column) in places.iter().zip(children(column, places)?) {
                add_text_bytes(place, column, nulls.as_ref(), rows, sums)?;
            }
        }
    }
    Ok(())
}

struct Writer<'a> {
    bytes: &'a mut [u8],
    starts: &'a [usize],
    text: &'a mut [usize],
    rows: &'a [u32],
    fixed: usize,
}

impl Writer<'_> {
    fn column(&mut self, place: &Place, column: &ArrayRef, around: Option<&NullBuffer>) -> Result<(), StateError> {
        let nulls = nulls(column, around);
        self.validity(place.bit, nulls.as_ref());
        match &place.value {
            ValuePlace::Boolean { offset } => {
                let array = column.as_boolean_opt().ok_or(StateError::RowColumns)?;
                let values = array.values();
                self.fixed(*offset, nulls.as_ref(), |row| [u8::from(values.value(row))]);
            }
            ValuePlace::Fixed { offset, width } => {
                if column.data_type() != &place.ty {
                    return Err(StateError::RowColumns);
                }
                match width {
                    1 => self.values::<u8, 1>(*offset, column, nulls.as_ref(), u8::to_le_bytes)?,
                    2 => self.values::<u16, 2>(*offset, column, nulls.as_ref(), u16::to_le_bytes)?,
                    4 => self.values::<u32, 4>(*offset, column, nulls.as_ref(), u32::to_le_bytes)?,
                    8 => self.values::<u64, 8>(*offset, column, nulls.as_ref(), u64::to_le_bytes)?,
                    _ => self.values::<i128, 16>(*offset, column, nulls.as_ref(), i128::to_le_bytes)?,
                }
            }
            ValuePlace::Text { offset, .. } => self.text(*offset, column, nulls.as_ref())?,
            ValuePlace::Row { children: places, .. } => {
                for (place, column) in places.iter().zip(children(column, places)?) {
                    self.column(place, column, nulls.as_ref())?;
                }
            }
        }
        Ok(())
    }

    fn validity(&mut self, bit: usize, nulls: Option<&NullBuffer>) {
        let (byte, mask) = (bit / 8, 1 << (bit % 8));
        match nulls {
            None => self.starts.iter().for_each(|start| self.bytes[start + byte] |= mask),
            Some(nulls) => {
                for (start, row) in self.starts.iter().zip(self.rows) {
                    self.bytes[start + byte] |= if nulls.is_valid(*row as usize) { mask } else { 0 };
                }
            }
        }
    }

    fn values<T: ArrowNativeType, const N: usize>(
        &mut self,
        offset: usize,
        column: &ArrayRef,
        nulls: Option<&NullBuffer>,
        to_bytes: impl Fn(T) -> [u8; N],
    ) -> Result<(), StateError> {
        let values = fixed_values::<T>(column).ok_or(StateError::RowColumns)?;
        self.fixed(offset, nulls, |row| to_bytes(values[row]));
        Ok(())
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, offset: usize, nulls: Option<&NullBuffer>, value: impl Fn(usize) -> [u8; N]) {
        for (start, row) in self.starts.iter().zip(self.rows) {
            let row = *row as usize;
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                self.bytes[start + offset..start + offset + N].copy_from_slice(&value(row));
            }
        }
    }

    fn text(&mut self, offset: usize, column: &ArrayRef, nulls: Option<&NullBuffer>) -> Result<(), StateError> {
        let (offsets, data) = text_parts(column).ok_or(StateError::RowColumns)?;
        for ((start, row), text) in self.starts.iter().zip(self.rows).zip(self.text.iter_mut()) {
            let row = *row as usize;
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                // offsets ascend from 0
                let value = &data[offsets[row] as usize..offsets[row + 1] as usize];
                let at = start + self.fixed + *text;
                self.bytes[at..at + value.len()].copy_from_slice(value);
                *text += value.len();
            }
            // checked when the lengths were added up
            let end = (*text as u32).to_le_bytes();
            self.bytes[start + offset..start + offset + END_BYTES].copy_from_slice(&end);
        }
        Ok(())
    }
}
