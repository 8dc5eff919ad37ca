//! Reads the fields of rows back into columns.
//!
//! Rows come out of state, so they are checked: what this module's encoder cannot have written is an error.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimestampMillisecondType,
};

use super::encoder::{KeyEncoder, KeyError, KeyField, Layout, MAX_INLINE, null_word_bytes};
use crate::timestamp::join_nanos;

/// A field of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) row: &'a [u8],
    pub(crate) value: u64,
}

impl<'a> Slot<'a> {
    /// The field of number `field` of `fields`: `None` if there is no such slot, `Some(None)` if it is NULL.
    #[inline]
    fn of(row: &'a [u8], field: usize, fields: usize) -> Option<Option<Self>> {
        let bit = field + 8;
        let value = row.get(null_word_bytes(fields) + 8 * field..)?.first_chunk()?;
        let null = row.get(bit / 8)? >> (bit % 8) & 1 == 1;
        Some((!null).then(|| Self { row, value: u64::from_le_bytes(*value) }))
    }

    /// The low half: a length, or nanoseconds.
    pub(crate) fn low(self) -> u32 {
        self.value as u32
    }

    /// Bytes behind the slots, from where the slot says.
    pub(crate) fn part(self, len: usize) -> Option<&'a [u8]> {
        self.row.get((self.value >> 32) as usize..)?.get(..len)
    }
}

/// The bytes of a text or binary value. `slots` is where the slot itself lies in the row.
#[inline]
pub(crate) fn bytes<'a>(slot: Slot<'a>, start: usize) -> Option<&'a [u8]> {
    let mark = slot.value >> 56;
    if mark & 0x80 == 0 {
        return slot.part(slot.low() as usize);
    }
    let len = (mark & 0x7F) as usize;
    if len > MAX_INLINE { None } else { slot.row.get(start..)?.get(..len) }
}

#[inline]
pub(crate) fn wide_decimal(slot: Slot<'_>) -> Option<i128> {
    let bytes = slot.part(slot.low() as usize)?;
    let (first, len) = (*bytes.first()?, bytes.len());
    if len > 16 {
        return None;
    }
    let mut value = [if first & 0x80 == 0 { 0 } else { 0xFF }; 16];
    value.get_mut(16 - len..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(value))
}

#[inline]
pub(crate) fn nano_timestamp(slot: Slot<'_>) -> Option<i128> {
    let millis = i64::from_le_bytes(*slot.part(8)?.first_chunk()?);
    (slot.low() < 1_000_000).then(|| join_nanos(millis, slot.low().into()))
}

impl KeyEncoder {
    /// The columns of keys that were encoded with this encoder. Errors if a key cannot be one of those.
    pub fn decode(&self, rows: &[&[u8]]) -> Result<Vec<ArrayRef>, KeyError> {
        (0..self.fields.len()).map(|field| self.decode_field(rows, field)).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "a narrower value is the low bits of its slot")]
    fn decode_field(&self, rows: &[&[u8]], field: usize) -> Result<ArrayRef, KeyError> {
        let Some(KeyField { layout, arrow }) = self.fields.get(field) else {
            return Err(KeyError::Columns { expected: self.fields.len(), found: field });
        };
        let fields = Fields { rows, field, fields: self.fields.len(), arrow };
        let start = null_word_bytes(self.fields.len()) + 8 * field;
        match (layout, arrow) {
            (Layout::Bytes, DataType::Utf8) => {
                let mut builder = StringBuilder::with_capacity(rows.len(), 8 * rows.len());
                fields.each(|slot| {
                    match slot {
                        None => builder.append_null(),
                        Some(slot) => builder.append_value(std::str::from_utf8(bytes(slot, start)?).ok()?),
                    }
                    Some(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            (Layout::Bytes, _) => {
                let mut builder = BinaryBuilder::with_capacity(rows.len(), 8 * rows.len());
                fields.each(|slot| {
                    match slot {
                        None => builder.append_null(),
                        Some(slot) => builder.append_value(bytes(slot, start)?),
                    }
                    Some(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            (Layout::WideDecimal, _) => fields.primitive::<Decimal128Type>(wide_decimal),
            (Layout::NanoTimestamp, _) => fields.primitive::<Decimal128Type>(nano_timestamp),
            (Layout::Slot, DataType::Boolean) => {
                let mut builder = BooleanBuilder::with_capacity(rows.len());
                fields.each(|slot| {
                    builder.append_option(slot.map(|slot| slot.value != 0));
                    Some(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            (Layout::Slot, DataType::Int8) => fields.primitive::<Int8Type>(|slot| Some(slot.value as i8)),
            (Layout::Slot, DataType::Int16) => fields.primitive::<Int16Type>(|slot| Some(slot.value as i16)),
            (Layout::Slot, DataType::Int32) => fields.primitive::<Int32Type>(|slot| Some(slot.value as i32)),
            (Layout::Slot, DataType::Date32) => fields.primitive::<Date32Type>(|slot| Some(slot.value as i32)),
            (Layout::Slot, DataType::Time32(_)) => {
                fields.primitive::<Time32MillisecondType>(|slot| Some(slot.value as i32))
            }
            (Layout::Slot, DataType::Float32) => {
                fields.primitive::<Float32Type>(|slot| Some(f32::from_bits(slot.value as u32)))
            }
            (Layout::Slot, DataType::Float64) => {
                fields.primitive::<Float64Type>(|slot| Some(f64::from_bits(slot.value)))
            }
            (Layout::Slot, DataType::Timestamp(..)) => {
                fields.primitive::<TimestampMillisecondType>(|slot| Some(slot.value.cast_signed()))
            }
            (Layout::Slot, DataType::Decimal128(..)) => {
                fields.primitive::<Decimal128Type>(|slot| Some(slot.value.cast_signed().into()))
            }
            (Layout::Slot, _) => fields.primitive::<Int64Type>(|slot| Some(slot.value.cast_signed())),
        }
    }
}

/// One field of all rows.
struct Fields<'a> {
    rows: &'a [&'a [u8]],
    field: usize,
    fields: usize,
    arrow: &'a DataType,
}

impl<'a> Fields<'a> {
    /// Calls `each` with the field of each row; where it says `None`, the row is malformed.
    #[inline]
    fn each(&self, mut each: impl FnMut(Option<Slot<'a>>) -> Option<()>) -> Result<(), KeyError> {
        for (row, bytes) in self.rows.iter().enumerate() {
            let taken = Slot::of(bytes, self.field, self.fields).and_then(&mut each);
            taken.ok_or_else(|| KeyError::Malformed { column: self.field, row, expected: self.arrow.clone() })?;
        }
        Ok(())
    }

    #[inline]
    fn primitive<T: ArrowPrimitiveType>(
        &self,
        value: impl Fn(Slot<'a>) -> Option<T::Native>,
    ) -> Result<ArrayRef, KeyError> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.rows.len()).with_data_type(self.arrow.clone());
        self.each(|slot| {
            match slot {
                None => builder.append_null(),
                Some(slot) => builder.append_value(value(slot)?),
            }
            Some(())
        })?;
        Ok(Arc::new(builder.finish()))
    }
}
