//! How many rows per second do changelog normalize and deduplicate take, with every change emitted?
//!
//! A storm of replacements: batches of 4,096 rows over 64 keys, each row unlike the one before it, so that 8,128 or more rows go out
//! of each batch. Rows are two BIGINT columns and a row time; in `text` two texts more. `random_1m` has batches of distinct keys
//! out of a million, where waiting for memory counts.
//!
//! With mini-batch the same rows come in batches of 256 and are a bundle of 4,096 rows (`logical`), or end one with each batch
//! (`flush_256`).
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray, UInt8Array};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::StateBackend;
use streamfusion_operators::{ChangelogNormalize, Deduplicate, Operator};
use streamfusion_plan::node::{self, KeepRow};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TimeDomain, TypeKind};
use streamfusion_row::Batch;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

const ROWS: usize = 4096;

fn row_type(texts: usize) -> LogicalType {
    let time = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    let kinds = [TypeKind::BigInt, TypeKind::BigInt, time].into_iter();
    let kinds = kinds.chain(std::iter::repeat_n(TypeKind::VarChar(i32::MAX.unsigned_abs()), texts));
    let fields =
        kinds.enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: LogicalType { kind, nullable: true } });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

/// Batches whose keys are `key(row)`, rows counted through all batches; with row kinds if they are a changelog.
fn batches(count: usize, texts: usize, changelog: bool, key: impl Fn(usize) -> usize) -> Vec<Batch> {
    let batch = |number: usize| {
        let rows = number * ROWS..(number + 1) * ROWS;
        let long = |value: usize| i64::try_from(value).unwrap();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| long(key(row))))),
            Arc::new(Int64Array::from_iter_values(rows.clone().map(long))),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.clone().map(long))),
        ];
        for text in 0..texts {
            columns
                .push(Arc::new(StringArray::from_iter_values(rows.clone().map(|row| format!("text {text} of {row}")))));
        }
        let kinds = changelog.then(|| UInt8Array::from_value(2, ROWS));
        Batch::try_new(columns, ROWS, kinds).unwrap()
    };
    (0..count).map(batch).collect()
}

fn context() -> StateContext {
    StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() }
}

/// A bundle of [`ROWS`] rows in batches of 256.
const LOGICAL: Option<u64> = Some(ROWS as u64);
const FLUSH: Option<u64> = Some(256);

fn cut(batches: &[Batch]) -> Vec<Batch> {
    batches.iter().flat_map(|batch| (0..ROWS).step_by(256).map(|row| batch.slice(row, 256).unwrap())).collect()
}

fn normalize(mini_batch_size: Option<u64>, texts: usize) -> Box<dyn Operator> {
    let spec = node::ChangelogNormalize {
        unique_keys: vec![0],
        generate_update_before: true,
        filter: None,
        ttl_ms: 0,
        mini_batch_size,
    };
    Box::new(ChangelogNormalize::try_new(&spec, &row_type(texts), &context()).unwrap())
}

fn deduplicate(
    mini_batch_size: Option<u64>,
    time: TimeDomain,
    keep: KeepRow,
    compact_changes: bool,
) -> Box<dyn Operator> {
    let spec = node::Deduplicate {
        unique_keys: vec![0],
        time,
        keep,
        output_insert_only: false,
        generate_update_before: true,
        generate_insert: true,
        compact_changes,
        ttl_ms: 0,
        mini_batch_size,
    };
    Box::new(Deduplicate::try_new(&spec, &row_type(0), StateBackend::Hashmap, &context()).unwrap())
}

/// `batches_per_run` batches have [`ROWS`] rows.
fn bench(
    criterion: &mut Criterion,
    group: &str,
    name: &str,
    mut operator: Box<dyn Operator>,
    batches: &[Batch],
    batches_per_run: usize,
) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(u64::try_from(ROWS).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let mut run = |batches: &[Batch]| {
        for batch in batches {
            operator.push(batch.clone()).unwrap();
            while let Some(out) = operator.pull().unwrap() {
                black_box(out);
            }
        }
    };
    // all keys exist before the clock starts
    batches.chunks(batches_per_run).for_each(&mut run);
    let mut next = batches.chunks(batches_per_run).cycle();
    group.bench_function(name, |bencher| bencher.iter(|| run(next.next().unwrap())));
    group.finish();
}

fn operators(criterion: &mut Criterion) {
    // prime to the number of keys: every key once, in an order that memory does not like
    let hot = |row: usize| row % 64;
    let random = |row: usize| row * 999_983 % 1_000_000;
    let changelog = batches(16, 0, true, hot);
    let group = "changelog_normalize";
    bench(criterion, group, "immediate", normalize(None, 0), &changelog, 1);
    bench(criterion, group, "immediate_text", normalize(None, 2), &batches(16, 2, true, hot), 1);
    bench(criterion, group, "random_1m", normalize(None, 2), &batches(244, 2, true, random), 1);
    bench(criterion, group, "flush_256", normalize(FLUSH, 0), &cut(&changelog), 16);
    bench(criterion, group, "logical", normalize(LOGICAL, 0), &cut(&changelog), 16);
    bench(criterion, group, "logical_text", normalize(LOGICAL, 2), &cut(&batches(16, 2, true, hot)), 16);
    let inserts = batches(16, 0, false, hot);
    let (proctime, rowtime) = (TimeDomain::Proctime, TimeDomain::Rowtime);
    let last = |size, time| deduplicate(size, time, KeepRow::Last, true);
    bench(criterion, "keep_last", "immediate", last(None, proctime), &inserts, 1);
    bench(criterion, "keep_last", "flush_256", last(FLUSH, proctime), &cut(&inserts), 16);
    bench(criterion, "keep_last", "logical", last(LOGICAL, proctime), &cut(&inserts), 16);
    bench(criterion, "keep_last", "row_time", last(None, rowtime), &inserts, 1);
    bench(criterion, "keep_last", "row_time_flush_256", last(FLUSH, rowtime), &cut(&inserts), 16);
    bench(criterion, "keep_last", "row_time_logical", last(LOGICAL, rowtime), &cut(&inserts), 16);
    let first = deduplicate(None, proctime, KeepRow::First, false);
    bench(criterion, "keep_first", "immediate", first, &inserts, 1);
}

criterion_group!(benches, operators);
criterion_main!(benches);
