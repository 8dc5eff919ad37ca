//! Folds the rows of a batch into the accumulators of one aggregate call, in arrival order.
//!
//! The accumulators of the touched groups are taken from the table once, folded in a dense vector, and put back once. The
//! loop is compiled per function and type: nothing is dispatched or allocated per row.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray};
use arrow::datatypes::DataType;
use streamfusion_state::codec::Codec;
use streamfusion_state::{ColumnId, Entries, EntriesId, KeyedTable, Slots, StateError, Value};

use super::native::Input;
use super::rows::{ACCUMULATE, EMPTY, RETRACT, Rows};
use super::support::Call;
use super::versions::{Output, Versions};
use crate::OperatorError;

/// One aggregate function over one input type.
pub(super) trait Function: Debug + Send + 'static {
    type Input: Input;
    type Output: Output;
    type Accumulator: Value;

    /// How accumulators lie in snapshots, of a function with results of the Arrow type `output`.
    fn codec(&self, output: &DataType) -> impl Codec<Self::Accumulator>;

    /// The accumulator of a group without rows.
    fn create(&self) -> Self::Accumulator;

    /// Takes a value that is not NULL.
    fn accumulate(&self, accumulator: &mut Self::Accumulator, value: <Self::Input as Input>::Item<'_>);

    /// Takes back a value that is not NULL.
    fn retract(&self, accumulator: &mut Self::Accumulator, value: <Self::Input as Input>::Item<'_>);

    /// The result, `None` for NULL.
    fn value(&self, accumulator: &Self::Accumulator) -> Option<Self::Output>;
}

/// One aggregate function that keeps entries beside its accumulator: Flink's has a MapView.
pub(super) trait EntryFunction: Debug + Send + 'static {
    type Input: Input;
    type Output: Output;
    type Accumulator: Value;
    type Entries: Entries;

    /// How accumulators lie in snapshots, of a function with results of the Arrow type `output`.
    fn codec(&self, output: &DataType) -> impl Codec<Self::Accumulator>;

    /// How entries do.
    fn entry_codec(&self, output: &DataType) -> impl Codec<<Self::Entries as Entries>::Entry>;

    /// No entries yet.
    fn entries(&self, table: &KeyedTable) -> Self::Entries;

    /// The accumulator of a group without rows.
    fn create(&self) -> Self::Accumulator;

    /// Takes a value that is not NULL.
    fn accumulate(
        &self,
        accumulator: &mut Self::Accumulator,
        place: Place<'_, Self::Entries>,
        value: <Self::Input as Input>::Item<'_>,
    ) -> Result<(), StateError>;

    /// Takes back a value that is not NULL.
    fn retract(
        &self,
        accumulator: &mut Self::Accumulator,
        place: Place<'_, Self::Entries>,
        value: <Self::Input as Input>::Item<'_>,
    ) -> Result<(), StateError>;

    /// The result, `None` for NULL.
    fn value(&self, accumulator: &Self::Accumulator) -> Option<Self::Output>;
}

/// Where the entries of a group are.
#[derive(Debug)]
pub(super) struct Place<'a, N> {
    pub(super) entries: &'a mut N,
    pub(super) slots: &'a Slots,
    pub(super) slot: u32,
}

