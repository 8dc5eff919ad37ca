//! Values that lie in one column.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BinaryArray, BooleanArray, StringArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};

use crate::canonical::{Fault, payload_length};
use crate::paged::Value;

/// A value in one column.
pub trait Leaf: Value {
    /// A column being written.
    type Writer;
    /// A column being read.
    type Reader;

    /// A column for about so many rows.
    fn writer(rows: usize) -> Self::Writer;

    /// Appends a value.
    fn write(writer: &mut Self::Writer, value: &Self);

    /// Appends some value in the place of a NULL.
    fn write_null(writer: &mut Self::Writer);

    /// The column, of the Arrow type `ty`.
    fn finish(writer: Self::Writer, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, Fault>;

    /// The column `array`; `None` if it has values of another width.
    fn reader(array: &ArrayRef) -> Option<Self::Reader>;

    /// The value in a row that is not NULL, or what is wrong with it.
    fn read(reader: &Self::Reader, row: usize) -> Result<Self, &'static str>;
}

fn unwritable(_: arrow::error::ArrowError) -> Fault {
    Fault::Unwritable { what: "a value of this type" }
}

/// The values of a column of fixed width, whatever its logical type.
pub(crate) fn fixed_values<T: ArrowNativeType>(array: &ArrayRef) -> Option<ScalarBuffer<T>> {
    if array.data_type().primitive_width() != Some(size_of::<T>()) {
        return None;
    }
    let data = array.to_data();
    let buffer = data.buffers().first().cloned().unwrap_or_else(|| Buffer::from(Vec::<T>::new()));
    Some(ScalarBuffer::new(buffer, data.offset(), data.len()))
}

/// A column of fixed width of the Arrow type `ty`.
pub(crate) fn fixed_array<T: ArrowNativeType>(
    values: Vec<T>,
    nulls: Option<NullBuffer>,
    ty: &DataType,
) -> Result<ArrayRef, Fault> {
    let data = ArrayData::builder(ty.clone()).len(values.len()).nulls(nulls).add_buffer(Buffer::from_vec(values));
    Ok(make_array(data.build().map_err(unwritable)?))
}

macro_rules! fixed_leaf {
    ($($ty:ty),*) => {$(
        impl Value for $ty {}

        impl Leaf for $ty {
            type Writer = Vec<$ty>;
            type Reader = ScalarBuffer<$ty>;

            fn writer(rows: usize) -> Vec<$ty> {
                Vec::with_capacity(rows)
            }

            #[inline]
            fn write(writer: &mut Vec<$ty>, value: &$ty) {
                writer.push(*value);
            }

            #[inline]
            fn write_null(writer: &mut Vec<$ty>) {
                writer.push(<$ty>::default());
            }

            fn finish(writer: Vec<$ty>, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, Fault> {
                fixed_array(writer, nulls, ty)
            }

            fn reader(array: &ArrayRef) -> Option<ScalarBuffer<$ty>> {
                fixed_values(array)
            }

            #[inline]
            fn read(reader: &ScalarBuffer<$ty>, row: usize) -> Result<$ty, &'static str> {
                Ok(reader[row])
            }
        }
    )*};
}

fixed_leaf!(i8, i16, i32, i64, u32, u64, f32, f64);

impl Value for i128 {}

/// Unscaled decimals with the number that they stay below.
#[derive(Debug)]
pub struct DecimalColumn {
    values: ScalarBuffer<i128>,
    limit: u128,
}

impl Leaf for i128 {
    type Writer = Vec<i128>;
    type Reader = DecimalColumn;

    fn writer(rows: usize) -> Vec<i128> {
        Vec::with_capacity(rows)
    }

    #[inline]
    fn write(writer: &mut Vec<i128>, value: &i128) {
        writer.push(*value);
    }

    #[inline]
    fn write_null(writer: &mut Vec<i128>) {
        writer.push(0);
    }

