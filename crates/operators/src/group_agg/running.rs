//! Aggregate calls whose value is asked for row by row, where no record count decides on groups: OVER.
//!
//! What is done is a list of [`Steps`]: rows are accumulated and taken back, in the order of the list, and where a step says so
//! the values behind it are handed out. When a group begins and ends is decided by whoever makes the steps.

use arrow::array::ArrayRef;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, Constant, GroupAggregate};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::{KeyedTable, Touched};

use super::lag::{self, LagCall};
use super::rows::{ACCUMULATE, RETRACT, Rows};
use super::support::{self, Call, Retraction};
use super::{CallState, DistinctState, dispatch, restrict, share_distinct_tables};
use crate::OperatorError;

/// The values behind the step are handed out.
pub(super) const EMIT: u8 = 16;

/// The calls.
#[derive(Debug)]
pub(crate) struct Running {
    calls: Vec<CallState>,
    distincts: Vec<DistinctState>,
    steps: Steps,
}

/// What is done with groups, in order.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    rows: Rows,
    emitted: usize,
    /// Whether every step accumulates and hands out.
    is_uniform: bool,
}

impl Steps {
    /// Begins a list.
    pub(crate) fn clear(&mut self) {
        self.rows.touched.groups.clear();
        self.rows.touched.slots.clear();
        self.rows.actions.clear();
        self.emitted = 0;
        self.is_uniform = true;
    }

    /// Adds a group, with its slot in the table, and returns its number.
    #[inline]
    pub(crate) fn add_group(&mut self, slot: u32) -> u32 {
        // no more groups than slots, which are counted in 32 bits
        let group = self.rows.touched.slots.len() as u32;
        self.rows.touched.slots.push(slot);
        group
    }

    /// Takes over groups by row: every row is accumulated by the group that it has, and handed out.
    pub(crate) fn accumulate_all(&mut self, touched: &mut Touched) {
        self.clear();
        std::mem::swap(&mut self.rows.touched, touched);
        self.emitted = self.rows.len();
        self.rows.actions.resize(self.emitted, ACCUMULATE | EMIT);
    }

    /// Accumulates a row for each of these groups, which were added, and hands out the values behind each.
    pub(crate) fn accumulate_each(&mut self, groups: &[u32]) {
        self.rows.touched.groups.extend_from_slice(groups);
        self.rows.actions.resize(self.rows.len(), ACCUMULATE | EMIT);
        self.emitted += groups.len();
    }

    /// Accumulates the next row. With `emit` the values behind it are handed out.
    #[inline]
    pub(crate) fn accumulate(&mut self, group: u32, emit: Emit) {
        let emit = match emit {
            Emit::Values => EMIT,
            Emit::Nothing => 0,
        };
        self.push(group, ACCUMULATE | emit);
        self.emitted += usize::from(emit != 0);
        self.is_uniform &= emit != 0;
    }

    /// Takes back the next row.
    #[inline]
    pub(crate) fn retract(&mut self, group: u32) {
        self.push(group, RETRACT);
        self.is_uniform = false;
    }

    #[inline]
    fn push(&mut self, group: u32, action: u8) {
        self.rows.touched.groups.push(group);
        self.rows.actions.push(action);
    }

    /// The number of steps.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The slots of its groups.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.rows.touched.slots
    }

    /// Bytes taken.
    pub(crate) fn bytes(&self) -> usize {
        let Touched { groups, slots } = &self.rows.touched;
        (groups.capacity() + slots.capacity()) * size_of::<u32>() + self.rows.actions.capacity()
    }
}

/// Whether a step hands out values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emit {
    Values,
    Nothing,
}

/// What rows have in their windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningWindow<'a> {
    /// Whether rows are taken back.
    pub(crate) retracts: bool,
    /// Constants that calls have as arguments: the last columns of the input.
    pub(crate) constants: &'a [Constant],
}

impl RunningWindow<'_> {
    fn retraction(self) -> Retraction {
        if self.retracts { Retraction::Applied } else { Retraction::None }
    }
}

