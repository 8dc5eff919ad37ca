//! The global phase: accumulators of bundles, merged first with each other and then, once per bundle and key, into state.
//!
//! COUNT(*), or the sum of counts that Flink makes of it where DISTINCT aggregates are split, is the record count of its group and has no
//! accumulator of its own. Over rows that retract a group with a record count of 0 is
//! gone; any other is there, also one that retracted more than it has. Over rows that insert only a group stays.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Int64Type};
use streamfusion_plan::Reason;
use streamfusion_plan::node::GlobalGroupAggregate;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::codec::{Mapped, Required};
use streamfusion_state::{ColumnId, KeyedState, KeyedTable, StateContext, StateTtl};

use super::frame::Frame;
use super::layout::{Phase, Plan};
use super::partial::Numbered;
use super::state::{Merged, merged, stored_set};
use super::view::StoredSet;
use crate::bundle::{Boundary, BundleMetrics, FlushReason, Split};
use crate::group_agg::output::{Changelog, UpdateBefore};
use crate::group_agg::rows::{ACCUMULATE, EMPTY, FIRST, Rows};
use crate::group_agg::support::{FunctionKind, Retraction};
use crate::group_agg::versions::Versions;
use crate::group_agg::{TABLE, column};
use crate::keys::Keys;
use crate::{Operator, OperatorError, Residence};

/// Whether [`GlobalGroupAgg`] merges rows of `input` exactly as Flink does.
pub fn supports_global(spec: &GlobalGroupAggregate, input: &LogicalType) -> Result<(), Reason> {
    resolve(spec, input).map(drop)
}

fn resolve(spec: &GlobalGroupAggregate, input: &LogicalType) -> Result<Phase, Reason> {
    Phase::resolve(&Plan {
        grouping: &spec.grouping,
        input,
        calls: &spec.calls,
        call_input: &spec.local_input,
        need_retraction: spec.need_retraction,
        count_star: spec.count_star,
        ttl_ms: spec.ttl_ms,
        bundle_size: spec.mini_batch_size,
        accumulators: input,
    })
}

/// The global aggregate. Output columns: the grouping columns, then one column per call of the plan.
///
/// Follows: MiniBatchGlobalGroupAggFunction, RecordCounter, Flink 2.2. Differences: none per key.
#[derive(Debug)]
pub struct GlobalGroupAgg {
    keys: Keys,
    boundary: Boundary,
    frame: Frame,
    merging: Merging,
}

/// What bundles are merged into.
#[derive(Debug)]
struct Merging {
    /// Of the frame's key columns.
    keys: Keys,
    table: KeyedTable,
    records: Records,
    /// Without the call that is the record count.
    calls: Vec<CallState>,
    sets: Vec<SetState>,
    retraction: Retraction,
    ttl: Option<StateTtl>,
    update_before: UpdateBefore,
    rows: Rows,
    changelog: Option<Changelog>,
}

#[derive(Debug)]
struct CallState {
    merged: Box<dyn Merged>,
    /// Its accumulator columns in the input; none if it goes by a DISTINCT set.
    columns: std::ops::Range<usize>,
    types: Vec<DataType>,
}

/// A DISTINCT set, and the calls that share it.
#[derive(Debug)]
struct SetState {
    values: Box<dyn StoredSet>,
    /// Its column in the input.
    column: usize,
    /// Positions among the states of calls.
    calls: Vec<usize>,
}

/// The record counts of groups: COUNT(*), or 1 where there is none.
#[derive(Debug)]
struct Records {
    state: ColumnId<i64>,
    /// Its column in the input.
    column: Option<usize>,
    /// Its place among the calls of the plan, if it is one.
    call: Option<usize>,
    /// What each number of the frame adds.
    added: Vec<i64>,
}

