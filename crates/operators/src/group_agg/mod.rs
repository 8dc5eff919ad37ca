//! GROUP BY without a window, one changelog row after the other as Flink emits them.
//!
//! A batch goes through in columns: groups of its rows (`keys`), record counts (`rows`), per call the values before and
//! after each row (`fold`), and from those the changelog (`output`). Only the loops of `fold` and `distinct` touch the
//! state of the calls.
//!
//! Follows: GroupAggFunction, GroupAggHelper, AggsHandlerCodeGenerator, Flink 2.2. Differences: none in the changelog. A
//! batch that fails leaves the operator unusable, as the failed task does.

mod avg;
mod count;
mod dispatch;
mod distinct;
mod extremum;
mod fold;
mod keys;
mod native;
mod number;
mod output;
mod position;
mod rows;
mod sum;
mod support;
#[cfg(test)]
mod tests;
mod value;
mod versions;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use streamfusion_plan::Reason;
use streamfusion_plan::node::GroupAggregate;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::PagedVec;

use self::distinct::{CALLS_PER_TABLE, Distinct};
use self::fold::Aggregate;
use self::keys::Keys;
use self::output::{Changelog, UpdateBefore};
use self::rows::{ACCUMULATE, RETRACT, Rows};
use self::support::{Call, Retraction};
use crate::{Operator, OperatorError};

/// Whether [`GroupAgg`] computes this aggregate over rows of `input` exactly as Flink does.
pub fn supports(spec: &GroupAggregate, input: &LogicalType) -> Result<(), Reason> {
    support::resolve(spec, input).map(|_| ())
}

/// The immediate group aggregate. Output columns: the grouping columns, then one column per aggregate call.
#[derive(Debug)]
pub struct GroupAgg {
    keys: Keys,
    /// Records per group, by slot; 0 for a slot that is not in use. Flink's COUNT(*), inserted where a plan has none.
    counts: PagedVec<i64>,
    calls: Vec<CallState>,
    distincts: Vec<DistinctState>,
    retraction: Retraction,
    update_before: UpdateBefore,
    rows: Rows,
    changed: Vec<bool>,
    changelog: Option<Changelog>,
}

#[derive(Debug)]
struct CallState {
    call: Call,
    aggregate: Box<dyn Aggregate>,
    /// What each row of the batch does for this call, where that is not what it does for all.
    actions: Vec<u8>,
}

/// The distinct table that some calls over one argument share.
#[derive(Debug)]
struct DistinctState {
    column: usize,
    calls: Vec<usize>,
    table: Box<dyn Distinct>,
}

impl GroupAgg {
    /// An aggregate with empty state for rows of the type `input`.
    ///
    /// Errors if [`supports`] refuses the aggregate.
    pub fn try_new(spec: &GroupAggregate, input: &LogicalType) -> Result<Self, OperatorError> {
        let resolved = support::resolve(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let calls = resolved
            .calls
            .into_iter()
            .map(|call| Ok(CallState { aggregate: dispatch::aggregate(&call)?, call, actions: Vec::new() }))
            .collect::<Result<Vec<_>, OperatorError>>()?;
        let retraction = if spec.need_retraction { Retraction::Applied } else { Retraction::None };
        Ok(Self {
            keys: resolved.keys,
            counts: PagedVec::new(),
            distincts: share_distinct_tables(&calls, retraction)?,
            calls,
            retraction,
            update_before: if spec.generate_update_before { UpdateBefore::Emit } else { UpdateBefore::Omit },
            rows: Rows::default(),
            changed: Vec::new(),
            changelog: None,
        })
    }

    /// Bytes that the state of this operator takes, without strings and sorted maps that aggregates own.
    pub fn state_bytes(&self) -> usize {
        let calls: usize = self.calls.iter().map(|state| state.aggregate.bytes()).sum();
        let distincts: usize = self.distincts.iter().map(|distinct| distinct.table.bytes()).sum();
        self.keys.bytes() + self.counts.bytes() + calls + distincts
    }

    /// Decides what each row does for the calls with a filter or DISTINCT.
    fn restrict(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        for state in self.calls.iter_mut().filter(|state| !state.call.distinct) {
            if let Some(filter) = state.call.filter {
                let passes = passing(batch, filter)?;
                state.actions.clear();
                state.actions.extend(
                    self.rows
                        .actions
                        .iter()
                        .zip(&passes)
                        .map(|(action, passes)| if passes { *action } else { action & !(ACCUMULATE | RETRACT) }),
                );
            }
        }
        for distinct in &mut self.distincts {
            let calls = &mut self.calls;
            let filters = distinct
                .calls
                .iter()
                .map(|call| calls[*call].call.filter.map(|filter| passing(batch, filter)).transpose())
                .collect::<Result<Vec<_>, _>>()?;
            let mut actions: Vec<Vec<u8>> =
                distinct.calls.iter().map(|call| std::mem::take(&mut calls[*call].actions)).collect();
            distinct.table.reduce(&self.rows, column(batch, distinct.column)?, &filters, &mut actions)?;
            for (call, actions) in distinct.calls.iter().zip(actions) {
                calls[*call].actions = actions;
            }
        }
        Ok(())
    }

    /// Writes the record counts back and forgets the groups that are gone.
    fn commit_counts(&mut self) -> Result<(), OperatorError> {
        for (slot, count) in self.rows.slots.iter().zip(&self.rows.counts) {
            *self.counts.get_mut(*slot) = *count;
            if *count == 0 {
                self.keys.remove(*slot)?;
            }
        }
        Ok(())
    }
}

impl Operator for GroupAgg {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let num_rows = batch.num_rows();
        if num_rows == 0 {
            return Ok(());
        }
        if i32::try_from(num_rows).is_err() {
            return Err(OperatorError::Input(format!("a batch of {num_rows} rows")));
        }
        let keys = self.keys.columns(&batch)?;
        self.keys.assign(&keys, num_rows, &mut self.rows)?;
        self.counts.grow(self.rows.slot_bound, &0);
        self.rows.counts.clear();
        self.rows.counts.extend(self.rows.slots.iter().map(|slot| *self.counts.get(*slot)));
        self.rows.count(&batch, self.retraction)?;

