//! What do snapshots of keyed state cost, on the task thread and on the thread that encodes them?
//!
//! A table of BIGINT keys with a record count and three accumulators (COUNT, SUM, MAX). `snapshot_token` is what a
//! checkpoint takes of the task thread, from a table without any snapshot in flight; `snapshot_text_keys` is what the keys add to it if
//! they are texts. `encode_group` makes the container of one
//! key group of 78,125 keys (10 M keys in 128 groups) out of a snapshot, `decode_group` a table out of the container.
//! `write_during_snapshot` folds random keys in batches of 4,096 rows: `without` any snapshot, and `with` one that was just
//! taken and is held throughout; the rows since the snapshot are in the name.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use arrow::datatypes::DataType;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_row::KeyGroup;
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::codec::{Nullable, Required};
use streamfusion_state::index::BytesKeyIndex;
use streamfusion_state::{
    BatchKeys, ColumnId, KeyGroups, KeyLayout, KeyedTable, Slots, StateClock, StateContext, StateSnapshot, Touched,
};

const ROWS: u64 = 4096;
const OPERATOR: &str = "uid/groups";

/// A table as a GROUP BY has it.
struct Groups {
    table: KeyedTable,
    records: ColumnId<i64>,
    count: ColumnId<i64>,
    sum: ColumnId<Option<i64>>,
    max: ColumnId<Option<i64>>,
    touched: Touched,
    keys: Vec<u64>,
}

impl Groups {
    fn new(max_parallelism: u32) -> Self {
        let context = StateContext { key_groups: KeyGroups::all(max_parallelism), clock: StateClock::system() };
        let mut table =
            KeyedTable::new("groups", KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned()), None, &context);
        let long = DataType::Int64;
        Self {
            records: table.add_column("records", None, Required::new("", long.clone()), 0_i64),
            count: table.add_column("call0", None, Required::new("count", long.clone()), 0_i64),
            sum: table.add_column("call1", None, Nullable::new("sum", long.clone()), None),
            max: table.add_column("call2", None, Nullable::new("value", long), None),
            table,
            touched: Touched::default(),
            keys: Vec::new(),
        }
    }

    /// Keys 0 to `keys`.
    fn filled(max_parallelism: u32, keys: u64) -> Self {
        let mut groups = Self::new(max_parallelism);
        let mut next = 0;
        while next < keys {
            let end = (next + ROWS).min(keys);
            groups.keys.clear();
            groups.keys.extend(next..end);
            groups.fold();
            next = end;
        }
        groups
    }

    /// One batch with the keys in `keys`.
    fn fold(&mut self) {
        let Self { table, touched, keys, .. } = self;
        table.load(BatchKeys::Fixed(keys, None), touched).unwrap();
        for id in [self.records, self.count] {
            let column = table.column(id).unwrap();
            for slot in &touched.slots {
                let count = column.take(*slot) + 1;
                column.set(*slot, count);
            }
        }
        let sums = table.column(self.sum).unwrap();
        for slot in &touched.slots {
            let sum = sums.take(*slot).unwrap_or(0) + i64::from(*slot);
            sums.set(*slot, Some(sum));
        }
        let maxima = table.column(self.max).unwrap();
        for slot in &touched.slots {
            let max = maxima.take(*slot).max(Some(i64::from(*slot)));
            maxima.set(*slot, max);
        }
        table.commit(&touched.slots);
    }

    fn fold_random(&mut self, numbers: &mut Numbers, keys: u64) {
        self.keys.clear();
        self.keys.extend((0..ROWS).map(|_| numbers.below(keys)));
        self.fold();
    }

    /// Takes back all pages from snapshots that are gone.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.table.load(BatchKeys::Fixed(&[], None), &mut self.touched).unwrap();
        }
    }
}

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

fn millions(keys: u64) -> String {
    format!("{}M", keys / 1_000_000)
}

fn snapshot_token(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("state/snapshot_token");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for keys in [1_000_000, 10_000_000] {
        let mut filled = None;
        group.bench_function(BenchmarkId::from_parameter(millions(keys)), |bencher| {
            let groups = filled.get_or_insert_with(|| {
                let groups = Groups::filled(128, keys);
                println!("{} keys: {} MiB", millions(keys), groups.table.bytes() >> 20);
                groups
            });
            bencher.iter_custom(|iterations| {
                let mut taken = Duration::ZERO;
                for _ in 0..iterations {
                    let start = Instant::now();
                    let snapshot = groups.table.snapshot();
                    taken += start.elapsed();
                    drop(snapshot);
                    groups.settle();
                }
                taken
            });
        });
    }
    group.finish();
}

