//! How many rows per second do changelog normalize and deduplicate take, with every change emitted?
//!
//! A storm of replacements: batches of 4,096 rows over 64 keys, each row unlike the one before it, so that 8,128 or more rows go out
//! of each batch. Rows are two BIGINT columns and a row time; in `text` two texts more. `random_1m` has batches of distinct keys
//! out of a million, where waiting for memory counts.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray, UInt8Array};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::deduplicate::StoredKind;
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

fn normalize(texts: usize) -> Box<dyn Operator> {
    let spec = node::ChangelogNormalize {
        unique_keys: vec![0],
        generate_update_before: true,
        filter: None,
        ttl_ms: 0,
        mini_batch_size: None,
    };
    Box::new(ChangelogNormalize::try_new(&spec, &row_type(texts), &context()).unwrap())
}

fn deduplicate(time: TimeDomain, keep: KeepRow, texts: usize) -> Box<dyn Operator> {
    let spec = node::Deduplicate {
        unique_keys: vec![0],
        time,
        keep,
        output_insert_only: false,
        generate_update_before: true,
        generate_insert: true,
        compact_changes: false,
        ttl_ms: 0,
        mini_batch_size: None,
    };
    Box::new(Deduplicate::try_new(&spec, &row_type(texts), StoredKind::AsEmitted, &context()).unwrap())
}

fn bench(criterion: &mut Criterion, group: &str, name: &str, mut operator: Box<dyn Operator>, batches: &[Batch]) {
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(u64::try_from(ROWS).unwrap()));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let mut run = |batch: &Batch| {
        operator.push(batch.clone()).unwrap();
        while let Some(out) = operator.pull().unwrap() {
            black_box(out);
        }
    };
    // all keys exist before the clock starts
    batches.iter().for_each(&mut run);
    let mut next = batches.iter().cycle();
    group.bench_function(name, |bencher| bencher.iter(|| run(next.next().unwrap())));
    group.finish();
}

fn operators(criterion: &mut Criterion) {
    // prime to the number of keys: every key once, in an order that memory does not like
    let hot = |row: usize| row % 64;
    let random = |row: usize| row * 999_983 % 1_000_000;
    let changelog = batches(16, 0, true, hot);
    bench(criterion, "changelog_normalize", "immediate", normalize(0), &changelog);
    bench(criterion, "changelog_normalize", "immediate_text", normalize(2), &batches(16, 2, true, hot));
    bench(criterion, "changelog_normalize", "random_1m", normalize(2), &batches(244, 2, true, random));
    let inserts = batches(16, 0, false, hot);
    let keep = |time, keep| deduplicate(time, keep, 0);
    bench(criterion, "keep_last", "immediate", keep(TimeDomain::Proctime, KeepRow::Last), &inserts);
    bench(criterion, "keep_last", "row_time", keep(TimeDomain::Rowtime, KeepRow::Last), &inserts);
    bench(criterion, "keep_first", "immediate", keep(TimeDomain::Proctime, KeepRow::First), &inserts);
}

criterion_group!(benches, operators);
criterion_main!(benches);
