//! How many rows per second does an interval join take?
//!
//! Rows have one of 64 keys and come in order of time. `push`: what a row costs that meets nothing. Rows of one side in batches of 4,096 are looked up,
//! kept, and leave with the watermark behind them; the other side has a row per key, far away.
//! `pairs`: rows from both sides in turn, 4,096 a side in batches of 1,024. Each meets one of the other side, so that a pair goes out for two rows. A watermark follows
//! each pair of batches, so that rows leave as fast as they come. `pairs_full`: the same as FULL join. In `late` all rows are so late that they
//! neither look nor stay.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, TimestampMillisecondArray};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::{Operator, interval_join};
use streamfusion_plan::node::{IntervalJoin, JoinSpec, JoinType, WindowBounds};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TimeDomain, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

const ROWS: usize = 4096;
const BATCH: usize = 1024;
const KEYS: usize = 64;
/// Milliseconds from one row to the next.
const STEP: i64 = 10;

/// Key, row time, number.
fn row_type() -> LogicalType {
    let time = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    let fields = [("k", TypeKind::BigInt), ("t", time), ("u", TypeKind::BigInt)]
        .map(|(name, kind)| Field { name: name.to_owned(), ty: LogicalType { kind, nullable: true } });
    LogicalType { kind: TypeKind::Row(fields.into()), nullable: false }
}

/// Rows whose times begin at `start`, in batches of so many.
fn batches(start: i64, size: usize) -> Vec<Batch> {
    let batch = |first: usize| {
        let rows = first..first + size;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| (row * 37 % KEYS) as i64))),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.clone().map(|row| start + row as i64 * STEP))),
            Arc::new(Int64Array::from_iter_values(rows.map(|row| row as i64))),
        ];
        Batch::try_new(columns, size, None).unwrap()
    };
    (0..ROWS).step_by(size).map(batch).collect()
}

fn join(join_type: JoinType) -> Box<dyn Operator> {
    let spec = IntervalJoin {
        join: JoinSpec {
            join_type,
            left_keys: vec![0],
            right_keys: vec![0],
            filter_nulls: vec![true],
            condition: None,
        },
        bounds: WindowBounds {
            time: TimeDomain::Rowtime,
            left_lower_ms: -10 * STEP,
            left_upper_ms: 10 * STEP,
            left_time: 1,
            right_time: 1,
        },
        min_clean_up_interval_ms: 0,
    };
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
    interval_join::open(&spec, &row_type(), &row_type(), Some(&context)).unwrap()
}

fn pull(join: &mut dyn Operator) {
    while let Some(out) = join.pull().unwrap() {
        black_box(out);
    }
}

fn pairs(join: &mut dyn Operator, left: &[Batch], right: &[Batch], start: i64) {
    for (number, (left, right)) in left.iter().zip(right).enumerate() {
        join.push(left.clone()).unwrap();
        pull(join);
        join.push_second(right.clone()).unwrap();
        pull(join);
        black_box(join.watermark(start + ((number + 1) * BATCH) as i64 * STEP).unwrap());
        pull(join);
    }
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("interval_join");
    group.throughput(Throughput::Elements(2 * ROWS as u64));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for (name, join_type) in [("pairs", JoinType::Inner), ("pairs_full", JoinType::Full)] {
        group.bench_function(name, |bencher| {
            let mut join = join(join_type);
            let mut start = 1_000_000;
            let setup = || {
                start += ROWS as i64 * STEP;
                (batches(start, BATCH), batches(start + STEP / 2, BATCH), start)
            };
            let join = join.as_mut();
            bencher.iter_batched(
                setup,
                |(left, right, start)| pairs(join, &left, &right, start),
                BatchSize::PerIteration,
            );
        });
    }
    group.bench_function("late", |bencher| {
        let mut join = join(JoinType::Inner);
        black_box(join.watermark(i64::MAX / 2).unwrap());
        let (left, right) = (batches(1_000_000, BATCH), batches(1_000_005, BATCH));
        // the first one looks, and notes that all have expired
        pairs(join.as_mut(), &left, &right, i64::MAX / 2);
        bencher.iter(|| pairs(join.as_mut(), &left, &right, i64::MAX / 2));
    });
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("push", |bencher| {
        let mut join = join(JoinType::Inner);
        let far = batches(i64::MAX / 4, KEYS).swap_remove(0);
        join.push_second(far).unwrap();
        pull(join.as_mut());
        let mut start = 1_000_000;
        let setup = || {
            start += ROWS as i64 * STEP;
            (batches(start, ROWS).swap_remove(0), start)
        };
        let join = join.as_mut();
        let push = |(batch, start): (Batch, i64)| {
            join.push(batch).unwrap();
            pull(join);
            black_box(join.watermark(start + ROWS as i64 * STEP).unwrap());
            pull(join);
        };
        bencher.iter_batched(setup, push, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
