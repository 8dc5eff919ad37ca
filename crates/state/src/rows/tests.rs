use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, StringArray, StructArray, UInt32Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field};
use proptest::prelude::*;
use streamfusion_row::KeyGroup;

use super::*;
use crate::canonical::{FormatVersion, Section, Sections};
use crate::{BatchKeys, KeyGroups, KeyLayout, KeyedTable, StateClock, StateContext, Touched};

type Failure = Box<dyn std::error::Error>;

/// One value of each field.
type Sample =
    (Option<bool>, Option<i64>, Option<i16>, Option<String>, Option<f64>, (bool, Option<i32>, Option<Vec<u8>>), i128);

fn sample() -> impl Strategy<Value = Sample> {
    let float = prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), any::<f64>()];
    (
        any::<Option<bool>>(),
        prop::option::weighted(0.9, 0_i64..4),
        any::<Option<i16>>(),
        prop::option::weighted(0.8, "[a-c]{0,3}|.{0,40}"),
        prop::option::of(float),
        (any::<bool>(), prop::option::of(0..2), prop::option::of(prop::collection::vec(any::<u8>(), 0..5))),
        -1_000_i128..1_000,
    )
}

fn columns(samples: &[Sample]) -> Result<Vec<ArrayRef>, Failure> {
    let inner: Vec<ArrayRef> = vec![
        Arc::new(samples.iter().map(|s| s.5.1).collect::<Int32Array>()),
        Arc::new(samples.iter().map(|s| s.5.2.as_deref()).collect::<BinaryArray>()),
    ];
    let fields = vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Binary, true)];
    let nulls = NullBuffer::from(samples.iter().map(|s| s.5.0).collect::<Vec<_>>());
    let decimals = Decimal128Array::from_iter_values(samples.iter().map(|s| s.6)).with_precision_and_scale(20, 2)?;
    Ok(vec![
        Arc::new(samples.iter().map(|s| s.0).collect::<BooleanArray>()),
        Arc::new(samples.iter().map(|s| s.1).collect::<Int64Array>()),
        Arc::new(samples.iter().map(|s| s.2).collect::<Int16Array>()),
        Arc::new(samples.iter().map(|s| s.3.as_deref()).collect::<StringArray>()),
        Arc::new(samples.iter().map(|s| s.4).collect::<Float64Array>()),
        Arc::new(StructArray::try_new(fields.into(), inner, Some(nulls))?),
        Arc::new(decimals),
    ])
}

fn layout(columns: &[ArrayRef]) -> Result<RowLayout, StateError> {
    RowLayout::try_new(&columns.iter().map(|column| column.data_type().clone()).collect::<Vec<_>>())
}

/// Whether two rows of the samples are equal as BinaryRowData is.
fn same(a: &Sample, b: &Sample) -> bool {
    let float = |s: &Sample| s.4.map(f64::to_bits);
    let inner = |s: &Sample| s.5.0.then(|| (s.5.1, s.5.2.clone()));
    (a.0, a.1, a.2, &a.3, a.6) == (b.0, b.1, b.2, &b.3, b.6) && float(a) == float(b) && inner(a) == inner(b)
}

fn taken(columns: &[ArrayRef], rows: &[u32]) -> Result<Vec<ArrayRef>, Failure> {
    let rows = UInt32Array::from(rows.to_vec());
    Ok(columns.iter().map(|column| take(column, &rows, None)).collect::<Result<_, _>>()?)
}

