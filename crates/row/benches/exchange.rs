//! How many rows per second a keyed exchange splits, and what it costs to send and receive the parts.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::exchange::{FragmentSplitter, KeySplitter};
use streamfusion_row::fragment::{self, Epoch, Reassembler};
use streamfusion_row::{Batch, KeyGroup, frame};

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
    fragments(&mut group, &bids, &types);
    group.finish();
}

/// The way that a checkpoint may store: 128 fragments, and what one of 8 receivers makes of its share.
fn fragments(group: &mut BenchmarkGroup<'_, WallTime>, bids: &Batch, types: &[LogicalType]) {
    let epoch = Epoch { order: 0, attempt: 1 };
    let Ok(mut splitter) = FragmentSplitter::try_new(&[0], &[bid::ty(TypeKind::BigInt)], 128, epoch) else { return };
    group.bench_function("fragments_128", |b| b.iter(|| splitter.split(black_box(bids))));
    let fragments = splitter.split(bids).unwrap_or_default();
    assert_eq!(fragments.len(), 128);
    let encode =
        |batches: &[Batch]| batches.iter().filter_map(|batch| fragment::encode(batch).ok()).collect::<Vec<_>>();
    group.bench_function("encode_128_fragments", |b| b.iter(|| black_box(encode(&fragments))));
    // 16 of the 128 groups belong to the first of 8 subtasks
    let last = KeyGroup(15);
    let mine: Vec<_> = fragments.into_iter().take(16).collect();
    let rows = mine.iter().map(Batch::num_rows).sum::<usize>();
    let mine = encode(&mine);
    group.throughput(Throughput::Elements(rows as u64));
    group.bench_function("reassemble", |b| {
        b.iter_batched_ref(
            || Reassembler::new(types.to_vec(), KeyGroup(0), last, 0),
            |receiver| mine.iter().filter_map(|bytes| receiver.push_encoded(bytes).ok().flatten()).last(),
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, exchange);
criterion_main!(benches);
