//! Rows compared by reference, against a comparison value by value.

use arrow::array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, NullArray, StructArray, Time32MillisecondArray, TimestampMillisecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use proptest::prelude::*;

use super::*;
use crate::OperatorError;
use crate::changelog::*;

const TYPES: usize = 15;

/// A column of one of the types that batches carry, of few different values.
fn column(ty: usize, values: &[(u8, bool)]) -> ArrayRef {
    macro_rules! column {
        ($array:ty, $value:expr) => {
            Arc::new(values.iter().map(|(value, valid)| valid.then(|| $value(*value))).collect::<$array>())
        };
    }
    let floats = [0.0, -0.0, f64::NAN, 1.5, f64::INFINITY];
    let texts = ["", "a", "b", "ab", "a\u{e4}"];
    match ty {
        0 => column!(BooleanArray, |v| v % 2 == 0),
        1 => column!(Int8Array, |v| v as i8),
        2 => column!(Int16Array, i16::from),
        3 => column!(Int32Array, i32::from),
        4 => column!(Int64Array, i64::from),
        5 => column!(Float32Array, |v| floats[v as usize % 5] as f32),
        6 => column!(Float64Array, |v| floats[v as usize % 5]),
        7 => {
            let decimals: Arc<Decimal128Array> = column!(Decimal128Array, |v| i128::from(v) - 2);
            Arc::new(Decimal128Array::clone(&decimals).with_precision_and_scale(38, 9).unwrap())
        }
        8 => column!(StringArray, |v| texts[v as usize % 5]),
        9 => column!(BinaryArray, |v| texts[v as usize % 5].as_bytes()),
        10 => column!(Date32Array, i32::from),
        11 => column!(Time32MillisecondArray, i32::from),
        12 => column!(TimestampMillisecondArray, i64::from),
        13 => Arc::new(NullArray::new(values.len())),
        // the values of the fields of a NULL differ
        _ => {
            let rotated: Vec<(u8, bool)> = values.iter().map(|(value, _)| (value / 2, value % 3 != 0)).collect();
            let inner = StructArray::new(
                vec![Field::new("x", DataType::Float64, true)].into(),
                vec![column(6, &rotated)],
                Some(NullBuffer::from(rotated.iter().map(|(value, _)| *value != 1).collect::<Vec<_>>())),
            );
            let fields: Vec<(Field, ArrayRef)> = vec![
                (Field::new("a", DataType::Utf8, true), column(8, &rotated)),
                (Field::new("r", inner.data_type().clone(), true), Arc::new(inner)),
            ];
            let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = fields.into_iter().unzip();
            let nulls = NullBuffer::from(values.iter().map(|(_, valid)| *valid).collect::<Vec<_>>());
            Arc::new(StructArray::new(fields.into(), columns, Some(nulls)))
        }
    }
}

/// Whether two values are the same, the slow way.
fn same(left: (&ArrayRef, usize), right: (&ArrayRef, usize), floats: Floats) -> bool {
    if left.0.data_type() == &DataType::Null {
        return true;
    }
    if left.0.is_null(left.1) || right.0.is_null(right.1) {
        return left.0.is_null(left.1) && right.0.is_null(right.1);
    }
    match (left.0.data_type(), floats) {
        (DataType::Struct(fields), _) => (0..fields.len()).all(|field| {
            let child = |of: (&ArrayRef, usize)| of.0.as_struct().column(field).clone();
            same((&child(left), left.1), (&child(right), right.1), floats)
        }),
        (DataType::Float32, Floats::Values) => {
            left.0.as_primitive::<Float32Type>().value(left.1) == right.0.as_primitive::<Float32Type>().value(right.1)
        }
        (DataType::Float64, Floats::Values) => {
            left.0.as_primitive::<Float64Type>().value(left.1) == right.0.as_primitive::<Float64Type>().value(right.1)
        }
        // Arrow compares bits
        _ => left.0.slice(left.1, 1).to_data() == right.0.slice(right.1, 1).to_data(),
    }
}

