//! MIN and MAX over rows that retract, in two phases: the current value with all others, counted.
//!
//! The accumulator goes through the same steps as Flink's, value by value, so that it is also the same where rows are retracted that were never
//! there: a current value may then be one that is not in the map.
//!
//! Follows: MinWithRetractAggFunction, MaxWithRetractAggFunction, Flink 2.2. Differences: the next value is found in a sorted map.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::{ArrayRef, BinaryArray};
use arrow::datatypes::DataType;
use streamfusion_state::{ColumnId, Entries, EntriesId, KeyedTable, Slots, StateError, Touched, Value as Stored};

use super::cell::{Cells, Cursor, Malformed, VERSION, binary, put_count, put_varint};
use super::value::Carried;
use crate::OperatorError;
use crate::group_agg::distinct::DistinctKey;
use crate::group_agg::extremum::{Current, Extremum, RetractExtremum, SortedCounts, ValueCounts};
use crate::group_agg::fold::{EntryFunction, Place};
use crate::group_agg::native::Input;
use crate::group_agg::rows::{ACCUMULATE, EMPTY, RETRACT, Rows};
use crate::group_agg::slot_maps::map_bytes;
use crate::group_agg::slots::EntryCells;
use crate::group_agg::support::Call;
use crate::group_agg::two_phase::partial::{Numbered, Partial};
use crate::group_agg::two_phase::state::Merged;
use crate::group_agg::value::Value;
use crate::group_agg::versions::{Output, Versions};

/// The kind of a cell.
const KIND: u8 = 3;

/// The values of one key in one bundle, in order.
#[derive(Debug)]
struct SortedValues<V: Value>(BTreeMap<V::Key, i64>);

impl<V: Value> ValueCounts<V> for SortedValues<V> {
    fn add(&mut self, value: <V::Input as Input>::Item<'_>, change: i64) -> Result<i64, StateError> {
        let key = match V::find(&mut self.0, value) {
            Some(count) if count.wrapping_add(change) != 0 => {
                *count = count.wrapping_add(change);
                return Ok(*count);
            }
            Some(_) => {
                self.0.remove(&V::own(value).key());
                return Ok(0);
            }
            None => V::own(value).key(),
        };
        self.0.insert(key, change);
        Ok(change)
    }

    fn best(&mut self, extremum: Extremum) -> Option<V> {
        let best = match extremum {
            Extremum::Min => self.0.first_key_value(),
            Extremum::Max => self.0.last_key_value(),
        };
        best.map(|(key, _)| V::of_key(key))
    }
}

/// An accumulator of one key in one bundle.
#[derive(Debug)]
struct Extreme<V: Value> {
    current: Current<V>,
    values: SortedValues<V>,
}

impl<V: Value> Extreme<V> {
    fn new() -> Self {
        Self { current: Current::new(), values: SortedValues(BTreeMap::new()) }
    }

    /// Merges this accumulator into another one.
    fn merge_into<I>(
        &self,
        extremum: Extremum,
        current: &mut Current<V>,
        counts: &mut impl ValueCounts<V>,
    ) -> Result<(), StateError>
    where
        V: DistinctKey<Input = I> + Value<Input = I>,
        I: Input,
    {
        current.begin_merge(extremum, self.current.value.clone(), self.current.positive);
        let mut gone = false;
        for (key, count) in &self.values.0 {
            gone |= current.merge_entry(counts, V::of_key(key).item(), *count)?;
        }
        current.end_merge(extremum, counts, gone);
        Ok(())
    }
}

/// The accumulators of a call in the bundles of a frame, by number.
#[derive(Debug)]
pub(in crate::group_agg::two_phase) struct Extremes<V: Value> {
    extremum: Extremum,
    numbers: Vec<Extreme<V>>,
}

impl<I, V> Extremes<V>
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I> + Value<Input = I>,
{
    pub(in crate::group_agg::two_phase) fn new(extremum: Extremum) -> Self {
        Self { extremum, numbers: Vec::new() }
    }

    fn grow(&mut self, count: usize) {
        if self.numbers.len() < count {
            self.numbers.resize_with(count, Extreme::new);
        }
    }
}

