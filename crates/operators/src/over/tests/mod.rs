//! OVER aggregates against spelled-out results and against a model that follows Flink's functions row by row.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod job;
mod model;
mod properties;
mod reasons;
mod results;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimestampMillisecondType};
use streamfusion_plan::node::{self, AggCall, OverFrame};
use streamfusion_plan::rex::{Function, Literal};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;

use super::*;

/// Columns of the test input.
const KEY: usize = 0;
const LONG: usize = 1;
const DOUBLE: usize = 2;
const TEXT: usize = 3;
const TIME: usize = 4;
/// Constants behind them: 2 and 'x'.
const TWO: usize = 5;
const X: usize = 6;

/// A row of the test input.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    key: Option<i64>,
    long: Option<i64>,
    double: Option<f64>,
    text: Option<String>,
    time: i64,
}

fn row(key: i64, long: impl Into<Option<i64>>, time: i64) -> Row {
    Row { key: Some(key), long: long.into(), double: None, text: None, time }
}

/// What happens to an operator.
#[derive(Debug, Clone)]
enum Event {
    Row(Row),
    Watermark(i64),
    /// The clock says so much.
    Clock(i64),
}

fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn input_type(attribute: TimeAttribute) -> LogicalType {
    let kinds = [
        TypeKind::BigInt,
        TypeKind::BigInt,
        TypeKind::Double,
        TypeKind::VarChar(i32::MAX as u32),
        TypeKind::Timestamp { precision: 3, attribute },
    ];
    let field = |(number, kind)| Field { name: format!("c{number}"), ty: nullable(kind) };
    LogicalType { kind: TypeKind::Row(kinds.into_iter().enumerate().map(field).collect()), nullable: false }
}

fn call(name: &str, args: &[usize], distinct: bool) -> AggCall {
    let kind = match (name, args) {
        ("COUNT" | "ROW_NUMBER" | "RANK" | "DENSE_RANK", _) => TypeKind::BigInt,
        (_, [column, ..]) => input_type(TimeAttribute::Regular).fields()[*column].ty.kind.clone(),
        _ => panic!("no result type for {name}"),
    };
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter: None,
        distinct,
        approximate: false,
        ignore_nulls: false,
        need_retraction: false,
        ty: nullable(kind),
    }
}

/// All calls that the model knows.
fn calls() -> Vec<AggCall> {
    vec![
        call("COUNT", &[], false),
        call("COUNT", &[LONG], false),
        call("SUM", &[LONG], false),
        call("AVG", &[LONG], false),
        call("MIN", &[LONG], false),
        call("MAX", &[TEXT], false),
        call("FIRST_VALUE", &[LONG], false),
        call("LAST_VALUE", &[TEXT], false),
        call("COUNT", &[LONG], true),
        call("$SUM0", &[DOUBLE], false),
    ]
}

/// The same, and those of windows that no row leaves.
fn calls_over(frame: OverFrame) -> Vec<AggCall> {
    let mut calls = calls();
    if !frame.is_bounded() {
        calls.push(call("LAG", &[LONG], false));
        calls.push(call("LAG", &[TEXT, TWO, X], false));
        calls.push(call("RANK", &[], false));
    }
    calls
}

fn constants() -> Vec<node::Constant> {
    let constant = |value, kind| node::Constant { value, ty: LogicalType { kind, nullable: false } };
    vec![constant(Literal::Integer(2), TypeKind::Integer), constant(Literal::String("x".to_owned()), TypeKind::Char(1))]
}

fn spec(frame: OverFrame, ttl_ms: i64, calls: Vec<AggCall>) -> node::OverAggregate {
    let retracts = |call: AggCall| AggCall { need_retraction: frame.is_bounded(), ..call };
    node::OverAggregate {
        input_columns: 5,
        partition: vec![KEY],
        order: TIME,
        nulls_last: false,
        frame,
        calls: calls.into_iter().map(retracts).collect(),
        constants: constants(),
        ttl_ms,
        unbounded_version: 2,
    }
}

fn batch(rows: &[Row]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.long).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.double).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.text.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| Some(row.time)).collect::<TimestampMillisecondArray>()),
    ];
    Batch::try_new(columns, rows.len(), None).unwrap()
}

fn describe_row(row: &Row) -> String {
    let Row { key, long, double, text, time } = row;
    format!("{key:?} {long:?} {double:?} {text:?} {time}")
}

fn value(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "None".to_owned();
    }
    match array.data_type() {
        DataType::Int64 => format!("Some({:?})", array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => format!("Some({:?})", array.as_primitive::<Float64Type>().value(row)),
        DataType::Timestamp(..) => array.as_primitive::<TimestampMillisecondType>().value(row).to_string(),
        _ => format!("Some({:?})", array.as_string::<i32>().value(row)),
    }
}

/// Adds the rows that are pulled to `out`: the key, and all columns in words.
fn drain(operator: &mut OverAggregate, out: &mut Vec<(Option<i64>, String)>) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!(batch.num_rows() > 0 && batch.num_rows() <= OUTPUT_BATCH_ROWS && batch.kinds().is_none());
        let keys = batch.columns()[KEY].as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = batch.columns().iter().map(|column| value(column, row)).collect();
            out.push((keys.iter().nth(row).flatten(), values.join(" ")));
        }
    }
}
