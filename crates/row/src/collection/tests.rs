#![allow(clippy::unwrap_used, clippy::panic)]

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimestampMillisecondType,
};
use proptest::prelude::*;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::testing::{Value, array, map, row};
use super::*;
use crate::binary::{KeyEncoder, KeyRows};
use crate::random::{Random, all_types, column, flat_types, ty};
use crate::timestamp::split_nanos;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// What Flink's `BinaryArrayData` and `BinaryMapData` have for these values.
#[test]
fn the_bytes_are_those_of_flink() {
    let numbers = array(4, &[Some(1.into()), None, Some(3.into())]);
    assert_eq!(numbers, hex("0300000002000000 0100000000000000 0300000000000000"));
    let entries = map(&array(4, &[Some(1.into())]), &array(8, &[Some("x".into())]));
    let expected = "10000000 0100000000000000 0100000000000000 0100000000000000 7800000000000081";
    assert_eq!(entries, hex(expected));

    let numbers = ArrayView::try_new(&numbers).unwrap();
    let cells: Vec<_> = (0..4).map(|index| numbers.get(index, 4)).collect();
    let column = ElementType::try_new(&ty(TypeKind::Integer)).unwrap().column(&cells).unwrap();
    let column: Vec<_> = column.as_primitive::<Int32Type>().iter().collect();
    assert_eq!(column, [Some(1), None, Some(3), None]);
    let entries = MapView::try_new(&entries).unwrap();
    assert_eq!(entries.keys.get(0, 4).unwrap().integer(4), Ok(1));
    assert_eq!(entries.values.get(0, 8).unwrap().bytes(), Ok("x".as_bytes()));
}

/// The value of a row, as it is written.
fn value(column: &ArrayRef, ty: &LogicalType, row_number: usize) -> Option<Value> {
    if column.is_null(row_number) {
        return None;
    }
    let fixed = |bytes: &[u8]| Value::Fixed(bytes.to_vec());
    macro_rules! number {
        ($arrow:ty) => {
            fixed(&column.as_primitive::<$arrow>().value(row_number).to_le_bytes())
        };
    }
    Some(match (&ty.kind, column.data_type()) {
        (TypeKind::Row(fields), _) => {
            let fields = fields.iter().zip(column.as_struct().columns());
            Value::Nested(row(&fields.map(|(field, column)| value(column, &field.ty, row_number)).collect::<Vec<_>>()))
        }
        (TypeKind::Array(_) | TypeKind::Map(..), _) => {
            Value::Nested(column.as_binary::<i32>().value(row_number).into())
        }
        (TypeKind::Timestamp { precision: 4.., .. } | TypeKind::TimestampLtz { precision: 4.., .. }, _) => {
            let (millis, nanos) = split_nanos(column.as_primitive::<Decimal128Type>().value(row_number));
            Value::Nanos(millis, nanos)
        }
        (TypeKind::Decimal { precision, .. }, _) => {
            let unscaled = column.as_primitive::<Decimal128Type>().value(row_number);
            if *precision <= 18 { i64::try_from(unscaled).unwrap().into() } else { Value::WideDecimal(unscaled) }
        }
        (_, DataType::Boolean) => fixed(&[u8::from(column.as_boolean().value(row_number))]),
        (_, DataType::Int8) => number!(Int8Type),
        (_, DataType::Int16) => number!(Int16Type),
        (_, DataType::Int32) => number!(Int32Type),
        (_, DataType::Int64) => number!(Int64Type),
        (_, DataType::Float32) => number!(Float32Type),
        (_, DataType::Float64) => number!(Float64Type),
        (_, DataType::Date32) => number!(Date32Type),
        (_, DataType::Time32(_)) => number!(Time32MillisecondType),
        (_, DataType::Timestamp(..)) => number!(TimestampMillisecondType),
        (_, DataType::Utf8) => column.as_string::<i32>().value(row_number).into(),
        (_, DataType::Binary) => Value::Bytes(column.as_binary::<i32>().value(row_number).to_vec()),
        (_, other) => panic!("{other}"),
    })
}

/// Types of elements, ARRAYs of ARRAYs among them.
fn element_types() -> Vec<LogicalType> {
    let mut types = all_types();
    types.push(ty(TypeKind::Array(ty(TypeKind::Integer).into())));
    types
}

