//! What does it cost to cut batches where bundles end?
//!
//! `split/<size>`: 8,192 rows of 7 columns, as ranges and as views, with a flush that does nothing after each bundle.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_operators::bundle::{Boundary, FlushReason, Split};
use streamfusion_row::Batch;

const ROWS: usize = 8192;

fn split(criterion: &mut Criterion) {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let batch = Batch::try_new(vec![column; 7], ROWS, None).unwrap();
    let mut group = criterion.benchmark_group("bundle");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    for size in [1, 7, 4096, 5000] {
        for views in [false, true] {
            let id = BenchmarkId::new(if views { "split_views" } else { "split" }, size);
            let mut boundary = Boundary::new(NonZeroU64::new(size).unwrap());
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    let mut split = Split::new(batch.clone());
                    while let Some(part) = split.next_part(&mut boundary) {
                        if views {
                            black_box(split.view(&part).unwrap());
                        }
                        if part.ends_bundle {
                            boundary.end(FlushReason::Count, 1);
                        }
                        black_box(&part);
                    }
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, split);
criterion_main!(benches);
