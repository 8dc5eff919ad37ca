//! Rows of a batch in another order, in buffers that are used again.
//!
//! A batch that was split is gone when the next one comes: its parts have been encoded and dropped. Memory that is given back
//! and asked for anew costs more than the copy itself, because the allocator returns large blocks to the system and every page
//! of a new one faults. So the buffers of the last batch are kept, and written again if nobody else holds them.
//! Invariant: a buffer that somebody else still holds is never written to.
//!
//! Text is copied in blocks of fixed size, beyond its end into space that is overwritten next: a call per value would cost more.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryArray, BooleanArray, NullArray, StringArray, UInt32Array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowNativeType, DataType};
use arrow::error::ArrowError;

use super::GatherError;
use crate::batch::Batch;

/// The most bytes that are copied at once.
const MAX_BLOCK: usize = 64;

/// Puts rows into another order. See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Permuter {
    /// Buffers of the batch before, in the order in which they were made, the last one first.
    spare: Vec<Buffer>,
    /// Buffers of the current batch.
    used: Vec<Buffer>,
}

impl Permuter {
    /// The rows `order` of `batch`: each of its row numbers, once. Errors otherwise.
    pub(crate) fn permute(&mut self, batch: &Batch, order: &UInt32Array) -> Result<Batch, GatherError> {
        self.spare = std::mem::take(&mut self.used);
        self.spare.reverse();
        let columns = batch.columns().iter().map(|c| self.column(c, order)).collect::<Result<Vec<_>, _>>();
        self.spare.clear();
        let kinds = batch.kinds().map(|kinds| take(kinds, order, None)).transpose()?;
        Ok(Batch::try_new(columns?, order.len(), kinds.map(|k| k.as_primitive().clone()))?)
    }

    fn column(&mut self, column: &ArrayRef, order: &UInt32Array) -> Result<ArrayRef, ArrowError> {
        let rows = order.values();
        if let Some(row) = rows.iter().copied().max().filter(|row| *row as usize >= column.len()) {
            return Err(ArrowError::InvalidArgumentError(format!("row {row} of {}", column.len())));
        }
        let nulls = || nulls(column.nulls(), rows);
        Ok(match column.data_type() {
            DataType::Null => Arc::new(NullArray::new(rows.len())),
            DataType::Utf8 => {
                let (offsets, bytes) = self.bytes(column.as_string::<i32>().value_offsets(), text(column), rows)?;
                Arc::new(StringArray::try_new(offsets, bytes, nulls())?)
            }
            DataType::Binary => {
                let (offsets, bytes) = self.bytes(column.as_binary::<i32>().value_offsets(), text(column), rows)?;
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls())?)
            }
            DataType::Boolean => {
                let values = column.as_boolean().values();
                let values =
                    BooleanBuffer::collect_bool(rows.len(), |i| rows.get(i).is_some_and(|r| values.value(*r as usize)));
                Arc::new(BooleanArray::new(values, nulls()))
            }
            ty => {
                let data = column.to_data();
                let values = match ty.primitive_width() {
                    Some(1) => self.values::<i8>(&data, rows),
                    Some(2) => self.values::<i16>(&data, rows),
                    Some(4) => self.values::<i32>(&data, rows),
                    Some(8) => self.values::<i64>(&data, rows),
                    Some(16) => self.values::<i128>(&data, rows),
                    _ => return take(column, order, None),
                };
                let builder = ArrayData::builder(ty.clone()).len(rows.len()).add_buffer(values).nulls(nulls());
                make_array(builder.build()?)
            }
        })
    }

    fn values<T: ArrowNativeType>(&mut self, data: &ArrayData, rows: &[u32]) -> Buffer {
        let values = data.buffer::<T>(0);
        let mut out: Vec<T> = self.vec();
        out.clear();
        out.extend(rows.iter().map(|row| values[*row as usize]));
        self.keep(out)
    }

    fn bytes(&mut self, from: &[i32], data: &[u8], rows: &[u32]) -> Result<(OffsetBuffer<i32>, Buffer), ArrowError> {
        let total = match (from.first(), from.last()) {
            (Some(first), Some(last)) => (last - first) as usize, // an Arrow offset is not below the one before
            _ => 0,
        };
        let mut offsets: Vec<i32> = self.vec();
        offsets.clear();
        offsets.reserve(rows.len() + 1);
        offsets.push(0);
        // what is in there from the batch before is overwritten
        let mut out: Vec<u8> = self.vec();
        out.resize(total + MAX_BLOCK, 0);
        // a value should fit into one block, so that no branch depends on its length
        let end = match total * 3 / 2 / rows.len().max(1) {
            0..=16 => copy_all::<16>(from, data, rows, &mut out, &mut offsets),
            17..=32 => copy_all::<32>(from, data, rows, &mut out, &mut offsets),
            _ => copy_all::<MAX_BLOCK>(from, data, rows, &mut out, &mut offsets),
        };
        if end != total {
            return Err(ArrowError::InvalidArgumentError("not every row once".to_owned()));
        }
        let offsets = self.keep(offsets);
        let bytes = self.keep(out).slice_with_length(0, total);
        Ok((OffsetBuffer::new(ScalarBuffer::new(offsets, 0, rows.len() + 1)), bytes))
    }

    /// A vector that may have room and may hold anything.
    fn vec<T: ArrowNativeType>(&mut self) -> Vec<T> {
        self.spare.pop().and_then(|buffer| buffer.into_vec().ok()).unwrap_or_default()
    }

    fn keep<T: ArrowNativeType>(&mut self, values: Vec<T>) -> Buffer {
        let buffer = Buffer::from_vec(values);
        self.used.push(buffer.clone());
        buffer
    }
}

/// Copies the values of `rows` one behind the other, as long as they fit; returns where the last one ends.
fn copy_all<const BLOCK: usize>(
    from: &[i32],
    data: &[u8],
    rows: &[u32],
    out: &mut [u8],
    offsets: &mut Vec<i32>,
) -> usize {
    let room = out.len() - MAX_BLOCK;
    let mut at = 0;
    for row in rows {
        let row = *row as usize;
        let (start, end) = (from[row] as usize, from[row + 1] as usize);
        if at + (end - start) > room {
            return usize::MAX;
        }
        copy::<BLOCK>(data, start, end, out, at);
        at += end - start;
        offsets.push(at as i32); // not above the column's own last offset
    }
    at
}

/// Copies `data[start..end]` to `at`, and more behind it where there is room.
#[inline]
fn copy<const BLOCK: usize>(data: &[u8], start: usize, end: usize, out: &mut [u8], mut at: usize) {
    let mut from = start;
    while from < end {
        match (
            data.get(from..).and_then(|rest| rest.first_chunk::<BLOCK>()),
            out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<BLOCK>()),
        ) {
            (Some(block), Some(place)) => *place = *block,
            _ => {
                out[at..at + (end - from)].copy_from_slice(&data[from..end]);
                return;
            }
        }
        from += BLOCK;
        at += BLOCK;
    }
}

fn text(column: &ArrayRef) -> &[u8] {
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value_data(),
        _ => column.as_binary::<i32>().value_data(),
    }
}

fn nulls(nulls: Option<&NullBuffer>, rows: &[u32]) -> Option<NullBuffer> {
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0)?;
    let valid =
        BooleanBuffer::collect_bool(rows.len(), |i| rows.get(i).is_some_and(|row| nulls.is_valid(*row as usize)));
    Some(NullBuffer::new(valid))
}
