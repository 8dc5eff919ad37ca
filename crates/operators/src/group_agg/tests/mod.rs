//! The group aggregate against spelled-out changelogs and against a model that follows Flink's function row by row.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bundles;
mod changelogs;
mod model;
mod properties;
mod recovery;
mod sections;
mod time_to_live;

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
    UInt8Array,
};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int32Type, Int64Type};
use streamfusion_plan::node::{AggCall, GroupAggregate};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, KeyedState, StateClock, StateContext};

use super::{GroupAgg, supports};
use crate::Operator;

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
enum Datum {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Decimal(i128),
    Text(String),
}

/// Columns of the test input.
const KEY: usize = 0;
const TEXT_KEY: usize = 1;
const INT: usize = 2;
const DOUBLE: usize = 3;
const DECIMAL: usize = 4;
const TEXT: usize = 5;
const FILTER: usize = 6;
const OTHER_FILTER: usize = 7;
const LONG: usize = 8;

fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn string_type() -> TypeKind {
    TypeKind::VarChar(i32::MAX as u32)
}

fn column_kinds() -> Vec<TypeKind> {
    vec![
        TypeKind::BigInt,
        string_type(),
        TypeKind::Integer,
        TypeKind::Double,
        TypeKind::Decimal { precision: 10, scale: 2 },
        string_type(),
        TypeKind::Boolean,
        TypeKind::Boolean,
        TypeKind::BigInt,
    ]
}

fn input_type() -> LogicalType {
    let fields = column_kinds()
        .into_iter()
        .enumerate()
        .map(|(i, kind)| Field { name: format!("c{i}"), ty: nullable(kind) })
        .collect();
    LogicalType { kind: TypeKind::Row(fields), nullable: false }
}

/// A row: its kind and its values.
#[derive(Debug, Clone)]
struct Row {
    kind: u8,
    values: Vec<Datum>,
}

fn row(kind: &str, columns: &[(usize, Datum)]) -> Row {
    let kind = ["+I", "-U", "+U", "-D"].iter().position(|k| *k == kind).expect("a row kind");
    let mut values = vec![Datum::Null; column_kinds().len()];
    for (column, value) in columns {
        values[*column] = value.clone();
    }
    Row { kind: kind as u8, values }
}

fn call(name: &str, args: &[usize]) -> AggCall {
    let kind = match (name, args) {
        ("COUNT", _) => TypeKind::BigInt,
        ("SUM" | "$SUM0", [DECIMAL]) => TypeKind::Decimal { precision: 38, scale: 2 },
        ("AVG", [DECIMAL]) => TypeKind::Decimal { precision: 38, scale: 6 },
        (_, [column]) => column_kinds().swap_remove(*column),
        _ => panic!("no result type for {name}"),
    };
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter: None,
        distinct: false,
        approximate: false,
        ignore_nulls: false,
        need_retraction: false,
        ty: nullable(kind),
    }
}

fn spec(grouping: &[usize], calls: Vec<AggCall>) -> GroupAggregate {
    GroupAggregate {
        grouping: grouping.to_vec(),
        calls,
        generate_update_before: true,
        need_retraction: false,
        ttl_ms: 0,
        mini_batch_size: None,
    }
}

/// The same aggregate over input that retracts.
fn retracting(mut spec: GroupAggregate) -> GroupAggregate {
    spec.need_retraction = true;
    for call in &mut spec.calls {
        call.need_retraction = true;
    }
    spec
}

fn array(rows: &[Row], column: usize) -> ArrayRef {
    let values = rows.iter().map(|row| &row.values[column]);
    match column_kinds().swap_remove(column) {
        TypeKind::Boolean => {
            Arc::new(values.map(|v| if let Datum::Bool(v) = v { Some(*v) } else { None }).collect::<BooleanArray>())
        }
        TypeKind::Integer => {
            Arc::new(values.map(|v| if let Datum::Int(v) = v { Some(*v) } else { None }).collect::<Int32Array>())
        }
        TypeKind::BigInt => {
            Arc::new(values.map(|v| if let Datum::Long(v) = v { Some(*v) } else { None }).collect::<Int64Array>())
        }
        TypeKind::Double => {
            Arc::new(values.map(|v| if let Datum::Double(v) = v { Some(*v) } else { None }).collect::<Float64Array>())
        }
        TypeKind::Decimal { precision, scale } => Arc::new(
            values
                .map(|v| if let Datum::Decimal(v) = v { Some(*v) } else { None })
                .collect::<Decimal128Array>()
                .with_precision_and_scale(precision, scale as i8)
                .unwrap(),
        ),
        _ => Arc::new(
            values.map(|v| if let Datum::Text(v) = v { Some(v.as_str()) } else { None }).collect::<StringArray>(),
        ),
    }
}

fn batch(rows: &[Row]) -> Batch {
    let columns = (0..column_kinds().len()).map(|column| array(rows, column)).collect();
    let kinds = rows.iter().map(|row| row.kind).collect::<Vec<_>>();
    let kinds = kinds.iter().any(|kind| *kind != 0).then(|| UInt8Array::from(kinds));
    Batch::try_new(columns, rows.len(), kinds).unwrap()
}

fn datum(array: &ArrayRef, row: usize) -> Datum {
    if array.is_null(row) {
        return Datum::Null;
    }
    match array.data_type() {
        DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
        DataType::Int32 => Datum::Int(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => Datum::Long(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Datum::Double(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => Datum::Decimal(array.as_primitive::<Decimal128Type>().value(row)),
        _ => Datum::Text(array.as_string::<i32>().value(row).to_owned()),
    }
}

/// A changelog row in words: `+I key value ...`.
fn describe(kind: u8, values: &[Datum]) -> String {
    let mut text = ["+I", "-U", "+U", "-D"][usize::from(kind)].to_owned();
    for value in values {
        let _ = match value {
            Datum::Null => write!(text, " NULL"),
            Datum::Bool(v) => write!(text, " {v}"),
            Datum::Int(v) => write!(text, " {v}"),
            Datum::Long(v) => write!(text, " {v}"),
            Datum::Double(v) => write!(text, " {v:?}"),
            Datum::Decimal(v) => write!(text, " {v}"),
            Datum::Text(v) => write!(text, " {v}"),
        };
    }
    text
}

fn drain(operator: &mut GroupAgg, out: &mut Vec<String>) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!(batch.num_rows() > 0 && batch.num_rows() <= crate::OUTPUT_BATCH_ROWS);
        for row in 0..batch.num_rows() {
            let values: Vec<Datum> = batch.columns().iter().map(|column| datum(column, row)).collect();
            out.push(describe(batch.kinds().map_or(0, |kinds| kinds.value(row)), &values));
        }
    }
}

/// The context of a subtask that is alone.
fn context() -> StateContext {
    StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() }
}

fn open(spec: &GroupAggregate) -> GroupAgg {
    GroupAgg::try_new(spec, &input_type(), &context()).unwrap()
}

/// The changelog of `rows`, pushed in batches of these sizes; what is left after the last size is one batch.
fn run(spec: &GroupAggregate, rows: &[Row], sizes: &[usize]) -> Vec<String> {
    supports(spec, &input_type()).unwrap();
    let mut operator = open(spec);
    let mut out = Vec::new();
    let mut rest = rows;
    for size in sizes.iter().copied().chain([usize::MAX]) {
        let (head, tail) = rest.split_at(size.min(rest.len()));
        operator.push(batch(head)).unwrap();
        drain(&mut operator, &mut out);
        rest = tail;
    }
    out
}
