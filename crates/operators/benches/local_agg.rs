//! How many rows per second does the local phase of a two-phase GROUP BY take?
//!
//! `local_sum/N` sums BIGINT values of 64 BIGINT keys in bundles of N rows; batches have 4,096 rows. `local_min_max/4096` takes the
//! same in batches of 1,024 rows, so that a bundle spans four of them. `local_multi_distinct/q15` has the calls of Nexmark query 15: COUNT(*),
//! COUNT(DISTINCT bidder) and COUNT(DISTINCT auction), each also with three filters on the price, by a day as text, in bundles of 4,096 rows; of
//! the bidders 3 in 4 are the hot one, of the auctions 1 in 2.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::{LocalGroupAgg, Operator};
use streamfusion_plan::node::{AggCall, LocalGroupAggregate};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::Batch;

/// Rows per batch.
const ROWS: usize = 4096;
/// Rows per iteration: more than the largest bundle.
const TOTAL: usize = 16 * ROWS;

fn row_type(columns: usize) -> LogicalType {
    let ty = LogicalType { kind: TypeKind::BigInt, nullable: true };
    let fields = (0..columns).map(|i| Field { name: format!("c{i}"), ty: ty.clone() });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

fn call(name: &str) -> AggCall {
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: vec![1],
        filter: None,
        distinct: false,
        approximate: false,
        ignore_nulls: false,
        need_retraction: false,
        ty: LogicalType { kind: TypeKind::BigInt, nullable: true },
    }
}

fn batches(rows: usize) -> Vec<Batch> {
    let mut state = 7_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        i64::try_from((z ^ (z >> 31)) % limit).unwrap()
    };
    let mut column = |limit| Arc::new(Int64Array::from_iter_values((0..rows).map(|_| below(limit)))) as ArrayRef;
    (0..TOTAL / rows).map(|_| Batch::try_new(vec![column(64), column(1000)], rows, None).unwrap()).collect()
}

fn bench(criterion: &mut Criterion, name: &str, functions: &[&str], size: u64, rows: usize) {
    let spec = LocalGroupAggregate {
        grouping: vec![0],
        calls: functions.iter().map(|name| call(name)).collect(),
        need_retraction: false,
        mini_batch_size: size,
    };
    let batches = batches(rows);
    let mut operator = LocalGroupAgg::try_new(&spec, &row_type(2), &row_type(1 + functions.len())).unwrap();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(u64::try_from(TOTAL).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    group.bench_function(BenchmarkId::from_parameter(size), |bencher| {
        bencher.iter(|| {
            for batch in &batches {
                operator.push(batch.clone()).unwrap();
                while let Some(out) = operator.pull().unwrap() {
                    black_box(out);
                }
            }
        });
    });
    group.finish();
}

/// A column of query 15.
fn q15_type(column: usize) -> TypeKind {
    match column {
        0 => TypeKind::VarChar(i32::MAX.unsigned_abs()),
        1 | 2 => TypeKind::BigInt,
        _ => TypeKind::Boolean,
    }
}

fn q15_row(kinds: impl Iterator<Item = TypeKind>) -> LogicalType {
    let field = |(i, kind)| Field { name: format!("c{i}"), ty: LogicalType { kind, nullable: true } };
    LogicalType { kind: TypeKind::Row(kinds.enumerate().map(field).collect()), nullable: false }
}

fn q15_batches() -> Vec<Batch> {
    let mut state = 7_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    (0..TOTAL / ROWS)
        .map(|batch| {
            let day = if batch % 2 == 0 { "2026-11-29" } else { "2026-11-30" };
            let first = i64::try_from(batch).unwrap() * 300;
            let mut drawn = |hot: u64, of: u64, limit: u64| -> i64 {
                if below(of) < hot { first } else { first + i64::try_from(below(limit)).unwrap() }
            };
            let bidders: Vec<i64> = (0..ROWS).map(|_| drawn(3, 4, 1000)).collect();
            let auctions: Vec<i64> = (0..ROWS).map(|_| drawn(1, 2, 300)).collect();
            let prices: Vec<u64> = (0..ROWS).map(|_| 10_u64.pow(u32::try_from(below(6)).unwrap() + 2)).collect();
            let filter = |passes: fn(u64) -> bool| {
                Arc::new(prices.iter().map(|price| Some(passes(*price))).collect::<BooleanArray>()) as ArrayRef
            };
            let columns: Vec<ArrayRef> = vec![
                Arc::new(StringArray::from_iter_values((0..ROWS).map(|_| day))),
                Arc::new(Int64Array::from(bidders)),
                Arc::new(Int64Array::from(auctions)),
                filter(|price| price < 10_000),
                filter(|price| (10_000..1_000_000).contains(&price)),
                filter(|price| price >= 1_000_000),
            ];
            Batch::try_new(columns, ROWS, None).unwrap()
        })
        .collect()
}

fn multi_distinct(criterion: &mut Criterion) {
    let count =
        |args: &[usize], filter| AggCall { args: args.to_vec(), filter, distinct: !args.is_empty(), ..call("COUNT") };
    let filters = [None, Some(3), Some(4), Some(5)];
    let arguments: [&[usize]; 3] = [&[], &[1], &[2]];
    let calls: Vec<AggCall> = arguments.iter().flat_map(|args| filters.map(|filter| count(args, filter))).collect();
    let spec = LocalGroupAggregate { grouping: vec![0], calls, need_retraction: false, mini_batch_size: 4096 };
    let between =
        [q15_type(0)].into_iter().chain((0..12).map(|_| TypeKind::BigInt)).chain([TypeKind::View, TypeKind::View]);
    let mut operator = LocalGroupAgg::try_new(&spec, &q15_row((0..6).map(q15_type)), &q15_row(between)).unwrap();
    let batches = q15_batches();
    let mut group = criterion.benchmark_group("local_multi_distinct");
    group.throughput(Throughput::Elements(u64::try_from(TOTAL).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    group.bench_function("q15", |bencher| {
        bencher.iter(|| {
            for batch in &batches {
                operator.push(batch.clone()).unwrap();
                while let Some(out) = operator.pull().unwrap() {
                    black_box(out);
                }
            }
        });
    });
    group.finish();
}

fn local_agg(criterion: &mut Criterion) {
    for size in [1, 32, 256, 4096, 50_000] {
        bench(criterion, "local_sum", &["SUM"], size, ROWS);
    }
    bench(criterion, "local_min_max", &["MIN", "MAX"], 4096, 1024);
    multi_distinct(criterion);
}

criterion_group!(benches, local_agg);
criterion_main!(benches);
