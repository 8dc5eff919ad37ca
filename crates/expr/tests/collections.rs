//! Elements of collections: every claim of `functions/collection.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod build;

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use streamfusion_expr::host_calls;
use streamfusion_plan::rex::{Literal, Rex};
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::collection::testing::{Value, array, map, row};

use build::*;

fn array_of(element: TypeKind) -> TypeKind {
    TypeKind::Array(nullable(element).into())
}

fn map_of(key: TypeKind, value: TypeKind) -> TypeKind {
    TypeKind::Map(nullable(key).into(), nullable(value).into())
}

fn column(values: Vec<Option<Vec<u8>>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<BinaryArray>())
}

/// `[3, NULL, -1]`, `[]`, NULL, `[7]`
fn numbers() -> ArrayRef {
    column(vec![
        Some(array(4, &[Some(3.into()), None, Some((-1).into())])),
        Some(array(4, &[])),
        None,
        Some(array(4, &[Some(7.into())])),
    ])
}

#[test]
fn an_element_is_counted_from_one_and_absent_beyond_the_ends() {
    let item = |index: Rex| call("ITEM", vec![col(0, array_of(INT)), index], INT);
    let batch = batch(vec![numbers(), i32s(vec![Some(3), Some(1), Some(1), None])]);
    check(item(int(1, INT)), &batch, &["3", "NULL", "NULL", "7"]);
    check(item(int(2, INT)), &batch, &["NULL", "NULL", "NULL", "NULL"]);
    check(item(col(1, INT)), &batch, &["-1", "NULL", "NULL", "NULL"]);
    let batch = build::batch(vec![numbers(), i32s(vec![Some(0), Some(-1), Some(i32::MIN), Some(i32::MAX)])]);
    check(item(col(1, INT)), &batch, &["NULL", "NULL", "NULL", "NULL"]);
}

#[test]
fn what_flink_plans_otherwise_goes_to_the_jvm() {
    let strict = |kind| LogicalType { kind, nullable: false };
    let not_null = Rex::Call {
        function: streamfusion_plan::rex::Function::BuiltIn { name: "ITEM".to_owned(), version: 1 },
        operands: vec![col(0, array_of(INT)), int(1, INT)],
        ty: strict(INT),
    };
    let refused = [
        call("ITEM", vec![col(0, array_of(INT)), int(0, INT)], INT),
        call("ITEM", vec![col(0, array_of(INT)), int(1, BIGINT)], INT),
        not_null,
        call("ITEM", vec![col(0, map_of(DOUBLE, INT)), col(1, DOUBLE)], INT),
        call("ITEM", vec![col(0, map_of(BIGINT, INT)), col(1, INT)], INT),
        call("CARDINALITY", vec![col(0, TypeKind::Multiset(nullable(INT).into()))], INT),
        call("ARRAY_CONTAINS", vec![col(0, array_of(INT)), int(1, INT)], BOOLEAN),
        call("=", vec![col(0, array_of(INT)), col(0, array_of(INT))], BOOLEAN),
    ];
    for rex in refused {
        assert_eq!(host_calls(&rex, "/p").unwrap().len(), 1, "{rex:?}");
    }
}

#[test]
fn fields_of_rows_in_arrays_are_read() {
    let fields = [("a", INT), ("b", STRING)];
    let fields = fields.map(|(name, kind)| Field { name: name.to_owned(), ty: nullable(kind) });
    let kind = TypeKind::Row(fields.into());
    let rows = [
        Some(Value::Nested(row(&[Some(1.into()), Some("a longer text".into())]))),
        None,
        Some(Value::Nested(row(&[None, Some("".into())]))),
    ];
    let batch = batch(vec![column(vec![Some(array(8, &rows))])]);
    let field = |element, index, ty| {
        let item = call("ITEM", vec![col(0, array_of(kind.clone())), int(element, INT)], kind.clone());
        Rex::FieldAccess { expr: Box::new(item), index, ty: nullable(ty) }
    };
    check(field(1, 0, INT), &batch, &["1"]);
    check(field(1, 1, STRING), &batch, &["a longer text"]);
    check(field(2, 1, STRING), &batch, &["NULL"]);
    check(field(3, 0, INT), &batch, &["NULL"]);
    check(field(3, 1, STRING), &batch, &[""]);
}

