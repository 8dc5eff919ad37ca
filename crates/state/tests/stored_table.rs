//! Tables that are kept in a database: whatever leaves memory when, they hold what a table in memory would.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use proptest::prelude::*;
use streamfusion_row::KeyGroup;
use streamfusion_state::canonical::{FormatVersion, Sections};
use streamfusion_state::codec::{Nullable, Required};
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{
    BatchKeys, ColumnId, Entries, EntriesId, Identity, KeyGroups, KeyLayout, KeyedTable, MapCodec, MapHash, MapTable,
    PackedRows, RowEntriesId, RowLayout, RowsId, StateClock, StateContext, StateError, StateSnapshot, StateTtl, Store,
    StoreError, Touched, mix,
};

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

type Text = Option<Arc<[u8]>>;

/// Everything that a table can keep under a key: numbers, a text, a row, a map and several rows.
struct Everything {
    table: KeyedTable,
    sum: ColumnId<i64>,
    text: ColumnId<Text>,
    row: RowsId,
    map: EntriesId<MapTable<i64, i64, Longs>>,
    rows: RowEntriesId<i64>,
    touched: Touched,
    packed: PackedRows,
    namespaced: bool,
}

/// What lies under a key.
#[derive(Debug, Clone, Default, PartialEq)]
struct Under {
    sum: i64,
    text: Option<String>,
    row: Option<(i64, String)>,
    map: BTreeMap<i64, i64>,
    rows: Vec<(i64, i64)>,
}

/// One write.
#[derive(Debug, Clone)]
struct Step {
    key: Option<u64>,
    namespace: i64,
    value: i64,
    kind: u8,
}

type Model = BTreeMap<(Option<u64>, i64), Under>;

fn context(key_groups: KeyGroups, clock: &StateClock) -> StateContext {
    StateContext { key_groups, clock: clock.clone() }
}

impl Everything {
    fn new(key_groups: KeyGroups, namespaced: bool, ttl: Option<StateTtl>, clock: &StateClock) -> Self {
        let layout = KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned());
        let context = context(key_groups, clock);
        let mut table = if namespaced {
            KeyedTable::namespaced("everything", layout, ttl, &context)
        } else {
            KeyedTable::new("everything", layout, ttl, &context)
        };
        let long = || DataType::Int64;
        let types = || RowLayout::try_new(&[DataType::Int64, DataType::Utf8]).unwrap();
        let words = || vec!["BIGINT".to_owned(), "STRING".to_owned()];
        let sum = table.add_column("sum", None, Required::new("", long()), 0);
        let text = table.add_column("text", Some("MAX(STRING)".to_owned()), Nullable::new("", DataType::Utf8), None);
        let row = table.add_rows("row", words(), types());
        let codec = MapCodec { key: Required::new("key", long()), value: Required::new("value", long()) };
        let map = MapTable::new(table.key_groups(), (0, 0), 0);
        let map = table.add_entries("map", None, codec, map);
        let identity = Identity::WholeRow;
        let rows = table.add_row_entries("rows", words(), types(), identity, Required::new("", long()), 0).unwrap();
        Self {
            table,
            sum,
            text,
            row,
            map,
            rows,
            touched: Touched::default(),
            packed: PackedRows::default(),
            namespaced,
        }
    }

    fn load(&mut self, steps: &[Step]) -> Result<(), StateError> {
        let bits: Vec<u64> = steps.iter().map(|step| step.key.unwrap_or_default()).collect();
        let nulls: NullBuffer = steps.iter().map(|step| step.key.is_some()).collect::<Vec<_>>().into();
        let keys = BatchKeys::Fixed(&bits, Some(&nulls));
        if self.namespaced {
            let namespaces: Vec<i64> = steps.iter().map(|step| step.namespace).collect();
            self.table.load_in(keys, &namespaces, &mut self.touched)
        } else {
            self.table.load(keys, &mut self.touched)
        }
    }

    /// Does the steps here and in the model.
    fn write(&mut self, steps: &[Step], model: &mut Model) -> Result<(), StateError> {
        self.load(steps)?;
        let values: ArrayRef = Arc::new(steps.iter().map(|step| Some(step.value)).collect::<Int64Array>());
        let texts: ArrayRef = Arc::new(steps.iter().map(|step| Some(text(step.value))).collect::<StringArray>());
        let columns = [values, texts];
        let numbers: Vec<u32> = (0..).take(steps.len()).collect();
        let (rows, _) = self.table.row_entries(self.rows)?;
        rows.pack(&columns, &numbers, &mut self.packed)?;
        for (number, step) in steps.iter().enumerate() {
            let slot = self.touched.slots[self.touched.groups[number] as usize];
            let under = model.entry((step.key, if self.namespaced { step.namespace } else { 0 })).or_default();
            match step.kind {
                0 => {
                    let sums = self.table.column(self.sum)?;
                    under.sum = sums.get(slot).wrapping_add(step.value);
                    sums.set(slot, under.sum);
                }
                1 => {
                    under.text = (step.value % 3 != 0).then(|| text(step.value));
                    let value = under.text.as_ref().map(|text| Arc::from(text.as_bytes()));
                    self.table.column(self.text)?.set(slot, value);
                }
                2 | 3 => {
                    let row = number as u32;
                    self.table.rows(self.row)?.store(&columns, &[row], &[slot])?;
                    under.row = Some((step.value, text(step.value)));
                }
                4 | 5 => {
                    let entry = step.value % 4;
                    let (map, slots) = self.table.entries(self.map)?;
                    let position =
                        map.find_or_add(slots, slot, Longs::hash(&entry), |other| *other == entry, || entry)?;
                    *map.value_mut(position) += 1;
                    *under.map.entry(entry).or_default() += 1;
                }
                _ => {
                    let (rows, slots) = self.table.row_entries(self.rows)?;
                    match rows.find(slot, &self.packed, number) {
                        Some(position) => *rows.value_mut(position) += 1,
                        None => drop(rows.append(slots, slot, &self.packed, number, 1)?),
                    }
                    match under.rows.iter_mut().find(|(value, _)| *value == step.value) {
                        Some((_, count)) => *count += 1,
                        None => under.rows.push((step.value, 1)),
                    }
                }
            }
        }
        // a key has a row from the first time on
        for (number, step) in steps.iter().enumerate() {
            let slot = self.touched.slots[self.touched.groups[number] as usize];
            if !self.table.rows(self.row)?.has(slot) {
                self.table.rows(self.row)?.store(&columns, &[number as u32], &[slot])?;
                let under = model.entry((step.key, if self.namespaced { step.namespace } else { 0 })).or_default();
                under.row = Some((step.value, text(step.value)));
            }
        }
        self.table.commit(&self.touched.slots);
        Ok(())
    }

    fn remove(&mut self, steps: &[Step], model: &mut Model) -> Result<(), StateError> {
        self.load(steps)?;
        for slot in self.touched.slots.clone() {
            self.table.remove(slot)?;
        }
        for step in steps {
            model.remove(&(step.key, if self.namespaced { step.namespace } else { 0 }));
        }
        Ok(())
    }
}

