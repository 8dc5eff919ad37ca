//! Folds the rows of a batch into the accumulators of one aggregate call, in arrival order.
//!
//! The accumulators of the touched groups are taken from the table once, folded in a dense vector, and put back once. The
//! loop is compiled per function and type: nothing is dispatched or allocated per row. Rows that emit one by one are folded
//! batch by batch ([`Aggregate::fold`]), bundles frame by frame ([`Aggregate::fold_bundles`]).

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use streamfusion_state::codec::Codec;
use streamfusion_state::{ColumnId, Entries, EntriesId, KeyedTable, Slots, StateError, Value};

use super::frontier::Frontier;
use super::native::Input;
use super::results::Results;
use super::rows::{ACCUMULATE, EMPTY, FIRST, RETRACT, Rows};
use super::running::EMIT;
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

    /// Adds what another accumulator, that of the slot `from`, has seen, whose entries stay. False if Flink's function has no merge.
    fn merge(
        &self,
        accumulator: &mut Self::Accumulator,
        place: Place<'_, Self::Entries>,
        other: &Self::Accumulator,
        from: u32,
    ) -> Result<bool, StateError> {
        let _ = (accumulator, place, other, from);
        Ok(false)
    }

    /// The accumulator that comes of merging those of some slots in this order into one without rows; entries stay as they are.
    /// `None` if Flink's function has no merge.
    fn merged(
        &self,
        entries: &Self::Entries,
        slots: &[u32],
        accumulators: &[Self::Accumulator],
    ) -> Option<Self::Accumulator> {
        let _ = (entries, slots, accumulators);
        None
    }

    /// Registers the state of a call, under `name`.
    fn register(
        &self,
        call: &Call,
        table: &mut KeyedTable,
        name: String,
    ) -> (EntriesId<Self::Entries>, ColumnId<Self::Accumulator>) {
        let definition = Some(call.definition());
        let (codec, entry_codec) = (self.codec(&call.output), self.entry_codec(&call.output));
        let entries = self.entries(table);
        let entries = table.add_entries(format!("{name}.values"), definition.clone(), entry_codec, entries);
        (entries, table.add_column(name, definition, codec, self.create()))
    }
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

    /// Folds the rows that `frontier` has counted, bundle by bundle. Accumulators stay out of the table until the frame ends.
    /// `argument` and `actions` are as in [`Aggregate::fold`], but absent actions mean that every row accumulates. Without rows, the
    /// argument may be missing.
    fn fold_bundles(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        frontier: &Frontier,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError>;

    /// Ends a frame: puts accumulators back into the table and returns the values before and after each transition. Sets
    /// `changed` for each transition whose value after it differs from the one before it.
    fn end_frame(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        frontier: &Frontier,
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError>;

    /// Bytes that the open frame takes, without what lies in the table.
    fn bundle_bytes(&self) -> usize;

    /// Takes [`Steps`](super::Steps), which are `rows`, and returns the values behind those that hand some out, `emitted` of them.
    /// `argument` and `actions` are as in [`Aggregate::fold`], but absent actions mean that every step accumulates and hands out.
    fn run(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
        emitted: usize,
    ) -> Result<ArrayRef, OperatorError>;
}

/// Calls `step` for each row: with its group's accumulator, the group, what the row does, and its number. What it does is
/// less than its action where the argument is NULL. The step returns the values before and after the row, and then, if the
/// row removes the group, leaves an accumulator without rows.
#[inline]
fn fold_rows<O: Output, A>(
    rows: &Rows,
    nulls: Option<&NullBuffer>,
    actions: &[u8],
    changed: &mut [bool],
    touched: &mut [A],
    mut step: impl FnMut(&mut A, u32, u8, usize) -> Result<(Option<O>, Option<O>), StateError>,
) -> Result<O::Builder, StateError> {
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

/// Calls `step` for each of some rows that does something: with its group's accumulator, the group, what it does (less than its action
/// where the argument is NULL), and its number. `heap` is what the accumulators have on the heap.
#[inline]
fn fold_range<A: Value>(
    rows: &Rows,
    range: Range<usize>,
    nulls: Option<&NullBuffer>,
    actions: Option<&[u8]>,
    touched: &mut [A],
    heap: &mut usize,
    mut step: impl FnMut(&mut A, u32, u8, usize) -> Result<(), StateError>,
) -> Result<(), StateError> {
    for row in range {
        let action = actions.map_or(ACCUMULATE, |actions| actions[row]);
        let takes = nulls.is_none_or(|nulls| nulls.is_valid(row));
        let action = if takes { action } else { action & FIRST };
        if action != 0 {
            let group = rows.touched.groups[row];
            let accumulator = &mut touched[group as usize];
            *heap -= accumulator.heap_bytes();
            step(accumulator, group, action, row)?;
            *heap += accumulator.heap_bytes();
        }
    }
    Ok(())
}

/// Calls `step` for each step that does something: with its group's accumulator, the group, what it does, and its number, and
/// then collects the value if it hands one out.
#[inline]
fn run_steps<O: Output, A>(
    rows: &Rows,
    nulls: Option<&NullBuffer>,
    actions: &[u8],
    emitted: usize,
    touched: &mut [A],
    value: impl Fn(&A) -> Option<O>,
    mut step: impl FnMut(&mut A, u32, u8, usize) -> Result<(), StateError>,
) -> Result<O::Values, StateError> {
    let mut values = O::values(emitted);
    for (row, (group, action)) in rows.touched.groups.iter().zip(actions).enumerate() {
        let accumulator = &mut touched[*group as usize];
        if action & (ACCUMULATE | RETRACT) != 0 && nulls.is_none_or(|nulls| nulls.is_valid(row)) {
            step(accumulator, *group, *action, row)?;
        }
        if action & EMIT != 0 {
            O::push_value(&mut values, value(accumulator));
        }
    }
    Ok(values)
}

/// The argument as the function reads it.
pub(super) fn input<I: Input>(argument: Option<&ArrayRef>) -> Result<I::Column, OperatorError> {
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

/// The accumulators of the groups that are new in the frame, out of the table. Adds to `heap` what they have on the heap.
fn take_new<A: Value>(
    table: &mut KeyedTable,
    id: ColumnId<A>,
    rows: &Rows,
    touched: &mut Vec<A>,
    heap: &mut usize,
) -> Result<(), StateError> {
    let column = table.column(id)?;
    let known = touched.len();
    touched.extend(rows.touched.slots.iter().skip(known).map(|slot| column.take(*slot)));
    *heap += touched.iter().skip(known).map(Value::heap_bytes).sum::<usize>();
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
    results: Results<F::Output>,
    /// Bytes that the touched accumulators have on the heap, while a frame is open.
    heap: usize,
}

impl<F: Function> Folded<F> {
    /// Registers the state of a call, under `name`.
    pub(super) fn boxed(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn Aggregate> {
        let (codec, empty) = (function.codec(&call.output), function.create());
        let accumulators = table.add_column(name, Some(call.definition()), codec, empty);
        let (output, results) = (call.output.clone(), Results::new());
        Box::new(Self { function, output, accumulators, touched: Vec::new(), results, heap: 0 })
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
        let builder =
            fold_rows::<F::Output, _>(rows, F::Input::skipped(argument), actions, changed, &mut self.touched, step)?;
        put(table, self.accumulators, rows, &mut self.touched)?;
        F::Output::finish(builder, &self.output)
    }

    fn fold_bundles(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        frontier: &Frontier,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        let Self { function, accumulators, touched, results, heap, .. } = self;
        take_new(table, *accumulators, rows, touched, heap)?;
        let column = frontier.has_rows().then(|| input::<F::Input>(argument)).transpose()?;
        let nulls = F::Input::skipped(argument);
        let fold = |touched: &mut [F::Accumulator], range: Range<usize>| {
            let Some(column) = &column else { return Ok(()) };
            if actions.is_none() && nulls.is_none() && !std::mem::needs_drop::<F::Accumulator>() {
                for (group, row) in rows.touched.groups[range.clone()].iter().zip(range) {
                    function.accumulate(&mut touched[*group as usize], F::Input::get(column, row));
                }
                return Ok(());
            }
            fold_range(rows, range, nulls, actions, touched, heap, |accumulator, _, action, row| {
                if action & FIRST != 0 {
                    *accumulator = function.create();
                }
                if action & ACCUMULATE != 0 {
                    function.accumulate(accumulator, F::Input::get(column, row));
                } else if action & RETRACT != 0 {
                    function.retract(accumulator, F::Input::get(column, row));
                }
                Ok(())
            })
        };
        results.fold(frontier, touched, |accumulator| function.value(accumulator), fold)?;
        Ok(())
    }

    fn end_frame(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        _frontier: &Frontier,
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        put(table, self.accumulators, rows, &mut self.touched)?;
        self.heap = 0;
        self.results.finish(changed, &self.output)
    }

    fn bundle_bytes(&self) -> usize {
        self.touched.capacity() * size_of::<F::Accumulator>() + self.heap + self.results.bytes()
    }

    fn run(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
        emitted: usize,
    ) -> Result<ArrayRef, OperatorError> {
        let column = input::<F::Input>(argument)?;
        let nulls = F::Input::skipped(argument);
        take(table, self.accumulators, rows, &mut self.touched)?;
        let Self { function, touched, .. } = self;
        let values = match (actions, nulls) {
            (None, None) => {
                let mut values = F::Output::values(emitted);
                for (row, group) in rows.touched.groups.iter().enumerate() {
                    let accumulator = &mut touched[*group as usize];
                    function.accumulate(accumulator, F::Input::get(&column, row));
                    F::Output::push_value(&mut values, function.value(accumulator));
                }
                values
            }
            _ => {
                let actions = actions.unwrap_or(&rows.actions);
                let value = |accumulator: &F::Accumulator| function.value(accumulator);
                run_steps::<F::Output, _>(
                    rows,
                    nulls,
                    actions,
                    emitted,
                    touched,
                    value,
                    |accumulator, _, action, row| {
                        if action & ACCUMULATE != 0 {
                            function.accumulate(accumulator, F::Input::get(&column, row));
                        } else {
                            function.retract(accumulator, F::Input::get(&column, row));
                        }
                        Ok(())
                    },
                )?
            }
        };
        put(table, self.accumulators, rows, &mut self.touched)?;
        F::Output::column(values, &self.output)
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
    results: Results<F::Output>,
    /// Bytes that the touched accumulators have on the heap, while a frame is open.
    heap: usize,
}

impl<F: EntryFunction> FoldedEntries<F> {
    /// Registers the state of a call, under `name`.
    pub(super) fn boxed(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn Aggregate> {
        let (entries, accumulators) = function.register(call, table, name);
        let (output, results) = (call.output.clone(), Results::new());
        Box::new(Self { function, output, accumulators, entries, touched: Vec::new(), results, heap: 0 })
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
        let builder =
            fold_rows::<F::Output, _>(rows, F::Input::skipped(argument), actions, changed, &mut self.touched, step)?;
        put(table, self.accumulators, rows, &mut self.touched)?;
        F::Output::finish(builder, &self.output)
    }

    fn fold_bundles(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        frontier: &Frontier,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        let Self { function, accumulators, touched, results, heap, .. } = self;
        take_new(table, *accumulators, rows, touched, heap)?;
        let (entries, slots) = table.entries(self.entries)?;
        let column = frontier.has_rows().then(|| input::<F::Input>(argument)).transpose()?;
        let nulls = F::Input::skipped(argument);
        let fold = |touched: &mut [F::Accumulator], range: Range<usize>| {
            let Some(column) = &column else { return Ok(()) };
            fold_range(rows, range, nulls, actions, touched, heap, |accumulator, group, action, row| {
                let slot = rows.touched.slots[group as usize];
                if action & FIRST != 0 {
                    *accumulator = function.create();
                    entries.clear(slot);
                }
                let place = Place { entries: &mut *entries, slots, slot };
                if action & ACCUMULATE != 0 {
                    function.accumulate(accumulator, place, F::Input::get(column, row))
                } else if action & RETRACT != 0 {
                    function.retract(accumulator, place, F::Input::get(column, row))
                } else {
                    Ok(())
                }
            })
        };
        results.fold(frontier, touched, |accumulator| function.value(accumulator), fold)?;
        Ok(())
    }

    fn end_frame(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        _frontier: &Frontier,
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        put(table, self.accumulators, rows, &mut self.touched)?;
        self.heap = 0;
        self.results.finish(changed, &self.output)
    }

    fn bundle_bytes(&self) -> usize {
        self.touched.capacity() * size_of::<F::Accumulator>() + self.heap + self.results.bytes()
    }

    fn run(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
        emitted: usize,
    ) -> Result<ArrayRef, OperatorError> {
        let column = input::<F::Input>(argument)?;
        let nulls = F::Input::skipped(argument);
        take(table, self.accumulators, rows, &mut self.touched)?;
        let (entries, slots) = table.entries(self.entries)?;
        let Self { function, touched, .. } = self;
        let actions = actions.unwrap_or(&rows.actions);
        let value = |accumulator: &F::Accumulator| function.value(accumulator);
        let values = run_steps::<F::Output, _>(
            rows,
            nulls,
            actions,
            emitted,
            touched,
            value,
            |accumulator, group, action, row| {
                let place = Place { entries: &mut *entries, slots, slot: rows.touched.slots[group as usize] };
                if action & ACCUMULATE != 0 {
                    function.accumulate(accumulator, place, F::Input::get(&column, row))
                } else {
                    function.retract(accumulator, place, F::Input::get(&column, row))
                }
            },
        )?;
        put(table, self.accumulators, rows, &mut self.touched)?;
        F::Output::column(values, &self.output)
    }
}