#[test]
fn a_value_is_found_by_its_key() {
    let texts_of = |entries: &[(Option<&str>, Option<i64>)]| {
        let keys: Vec<_> = entries.iter().map(|(key, _)| key.map(Value::from)).collect();
        let values: Vec<_> = entries.iter().map(|(_, value)| value.map(Value::from)).collect();
        Some(map(&array(8, &keys), &array(8, &values)))
    };
    let maps = column(vec![
        texts_of(&[(Some("a"), Some(1)), (Some("longer than 7"), Some(2)), (Some("b"), None)]),
        texts_of(&[]),
        None,
        texts_of(&[(None, Some(9)), (Some(""), Some(3))]),
    ]);
    let batch = batch(vec![maps, texts(vec![Some("longer than 7"), Some("a"), Some("a"), Some("")])]);
    let item = |key: Rex| call("ITEM", vec![col(0, map_of(STRING, BIGINT)), key], BIGINT);
    check(item(lit(Literal::String("a".into()), TypeKind::Char(1))), &batch, &["1", "NULL", "NULL", "NULL"]);
    check(item(lit(Literal::String("b".into()), TypeKind::Char(1))), &batch, &["NULL", "NULL", "NULL", "NULL"]);
    check(item(col(1, STRING)), &batch, &["2", "NULL", "NULL", "3"]);
    check(item(lit(Literal::Null, STRING)), &batch, &["NULL", "NULL", "NULL", "NULL"]);
}

#[test]
fn keys_of_every_integer_width_are_found() {
    let cases: [(TypeKind, usize, ArrayRef); 4] = [
        (TINYINT, 1, i8s(vec![Some(-2)])),
        (SMALLINT, 2, i16s(vec![Some(-2)])),
        (INT, 4, i32s(vec![Some(-2)])),
        (BIGINT, 8, i64s(vec![Some(-2)])),
    ];
    for (kind, width, key) in cases {
        let number = |value: i64| Some(Value::Fixed(value.to_le_bytes()[..width].to_vec()));
        let entries =
            map(&array(width, &[number(1), number(-2)]), &array(8, &[Some("one".into()), Some("two".into())]));
        let batch = batch(vec![column(vec![Some(entries)]), key]);
        check(call("ITEM", vec![col(0, map_of(kind.clone(), STRING)), col(1, kind)], STRING), &batch, &["two"]);
    }
}

#[test]
fn cardinality_counts_nulls_too() {
    let entries = map(&array(4, &[Some(1.into()), Some(2.into())]), &array(4, &[None, None]));
    let batch = batch(vec![numbers(), column(vec![Some(entries), None, None, None])]);
    check(call("CARDINALITY", vec![col(0, array_of(INT))], INT), &batch, &["3", "0", "NULL", "1"]);
    check(call("CARDINALITY", vec![col(1, map_of(INT, INT))], INT), &batch, &["2", "NULL", "NULL", "NULL"]);
}

#[test]
fn element_fails_where_there_are_several() {
    let element = || call("ELEMENT", vec![col(0, array_of(INT))], INT);
    let single = [Some(array(4, &[Some(7.into())])), Some(array(4, &[None])), Some(array(4, &[])), None];
    check(element(), &batch(vec![column(single.to_vec())]), &["7", "NULL", "NULL", "NULL"]);
    let class = "org.apache.flink.table.api.TableRuntimeException";
    check_fails(element(), &batch(vec![numbers()]), class, "Array has more than one element.");
}