#[derive(Debug, Clone)]
enum Step {
    /// Rows and the slots to store them at.
    Store(Vec<(prop::sample::Index, u32)>),
    Remove(u32),
    Maintain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => prop::collection::vec((any::<prop::sample::Index>(), 0_u32..150), 0..60).prop_map(Step::Store),
        2 => (0_u32..150).prop_map(Step::Remove),
        1 => Just(Step::Maintain),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_come_out_as_they_went_in(samples in prop::collection::vec(sample(), 1..40), steps in steps()) {
        let check = || -> Result<(), Failure> {
            let columns = columns(&samples)?;
            let mut rows = Rows::new(layout(&columns)?);
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for step in &steps {
                match step {
                    Step::Store(pairs) => {
                        let numbers: Vec<u32> = pairs.iter().map(|(index, _)| index.index(samples.len()) as u32).collect();
                        let slots: Vec<u32> = pairs.iter().map(|(_, slot)| *slot).collect();
                        let equal = rows.equal(&columns, &numbers, &slots)?;
                        for ((slot, row), equal) in slots.iter().zip(&numbers).zip(&equal) {
                            let there = model.get(slot).map(|there| &samples[*there as usize]);
                            assert_eq!(equal, there.is_some_and(|there| same(there, &samples[*row as usize])));
                        }
                        rows.store(&columns, &numbers, &slots)?;
                        model.extend(slots.iter().copied().zip(numbers));
                    }
                    Step::Remove(slot) => {
                        rows.remove(*slot);
                        model.remove(slot);
                    }
                    Step::Maintain => rows.maintain(64),
                }
            }
            let (slots, expected): (Vec<u32>, Vec<u32>) = model.iter().map(|(slot, row)| (*slot, *row)).unzip();
            let all = rows.gather(&slots)?;
            assert_eq!(all, taken(&columns, &expected)?);
            assert_eq!(rows.gather_columns(&slots, &[5, 0, 3])?, [5, 0, 3].map(|column| all[column].clone()));
            (0..150).for_each(|slot| assert_eq!(rows.has(slot), model.contains_key(&slot)));
            Ok(())
        };
        check().map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

fn context() -> StateContext {
    StateContext { key_groups: KeyGroups::all(4), clock: StateClock::fixed(0) }
}

fn table(columns: &[ArrayRef]) -> Result<(KeyedTable, RowsId), StateError> {
    let mut table = KeyedTable::new("rows", KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned()), None, &context());
    let id = table.add_rows("row", Vec::new(), layout(columns)?);
    Ok((table, id))
}

fn load(table: &mut KeyedTable, keys: &[u64]) -> Result<Vec<u32>, StateError> {
    let mut touched = Touched::default();
    table.load(BatchKeys::Fixed(keys, None), &mut touched)?;
    Ok(touched.groups.iter().map(|group| touched.slots[*group as usize]).collect())
}

fn of_group(key_group: KeyGroup, sections: Vec<Section>) -> Sections {
    Sections { key_group, format_version: FormatVersion::Asynchronous, processing_time_deadline: None, sections }
}

fn numbers(count: usize) -> Vec<u32> {
    (0..).take(count).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn snapshot_has_the_rows_of_its_moment(before in prop::collection::vec(sample(), 1..200),
            after in prop::collection::vec(sample(), 0..200)) {
        let check = || -> Result<(), Failure> {
            let (first, second) = (columns(&before)?, columns(&after)?);
            let (mut original, id) = table(&first)?;
            let keys: Vec<u64> = (0..before.len() as u64).collect();
            let slots = load(&mut original, &keys)?;
            original.rows(id)?.store(&first, &numbers(before.len()), &slots)?;
            let snapshot = original.snapshot();
            // from now on nothing must be seen by the snapshot
            let others: Vec<u64> = (0..after.len() as u64).map(|key| key * 3 % 100).collect();
            for _ in 0..20 {
                let slots = load(&mut original, &others)?;
                original.rows(id)?.store(&second, &numbers(after.len()), &slots)?;
            }
            let (mut restored, id) = table(&first)?;
            for group in snapshot.key_groups() {
                let sections = snapshot.sections(group)?;
                assert!(snapshot.bytes_bound(group) > 0);
                restored.restore(&of_group(group, sections))?;
            }
            let slots = load(&mut restored, &keys)?;
            assert_eq!(restored.rows(id)?.gather(&slots)?, first);
            Ok(())
        };
        check().map_err(|error| TestCaseError::fail(error.to_string()))?;
    }
}

#[test]
fn memory_stays_in_proportion_when_rows_are_replaced_for_ever() -> Result<(), Failure> {
    let text = |round: usize| (0..1000).map(move |row| Some("x".repeat((row * 7 + round) % 90)));
    let column = |round| -> Vec<ArrayRef> { vec![Arc::new(text(round).collect::<StringArray>())] };
    let mut rows = Rows::new(layout(&column(0))?);
    let slots = numbers(1000);
    rows.store(&column(0), &slots, &slots)?;
    let live = rows.heap.get_live();
    for round in 1..400 {
        let slots: Vec<u32> = (0..100).map(|row| (row * 17 + round as u32 * 31) % 1000).collect();
        rows.store(&column(round), &numbers(100), &slots)?;
    }
    assert!(rows.heap.bytes() < 3 * live + (64 << 10), "{} bytes for {live}", rows.heap.bytes());
    for slot in 0..1000 {
        rows.remove(slot);
    }
    rows.maintain(100);
    assert_eq!(rows.heap.get_live(), 0);
    Ok(())
}

#[test]
fn columns_of_another_type_or_too_short_are_refused() -> Result<(), Failure> {
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let bytes: ArrayRef = Arc::new(Int8Array::from(vec![1, 2]));
    let mut rows = Rows::new(RowLayout::try_new(&[DataType::Int64])?);
    assert_eq!(rows.store(&[bytes], &[0], &[0]), Err(StateError::RowColumns));
    assert_eq!(rows.store(&[], &[0], &[0]), Err(StateError::RowColumns));
    assert_eq!(rows.store(&[Arc::clone(&longs)], &[2], &[0]), Err(StateError::RowColumns));
    assert_eq!(rows.store(&[longs], &[1], &[0, 1]), Err(StateError::RowColumns));
    assert_eq!(rows.gather(&[0]), Err(StateError::NoRow));
    assert_eq!(rows.gather_columns(&[], &[99]), Err(StateError::RowColumns));
    assert_eq!(RowLayout::try_new(&[DataType::Null]), Err(StateError::RowColumns));
    Ok(())
}

#[test]
fn decimal_with_too_many_digits_is_not_restored() -> Result<(), Failure> {
    let decimals = |value: i128| -> Result<ArrayRef, Failure> {
        Ok(Arc::new(Decimal128Array::from(vec![value]).with_precision_and_scale(3, 0)?))
    };
    let (mut original, id) = table(&[decimals(1)?])?;
    let slots = load(&mut original, &[7])?;
    original.rows(id)?.store(&[decimals(1000)?], &[0], &slots)?;
    let snapshot = original.snapshot();
    let (mut restored, _) = table(&[decimals(1)?])?;
    let group = *snapshot.key_groups().first().ok_or("no key group")?;
    let error = restored.restore(&of_group(group, snapshot.sections(group)?));
    assert!(error.is_err_and(|error| error.to_string().contains("too many digits")));
    Ok(())
}

#[test]
fn decimal_with_too_many_digits_is_found_behind_one_that_does_not_count() -> Result<(), Failure> {
    let decimals: ArrayRef = Arc::new(Decimal128Array::from(vec![1000, 1, 1000, 1000]).with_precision_and_scale(3, 0)?);
    let wide = |outer: [bool; 4], inner: [bool; 4]| -> Result<Option<usize>, Failure> {
        let of = |column: &ArrayRef, valid: [bool; 4]| -> Result<ArrayRef, Failure> {
            let fields = vec![Field::new("f", column.data_type().clone(), true)];
            let nulls = NullBuffer::from(valid.to_vec());
            Ok(Arc::new(StructArray::try_new(fields.into(), vec![Arc::clone(column)], Some(nulls))?))
        };
        Ok(column::wide_decimal(&of(&of(&decimals, inner)?, outer)?, &|_| true))
    };
    let all = [true; 4];
    assert_eq!(wide(all, all)?, Some(0));
    assert_eq!(wide([false, true, true, true], all)?, Some(2));
    assert_eq!(wide([false, true, true, true], [true, true, false, true])?, Some(3));
    assert_eq!(wide([false, true, false, false], all)?, None);
    Ok(())
}

#[test]
fn fields_are_columns_of_their_own() -> Result<(), Failure> {
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![5]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let columns = [longs, text];
    let (mut table, id) = table(&columns)?;
    let slots = load(&mut table, &[7])?;
    table.rows(id)?.store(&columns, &[0], &slots)?;
    let snapshot = table.snapshot();
    let group: KeyGroup = *snapshot.key_groups().first().ok_or("no key group")?;
    let sections: Vec<Section> = snapshot.sections(group)?;
    let batch = sections[0].batches().first().ok_or("no batch")?;
    let names: Vec<&str> = batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["key", "row.0", "row.1"]);
    assert_eq!(concat(&[batch.column(2)])?.as_ref(), columns[1].as_ref());
    Ok(())
}
