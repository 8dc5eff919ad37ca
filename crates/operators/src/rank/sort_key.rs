//! Sort keys: what stands for the sort columns of a row, so that comparing keys is comparing rows in sort order.
//!
//! Keys of fixed width are put together to one number of 128 bits at most ([`FixedKeys`]), all others are bytes that compare
//! as the columns do ([`BytesKeys`]). Keys stay in memory. They are equal exactly if the columns are, which is
//! what keeps FLOAT and DOUBLE out: in Flink's comparison NaN equals every number, and -0.0 equals 0.0 but is another key.
//!
//! Follows: ComparatorCodeGenerator, GenerateUtils, Flink 2.2. Differences: types that [`supports`] refuses.

use std::cmp::Ordering;
use std::fmt::Debug;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimeUnit, TimestampMillisecondType,
};
use arrow::row::{RowConverter, Rows, SortField as ArrowSortField};
use streamfusion_plan::Reason;
use streamfusion_plan::node::SortField;
use streamfusion_plan::types::{LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::types::arrow_type;

use crate::OperatorError;

/// Whether rows can be sorted by a column of this type exactly as Flink does.
pub(crate) fn supports(ty: &LogicalType) -> Result<(), Reason> {
    match &ty.kind {
        TypeKind::Float | TypeKind::Double => Err(Reason::new(
            "it sorts by FLOAT or DOUBLE, where the order that Flink gives NaN and -0.0 depends on what came before",
        )),
        TypeKind::Timestamp { attribute: TimeAttribute::Proctime, .. }
        | TypeKind::TimestampLtz { attribute: TimeAttribute::Proctime, .. } => {
            Err(Reason::new("it sorts by processing time in another way than ascending and by nothing else"))
        }
        TypeKind::Row(_) => Err(Reason::new("it sorts by a ROW")),
        TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Multiset(_) => {
            Err(Reason::new("it sorts by an ARRAY, a MAP or a MULTISET"))
        }
        _ => arrow_type(ty).map(drop),
    }
}

/// How sort keys are made.
pub(crate) trait SortKeys: Debug + Send + Sized {
    /// The sort key of one row.
    type Key: Ord + Clone + Debug + Send;
    /// The sort keys of a batch.
    type Encoded: Debug + Send;

    /// The sort keys of the rows of a batch. `columns` are all of its columns.
    fn encode(&self, columns: &[ArrayRef], num_rows: usize) -> Result<Self::Encoded, OperatorError>;

    /// The sort key of a row.
    fn key(encoded: &Self::Encoded, row: usize) -> Self::Key;

    /// How the sort key of a row compares with another one.
    fn compare(encoded: &Self::Encoded, row: usize, with: &Self::Key) -> Ordering;

    /// How the sort keys of two rows compare.
    fn order(encoded: &Self::Encoded, a: usize, b: usize) -> Ordering;

    /// Bytes that a key has on the heap.
    fn heap_bytes(key: &Self::Key) -> usize;
}

/// Sort keys of fixed width: for each column, from the first on, a bit that says where NULL stands, then its value.
#[derive(Debug)]
pub(crate) struct FixedKeys(Vec<FixedField>);

#[derive(Debug)]
struct FixedField {
    column: usize,
    /// Whether there is a bit for NULL, and which one it has then.
    null: Option<bool>,
    bits: u32,
    descending: bool,
}

/// Bits that values of a type need, in sort order.
fn width(ty: &LogicalType) -> Option<u32> {
    Some(match &ty.kind {
        TypeKind::Boolean => 1,
        TypeKind::TinyInt => 8,
        TypeKind::SmallInt => 16,
        TypeKind::Integer | TypeKind::Date | TypeKind::Time(_) | TypeKind::IntervalYearMonth => 32,
        TypeKind::BigInt | TypeKind::IntervalDayTime => 64,
        // 10^18 < 2^63 and 10^28 < 2^95
        TypeKind::Decimal { precision: ..=18, .. } => 64,
        TypeKind::Decimal { precision: ..=28, .. } => 96,
        TypeKind::Decimal { .. } => 128,
        TypeKind::Timestamp { precision, .. } | TypeKind::TimestampLtz { precision, .. } if *precision <= 3 => 64,
        // 2^63 milliseconds are below 2^83 nanoseconds
        TypeKind::Timestamp { .. } | TypeKind::TimestampLtz { .. } => 96,
        _ => return None,
    })
}

impl FixedKeys {
    /// Keys for these columns, if 128 bits are enough for all of them.
    pub(crate) fn try_new(order_by: &[SortField], input: &LogicalType) -> Option<Self> {
        let field = |field: &SortField| {
            let ty = &input.fields().get(field.column)?.ty;
            let null = ty.nullable.then_some(field.nulls_last);
            Some(FixedField { column: field.column, null, bits: width(ty)?, descending: !field.ascending })
        };
        let fields = order_by.iter().map(field).collect::<Option<Vec<_>>>()?;
        let bits: u32 = fields.iter().map(|field| field.bits + u32::from(field.null.is_some())).sum();
        (bits <= u128::BITS).then_some(Self(fields))
    }
}

impl FixedField {
    /// Appends the column to the keys.
    fn append(&self, column: &ArrayRef, keys: &mut [u128]) -> Result<(), OperatorError> {
        match column.data_type() {
            DataType::Boolean => {
                let array = column.as_boolean();
                self.shift(array, keys, |row| u128::from(array.value(row)));
            }
            DataType::Int8 => self.signed::<Int8Type>(column, keys),
            DataType::Int16 => self.signed::<Int16Type>(column, keys),
            DataType::Int32 => self.signed::<Int32Type>(column, keys),
            DataType::Int64 => self.signed::<Int64Type>(column, keys),
            DataType::Date32 => self.signed::<Date32Type>(column, keys),
            DataType::Time32(TimeUnit::Millisecond) => self.signed::<Time32MillisecondType>(column, keys),
            DataType::Timestamp(TimeUnit::Millisecond, None) => self.signed::<TimestampMillisecondType>(column, keys),
            DataType::Decimal128(..) => self.signed::<Decimal128Type>(column, keys),
            other => return Err(OperatorError::Input(format!("a sort column of type {other}"))),
        }
        Ok(())
    }

    /// Signed values in order: the lowest one becomes 0.
    fn signed<T: ArrowPrimitiveType>(&self, column: &ArrayRef, keys: &mut [u128])
    where
        T::Native: Into<i128>,
    {
        let array = column.as_primitive::<T>();
        let values = array.values();
        let lowest = 1_u128 << (self.bits - 1);
        self.shift(array, keys, |row| {
            let value: i128 = values[row].into();
            value.cast_unsigned().wrapping_add(lowest)
        });
    }

    #[inline]
    fn shift(&self, array: &dyn Array, keys: &mut [u128], value: impl Fn(usize) -> u128) {
        let mask = if self.bits == u128::BITS { u128::MAX } else { (1 << self.bits) - 1 };
        let invert = if self.descending { mask } else { 0 };
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, key) in keys.iter_mut().enumerate() {
            let valid = nulls.is_none_or(|nulls| nulls.is_valid(row));
            if let Some(null) = self.null {
                *key = *key << 1 | u128::from(valid != null);
            }
            let value = if valid { (value(row) ^ invert) & mask } else { 0 };
            *key = key.checked_shl(self.bits).unwrap_or_default() | value;
        }
    }
}

