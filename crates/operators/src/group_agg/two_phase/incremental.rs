//! The phase between local and global where DISTINCT aggregates are split over buckets: it merges by the partial key, which has the bucket, and
//! hands on by the final key, which has not.
//!
//! Only DISTINCT sets are in state, by the partial key. What goes out are accumulators of what the bundle added: DISTINCT calls go by the
//! values that the merge into state made known to them.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::IncrementalGroupAggregate;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::{KeyedState, KeyedTable, StateContext};

use super::frame::Frame;
use super::layout::{Phase, Plan, check_columns};
use super::numbers::Numbers;
use super::order::check_buckets;
use super::partial::{Numbered, Partial, partial};
use super::ready::Ready;
use super::state::stored_set;
use super::view::StoredSet;
use crate::bundle::{Boundary, BundleMetrics, FlushReason, Split};
use crate::group_agg::rows::{ACCUMULATE, Rows};
use crate::group_agg::support::FunctionKind;
use crate::group_agg::{TABLE, column};
use crate::keys::Keys;
use crate::{Operator, OperatorError, Residence};

/// Whether [`IncrementalGroupAgg`] makes of rows of `input` the rows of `output` exactly as Flink does.
pub fn supports_incremental(
    spec: &IncrementalGroupAggregate,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    resolve(spec, input, output).map(drop)
}

