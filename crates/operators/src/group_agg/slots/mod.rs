//! Aggregate calls over slots of a table, whose values are asked for when a window fires: windows of all kinds.
//!
//! A slot is what the owner of the table makes of it: a key in a slice, a key in a session. Nothing is counted and nothing emitted
//! here, so that a slot is there as long as its owner keeps it. How to use it:
//!
//! 1. [`SlotAggregates::supports`] and [`SlotAggregates::try_new`], with a [`KeyedTable`] that may have columns of its owner;
//! 2. per batch load the keys into [`SlotAggregates::touched`] and call [`SlotAggregates::fold`] with the same rows: each row is
//!    accumulated, or taken back, in the slot of its group;
//! 3. [`SlotAggregates::merge`] adds slots to others for good, [`SlotAggregates::merged_values`] for the moment;
//! 4. [`SlotAggregates::values`] has the results of slots, [`SlotAggregates::counts`] the rows in them.
//!
//! In two phases the local one hands out [`SlotAggregates::accumulators`], and the global one takes them with
//! [`SlotAggregates::fold_accumulators`]. Slots are neither committed nor removed here.
//!
//! Follows: NamespaceAggsHandleFunction as AggsHandlerCodeGenerator makes it, Flink 2.2. Differences: none. The order in which
//! distinct values are summed up when slots are merged is that of a hash map there; where it shows, slots are not merged.

mod aggregate;
mod distinct;
mod entries;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type};
use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, GroupAggregate};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::Batch;
use streamfusion_row::types::arrow_type;
use streamfusion_state::{KeyedTable, Touched};

use self::aggregate::{SlotAggregate, register};
pub(super) use self::distinct::{MergedRows, merge_counted, merge_seen, union_counted, union_seen};
pub(super) use self::entries::EntryCells;
use super::distinct::share;
use super::rows::{ACCUMULATE, RETRACT, Rows, is_accumulate};
use super::support::{self, Call, FunctionKind, Retraction};
use super::two_phase::{check_distinct, check_sets, column_types};
use super::{CallState, DistinctState, column, restrict, share_distinct_tables};
use crate::OperatorError;

/// What the plan says of calls over slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotCalls<'a> {
    /// The calls.
    pub(crate) calls: &'a [AggCall],
    /// The rows that they are about; a ROW.
    pub(crate) input: &'a LogicalType,
    /// Whether these rows retract.
    pub(crate) need_retraction: bool,
    /// Whether the rows of a slot are counted: by the last COUNT(*) among the calls, or else by one more call behind them.
    pub(crate) counts_rows: bool,
    /// Whether slots are merged.
    pub(crate) merging: Merging,
}

/// Whether slots are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merging {
    Never,
    Slots,
}

/// Lists of slots, one behind the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// The slots of all parts.
    pub(crate) slots: &'a [u32],
    /// Per part: the number of slots of it and those before it.
    pub(crate) ends: &'a [usize],
}

impl Parts<'_> {
    /// The slots, part by part.
    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(self.ends).map(|(start, end)| &self.slots[start..*end])
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct SlotAggregates {
    calls: Vec<CallState<dyn SlotAggregate>>,
    distincts: Vec<DistinctState>,
    rows: Rows,
    retraction: Retraction,
    /// How many calls the plan has.
    planned: usize,
    count_star: Option<usize>,
    /// Per call its accumulator columns, in the order of the phases' rows.
    columns: Vec<std::ops::Range<usize>>,
}

