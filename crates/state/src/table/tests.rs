use arrow::datatypes::DataType;
use streamfusion_row::KeyGroup;

use super::*;
use crate::canonical::FormatVersion;
use crate::codec::Required;
use crate::map::{MapCodec, MapHash, MapTable};
use crate::mix;

type Failure = Box<dyn std::error::Error>;

#[derive(Debug)]
struct Longs;

impl MapHash<i64> for Longs {
    fn hash(key: &i64) -> u64 {
        mix(key.cast_unsigned())
    }

    fn same(a: &i64, b: &i64) -> bool {
        a == b
    }
}

/// A number per key, and a map of the entries `0 -> number` and, where the number is odd, `1 -> -number`.
struct Numbers {
    table: KeyedTable,
    numbers: ColumnId<i64>,
    entries: EntriesId<MapTable<i64, i64, Longs>>,
    touched: Touched,
}

impl Numbers {
    fn new(max_parallelism: u32) -> Self {
        let context = StateContext { key_groups: KeyGroups::all(max_parallelism), clock: StateClock::fixed(0) };
        let layout = KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned());
        let mut table = KeyedTable::new("numbers", layout, None, &context);
        let long = || DataType::Int64;
        let numbers = table.add_column("number", None, Required::new("", long()), 0);
        let codec = MapCodec { key: Required::new("key", long()), value: Required::new("value", long()) };
        let entries = MapTable::new(table.key_groups(), (0, 0), 0);
        let entries = table.add_entries("entries", None, codec, entries);
        Self { table, numbers, entries, touched: Touched::default() }
    }

    fn write(&mut self, keys: &[u64], number: impl Fn(u64) -> i64) -> Result<(), StateError> {
        self.table.load(BatchKeys::Fixed(keys, None), &mut self.touched)?;
        for (key, slot) in keys.iter().zip(&self.touched.slots) {
            let number = number(*key);
            self.table.column(self.numbers)?.set(*slot, number);
            let (entries, slots) = self.table.entries(self.entries)?;
            for (entry, value) in [(0, number), (1, -number)].into_iter().take(1 + (number & 1) as usize) {
                let position =
                    entries.find_or_add(slots, *slot, Longs::hash(&entry), |other| *other == entry, || entry)?;
                *entries.value_mut(position) = value;
            }
        }
        self.table.commit(&self.touched.slots);
        Ok(())
    }

    fn remove(&mut self, keys: &[u64]) -> Result<(), StateError> {
        self.table.load(BatchKeys::Fixed(keys, None), &mut self.touched)?;
        self.touched.slots.iter().try_for_each(|slot| self.table.remove(*slot))
    }

    /// The number under each key, if its entries are as they should be.
    fn read(&mut self, keys: &[u64]) -> Result<Vec<Option<i64>>, StateError> {
        self.table.load(BatchKeys::Fixed(keys, None), &mut self.touched)?;
        let mut found = Vec::new();
        for slot in &self.touched.slots {
            let number = *self.table.column(self.numbers)?.get(*slot);
            let (entries, slots) = self.table.entries(self.entries)?;
            let mut value = |entry: i64| {
                let position =
                    entries.find_or_add(slots, *slot, Longs::hash(&entry), |other| *other == entry, || entry)?;
                Ok::<i64, StateError>(*entries.value(position))
            };
            let expected = (number, if number & 1 == 1 { -number } else { 0 });
            found.push(((value(0)?, value(1)?) == expected).then_some(number));
        }
        Ok(found)
    }
}

fn sections(snapshot: &dyn StateSnapshot) -> Result<Vec<Sections>, Failure> {
    let of_group = |key_group: KeyGroup| -> Result<Sections, Failure> {
        Ok(Sections {
            key_group,
            format_version: FormatVersion::Asynchronous,
            processing_time_deadline: None,
            sections: snapshot.sections(key_group)?,
        })
    };
    snapshot.key_groups().into_iter().map(of_group).collect()
}

#[test]
fn a_key_group_of_several_record_batches_comes_back() -> Result<(), Failure> {
    // more than 65,536, the rows of a batch
    let keys: Vec<u64> = (0..70_000).collect();
    let mut numbers = Numbers::new(1);
    numbers.write(&keys, |key| key.cast_signed() * 3)?;
    let snapshot = numbers.table.snapshot();
    // while it is there, half of the keys go, others come in their place, and the rest changes
    numbers.remove(&keys[..35_000])?;
    numbers.write(&(70_000..110_000).collect::<Vec<_>>(), |_| 7)?;
    numbers.write(&keys[35_000..], |_| 9)?;
    let sections = sections(snapshot.as_ref())?;
    let [group] = &sections[..] else { return Err("one key group".into()) };
    let sizes = |section: usize| {
        let batches = group.sections[section].batches();
        batches.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>()
    };
    assert_eq!(sizes(0), [65_536, 4464]);
    assert_eq!(sizes(1), [65_536, 105_000 - 65_536]);
    let mut restored = Numbers::new(1);
    restored.table.restore(group)?;
    assert_eq!(restored.table.len(), 70_000);
    let expected: Vec<_> = keys.iter().map(|key| Some(key.cast_signed() * 3)).collect();
    assert!(restored.read(&keys)? == expected);
    Ok(())
}

#[test]
fn a_table_goes_on_after_a_snapshot_and_a_restore() -> Result<(), Failure> {
    let keys: Vec<u64> = (0..1000).collect();
    let mut numbers = Numbers::new(4);
    numbers.write(&keys, |key| key.cast_signed())?;
    let snapshot = numbers.table.snapshot();
    let mut restored = Numbers::new(4);
    for group in sections(snapshot.as_ref())? {
        restored.table.restore(&group)?;
    }
    drop(snapshot);
    for table in [&mut numbers, &mut restored] {
        table.remove(&keys[..500])?;
        table.write(&keys[750..], |key| key.cast_signed() + 2)?;
        assert_eq!(table.table.len(), 500);
        let expected = |key: &u64| Some(key.cast_signed() + 2 * i64::from(*key >= 750));
        assert!(table.read(&keys[500..])? == keys[500..].iter().map(expected).collect::<Vec<_>>());
    }
    Ok(())
}
