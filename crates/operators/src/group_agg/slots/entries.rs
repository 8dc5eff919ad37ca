//! One call over slots that keeps entries beside its accumulator: MIN, MAX, FIRST_VALUE and LAST_VALUE over rows that retract.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use streamfusion_state::{ColumnId, EntriesId, KeyedTable, Touched};

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
    pub(super) fn boxed(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn SlotAggregate> {
        let definition = Some(call.definition());
        let (codec, entry_codec) = (function.codec(&call.output), function.entry_codec(&call.output));
        let entries = function.entries(table);
        let entries = table.add_entries(format!("{name}.values"), definition.clone(), entry_codec, entries);
        let state = table.add_column(name, definition, codec, function.create());
        Box::new(Self { function, output: call.output.clone(), state, entries, touched: Vec::new() })
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
        let nulls = argument.and_then(|array| array.nulls());
        let state = table.column(self.state)?;
        self.touched.clear();
        self.touched.extend(touched.slots.iter().map(|slot| state.take(*slot)));
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
        let state = table.column(self.state)?;
        for (slot, accumulator) in touched.slots.iter().zip(self.touched.drain(..)) {
            state.set(*slot, accumulator);
        }
        Ok(())
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
