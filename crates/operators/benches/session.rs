//! How many rows per second do session windows take, with a watermark behind every batch and what goes out for it?
//!
//! COUNT and SUM by a BIGINT key, 4,096 rows per batch, one millisecond apart, a gap of 10 seconds. `keyed`: 10,000 keys at random, so that a session
//! has about three rows, and as many begin and end all the time as fit in between. `dense`: 64 keys, whose sessions never end: what a row costs
//! that joins one.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, TimestampMillisecondArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::unslicing::open_sessions;
use streamfusion_plan::node::{
    AggCall, ShiftZone, WindowAggregate, WindowProperty, WindowSpec, Windowing, WindowingStrategy,
};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

const ROWS: i64 = 4096;

fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn call(name: &str, args: &[usize]) -> AggCall {
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter: None,
        distinct: false,
        approximate: false,
        ignore_nulls: false,
        need_retraction: false,
        ty: nullable(TypeKind::BigInt),
    }
}

/// The same numbers in every run: splitmix64.
fn number(of: u64, limit: u64) -> i64 {
    let z = of.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    i64::try_from((z ^ (z >> 31)) % limit).unwrap()
}

fn bench(criterion: &mut Criterion, name: &str, keys: u64) {
    let time = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    let kinds = [TypeKind::BigInt, TypeKind::BigInt, time.clone()];
    let fields = kinds.into_iter().enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: nullable(kind) });
    let input = LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false };
    let plan = WindowAggregate {
        grouping: vec![0],
        calls: vec![call("COUNT", &[]), call("SUM", &[1])],
        windowing: Windowing {
            strategy: WindowingStrategy::TimeAttribute { column: 2 },
            window: WindowSpec::Session { gap_ms: 10_000, partition: vec![0] },
            time_attribute: nullable(time),
            is_rowtime: true,
            zone: ShiftZone::Utc,
        },
        properties: vec![WindowProperty::Start, WindowProperty::End],
        need_retraction: false,
    };
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
    let mut operator = open_sessions(&plan, &input, &context).unwrap();
    let columns: Vec<[ArrayRef; 2]> = (0..64_u64)
        .map(|batch| {
            let rows = (0..ROWS.unsigned_abs()).map(|row| batch * ROWS.unsigned_abs() + row);
            let keys = Int64Array::from_iter_values(rows.clone().map(|row| number(row, keys)));
            let values = Int64Array::from_iter_values(rows.map(|row| number(row + 1, 1_000)));
            [Arc::new(keys) as ArrayRef, Arc::new(values) as ArrayRef]
        })
        .collect();
    let mut columns = columns.iter().cycle();
    let mut now = 1_700_000_000_000;
    let mut take = || {
        let [keys, values] = columns.next().unwrap().clone();
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from_iter_values(now..now + ROWS));
        now += ROWS;
        operator
            .push(Batch::try_new(vec![keys, values, times], usize::try_from(ROWS).unwrap(), None).unwrap())
            .unwrap();
        operator.watermark(now - 1).unwrap();
        while let Some(out) = operator.pull().unwrap() {
            black_box(out);
        }
    };
    // as many sessions as there will be
    (0..32).for_each(|_| take());
    let mut group = criterion.benchmark_group("session");
    group.throughput(Throughput::Elements(ROWS.unsigned_abs()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    group.bench_function(name, |bencher| bencher.iter(&mut take));
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    bench(criterion, "keyed", 10_000);
    bench(criterion, "dense", 64);
}

criterion_group!(all, benches);
criterion_main!(all);
