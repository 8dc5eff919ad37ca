use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use proptest::prelude::*;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::KeyGroup;
use streamfusion_row::binary::{KeyEncoder, KeyRows};

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

/// A number per key and namespace, beside a model.
struct Spaces {
    table: KeyedTable,
    numbers: ColumnId<i64>,
    touched: Touched,
}

impl Spaces {
    fn new(layout: KeyLayout, key_groups: KeyGroups) -> Self {
        let context = StateContext { key_groups, clock: StateClock::fixed(0) };
        let mut table = KeyedTable::namespaced("spaces", layout, None, &context);
        let numbers = table.add_column("number", None, Required::new("", DataType::Int64), 0);
        Self { table, numbers, touched: Touched::default() }
    }

    /// Every number by key and namespace.
    fn all(&mut self) -> Result<BTreeMap<(Option<u64>, i64), i64>, Failure> {
        let mut slots = Vec::new();
        self.table.for_each_slot(|slot, namespace| slots.push((slot, namespace)));
        let (slots, namespaces): (Vec<u32>, Vec<i64>) = slots.into_iter().unzip();
        let keys: Vec<Option<u64>> = match self.table.slot_keys(&slots)? {
            SlotKeys::Single(rows) => vec![None; rows],
            SlotKeys::Fixed(keys) => {
                keys.as_primitive::<Int64Type>().iter().map(|key| key.map(i64::cast_unsigned)).collect()
            }
            SlotKeys::Bytes(keys) => keys
                .into_iter()
                .map(|key| (key[1] == 0).then(|| u64::from_le_bytes(key[8..16].try_into().unwrap_or_default())))
                .collect(),
        };
        let numbers = self.table.column(self.numbers)?;
        let of_slot = |((slot, namespace), key): ((&u32, i64), _)| ((key, namespace), *numbers.get(*slot));
        let all: BTreeMap<_, _> = slots.iter().zip(namespaces).zip(keys).map(of_slot).collect();
        assert_eq!(all.len(), slots.len());
        Ok(all)
    }
}

/// What the steps of a namespaced table come to, compared with a map, at every snapshot on a restored table too.
fn follow(layout: &KeyLayout, steps: &[(Option<u64>, i64, i64)], batch_rows: usize) -> Result<(), Failure> {
    let two = |first, last| KeyGroups { max_parallelism: 8, first, last };
    let mut spaces = Spaces::new(layout.clone(), KeyGroups::all(8));
    let mut model: BTreeMap<(Option<u64>, i64), i64> = BTreeMap::new();
    let encoder = KeyEncoder::try_new(&[LogicalType { kind: TypeKind::BigInt, nullable: true }]);
    let encoder = encoder.map_err(|reason| reason.to_string())?;
    let single = *layout == KeyLayout::Single;
    for batch in steps.chunks(batch_rows) {
        let key = |step: &(Option<u64>, i64, i64)| if single { None } else { step.0 };
        let column: ArrayRef = Arc::new(batch.iter().map(|s| key(s).map(u64::cast_signed)).collect::<Int64Array>());
        let namespaces: Vec<i64> = batch.iter().map(|step| step.1).collect();
        let (mut bits, mut rows) = (Vec::new(), KeyRows::new());
        let keys = match layout {
            KeyLayout::Single => BatchKeys::Single(batch.len()),
            KeyLayout::Fixed(..) => {
                fixed_key_bits(&column, &mut bits);
                BatchKeys::Fixed(&bits, column.nulls())
            }
            KeyLayout::Bytes(_) => {
                encoder.encode(std::slice::from_ref(&column), batch.len(), &mut rows)?;
                BatchKeys::Bytes(&rows)
            }
        };
        spaces.table.load_in(keys, &namespaces, &mut spaces.touched)?;
        let numbers = spaces.table.column(spaces.numbers)?;
        for (step, group) in batch.iter().zip(&spaces.touched.groups) {
            let slot = spaces.touched.slots[*group as usize];
            let next = numbers.get(slot).wrapping_add(step.2);
            numbers.set(slot, next);
            *model.entry((key(step), step.1)).or_default() = next;
        }
        let (mut found, at) = (Vec::new(), [batch.len() as u32 - 1]);
        spaces.table.find_in(keys, &namespaces, &at, &mut found)?;
        assert_eq!(found, [spaces.touched.groups.last().map(|group| spaces.touched.slots[*group as usize])]);
        // every other key goes again
        for slot in spaces.touched.slots.clone().into_iter().step_by(2) {
            let namespace = spaces.table.namespace(slot);
            let of_slot =
                |((key, of), _): &((Option<u64>, i64), i64)| *of == namespace && Some(*key) == key_of(&spaces, slot);
            let removed = model.iter().map(|(key, number)| (*key, *number)).find(of_slot);
            spaces.table.remove(slot)?;
            model.remove(&removed.ok_or("a slot that the model does not have")?.0);
        }
        assert_eq!(spaces.all()?, model);
        let snapshot = spaces.table.snapshot();
        let mut halves = [Spaces::new(layout.clone(), two(0, 3)), Spaces::new(layout.clone(), two(4, 7))];
        for sections in sections(snapshot.as_ref())? {
            halves[usize::from(sections.key_group.0 > 3)].table.restore(&sections)?;
        }
        let mut restored = BTreeMap::new();
        for half in &mut halves {
            restored.extend(half.all()?);
        }
        assert_eq!(restored, model);
    }
    Ok(())
}

/// The key of a slot.
fn key_of(spaces: &Spaces, slot: u32) -> Option<Option<u64>> {
    match spaces.table.slot_keys(&[slot]).ok()? {
        SlotKeys::Single(_) => Some(None),
        SlotKeys::Fixed(keys) => {
            let keys = keys.as_primitive::<Int64Type>();
            Some(keys.is_valid(0).then(|| keys.value(0).cast_unsigned()))
        }
        SlotKeys::Bytes(keys) => {
            let key = keys.first()?;
            Some((key[1] == 0).then(|| u64::from_le_bytes(key[8..16].try_into().unwrap_or_default())))
        }
    }
}

proptest! {
    #[test]
    fn a_key_has_a_slot_of_its_own_in_each_namespace(
        steps in prop::collection::vec((prop::option::of(0_u64..6), -3_i64..3, any::<i64>()), 1..60),
        batch_rows in 1_usize..20,
    ) {
        for layout in [
            KeyLayout::Single,
            KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned()),
            KeyLayout::Bytes("BIGINT".to_owned()),
        ] {
            follow(&layout, &steps, batch_rows).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
    }
}

#[test]
fn a_table_with_namespaces_refuses_keys_without_one_and_the_other_way_round() -> Result<(), Failure> {
    let mut spaces = Spaces::new(KeyLayout::Single, KeyGroups::all(1));
    let mut touched = Touched::default();
    assert_eq!(spaces.table.load(BatchKeys::Single(1), &mut touched), Err(StateError::Unregistered));
    assert_eq!(spaces.table.load_in(BatchKeys::Single(2), &[1], &mut touched), Err(StateError::Unregistered));
    let mut numbers = Numbers::new(1);
    let keys = BatchKeys::Fixed(&[1], None);
    assert_eq!(numbers.table.load_in(keys, &[1], &mut touched), Err(StateError::Unregistered));
    Ok(())
}
