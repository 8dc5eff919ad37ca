//! The local phase: bundles to accumulators, without state.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::LocalGroupAggregate;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;

use super::frame::Frame;
use super::layout::{Phase, Plan};
use super::partial::{Numbered, Partial, partial, set};
use super::ready::Ready;
use super::view::Set;
use crate::bundle::{Boundary, BundleMetrics, FlushReason, Split};
use crate::group_agg::distinct::Share;
use crate::group_agg::rows::{ACCUMULATE, RETRACT, is_accumulate};
use crate::group_agg::support::{Call, Retraction};
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
        count_star: None,
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
    retracts: bool,
    /// What each row does, where rows retract.
    actions: Vec<u8>,
    boundary: Boundary,
    frame: Frame,
    folding: Folding,
}

/// What bundles are folded into.
#[derive(Debug)]
struct Folding {
    calls: Vec<LocalCall>,
    sets: Vec<LocalSet>,
    /// What each row does for a call with a filter.
    filtered: Vec<u8>,
    ready: Ready,
}

#[derive(Debug)]
struct LocalCall {
    call: Call,
    /// Absent for a call with DISTINCT, whose accumulators nobody reads: NULL stands in their columns.
    partial: Option<Box<dyn Partial>>,
    types: Vec<DataType>,
}

#[derive(Debug)]
struct LocalSet {
    /// The position of a call that shares the set.
    call: usize,
    /// Of each call, the column of its filter.
    filters: Vec<Option<usize>>,
    values: Box<dyn Set>,
    /// Scratch: which calls each row passes the filter of.
    passed: Vec<u64>,
}

impl LocalGroupAgg {
    /// An aggregate without an open bundle. Errors if [`supports_local`] refuses it.
    pub fn try_new(
        spec: &LocalGroupAggregate,
        input: &LogicalType,
        output: &LogicalType,
    ) -> Result<Self, OperatorError> {
        let internal = |reason: Reason| OperatorError::Internal(reason.to_string());
        let Phase { keys, calls, columns, sets, retraction, bundle_size, .. } =
            resolve(spec, input, output).map_err(internal)?;
        let set = |share: Share| {
            let filters = share.calls.iter().map(|call| calls.get(*call).and_then(|call| call.filter)).collect();
            let values = set(&share.shared, retraction).map_err(internal)?;
            let call = share.calls.first().copied().unwrap_or_default();
            Ok(LocalSet { call, filters, values, passed: Vec::new() })
        };
        let sets = sets.into_iter().map(set).collect::<Result<Vec<_>, OperatorError>>()?;
        let call = |(call, types): (Call, Vec<DataType>)| {
            let partial = if call.distinct { None } else { Some(partial(&call).map_err(internal)?) };
            Ok(LocalCall { call, partial, types })
        };
        let calls = calls.into_iter().zip(columns).map(call).collect::<Result<Vec<_>, OperatorError>>()?;
        Ok(Self {
            keys,
            retracts: retraction == Retraction::Applied,
            actions: Vec::new(),
            boundary: Boundary::new(bundle_size),
            frame: Frame::new(),
            folding: Folding { calls, sets, filtered: Vec::new(), ready: Ready::default() },
        })
    }
}