/// Short and long ones.
fn text(value: i64) -> String {
    format!("{value:>width$}", width = value.unsigned_abs() as usize % 20)
}

/// All sections of all key groups, comparable.
fn sections(snapshot: &dyn StateSnapshot) -> BTreeMap<(u16, String), Vec<String>> {
    let mut all = BTreeMap::new();
    for group in snapshot.key_groups() {
        let sections = snapshot.sections(group).unwrap();
        let bytes: usize = sections.iter().flat_map(|s| s.batches()).map(|b| b.num_columns() * b.num_rows()).sum();
        assert!(snapshot.bytes_bound(group) >= bytes);
        for section in sections {
            all.insert((group.0, section.name().to_owned()), vec![section.num_rows().to_string()]);
        }
    }
    all
}

/// Puts what a snapshot has into a new table in memory, of these key groups, and reads it back.
fn restored(
    snapshot: &dyn StateSnapshot,
    namespaced: bool,
    ttl: Option<StateTtl>,
    clock: &StateClock,
) -> Result<Everything, StateError> {
    let mut table = Everything::new(KeyGroups::all(8), namespaced, ttl, clock);
    for key_group in snapshot.key_groups() {
        let sections = Sections {
            key_group,
            format_version: FormatVersion::Asynchronous,
            processing_time_deadline: None,
            sections: snapshot.sections(key_group).unwrap(),
        };
        table.table.restore(&sections).unwrap();
    }
    Ok(table)
}