    fn finish(writer: Vec<i128>, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, Fault> {
        fixed_array(writer, nulls, ty)
    }

    fn reader(array: &ArrayRef) -> Option<DecimalColumn> {
        let DataType::Decimal128(precision, _) = array.data_type() else { return None };
        Some(DecimalColumn { values: fixed_values(array)?, limit: 10_u128.checked_pow(u32::from(*precision))? })
    }

    #[inline]
    fn read(reader: &DecimalColumn, row: usize) -> Result<i128, &'static str> {
        let value = reader.values[row];
        if value.unsigned_abs() < reader.limit { Ok(value) } else { Err("a decimal with too many digits") }
    }
}

impl Value for bool {}

impl Leaf for bool {
    type Writer = Vec<bool>;
    type Reader = BooleanBuffer;

    fn writer(rows: usize) -> Vec<bool> {
        Vec::with_capacity(rows)
    }

    #[inline]
    fn write(writer: &mut Vec<bool>, value: &bool) {
        writer.push(*value);
    }

    #[inline]
    fn write_null(writer: &mut Vec<bool>) {
        writer.push(false);
    }

    fn finish(writer: Vec<bool>, nulls: Option<NullBuffer>, _ty: &DataType) -> Result<ArrayRef, Fault> {
        Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(writer), nulls)))
    }

    fn reader(array: &ArrayRef) -> Option<BooleanBuffer> {
        Some(array.as_boolean_opt()?.values().clone())
    }

    #[inline]
    fn read(reader: &BooleanBuffer, row: usize) -> Result<bool, &'static str> {
        Ok(reader.value(row))
    }
}

impl Value for Arc<[u8]> {
    #[inline]
    fn heap_bytes(&self) -> usize {
        // the two counts in front of the bytes
        self.len() + 2 * size_of::<usize>()
    }
}

/// Text or binary values being written.
#[derive(Debug)]
pub struct BytesWriter {
    lengths: Vec<usize>,
    data: Vec<u8>,
}

/// Text or binary values being read.
#[derive(Debug)]
pub struct BytesReader {
    offsets: OffsetBuffer<i32>,
    data: Buffer,
}

impl BytesReader {
    /// The bytes in a row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> &[u8] {
        // offsets of a valid column are not negative
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    pub(crate) fn of(array: &ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string_opt::<i32>()?;
                Self { offsets: array.offsets().clone(), data: array.values().clone() }
            }
            _ => {
                let array = array.as_binary_opt::<i32>()?;
                Self { offsets: array.offsets().clone(), data: array.values().clone() }
            }
        })
    }
}

impl BytesWriter {
    pub(crate) fn new(rows: usize) -> Self {
        Self { lengths: Vec::with_capacity(rows), data: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.lengths.push(value.len());
        self.data.extend_from_slice(value);
    }

    pub(crate) fn finish(self, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, Fault> {
        payload_length(self.data.len())?;
        let (offsets, data) = (OffsetBuffer::from_lengths(self.lengths), Buffer::from_vec(self.data));
        Ok(match ty {
            DataType::Utf8 => Arc::new(StringArray::try_new(offsets, data, nulls).map_err(unwritable)?),
            _ => Arc::new(BinaryArray::try_new(offsets, data, nulls).map_err(unwritable)?),
        })
    }
}

impl Leaf for Arc<[u8]> {
    type Writer = BytesWriter;
    type Reader = BytesReader;

    fn writer(rows: usize) -> BytesWriter {
        BytesWriter::new(rows)
    }

    #[inline]
    fn write(writer: &mut BytesWriter, value: &Self) {
        writer.push(value);
    }

    #[inline]
    fn write_null(writer: &mut BytesWriter) {
        writer.lengths.push(0);
    }

    fn finish(writer: BytesWriter, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, Fault> {
        writer.finish(nulls, ty)
    }

    fn reader(array: &ArrayRef) -> Option<BytesReader> {
        BytesReader::of(array)
    }

    #[inline]
    fn read(reader: &BytesReader, row: usize) -> Result<Self, &'static str> {
        Ok(Arc::from(reader.get(row)))
    }
}

impl Value for () {}

impl<T: Value> Value for Option<T> {
    #[inline]
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, Value::heap_bytes)
    }
}

impl<A: Value, B: Value> Value for (A, B) {
    #[inline]
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}
