//! Sort keys with FLOAT or DOUBLE columns, for the first row of a partition alone.
//!
//! Flink compares such values with Java's `<` and `>`: NaN is neither less nor greater than any number, -0.0 not than 0.0, and then
//! the next sort column decides. That is no order that rows could be kept in: what a sorted map makes of it depends on the order
//! in which they came. Whether a row takes the place of another one does not, and more is not asked where only the
//! first row counts.
//!
//! Follows: GenerateUtils, ComparatorCodeGenerator, Flink 2.2. Differences: none.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::Rows;
use streamfusion_plan::Reason;
use streamfusion_plan::node::SortField;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::sort_key::{BytesKeys, SortKeys};
use crate::OperatorError;

/// Whether a sort column is FLOAT or DOUBLE.
pub(super) fn has_floats(order_by: &[SortField], input: &LogicalType) -> bool {
    order_by.iter().any(|field| is_float(field, input))
}

fn is_float(field: &SortField, input: &LogicalType) -> bool {
    let kind = input.fields().get(field.column).map(|field| &field.ty.kind);
    matches!(kind, Some(TypeKind::Float | TypeKind::Double))
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct FloatKeys(Vec<Field>);

#[derive(Debug)]
enum Field {
    Float { column: usize, descending: bool, nulls_last: bool },
    Other(BytesKeys),
}

/// The values of one sort column.
#[derive(Debug)]
pub(super) enum Column {
    Float(Vec<FloatValue>),
    Other(Rows),
}

/// A FLOAT or DOUBLE with its place among the others: with a descending order the negated one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FloatValue {
    First,
    Number(f64),
    Last,
}

/// The value of one sort column in a key.
#[derive(Debug, Clone)]
enum Value {
    Float(FloatValue),
    Other(Box<[u8]>),
}

/// The sort key of a row. Two of them compare as Flink compares rows; three need not be in any order.
#[derive(Debug, Clone)]
pub(super) struct FloatKey(Box<[Value]>);

impl FloatValue {
    fn compare(self, with: Self) -> Ordering {
        let place = |value: Self| match value {
            Self::First => 0,
            Self::Number(_) => 1,
            Self::Last => 2,
        };
        match (self, with) {
            // of values that are not comparable neither comes first
            (Self::Number(a), Self::Number(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            _ => place(self).cmp(&place(with)),
        }
    }
}

impl Value {
    fn compare(&self, with: &Self) -> Ordering {
        match (self, with) {
            (Self::Float(a), Self::Float(b)) => a.compare(*b),
            (Self::Other(a), Self::Other(b)) => a.cmp(b),
            // keys have the same columns
            (Self::Float(_), Self::Other(_)) | (Self::Other(_), Self::Float(_)) => Ordering::Equal,
        }
    }
}

impl Ord for FloatKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let columns = self.0.iter().zip(&other.0);
        columns.map(|(a, b)| a.compare(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for FloatKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FloatKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for FloatKey {}

impl FloatKeys {
    pub(super) fn try_new(order_by: &[SortField], input: &LogicalType) -> Result<Self, Reason> {
        let field = |field: &SortField| {
            let SortField { column, ascending, nulls_last } = *field;
            match is_float(field, input) {
                true => Ok(Field::Float { column, descending: !ascending, nulls_last }),
                false => BytesKeys::try_new(std::slice::from_ref(field), input).map(Field::Other),
            }
        };
        Ok(Self(order_by.iter().map(field).collect::<Result<_, _>>()?))
    }
}

fn floats(column: &ArrayRef, descending: bool, nulls_last: bool) -> Result<Vec<FloatValue>, OperatorError> {
    let null = if nulls_last { FloatValue::Last } else { FloatValue::First };
    let value = |value: f64| FloatValue::Number(if descending { -value } else { value });
    Ok(match column.data_type() {
        DataType::Float32 => column
            .as_primitive::<Float32Type>()
            .iter()
            .map(|found| found.map_or(null, |found| value(found.into())))
            .collect(),
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().iter().map(|found| found.map_or(null, value)).collect()
        }
        other => return Err(OperatorError::Input(format!("a sort column of type {other}"))),
    })
}

impl SortKeys for FloatKeys {
    type Key = FloatKey;
    type Encoded = Vec<Column>;

    fn encode(&self, columns: &[ArrayRef], num_rows: usize) -> Result<Vec<Column>, OperatorError> {
        let encode = |field: &Field| match field {
            Field::Float { column, descending, nulls_last } => {
                let array =
                    columns.get(*column).ok_or_else(|| OperatorError::Input("a sort column is missing".into()))?;
                Ok(Column::Float(floats(array, *descending, *nulls_last)?))
            }
            Field::Other(keys) => Ok(Column::Other(keys.encode(columns, num_rows)?)),
        };
        self.0.iter().map(encode).collect()
    }

    fn key(encoded: &Vec<Column>, row: usize) -> FloatKey {
        let value = |column: &Column| match column {
            Column::Float(values) => Value::Float(values.get(row).copied().unwrap_or(FloatValue::Last)),
            Column::Other(rows) => Value::Other(Box::from(rows.row(row).as_ref())),
        };
        FloatKey(encoded.iter().map(value).collect())
    }

    fn compare(encoded: &Vec<Column>, row: usize, with: &FloatKey) -> Ordering {
        Self::key(encoded, row).cmp(with)
    }

    fn order(encoded: &Vec<Column>, a: usize, b: usize) -> Ordering {
        Self::key(encoded, a).cmp(&Self::key(encoded, b))
    }

    fn heap_bytes(key: &FloatKey) -> usize {
        let bytes = |value: &Value| match value {
            Value::Float(_) => 0,
            Value::Other(bytes) => bytes.len(),
        };
        key.0.iter().map(|value| size_of::<Value>() + bytes(value)).sum()
    }
}