/// The calls, the one that counts rows among them or behind them, and its place.
fn resolve(spec: &SlotCalls<'_>) -> Result<(Vec<Call>, Option<usize>), Reason> {
    let group = GroupAggregate {
        grouping: Vec::new(),
        calls: spec.calls.to_vec(),
        generate_update_before: false,
        need_retraction: spec.need_retraction,
        ttl_ms: 0,
        mini_batch_size: None,
    };
    let mut calls = support::resolve(&group, spec.input)?.calls;
    if spec.merging == Merging::Slots {
        spec.calls.iter().try_for_each(|call| merges_distinct_values(call, spec.input))?;
        for call in &calls {
            match call.function {
                FunctionKind::Position(..) => {
                    return Err(Reason::new(
                        "FIRST_VALUE and LAST_VALUE are not supported natively over windows that are put together from parts",
                    ));
                }
                FunctionKind::Extremum(_, Retraction::Applied) if call.distinct => {
                    return Err(Reason::new(
                        "MIN and MAX of DISTINCT values that are retracted are not supported natively over windows that are put together from parts",
                    ));
                }
                _ => {}
            }
        }
    }
    if !spec.counts_rows {
        return Ok((calls, None));
    }
    let counts = |call: &Call| call.function == FunctionKind::Count && call.argument.is_none() && call.filter.is_none();
    let count_star = calls.iter().rposition(counts).unwrap_or(calls.len());
    if count_star == calls.len() {
        let (function, output) = (FunctionKind::Count, DataType::Int64);
        calls.push(Call { function, argument: None, filter: None, distinct: false, output });
    }
    Ok((calls, Some(count_star)))
}

/// Flink goes through distinct values in the order of a hash map when it merges, which shows in sums of FLOAT and DOUBLE and in the
/// extremum of values such as 0.0 and -0.0.
fn merges_distinct_values(call: &AggCall, input: &LogicalType) -> Result<(), Reason> {
    let of_floats = call
        .args
        .iter()
        .filter_map(|column| input.fields().get(*column))
        .any(|field| matches!(field.ty.kind, TypeKind::Float | TypeKind::Double));
    let counts = matches!(&call.function, Function::BuiltIn { name, .. } if name == "COUNT");
    if call.distinct && of_floats && !counts {
        return Err(Reason::new(
            "what comes of DISTINCT FLOAT or DOUBLE values in windows that are merged depends on the order of a hash map in Flink",
        ));
    }
    Ok(())
}

impl SlotAggregates {
    /// Whether these calls give exactly what Flink's give.
    pub(crate) fn supports(spec: &SlotCalls<'_>) -> Result<(), Reason> {
        resolve(spec).map(drop)
    }

    /// Whether, besides, the accumulators of these calls lie in the columns of `row` behind so many others and in front of so many, as
    /// Flink has them.
    pub(crate) fn supports_accumulators(
        spec: &SlotCalls<'_>,
        row: &LogicalType,
        before: usize,
        behind: usize,
    ) -> Result<(), Reason> {
        let (calls, _) = resolve(spec)?;
        calls.iter().filter(|call| call.distinct).try_for_each(check_distinct)?;
        let sets = share(&calls);
        check_sets(&sets)?;
        let mut expected = calls.iter().map(column_types).collect::<Result<Vec<_>, _>>()?.concat();
        expected.extend(sets.iter().map(|_| DataType::Binary));
        let fields = row.fields();
        let found = fields.get(before..fields.len().saturating_sub(behind)).unwrap_or_default();
        let found = found.iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
        if found == expected {
            Ok(())
        } else {
            Err(Reason::new("the accumulators of the two phases have types that are not known here"))
        }
    }

    /// Calls whose state is registered with `table`. Errors if [`SlotAggregates::supports`] refuses them.
    pub(crate) fn try_new(spec: &SlotCalls<'_>, table: &mut KeyedTable) -> Result<Self, OperatorError> {
        let (calls, count_star) = resolve(spec).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let retraction = if spec.need_retraction { Retraction::Applied } else { Retraction::None };
        let mut states = Vec::with_capacity(calls.len());
        let mut columns = Vec::with_capacity(calls.len());
        let mut first = 0;
        for (number, call) in calls.into_iter().enumerate() {
            let width = column_types(&call).map_or(0, |types| types.len());
            columns.push(first..first + width);
            first += width;
            let aggregate = register(&call, table, format!("call{number}"))?;
            states.push(CallState::new(call, aggregate));
        }
        Ok(Self {
            distincts: share_distinct_tables(&states, retraction, table)?,
            calls: states,
            rows: Rows::default(),
            retraction,
            planned: spec.calls.len(),
            count_star,
            columns,
        })
    }

