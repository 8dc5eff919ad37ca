//! How many rows per second does an interval join take?
//!
//! `push`: rows of 64 keys from both sides in turn, in order of time, 4,096 a side in batches of 1,024. The interval is narrow: of the rows of its key a
//! row is near none or one. A watermark follows each pair of batches, so that rows leave as fast as they come. In `late` all rows are so late
//! that they neither look nor stay.
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

/// Batches of rows whose times begin at `start`.
fn batches(start: i64) -> Vec<Batch> {
    let batch = |first: usize| {
        let rows = first..first + BATCH;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| (row * 37 % KEYS) as i64))),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.clone().map(|row| start + row as i64 * STEP))),
            Arc::new(Int64Array::from_iter_values(rows.map(|row| row as i64))),
        ];
        Batch::try_new(columns, BATCH, None).unwrap()
    };
    (0..ROWS).step_by(BATCH).map(batch).collect()
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

fn push(join: &mut dyn Operator, left: &[Batch], right: &[Batch], start: i64) {
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
    for (name, join_type) in [("push", JoinType::Inner), ("push_full", JoinType::Full)] {
        group.bench_function(name, |bencher| {
            let mut join = join(join_type);
            let mut start = 1_000_000;
            let setup = || {
                start += ROWS as i64 * STEP;
                (batches(start), batches(start + STEP / 2), start)
            };
            let join = join.as_mut();
            bencher.iter_batched(
                setup,
                |(left, right, start)| push(join, &left, &right, start),
                BatchSize::PerIteration,
            );
        });
    }
    group.bench_function("late", |bencher| {
        let mut join = join(JoinType::Inner);
        black_box(join.watermark(i64::MAX / 2).unwrap());
        let (left, right) = (batches(1_000_000), batches(1_000_005));
        // the first one looks, and notes that all have expired
        push(join.as_mut(), &left, &right, i64::MAX / 2);
        bencher.iter(|| push(join.as_mut(), &left, &right, i64::MAX / 2));
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