impl SortKeys for FixedKeys {
    type Key = u128;
    type Encoded = Vec<u128>;

    fn encode(&self, columns: &[ArrayRef], num_rows: usize) -> Result<Vec<u128>, OperatorError> {
        let mut keys = vec![0; num_rows];
        for field in &self.0 {
            field.append(column(columns, field.column)?, &mut keys)?;
        }
        Ok(keys)
    }

    #[inline]
    fn key(encoded: &Vec<u128>, row: usize) -> u128 {
        encoded.get(row).copied().unwrap_or_default()
    }

    #[inline]
    fn compare(encoded: &Vec<u128>, row: usize, with: &u128) -> Ordering {
        Self::key(encoded, row).cmp(with)
    }

    #[inline]
    fn order(encoded: &Vec<u128>, a: usize, b: usize) -> Ordering {
        Self::key(encoded, a).cmp(&Self::key(encoded, b))
    }

    fn heap_bytes(_key: &u128) -> usize {
        0
    }
}

fn column(columns: &[ArrayRef], number: usize) -> Result<&ArrayRef, OperatorError> {
    columns.get(number).ok_or_else(|| OperatorError::Input(format!("sort column {number} of {}", columns.len())))
}

/// Sort keys of any width, as bytes.
#[derive(Debug)]
pub(crate) struct BytesKeys {
    columns: Vec<usize>,
    converter: RowConverter,
}

impl BytesKeys {
    /// Keys for these columns.
    pub(crate) fn try_new(order_by: &[SortField], input: &LogicalType) -> Result<Self, Reason> {
        let field = |field: &SortField| {
            let ty = input.fields().get(field.column).ok_or_else(|| Reason::new("a sort column does not exist"))?;
            let options = SortOptions { descending: !field.ascending, nulls_first: !field.nulls_last };
            Ok(ArrowSortField::new_with_options(arrow_type(&ty.ty)?, options))
        };
        let fields = order_by.iter().map(field).collect::<Result<Vec<_>, Reason>>()?;
        let converter = RowConverter::new(fields).map_err(|error| Reason::new(error.to_string()))?;
        Ok(Self { columns: order_by.iter().map(|field| field.column).collect(), converter })
    }
}

impl SortKeys for BytesKeys {
    type Key = Box<[u8]>;
    type Encoded = Rows;

    fn encode(&self, columns: &[ArrayRef], _num_rows: usize) -> Result<Rows, OperatorError> {
        let columns = self.columns.iter().map(|number| column(columns, *number).map(ArrayRef::clone));
        Ok(self.converter.convert_columns(&columns.collect::<Result<Vec<_>, _>>()?)?)
    }

    fn key(encoded: &Rows, row: usize) -> Box<[u8]> {
        Box::from(encoded.row(row).as_ref())
    }

    #[inline]
    fn compare(encoded: &Rows, row: usize, with: &Box<[u8]>) -> Ordering {
        encoded.row(row).as_ref().cmp(with)
    }

    #[inline]
    fn order(encoded: &Rows, a: usize, b: usize) -> Ordering {
        encoded.row(a).as_ref().cmp(encoded.row(b).as_ref())
    }

    fn heap_bytes(key: &Box<[u8]>) -> usize {
        key.len()
    }
}
