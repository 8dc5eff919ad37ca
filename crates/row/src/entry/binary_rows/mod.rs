//! Columns out of rows that arrive in Flink's binary form.
//!
//! A writer that has such rows copies each as it is instead of asking it for its fields one by one; their fields are read here.
//! In the buffer each row stands behind a word with its length in bytes, both little-endian:
//!
//! | part | bytes |
//! | --- | --- |
//! | length of the row | 8 |
//! | the row: null word with the row kind in byte 0, slots, variable part, see [`crate::binary`] | as said |
//!
//! Rows come from another program, so each length and offset is checked. Columns are filled block by block: all columns of
//! a block while its rows are in the cache, and one column at a time, so that nothing is dispatched per value.
//!
//! Follows: BinaryRowData and NestedRowData, Flink 2.2. Differences: none.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, NullArray, StructArray};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{DataType, Fields};

use super::buffers::{EntryError, fixed, pack, pack_nulls, variable};
use super::tree::{Form, Node, Values};
use crate::binary::decoder::{Slot, bytes, nano_timestamp, wide_decimal};
use crate::binary::{MAX_COMPACT_PRECISION, null_word_bytes};

/// Bytes of the word in front of a row.
const LENGTH_BYTES: usize = 8;
/// Rows whose fields are read together: some 50 KiB of rows of a usual width.
const BLOCK_ROWS: usize = 256;

/// Reads the first `rows` rows of `data`: one array per node, and their row kinds.
pub(super) fn read(nodes: &[Node], data: &[u8], rows: usize) -> Result<(Vec<ArrayRef>, Vec<u8>), EntryError> {
    let fixed_bytes = fixed_bytes(nodes.len());
    let mut columns: Vec<_> =
        nodes.iter().enumerate().map(|(i, node)| Column::new(node, i, nodes.len(), rows)).collect();
    let mut kinds = Vec::with_capacity(rows);
    let mut block = Vec::with_capacity(BLOCK_ROWS.min(rows));
    let mut rest = data;
    for first in (0..rows).step_by(BLOCK_ROWS) {
        block.clear();
        for row in first..rows.min(first + BLOCK_ROWS) {
            let (bytes, behind) = next_row(rest, fixed_bytes).ok_or(EntryError::BinaryRow { row })?;
            kinds.push(bytes[0]);
            block.push(bytes);
            rest = behind;
        }
        for column in &mut columns {
            column.append(&block)?;
        }
    }
    let arrays = columns.into_iter().map(|column| column.finish(rows)).collect::<Result<_, _>>()?;
    Ok((arrays, kinds))
}

/// The first row, of at least `fixed_bytes`, and what lies behind it.
#[inline]
fn next_row(data: &[u8], fixed_bytes: usize) -> Option<(&[u8], &[u8])> {
    let (length, data) = data.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    if length < fixed_bytes { None } else { data.split_at_checked(length) }
}

/// Bytes of a row of so many fields without its variable part.
fn fixed_bytes(fields: usize) -> usize {
    null_word_bytes(fields) + 8 * fields
}

/// A field of the rows and what was read of it.
struct Column<'a> {
    /// Where the slot lies.
    start: usize,
    /// The position in the null word.
    bit: usize,
    /// One byte per row, 0 for NULL.
    validity: Vec<u8>,
    read: Read<'a>,
}