/// What lies under every key of the model, as the table has it.
fn read(of: &mut Everything, model: &Model) -> Model {
    let steps: Vec<Step> =
        model.keys().map(|(key, namespace)| Step { key: *key, namespace: *namespace, value: 0, kind: 0 }).collect();
    of.load(&steps).unwrap();
    let mut found = Model::new();
    for ((key, namespace), group) in model.keys().zip(&of.touched.groups) {
        let slot = of.touched.slots[*group as usize];
        let sum = *of.table.column(of.sum).unwrap().get(slot);
        let text = of.table.column(of.text).unwrap().get(slot).clone();
        let text = text.map(|text| String::from_utf8(text.to_vec()).unwrap());
        let rows = of.table.rows(of.row).unwrap();
        let row = rows.has(slot).then(|| pair(&rows.gather(&[slot]).unwrap(), 0));
        let (map, slots) = of.table.entries(of.map).unwrap();
        let mut entries = BTreeMap::new();
        for entry in -3..4 {
            let before = map.len();
            let position =
                map.find_or_add(slots, slot, Longs::hash(&entry), |other| *other == entry, || entry).unwrap();
            let value = *map.value(position);
            if map.len() > before {
                map.remove(position);
            } else {
                entries.insert(entry, value);
            }
        }
        let (rows, _) = of.table.row_entries(of.rows).unwrap();
        let positions: Vec<u32> = rows.walk(slot).collect();
        let columns = rows.gather(&positions).unwrap();
        let values = (0..positions.len()).map(|at| (pair(&columns, at).0, *rows.value(positions[at])));
        found.insert((*key, *namespace), Under { sum, text, row, map: entries, rows: values.collect() });
    }
    found
}

fn pair(columns: &[ArrayRef], row: usize) -> (i64, String) {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    (columns[0].as_primitive::<Int64Type>().value(row), columns[1].as_string::<i32>().value(row).to_owned())
}

fn step() -> impl Strategy<Value = Step> {
    (prop::option::weighted(0.9, 0_u64..12), -1_i64..2, -40_i64..40, 0_u8..8)
        .prop_map(|(key, namespace, value, kind)| Step { key, namespace, value, kind })
}

/// What happens between batches.
#[derive(Debug, Clone, Copy)]
enum Event {
    Nothing,
    WriteBack,
    Evict,
    Remove,
    /// Another subtask, or the same after a failure, goes on with the database.
    Reopen,
    Snapshot,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::Nothing),
        1 => Just(Event::WriteBack),
        4 => Just(Event::Evict),
        2 => Just(Event::Remove),
        2 => Just(Event::Reopen),
        1 => Just(Event::Snapshot),
    ]
}

fn store(database: &TestDatabase, resident: bool) -> Store {
    Store { database: database.open().clone(), operator_id: "op/everything".to_owned(), resident }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_stored_table_holds_what_was_written_whatever_left_memory(
        batches in prop::collection::vec((prop::collection::vec(step(), 1..12), event()), 1..16),
        namespaced in any::<bool>(),
        resident in any::<bool>(),
        with_ttl in any::<bool>(),
    ) {
        let clock = StateClock::fixed(0);
        let ttl = StateTtl::of_millis(if with_ttl { 1_000_000 } else { 0 });
        let database = TestDatabase::new();
        let open = |groups| {
            let mut table = Everything::new(groups, namespaced, ttl, &clock);
            table.table.attach(&store(&database, resident), 0).unwrap();
            table
        };
        let mut table = open(KeyGroups::all(8));
        let mut model = Model::new();
        for (number, (steps, event)) in batches.iter().enumerate() {
            clock.set(number as i64);
            table.write(steps, &mut model).unwrap();
            match event {
                Event::Nothing => {}
                Event::WriteBack => table.table.write_back().unwrap(),
                Event::Evict => {
                    let before = table.table.len();
                    table.table.evict().unwrap();
                    // what the last batch has touched stays
                    let touched = table.touched.slots.len();
                    prop_assert!(resident || table.table.len() == touched.max(before / 2));
                }
                Event::Remove => table.remove(&steps[..steps.len().div_ceil(2)], &mut model).unwrap(),
                Event::Reopen => {
                    table.table.write_back().unwrap();
                    table = open(KeyGroups::all(8));
                }
                Event::Snapshot => {
                    let snapshot = table.table.snapshot();
                    let mut other = restored(snapshot.as_ref(), namespaced, ttl, &clock).unwrap();
                    prop_assert_eq!(read(&mut other, &model), model.clone());
                    prop_assert_eq!(sections(snapshot.as_ref()), sections(other.table.snapshot().as_ref()));
                }
            }
        }
        prop_assert_eq!(read(&mut table, &model), model.clone());
        // split in two, as with another parallelism
        table.table.write_back().unwrap();
        drop(table);
        let mut seen = 0;
        for (first, last) in [(0, 2), (3, 7)] {
            let mut half = open(KeyGroups { max_parallelism: 8, first, last });
            let own: Model = model
                .iter()
                .filter(|((key, _), _)| (first..=last).contains(&group(*key)))
                .map(|(key, under)| (*key, under.clone()))
                .collect();
            seen += own.len();
            prop_assert_eq!(read(&mut half, &own), own);
        }
        prop_assert_eq!(seen, model.len());
    }
}

