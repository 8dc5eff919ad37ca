//! How many rows per second go into a table whole, and how many come out of it as Arrow columns?
//!
//! Rows of seven columns, about 110 bytes, in batches of 4,096: under 64 slots that stay in the cache (`hot_64`), and under random ones of
//! a million (`random_1m`, where waiting for memory counts). `store` replaces rows that are there, cleaning included.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_state::{RowLayout, Rows};

const ROWS: u32 = 4096;

/// The same numbers in every run: splitmix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

fn columns(numbers: &mut Numbers) -> Vec<ArrayRef> {
    let mut values =
        |limit: u64| -> Vec<i64> { (0..ROWS).map(|_| i64::try_from(numbers.below(limit)).unwrap()).collect() };
    let text = |prefix: &str, values: Vec<i64>| {
        StringArray::from_iter_values(values.into_iter().map(|value| format!("{prefix}{value}")))
    };
    vec![
        Arc::new(Int64Array::from(values(1 << 40))),
        Arc::new(Int64Array::from(values(1 << 40))),
        Arc::new(Int64Array::from(values(10_000))),
        Arc::new(text("channel-", values(10_000))),
        Arc::new(text("https://www.example.org/item.htm?query=", values(1 << 30))),
        Arc::new(TimestampMillisecondArray::from(values(1 << 41))),
        Arc::new(text("", values(1000))),
    ]
}

fn rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("state");
    group.throughput(Throughput::Elements(u64::from(ROWS)));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    let mut numbers = Numbers(7);
    let batches: Vec<_> = (0..8).map(|_| columns(&mut numbers)).collect();
    let types: Vec<_> = batches[0].iter().map(|column| column.data_type().clone()).collect();
    let order: Vec<u32> = (0..ROWS).collect();
    for (name, limit) in [("hot_64", 64_u32), ("random_1m", 1_000_000)] {
        let mut rows = Rows::new(RowLayout::try_new(&types).unwrap());
        for first in (0..limit).step_by(ROWS as usize) {
            let slots: Vec<u32> = (first..limit.min(first + ROWS)).collect();
            rows.store(&batches[0], &order[..slots.len()], &slots).unwrap();
        }
        let slots: Vec<Vec<u32>> =
            (0..64).map(|_| (0..ROWS).map(|_| u32::try_from(numbers.below(limit.into())).unwrap()).collect()).collect();
        let (mut next_slots, mut next_batch) = (slots.iter().cycle(), batches.iter().cycle());
        group.bench_function(format!("row_store/{name}"), |bencher| {
            bencher.iter(|| rows.store(next_batch.next().unwrap(), &order, next_slots.next().unwrap()).unwrap());
        });
        group.bench_function(format!("row_gather/{name}"), |bencher| {
            bencher.iter(|| black_box(rows.gather(next_slots.next().unwrap()).unwrap()));
        });
    }
    group.finish();
}

criterion_group!(benches, rows);
criterion_main!(benches);
