//! How many rows per second leave a stage: addresses alone, and with every column copied as the reader does.

use std::hint::black_box;

use arrow::array::AsArray;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_row::Batch;
use streamfusion_row::export::Export;

mod bid;

/// Copies what the reader copies: values of fixed width, offsets and bytes.
fn copy(batch: &Batch, heap: &mut Vec<u8>) {
    heap.clear();
    for column in batch.columns() {
        match column.as_string_opt::<i32>() {
            Some(text) => {
                heap.extend_from_slice(text.offsets().inner().inner());
                heap.extend_from_slice(text.value_data());
            }
            None => column.to_data().buffers().iter().for_each(|buffer| heap.extend_from_slice(buffer)),
        }
    }
}

fn exit(c: &mut Criterion) {
    let bids = bid::bids();
    let Ok(slice) = bids.slice(1, bid::ROWS - 1) else { return };
    let mut group = c.benchmark_group("exit");
    group.throughput(Throughput::Elements(bid::ROWS as u64));
    group.bench_function("bid_7_columns/addresses", |b| b.iter(|| Export::try_new(black_box(&bids))));
    group.bench_function("bid_7_columns/addresses_of_a_slice", |b| b.iter(|| Export::try_new(black_box(&slice))));
    let mut heap = Vec::new();
    group.bench_function("bid_7_columns/copied", |b| {
        b.iter(|| {
            let export = Export::try_new(black_box(&bids));
            copy(&bids, &mut heap);
            (export.is_ok(), heap.len())
        });
    });
    group.finish();
}

criterion_group!(benches, exit);
criterion_main!(benches);