/// Values of a type: arrays of any bytes, which nothing looks into.
fn values(ty: &LogicalType, rows: usize, seed: u64) -> ArrayRef {
    match ty.kind {
        TypeKind::Array(_) => column(&crate::random::ty(TypeKind::VarBinary(100)), rows, false, &mut Random(seed)),
        _ => column(ty, rows, false, &mut Random(seed)),
    }
}

/// The same values, with nothing in the fields of a ROW that is NULL.
fn shown(column: &ArrayRef) -> Vec<String> {
    let show = |row| match column.is_null(row) {
        true => "NULL".to_owned(),
        false => arrow::util::display::array_value_to_string(column, row).unwrap(),
    };
    (0..column.len()).map(show).collect()
}

proptest! {
    /// Elements of any type that are written into arrays are read back, array by array.
    #[test]
    fn elements_are_read_as_they_were_written(
        ty in prop::sample::select(element_types()), lengths in prop::collection::vec(0usize..70, 0..5), seed: u64,
    ) {
        let expected = values(&ty, lengths.iter().sum(), seed);
        let element = ElementType::try_new(&ty).unwrap();
        let mut next = 0;
        let arrays: Vec<Vec<u8>> = lengths.iter().map(|length| {
            let values: Vec<_> = (next..next + length).map(|row| value(&expected, &ty, row)).collect();
            next += length;
            array(element.width(), &values)
        }).collect();
        let mut cells = Vec::new();
        for (bytes, length) in arrays.iter().zip(&lengths) {
            let array = ArrayView::try_new(bytes).unwrap();
            prop_assert_eq!(array.len(), *length);
            cells.extend((0..*length).map(|index| array.get(index, element.width())));
        }
        let found = element.column(&cells).unwrap();
        prop_assert_eq!(found.data_type(), element.arrow());
        prop_assert_eq!(shown(&found), shown(&expected));
    }

    /// A row that is a key has the form of a row in an array, but for NULLs with a part.
    #[test]
    fn rows_are_written_as_keys_are(types in prop::collection::vec(prop::sample::select(flat_types()), 1..5), seed: u64) {
        let columns: Vec<_> = types.iter().map(|ty| column(ty, 1, false, &mut Random(seed))).collect();
        prop_assume!(columns.iter().all(|column| column.is_valid(0)));
        let fields: Vec<_> = columns.iter().zip(&types).map(|(column, ty)| value(column, ty, 0)).collect();
        let mut keys = KeyRows::default();
        KeyEncoder::try_new(&types).unwrap().encode(&columns, 1, &mut keys).unwrap();
        prop_assert_eq!(keys.row(0), row(&fields));
    }

    /// Whatever the bytes are, reading them ends, and not with a panic.
    #[test]
    fn any_bytes_are_read_or_refused(
        ty in prop::sample::select(element_types()), bytes in prop::collection::vec(0u8..4, 0..80),
    ) {
        let element = ElementType::try_new(&ty).unwrap();
        let read = |array: ArrayView<'_>| {
            let cells: Vec<_> = (0..array.len().min(100)).map(|index| array.get(index, element.width())).collect();
            let _ = element.column(&cells);
        };
        if let Ok(array) = ArrayView::try_new(&bytes) {
            read(array);
        }
        if let Ok(map) = MapView::try_new(&bytes) {
            read(map.keys);
            read(map.values);
        }
    }
}

#[test]
fn damaged_bytes_are_refused() {
    let numbers = array(4, &[Some(1.into()), Some(2.into())]);
    let element = ElementType::try_new(&ty(TypeKind::Integer)).unwrap();
    let read = |bytes: &[u8]| {
        let array = ArrayView::try_new(bytes)?;
        let cells: Vec<_> = (0..array.len()).map(|index| array.get(index, 4)).collect();
        element.column(&cells).map(|column| column.len())
    };
    assert_eq!(read(&numbers), Ok(2));
    assert_eq!(read(&numbers[..12]), Err(CollectionError::Element));
    assert_eq!(read(&numbers[..6]), Err(CollectionError::Malformed));
    assert_eq!(read(&(-1i32).to_le_bytes().repeat(3)), Err(CollectionError::Malformed));
    let entries = map(&numbers, &array(4, &[None]));
    assert_eq!(MapView::try_new(&entries).err(), Some(CollectionError::Malformed));
    assert_eq!(MapView::try_new(&entries[..10]).err(), Some(CollectionError::Malformed));
}
