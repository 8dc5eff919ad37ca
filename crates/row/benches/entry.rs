//! How many rows per second become a batch, once they lie in the buffers: packing, UTF-8, fresh buffers.
//!
//! Writing the rows is not measured; Java does that.

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_plan::EntryField;
use streamfusion_row::Batch;
use streamfusion_row::entry::{ColumnTree, EntryBuffers, RowKinds};

mod bid;

fn put(address: i64, bytes: &[u8]) {
    let target = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(address).unwrap_or_default());
    // SAFETY: `write` stays inside of buffers for `ROWS` rows, which the entry owns and does not use meanwhile
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
}

/// Writes all bids by address, column by column.
fn write(buffers: &mut EntryBuffers, bids: &Batch) {
    let addresses = buffers.addresses();
    for (position, (column, at)) in bids.columns().iter().zip(addresses.chunks_exact(3)).enumerate() {
        put(at[0], &vec![1; bid::ROWS]);
        match column.as_string_opt::<i32>() {
            Some(text) => {
                let ends: Vec<u8> = text.value_offsets()[1..].iter().flat_map(|end| end.to_le_bytes()).collect();
                put(at[1], &ends);
                // as much as Java reserves: the next power of two
                let data = buffers.reserve(position, text.value_data().len().next_power_of_two());
                put(data.unwrap_or_default(), text.value_data());
            }
            None => put(at[1], &column.to_data().buffers()[0]),
        }
    }
}

fn entry(c: &mut Criterion) {
    let bids = bid::bids();
    let mut group = c.benchmark_group("entry");
    for rows in [bid::ROWS, 64] {
        group.throughput(Throughput::Elements(rows as u64));
        let tree = ColumnTree::try_new(&bid::row_type(), &vec![EntryField::Read; 7]);
        let Ok(mut buffers) = EntryBuffers::try_new(tree.unwrap_or_else(|_| unreachable!()), bid::ROWS) else { return };
        group.bench_function(format!("bid_7_columns/rows_{rows}"), |b| {
            b.iter_custom(|iterations| {
                let mut elapsed = Duration::ZERO;
                for _ in 0..iterations {
                    write(&mut buffers, &bids);
                    let start = Instant::now();
                    let _ = black_box(buffers.finish(rows, RowKinds::AllInsert));
                    elapsed += start.elapsed();
                }
                elapsed
            });
        });
    }
    group.finish();
}

criterion_group!(benches, entry);
criterion_main!(benches);
