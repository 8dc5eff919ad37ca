//! How many rows per second does Top-N take?
//!
//! Batches of 4,096 rows over 64 partitions, the first 10 of each by one BIGINT, descending; rows are three BIGINT columns.
//!
//! * `append_top_n`: sort columns in random order, the operator new for every batch (`with_rank`, `without_rank`), so that buffers
//!   fill and half of the rows enter one; `.._steady` goes on with one operator, whose buffers few rows enter.
//! * `retract_top_n`: in each batch -U and +U of 2,048 rows, 32 of each partition, whose sort column goes up or down at random;
//!   with row number, and without (`.._without_rank`).
//!
//! `flush_256` and `logical`: batches of 256 rows, each a bundle, and 4,096 rows as one bundle.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, UInt8Array};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::bundle::FlushReason;
use streamfusion_operators::{Operator, rank};
use streamfusion_plan::node::{Rank, RankMiniBatch, RankRange, RankStrategy, SortField};
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

const ROWS: usize = 4096;
const PARTITIONS: usize = 64;
const PART: usize = 256;

fn row_type() -> LogicalType {
    let ty = LogicalType { kind: TypeKind::BigInt, nullable: true };
    let fields = (0..3).map(|i| Field { name: format!("c{i}"), ty: ty.clone() });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

fn open(strategy: RankStrategy, output_row_number: bool, bundle: Option<u64>) -> Box<dyn Operator> {
    let spec = Rank {
        partition: vec![0],
        order_by: vec![SortField { column: 1, ascending: false, nulls_last: true }],
        range: RankRange::Constant { start: 1, end: 10 },
        strategy,
        output_row_number,
        generate_update_before: true,
        ttl_ms: 0,
        mini_batch: bundle.map(|size| RankMiniBatch { size, latency_ms: 1_000 }),
        cache_size: 10_000,
    };
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
    rank::open(&spec, &row_type(), &context).unwrap()
}

/// Numbers without an order that can be seen.
fn random(number: usize) -> i64 {
    i64::try_from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40)
        .unwrap()
}

fn batch(rows: impl Iterator<Item = (usize, i64, usize)> + Clone, kinds: Option<UInt8Array>) -> Batch {
    let long = |value: usize| i64::try_from(value).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| long(row.0)))),
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row.1))),
        Arc::new(Int64Array::from_iter_values(rows.map(|row| long(row.2)))),
    ];
    let rows = columns[0].len();
    Batch::try_new(columns, rows, kinds).unwrap()
}

fn inserts() -> Vec<Batch> {
    (0..16).map(|b| batch((b * ROWS..(b + 1) * ROWS).map(|row| (row % PARTITIONS, random(row), row)), None)).collect()
}

/// Updates of 2,048 rows per batch; the first batch inserts them.
fn updates() -> (Batch, Vec<Batch>) {
    let half = ROWS / 2;
    let value = |row: usize, version: usize| random(row + version * half);
    let rows = (0..half).map(|row| (row % PARTITIONS, value(row, 0), row));
    let first = batch(rows, None);
    let versions = 16;
    let changes = |version: usize| {
        let rows = (0..ROWS).map(move |change| {
            let row = change / 2;
            let version = (version + change % 2) % versions;
            (row % PARTITIONS, value(row, version), row)
        });
        batch(rows, Some(UInt8Array::from_iter_values((0..ROWS).map(|change| 1 + (change % 2) as u8))))
    };
    (first, (0..versions).map(changes).collect())
}

fn run(operator: &mut dyn Operator, batch: &Batch) {
    operator.push(batch.clone()).unwrap();
    while let Some(out) = operator.pull().unwrap() {
        black_box(out);
    }
}

/// The same in batches of 256 rows.
fn run_in_parts(operator: &mut dyn Operator, parts: &[Batch]) {
    parts.iter().for_each(|part| run(operator, part));
}

fn parts(batch: &Batch) -> Vec<Batch> {
    (0..ROWS / PART).map(|part| batch.slice(part * PART, PART).unwrap()).collect()
}

/// Bundles, by name: rows per bundle.
const BUNDLES: [(&str, u64); 2] = [("flush_256", PART as u64), ("logical", ROWS as u64)];

fn append_top_n(criterion: &mut Criterion) {
    let inserts = inserts();
    let in_parts: Vec<Vec<Batch>> = inserts.iter().map(parts).collect();
    let mut group = criterion.benchmark_group("append_top_n");
    group.throughput(Throughput::Elements(u64::try_from(ROWS).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for (name, row_number) in [("with_rank", true), ("without_rank", false)] {
        let mut next = inserts.iter().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || open(RankStrategy::AppendFast, row_number, None),
                |mut operator| {
                    run(operator.as_mut(), next.next().unwrap());
                    operator
                },
                BatchSize::SmallInput,
            );
        });
        let mut operator = open(RankStrategy::AppendFast, row_number, None);
        inserts.iter().for_each(|batch| run(operator.as_mut(), batch));
        let mut next = inserts.iter().cycle();
        group.bench_function(format!("{name}_steady"), |bencher| {
            bencher.iter(|| run(operator.as_mut(), next.next().unwrap()));
        });
        for (bundle, size) in BUNDLES {
            let mut next = in_parts.iter().cycle();
            group.bench_function(format!("{name}_{bundle}"), |bencher| {
                bencher.iter_batched(
                    || open(RankStrategy::AppendFast, row_number, Some(size)),
                    |mut operator| {
                        run_in_parts(operator.as_mut(), next.next().unwrap());
                        operator
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

fn retract_top_n(criterion: &mut Criterion) {
    let (first, updates) = updates();
    let in_parts: Vec<Vec<Batch>> = updates.iter().map(parts).collect();
    let mut group = criterion.benchmark_group("retract_top_n");
    group.throughput(Throughput::Elements(u64::try_from(ROWS).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for (name, row_number) in [("", true), ("_without_rank", false)] {
        let mut operator = open(RankStrategy::Retract, row_number, None);
        run(operator.as_mut(), &first);
        let mut next = updates.iter().cycle();
        group.bench_function(format!("immediate{name}"), |bencher| {
            bencher.iter(|| run(operator.as_mut(), next.next().unwrap()));
        });
        for (bundle, size) in BUNDLES {
            let mut operator = open(RankStrategy::Retract, row_number, Some(size));
            run(operator.as_mut(), &first);
            operator.flush(FlushReason::Checkpoint).unwrap();
            let mut next = in_parts.iter().cycle();
            group.bench_function(format!("{bundle}{name}"), |bencher| {
                bencher.iter(|| run_in_parts(operator.as_mut(), next.next().unwrap()));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, append_top_n, retract_top_n);
criterion_main!(benches);
