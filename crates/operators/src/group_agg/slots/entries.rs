//! One call over slots that keeps entries beside its accumulator: MIN, MAX, FIRST_VALUE and LAST_VALUE over rows that retract.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use streamfusion_state::{ColumnId, EntriesId, KeyedTable, Slots, Touched};

use super::Parts;
use super::aggregate::SlotAggregate;
use crate::OperatorError;
use crate::group_agg::fold::{EntryFunction, Place, input};
use crate::group_agg::native::Input;
use crate::group_agg::rows::{ACCUMULATE, RETRACT};
use crate::group_agg::support::Call;
use crate::group_agg::versions::Output;

/// The accumulators and entries of a function.
#[derive(Debug)]
pub(super) struct SlotEntries<F: EntryFunction> {
    function: F,
    output: DataType,
    state: ColumnId<F::Accumulator>,
    entries: EntriesId<F::Entries>,
    touched: Vec<F::Accumulator>,
}

impl<F: EntryFunction> SlotEntries<F> {
    fn new(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Self {
        let (entries, state) = function.register(call, table, name);
        Self { function, output: call.output.clone(), state, entries, touched: Vec::new() }
    }

    pub(super) fn boxed(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn SlotAggregate> {
        Box::new(Self::new(function, call, table, name))
    }

    /// The accumulators of touched slots, out of the table.
    fn take(&mut self, table: &mut KeyedTable, touched: &Touched) -> Result<(), OperatorError> {
        let state = table.column(self.state)?;
        self.touched.clear();
        self.touched.extend(touched.slots.iter().map(|slot| state.take(*slot)));
        Ok(())
    }

    /// And back into it.
    fn put(&mut self, table: &mut KeyedTable, touched: &Touched) -> Result<(), OperatorError> {
        let state = table.column(self.state)?;
        for (slot, accumulator) in touched.slots.iter().zip(self.touched.drain(..)) {
            state.set(*slot, accumulator);
        }
        Ok(())
    }
}

fn never() -> OperatorError {
    OperatorError::Internal("this aggregate is never asked for in parts".to_owned())
}

impl<F: EntryFunction> SlotAggregate for SlotEntries<F> {
    fn fold(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        let column = input::<F::Input>(argument)?;
        let nulls = F::Input::skipped(argument);
        self.take(table, touched)?;
        let (entries, slots) = table.entries(self.entries)?;
        for (row, group) in touched.groups.iter().enumerate() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let action = actions.map_or(ACCUMULATE, |actions| actions[row]);
            let accumulator = &mut self.touched[*group as usize];
            let place = Place { entries: &mut *entries, slots, slot: touched.slots[*group as usize] };
            if action & ACCUMULATE != 0 {
                self.function.accumulate(accumulator, place, F::Input::get(&column, row))?;
            } else if action & RETRACT != 0 {
                self.function.retract(accumulator, place, F::Input::get(&column, row))?;
            }
        }
        self.put(table, touched)
    }

    fn merge(&mut self, table: &mut KeyedTable, from: &[u32], into: &[u32]) -> Result<(), OperatorError> {
        for (from, into) in from.iter().zip(into) {
            let state = table.column(self.state)?;
            let (mut accumulator, other) = (state.take(*into), state.get(*from).clone());
            let (entries, slots) = table.entries(self.entries)?;
            let place = Place { entries, slots, slot: *into };
            let merges = self.function.merge(&mut accumulator, place, &other, *from)?;
            table.column(self.state)?.set(*into, accumulator);
            if !merges {
                return Err(never());
            }
        }
        Ok(())
    }

    fn values(&mut self, table: &mut KeyedTable, slots: &[u32]) -> Result<ArrayRef, OperatorError> {
        let state = table.column(self.state)?;
        let mut values = F::Output::values(slots.len());
        for slot in slots {
            F::Output::push_value(&mut values, self.function.value(state.get(*slot)));
        }
        F::Output::column(values, &self.output)
    }

    fn merged_values(&mut self, table: &mut KeyedTable, parts: &Parts<'_>) -> Result<ArrayRef, OperatorError> {
        let mut values = F::Output::values(parts.ends.len());
        let mut accumulators = Vec::new();
        for part in parts.iter() {
            let state = table.column(self.state)?;
            accumulators.clear();
            accumulators.extend(part.iter().map(|slot| state.get(*slot).clone()));
            let (entries, _) = table.entries(self.entries)?;
            let merged = self.function.merged(entries, part, &accumulators).ok_or_else(never)?;
            F::Output::push_value(&mut values, self.function.value(&merged));
        }
        F::Output::column(values, &self.output)
    }

    fn fresh_values(
        &mut self,
        _count: usize,
        _groups: &[u32],
        _argument: &ArrayRef,
        _actions: &[u8],
    ) -> Result<ArrayRef, OperatorError> {
        Err(never())
    }

    fn accumulators(
        &mut self,
        _table: &mut KeyedTable,
        _slots: &[u32],
        _out: &mut Vec<ArrayRef>,
    ) -> Result<(), OperatorError> {
        Err(never())
    }

    fn fold_accumulators(
        &mut self,
        _table: &mut KeyedTable,
        _touched: &Touched,
        _columns: &[ArrayRef],
    ) -> Result<(), OperatorError> {
        Err(never())
    }
}

/// A function whose slots are handed on between two phases of an aggregate over windows: MIN and MAX.
pub(in crate::group_agg) trait EntryCells: EntryFunction {
    /// Appends the columns of the accumulators of slots, entries included.
    fn write_cells(
        &self,
        entries: &Self::Entries,
        slots: &[u32],
        accumulators: &[Self::Accumulator],
        out: &mut Vec<ArrayRef>,
    ) -> Result<(), OperatorError>;