    /// Where the keys of the rows that are folded next are loaded.
    pub(crate) fn touched(&mut self) -> &mut Touched {
        &mut self.rows.touched
    }

    /// Accumulates the rows of a batch, or takes them back, in the slots that [`SlotAggregates::touched`] has for them.
    ///
    /// Errors if a row retracts where the plan promises rows that insert only.
    pub(crate) fn fold(&mut self, table: &mut KeyedTable, batch: &Batch) -> Result<(), OperatorError> {
        let Self { calls, distincts, rows, retraction, .. } = self;
        if batch.num_rows() != rows.len() {
            let (found, expected) = (batch.num_rows(), rows.len());
            return Err(OperatorError::Internal(format!("{found} rows of a batch for the slots of {expected}")));
        }
        let kinds = batch.kinds().map(|kinds| kinds.values());
        let retracts = kinds.is_some_and(|kinds| kinds.iter().any(|kind| !is_accumulate(*kind)));
        if retracts && *retraction == Retraction::None {
            return Err(OperatorError::UnexpectedRetraction);
        }
        rows.actions.clear();
        match kinds {
            Some(kinds) if retracts => {
                let action = |kind: &u8| if is_accumulate(*kind) { ACCUMULATE } else { RETRACT };
                rows.actions.extend(kinds.iter().map(action));
            }
            _ if calls.iter().any(|state| state.is_restricted()) => rows.actions.resize(rows.len(), ACCUMULATE),
            _ => {}
        }
        restrict(calls, distincts, table, rows, batch)?;
        for state in calls {
            let argument = state.argument(batch)?;
            let actions = match state.is_restricted() {
                true => Some(state.actions.as_slice()),
                false => retracts.then_some(rows.actions.as_slice()),
            };
            state.aggregate.fold(table, &rows.touched, argument, actions)?;
        }
        Ok(())
    }

    /// Adds what the slots `from` have to what the slots `into` have, pair by pair in this order. What `from` has stays. No slot may be
    /// on both sides.
    pub(crate) fn merge(&mut self, table: &mut KeyedTable, from: &[u32], into: &[u32]) -> Result<(), OperatorError> {
        for state in self.calls.iter_mut().filter(|state| !state.call.distinct) {
            state.aggregate.merge(table, from, into)?;
        }
        for distinct in &mut self.distincts {
            let merged = distinct.values.merge(table, from, into)?;
            let touched = merged.touched(into);
            for (call, actions) in distinct.calls.iter().zip(&merged.actions) {
                self.calls[*call].aggregate.fold(table, &touched, Some(&merged.values), Some(actions))?;
            }
        }
        Ok(())
    }

    /// The results of slots: a column per call of the plan, a row per slot.
    pub(crate) fn values(&mut self, table: &mut KeyedTable, slots: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        self.calls.iter_mut().take(self.planned).map(|state| state.aggregate.values(table, slots)).collect()
    }

    /// The rows in each slot, accumulated ones less those that were taken back; absent where they are not counted.
    pub(crate) fn counts(&mut self, table: &mut KeyedTable, slots: &[u32]) -> Result<Option<Vec<i64>>, OperatorError> {
        let Some(state) = self.count_star.and_then(|call| self.calls.get_mut(call)) else { return Ok(None) };
        counts(&state.aggregate.values(table, slots)?).map(Some)
    }