fn group(key: Option<u64>) -> u16 {
    use streamfusion_plan::types::{LogicalType, TypeKind};
    use streamfusion_row::binary::{KeyEncoder, KeyRows};
    let encoder = KeyEncoder::try_new(&[LogicalType { kind: TypeKind::BigInt, nullable: true }]).unwrap();
    let column: ArrayRef = Arc::new(Int64Array::from(vec![key.map(u64::cast_signed)]));
    let hashes = encoder.hashes(&[column], 1, &mut KeyRows::new()).unwrap();
    let groups: Vec<KeyGroup> = hashes.key_groups(8).collect();
    groups[0].0
}

fn one(value: i64) -> Vec<Step> {
    vec![Step { key: Some(1), namespace: 0, value, kind: 0 }]
}

#[test]
fn state_of_another_operator_or_of_other_columns_is_refused_before_it_is_read() {
    let (database, clock) = (TestDatabase::new(), StateClock::fixed(0));
    let all = KeyGroups::all(8);
    let mut table = Everything::new(all, false, None, &clock);
    table.table.attach(&store(&database, false), 0).unwrap();
    table.write(&one(3), &mut Model::new()).unwrap();
    table.table.write_back().unwrap();
    let refused = |mut other: Everything, store: &Store| match other.table.attach(store, 0) {
        Err(StateError::Store(error)) => *error,
        other => panic!("{other:?}"),
    };
    let other_operator = Store { operator_id: "other/everything".to_owned(), ..store(&database, false) };
    let error = refused(Everything::new(all, false, None, &clock), &other_operator);
    assert!(matches!(&error, StoreError::Version { found, .. } if found.contains("`op/everything`")), "{error}");
    for other in [Everything::new(all, true, None, &clock), Everything::new(all, false, StateTtl::of_millis(5), &clock)]
    {
        let error = refused(other, &store(&database, false));
        assert!(matches!(error, StoreError::Version { .. }), "{error}");
    }
    // key groups without state do not mind
    let group = group(Some(1));
    let elsewhere = KeyGroups { max_parallelism: 8, first: (group + 1) % 8, last: (group + 1) % 8 };
    Everything::new(elsewhere, true, None, &clock).table.attach(&store(&database, false), 0).unwrap();
}

#[test]
fn entries_that_are_no_values_are_an_error_that_names_the_key_group() {
    let clock = StateClock::fixed(0);
    for damage in [vec![], vec![1, 2, 3], vec![255; 40], vec![0; 12]] {
        let database = TestDatabase::new();
        let mut table = Everything::new(KeyGroups::all(8), false, None, &clock);
        table.table.attach(&store(&database, false), 0).unwrap();
        table.write(&one(3), &mut Model::new()).unwrap();
        table.table.write_back().unwrap();
        let group = group(Some(1));
        let mut key = None;
        let mut cursor = database.open().cursor(&[u8::try_from(group).unwrap(), 1]);
        while let Some((found, _)) = cursor.next().unwrap() {
            key = Some(found.to_vec());
        }
        let mut batch = database.open().batch();
        batch.put(&key.unwrap(), &damage);
        database.open().write(&mut batch).unwrap();
        let mut table = Everything::new(KeyGroups::all(8), false, None, &clock);
        table.table.attach(&store(&database, false), 0).unwrap();
        let error = table.load(&one(0)).unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("an entry of key group {group} in the database is damaged")),
            "{error}"
        );
        let mut table = Everything::new(KeyGroups::all(8), false, None, &clock);
        let error = table.table.attach(&store(&database, true), 0).unwrap_err();
        assert!(error.to_string().contains("is damaged"), "{error}");
        let mut table = Everything::new(KeyGroups::all(8), false, None, &clock);
        table.table.attach(&store(&database, false), 0).unwrap();
        assert!(table.table.snapshot().sections(KeyGroup(group)).is_err());
    }
}

/// Puts a value under the key of [`one`] that is none, so that whoever reads it fails.
fn put_damage(database: &TestDatabase) {
    let mut key = vec![u8::try_from(group(Some(1))).unwrap(), 1, 1];
    key.extend(1_u64.to_be_bytes());
    let mut batch = database.open().batch();
    batch.put(&key, &[]);
    database.open().write(&mut batch).unwrap();
}