/// What of it the keys take if they are texts of 100 bytes: the other columns are as above.
fn snapshot_text_keys(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("state/snapshot_text_keys");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(1));
    for keys in [1_000_000_u32, 10_000_000] {
        let mut filled = None;
        group.bench_function(BenchmarkId::from_parameter(millions(keys.into())), |bencher| {
            let index = filled.get_or_insert_with(|| {
                let (mut slots, mut index) = (Slots::new(KeyGroups::all(128)), BytesKeyIndex::new());
                let mut key = [0; 100];
                for number in 0..keys {
                    key[..4].copy_from_slice(&number.to_le_bytes());
                    index.find_or_add(&mut slots, &key, number.wrapping_mul(0x9E37_79B9), ()).unwrap();
                }
                index
            });
            bencher.iter_custom(|iterations| {
                let mut taken = Duration::ZERO;
                for _ in 0..iterations {
                    let start = Instant::now();
                    let snapshot = index.snapshot();
                    taken += start.elapsed();
                    drop(snapshot);
                    (0..200).for_each(|_| index.maintain(2048));
                }
                taken
            });
        });
    }
    group.finish();
}

fn payload(snapshot: &dyn StateSnapshot, group: KeyGroup) -> Vec<u8> {
    let sections = Sections {
        key_group: group,
        format_version: FormatVersion::Asynchronous,
        processing_time_deadline: snapshot.deadline(group),
        sections: snapshot.sections(group).unwrap(),
    };
    sections.encode().unwrap()
}

fn encode_and_decode(criterion: &mut Criterion) {
    let keys = 10_000_000 / 128;
    let mut groups = Groups::filled(1, keys);
    let snapshot = groups.table.snapshot();
    let version = FormatVersion::Asynchronous;
    let mut group = criterion.benchmark_group("state");
    group.throughput(Throughput::Elements(keys)).sample_size(20);
    group.bench_function("encode_group", |bencher| {
        bencher.iter(|| {
            let payload = payload(snapshot.as_ref(), KeyGroup(0));
            let container = Container::encode(OPERATOR, version, None, &payload).unwrap();
            black_box(container.chunks.len());
        });
    });
    let payload = payload(snapshot.as_ref(), KeyGroup(0));
    println!("container: {} bytes per key", payload.len() as f64 / keys as f64);
    let container = Container::encode(OPERATOR, version, None, &payload).unwrap();
    group.bench_function("decode_group", |bencher| {
        bencher.iter_with_large_drop(|| {
            let (header, payload) = container.decode(Some(KeyGroup(0)), OPERATOR).unwrap();
            let sections = Sections::decode(&payload, &header, Some(KeyGroup(0))).unwrap();
            let mut groups = Groups::new(1);
            groups.table.restore(&sections).unwrap();
            groups
        });
    });
    group.finish();
}

fn write_during_snapshot(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("state/write_during_snapshot");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(5));
    for (keys, rows) in [(1_000_000, 1_u64 << 20), (1_000_000, 1 << 22), (10_000_000, 1 << 22)] {
        let mut filled = None;
        let mut numbers = Numbers(7);
        group.throughput(Throughput::Elements(rows));
        for with in [false, true] {
            let name = format!("{}_rows/{}", rows, if with { "with" } else { "without" });
            let mut peak = 0;
            group.bench_function(BenchmarkId::new(millions(keys), name), |bencher| {
                let groups = filled.get_or_insert_with(|| Groups::filled(128, keys));
                bencher.iter_custom(|iterations| {
                    let mut taken = Duration::ZERO;
                    for _ in 0..iterations {
                        let start = Instant::now();
                        let snapshot = with.then(|| groups.table.snapshot());
                        for _ in 0..rows / ROWS {
                            groups.fold_random(&mut numbers, keys);
                        }
                        taken += start.elapsed();
                        peak = peak.max(groups.table.bytes());
                        drop(snapshot);
                        groups.settle();
                    }
                    taken
                });
            });
            println!("peak: {} MiB", peak >> 20);
        }
    }
    group.finish();
}

criterion_group!(benches, snapshot_token, snapshot_text_keys, encode_and_decode, write_during_snapshot);
criterion_main!(benches);