impl GlobalGroupAgg {
    /// An aggregate with empty state. Errors if [`supports_global`] refuses it.
    pub fn try_new(
        spec: &GlobalGroupAggregate,
        input: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let internal = |reason: Reason| OperatorError::Internal(reason.to_string());
        let phase = resolve(spec, input).map_err(internal)?;
        let mut table = KeyedTable::new(TABLE, phase.keys.layout(), phase.ttl, context);
        let codec = Mapped::new(
            Required::new("", DataType::Int64),
            |records: &i64| *records,
            |records| if records == 0 { Err("a group without records") } else { Ok(records) },
        );
        let state = table.add_column("records", None, codec, 0);
        let mut records = Records { state, column: None, call: None, added: Vec::new() };
        let mut calls = Vec::with_capacity(phase.calls.len());
        // The numbers of the calls that have a state.
        let mut states = Vec::with_capacity(phase.calls.len());
        let mut first = spec.grouping.len();
        for (number, (call, types)) in phase.calls.iter().zip(phase.columns).enumerate() {
            let columns = first..first + types.len();
            first = columns.end;
            if phase.count_star == Some(number) {
                records.column = Some(columns.start);
                records.call = (number < phase.planned).then_some(number);
                continue;
            }
            let merged = merged(call, &mut table, format!("call{number}")).map_err(internal)?;
            let columns = if call.distinct { 0..0 } else { columns };
            states.push(number);
            calls.push(CallState { merged, columns, types });
        }
        let mut sets = Vec::with_capacity(phase.sets.len());
        for (place, share) in phase.sets.iter().enumerate() {
            let of_calls = share.calls.iter().filter_map(|call| phase.calls.get(*call));
            let wanted = of_calls.into_iter().any(|call| call.function != FunctionKind::Count);
            let values = stored_set(&share.shared, phase.retraction, wanted, &mut table).map_err(internal)?;
            let positions = share.calls.iter().filter_map(|call| states.iter().position(|state| state == call));
            sets.push(SetState { values, column: first + place, calls: positions.collect() });
        }
        let merging = Merging {
            keys: phase.frame_keys,
            table,
            records,
            calls,
            sets,
            retraction: phase.retraction,
            ttl: phase.ttl,
            update_before: if spec.generate_update_before { UpdateBefore::Emit } else { UpdateBefore::Omit },
            rows: Rows::default(),
            changelog: None,
        };
        Ok(Self { keys: phase.keys, boundary: Boundary::new(phase.bundle_size), frame: Frame::new(), merging })
    }
}

impl Merging {
    /// Takes rows of the input into the frame.
    fn merge(&mut self, rows: &Numbered<'_>, batch: &Batch) -> Result<(), OperatorError> {
        self.records.merge(rows, batch)?;
        self.calls.iter_mut().try_for_each(|call| call.merge(rows, batch))?;
        self.sets.iter_mut().try_for_each(|set| set.values.merge(rows, column(batch, set.column)?))
    }

    /// Merges the frame into state.
    fn end_frame(&mut self, frame: &mut Frame, boundary: &mut Boundary) -> Result<(), OperatorError> {
        let count = frame.count();
        let keys = frame.end()?;
        self.keys.load(&keys, count, &mut self.table, &mut self.rows.touched)?;
        let records = self.table.column(self.records.state)?;
        self.rows.counts.clear();
        self.rows.counts.extend(self.rows.touched.slots.iter().map(|slot| *records.get(*slot)));
        let counted = self.count(count);

        for SetState { values, calls, .. } in &mut self.sets {
            let deltas = values.end_frame(&mut self.table, &self.rows)?;
            let rows = Numbered { rows: 0..deltas.numbers.len(), numbers: &deltas.numbers, count };
            for (call, actions) in calls.iter().zip(&deltas.actions) {
                if let Some(call) = self.calls.get_mut(*call) {
                    call.merged.fold(&rows, deltas.values.as_ref(), Some(actions))?;
                }
            }
        }

        let mut changed = vec![self.ttl.is_some(); count];
        if counted.is_some() {
            self.records.mark(&mut changed);
        }
        let mut versions = Vec::with_capacity(self.calls.len() + 1);
        for call in &mut self.calls {
            versions.push(call.merged.end_frame(&mut self.table, &self.rows, &mut changed)?);
        }
        if let (Some(call), Some(counted)) = (self.records.call, counted) {
            versions.insert(call, counted);
        }
        self.records.added.clear();
        self.commit()?;
        let changelog = Changelog::new(keys, versions, &self.rows.actions, &changed, self.update_before);
        boundary.emitted(changelog.changes(), changelog.len());
        self.changelog = Some(changelog);
        Ok(())
    }

