//! How many rows per second does a window join make of a window that is due?
//!
//! `flush`: 4,096 rows of either input under 64 keys, so that each row meets 64 and 262,144 pairs go out, which are counted. `condition` is the same with
//! one more condition on each pair, of which half pass; the pairs that are looked at are counted.
//! `flush_unique`: 4,096 rows of either input, each under a key of its own; input rows are counted.
//! `push`: 4,096 rows of one input, one batch, into a window with 4,096 keys.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, TimestampMillisecondArray};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::{Operator, WindowJoin};
use streamfusion_plan::node::{self, JoinSpec, JoinType, ShiftZone, WindowSpec, Windowing, WindowingStrategy};
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

const ROWS: usize = 4096;
const WINDOW_END: i64 = 10_000;

fn timestamp(attribute: TimeAttribute) -> TypeKind {
    TypeKind::Timestamp { precision: 3, attribute }
}

fn ty(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

/// Key, number, window end.
fn row_type() -> LogicalType {
    let kinds = [TypeKind::BigInt, TypeKind::BigInt, timestamp(TimeAttribute::Regular)].into_iter();
    let fields = kinds.enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: ty(kind) });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

/// Rows under so many keys.
fn batch(keys: usize) -> Batch {
    let numbers = |of: fn(usize, usize) -> usize| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| of(row, keys) as i64)))
    };
    let columns: Vec<ArrayRef> = vec![
        numbers(|row, keys| row * 999_983 % keys),
        numbers(|row, _| row * 31 % 1000),
        Arc::new(TimestampMillisecondArray::from(vec![WINDOW_END; ROWS])),
    ];
    Batch::try_new(columns, ROWS, None).unwrap()
}

fn join(condition: bool) -> WindowJoin {
    let windowing = Windowing {
        strategy: WindowingStrategy::WindowAttached { start: None, end: 2 },
        window: WindowSpec::Tumbling { size_ms: WINDOW_END, offset_ms: 0 },
        time_attribute: ty(timestamp(TimeAttribute::Rowtime)),
        is_rowtime: true,
        zone: ShiftZone::Utc,
    };
    let number = |index| Rex::InputRef { index, ty: ty(TypeKind::BigInt) };
    let less = || Rex::Call {
        function: Function::BuiltIn { name: "<".to_owned(), version: 1 },
        operands: vec![number(1), number(4)],
        ty: ty(TypeKind::Boolean),
    };
    let spec = node::WindowJoin {
        join: JoinSpec {
            join_type: JoinType::Inner,
            left_keys: vec![0],
            right_keys: vec![0],
            filter_nulls: vec![true],
            condition: condition.then(less),
        },
        left: windowing.clone(),
        right: windowing,
    };
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
    WindowJoin::try_new(&spec, &row_type(), &row_type(), &context).unwrap()
}

fn pull(join: &mut WindowJoin) {
    while let Some(out) = join.pull().unwrap() {
        black_box(out);
    }
}

fn flush(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("window_join");
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let pairs = ROWS * ROWS / 64;
    for (name, keys, counted, condition) in
        [("flush", 64, pairs, false), ("condition", 64, pairs, true), ("flush_unique", ROWS, 2 * ROWS, false)]
    {
        group.throughput(Throughput::Elements(counted as u64));
        let rows = batch(keys);
        group.bench_function(name, |bencher| {
            let setup = || {
                let mut join = join(condition);
                join.push(rows.clone()).unwrap();
                join.push_second(rows.clone()).unwrap();
                join
            };
            let run = |mut join: WindowJoin| {
                join.watermark(WINDOW_END).unwrap();
                pull(&mut join);
                join
            };
            bencher.iter_batched(setup, run, BatchSize::PerIteration);
        });
    }
    group.throughput(Throughput::Elements(ROWS as u64));
    let rows = batch(ROWS);
    group.bench_function("push", |bencher| {
        let setup = || {
            let mut join = join(false);
            join.push_second(rows.clone()).unwrap();
            join
        };
        let run = |mut join: WindowJoin| {
            join.push(rows.clone()).unwrap();
            join
        };
        bencher.iter_batched(setup, run, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(benches, flush);
criterion_main!(benches);
