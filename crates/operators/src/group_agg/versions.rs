//! The values of an aggregate before and after each row of a batch, from which output rows are gathered.
//!
//! Position `2 * row` is the value before a row, `2 * row + 1` the one after it.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, BooleanBufferBuilder, StringArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::native::Native;
use crate::OperatorError;

/// The versions of one output column.
#[derive(Debug)]
pub(super) enum Versions {
    /// One value per position.
    Direct(ArrayRef),
    /// Text or binary values, shared with the state until they are gathered.
    Bytes(BytesVersions, DataType),
}

impl Versions {
    /// The values at these positions.
    pub(super) fn gather(&self, positions: &UInt32Array) -> Result<ArrayRef, OperatorError> {
        Ok(match self {
            Versions::Direct(values) => match run(positions) {
                Some(start) => values.slice(start, positions.len()),
                None => take(values, positions, None)?,
            },
            Versions::Bytes(versions, ty) => versions.gather(positions.values(), ty)?,
        })
    }

    /// Bytes of all values that are not of fixed width.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Versions::Direct(_) => 0,
            Versions::Bytes(versions, _) => versions.bytes,
        }
    }

    /// Adds to `sums` the bytes of the values at these positions, where they are not of fixed width.
    pub(super) fn add_bytes(&self, positions: &[u32], sums: &mut [usize]) {
        if let Versions::Bytes(versions, _) = self {
            for (sum, position) in sums.iter_mut().zip(positions) {
                *sum += versions.value(*position).map_or(0, |value| value.len());
            }
        }
    }
}

/// The first position if the positions are consecutive, as they are where every row updates its group.
fn run(positions: &UInt32Array) -> Option<usize> {
    let values = positions.values();
    let first = *values.first()?;
    values.iter().zip(first..).all(|(position, expected)| *position == expected).then_some(first as usize)
}

/// A value that an aggregate hands out.
pub(super) trait Output: Clone + Debug + Send + Sync + 'static {
    /// Collects versions.
    type Builder: Debug + Send;

    fn builder(rows: usize) -> Self::Builder;

    /// Adds the versions before and after the next row.
    fn push(builder: &mut Self::Builder, before: Option<Self>, after: Option<Self>);

    fn finish(builder: Self::Builder, ty: &DataType) -> Result<Versions, OperatorError>;

    /// Collects single values.
    type Values: Debug + Send;

    fn values(rows: usize) -> Self::Values;

    /// Adds the next value.
    fn push_value(values: &mut Self::Values, value: Option<Self>);

    /// The values as a column of type `ty`.
    fn column(values: Self::Values, ty: &DataType) -> Result<ArrayRef, OperatorError>;

    /// Whether Flink's generated equaliser takes both for the same.
    fn same(&self, other: &Self) -> bool;

    /// Bytes that it owns or shares on the heap.
    #[inline]
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Versions of fixed width.
#[derive(Debug)]
pub(super) struct NativeVersions<T> {
    values: Vec<[T; 2]>,
    valid: Vec<[bool; 2]>,
}

impl<T: Native> Output for T {
    type Builder = NativeVersions<T>;

    fn builder(rows: usize) -> Self::Builder {
        NativeVersions { values: Vec::with_capacity(rows), valid: Vec::with_capacity(rows) }
    }

    #[inline]
    fn push(builder: &mut Self::Builder, before: Option<Self>, after: Option<Self>) {
        builder.values.push([before.unwrap_or_default(), after.unwrap_or_default()]);
        builder.valid.push([before.is_some(), after.is_some()]);
    }

    fn finish(builder: Self::Builder, ty: &DataType) -> Result<Versions, OperatorError> {
        let valid = builder.valid.into_flattened();
        let nulls = valid.contains(&false).then(|| NullBuffer::new(BooleanBuffer::from(valid)));
        Ok(Versions::Direct(T::array(builder.values.into_flattened(), nulls, ty)?))
    }

    type Values = NativeValues<T>;

    fn values(rows: usize) -> Self::Values {
        NativeValues { values: Vec::with_capacity(rows), valid: Vec::with_capacity(rows) }
    }

