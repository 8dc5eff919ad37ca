//! How many rows per second a keyed exchange splits, and what it costs to send and receive the parts.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_plan::types::TypeKind;
use streamfusion_row::Batch;
use streamfusion_row::exchange::KeySplitter;
use streamfusion_row::frame;

mod bid;

/// Rows of a batch.
const ROWS: usize = 4_096;
const DESTINATIONS: u32 = 8;

fn exchange(c: &mut Criterion) {
    let bids = bid::bids();
    let Ok(bids) = bids.slice(0, ROWS) else { return };
    let Ok(mut splitter) = KeySplitter::try_new(&[0], &[bid::ty(TypeKind::BigInt)], DESTINATIONS, 128) else { return };
    let mut group = c.benchmark_group("exchange");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("split_by_key", |b| b.iter(|| splitter.split(black_box(&bids))));

    let Ok(longs) = Batch::try_new(bids.columns()[..3].to_vec(), ROWS, None) else { return };
    group.bench_function("split_by_key_3_longs", |b| b.iter(|| splitter.split(black_box(&longs))));

    let parts = splitter.split(&bids).unwrap_or_default();
    assert_eq!(parts.len(), DESTINATIONS as usize);
    let encode = || parts.iter().filter_map(|part| frame::encode(&part.batch).ok()).collect::<Vec<_>>();
    group.bench_function("encode_8_parts", |b| b.iter(|| black_box(encode())));
    let frames = encode();
    let types: Vec<_> = bid::row_type().fields().iter().map(|field| field.ty.clone()).collect();
    group.bench_function("decode_8_parts", |b| {
        b.iter(|| {
            frames.iter().filter_map(|bytes| frame::decode(bytes, &types).ok()).map(|b| b.num_rows()).sum::<usize>()
        });
    });
    group.finish();
}

criterion_group!(benches, exchange);
criterion_main!(benches);
