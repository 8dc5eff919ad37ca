use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field};
use proptest::prelude::*;
use streamfusion_row::KeyGroup;

use super::*;
use crate::canonical::{FormatVersion, Section, Sections};
use crate::codec::Required;
use crate::{BatchKeys, KeyLayout, KeyedTable, RestoreError, StateClock, StateContext, StateSnapshot, Touched};

type Failure = Box<dyn std::error::Error>;

/// A number, a text and a ROW of both.
type Sample = (Option<i64>, Option<&'static str>, Option<(i32, Option<&'static str>)>);

fn sample() -> impl Strategy<Value = Sample> {
    let text = || prop::option::of(prop::sample::select(vec!["", "a", "b", "a text that is longer than others"]));
    (prop::option::of(0_i64..3), text(), prop::option::of((0..2, text())))
}

fn columns(samples: &[Sample]) -> Result<Vec<ArrayRef>, Failure> {
    let inner: Vec<ArrayRef> = vec![
        Arc::new(samples.iter().map(|s| s.2.map(|row| row.0)).collect::<Int32Array>()),
        Arc::new(samples.iter().map(|s| s.2.and_then(|row| row.1)).collect::<StringArray>()),
    ];
    let fields = vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Utf8, true)];
    let nulls = NullBuffer::from(samples.iter().map(|s| s.2.is_some()).collect::<Vec<_>>());
    Ok(vec![
        Arc::new(samples.iter().map(|s| s.0).collect::<Int64Array>()),
        Arc::new(samples.iter().map(|s| s.1).collect::<StringArray>()),
        Arc::new(StructArray::try_new(fields.into(), inner, Some(nulls))?),
    ])
}

fn numbers(count: usize) -> Vec<u32> {
    (0..).take(count).collect()
}

/// A table with the rows of each key, each with a number beside it.
struct Table {
    table: KeyedTable,
    rows: RowEntriesId<i64>,
    touched: Touched,
    packed: PackedRows,
}

impl Table {
    fn new(identity: Identity, groups: KeyGroups, clock: &StateClock, ttl: i64) -> Result<Self, Failure> {
        let context = StateContext { key_groups: groups, clock: clock.clone() };
        let layout = KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned());
        let mut table = KeyedTable::new("keys", layout, StateTtl::of_millis(ttl), &context);
        let types: Vec<DataType> = columns(&[])?.iter().map(|column| column.data_type().clone()).collect();
        let definitions = ["BIGINT", "VARCHAR", "ROW"].map(str::to_owned).to_vec();
        let codec = Required::new("count", DataType::Int64);
        let rows = table.add_row_entries("rows", definitions, RowLayout::try_new(&types)?, identity, codec, 0)?;
        Ok(Self { table, rows, touched: Touched::default(), packed: PackedRows::default() })
    }

    fn slot(&mut self, key: u64) -> Result<u32, Failure> {
        self.table.load(BatchKeys::Fixed(&[key], None), &mut self.touched)?;
        Ok(self.touched.slots[0])
    }

    /// The rows of a key in order, with the numbers beside them.
    fn read(&mut self, key: u64) -> Result<(Vec<ArrayRef>, Vec<i64>), Failure> {
        let slot = self.slot(key)?;
        let (rows, _) = self.table.row_entries(self.rows)?;
        let positions: Vec<u32> = rows.walk(slot).collect();
        let mut back: Vec<u32> = std::iter::successors(rows.last(slot), |at| rows.previous(*at)).collect();
        back.retain(|position| !rows.expired(*position));
        back.reverse();
        assert_eq!(back, positions, "the list is the same from both ends");
        assert!(positions.iter().all(|position| rows.slot(*position) == slot));
        Ok((rows.gather(&positions)?, positions.iter().map(|position| *rows.value(*position)).collect()))
    }

    fn restored(
        &mut self,
        identity: &Identity,
        clock: &StateClock,
        ttl: i64,
        parts: u16,
    ) -> Result<Vec<Self>, Failure> {
        let snapshot = self.table.snapshot();
        let last = self.table.key_groups().last;
        let size = (last + 1) / parts;
        let part = |part: u16| -> Result<Self, Failure> {
            let groups = KeyGroups { max_parallelism: 8, first: part * size, last: (part + 1) * size - 1 };
            let mut table = Self::new(identity.clone(), groups, clock, ttl)?;
            for sections in sections(snapshot.as_ref())? {
                if groups.contains(sections.key_group) {
                    table.table.restore(&sections)?;
                }
            }
            Ok(table)
        };
        (0..parts).map(part).collect()
    }
}

