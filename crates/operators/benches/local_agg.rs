//! How many rows per second does the local phase of a two-phase GROUP BY take?
//!
//! `local_sum/N` sums BIGINT values of 64 BIGINT keys in bundles of N rows; batches have 4,096 rows. `local_min_max/4096` takes the
//! same in batches of 1,024 rows, so that a bundle spans four of them.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array};
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

fn local_agg(criterion: &mut Criterion) {
    for size in [1, 32, 256, 4096, 50_000] {
        bench(criterion, "local_sum", &["SUM"], size, ROWS);
    }
    bench(criterion, "local_min_max", &["MIN", "MAX"], 4096, 1024);
}

criterion_group!(benches, local_agg);
criterion_main!(benches);
