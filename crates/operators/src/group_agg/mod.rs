//! GROUP BY without a window: row by row as Flink emits it, or bundle by bundle.
//!
//! A batch goes through in columns: groups of its rows ([`Keys`]), record counts (`rows`), per call the values before and
//! after each row (`fold`), and from those the changelog (`output`). Only the loops of `fold` and `distinct` touch the
//! state of the calls. With mini-batch, what a row is to the changelog a bundle's transition of a group is (`frontier`), and values are
//! asked for only before and after it (`results`); `bundles` says when.
//!
//! Follows: GroupAggFunction, MiniBatchGroupAggFunction, GroupAggHelper, AggsHandlerCodeGenerator, Flink 2.2. Differences: none in the
//! changelog, as long as the clock does not go back: then FIRST_VALUE and LAST_VALUE over rows that retract still go by arrival, where Flink goes
//! by the clock, and a state time-to-live may have removed other values than Flink's; and that of the `frontier`. A batch that fails
//! leaves the operator unusable, as the failed task does.

mod avg;
mod bundles;
mod count;
mod dispatch;
mod distinct;
mod extremum;
mod fold;
mod frontier;
mod lag;
mod native;
mod number;
mod output;
mod position;
mod results;
mod rows;
mod running;
mod slot_maps;
mod slots;
mod sum;
mod support;
#[cfg(test)]
mod tests;
mod two_phase;
mod value;
mod versions;

pub(crate) use rows::is_accumulate;
pub(crate) use running::{Emit, Running, RunningWindow, Steps};
pub(crate) use slots::{Merging, Parts, SlotAggregates, SlotCalls, take_rows};
pub use two_phase::{
    GlobalGroupAgg, IncrementalGroupAgg, LocalGroupAgg, supports_global, supports_incremental, supports_local,
};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::GroupAggregate;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::canonical::Sections;
use streamfusion_state::codec::{Mapped, Required};
use streamfusion_state::{
    ColumnId, KeyedState, KeyedTable, RestoreError, StateContext, StateError, StateSnapshot, StateTtl, Store,
};

use self::bundles::Bundles;
use self::distinct::{Distinct, Share};
use self::fold::Aggregate;
use self::output::{Changelog, UpdateBefore};
use self::rows::{ACCUMULATE, RETRACT, Rows};
use self::support::{Call, Retraction};
use crate::bundle::{BundleMetrics, FlushReason};
use crate::keys::Keys;
use crate::{Operator, OperatorError, Residence};

/// Name of the table, and of its main section.
const TABLE: &str = "groups";

/// Whether [`GroupAgg`] computes this aggregate over rows of `input` exactly as Flink does.
pub fn supports(spec: &GroupAggregate, input: &LogicalType) -> Result<(), Reason> {
    support::resolve(spec, input).map(|_| ())
}

/// The group aggregate, immediate or in bundles. Output columns: the grouping columns, then one column per aggregate call.
#[derive(Debug)]
pub struct GroupAgg {
    groups: Groups,
    /// Absent without mini-batch.
    bundles: Option<Bundles>,
    changelog: Option<Changelog>,
}

/// The groups with what is kept of them.
#[derive(Debug)]
struct Groups {
    keys: Keys,
    table: KeyedTable,
    /// Records per group, not 0 between batches. Flink's COUNT(*), inserted where a plan has none.
    records: ColumnId<i64>,
    calls: Vec<CallState>,
    distincts: Vec<DistinctState>,
    retraction: Retraction,
    ttl: Option<StateTtl>,
    update_before: UpdateBefore,
    rows: Rows,
    changed: Vec<bool>,
}

/// A call with what computes it.
#[derive(Debug)]
struct CallState<A: ?Sized = dyn Aggregate> {
    call: Call,
    aggregate: Box<A>,
    /// What each row of the batch does for this call, where that is not what it does for all.
    actions: Vec<u8>,
}

impl<A: ?Sized> CallState<A> {
    fn new(call: Call, aggregate: Box<A>) -> Self {
        Self { call, aggregate, actions: Vec::new() }
    }