fn resolve(
    spec: &IncrementalGroupAggregate,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(Phase, Keys), Reason> {
    let phase = Phase::resolve(&Plan {
        grouping: &spec.partial_grouping,
        input,
        calls: &spec.calls,
        call_input: &spec.local_input,
        need_retraction: spec.need_retraction,
        count_star: None,
        ttl_ms: spec.ttl_ms,
        bundle_size: spec.mini_batch_size,
        accumulators: input,
    })?;
    phase.calls.iter().try_for_each(check_buckets)?;
    check_columns(phase.columns.iter().flatten(), output, spec.final_grouping.len())?;
    let keys = phase.part_of_key(&spec.final_grouping)?;
    Ok((phase, keys))
}

/// The incremental aggregate. Output: per bundle and final key one +I, in first-touch order; the final key, then the accumulators.
///
/// Follows: MiniBatchIncrementalGroupAggFunction, Flink 2.2. Differences: none per key.
#[derive(Debug)]
pub struct IncrementalGroupAgg {
    keys: Keys,
    boundary: Boundary,
    frame: Frame,
    merging: Merging,
}

/// What bundles are merged into.
#[derive(Debug)]
struct Merging {
    /// Of the frame's key columns: the partial key, and the final one.
    keys: Keys,
    final_keys: Keys,
    final_columns: Vec<usize>,
    final_numbers: Numbers,
    table: KeyedTable,
    calls: Vec<CallState>,
    sets: Vec<SetState>,
    rows: Rows,
    /// Numbers of the frame at the end of each of its bundles.
    bundles: Vec<usize>,
    ready: Ready,
}

#[derive(Debug)]
struct CallState {
    partial: Box<dyn Partial>,
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
    calls: Vec<usize>,
}

impl IncrementalGroupAgg {
    /// An aggregate with empty state. Errors if [`supports_incremental`] refuses it.
    pub fn try_new(
        spec: &IncrementalGroupAggregate,
        input: &LogicalType,
        output: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let internal = |reason: Reason| OperatorError::Internal(reason.to_string());
        let (phase, final_keys) = resolve(spec, input, output).map_err(internal)?;
        let mut table = KeyedTable::new(TABLE, phase.keys.layout(), phase.ttl, context);
        let mut calls = Vec::with_capacity(phase.calls.len());
        let mut first = spec.partial_grouping.len();
        for (call, types) in phase.calls.iter().zip(phase.columns) {
            let columns = first..first + types.len();
            first = columns.end;
            let columns = if call.distinct { 0..0 } else { columns };
            calls.push(CallState { partial: partial(call).map_err(internal)?, columns, types });
        }
        let mut sets = Vec::with_capacity(phase.sets.len());
        for (place, share) in phase.sets.into_iter().enumerate() {
            let mut of_calls = share.calls.iter().filter_map(|call| phase.calls.get(*call));
            let wanted = of_calls.any(|call| call.function != FunctionKind::Count);
            let values = stored_set(&share.shared, phase.retraction, wanted, &mut table).map_err(internal)?;
            sets.push(SetState { values, column: first + place, calls: share.calls });
        }
        let merging = Merging {
            keys: phase.frame_keys,
            final_keys,
            final_columns: spec.final_grouping.clone(),
            final_numbers: Numbers::new(),
            table,
            calls,
            sets,
            rows: Rows::default(),
            bundles: Vec::new(),
            ready: Ready::default(),
        };
        Ok(Self { keys: phase.keys, boundary: Boundary::new(phase.bundle_size), frame: Frame::new(), merging })
    }
}

impl Merging {
    /// Takes rows of the input into the frame.
    fn merge(&mut self, rows: &Numbered<'_>, batch: &Batch) -> Result<(), OperatorError> {
        for call in self.calls.iter_mut().filter(|call| !call.columns.is_empty()) {
            let columns = call.columns.clone().zip(&call.types).map(|(place, ty)| accumulator(batch, place, ty));
            call.partial.merge(rows, &columns.collect::<Result<Vec<_>, _>>()?)?;
        }
        self.sets.iter_mut().try_for_each(|set| set.values.merge(rows, column(batch, set.column)?))
    }

    /// Merges the frame into state, and its buckets with each other.
    fn end_frame(&mut self, frame: &mut Frame, boundary: &mut Boundary) -> Result<(), OperatorError> {
        let count = frame.count();
        frame.take_bundles(&mut self.bundles);
        let keys = frame.end()?;
        self.keys.load(&keys, count, &mut self.table, &mut self.rows.touched)?;
        self.rows.actions.clear();
        self.rows.actions.resize(count, ACCUMULATE);
        for SetState { values, calls, .. } in &mut self.sets {
            let deltas = values.end_frame(&mut self.table, &self.rows)?;
            let rows = Numbered { rows: 0..deltas.numbers.len(), numbers: &deltas.numbers, count };
            for (call, actions) in calls.iter().zip(&deltas.actions) {
                if let Some(call) = self.calls.get_mut(*call) {
                    call.partial.fold(&rows, deltas.values.as_ref(), Some(actions))?;
                }
            }
        }
        self.table.commit(&self.rows.touched.slots);
        self.forget_empty()?;

        let final_keys: Vec<ArrayRef> = self.final_columns.iter().filter_map(|key| keys.get(*key).cloned()).collect();
        let (mut numbers, mut first_rows) = (Vec::with_capacity(count), Vec::new());
        let encoded = self.final_keys.encode(&final_keys, count)?;
        let mut start = 0;
        for end in &self.bundles {
            self.final_numbers.number(&encoded, start..*end, &mut numbers, &mut first_rows)?;
            self.final_numbers.end_bundle();
            start = *end;
        }
        let rows = self.final_numbers.count();
        self.final_numbers.end_frame();

        let first_rows = UInt32Array::from(first_rows);
        let gathered = final_keys.iter().map(|column| take(column, &first_rows, None));
        let mut columns = gathered.collect::<Result<Vec<_>, _>>()?;
        for call in &mut self.calls {
            call.partial.regroup(&numbers, rows)?;
            call.partial.take_columns(&mut columns)?;
        }
        self.ready.take(columns, rows, boundary)
    }

    /// Forgets the keys without values, of which there is no state.
    fn forget_empty(&mut self) -> Result<(), OperatorError> {
        for slot in &self.rows.touched.slots {
            let mut filled = false;
            for set in &self.sets {
                filled = filled || set.values.has_values(&mut self.table, *slot)?;
            }
            if !filled {
                self.table.remove(*slot)?;
            }
        }
        Ok(())
    }
}

/// An accumulator column. Errors if it is not what the plan promises.
fn accumulator(batch: &Batch, place: usize, ty: &DataType) -> Result<ArrayRef, OperatorError> {
    let array = column(batch, place)?;
    if array.data_type() != ty {
        let found = array.data_type();
        return Err(OperatorError::Input(format!("accumulator column {place} is of type {found}, not {ty}")));
    }
    Ok(array.clone())
}

impl Operator for IncrementalGroupAgg {
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
        self.merging.ready.pull()
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
        let calls: usize = self.merging.calls.iter().map(|call| call.partial.bytes()).sum();
        let sets: usize = self.merging.sets.iter().map(|set| set.values.bytes()).sum();
        self.frame.bytes() + calls + sets + self.merging.ready.bytes()
    }
}
