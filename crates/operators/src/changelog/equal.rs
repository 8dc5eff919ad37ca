//! Which rows have the same content, compared column by column where they lie.
//!
//! Row kinds are no content. NULL equals NULL. A column is dispatched on once per call, not once per row; no row is
//! materialised.

use arrow::array::{Array, ArrowPrimitiveType, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimeUnit, TimestampMillisecondType,
};

use super::rows::{BundleRows, RowRef};
use crate::OperatorError;

/// When FLOAT and DOUBLE values are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floats {
    /// Java's `==`: NaN differs from itself, -0.0 does not differ from 0.0. So does Flink's generated equaliser, unless both
    /// rows are BinaryRowData: for results of aggregates.
    Values,
    /// Bit for bit, as BinaryRowData compares: for rows that came through an exchange and are kept as they came.
    Bits,
}

/// Two rows to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowPair {
    /// One.
    pub left: RowRef,
    /// The other.
    pub right: RowRef,
}

/// For each pair whether its rows are equal in all of `columns`. Columns that nobody reads (Arrow type Null) are equal.
/// Errors for a row of another bundle, for a type that batches do not carry, and if the batches differ in type.
///
/// Follows: EqualiserCodeGenerator, BinaryRowData, Flink 2.2. Differences: none.
pub fn equal_pairs(
    rows: &BundleRows,
    pairs: impl IntoIterator<Item = RowPair>,
    columns: impl IntoIterator<Item = usize>,
    floats: Floats,
) -> Result<Vec<bool>, OperatorError> {
    // a pair with one row on both sides is compared too: NaN may differ from itself
    let mut candidates = Vec::new();
    for (index, RowPair { left, right }) in pairs.into_iter().enumerate() {
        rows.check(left)?;
        rows.check(right)?;
        candidates.push(Candidate { left, right, index });
    }
    let mut equal = vec![false; candidates.len()];
    for column in columns {
        if candidates.is_empty() {
            break;
        }
        retain_equal(&rows.column(column)?, &mut candidates, floats)?;
    }
    for candidate in candidates {
        equal[candidate.index] = true;
    }
    Ok(equal)
}

/// A pair whose rows have not been found to differ.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    left: RowRef,
    right: RowRef,
    index: usize,
}

/// Drops the pairs that differ in this column. `arrays` is the column, batch by batch. Order may change.
fn retain_equal(arrays: &[&dyn Array], candidates: &mut Vec<Candidate>, floats: Floats) -> Result<(), OperatorError> {
    let Some((first, others)) = arrays.split_first() else { return Ok(()) };
    let ty = first.data_type();
    if let Some(other) = others.iter().find(|other| !other.data_type().equals_datatype(ty)) {
        return Err(OperatorError::Internal(format!("a column of type {ty} and {} in one bundle", other.data_type())));
    }
    match ty {
        DataType::Null => {}
        DataType::Boolean => {
            let values: Vec<_> = arrays.iter().map(|array| array.as_boolean().values()).collect();
            let value = |row: RowRef| values[row.batch()].value(row.row());
            retain(arrays, candidates, |left, right| value(left) == value(right));
        }
        DataType::Int8 => primitive::<Int8Type>(arrays, candidates, |left, right| left == right),
        DataType::Int16 => primitive::<Int16Type>(arrays, candidates, |left, right| left == right),
        DataType::Int32 => primitive::<Int32Type>(arrays, candidates, |left, right| left == right),
        DataType::Int64 => primitive::<Int64Type>(arrays, candidates, |left, right| left == right),
        DataType::Date32 => primitive::<Date32Type>(arrays, candidates, |left, right| left == right),
        DataType::Time32(TimeUnit::Millisecond) => {
            primitive::<Time32MillisecondType>(arrays, candidates, |left, right| left == right);
        }
        DataType::Timestamp(TimeUnit::Millisecond, None) => {
            primitive::<TimestampMillisecondType>(arrays, candidates, |left, right| left == right);
        }
        DataType::Decimal128(..) => primitive::<Decimal128Type>(arrays, candidates, |left, right| left == right),
        DataType::Float32 => match floats {
            Floats::Values => primitive::<Float32Type>(arrays, candidates, |left, right| left == right),
            Floats::Bits => {
                primitive::<Float32Type>(arrays, candidates, |left, right| left.to_bits() == right.to_bits());
            }
        },
        DataType::Float64 => match floats {
            Floats::Values => primitive::<Float64Type>(arrays, candidates, |left, right| left == right),
            Floats::Bits => {
                primitive::<Float64Type>(arrays, candidates, |left, right| left.to_bits() == right.to_bits());
            }
        },
        DataType::Utf8 => {
            let values: Vec<_> = arrays.iter().map(|array| array.as_string::<i32>()).collect();
            let value = |row: RowRef| values[row.batch()].value(row.row());
            retain(arrays, candidates, |left, right| value(left) == value(right));
        }
        DataType::Binary => {
            let values: Vec<_> = arrays.iter().map(|array| array.as_binary::<i32>()).collect();
            let value = |row: RowRef| values[row.batch()].value(row.row());
            retain(arrays, candidates, |left, right| value(left) == value(right));
        }
        DataType::Struct(fields) => {
            // what lies in the fields of a ROW that is NULL means nothing
            retain(arrays, candidates, |_, _| true);
            let null = |row: RowRef| arrays[row.batch()].is_null(row.row());
            let mut rows: Vec<Candidate> = candidates.extract_if(.., |candidate| !null(candidate.left)).collect();
            for field in 0..fields.len() {
                let children: Vec<&dyn Array> =
                    arrays.iter().map(|array| array.as_struct().column(field).as_ref()).collect();
                retain_equal(&children, &mut rows, floats)?;
            }
            candidates.append(&mut rows);
        }
        other => return Err(OperatorError::Internal(format!("values of type {other} cannot be compared"))),
    }
    Ok(())
}

/// Keeps the pairs whose values of fixed width are the same. The type of the arrays is `T`.
fn primitive<T: ArrowPrimitiveType>(
    arrays: &[&dyn Array],
    candidates: &mut Vec<Candidate>,
    same: impl Fn(T::Native, T::Native) -> bool,
) {
    let values: Vec<&[T::Native]> = arrays.iter().map(|array| array.as_primitive::<T>().values().as_ref()).collect();
    let value = |row: RowRef| values[row.batch()][row.row()];
    retain(arrays, candidates, |left, right| same(value(left), value(right)));
}

/// Keeps the pairs whose values are both NULL, or both not and the same.
fn retain(arrays: &[&dyn Array], candidates: &mut Vec<Candidate>, same: impl Fn(RowRef, RowRef) -> bool) {
    let nulls: Vec<Option<&NullBuffer>> = arrays.iter().map(|array| array.nulls()).collect();
    if nulls.iter().all(Option::is_none) {
        candidates.retain(|Candidate { left, right, .. }| same(*left, *right));
        return;
    }
    let null = |row: RowRef| nulls[row.batch()].is_some_and(|nulls| nulls.is_null(row.row()));
    candidates.retain(|Candidate { left, right, .. }| match (null(*left), null(*right)) {
        (false, false) => same(*left, *right),
        (left, right) => left == right,
    });
}