    /// Whether rows may do something else for this call than for all.
    fn is_restricted(&self) -> bool {
        self.call.distinct || self.call.filter.is_some()
    }

    /// The argument column. Errors if it is not what the plan promises.
    fn argument<'a>(&self, batch: &'a Batch) -> Result<Option<&'a ArrayRef>, OperatorError> {
        let Some(argument) = &self.call.argument else { return Ok(None) };
        let array = column(batch, argument.column)?;
        if array.data_type() != &argument.arrow {
            return Err(OperatorError::Input(format!(
                "column {} is of type {}, not {}",
                argument.column,
                array.data_type(),
                argument.arrow
            )));
        }
        Ok(Some(array))
    }
}

/// The distinct table that some calls over one argument share.
#[derive(Debug)]
struct DistinctState {
    column: usize,
    calls: Vec<usize>,
    values: Box<dyn Distinct>,
}

impl GroupAgg {
    /// An aggregate with empty state for rows of the type `input`.
    ///
    /// Errors if [`supports`] refuses the aggregate.
    pub fn try_new(spec: &GroupAggregate, input: &LogicalType, context: &StateContext) -> Result<Self, OperatorError> {
        let resolved = support::resolve(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let retraction = if spec.need_retraction { Retraction::Applied } else { Retraction::None };
        let mut table = KeyedTable::new(TABLE, resolved.keys.layout(), resolved.ttl, context);
        let codec = Mapped::new(
            Required::new("", DataType::Int64),
            |records: &i64| *records,
            move |records| match retraction {
                // a bundle may leave fewer than none
                Retraction::Applied if records != 0 => Ok(records),
                Retraction::None if records > 0 => Ok(records),
                _ => Err("a group without records"),
            },
        );
        let records = table.add_column("records", None, codec, 0);
        let mut calls = Vec::with_capacity(resolved.calls.len());
        for (number, call) in resolved.calls.into_iter().enumerate() {
            let aggregate = dispatch::aggregate(&call, &mut table, format!("call{number}"))?;
            calls.push(CallState::new(call, aggregate));
        }
        let groups = Groups {
            keys: resolved.keys,
            records,
            distincts: share_distinct_tables(&calls, retraction, &mut table)?,
            table,
            calls,
            retraction,
            ttl: resolved.ttl,
            update_before: if spec.generate_update_before { UpdateBefore::Emit } else { UpdateBefore::Omit },
            rows: Rows::default(),
            changed: Vec::new(),
        };
        let bundles = resolved.bundle_size.map(|size| Bundles::new(size, retraction, resolved.ttl));
        Ok(Self { groups, bundles, changelog: None })
    }
}

impl Groups {
    /// The changelog of a batch, row by row.
    fn push(&mut self, batch: &Batch) -> Result<Changelog, OperatorError> {
        let num_rows = batch.num_rows();
        let keys = self.keys.columns(batch)?;
        self.keys.load(&keys, num_rows, &mut self.table, &mut self.rows.touched)?;
        self.rows.counts.clear();
        self.count_loaded()?;
        self.rows.count(batch, self.retraction)?;
        self.restrict(batch)?;
        self.changed.clear();
        // with a time-to-live, operators behind this one need the refresh
        self.changed.resize(num_rows, self.ttl.is_some());
        let mut versions = Vec::with_capacity(self.calls.len());
        for state in &mut self.calls {
            let argument = state.argument(batch)?;
            let actions = if state.is_restricted() { &state.actions } else { &self.rows.actions };
            versions.push(state.aggregate.fold(&mut self.table, &self.rows, argument, actions, &mut self.changed)?);
        }
        self.commit()?;
        Ok(Changelog::new(keys, versions, &self.rows.actions, &self.changed, self.update_before))
    }

    /// Reads the record counts of keys that were loaded since it was called last.
    fn count_loaded(&mut self) -> Result<(), OperatorError> {
        let records = self.table.column(self.records)?;
        let known = self.rows.counts.len();
        self.rows.counts.extend(self.rows.touched.slots.iter().skip(known).map(|slot| *records.get(*slot)));
        Ok(())
    }