impl Folding {
    /// Takes rows of a batch into the frame. `arguments` are those of the calls; `actions` says what each row of the batch does, absent if all
    /// accumulate.
    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        batch: &Batch,
        arguments: &[Option<ArrayRef>],
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        for (LocalCall { call, partial, .. }, argument) in self.calls.iter_mut().zip(arguments) {
            let Some(partial) = partial else { continue };
            let actions = match call.filter {
                None => actions,
                Some(filter) => {
                    let passes = passing(batch, filter)?;
                    self.filtered.clear();
                    self.filtered.extend(passes.iter().enumerate().map(|(row, passes)| match actions {
                        _ if !passes => 0,
                        Some(actions) => actions[row],
                        None => ACCUMULATE,
                    }));
                    Some(self.filtered.as_slice())
                }
            };
            partial.fold(rows, argument.as_ref(), actions)?;
        }
        for set in &mut self.sets {
            let Some(Some(argument)) = arguments.get(set.call) else { continue };
            let passed = passed(&set.filters, batch, &mut set.passed)?;
            set.values.fold(rows, argument, passed, actions)?;
        }
        Ok(())
    }

    /// Takes the accumulators of the frame, which ends.
    fn end_frame(&mut self, frame: &mut Frame, boundary: &mut Boundary) -> Result<(), OperatorError> {
        let count = frame.count();
        let mut columns = frame.end()?;
        for LocalCall { partial, types, .. } in &mut self.calls {
            match partial {
                Some(partial) => partial.take_columns(&mut columns)?,
                None => columns.extend(types.iter().map(|ty| new_null_array(ty, count))),
            }
        }
        for set in &mut self.sets {
            columns.push(set.values.take_column(count)?);
        }
        self.ready.take(columns, count, boundary)
    }

    /// Bytes taken.
    fn bytes(&self) -> usize {
        let calls: usize = self.calls.iter().filter_map(|call| call.partial.as_ref()).map(|call| call.bytes()).sum();
        let sets = self.sets.iter().map(|set| set.values.bytes() + set.passed.capacity() * size_of::<u64>());
        calls + sets.sum::<usize>() + self.ready.bytes()
    }
}

/// Which calls each row of a batch passes the filter of, one bit each; absent if no call has a filter.
fn passed<'a>(
    filters: &[Option<usize>],
    batch: &Batch,
    passed: &'a mut Vec<u64>,
) -> Result<Option<&'a [u64]>, OperatorError> {
    if filters.iter().all(Option::is_none) {
        return Ok(None);
    }
    let unfiltered = filters.iter().enumerate().filter(|(_, filter)| filter.is_none());
    let unfiltered = unfiltered.fold(0_u64, |mask, (call, _)| mask | 1 << call);
    passed.clear();
    passed.resize(batch.num_rows(), unfiltered);
    for (call, filter) in filters.iter().enumerate() {
        let Some(filter) = filter else { continue };
        for (passed, passes) in passed.iter_mut().zip(&passing(batch, *filter)?) {
            *passed |= u64::from(passes) << call;
        }
    }
    Ok(Some(passed))
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

/// The argument column of a call. Errors if it is not what the plan promises.
fn argument(call: &Call, batch: &Batch) -> Result<Option<ArrayRef>, OperatorError> {
    let Some(argument) = &call.argument else { return Ok(None) };
    let array = column(batch, argument.column)?;
    if array.data_type() != &argument.arrow {
        let found = array.data_type();
        let message = format!("column {} is of type {found}, not {}", argument.column, argument.arrow);
        return Err(OperatorError::Input(message));
    }
    Ok(Some(array.clone()))
}

impl Operator for LocalGroupAgg {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let key_columns = self.keys.columns(&batch)?;
        let actions = actions(&batch, self.retracts, &mut self.actions)?;
        let arguments = self.folding.calls.iter().map(|call| argument(&call.call, &batch));
        let arguments = arguments.collect::<Result<Vec<_>, OperatorError>>()?;
        let keys = self.keys.encode(&key_columns, batch.num_rows())?;
        let mut split = Split::new(batch.clone());
        while let Some(rows) = self.frame.take(&mut split, &mut self.boundary, &keys, &key_columns)? {
            self.folding.fold(&rows, &batch, &arguments, actions)?;
            if self.frame.has_ended() {
                self.folding.end_frame(&mut self.frame, &mut self.boundary)?;
            }
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.folding.ready.pull()
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if self.frame.flush(&mut self.boundary, reason) {
            self.folding.end_frame(&mut self.frame, &mut self.boundary)?;
        }
        Ok(())
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        Some(self.boundary.metrics())
    }

    fn bundle_bytes(&self) -> usize {
        self.frame.bytes() + self.folding.bytes()
    }
}
