//! The values of an aggregate before and after each row of a batch, from which output rows are gathered.
//!
//! Position `2 * row` is the value before a row, `2 * row + 1` the one after it.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, StringArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;

use super::native::Native;
use crate::OperatorError;

/// The versions of one output column.
#[derive(Debug)]
pub(super) enum Versions {
    /// One value per position.
    Direct(ArrayRef),
    /// The value of each position by its index, where values are large or repeat.
    Indirect { values: ArrayRef, indices: UInt32Array },
}

impl Versions {
    /// The values at these positions.
    pub(super) fn gather(&self, positions: &UInt32Array) -> Result<ArrayRef, OperatorError> {
        Ok(match self {
            Versions::Direct(values) => match run(positions) {
                Some(start) => values.slice(start, positions.len()),
                None => take(values, positions, None)?,
            },
            Versions::Indirect { values, indices } => take(values, &take(indices, positions, None)?, None)?,
        })
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
    type Builder;

    fn builder(rows: usize) -> Self::Builder;

    /// Adds the versions before and after the next row.
    fn push(builder: &mut Self::Builder, before: Option<Self>, after: Option<Self>);

    fn finish(builder: Self::Builder, ty: &DataType) -> Result<Versions, OperatorError>;

    /// Whether Flink's generated equaliser takes both for the same.
    fn same(&self, other: &Self) -> bool;
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

    #[inline]
    fn same(&self, other: &Self) -> bool {
        Native::same(*self, *other)
    }
}

/// The bytes of a string or binary value.
pub(super) type Bytes = Arc<[u8]>;

/// Versions of bytes: each value is stored once for the run of rows through which it stays.
#[derive(Debug)]
pub(super) struct BytesVersions {
    data: Vec<u8>,
    ends: Vec<usize>,
    indices: Vec<Option<u32>>,
    last: Option<(Bytes, u32)>,
}

impl BytesVersions {
    fn index(&mut self, value: Option<Bytes>) -> Option<u32> {
        let value = value?;
        if let Some((last, index)) = &self.last
            && Arc::ptr_eq(last, &value)
        {
            return Some(*index);
        }
        let index = u32::try_from(self.ends.len()).ok()?;
        self.data.extend_from_slice(&value);
        self.ends.push(self.data.len());
        self.last = Some((value, index));
        Some(index)
    }
}

impl Output for Bytes {
    type Builder = BytesVersions;

    fn builder(rows: usize) -> Self::Builder {
        BytesVersions { data: Vec::new(), ends: Vec::new(), indices: Vec::with_capacity(2 * rows), last: None }
    }

    fn push(builder: &mut Self::Builder, before: Option<Self>, after: Option<Self>) {
        for value in [before, after] {
            let index = builder.index(value);
            builder.indices.push(index);
        }
    }

    fn finish(builder: Self::Builder, ty: &DataType) -> Result<Versions, OperatorError> {
        let mut offsets = Vec::with_capacity(builder.ends.len() + 1);
        offsets.push(0_i32);
        for end in builder.ends {
            offsets.push(i32::try_from(end).map_err(|_| {
                OperatorError::Internal("the values of one aggregate in one batch exceed 2 GiB".to_owned())
            })?);
        }
        let indices = UInt32Array::from(builder.indices);
        Ok(Versions::Indirect { values: bytes_array(offsets, builder.data, ty)?, indices })
    }

    fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other) || self == other
    }
}

/// A column of type `ty`, Utf8 or Binary, without NULLs.
pub(super) fn bytes_array(offsets: Vec<i32>, data: Vec<u8>, ty: &DataType) -> Result<ArrayRef, OperatorError> {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    let data = Buffer::from_vec(data);
    Ok(match ty {
        DataType::Utf8 => Arc::new(StringArray::try_new(offsets, data, None)?),
        _ => Arc::new(BinaryArray::try_new(offsets, data, None)?),
    })
}
