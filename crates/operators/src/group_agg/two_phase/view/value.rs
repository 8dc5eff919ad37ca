//! Values as the maps between the phases have them: kept for a frame, and in a cell.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;

use super::cell::{Cursor, Malformed, put_varint};
use crate::OperatorError;
use crate::group_agg::distinct::DistinctKey;
use crate::group_agg::native::{Input, Native};
use crate::group_agg::value::BytesInput;
use crate::group_agg::versions::Bytes;

/// A value of a map.
pub(in crate::group_agg) trait Carried: Input {
    /// The same in state.
    type Key: DistinctKey<Input = Self>;
    /// Values of a frame, by number.
    type Store: Debug + Default + Send;

    /// Whether Java's `equals` is true.
    fn same(a: Self::Item<'_>, b: Self::Item<'_>) -> bool;

    fn push(store: &mut Self::Store, item: Self::Item<'_>);

    fn at(store: &Self::Store, entry: usize) -> Self::Item<'_>;

    fn clear(store: &mut Self::Store);

    fn store_bytes(store: &Self::Store) -> usize;

    /// Some of the values as a column of type `ty`.
    fn gather(store: &Self::Store, entries: &[u32], ty: &DataType) -> Result<ArrayRef, OperatorError>;

    fn write(item: Self::Item<'_>, out: &mut Vec<u8>);

    fn read<'a>(cell: &mut Cursor<'a>) -> Result<Self::Item<'a>, Malformed>;
}

/// A value of fixed width in a cell.
pub(in crate::group_agg) trait Fixed: Native {
    fn write(self, out: &mut Vec<u8>);

    fn read(cell: &mut Cursor<'_>) -> Result<Self, Malformed>;
}

macro_rules! fixed {
    ($($ty:ty),*) => {$(
        impl Fixed for $ty {
            #[inline]
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn read(cell: &mut Cursor<'_>) -> Result<Self, Malformed> {
                cell.array().map(Self::from_le_bytes)
            }
        }
    )*};
}

fixed!(i8, i16, i32, i64, i128, f32, f64);

impl Fixed for bool {
    fn write(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }

    fn read(cell: &mut Cursor<'_>) -> Result<Self, Malformed> {
        cell.flag()
    }
}

impl<T: Fixed> Carried for T {
    type Key = T;
    type Store = Vec<T>;

    #[inline]
    fn same(a: T, b: T) -> bool {
        Native::compare(a, b).is_eq()
    }

    #[inline]
    fn push(store: &mut Vec<T>, item: T) {
        store.push(item);
    }

    #[inline]
    fn at(store: &Vec<T>, entry: usize) -> T {
        store[entry]
    }

    fn clear(store: &mut Vec<T>) {
        store.clear();
    }

    fn store_bytes(store: &Vec<T>) -> usize {
        store.capacity() * size_of::<T>()
    }

    fn gather(store: &Vec<T>, entries: &[u32], ty: &DataType) -> Result<ArrayRef, OperatorError> {
        T::array(entries.iter().map(|entry| store[*entry as usize]).collect(), None, ty)
    }

    #[inline]
    fn write(item: T, out: &mut Vec<u8>) {
        Fixed::write(item, out);
    }

    #[inline]
    fn read<'a>(cell: &mut Cursor<'a>) -> Result<T, Malformed> {
        <T as Fixed>::read(cell)
    }
}

/// Texts, one behind the other.
#[derive(Debug, Default)]
pub(in crate::group_agg) struct Texts {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl Texts {
    #[inline]
    fn get(&self, entry: usize) -> &[u8] {
        let start = entry.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[entry]]
    }
}

impl Carried for BytesInput {
    type Key = Bytes;
    type Store = Texts;

    #[inline]
    fn same(a: &[u8], b: &[u8]) -> bool {
        a == b
    }

    fn push(store: &mut Texts, item: &[u8]) {
        store.bytes.extend_from_slice(item);
        store.ends.push(store.bytes.len());
    }

    #[inline]
    fn at(store: &Texts, entry: usize) -> &[u8] {
        store.get(entry)
    }

    fn clear(store: &mut Texts) {
        store.bytes.clear();
        store.ends.clear();
    }

    fn store_bytes(store: &Texts) -> usize {
        store.bytes.capacity() + store.ends.capacity() * size_of::<usize>()
    }

    fn gather(store: &Texts, entries: &[u32], _ty: &DataType) -> Result<ArrayRef, OperatorError> {
        let mut offsets = Vec::with_capacity(entries.len() + 1);
        offsets.push(0_i32);
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.extend_from_slice(store.get(*entry as usize));
            offsets.push(i32::try_from(bytes.len()).map_err(|_| OperatorError::TooLarge)?);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), None)?))
    }

    fn write(item: &[u8], out: &mut Vec<u8>) {
        put_varint(item.len() as u64, out);
        out.extend_from_slice(item);
    }

    #[inline]
    fn read<'a>(cell: &mut Cursor<'a>) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(cell.varint()?).map_err(|_| Malformed::Truncated)?;
        let bytes = cell.bytes(len)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed::Utf8)?;
        Ok(bytes)
    }
}