#[test]
fn a_database_that_has_nothing_beyond_memory_is_not_asked_for_keys() {
    let clock = StateClock::fixed(0);
    let same_group = (2..).find(|key| group(Some(*key)) == group(Some(1))).unwrap();
    let other_group = (2..).find(|key| group(Some(*key)) != group(Some(1))).unwrap();
    for (leaving, asked) in [(None, false), (Some(other_group), false), (Some(same_group), true)] {
        let database = TestDatabase::new();
        let mut table = Everything::new(KeyGroups::all(8), false, None, &clock);
        table.table.attach(&store(&database, false), 0).unwrap();
        for key in leaving.into_iter().chain([other_group + same_group]) {
            table.write(&[Step { key: Some(key), namespace: 0, value: 3, kind: 0 }], &mut Model::new()).unwrap();
        }
        table.table.evict().unwrap();
        put_damage(&database);
        assert_eq!(table.load(&one(0)).is_err(), asked, "{leaving:?}");
    }
}

#[test]
fn memory_stays_where_it_is_while_keys_come_and_go() {
    let (database, clock) = (TestDatabase::new(), StateClock::fixed(0));
    let mut table = Everything::new(KeyGroups::all(8), false, None, &clock);
    table.table.attach(&store(&database, false), 0).unwrap();
    let mut bytes = Vec::new();
    for round in 0..20_u64 {
        let steps: Vec<Step> = (0..2000)
            .map(|key| Step { key: Some(round * 2000 + key), namespace: 0, value: key as i64, kind: 0 })
            .collect();
        table.write(&steps, &mut Model::new()).unwrap();
        table.table.evict().unwrap();
        bytes.push(table.table.bytes());
    }
    assert!(table.table.len() <= 4000, "{}", table.table.len());
    assert!(bytes[19] < 2 * bytes[3], "{bytes:?}");
    let old = Step { key: Some(7), namespace: 0, value: 0, kind: 0 };
    table.load(&[old]).unwrap();
    assert_eq!(*table.table.column(table.sum).unwrap().get(table.touched.slots[0]), 7);
}

#[test]
fn an_expired_key_in_the_database_is_absent() {
    let (database, clock) = (TestDatabase::new(), StateClock::fixed(0));
    let mut table = Everything::new(KeyGroups::all(8), false, StateTtl::of_millis(10), &clock);
    table.table.attach(&store(&database, false), 0).unwrap();
    table.write(&one(5), &mut Model::new()).unwrap();
    let snapshot = table.table.snapshot();
    assert_eq!(snapshot.deadline(KeyGroup(group(Some(1)))), Some(10));
    drop(snapshot);
    let other = Step { key: Some(2), namespace: 0, value: 0, kind: 0 };
    table.write(&[other], &mut Model::new()).unwrap();
    table.table.evict().unwrap();
    assert_eq!(table.table.len(), 1);
    for (now, sum) in [(9, 5), (10, 0)] {
        clock.set(now);
        table.load(&one(0)).unwrap();
        assert_eq!(*table.table.column(table.sum).unwrap().get(table.touched.slots[0]), sum, "at {now}");
    }
}

#[test]
fn a_savepoint_that_is_restored_into_a_database_stays_there() {
    let (database, clock) = (TestDatabase::new(), StateClock::fixed(0));
    let mut memory = Everything::new(KeyGroups::all(8), true, None, &clock);
    let mut model = Model::new();
    let steps: Vec<Step> = (0..100)
        .map(|n| Step {
            key: (n % 7 != 0).then_some(n % 20),
            namespace: (n % 3) as i64,
            value: n as i64,
            kind: (n % 8) as u8,
        })
        .collect();
    memory.write(&steps, &mut model).unwrap();
    let snapshot = memory.table.snapshot();
    let mut table = Everything::new(KeyGroups::all(8), true, None, &clock);
    table.table.attach(&store(&database, false), 0).unwrap();
    for key_group in snapshot.key_groups() {
        let sections = Sections {
            key_group,
            format_version: FormatVersion::Asynchronous,
            processing_time_deadline: None,
            sections: snapshot.sections(key_group).unwrap(),
        };
        table.table.restore(&sections).unwrap();
        table.table.evict().unwrap();
    }
    assert_eq!(read(&mut table, &model), model);
    table.table.write_back().unwrap();
    let mut again = Everything::new(KeyGroups::all(8), true, None, &clock);
    again.table.attach(&store(&database, false), 0).unwrap();
    assert_eq!(read(&mut again, &model), model);
}