fn values() -> impl Strategy<Value = Vec<(u8, bool)>> {
    prop::collection::vec((0_u8..5, prop::bool::weighted(0.8)), 1..20)
}

proptest! {
    #[test]
    fn pairs_are_equal_where_their_values_are(
        types in prop::collection::vec(0..TYPES, 1..4),
        batches in prop::collection::vec(values(), 1..4),
        picks in prop::collection::vec(any::<[prop::sample::Index; 4]>(), 0..60),
        floats in prop::sample::select(vec![Floats::Values, Floats::Bits]),
    ) {
        let mut rows = BundleRows::new();
        let mut kept = Vec::new();
        for values in &batches {
            let columns: Vec<ArrayRef> = types.iter().map(|ty| column(*ty, values)).collect();
            // views, as a split makes them
            let batch = Batch::try_new(columns, values.len(), None)?.slice(1, values.len() - 1)?;
            kept.push((rows.add(&batch)?, batch));
        }
        kept.retain(|(_, batch)| batch.num_rows() > 0);
        prop_assume!(!kept.is_empty());
        let places: Vec<[(usize, usize); 2]> = picks
            .iter()
            .map(|[b, r, c, s]| {
                [(b, r), (c, s)].map(|(batch, row)| {
                    let batch = batch.index(kept.len());
                    (batch, row.index(kept[batch].1.num_rows()))
                })
            })
            .collect();
        let pairs = places.iter().map(|places| {
            let [left, right] = places.map(|(batch, row)| RowRef::new(kept[batch].0, row as u32));
            RowPair { left, right }
        });
        let found = equal_pairs(&rows, pairs, 0..types.len(), floats)?;
        prop_assert_eq!(found.len(), places.len());
        for ([left, right], found) in places.iter().zip(found) {
            let column = |place: &(usize, usize), column: usize| kept[place.0].1.columns()[column].clone();
            let expected =
                (0..types.len()).all(|c| same((&column(left, c), left.1), (&column(right, c), right.1), floats));
            prop_assert_eq!(found, expected, "{:?} {:?}", left, right);
        }
    }
}

#[test]
fn floats_are_equal_as_java_or_as_bits() -> Result<(), OperatorError> {
    let values: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN]));
    let mut rows = BundleRows::new();
    let number = rows.add(&Batch::try_new(vec![values], 3, None)?)?;
    let pairs = [(0, 1), (2, 2)]
        .map(|(left, right)| RowPair { left: RowRef::new(number, left), right: RowRef::new(number, right) });
    assert_eq!(equal_pairs(&rows, pairs, [0], Floats::Values)?, [true, false]);
    assert_eq!(equal_pairs(&rows, pairs, [0], Floats::Bits)?, [false, true]);
    Ok(())
}

#[test]
fn columns_that_are_not_compared_may_differ() -> Result<(), OperatorError> {
    let mut rows = BundleRows::new();
    let number = rows.add(&batch(&["+I 1 1 a", "+I 2 1 a"].map(change)))?;
    let pair = RowPair { left: RowRef::new(number, 0), right: RowRef::new(number, 1) };
    assert_eq!(equal_pairs(&rows, [pair], [1, 2], Floats::Bits)?, [true]);
    assert_eq!(equal_pairs(&rows, [pair], [0, 1, 2], Floats::Bits)?, [false]);
    Ok(())
}

#[test]
fn batches_of_different_types_are_refused() -> Result<(), OperatorError> {
    let mut rows = BundleRows::new();
    let left = rows.add(&Batch::try_new(vec![column(3, &[(1, true)])], 1, None)?)?;
    let right = rows.add(&Batch::try_new(vec![column(4, &[(1, true)])], 1, None)?)?;
    let pair = RowPair { left: RowRef::new(left, 0), right: RowRef::new(right, 0) };
    assert!(equal_pairs(&rows, [pair], [0], Floats::Bits).is_err());
    Ok(())
}
