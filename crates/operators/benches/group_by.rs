//! How many rows per second does GROUP BY take, with -U and +U for every row, and how many in bundles?
//!
//! `batches_256` is one SUM and one COUNT over 64 BIGINT keys, 4,096 rows in batches of 256: `immediate`; `flush_each`, a bundle per batch;
//! `logical_4096`, one bundle over all. `distinct_batches_256` is the same for the calls of `distinct_filtered`.
//! The others are without mini-batch, in batches of 4,096: `immediate` is the loop itself (64 BIGINT keys, SUM), `string_key` adds BinaryRow keys, `distinct_filtered` one distinct
//! table shared by three filtered calls, `100k_keys` memory access (COUNT, SUM and MAX over keys that do not fit a cache).
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::{GroupAgg, Operator};
use streamfusion_plan::node::{AggCall, GroupAggregate};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

const ROWS: usize = 4096;

fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn row_type(kinds: &[TypeKind]) -> LogicalType {
    let fields = kinds.iter().enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: nullable(kind.clone()) });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

fn call(name: &str, args: &[usize], filter: Option<usize>, distinct: bool) -> AggCall {
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter,
        distinct,
        approximate: false,
        ignore_nulls: false,
        need_retraction: false,
        ty: nullable(TypeKind::BigInt),
    }
}

fn spec(grouping: &[usize], calls: Vec<AggCall>) -> GroupAggregate {
    GroupAggregate {
        grouping: grouping.to_vec(),
        calls,
        generate_update_before: true,
        need_retraction: false,
        ttl_ms: 0,
        mini_batch_size: None,
    }
}

/// The same numbers in every run: splitmix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        i64::try_from((z ^ (z >> 31)) % limit).unwrap()
    }
}

fn longs(numbers: &mut Numbers, limit: u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| numbers.below(limit))))
}

fn flags(numbers: &mut Numbers) -> ArrayRef {
    Arc::new((0..ROWS).map(|_| Some(numbers.below(2) == 0)).collect::<BooleanArray>())
}

fn bench(criterion: &mut Criterion, name: &str, spec: &GroupAggregate, input: &LogicalType, batches: &[Batch]) {
    let mut group = criterion.benchmark_group("group_by");
    group.throughput(Throughput::Elements(u64::try_from(ROWS).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
    let mut operator = GroupAgg::try_new(spec, input, &context).unwrap();
    // all groups exist before the clock starts
    for batch in batches {
        operator.push(batch.clone()).unwrap();
        while operator.pull().unwrap().is_some() {}
    }
    let mut next = batches.iter().cycle();
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            operator.push(next.next().unwrap().clone()).unwrap();
            while let Some(out) = operator.pull().unwrap() {
                black_box(out);
            }
        });
    });
    group.finish();
}

/// The rows of `batches` in pieces of 256: row by row, in a bundle per piece, in one of 4,096 rows.
fn bench_bundles(criterion: &mut Criterion, name: &str, spec: &GroupAggregate, input: &LogicalType, batches: &[Batch]) {
    const PIECE: usize = 256;
    let pieces: Vec<Batch> = batches
        .iter()
        .flat_map(|batch| (0..ROWS / PIECE).map(|piece| batch.slice(piece * PIECE, PIECE).unwrap()))
        .collect();
    let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
    let mut group = criterion.benchmark_group(format!("group_by/{name}"));
    group.throughput(Throughput::Elements(u64::try_from(ROWS).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for (mode, size) in [("immediate", None), ("flush_each", Some(PIECE as u64)), ("logical_4096", Some(ROWS as u64))] {
        let spec = GroupAggregate { mini_batch_size: size, ..spec.clone() };
        let mut operator = GroupAgg::try_new(&spec, input, &context).unwrap();
        // all groups exist before the clock starts
        for batch in batches {
            operator.push(batch.clone()).unwrap();
            while operator.pull().unwrap().is_some() {}
        }
        let mut next = pieces.iter().cycle();
        group.bench_function(mode, |bencher| {
            bencher.iter(|| {
                for _ in 0..ROWS / PIECE {
                    operator.push(next.next().unwrap().clone()).unwrap();
                    while let Some(out) = operator.pull().unwrap() {
                        black_box(out);
                    }
                }
            });
        });
    }
    group.finish();
}

fn group_by(criterion: &mut Criterion) {
    let mut numbers = Numbers(7);
    let long = TypeKind::BigInt;

    let batch = |columns: Vec<ArrayRef>| Batch::try_new(columns, ROWS, None).unwrap();
    let sum = vec![call("SUM", &[1], None, false)];
    let input = row_type(&[long.clone(), long.clone()]);
    let batches: Vec<Batch> =
        (0..16).map(|_| batch(vec![longs(&mut numbers, 64), longs(&mut numbers, 1000)])).collect();
    bench(criterion, "immediate", &spec(&[0], sum.clone()), &input, &batches);
    let sum_and_count = vec![call("SUM", &[1], None, false), call("COUNT", &[1], None, false)];
    bench_bundles(criterion, "batches_256", &spec(&[0], sum_and_count), &input, &batches);

    let string_input = row_type(&[TypeKind::VarChar(i32::MAX.unsigned_abs()), long.clone()]);
    let batches: Vec<Batch> = (0..16)
        .map(|_| {
            let keys = (0..ROWS).map(|_| format!("channel-{}", numbers.below(256)));
            batch(vec![Arc::new(StringArray::from_iter_values(keys)), longs(&mut numbers, 1000)])
        })
        .collect();
    bench(criterion, "string_key", &spec(&[0], sum), &string_input, &batches);

    let boolean = TypeKind::Boolean;
    let distinct_input = row_type(&[long.clone(), long.clone(), boolean.clone(), boolean.clone(), boolean]);
    let calls: Vec<AggCall> = (2..5).map(|filter| call("COUNT", &[1], Some(filter), true)).collect();
    let batches: Vec<Batch> = (0..64)
        .map(|_| {
            batch(vec![
                longs(&mut numbers, 64),
                longs(&mut numbers, 10_000),
                flags(&mut numbers),
                flags(&mut numbers),
                flags(&mut numbers),
            ])
        })
        .collect();
    bench(criterion, "distinct_filtered", &spec(&[0], calls.clone()), &distinct_input, &batches);
    bench_bundles(criterion, "distinct_batches_256", &spec(&[0], calls), &distinct_input, &batches);

    let calls = vec![call("COUNT", &[], None, false), call("SUM", &[1], None, false), call("MAX", &[1], None, false)];
    let batches: Vec<Batch> =
        (0..128).map(|_| batch(vec![longs(&mut numbers, 100_000), longs(&mut numbers, 1 << 40)])).collect();
    bench(criterion, "100k_keys", &spec(&[0], calls), &input, &batches);
}

criterion_group!(benches, group_by);
criterion_main!(benches);
