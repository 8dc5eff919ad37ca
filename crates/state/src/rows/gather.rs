//! Packed rows to Arrow columns, column by column.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, BooleanArray, StringArray, StructArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};

use super::layout::{Place, RowLayout, ValuePlace, end_at};
use crate::StateError;
use crate::codec::fixed_array;

/// The rows as columns.
pub(crate) fn columns(layout: &RowLayout, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, StateError> {
    gather(layout, rows, layout.fields.iter())
}

/// Some columns of the rows, by number. Errors if there is none of a number.
pub(super) fn some_columns(layout: &RowLayout, rows: &[&[u8]], numbers: &[usize]) -> Result<Vec<ArrayRef>, StateError> {
    let places: Option<Vec<&Place>> = numbers.iter().map(|number| layout.fields.get(*number)).collect();
    gather(layout, rows, places.ok_or(StateError::RowColumns)?.into_iter())
}

fn gather<'a>(
    layout: &RowLayout,
    rows: &[&[u8]],
    places: impl Iterator<Item = &'a Place>,
) -> Result<Vec<ArrayRef>, StateError> {
    let mut valid = vec![u8::MAX; layout.validity];
    for row in rows {
        valid.iter_mut().zip(*row).for_each(|(valid, byte)| *valid &= byte);
    }
    let reader = Reader { rows, valid, fixed: layout.fixed };
    places.map(|place| reader.column(place)).collect()
}

struct Reader<'a> {
    rows: &'a [&'a [u8]],
    /// The validity bits that all rows have.
    valid: Vec<u8>,
    fixed: usize,
}

/// A fault of this module: the arrays do not fit together.
fn unfit<E>(_: E) -> StateError {
    StateError::RowColumns
}

impl Reader<'_> {
    fn column(&self, place: &Place) -> Result<ArrayRef, StateError> {
        let nulls = self.nulls(place.bit);
        Ok(match &place.value {
            ValuePlace::Boolean { offset } => {
                let values = BooleanBuffer::collect_bool(self.rows.len(), |row| self.rows[row][*offset] != 0);
                Arc::new(BooleanArray::new(values, nulls))
            }
            ValuePlace::Fixed { offset, width } => {
                let (offset, ty) = (*offset, &place.ty);
                match width {
                    1 => self.values::<u8, 1>(offset, nulls, ty, u8::from_le_bytes)?,
                    2 => self.values::<u16, 2>(offset, nulls, ty, u16::from_le_bytes)?,
                    4 => self.values::<u32, 4>(offset, nulls, ty, u32::from_le_bytes)?,
                    8 => self.values::<u64, 8>(offset, nulls, ty, u64::from_le_bytes)?,
                    _ => self.values::<i128, 16>(offset, nulls, ty, i128::from_le_bytes)?,
                }
            }
            ValuePlace::Text { offset, before } => self.text(*offset, *before, nulls, &place.ty)?,
            ValuePlace::Row { fields, children } => {
                let columns = children.iter().map(|child| self.column(child)).collect::<Result<Vec<_>, _>>()?;
                let rows = self.rows.len();
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows).map_err(unfit)?)
            }
        })
    }

    fn nulls(&self, bit: usize) -> Option<NullBuffer> {
        let (byte, mask) = (bit / 8, 1 << (bit % 8));
        if self.valid.get(byte).is_none_or(|valid| valid & mask != 0) {
            return None;
        }
        Some(BooleanBuffer::collect_bool(self.rows.len(), |row| self.rows[row][byte] & mask != 0).into())
    }

    fn values<T: ArrowNativeType, const N: usize>(
        &self,
        offset: usize,
        nulls: Option<NullBuffer>,
        ty: &DataType,
        of_bytes: impl Fn([u8; N]) -> T,
    ) -> Result<ArrayRef, StateError> {
        let value = |row: &&[u8]| row[offset..].first_chunk::<N>().map_or_else(T::default, |bytes| of_bytes(*bytes));
        fixed_array(self.rows.iter().map(value).collect(), nulls, ty).map_err(unfit)
    }

    fn text(
        &self,
        offset: usize,
        before: Option<usize>,
        nulls: Option<NullBuffer>,
        ty: &DataType,
    ) -> Result<ArrayRef, StateError> {
        let mut data = Vec::new();
        let mut offsets = Vec::with_capacity(self.rows.len() + 1);
        offsets.push(0_i32);
        let full = |_| StateError::Full { what: "bytes of text in a column", limit: i32::MAX.unsigned_abs().into() };
        for row in self.rows {
            let start = before.and_then(|at| end_at(row, at)).unwrap_or_default();
            let end = end_at(row, offset).unwrap_or_default();
            data.extend_from_slice(&row[self.fixed + start..self.fixed + end]);
            offsets.push(i32::try_from(data.len()).map_err(full)?);
        }
        let (offsets, data) = (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(data));
        Ok(match ty {
            DataType::Utf8 => Arc::new(StringArray::try_new(offsets, data, nulls).map_err(unfit)?),
            _ => Arc::new(BinaryArray::try_new(offsets, data, nulls).map_err(unfit)?),
        })
    }
}
