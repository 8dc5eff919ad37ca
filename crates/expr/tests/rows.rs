//! Fields of rows, and rows that are not there.
#![allow(clippy::unwrap_used, clippy::panic)]

mod build;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field as ArrowField};
use build::*;
use streamfusion_expr::evaluate;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::{Field, TypeKind};

fn row(fields: &[(&str, TypeKind)]) -> TypeKind {
    TypeKind::Row(
        fields.iter().map(|(name, kind)| Field { name: (*name).to_owned(), ty: nullable(kind.clone()) }).collect(),
    )
}

fn field(expr: Rex, index: usize, kind: TypeKind) -> Rex {
    Rex::FieldAccess { expr: Box::new(expr), index, ty: nullable(kind) }
}

fn structs(columns: Vec<(&str, ArrayRef)>, nulls: Option<Vec<bool>>) -> ArrayRef {
    let (fields, columns): (Vec<_>, Vec<_>) = columns
        .into_iter()
        .map(|(name, column)| (Arc::new(ArrowField::new(name, column.data_type().clone(), true)), column))
        .unzip();
    Arc::new(StructArray::try_new(fields.into(), columns, nulls.map(NullBuffer::from)).unwrap())
}

#[test]
fn a_field_is_null_where_its_row_or_the_row_around_it_is() {
    let inner = structs(
        vec![
            ("x", i32s(vec![Some(1), Some(2), Some(3), Some(4), None])),
            ("s", texts(vec![Some("a"), Some("b"), Some("c"), None, Some("e")])),
        ],
        Some(vec![true, true, false, true, true]),
    );
    let outer = structs(vec![("i", inner)], Some(vec![true, false, true, true, true]));
    let inner_kind = row(&[("x", INT), ("s", STRING)]);
    let outer_kind = row(&[("i", inner_kind.clone())]);
    let inner = || field(col(0, outer_kind.clone()), 0, inner_kind.clone());
    let all = batch(vec![outer]);
    check(field(inner(), 0, INT), &all, &["1", "NULL", "NULL", "4", "NULL"]);
    check(field(inner(), 1, STRING), &all, &["a", "NULL", "NULL", "NULL", "e"]);
    check(field(inner(), 1, STRING), &all.slice(1, 4), &["NULL", "NULL", "NULL", "e"]);
    check(call("CHAR_LENGTH", vec![field(inner(), 1, STRING)], INT), &all.slice(3, 2), &["NULL", "1"]);
}

#[test]
fn a_path_into_a_row_that_nobody_reads_has_no_values() {
    let inner_kind = row(&[("x", INT)]);
    let outer_kind = row(&[("i", inner_kind.clone()), ("y", INT)]);
    let path = field(field(col(0, outer_kind.clone()), 0, inner_kind), 0, INT);
    let skipped: ArrayRef = Arc::new(NullArray::new(2));
    let middle = structs(vec![("i", Arc::clone(&skipped)), ("y", i32s(vec![Some(1), None]))], Some(vec![true, false]));
    for rows in [skipped, middle] {
        let values = evaluate(&native(&path), &batch(vec![rows])).unwrap();
        assert_eq!((values.len(), values.data_type()), (2, &DataType::Null));
    }
}