/// An aggregate call with its state, whatever its function and type.
pub(super) trait Aggregate: Debug + Send {
    /// Folds a batch and returns the values before and after each row. `argument` is the argument column, absent for a
    /// call without arguments; `actions` says what each row does for this call. Sets `changed` for each row whose value
    /// after it differs from the one before it.
    fn fold(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        actions: &[u8],
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError>;
}

/// Calls `step` for each row: with its group's accumulator, the group, what the row does, and its number. What it does is
/// less than its action where the argument is NULL. The step returns the values before and after the row, and then, if the
/// row removes the group, leaves an accumulator without rows.
#[inline]
fn fold_rows<O: Output, A>(
    rows: &Rows,
    argument: Option<&ArrayRef>,
    actions: &[u8],
    changed: &mut [bool],
    touched: &mut [A],
    mut step: impl FnMut(&mut A, u32, u8, usize) -> Result<(Option<O>, Option<O>), StateError>,
) -> Result<O::Builder, StateError> {
    let nulls = argument.and_then(|array| array.nulls());
    let mut builder = O::builder(rows.len());
    let steps = rows.touched.groups.iter().zip(actions).zip(changed.iter_mut());
    for (row, ((group, action), changed)) in steps.enumerate() {
        let takes = nulls.is_none_or(|nulls| nulls.is_valid(row));
        let action = if takes { *action } else { action & EMPTY };
        let (before, after) = step(&mut touched[*group as usize], *group, action, row)?;
        *changed |= match (&before, &after) {
            (Some(before), Some(after)) => !before.same(after),
            (None, None) => false,
            _ => true,
        };
        O::push(&mut builder, before, after);
    }
    Ok(builder)
}

/// The argument as the function reads it.
fn input<I: Input>(argument: Option<&ArrayRef>) -> Result<I::Column, OperatorError> {
    let empty: ArrayRef = Arc::new(NullArray::new(0));
    I::column(argument.unwrap_or(&empty))
}

/// The accumulators of the touched groups, out of the table.
fn take<A: Value>(
    table: &mut KeyedTable,
    id: ColumnId<A>,
    rows: &Rows,
    touched: &mut Vec<A>,
) -> Result<(), StateError> {
    let column = table.column(id)?;
    touched.clear();
    touched.extend(rows.touched.slots.iter().map(|slot| column.take(*slot)));
    Ok(())
}

/// The accumulators of the touched groups, back into the table.
fn put<A: Value>(table: &mut KeyedTable, id: ColumnId<A>, rows: &Rows, touched: &mut Vec<A>) -> Result<(), StateError> {
    let column = table.column(id)?;
    for (slot, accumulator) in rows.touched.slots.iter().zip(touched.drain(..)) {
        column.set(*slot, accumulator);
    }
    Ok(())
}

/// A [`Function`] with the accumulators of all groups.
#[derive(Debug)]
pub(super) struct Folded<F: Function> {
    function: F,
    output: DataType,
    accumulators: ColumnId<F::Accumulator>,
    touched: Vec<F::Accumulator>,
}

impl<F: Function> Folded<F> {
    /// Registers the state of a call, under `name`.
    pub(super) fn boxed(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn Aggregate> {
        let (codec, empty) = (function.codec(&call.output), function.create());
        let accumulators = table.add_column(name, Some(call.definition()), codec, empty);
        Box::new(Self { function, output: call.output.clone(), accumulators, touched: Vec::new() })
    }
}

impl<F: Function> Aggregate for Folded<F> {
    fn fold(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        actions: &[u8],
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        let column = input::<F::Input>(argument)?;
        take(table, self.accumulators, rows, &mut self.touched)?;
        let function = &self.function;
        let step = |accumulator: &mut F::Accumulator, _, action, row| {
            let before = function.value(accumulator);
            if action & ACCUMULATE != 0 {
                function.accumulate(accumulator, F::Input::get(&column, row));
            } else if action & RETRACT != 0 {
                function.retract(accumulator, F::Input::get(&column, row));
            }
            let after = function.value(accumulator);
            if action & EMPTY != 0 {
                *accumulator = function.create();
            }
            Ok((before, after))
        };
        let builder = fold_rows::<F::Output, _>(rows, argument, actions, changed, &mut self.touched, step)?;
        put(table, self.accumulators, rows, &mut self.touched)?;
        F::Output::finish(builder, &self.output)
    }
}

/// An [`EntryFunction`] with the accumulators and entries of all groups.
#[derive(Debug)]
pub(super) struct FoldedEntries<F: EntryFunction> {
    function: F,
    output: DataType,
    accumulators: ColumnId<F::Accumulator>,
    entries: EntriesId<F::Entries>,
    touched: Vec<F::Accumulator>,
}

impl<F: EntryFunction> FoldedEntries<F> {
    /// Registers the state of a call, under `name`.
    pub(super) fn boxed(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn Aggregate> {
        let definition = Some(call.definition());
        let (codec, entry_codec) = (function.codec(&call.output), function.entry_codec(&call.output));
        let entries = function.entries(table);
        let entries = table.add_entries(format!("{name}.values"), definition.clone(), entry_codec, entries);
        let accumulators = table.add_column(name, definition, codec, function.create());
        Box::new(Self { function, output: call.output.clone(), accumulators, entries, touched: Vec::new() })
    }
}

impl<F: EntryFunction> Aggregate for FoldedEntries<F> {
    fn fold(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        actions: &[u8],
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        let column = input::<F::Input>(argument)?;
        take(table, self.accumulators, rows, &mut self.touched)?;
        let (entries, slots) = table.entries(self.entries)?;
        let function = &self.function;
        let step = |accumulator: &mut F::Accumulator, group: u32, action, row| {
            let slot = rows.touched.slots[group as usize];
            let before = function.value(accumulator);
            if action & ACCUMULATE != 0 {
                let place = Place { entries: &mut *entries, slots, slot };
                function.accumulate(accumulator, place, F::Input::get(&column, row))?;
            } else if action & RETRACT != 0 {
                let place = Place { entries: &mut *entries, slots, slot };
                function.retract(accumulator, place, F::Input::get(&column, row))?;
            }
            let after = function.value(accumulator);
            if action & EMPTY != 0 {
                *accumulator = function.create();
                entries.clear(slot);
            }
            Ok((before, after))
        };
        let builder = fold_rows::<F::Output, _>(rows, argument, actions, changed, &mut self.touched, step)?;
        put(table, self.accumulators, rows, &mut self.touched)?;
        F::Output::finish(builder, &self.output)
    }
}
