//! How many rows per second does a join take?
//!
//! `unique_join`: 64 joined keys, each of which both sides replace over and over: 4,096 rows in batches of 256, from the left and the
//! right in turn. `immediate` emits every pair, `flush_256` bundles each batch, `logical` all 4,096 rows. In `retracting` every
//! second row is the -U of what it replaces.
//! `orders`: rows without a unique key that each meet one of 100,000 rows of the other side, and stay.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, StringArray, UInt8Array};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::bundle::FlushReason;
use streamfusion_operators::{Join, Operator};
use streamfusion_plan::node::{self, InputSide, JoinType};
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

const ROWS: usize = 4096;
const BATCH: usize = 256;
const KEYS: usize = 64;

/// Key, number, text.
fn row_type() -> LogicalType {
    let kinds = [TypeKind::BigInt, TypeKind::BigInt, TypeKind::VarChar(i32::MAX.unsigned_abs())].into_iter();
    let fields =
        kinds.enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: LogicalType { kind, nullable: true } });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

fn batch(rows: &[(i64, i64, u8)]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| format!("text {}", row.1)))),
    ];
    let kinds = rows.iter().any(|row| row.2 != 0);
    let kinds = kinds.then(|| UInt8Array::from_iter_values(rows.iter().map(|row| row.2)));
    Batch::try_new(columns, rows.len(), kinds).unwrap()
}

fn join(join_type: JoinType, unique: [bool; 2], mini_batch_size: Option<u64>) -> Join {
    let side = |unique: bool| InputSide {
        keys: vec![0],
        upsert_keys: if unique { vec![vec![0]] } else { Vec::new() },
        ttl_ms: 0,
    };
    let spec = node::Join {
        join_type,
        left: side(unique[0]),
        right: side(unique[1]),
        filter_nulls: vec![true],
        condition: None,
        mini_batch_size,
    };
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
    Join::try_new(&spec, &row_type(), &row_type(), &context).unwrap()
}

/// Batches of rows that replace the rows of the keys, first +I, from now on +U.
fn replacements(kind: u8, retracting: bool) -> Vec<Batch> {
    let rows: Vec<_> = (0..ROWS / 2)
        .map(|row| {
            let (replaced, kind) = if retracting { (row / 2, [1, 2][row % 2]) } else { (row, kind) };
            ((replaced % KEYS) as i64, row as i64, kind)
        })
        .collect();
    rows.chunks(BATCH).map(batch).collect()
}

fn pull(join: &mut Join) {
    while let Some(out) = join.pull().unwrap() {
        black_box(out);
    }
}

fn storm(join: &mut Join, sides: &[Vec<Batch>; 2]) {
    for (left, right) in sides[0].iter().zip(&sides[1]) {
        join.push(left.clone()).unwrap();
        pull(join);
        join.push_second(right.clone()).unwrap();
        pull(join);
    }
    join.flush(FlushReason::Watermark).unwrap();
    pull(join);
}

fn unique(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("unique_join");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let modes = [("immediate", None), ("flush_256", Some(BATCH)), ("logical", Some(ROWS))];
    for (name, join_type) in [("", JoinType::Inner), ("full_", JoinType::Full)] {
        for (retracting, suffix) in [(false, ""), (true, "_retracting")] {
            let sides = [replacements(2, retracting), replacements(2, retracting)];
            for (mode, size) in modes {
                let mut join = join(join_type, [true; 2], size.map(|size| size as u64));
                storm(&mut join, &[replacements(0, false), replacements(0, false)]);
                group.bench_function(format!("{name}{mode}{suffix}"), |bencher| {
                    bencher.iter(|| storm(&mut join, &sides));
                });
            }
        }
    }
    group.finish();
}

fn orders(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("orders");
    let keys = 100_000;
    let rows: Vec<_> = (0..ROWS).map(|row| ((row * 999_983 % keys) as i64, row as i64, 0)).collect();
    let (rows, there) = (batch(&rows), (0..keys).map(|key| (key as i64, 0, 0)).collect::<Vec<_>>());
    group.throughput(Throughput::Elements(ROWS as u64));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for (name, join_type) in [("inner", JoinType::Inner), ("left", JoinType::Left)] {
        group.bench_function(name, |bencher| {
            let setup = || {
                let mut join = join(join_type, [false, true], None);
                there.chunks(ROWS).for_each(|chunk| {
                    join.push_second(batch(chunk)).unwrap();
                    pull(&mut join);
                });
                join
            };
            let run = |mut join: Join| {
                join.push(rows.clone()).unwrap();
                pull(&mut join);
                join
            };
            bencher.iter_batched(setup, run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, unique, orders);
criterion_main!(benches);