    /// Decides what each row does for the calls with a filter or DISTINCT.
    fn restrict(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        restrict(&mut self.calls, &mut self.distincts, &mut self.table, &self.rows, batch)
    }

    /// Writes the record counts back and forgets the groups that are gone.
    fn commit(&mut self) -> Result<(), OperatorError> {
        let records = self.table.column(self.records)?;
        for (slot, count) in self.rows.touched.slots.iter().zip(&self.rows.counts) {
            records.set(*slot, *count);
        }
        self.table.commit(&self.rows.touched.slots);
        for (slot, count) in self.rows.touched.slots.iter().zip(&self.rows.counts) {
            if *count == 0 {
                self.table.remove(*slot)?;
            }
        }
        Ok(())
    }
}

/// No bundle may be open when its state is asked for: the engine flushes first.
impl KeyedState for GroupAgg {
    fn table(&self) -> &'static str {
        TABLE
    }

    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        self.groups.table.snapshot()
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.groups.table.restore(sections)
    }

    fn bytes(&self) -> usize {
        self.groups.table.bytes()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        KeyedState::attach(&mut self.groups.table, store)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.groups.table.write_back()
    }

    fn evict(&mut self) -> Result<(), StateError> {
        self.groups.table.evict()
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
        match &mut self.bundles {
            Some(bundles) => bundles.push(batch),
            None => self.changelog = Some(self.groups.push(&batch)?),
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            if let Some(changelog) = &mut self.changelog {
                if let Some(batch) = changelog.pull()? {
                    return Ok(Some(batch));
                }
                self.changelog = None;
            }
            let Some(bundles) = &mut self.bundles else { return Ok(None) };
            if !bundles.has_rows() {
                return Ok(None);
            }
            self.changelog = bundles.advance(&mut self.groups)?;
        }
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if let Some(bundles) = &mut self.bundles
            && let Some(changelog) = bundles.flush(&mut self.groups, reason)?
        {
            self.changelog = Some(changelog);
        }
        Ok(())
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }

    fn residence(&self) -> Residence {
        Residence::Cached
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        self.bundles.as_ref().map(Bundles::metrics)
    }

    fn bundle_bytes(&self) -> usize {
        let calls = || self.groups.calls.iter().map(|state| state.aggregate.bundle_bytes());
        self.bundles.as_ref().map_or(0, |bundles| bundles.bytes() + calls().sum::<usize>())
    }
}

/// Decides what each row does for the calls with a filter or DISTINCT.
fn restrict<A: ?Sized>(
    calls: &mut [CallState<A>],
    distincts: &mut [DistinctState],
    table: &mut KeyedTable,
    rows: &Rows,
    batch: &Batch,
) -> Result<(), OperatorError> {
    for state in calls.iter_mut().filter(|state| !state.call.distinct) {
        if let Some(filter) = state.call.filter {
            let passes = passing(batch, filter)?;
            state.actions.clear();
            state.actions.extend(
                rows.actions
                    .iter()
                    .zip(&passes)
                    .map(|(action, passes)| if passes { *action } else { action & !(ACCUMULATE | RETRACT) }),
            );
        }
    }
    for distinct in distincts {
        let filters = distinct
            .calls
            .iter()
            .map(|call| calls[*call].call.filter.map(|filter| passing(batch, filter)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let mut actions: Vec<Vec<u8>> =
            distinct.calls.iter().map(|call| std::mem::take(&mut calls[*call].actions)).collect();
        distinct.values.reduce(table, rows, column(batch, distinct.column)?, &filters, &mut actions)?;
        for (call, actions) in distinct.calls.iter().zip(actions) {
            calls[*call].actions = actions;
        }
    }
    Ok(())
}

fn share_distinct_tables<A: ?Sized>(
    calls: &[CallState<A>],
    retraction: Retraction,
    table: &mut KeyedTable,
) -> Result<Vec<DistinctState>, OperatorError> {
    let shares = distinct::share(calls.iter().map(|state| &state.call));
    let state = |Share { column, calls, shared }| {
        let values = dispatch::distinct(&shared, retraction, table)?;
        Ok(DistinctState { column, calls, values })
    };
    shares.into_iter().map(state).collect()
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