fn sections(snapshot: &dyn StateSnapshot) -> Result<Vec<Sections>, Failure> {
    let of_group =
        |key_group: KeyGroup| -> Result<Sections, Failure> { Ok(of_group(key_group, snapshot.sections(key_group)?)) };
    snapshot.key_groups().into_iter().map(of_group).collect()
}

fn of_group(key_group: KeyGroup, sections: Vec<Section>) -> Sections {
    Sections { key_group, format_version: FormatVersion::Asynchronous, processing_time_deadline: None, sections }
}

/// What the identity looks at.
fn identity_of(identity: &Identity, sample: &Sample) -> Option<String> {
    match identity {
        Identity::None => None,
        Identity::WholeRow => Some(format!("{sample:?}")),
        Identity::Columns(_) => Some(format!("{:?}", (sample.2, sample.0))),
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Adds a row behind the others, or in front of one of them, or counts it up if it is there.
    Add(u64, prop::sample::Index, Option<prop::sample::Index>),
    Replace(u64, prop::sample::Index),
    Remove(u64, prop::sample::Index),
    Clear(u64),
    RemoveKey(u64),
    Snapshot,
    /// Restores a snapshot of this moment, or goes on with the oldest one that was taken.
    Restore,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (key, index) = (|| 0_u64..6, any::<prop::sample::Index>);
    let step = prop_oneof![
        30 => (key(), index(), prop::option::weighted(0.3, index())).prop_map(|(key, row, at)| Step::Add(key, row, at)),
        4 => (key(), index()).prop_map(|(key, row)| Step::Replace(key, row)),
        8 => (key(), index()).prop_map(|(key, row)| Step::Remove(key, row)),
        1 => key().prop_map(Step::Clear),
        1 => key().prop_map(Step::RemoveKey),
        2 => Just(Step::Snapshot),
        1 => Just(Step::Restore),
    ];
    prop::collection::vec(step, 0..250)
}

/// Per key: its rows in order, by their number among the samples, with the numbers beside them.
type Model = BTreeMap<u64, Vec<(usize, i64)>>;

fn check(table: &mut Table, model: &Model, all: &[ArrayRef]) -> Result<(), Failure> {
    for key in 0..6 {
        let (found, counts) = table.read(key)?;
        let expected = model.get(&key).cloned().unwrap_or_default();
        let rows = UInt32Array::from_iter_values(expected.iter().map(|row| row.0 as u32));
        for (found, column) in found.iter().zip(all) {
            assert_eq!(found, &arrow::compute::take(column, &rows, None)?);
        }
        assert_eq!(counts, expected.iter().map(|row| row.1).collect::<Vec<_>>());
    }
    Ok(())
}

fn restored(snapshot: &dyn StateSnapshot, identity: &Identity) -> Result<Table, Failure> {
    let mut table = Table::new(identity.clone(), KeyGroups::all(8), &StateClock::fixed(0), 0)?;
    for sections in sections(snapshot)? {
        assert!(snapshot.bytes_bound(sections.key_group) > 0);
        table.table.restore(&sections)?;
    }
    Ok(table)
}

fn run(identity: &Identity, samples: &[Sample], steps: &[Step]) -> Result<(), Failure> {
    let all = columns(samples)?;
    let mut table = Table::new(identity.clone(), KeyGroups::all(8), &StateClock::fixed(0), 0)?;
    let (mut model, mut held) = (Model::new(), Vec::new());
    for step in steps {
        let (key, row) = match step {
            Step::Add(key, row, _) | Step::Replace(key, row) | Step::Remove(key, row) => {
                (*key, row.index(samples.len()))
            }
            Step::Clear(key) | Step::RemoveKey(key) => (*key, 0),
            Step::Snapshot => {
                held.push((table.table.snapshot(), model.clone()));
                continue;
            }
            Step::Restore => {
                let (snapshot, then) = match held.len() {
                    0 => (table.table.snapshot(), model.clone()),
                    _ => held.remove(0),
                };
                table = restored(snapshot.as_ref(), identity)?;
                model = then;
                held.clear();
                continue;
            }
        };
        let slot = table.slot(key)?;
        let (rows, slots) = table.table.row_entries(table.rows)?;
        // the rows of a batch are given in any order
        rows.pack(&all, &[0, row as u32], &mut table.packed)?;
        let expected = model.entry(key).or_default();
        let same = |other: &(usize, i64)| {
            let (a, b) = (identity_of(identity, &samples[other.0]), identity_of(identity, &samples[row]));
            a.is_some() && a == b
        };
        let found = rows.find(slot, &table.packed, 1);
        let place = expected.iter().position(same);
        assert_eq!(found, place.and_then(|place| rows.walk(slot).nth(place)));
        // without identity rows are told apart by where they are
        let at = found.zip(place).or_else(|| {
            let place = expected.iter().position(|other| other.0 == row).filter(|_| *identity == Identity::None)?;
            Some((rows.walk(slot).nth(place)?, place))
        });
        match (step, at) {
            (Step::Add(..), Some((at, place))) => {
                *rows.value_mut(at) += 1;
                expected[place].1 += 1;
            }
            (Step::Add(_, _, before), None) => {
                let place = before.map(|before| before.index(expected.len() + 1)).unwrap_or(expected.len());
                let before = rows.walk(slot).nth(place);
                rows.insert(slots, slot, before, &table.packed, 1, row as i64)?;
                expected.insert(place, (row, row as i64));
            }
            (Step::Replace(..), Some((at, place))) => {
                rows.replace(at, &table.packed, 1)?;
                expected[place].0 = row;
                assert_eq!(rows.row(at), table.packed.row(1));
            }
            (Step::Remove(..), Some((at, place))) => {
                let (row, value) = expected.remove(place);
                assert_eq!(rows.detach(at), value);
                assert!(rows.find(slot, &table.packed, 1).is_none() && !rows.walk(slot).any(|other| other == at));
                // until it is released it can be read
                let row = UInt32Array::from(vec![row as u32]);
                assert_eq!(&rows.gather(&[at])?[0], &arrow::compute::take(&all[0], &row, None)?);
                rows.release(at);
            }
            (Step::Clear(_), _) => {
                rows.clear(slot);
                expected.clear();
            }
            (Step::RemoveKey(_), _) => {
                table.table.remove(slot)?;
                model.remove(&key);
            }
            _ => {}
        }
        assert_eq!(table.table.row_entries(table.rows)?.0.len(), model.values().map(Vec::len).sum::<usize>());
    }
    check(&mut table, &model, &all)?;
    held.push((table.table.snapshot(), model.clone()));
    for (snapshot, then) in &held {
        check(&mut restored(snapshot.as_ref(), identity)?, then, &all)?;
    }
    for parts in [1, 2, 4] {
        let mut others = table.restored(identity, &StateClock::fixed(0), 0, parts)?;
        let total: usize = others
            .iter_mut()
            .map(|other| Ok(other.table.row_entries(other.rows)?.0.len()))
            .sum::<Result<_, Failure>>()?;
        assert_eq!(total, model.values().map(Vec::len).sum::<usize>());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn rows_follow_a_list_per_key_over_snapshots_and_restores(
        samples in prop::collection::vec(sample(), 1..24),
        steps in steps(),
        identity in prop::sample::select(vec![Identity::None, Identity::WholeRow, Identity::Columns(vec![2, 0])]),
    ) {
        run(&identity, &samples, &steps).map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

/// A table with these rows under the key 7.
fn with_rows(identity: &Identity, samples: &[Sample], clock: &StateClock, ttl: i64) -> Result<Table, Failure> {
    let mut table = Table::new(identity.clone(), KeyGroups::all(8), clock, ttl)?;
    let slot = table.slot(7)?;
    let (rows, slots) = table.table.row_entries(table.rows)?;
    rows.pack(&columns(samples)?, &numbers(samples.len()), &mut table.packed)?;
    for row in 0..samples.len() {
        rows.append(slots, slot, &table.packed, row, 10 + row as i64)?;
    }
    table.table.commit(&[slot]);
    Ok(table)
}

const A: Sample = (Some(1), Some("a"), None);
const B: Sample = (Some(2), None, Some((1, Some("x"))));
const C: Sample = (None, Some(""), Some((0, None)));

#[test]
fn each_row_lives_from_its_own_last_write() -> Result<(), Failure> {
    let clock = StateClock::fixed(1000);
    let mut table = with_rows(&Identity::WholeRow, &[A, B, C], &clock, 100)?;
    clock.set(1060);
    let slot = table.slot(7)?;
    let (rows, _) = table.table.row_entries(table.rows)?;
    let second = rows.find(slot, &table.packed, 1).ok_or("the second row")?;
    *rows.value_mut(second) += 1;
    table.table.commit(&[slot]);
    let restored = table.restored(&Identity::WholeRow, &clock, 100, 1)?.pop();
    let forgetful = table.restored(&Identity::WholeRow, &clock, 0, 1)?.pop();
    clock.set(1100);
    for table in [&mut table, &mut restored.ok_or("a table")?] {
        assert_eq!(table.read(7)?.1, [12]);
        let slot = table.slot(7)?;
        let (rows, _) = table.table.row_entries(table.rows)?;
        rows.pack(&columns(&[A, B])?, &[0, 1], &mut table.packed)?;
        assert_eq!(rows.find(slot, &table.packed, 0), None);
        assert!(rows.find(slot, &table.packed, 1).is_some());
    }
    assert_eq!(forgetful.ok_or("a table")?.read(7)?.1, [10, 12, 12]);
    clock.set(1160);
    assert!(table.read(7)?.1.is_empty());
    assert_eq!(table.table.row_entries(table.rows)?.0.len(), 0);
    Ok(())
}

#[test]
fn rows_that_were_cleared_with_their_key_can_be_told() -> Result<(), Failure> {
    let clock = StateClock::fixed(0);
    let mut table = with_rows(&Identity::None, &[A, B], &clock, 0)?;
    let slot = table.slot(7)?;
    let clearings =
        |table: &mut Table| -> Result<u32, Failure> { Ok(table.table.row_entries(table.rows)?.0.clearings(slot)) };
    let before = clearings(&mut table)?;
    let first = table.table.row_entries(table.rows)?.0.first(slot).ok_or("no row")?;
    table.table.row_entries(table.rows)?.0.remove(first);
    assert_eq!(clearings(&mut table)?, before, "one row is not all of them");
    table.table.remove(slot)?;
    assert_ne!(clearings(&mut table)?, before);
    Ok(())
}

#[test]
fn bytes_follow_what_is_kept() -> Result<(), Failure> {
    let mut table = with_rows(&Identity::WholeRow, &[], &StateClock::fixed(0), 0)?;
    let text = "x".repeat(1000);
    let mut texts = columns(&[A; 500])?;
    texts[0] = Arc::new(Int64Array::from_iter_values(0..500));
    texts[1] = Arc::new(StringArray::from_iter_values((0..500).map(|_| &text)));
    let slot = table.slot(7)?;
    let before = table.table.bytes();
    let round = |table: &mut Table| -> Result<usize, Failure> {
        let (rows, slots) = table.table.row_entries(table.rows)?;
        rows.pack(&texts, &numbers(500), &mut table.packed)?;
        for row in 0..500 {
            rows.append(slots, slot, &table.packed, row, 0)?;
        }
        let full = table.table.bytes();
        let (rows, _) = table.table.row_entries(table.rows)?;
        rows.clear(slot);
        table.table.load(BatchKeys::Fixed(&[7], None), &mut table.touched)?;
        Ok(full)
    };
    let first = round(&mut table)?;
    assert!(first > before + 500_000, "{first} after {before}");
    for _ in 0..20 {
        assert!(round(&mut table)? < first + 600_000);
    }
    Ok(())
}

/// A section of rows with some columns replaced.
fn damaged(section: &Section, name: &str, column: ArrayRef) -> Result<Section, Failure> {
    let batch = &section.batches()[0];
    let place = batch.schema_ref().index_of(name)?;
    let mut columns = batch.columns().to_vec();
    columns[place] = column;
    let fields: Vec<Field> = batch
        .schema_ref()
        .fields()
        .iter()
        .zip(&columns)
        .map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone()).with_nullable(true))
        .collect();
    let schema = arrow::datatypes::Schema::new_with_metadata(fields, batch.schema_ref().metadata().clone());
    Ok(Section::try_new(section.name(), vec![RecordBatch::try_new(Arc::new(schema), columns)?])?)
}

#[test]
fn damaged_rows_are_refused() -> Result<(), Failure> {
    let clock = StateClock::fixed(0);
    let mut table = with_rows(&Identity::Columns(vec![0]), &[A, B, C], &clock, 0)?;
    let intact = sections(table.table.snapshot().as_ref())?.pop().ok_or("a key group")?;
    let ints = |values: [i64; 3]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let cases: [(&str, ArrayRef, &str); 5] = [
        ("row", Arc::new(UInt32Array::from(vec![0, 0, 1])), "row 2: no key has this number"),
        ("row", Arc::new(UInt32Array::from(vec![Some(0), None, Some(0)])), "row 1: a NULL where there cannot be one"),
        (
            "value.count",
            Arc::new(Int64Array::from(vec![None, Some(1), Some(1)])),
            "row 0: a NULL where there cannot be one",
        ),
        ("field.0", ints([5, 4, 5]), "row 2: a second row like another one"),
        ("field.1", ints([5, 4, 3]), "column `field.1` of section `rows`: Int64 of VARCHAR where Utf8 of VARCHAR"),
    ];
    for (name, column, expected) in cases {
        let rows = damaged(intact.sections.last().ok_or("rows")?, name, column)?;
        let sections = of_group(intact.key_group, vec![intact.sections[0].clone(), rows]);
        let mut other = Table::new(Identity::Columns(vec![0]), KeyGroups::all(8), &clock, 0)?;
        let error = other.table.restore(&sections).map_err(|error: RestoreError| error.to_string());
        assert!(error.as_ref().is_err_and(|error| error.contains(expected)), "{error:?} where {expected}");
    }
    let missing = of_group(intact.key_group, vec![intact.sections[0].clone()]);
    let error = Table::new(Identity::None, KeyGroups::all(8), &clock, 0)?.table.restore(&missing);
    assert!(error.is_err_and(|error| error.to_string().contains("`rows` is missing")));
    Ok(())
}

#[test]
fn section_has_the_rows_in_the_order_of_the_list() -> Result<(), Failure> {
    let mut table = with_rows(&Identity::None, &[C, A, B], &StateClock::fixed(5), 100)?;
    let sections = sections(table.table.snapshot().as_ref())?.pop().ok_or("a key group")?;
    let batch = sections.sections[1].batches()[0].clone();
    let names: Vec<&str> = batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["row", "value.count", "field.0", "field.1", "field.2", "last_write"]);
    assert_eq!(batch.columns()[2..5], columns(&[C, A, B])?);
    Ok(())
}

#[test]
fn identity_has_only_columns_that_rows_have() -> Result<(), Failure> {
    let table = Table::new(Identity::Columns(vec![3]), KeyGroups::all(8), &StateClock::fixed(0), 0);
    assert!(table.is_err_and(|error| error.to_string() == StateError::RowColumns.to_string()));
    Ok(())
}