/// A supported call.
enum Resolved {
    Lag(LagCall),
    Other(Call),
}

/// The calls of an aggregate over rows of the type `input`, or why they stay on Flink.
fn resolve(calls: &[AggCall], window: RunningWindow<'_>, input: &LogicalType) -> Result<Vec<Resolved>, Reason> {
    let mut spec = GroupAggregate {
        grouping: Vec::new(),
        calls: Vec::new(),
        generate_update_before: true,
        need_retraction: window.retracts,
        ttl_ms: 0,
        mini_batch_size: None,
    };
    let mut resolved = Vec::with_capacity(calls.len());
    for call in calls {
        if let Some(lag) = lag::resolve(call, input, window.constants, window.retraction())? {
            resolved.push(Resolved::Lag(lag));
        } else {
            spec.calls = vec![call.clone()];
            resolved.extend(support::resolve(&spec, input)?.calls.into_iter().map(Resolved::Other));
        }
    }
    Ok(resolved)
}

impl Running {
    /// Whether these calls give exactly what Flink's give.
    pub(crate) fn supports(calls: &[AggCall], window: RunningWindow<'_>, input: &LogicalType) -> Result<(), Reason> {
        resolve(calls, window, input).map(drop)
    }

    /// Calls over rows of the type `input`; their state is registered with `table`. Errors if [`Running::supports`] refuses
    /// them.
    pub(crate) fn try_new(
        calls: &[AggCall],
        window: RunningWindow<'_>,
        input: &LogicalType,
        table: &mut KeyedTable,
    ) -> Result<Self, OperatorError> {
        let calls = resolve(calls, window, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let mut states = Vec::with_capacity(calls.len());
        for (number, call) in calls.into_iter().enumerate() {
            let name = format!("call{number}");
            states.push(match call {
                Resolved::Lag(lag) => {
                    let aggregate = lag::register(&lag, table, name)?;
                    CallState::new(lag.call, aggregate)
                }
                Resolved::Other(call) => {
                    let aggregate = dispatch::running(&call, table, name)?;
                    CallState::new(call, aggregate)
                }
            });
        }
        let distincts = share_distinct_tables(&states, window.retraction(), table)?;
        Ok(Self { calls: states, distincts, steps: Steps::default() })
    }

    /// The steps that are taken next.
    pub(crate) fn steps(&mut self) -> &mut Steps {
        &mut self.steps
    }

    /// The columns that the calls read of their input, each once.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let read = |state: &CallState| {
            let argument = state.call.argument.as_ref().map(|argument| argument.column);
            [argument, state.call.filter].into_iter().flatten()
        };
        let mut columns: Vec<usize> = self.calls.iter().flat_map(read).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Bytes taken beside the table.
    pub(crate) fn bytes(&self) -> usize {
        let calls = self.calls.iter().map(|state| state.aggregate.bundle_bytes() + state.actions.capacity());
        calls.sum::<usize>() + self.steps.bytes()
    }

    /// Takes the steps and returns, per call, the values that they hand out. Row by row `batch` has what the steps are about; of
    /// its columns only [`Running::columns`] are looked at. The slots of the groups are written, not committed.
    pub(crate) fn run(&mut self, table: &mut KeyedTable, batch: &Batch) -> Result<Vec<ArrayRef>, OperatorError> {
        let Self { calls, distincts, steps } = self;
        if batch.num_rows() != steps.len() {
            let (rows, steps) = (batch.num_rows(), steps.len());
            return Err(OperatorError::Internal(format!("{steps} steps over {rows} rows")));
        }
        restrict(calls, distincts, table, &steps.rows, batch)?;
        calls
            .iter_mut()
            .map(|state| {
                let argument = state.argument(batch)?;
                let actions = match (state.is_restricted(), steps.is_uniform) {
                    (true, _) => Some(state.actions.as_slice()),
                    (false, true) => None,
                    (false, false) => Some(steps.rows.actions.as_slice()),
                };
                state.aggregate.run(table, &steps.rows, argument, actions, steps.emitted)
            })
            .collect()
    }
}