enum Read<'a> {
    Skipped,
    Values(&'a Values, Out),
    Row { name: &'a str, fields: &'a Fields, children: Vec<Column<'a>> },
}

/// Values in the width of their column; NULLs are zeros.
enum Out {
    /// 0 or 1.
    Boolean(Vec<u8>),
    Bytes1(Vec<u8>),
    Bytes2(Vec<u16>),
    Bytes4(Vec<u32>),
    Bytes8(Vec<u64>),
    CompactDecimal(Vec<i128>),
    WideDecimal(Vec<i128>),
    NanoTimestamp(Vec<i128>),
    /// End offsets, and the data.
    Variable(Vec<i32>, Vec<u8>),
}

impl<'a> Column<'a> {
    fn new(node: &'a Node, field: usize, fields: usize, rows: usize) -> Self {
        let (read, rows) = match node {
            Node::Skipped => (Read::Skipped, 0),
            Node::Values(values) => (Read::Values(values, Out::new(values, rows)), rows),
            Node::Row { name, fields, children } => {
                let all = children.len();
                let columns = children.iter().enumerate();
                let children = columns.map(|(i, child)| Column::new(child, i, all, rows)).collect();
                (Read::Row { name, fields, children }, rows)
            }
        };
        Self {
            start: fixed_bytes(fields) - 8 * (fields - field),
            bit: field + 8,
            validity: Vec::with_capacity(rows),
            read,
        }
    }

    /// Appends the field of each row: NULL where there is no row, which is an empty one.
    fn append(&mut self, rows: &[&[u8]]) -> Result<(), EntryError> {
        match &mut self.read {
            Read::Skipped => Ok(()),
            Read::Values(values, out) => {
                let slots = Slots { rows, start: self.start, bit: self.bit };
                let appended = out.append(slots, &mut self.validity);
                appended.ok_or_else(|| EntryError::BinaryField { field: values.name.clone() })
            }
            Read::Row { name, children, .. } => {
                let slots = Slots { rows, start: self.start, bit: self.bit };
                let mut nested = Vec::with_capacity(rows.len());
                let fixed_bytes = fixed_bytes(children.len());
                let taken = slots.each(&mut self.validity, |slot| {
                    let row = slot.map_or(Some(&[] as &[u8]), |slot| {
                        slot.part(slot.low() as usize).filter(|row| row.len() >= fixed_bytes)
                    });
                    nested.push(row?);
                    Some(())
                });
                taken.ok_or_else(|| EntryError::BinaryField { field: (*name).to_owned() })?;
                children.iter_mut().try_for_each(|child| child.append(&nested))
            }
        }
    }

    fn finish(self, rows: usize) -> Result<ArrayRef, EntryError> {
        let nulls = pack_nulls(&self.validity);
        match self.read {
            Read::Skipped => Ok(Arc::new(NullArray::new(rows))),
            Read::Values(values, out) => {
                let refused = |source| EntryError::Arrow { field: values.name.clone(), source };
                let buffer: Buffer = match out {
                    Out::Boolean(bytes) => return Ok(Arc::new(BooleanArray::new(pack(&bytes), nulls))),
                    Out::Variable(ends, data) => return variable(values, ScalarBuffer::from(ends), data.into(), nulls),
                    Out::Bytes1(values) => values.into(),
                    Out::Bytes2(values) => Buffer::from_vec(values),
                    Out::Bytes4(values) => Buffer::from_vec(values),
                    Out::Bytes8(values) => Buffer::from_vec(values),
                    Out::CompactDecimal(values) | Out::WideDecimal(values) | Out::NanoTimestamp(values) => {
                        Buffer::from_vec(values)
                    }
                };
                fixed(&values.arrow, buffer, nulls, rows).map_err(refused)
            }
            Read::Row { name, fields, children } => {
                let arrays = children.into_iter().map(|child| child.finish(rows)).collect::<Result<_, _>>()?;
                StructArray::try_new_with_length(fields.clone(), arrays, nulls, rows)
                    .map(|array| Arc::new(array) as ArrayRef)
                    .map_err(|source| EntryError::Arrow { field: name.to_owned(), source })
            }
        }
    }
}

impl Out {
    fn new(values: &Values, rows: usize) -> Self {
        match (values.form, &values.arrow) {
            (Form::Boolean, _) => Self::Boolean(Vec::with_capacity(rows)),
            (Form::NanoTimestamp, _) => Self::NanoTimestamp(Vec::with_capacity(rows)),
            (Form::Bytes, _) => {
                let mut ends = Vec::with_capacity(rows + 1);
                ends.push(0);
                Self::Variable(ends, Vec::with_capacity(16 * rows))
            }
            (Form::Fixed(_), DataType::Decimal128(precision, _)) if *precision <= MAX_COMPACT_PRECISION => {
                Self::CompactDecimal(Vec::with_capacity(rows))
            }
            (Form::Fixed(_), DataType::Decimal128(..)) => Self::WideDecimal(Vec::with_capacity(rows)),
            (Form::Fixed(1), _) => Self::Bytes1(Vec::with_capacity(rows)),
            (Form::Fixed(2), _) => Self::Bytes2(Vec::with_capacity(rows)),
            (Form::Fixed(4), _) => Self::Bytes4(Vec::with_capacity(rows)),
            (Form::Fixed(_), _) => Self::Bytes8(Vec::with_capacity(rows)),
        }
    }

    /// `None` if a value does not lie in its row.
    #[expect(clippy::cast_possible_truncation, reason = "a narrower value is the low bits of its slot")]
    fn append(&mut self, slots: Slots<'_>, validity: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Boolean(out) => slots.values(validity, out, |slot| Some(u8::from(slot.value as u8 != 0))),
            Self::Bytes1(out) => slots.values(validity, out, |slot| Some(slot.value as u8)),
            Self::Bytes2(out) => slots.values(validity, out, |slot| Some(slot.value as u16)),
            Self::Bytes4(out) => slots.values(validity, out, |slot| Some(slot.value as u32)),
            Self::Bytes8(out) => slots.values(validity, out, |slot| Some(slot.value)),
            Self::CompactDecimal(out) => slots.values(validity, out, |slot| Some(slot.value.cast_signed().into())),
            Self::WideDecimal(out) => slots.values(validity, out, wide_decimal),
            Self::NanoTimestamp(out) => slots.values(validity, out, nano_timestamp),
            Self::Variable(ends, data) => {
                let start = slots.start;
                slots.each(validity, |slot| {
                    if let Some(slot) = slot {
                        data.extend_from_slice(bytes(slot, start)?);
                    }
                    ends.push(i32::try_from(data.len()).ok()?);
                    Some(())
                })
            }
        }
    }
}

/// One field of some rows, each of which is empty or has all its slots.
#[derive(Clone, Copy)]
struct Slots<'a> {
    rows: &'a [&'a [u8]],
    start: usize,
    bit: usize,
}

impl<'a> Slots<'a> {
    /// Calls `each` with the field of each row, or nothing for a NULL, until it says `None`.
    #[inline]
    fn each(self, validity: &mut Vec<u8>, mut each: impl FnMut(Option<Slot<'a>>) -> Option<()>) -> Option<()> {
        for row in self.rows {
            let mut slot = None;
            if !row.is_empty() && row[self.bit / 8] >> (self.bit % 8) & 1 == 0 {
                slot = Some(Slot { row, value: u64::from_le_bytes(*row[self.start..].first_chunk()?) });
            }
            validity.push(u8::from(slot.is_some()));
            each(slot)?;
        }
        Some(())
    }

    #[inline]
    fn values<T: Default>(
        self,
        validity: &mut Vec<u8>,
        out: &mut Vec<T>,
        value: impl Fn(Slot<'a>) -> Option<T>,
    ) -> Option<()> {
        self.each(validity, |slot| {
            out.push(match slot {
                Some(slot) => value(slot)?,
                None => T::default(),
            });
            Some(())
        })
    }
}