    /// The results and counts of parts, as if the slots of each were merged in this order. State stays as it is.
    pub(crate) fn merged_values(
        &mut self,
        table: &mut KeyedTable,
        parts: &Parts<'_>,
    ) -> Result<(Vec<ArrayRef>, Option<Vec<i64>>), OperatorError> {
        let mut columns: Vec<Option<ArrayRef>> = self.calls.iter().map(|_| None).collect();
        for (state, column) in self.calls.iter_mut().zip(&mut columns).filter(|(state, _)| !state.call.distinct) {
            *column = Some(state.aggregate.merged_values(table, parts)?);
        }
        for distinct in &mut self.distincts {
            let merged = distinct.values.union(table, parts)?;
            for (call, actions) in distinct.calls.iter().zip(&merged.actions) {
                let aggregate = &mut self.calls[*call].aggregate;
                columns[*call] =
                    Some(aggregate.fresh_values(parts.ends.len(), &merged.groups, &merged.values, actions)?);
            }
        }
        let missing = || OperatorError::Internal("a call without values".to_owned());
        let mut columns = columns.into_iter().collect::<Option<Vec<_>>>().ok_or_else(missing)?;
        let counted = self.count_star.and_then(|call| columns.get(call)).map(counts).transpose()?;
        columns.truncate(self.planned);
        Ok((columns, counted))
    }

    /// The accumulators of slots, as they lie between two phases: the columns of all calls, and one per DISTINCT set behind them; a row per slot.
    pub(crate) fn accumulators(
        &mut self,
        table: &mut KeyedTable,
        slots: &[u32],
    ) -> Result<Vec<ArrayRef>, OperatorError> {
        let mut columns = Vec::new();
        for state in &mut self.calls {
            if state.call.distinct {
                // nobody reads them: the call takes values when its set is merged
                let types = column_types(&state.call).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
                columns.extend(types.iter().map(|ty| new_null_array(ty, slots.len())));
            } else {
                state.aggregate.accumulators(table, slots, &mut columns)?;
            }
        }
        for distinct in &mut self.distincts {
            columns.push(distinct.values.cells(table, slots)?);
        }
        Ok(columns)
    }

    /// Merges accumulators, row by row, into the slots that [`SlotAggregates::touched`] has for them. Those of all calls are the columns
    /// of the batch from `first` on.
    pub(crate) fn fold_accumulators(
        &mut self,
        table: &mut KeyedTable,
        batch: &Batch,
        first: usize,
    ) -> Result<(), OperatorError> {
        for (state, columns) in self.calls.iter_mut().zip(&self.columns).filter(|(state, _)| !state.call.distinct) {
            let columns = columns.clone().map(|place| column(batch, first + place).cloned());
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            state.aggregate.fold_accumulators(table, &self.rows.touched, &columns)?;
        }
        let first_set = first + self.columns.last().map_or(0, |columns| columns.end);
        for (number, distinct) in self.distincts.iter_mut().enumerate() {
            let MergedRows { groups, values, actions } =
                distinct.values.merge_cells(table, &self.rows.touched, column(batch, first_set + number)?)?;
            let touched = Touched { groups, slots: self.rows.touched.slots.clone() };
            for (call, actions) in distinct.calls.iter().zip(&actions) {
                self.calls[*call].aggregate.fold(table, &touched, Some(&values), Some(actions))?;
            }
        }
        Ok(())
    }

    /// Bytes of scratch.
    pub(crate) fn bytes(&self) -> usize {
        let Touched { groups, slots } = &self.rows.touched;
        (groups.capacity() + slots.capacity()) * size_of::<u32>() + self.rows.actions.capacity()
    }
}

/// The values of COUNT(*).
fn counts(column: &ArrayRef) -> Result<Vec<i64>, OperatorError> {
    let counts = column.as_primitive_opt::<Int64Type>().filter(|counts| counts.null_count() == 0);
    let counts = counts.ok_or_else(|| OperatorError::Internal("COUNT(*) is not a number".to_owned()))?;
    Ok(counts.values().to_vec())
}

/// The rows of some columns at these positions.
pub(crate) fn take_rows(columns: &[ArrayRef], rows: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
    let rows = UInt32Array::from(rows.to_vec());
    columns.iter().map(|column| Ok(take(column, &rows, None)?)).collect()
}

#[cfg(test)]
mod tests;