    #[inline]
    fn push_value(values: &mut Self::Values, value: Option<Self>) {
        values.values.push(value.unwrap_or_default());
        values.valid.push(value.is_some());
    }

    fn column(values: Self::Values, ty: &DataType) -> Result<ArrayRef, OperatorError> {
        let NativeValues { values, valid } = values;
        let nulls = valid.contains(&false).then(|| NullBuffer::new(BooleanBuffer::from(valid)));
        T::array(values, nulls, ty)
    }

    #[inline]
    fn same(&self, other: &Self) -> bool {
        Native::same(*self, *other)
    }
}

/// Values of fixed width.
#[derive(Debug)]
pub(super) struct NativeValues<T> {
    values: Vec<T>,
    valid: Vec<bool>,
}

/// The bytes of a string or binary value.
pub(super) type Bytes = Arc<[u8]>;

/// Versions of bytes: each value is held once for the run of rows through which it stays.
#[derive(Debug)]
pub(super) struct BytesVersions {
    values: Vec<Bytes>,
    /// Which value each position has.
    indices: Vec<Option<u32>>,
    /// Sum over all positions.
    bytes: usize,
}

impl BytesVersions {
    fn push(&mut self, value: Option<Bytes>) {
        let index = value.and_then(|value| {
            self.bytes += value.len();
            if self.values.last().is_none_or(|last| !Arc::ptr_eq(last, &value)) {
                self.values.push(value);
            }
            // no more values than positions, which are counted in 32 bits
            u32::try_from(self.values.len() - 1).ok()
        });
        self.indices.push(index);
    }

    #[inline]
    fn value(&self, position: u32) -> Option<&Bytes> {
        self.indices[position as usize].map(|index| &self.values[index as usize])
    }

    /// The values at these positions as a column of type `ty`, Utf8 or Binary.
    fn gather(&self, positions: &[u32], ty: &DataType) -> Result<ArrayRef, OperatorError> {
        let mut lengths = vec![0; positions.len()];
        let mut valid = BooleanBufferBuilder::new(positions.len());
        let mut data = Vec::new();
        for (length, position) in lengths.iter_mut().zip(positions) {
            let value = self.value(*position);
            valid.append(value.is_some());
            if let Some(value) = value {
                *length = value.len();
                data.extend_from_slice(value);
            }
        }
        if i32::try_from(data.len()).is_err() {
            return Err(OperatorError::TooLarge);
        }
        let offsets = OffsetBuffer::from_lengths(lengths);
        let nulls = Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() > 0);
        let data = Buffer::from_vec(data);
        Ok(match ty {
            DataType::Utf8 => Arc::new(StringArray::try_new(offsets, data, nulls)?),
            _ => Arc::new(BinaryArray::try_new(offsets, data, nulls)?),
        })
    }
}

impl Output for Bytes {
    type Builder = BytesVersions;

    fn builder(rows: usize) -> Self::Builder {
        BytesVersions { values: Vec::new(), indices: Vec::with_capacity(2 * rows), bytes: 0 }
    }

    fn push(builder: &mut Self::Builder, before: Option<Self>, after: Option<Self>) {
        builder.push(before);
        builder.push(after);
    }

    fn finish(builder: Self::Builder, ty: &DataType) -> Result<Versions, OperatorError> {
        Ok(Versions::Bytes(builder, ty.clone()))
    }

    type Values = BytesVersions;

    fn values(rows: usize) -> Self::Values {
        BytesVersions { values: Vec::new(), indices: Vec::with_capacity(rows), bytes: 0 }
    }

    fn push_value(values: &mut Self::Values, value: Option<Self>) {
        values.push(value);
    }

    fn column(values: Self::Values, ty: &DataType) -> Result<ArrayRef, OperatorError> {
        // no more values than rows, which are counted in 32 bits
        let positions: Vec<u32> = (0..values.indices.len() as u32).collect();
        values.gather(&positions, ty)
    }

    fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other) || self == other
    }

    #[inline]
    fn heap_bytes(&self) -> usize {
        self.len()
    }
}
