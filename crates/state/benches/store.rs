//! What does a table that is kept in RocksDB pay per key, beyond one in memory?
//!
//! A million BIGINT keys, in random order, with a record count and a sum; batches of 4,096. `new_keys` adds them to a table whose database has
//! nothing; `new_keys/left` is the same where a key of each key group has left memory before, so that the database is asked for each. `write_back` writes all
//! of them, as a snapshot does. `fold` is a batch of keys that are in memory. The database lies in memory, with the options that RocksDB comes with.
//! Its library is that of the tests (`make rocksdb`).
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use arrow::datatypes::DataType;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use streamfusion_state::codec::Required;
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{
    BatchKeys, ColumnId, KeyGroups, KeyLayout, KeyedTable, StateClock, StateContext, Store, Touched,
};

const ROWS: usize = 4096;
const KEYS: u64 = 1_000_000;

struct Sums {
    table: KeyedTable,
    records: ColumnId<i64>,
    sum: ColumnId<i64>,
    touched: Touched,
}

impl Sums {
    fn new(database: &TestDatabase) -> Self {
        let context = StateContext { key_groups: KeyGroups::all(128), clock: StateClock::system() };
        let mut table =
            KeyedTable::new("groups", KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned()), None, &context);
        let records = table.add_column("records", None, Required::new("", DataType::Int64), 0_i64);
        let sum = table.add_column("sum", None, Required::new("", DataType::Int64), 0_i64);
        let store = Store { database: database.open().clone(), operator_id: "uid/groups".to_owned(), resident: false };
        table.attach(&store, 0).unwrap();
        Self { table, records, sum, touched: Touched::default() }
    }

    /// Batch by batch.
    fn fold(&mut self, keys: &[u64]) {
        for keys in keys.chunks(ROWS) {
            let Self { table, touched, .. } = self;
            table.load(BatchKeys::Fixed(keys, None), touched).unwrap();
            for id in [self.records, self.sum] {
                let column = table.column(id).unwrap();
                for slot in &touched.slots {
                    let value = column.take(*slot) + 1;
                    column.set(*slot, value);
                }
            }
            table.commit(&touched.slots);
        }
    }
}

/// `0..KEYS` in an order that is random, and the same in every run.
fn keys() -> Vec<u64> {
    let mut keys: Vec<u64> = (0..KEYS).collect();
    let mut state = 7_u64;
    for place in (1..keys.len()).rev() {
        // splitmix64
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut random = state;
        random = (random ^ (random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        random = (random ^ (random >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        random ^= random >> 31;
        keys.swap(place, usize::try_from(random % (place as u64 + 1)).unwrap());
    }
    keys
}

fn stored(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("state/stored");
    group.sample_size(10).warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_secs(5));
    group.throughput(Throughput::Elements(KEYS));
    let keys = keys();
    for (name, left) in [("new_keys", false), ("new_keys/left", true)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let mut taken = Duration::ZERO;
                for _ in 0..iterations {
                    let database = TestDatabase::new();
                    let mut sums = Sums::new(&database);
                    if left {
                        let others: Vec<u64> = (KEYS..KEYS + 8192).collect();
                        sums.fold(&others);
                        sums.table.evict().unwrap();
                    }
                    let start = Instant::now();
                    sums.fold(&keys);
                    taken += start.elapsed();
                }
                taken
            });
        });
    }
    let database = TestDatabase::new();
    let mut sums = Sums::new(&database);
    sums.fold(&keys);
    group.bench_function("fold", |bencher| bencher.iter(|| sums.fold(&keys)));
    drop(sums);
    group.bench_function("write_back", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut taken = Duration::ZERO;
            for _ in 0..iterations {
                let database = TestDatabase::new();
                let mut sums = Sums::new(&database);
                sums.fold(&keys);
                let start = Instant::now();
                sums.table.write_back().unwrap();
                taken += start.elapsed();
            }
            taken
        });
    });
    group.finish();
}

criterion_group!(benches, stored);
criterion_main!(benches);