        self.restrict(&batch)?;
        self.changed.clear();
        self.changed.resize(num_rows, false);
        let mut versions = Vec::with_capacity(self.calls.len());
        for CallState { call, aggregate, actions } in &mut self.calls {
            let restricted = call.distinct || call.filter.is_some();
            let actions = if restricted { actions } else { &self.rows.actions };
            let argument = call.argument.as_ref().map(|argument| column(&batch, argument.column)).transpose()?;
            if let (Some(array), Some(argument)) = (argument, &call.argument)
                && array.data_type() != &argument.arrow
            {
                return Err(OperatorError::Input(format!(
                    "column {} is of type {}, not {}",
                    argument.column,
                    array.data_type(),
                    argument.arrow
                )));
            }
            versions.push(aggregate.fold(&self.rows, argument, actions, &mut self.changed)?);
        }
        self.commit_counts()?;
        self.changelog = Some(Changelog::new(keys, versions, &self.rows.actions, &self.changed, self.update_before));
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let Some(changelog) = &mut self.changelog else { return Ok(None) };
        let batch = changelog.pull()?;
        if batch.is_none() {
            self.changelog = None;
        }
        Ok(batch)
    }
}

fn share_distinct_tables(calls: &[CallState], retraction: Retraction) -> Result<Vec<DistinctState>, OperatorError> {
    let mut distincts: Vec<DistinctState> = Vec::new();
    for (position, state) in calls.iter().enumerate().filter(|(_, state)| state.call.distinct) {
        let Some(argument) = &state.call.argument else { continue };
        let shared = distincts
            .iter_mut()
            .find(|distinct| distinct.column == argument.column && distinct.calls.len() < CALLS_PER_TABLE);
        match shared {
            Some(distinct) => distinct.calls.push(position),
            None => distincts.push(DistinctState {
                column: argument.column,
                calls: vec![position],
                table: dispatch::distinct(&argument.arrow, retraction)?,
            }),
        }
    }
    Ok(distincts)
}

fn column(batch: &Batch, column: usize) -> Result<&ArrayRef, OperatorError> {
    let columns = batch.columns();
    columns.get(column).ok_or_else(|| OperatorError::Input(format!("column {column} of {} columns", columns.len())))
}

/// The rows for which the filter column is TRUE.
fn passing(batch: &Batch, filter: usize) -> Result<BooleanBuffer, OperatorError> {
    let array = column(batch, filter)?;
    let array = array.as_boolean_opt().ok_or_else(|| {
        OperatorError::Input(format!("filter column {filter} is of type {}, not BOOLEAN", array.data_type()))
    })?;
    Ok(match array.nulls() {
        None => array.values().clone(),
        Some(nulls) => array.values() & nulls.inner(),
    })
}
