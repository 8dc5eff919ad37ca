//! The local phase: bundles to accumulators, without state.

use arrow::array::ArrayRef;
use streamfusion_plan::Reason;
use streamfusion_plan::node::LocalGroupAggregate;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};

use super::frame::Frame;
use super::layout::{Phase, Plan};
use super::merge::visit;
use super::partial::{Partial, Stateless};
use crate::bundle::{Boundary, BundleMetrics, FlushReason, Split};
use crate::changelog::{BundleRows, Changes, RowRef};
use crate::group_agg::rows::{ACCUMULATE, RETRACT, is_accumulate};
use crate::group_agg::support::Call;
use crate::group_agg::{column, passing};
use crate::keys::Keys;
use crate::{Operator, OperatorError};

/// Whether [`LocalGroupAgg`] makes of rows of `input` the rows of `output` exactly as Flink does.
pub fn supports_local(spec: &LocalGroupAggregate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    resolve(spec, input, output).map(drop)
}

fn resolve(spec: &LocalGroupAggregate, input: &LogicalType, output: &LogicalType) -> Result<Phase, Reason> {
    Phase::resolve(&Plan {
        grouping: &spec.grouping,
        input,
        calls: &spec.calls,
        call_input: input,
        need_retraction: spec.need_retraction,
        ttl_ms: 0,
        bundle_size: spec.mini_batch_size,
        accumulators: output,
    })
}

/// The local aggregate. Output: per bundle and key one +I, in first-touch order; the grouping columns, then the accumulators.
///
/// Follows: MiniBatchLocalGroupAggFunction, MapBundleOperator, Flink 2.2. Differences: none per key.
#[derive(Debug)]
pub struct LocalGroupAgg {
    keys: Keys,
    calls: Vec<(Call, Box<dyn Partial>)>,
    retracts: bool,
    boundary: Boundary,
    frame: Frame,
    /// What each row does, where rows retract; and for calls with a filter.
    actions: Vec<u8>,
    filtered: Vec<u8>,
    ready: Ready,
}

impl LocalGroupAgg {
    /// An aggregate without an open bundle. Errors if [`supports_local`] refuses it.
    pub fn try_new(
        spec: &LocalGroupAggregate,
        input: &LogicalType,
        output: &LogicalType,
    ) -> Result<Self, OperatorError> {
        let phase = resolve(spec, input, output).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let partial = |call: Call| {
            let partial = visit(&call, Stateless).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
            Ok((call, partial))
        };
        Ok(Self {
            keys: phase.keys,
            calls: phase.calls.into_iter().map(partial).collect::<Result<_, OperatorError>>()?,
            retracts: spec.need_retraction,
            boundary: Boundary::new(phase.bundle_size),
            frame: Frame::new(),
            actions: Vec::new(),
            filtered: Vec::new(),
            ready: Ready::default(),
        })
    }
}

/// Output that was not pulled yet.
#[derive(Debug, Default)]
struct Ready {
    rows: BundleRows,
    changes: Changes,
}

impl Ready {
    /// Takes the accumulators of a frame, which ends.
    fn take(
        &mut self,
        frame: &mut Frame,
        calls: &mut [(Call, Box<dyn Partial>)],
        boundary: &mut Boundary,
    ) -> Result<(), OperatorError> {
        let count = frame.count();
        let mut columns = frame.end()?;
        for (_, partial) in calls {
            partial.take_columns(&mut columns)?;
        }
        self.rows.clear();
        let batch = self.rows.add(&Batch::try_new(columns, count, None)?)?;
        // numbers have 32 bits
        (0..count).for_each(|row| self.changes.push(RowKind::Insert, RowRef::new(batch, row as u32)));
        boundary.emitted(count, count);
        Ok(())
    }
}

/// What each row of a batch does.
fn actions<'a>(batch: &Batch, retracts: bool, actions: &'a mut Vec<u8>) -> Result<Option<&'a [u8]>, OperatorError> {
    let Some(kinds) = batch.kinds() else { return Ok(None) };
    let kinds = kinds.values();
    if kinds.iter().all(|kind| is_accumulate(*kind)) {
        return Ok(None);
    }
    if !retracts {
        return Err(OperatorError::UnexpectedRetraction);
    }
    actions.clear();
    actions.extend(kinds.iter().map(|kind| if is_accumulate(*kind) { ACCUMULATE } else { RETRACT }));
    Ok(Some(actions))
}

impl Operator for LocalGroupAgg {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let key_columns = self.keys.columns(&batch)?;
        let actions = actions(&batch, self.retracts, &mut self.actions)?;
        let mut arguments: Vec<Option<ArrayRef>> = Vec::with_capacity(self.calls.len());
        for (call, _) in &self.calls {
            let Some(argument) = &call.argument else {
                arguments.push(None);
                continue;
            };
            let array = column(&batch, argument.column)?;
            if array.data_type() != &argument.arrow {
                let found = array.data_type();
                let message = format!("column {} is of type {found}, not {}", argument.column, argument.arrow);
                return Err(OperatorError::Input(message));
            }
            arguments.push(Some(array.clone()));
        }
        let keys = self.keys.encode(&key_columns, batch.num_rows())?;
        let mut split = Split::new(batch.clone());
        while let Some(rows) = self.frame.take(&mut split, &mut self.boundary, &keys, &key_columns)? {
            for ((call, partial), argument) in self.calls.iter_mut().zip(&arguments) {
                let actions = match call.filter {
                    None => actions,
                    Some(filter) => {
                        let passes = passing(&batch, filter)?;
                        self.filtered.clear();
                        self.filtered.extend(passes.iter().enumerate().map(|(row, passes)| match actions {
                            _ if !passes => 0,
                            Some(actions) => actions[row],
                            None => ACCUMULATE,
                        }));
                        Some(self.filtered.as_slice())
                    }
                };
                partial.fold(&rows, argument.as_ref(), actions)?;
            }
            if self.frame.has_ended() {
                self.ready.take(&mut self.frame, &mut self.calls, &mut self.boundary)?;
            }
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let batch = self.ready.changes.pull(&self.ready.rows)?;
        if batch.is_none() {
            self.ready.rows.clear();
        }
        Ok(batch)
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if self.frame.flush(&mut self.boundary, reason) {
            self.ready.take(&mut self.frame, &mut self.calls, &mut self.boundary)?;
        }
        Ok(())
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        Some(self.boundary.metrics())
    }

    fn bundle_bytes(&self) -> usize {
        self.frame.bytes()
            + self.calls.iter().map(|(_, partial)| partial.bytes()).sum::<usize>()
            + self.ready.changes.bytes()
    }
}
