//! How many keys per second are hashed: straight from values where the key is one column, over encoded rows otherwise.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_row::binary::{KeyEncoder, KeyRows};

mod bid;

fn row_hash(c: &mut Criterion) {
    let bids = bid::bids();
    let row_type = bid::row_type();
    let mut group = c.benchmark_group("row_hash");
    group.throughput(Throughput::Elements(bid::ROWS as u64));
    for (name, keys) in [
        ("bigint", vec![0]),
        ("string_of_5_to_12", vec![3]),
        ("string_of_50", vec![4]),
        ("bigint_and_string", vec![0, 3]),
        ("two_bigints", vec![0, 1]),
    ] {
        let types: Vec<_> = keys.iter().map(|key| row_type.fields()[*key].ty.clone()).collect();
        let columns: Vec<_> = keys.iter().map(|key| bids.columns()[*key].clone()).collect();
        let Ok(encoder) = KeyEncoder::try_new(&types) else { return };
        let (mut rows, mut hashes) = (KeyRows::new(), Vec::new());
        group.bench_function(name, |b| {
            b.iter(|| encoder.hash_into(black_box(&columns), bid::ROWS, &mut rows, &mut hashes));
        });
    }
    group.finish();
}

criterion_group!(benches, row_hash);
criterion_main!(benches);
