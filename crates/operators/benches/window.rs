//! How many rows per second does an aggregate over windows take, firing included?
//!
//! SUM of BIGINT values by 64 BIGINT keys; batches have 4,096 rows, times rise and wander within a second. `tumble/keyed`: windows of as long
//! as a batch takes, one phase, a watermark behind each batch, so that each batch ends a window. `tumble/keys_100000`: the same with so many keys, a window of 64
//! batches. `hop/keyed`: five slices per window. `tumble/local`: the local phase.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, TimestampMillisecondArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::{LocalWindowAgg, Operator, WindowAgg};
use streamfusion_plan::node::{
    AggCall, LocalWindowAggregate, ShiftZone, WindowAggregate, WindowProperty, WindowSpec, Windowing, WindowingStrategy,
};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

/// Rows per batch.
const ROWS: usize = 4096;
/// Batches per iteration.
const BATCHES: usize = 64;
/// From batch to batch.
const BATCH_MS: i64 = 10_000;
/// By how much times wander.
const JITTER_MS: i64 = 1_000;

fn ty(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn row_time() -> TypeKind {
    TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime }
}

fn input() -> LogicalType {
    let kinds = [TypeKind::BigInt, TypeKind::BigInt, row_time()];
    let fields = kinds.into_iter().enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: ty(kind) });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

fn sum() -> AggCall {
    AggCall {
        name: "s".to_owned(),
        function: Function::BuiltIn { name: "SUM".to_owned(), version: 1 },
        args: vec![1],
        filter: None,
        distinct: false,
        approximate: false,
        ignore_nulls: false,
        need_retraction: false,
        ty: ty(TypeKind::BigInt),
    }
}

fn windowing(window: WindowSpec) -> Windowing {
    let strategy = WindowingStrategy::TimeAttribute { column: 2 };
    Windowing { strategy, window, time_attribute: ty(row_time()), is_rowtime: true, zone: ShiftZone::Utc }
}

/// Batches of an iteration, and how long they take in event time.
fn batches(keys: u64, start: i64) -> Vec<Batch> {
    let mut state = 7_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        i64::try_from((z ^ (z >> 31)) % limit).unwrap()
    };
    let batch = |number: usize| {
        let begin = start + i64::try_from(number).unwrap() * BATCH_MS;
        let key: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| below(keys))));
        let value: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| below(1000))));
        let rows = i64::try_from(ROWS).unwrap();
        let time = |row: i64| begin + row * (BATCH_MS - JITTER_MS) / rows + below(JITTER_MS.unsigned_abs());
        let time: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values((0..rows).map(time)));
        Batch::try_new(vec![key, value, time], ROWS, None).unwrap()
    };
    let mut batch = batch;
    (0..BATCHES).map(&mut batch).collect()
}

fn drain(operator: &mut dyn Operator) {
    while let Some(out) = operator.pull().unwrap() {
        black_box(out);
    }
}

fn bench(criterion: &mut Criterion, name: &str, keys: u64, open: impl Fn() -> Box<dyn Operator>) {
    let mut group = criterion.benchmark_group(name.split('/').next().unwrap());
    group.throughput(Throughput::Elements(u64::try_from(ROWS * BATCHES).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let batches = batches(keys, 0);
    group.bench_function(name.split('/').nth(1).unwrap(), |bencher| {
        bencher.iter_batched_ref(
            &open,
            |operator| {
                for (number, batch) in (1..).zip(&batches) {
                    operator.push(batch.clone()).unwrap();
                    drain(operator.as_mut());
                    operator.watermark(number * BATCH_MS - 1).unwrap();
                    drain(operator.as_mut());
                }
            },
            criterion::BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn one_phase(window: WindowSpec) -> Box<dyn Operator> {
    let spec = WindowAggregate {
        grouping: vec![0],
        calls: vec![sum()],
        windowing: windowing(window),
        properties: vec![WindowProperty::Start, WindowProperty::End],
        need_retraction: false,
    };
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::fixed(0) };
    Box::new(WindowAgg::try_new(&spec, &input(), &context).unwrap())
}

fn local(window: WindowSpec) -> Box<dyn Operator> {
    let spec = LocalWindowAggregate {
        grouping: vec![0],
        calls: vec![sum()],
        windowing: windowing(window),
        need_retraction: false,
    };
    Box::new(LocalWindowAgg::try_new(&spec, &input()).unwrap())
}

fn windows(criterion: &mut Criterion) {
    let tumble = |batches: i64| WindowSpec::Tumbling { size_ms: batches * BATCH_MS, offset_ms: 0 };
    let hop = WindowSpec::Hopping { size_ms: BATCH_MS, slide_ms: BATCH_MS / 5, offset_ms: 0 };
    bench(criterion, "tumble/keyed", 64, || one_phase(tumble(1)));
    bench(criterion, "tumble/keys_100000", 100_000, || one_phase(tumble(64)));
    bench(criterion, "hop/keyed", 64, || one_phase(hop.clone()));
    bench(criterion, "tumble/local", 64, || local(tumble(1)));
}

criterion_group!(benches, windows);
criterion_main!(benches);