/// Merges the accumulator in a cell into another one.
fn merge_cell<I, V>(
    extremum: Extremum,
    current: &mut Current<V>,
    counts: &mut impl ValueCounts<V>,
    cell: &[u8],
) -> Result<(), OperatorError>
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I> + Value<Input = I>,
{
    let mut cell = Cursor::open(cell, KIND)?;
    let value = if cell.flag()? { Some(<V as Value>::own(I::read(&mut cell)?)) } else { None };
    let positive = i64::try_from(cell.varint()?).map_err(|_| Malformed::Varint)?;
    current.begin_merge(extremum, value, positive);
    let mut gone = false;
    for _ in 0..cell.entries()? {
        let (value, count) = (I::read(&mut cell)?, cell.count()?);
        if count == 0 {
            return Err(Malformed::Unmarked.into());
        }
        gone |= current.merge_entry(counts, value, count)?;
    }
    cell.close()?;
    current.end_merge(extremum, counts, gone);
    Ok(())
}

/// Writes the front of a cell; so many entries follow, each put with [`write_entry`].
fn begin_cell<I, V>(current: &Current<V>, entries: usize, out: &mut Vec<u8>)
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I>,
{
    out.extend([VERSION, KIND, u8::from(current.value.is_some())]);
    if let Some(value) = &current.value {
        I::write(value.item(), out);
    }
    put_varint(u64::try_from(current.positive).unwrap_or_default(), out);
    put_varint(entries as u64, out);
}

fn write_entry<I, V>(value: &V, count: i64, out: &mut Vec<u8>)
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I>,
{
    I::write(value.item(), out);
    put_count(count, out);
}

/// A column with a cell each.
fn one_cell_per_row(columns: &[ArrayRef]) -> Result<&BinaryArray, OperatorError> {
    match columns {
        [cells] => binary(cells),
        _ => Err(OperatorError::Input("no map of values where one should be".to_owned())),
    }
}

/// The function in state, whose slots are handed on between two phases of an aggregate over windows.
impl<I, V> EntryCells for RetractExtremum<V>
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I> + Value<Input = I>,
{
    fn write_cells(
        &self,
        entries: &SortedCounts<V>,
        slots: &[u32],
        accumulators: &[Current<V>],
        out: &mut Vec<ArrayRef>,
    ) -> Result<(), OperatorError> {
        let mut cells = Cells::with_capacity(slots.len());
        let mut positions = Vec::new();
        for (slot, current) in slots.iter().zip(accumulators) {
            positions.clear();
            positions.extend(entries.table().of_slot(*slot));
            begin_cell(current, positions.len(), cells.bytes());
            for position in &positions {
                let (value, count) = entries.table().get(*position);
                write_entry(value, *count, cells.bytes());
            }
            cells.close()?;
        }
        out.push(cells.finish()?);
        Ok(())
    }

    fn merge_cells(
        &self,
        entries: (&mut SortedCounts<V>, &Slots),
        touched: &Touched,
        accumulators: &mut [Current<V>],
        columns: &[ArrayRef],
    ) -> Result<(), OperatorError> {
        let cells = one_cell_per_row(columns)?;
        let (entries, slots) = entries;
        for (row, group) in touched.groups.iter().enumerate() {
            let slot = touched.slots[*group as usize];
            let mut place = Place { entries: &mut *entries, slots, slot };
            merge_cell(self.extremum, &mut accumulators[*group as usize], &mut place, cells.value(row))?;
        }
        Ok(())
    }
}