    /// Merges such columns, row by row, into the accumulators of the slots that `touched` has for them.
    fn merge_cells(
        &self,
        entries: (&mut Self::Entries, &Slots),
        touched: &Touched,
        accumulators: &mut [Self::Accumulator],
        columns: &[ArrayRef],
    ) -> Result<(), OperatorError>;
}

/// [`SlotEntries`] that are handed on between two phases.
#[derive(Debug)]
pub(super) struct PhasedEntries<F: EntryFunction>(SlotEntries<F>);

impl<F: EntryCells> PhasedEntries<F> {
    pub(super) fn boxed(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn SlotAggregate> {
        Box::new(Self(SlotEntries::new(function, call, table, name)))
    }
}

impl<F: EntryCells> SlotAggregate for PhasedEntries<F> {
    fn fold(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        self.0.fold(table, touched, argument, actions)
    }

    fn merge(&mut self, table: &mut KeyedTable, from: &[u32], into: &[u32]) -> Result<(), OperatorError> {
        self.0.merge(table, from, into)
    }

    fn values(&mut self, table: &mut KeyedTable, slots: &[u32]) -> Result<ArrayRef, OperatorError> {
        self.0.values(table, slots)
    }

    fn merged_values(&mut self, table: &mut KeyedTable, parts: &Parts<'_>) -> Result<ArrayRef, OperatorError> {
        self.0.merged_values(table, parts)
    }

    fn fresh_values(
        &mut self,
        count: usize,
        groups: &[u32],
        argument: &ArrayRef,
        actions: &[u8],
    ) -> Result<ArrayRef, OperatorError> {
        self.0.fresh_values(count, groups, argument, actions)
    }

    fn accumulators(
        &mut self,
        table: &mut KeyedTable,
        slots: &[u32],
        out: &mut Vec<ArrayRef>,
    ) -> Result<(), OperatorError> {
        let state = table.column(self.0.state)?;
        let accumulators: Vec<F::Accumulator> = slots.iter().map(|slot| state.get(*slot).clone()).collect();
        let (entries, _) = table.entries(self.0.entries)?;
        self.0.function.write_cells(entries, slots, &accumulators, out)
    }

    fn fold_accumulators(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        columns: &[ArrayRef],
    ) -> Result<(), OperatorError> {
        self.0.take(table, touched)?;
        let SlotEntries { function, entries, touched: accumulators, .. } = &mut self.0;
        function.merge_cells(table.entries(*entries)?, touched, accumulators, columns)?;
        self.0.put(table, touched)
    }
}