    /// Counts records: brings `rows` up to date and returns the values of COUNT(*), if the plan has it.
    fn count(&mut self, numbers: usize) -> Option<Versions> {
        let Self { rows, records, retraction, .. } = self;
        let mut versions = Vec::with_capacity(2 * numbers);
        rows.actions.clear();
        for (number, group) in rows.touched.groups.iter().enumerate() {
            let count = &mut rows.counts[*group as usize];
            let before = *count;
            *count = match records.added.get(number) {
                Some(added) => before.wrapping_add(*added),
                None => 1,
            };
            versions.extend([before, *count]);
            let first = if before == 0 { FIRST } else { 0 };
            let empty = if *count == 0 && *retraction == Retraction::Applied { EMPTY } else { 0 };
            rows.actions.push(ACCUMULATE | first | empty);
        }
        records.call.map(|_| Versions::Direct(Arc::new(Int64Array::new(ScalarBuffer::from(versions), None))))
    }

    /// Writes the record counts back and forgets the groups that are gone.
    fn commit(&mut self) -> Result<(), OperatorError> {
        let records = self.table.column(self.records.state)?;
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

impl Records {
    /// Takes the counts of rows into the frame.
    fn merge(&mut self, rows: &Numbered<'_>, batch: &Batch) -> Result<(), OperatorError> {
        let Some(place) = self.column else { return Ok(()) };
        let array = column(batch, place)?;
        let counts = array.as_primitive_opt::<Int64Type>().filter(|counts| counts.null_count() == 0);
        let counts = counts.ok_or_else(|| {
            OperatorError::Input(format!("record counts of type {} or with NULLs", array.data_type()))
        })?;
        self.added.resize(rows.count, 0);
        for (row, number) in rows.rows.clone().zip(rows.numbers) {
            let added = &mut self.added[*number as usize];
            *added = added.wrapping_add(counts.value(row));
        }
        Ok(())
    }

    /// Sets `changed` for the numbers that change the count.
    fn mark(&self, changed: &mut [bool]) {
        for (changed, added) in changed.iter_mut().zip(&self.added) {
            *changed |= *added != 0;
        }
    }
}

impl CallState {
    /// Takes accumulators into the frame.
    fn merge(&mut self, rows: &Numbered<'_>, batch: &Batch) -> Result<(), OperatorError> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.types.len());
        for (place, ty) in self.columns.clone().zip(&self.types) {
            let array = column(batch, place)?;
            if array.data_type() != ty {
                let found = array.data_type();
                return Err(OperatorError::Input(format!("accumulator column {place} is of type {found}, not {ty}")));
            }
            columns.push(array.clone());
        }
        self.merged.merge(rows, &columns)
    }
}

impl Operator for GlobalGroupAgg {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let key_columns = self.keys.columns(&batch)?;
        let keys = self.keys.encode(&key_columns, batch.num_rows())?;
        let mut split = Split::new(batch.clone());
        while let Some(rows) = self.frame.take(&mut split, &mut self.boundary, &keys, &key_columns)? {
            self.merging.merge(&rows, &batch)?;
            if self.frame.has_ended() {
                self.merging.end_frame(&mut self.frame, &mut self.boundary)?;
            }
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let Some(changelog) = &mut self.merging.changelog else { return Ok(None) };
        let batch = changelog.pull()?;
        if batch.is_none() {
            self.merging.changelog = None;
        }
        Ok(batch)
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if self.frame.flush(&mut self.boundary, reason) {
            self.merging.end_frame(&mut self.frame, &mut self.boundary)?;
        }
        Ok(())
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.merging.table)
    }

    fn residence(&self) -> Residence {
        Residence::Cached
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        Some(self.boundary.metrics())
    }

    fn bundle_bytes(&self) -> usize {
        let Merging { calls, sets, records, .. } = &self.merging;
        let calls: usize = calls.iter().map(|call| call.merged.bytes()).sum();
        let sets: usize = sets.iter().map(|set| set.values.bytes()).sum();
        self.frame.bytes() + calls + sets + records.added.capacity() * size_of::<i64>()
    }
}