impl<I, V> Partial for Extremes<V>
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I> + Value<Input = I>,
{
    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        self.grow(rows.count);
        let argument = argument.ok_or_else(|| OperatorError::Internal("MIN or MAX without an argument".to_owned()))?;
        let column = I::column(argument)?;
        let nulls = argument.nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, number) in rows.rows.clone().zip(rows.numbers) {
            let action = actions.map_or(ACCUMULATE, |actions| actions[row]);
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let Extreme { current, values } = &mut self.numbers[*number as usize];
            if action & ACCUMULATE != 0 {
                current.accumulate(self.extremum, values, I::get(&column, row))?;
            } else if action & RETRACT != 0 {
                current.retract(self.extremum, values, I::get(&column, row))?;
            }
        }
        Ok(())
    }

    fn merge(&mut self, rows: &Numbered<'_>, columns: &[ArrayRef]) -> Result<(), OperatorError> {
        self.grow(rows.count);
        let cells = one_cell_per_row(columns)?;
        for (row, number) in rows.rows.clone().zip(rows.numbers) {
            let Extreme { current, values } = &mut self.numbers[*number as usize];
            merge_cell(self.extremum, current, values, cells.value(row))?;
        }
        Ok(())
    }

    fn regroup(&mut self, numbers: &[u32], count: usize) -> Result<(), OperatorError> {
        let old = std::mem::take(&mut self.numbers);
        self.grow(count);
        for (extreme, number) in old.iter().zip(numbers) {
            let Extreme { current, values } = &mut self.numbers[*number as usize];
            extreme.merge_into(self.extremum, current, values)?;
        }
        Ok(())
    }

    fn take_columns(&mut self, out: &mut Vec<ArrayRef>) -> Result<(), OperatorError> {
        let mut cells = Cells::with_capacity(self.numbers.len());
        for Extreme { current, values } in self.numbers.drain(..) {
            begin_cell(&current, values.0.len(), cells.bytes());
            for (key, count) in &values.0 {
                write_entry(&V::of_key(key), *count, cells.bytes());
            }
            cells.close()?;
        }
        out.push(cells.finish()?);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let of_one = |extreme: &Extreme<V>| {
            let len = extreme.values.0.len();
            Stored::heap_bytes(&extreme.current) + map_bytes::<V::Key, i64>(usize::from(len > 0), len)
        };
        self.numbers.capacity() * size_of::<Extreme<V>>() + self.numbers.iter().map(of_one).sum::<usize>()
    }
}

/// The accumulators of a call in state, in the form of GROUP BY in one phase, and those of the open frame.
#[derive(Debug)]
pub(in crate::group_agg::two_phase) struct StoredExtremum<V: Value> {
    frame: Extremes<V>,
    output: DataType,
    state: ColumnId<Current<V>>,
    entries: EntriesId<SortedCounts<V>>,
    touched: Vec<Current<V>>,
}

impl<I, V> StoredExtremum<V>
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I> + Value<Input = I>,
{
    /// Registers the state of a call, under `name`.
    pub(in crate::group_agg::two_phase) fn boxed(
        extremum: Extremum,
        call: &Call,
        table: &mut KeyedTable,
        name: String,
    ) -> Box<dyn Merged> {
        let function = RetractExtremum { extremum, value: PhantomData::<V> };
        let (entries, state) = function.register(call, table, name);
        let output = call.output.clone();
        Box::new(Self { frame: Extremes::new(extremum), output, state, entries, touched: Vec::new() })
    }
}

impl<I, V> Merged for StoredExtremum<V>
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I> + Value<Input = I>,
{
    fn merge(&mut self, rows: &Numbered<'_>, columns: &[ArrayRef]) -> Result<(), OperatorError> {
        self.frame.merge(rows, columns)
    }

    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        self.frame.fold(rows, argument, actions)
    }

    fn end_frame(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        let column = table.column(self.state)?;
        self.touched.clear();
        self.touched.extend(rows.touched.slots.iter().map(|slot| column.take(*slot)));
        let (entries, slots) = table.entries(self.entries)?;
        let mut versions = V::builder(rows.len());
        let groups = rows.touched.groups.iter().zip(&rows.actions);
        for ((extreme, (group, action)), changed) in self.frame.numbers.iter().zip(groups).zip(changed) {
            let slot = rows.touched.slots[*group as usize];
            let current = &mut self.touched[*group as usize];
            let before = current.result();
            let mut place = Place { entries: &mut *entries, slots, slot };
            extreme.merge_into(self.frame.extremum, current, &mut place)?;
            let after = current.result();
            *changed |= match (&before, &after) {
                (Some(before), Some(after)) => !before.same(after),
                (None, None) => false,
                _ => true,
            };
            V::push(&mut versions, before, after);
            if action & EMPTY != 0 {
                *current = Current::new();
                entries.clear(slot);
            }
        }
        self.frame.numbers.clear();
        let column = table.column(self.state)?;
        for (slot, current) in rows.touched.slots.iter().zip(self.touched.drain(..)) {
            column.set(*slot, current);
        }
        <V as Output>::finish(versions, &self.output)
    }

    fn bytes(&self) -> usize {
        self.frame.bytes() + self.touched.capacity() * size_of::<Current<V>>()
    }
}
