//! How fast are the changes of a bundle folded to one per key, from kept batches to the batch that leaves?
//!
//! `fold`: 4,096 replacements of 64 keys (BIGINT, BIGINT, text), all of which have a preimage, one bundle; in one batch, in
//! batches of 256, with a flush after each of those, and with one after each row, as without mini-batch. Key numbers and preimages are at hand, as they are for an operator.
//! `compare` is the comparison of 4,096 pairs of equal rows alone.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, StringArray, UInt8Array};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::changelog::{
    BundleRows, Changes, Emission, Floats, Fold, Preimages, RowPair, RowRef, Transitions, Unseen, UpdateBefore,
    equal_pairs,
};
use streamfusion_row::Batch;

const ROWS: usize = 4096;
const KEYS: usize = 64;

/// Rows from `first` on, row after row of the next key.
fn batch(first: usize, rows: usize) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((first..first + rows).map(|row| (row % KEYS) as i64))),
        Arc::new(Int64Array::from_iter_values((first..first + rows).map(|row| row as i64))),
        Arc::new(StringArray::from_iter_values((first..first + rows).map(|row| format!("channel-{row}")))),
    ];
    Batch::try_new(columns, rows, Some(UInt8Array::from_value(2, rows))).unwrap()
}

struct Operator {
    rows: BundleRows,
    fold: Fold,
    preimages: Batch,
    transitions: Transitions,
    out: Changes,
}

impl Operator {
    fn flush(&mut self) {
        let number = self.rows.add(&self.preimages).unwrap();
        self.fold.load((0..KEYS as u32).map(|row| Some(RowRef::new(number, row))));
        self.fold.end_bundle(&mut self.transitions);
        self.end_frame();
    }

    fn end_frame(&mut self) {
        self.transitions.cancel_equal(&self.rows, 0..self.rows.num_columns(), Floats::Bits).unwrap();
        self.transitions.emit(Emission { update_before: UpdateBefore::Emit, unseen: Unseen::Insert }, &mut self.out);
        self.transitions.clear();
        while let Some(batch) = self.out.pull(&self.rows).unwrap() {
            black_box(batch);
        }
        self.fold.end_frame();
        self.rows.clear();
    }
}

fn changelog(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("changelog");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    for (id, physical, flushes) in
        [("rows_4096", ROWS, false), ("rows_256", 256, false), ("rows_256_flush_each", 256, true)]
    {
        let batches: Vec<Batch> =
            (0..ROWS / physical).map(|part| batch(1_000_000 + part * physical, physical)).collect();
        let keys: Vec<u32> = (0..physical as u32).map(|row| row % KEYS as u32).collect();
        let (rows, fold, out) = (BundleRows::new(), Fold::new(Preimages::Loaded), Changes::new());
        let mut operator = Operator { rows, fold, preimages: batch(0, KEYS), transitions: Transitions::new(), out };
        group.bench_function(BenchmarkId::new("fold", id), |bencher| {
            bencher.iter(|| {
                for batch in &batches {
                    let number = operator.rows.add(batch).unwrap();
                    let kinds = batch.kinds().map(|kinds| kinds.values().as_ref());
                    operator.fold.push(number, 0, &keys, kinds).unwrap();
                    if flushes {
                        operator.flush();
                    }
                }
                if !flushes {
                    operator.flush();
                }
            });
        });
    }

    let (rows, fold, out) = (BundleRows::new(), Fold::new(Preimages::Loaded), Changes::new());
    let mut operator = Operator { rows, fold, preimages: batch(0, KEYS), transitions: Transitions::new(), out };
    let (input, keys) = (batch(1_000_000, ROWS), (0..ROWS as u32).map(|row| row % KEYS as u32).collect::<Vec<_>>());
    group.bench_function(BenchmarkId::new("fold", "each_row"), |bencher| {
        bencher.iter(|| {
            let (number, state) = (operator.rows.add(&input).unwrap(), operator.rows.add(&operator.preimages).unwrap());
            operator.fold.load((0..KEYS as u32).map(|row| Some(RowRef::new(state, row))));
            let kinds = input.kinds().map(|kinds| kinds.values().as_ref());
            operator.fold.push_each(number, 0, &keys, kinds, &mut operator.transitions).unwrap();
            operator.end_frame();
        });
    });

    let mut rows = BundleRows::new();
    let (left, right) = (rows.add(&batch(0, ROWS)).unwrap(), rows.add(&batch(0, ROWS)).unwrap());
    let pairs: Vec<RowPair> =
        (0..ROWS as u32).map(|row| RowPair { left: RowRef::new(left, row), right: RowRef::new(right, row) }).collect();
    group.bench_function("compare", |bencher| {
        bencher.iter(|| black_box(equal_pairs(&rows, pairs.iter().copied(), 0..3, Floats::Bits).unwrap()));
    });
    group.finish();
}

criterion_group!(benches, changelog);
criterion_main!(benches);
