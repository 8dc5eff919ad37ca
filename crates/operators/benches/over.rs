//! How many rows per second does an OVER aggregate take?
//!
//! Batches of 4,096 rows of 64 keys by row time, a millisecond per 16 rows; rows are two BIGINT columns and the time. Each batch is pushed,
//! then comes a watermark, and what is due is pulled. SUM of one column.
//!
//! * `running_sum`: `ROWS UNBOUNDED PRECEDING`; rows come in order, and the watermark is that of the last row.
//! * `running_sum_out_of_order`: times are shuffled within 512 ms, two batches, and the watermark is as far behind.
//! * `bounded_rows`: `ROWS 10 PRECEDING`, in order; `bounded_range`: `RANGE 5 ms PRECEDING`, the rows of about as many.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, TimestampMillisecondArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::{Operator, OverAggregate};
use streamfusion_plan::node::{self, AggCall, OverFrame};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

const ROWS: usize = 4096;
const KEYS: usize = 64;
const ROWS_PER_MS: usize = 16;
const DISORDER_MS: i64 = 512;
/// Batches that are made ahead: time goes on from one round of them to the next.
const BATCHES: usize = 16;

fn row_type() -> LogicalType {
    let time = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    let field = |kind| Field { name: "f".to_owned(), ty: LogicalType { kind, nullable: true } };
    LogicalType {
        kind: TypeKind::Row([TypeKind::BigInt, TypeKind::BigInt, time].map(field).into_iter().collect()),
        nullable: false,
    }
}

fn open(frame: OverFrame) -> OverAggregate {
    let sum = AggCall {
        name: "s".to_owned(),
        function: Function::BuiltIn { name: "$SUM0".to_owned(), version: 1 },
        args: vec![1],
        filter: None,
        distinct: false,
        approximate: false,
        ignore_nulls: false,
        need_retraction: frame.is_bounded(),
        ty: LogicalType { kind: TypeKind::BigInt, nullable: false },
    };
    let spec = node::OverAggregate {
        input_columns: 3,
        partition: vec![0],
        order: 2,
        nulls_last: false,
        frame,
        calls: vec![sum],
        constants: Vec::new(),
        ttl_ms: 0,
        unbounded_version: 2,
    };
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
    OverAggregate::try_new(&spec, &row_type(), &context).unwrap()
}

/// Numbers without an order that can be seen.
fn random(number: usize) -> i64 {
    i64::try_from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40)
        .unwrap()
}

/// The columns of a batch of the first round, and how many milliseconds a round has.
fn batches(disorder_ms: i64) -> (Vec<Batch>, i64) {
    let long = |value: usize| i64::try_from(value).unwrap();
    let batch = |number: usize| {
        let rows = number * ROWS..(number + 1) * ROWS;
        let time =
            |row: usize| 1 + long(row / ROWS_PER_MS) - if disorder_ms > 0 { random(row) % disorder_ms } else { 0 };
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| random(row) % long(KEYS)))),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(long))),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.map(time))),
        ];
        Batch::try_new(columns, ROWS, None).unwrap()
    };
    ((0..BATCHES).map(batch).collect(), long(BATCHES * ROWS / ROWS_PER_MS))
}

fn later(batch: &Batch, ms: i64) -> Batch {
    let columns = batch.columns();
    let times = columns[2].as_any().downcast_ref::<TimestampMillisecondArray>().unwrap();
    let times = TimestampMillisecondArray::from_iter_values(times.values().iter().map(|time| time + ms));
    let columns: Vec<ArrayRef> = vec![columns[0].clone(), columns[1].clone(), Arc::new(times)];
    Batch::try_new(columns, ROWS, None).unwrap()
}

fn over(c: &mut Criterion) {
    let mut group = c.benchmark_group("over");
    group.throughput(Throughput::Elements(ROWS as u64));
    let cases = [
        ("running_sum", OverFrame::UnboundedRows, 0),
        ("running_sum_out_of_order", OverFrame::UnboundedRows, DISORDER_MS),
        ("bounded_rows", OverFrame::Rows { preceding: 10 }, 0),
        ("bounded_range", OverFrame::Range { preceding_ms: 5 }, 0),
    ];
    for (name, frame, disorder_ms) in cases {
        let (batches, round_ms) = batches(disorder_ms);
        let mut operator = open(frame);
        let mut number = 0;
        group.bench_function(name, |b| {
            b.iter_batched(
                || {
                    let (round, batch) = (number / BATCHES, number % BATCHES);
                    number += 1;
                    let base = 10_000 + i64::try_from(round).unwrap() * round_ms;
                    let end = i64::try_from((batch + 1) * ROWS / ROWS_PER_MS).unwrap();
                    (later(&batches[batch], base), base + end - disorder_ms)
                },
                |(batch, watermark)| {
                    operator.push(batch).unwrap();
                    operator.watermark(watermark).unwrap();
                    while let Some(out) = operator.pull().unwrap() {
                        black_box(out);
                    }
                },
                criterion::BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, over);
criterion_main!(benches);
