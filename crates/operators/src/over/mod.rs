//! OVER aggregates: to each row the values of aggregates over the rows of its partition up to it.
//!
//! By row time, rows wait until the watermark has come up to them ([`TimedRows`]); then they leave in order of time, and those of one
//! time key by key in the order in which they came. By processing time they leave as they come, but for a bounded RANGE, where they wait
//! until their millisecond is over. What leaves is aggregated a chunk of rows at a time ([`evaluate`]), step by step if rows leave the
//! window on the way ([`frame`]).
//!
//! Which rows are late depends on the window, as in Flink: without a bound those up to the watermark, with one those up to the time of the
//! key's last row, and of a key that has none those up to 1970.
//!
//! In the order of a column that is no time, rows leave as they come, and update those behind them: see [`sorted`].
//!
//! Follows: RowTimeUnboundedPrecedingOverFunctionV2, RowTimeRowsBoundedPrecedingFunction, RowTimeRangeBoundedPrecedingFunction,
//! ProcTimeUnboundedPrecedingFunction, ProcTimeRowsBoundedPrecedingFunction, ProcTimeRangeBoundedPrecedingFunction, Flink 2.2.
//! Differences: none per key, as long as the clock does not go back. Between keys Flink's order is that of timers; here too, and those of
//! one moment go in the order in which their rows came.

mod chunk;
mod evaluate;
mod frame;
mod range_cleanup;
mod retention;
mod sorted;
mod support;
#[cfg(test)]
mod tests;

use arrow::array::BooleanArray;
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, OverFrame};
use streamfusion_plan::types::{LogicalType, TimeDomain};
use streamfusion_row::Batch;
use streamfusion_state::canonical::Sections;
use streamfusion_state::codec::Nullable;
use streamfusion_state::{
    ColumnId, KeyedState, KeyedTable, RestoreError, StateClock, StateContext, StateError, StateSnapshot, StateTtl,
    Store, Touched,
};

use self::chunk::{Chunk, Numbering};
use self::evaluate::Evaluation;
use self::range_cleanup::RangeCleanup;
use self::retention::Retention;
use self::support::{Resolved, Window};
use crate::bundle::FlushReason;
use crate::group_agg::is_accumulate;
use crate::keys::Keys;
use crate::timed_rows::{TimedRows, row_times};
use crate::{OUTPUT_BATCH_ROWS, Operator, OperatorError, Residence, StateBackend};

/// Name of the table, and of its main section.
const TABLE: &str = "over";

/// Whether [`open`] computes this aggregate over rows of `input` exactly as Flink does.
pub fn supports(spec: &node::OverAggregate, input: &LogicalType, backend: StateBackend) -> Result<(), Reason> {
    match spec.time(input) {
        Some(_) => support::resolve(spec, input, backend).map(drop),
        None => sorted::supports(spec, input),
    }
}

/// The aggregate with empty state for rows of the type `input`. `backend` is where Flink's operator would keep its state. Errors if
/// [`supports`] refuses it.
pub fn open(
    spec: &node::OverAggregate,
    input: &LogicalType,
    backend: StateBackend,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    match spec.time(input) {
        Some(_) => Ok(Box::new(OverAggregate::try_new(spec, input, context)?)),
        None => sorted::open(spec, input, backend, context),
    }
}

/// See the [module](self). Output columns: those of the input, then one per call.
#[derive(Debug)]
pub struct OverAggregate {
    keys: Keys,
    table: KeyedTable,
    types: Vec<DataType>,
    /// The column of the time attribute.
    time: usize,
    window: Window,
    evaluation: Evaluation,
    /// Rows that wait; absent where none does.
    waiting: Option<TimedRows>,
    /// With a bound by row time: the time of the last row of each key.
    last_times: Option<ColumnId<Option<i64>>>,
    retention: Option<Retention>,
    cleanup: Option<RangeCleanup>,
    clock: StateClock,
    /// How far time has come: the watermark, or the clock.
    reached: i64,
    late: u64,
    /// Up to when cleanup timers are due, once the rows that are due have left.
    cleanup_until: Option<i64>,
    /// Whether state was restored of which nothing was made yet.
    restored: bool,
    /// Per slot: rows that wait. Only with a retention.
    waiting_per_slot: Vec<u32>,
    numbering: Numbering,
    touched: Touched,
    groups: Vec<u32>,
    times: Vec<i64>,
    /// Per key of a batch: up to which time its rows are late; per key of a chunk: the time of its last row.
    of_keys: Vec<i64>,
    /// What is handed out, from a row on.
    output: Option<(Batch, usize)>,
}

impl OverAggregate {
    /// An aggregate with empty state for rows of the type `input`.
    ///
    /// Errors if [`supports`] refuses the aggregate, whatever the state backend.
    pub fn try_new(
        spec: &node::OverAggregate,
        input: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let resolved = support::resolve(spec, input, StateBackend::RocksDb);
        let Resolved { keys, types, calls, window } =
            resolved.map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let by_state_ttl = window.time == TimeDomain::Proctime && !window.frame.is_bounded();
        let ttl = if by_state_ttl { StateTtl::of_millis(spec.ttl_ms) } else { None };
        let mut table = KeyedTable::new(TABLE, keys.layout(), ttl, context);
        let evaluation = Evaluation::try_new(spec, &calls, window.frame, input, &types, &mut table)?;
        let waits = window.time == TimeDomain::Rowtime || matches!(window.frame, OverFrame::Range { .. });
        let waiting = waits.then(|| TimedRows::try_new("waiting", input, &types, &mut table)).transpose()?;
        let has_last_times = window.time == TimeDomain::Rowtime && window.frame.is_bounded();
        let last_times =
            has_last_times.then(|| table.add_column("last_time", None, Nullable::new("", DataType::Int64), None));
        let cleanup = match window.frame {
            OverFrame::Range { preceding_ms } => Some(RangeCleanup::new(preceding_ms, &mut table)),
            _ => None,
        };
        let retention =
            if by_state_ttl || cleanup.is_some() { None } else { Retention::of_millis(spec.ttl_ms, &mut table) };
        Ok(Self {
            keys,
            table,
            types,
            time: spec.order,
            window,
            evaluation,
            waiting,
            last_times,
            retention,
            cleanup,
            clock: context.clock.clone(),
            reached: i64::MIN,
            late: 0,
            cleanup_until: None,
            restored: false,
            waiting_per_slot: Vec::new(),
            numbering: Numbering::default(),
            touched: Touched::default(),
            groups: Vec::new(),
            times: Vec::new(),
            of_keys: Vec::new(),
            output: None,
        })
    }

    /// Makes what is not part of state, after a restore.
    fn recover(&mut self) -> Result<(), OperatorError> {
        if !std::mem::take(&mut self.restored) {
            return Ok(());
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.restore(&mut self.table)?;
            if self.retention.is_some() {
                for row in waiting.waiting() {
                    *at(&mut self.waiting_per_slot, row.slot) += 1;
                }
            }
        }
        if let Some(retention) = &mut self.retention {
            retention.restore(&mut self.table)?;
        }
        if let Some(cleanup) = &mut self.cleanup {
            cleanup.restore(&mut self.table)?;
        }
        Ok(())
    }

    /// Errors if the batch is not what the plan promises.
    fn check(&self, batch: &Batch) -> Result<(), OperatorError> {
        if batch.kinds().is_some_and(|kinds| !kinds.values().iter().all(|kind| is_accumulate(*kind))) {
            return Err(OperatorError::UnexpectedRetraction);
        }
        if !batch.columns().iter().map(|column| column.data_type()).eq(&self.types) {
            let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
            return Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))));
        }
        if i32::try_from(batch.num_rows()).is_err() {
            return Err(OperatorError::Input(format!("a batch of {} rows", batch.num_rows())));
        }
        Ok(())
    }

    /// Looks up the keys of a batch, and notes that they are used.
    fn load(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let columns = self.keys.columns(batch)?;
        self.keys.load(&columns, batch.num_rows(), &mut self.table, &mut self.touched)?;
        if let Some(retention) = &mut self.retention {
            retention.register(&mut self.table, &self.touched.slots, self.clock.now())?;
        }
        Ok(())
    }

    /// Rows that leave as they come.
    fn push_at_once(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        self.load(batch)?;
        let output = self.evaluation.evaluate_loaded(&mut self.table, batch, &mut self.touched)?;
        let slots = self.evaluation.steps().slots();
        self.table.commit(slots);
        self.output = Some((output, 0));
        Ok(())
    }

    /// Rows that wait for the watermark.
    fn push_by_row_time(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let times = row_times(&batch, self.time)?;
        // with a retention, a late row keeps its key alive
        let never = match (self.last_times, &self.retention) {
            (_, Some(_)) => i64::MIN,
            (None, None) => self.reached,
            (Some(_), None) => 0,
        };
        let late = times.iter().filter(|time| **time <= never && never != i64::MIN).count();
        let (batch, times) = if late == 0 {
            (batch, times)
        } else {
            self.late += late as u64;
            let in_time: BooleanArray = times.iter().map(|time| Some(*time > never)).collect();
            let batch = batch.filter(&in_time)?;
            let times = row_times(&batch, self.time)?;
            (batch, times)
        };
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.load(&batch)?;
        self.of_keys.clear();
        match self.last_times {
            // what is late was dropped
            None if self.retention.is_none() => {}
            None => self.of_keys.resize(self.touched.slots.len(), self.reached),
            Some(last_times) => {
                let last_times = self.table.column(last_times)?;
                let last = |slot: &u32| last_times.get(*slot).unwrap_or_default();
                self.of_keys.extend(self.touched.slots.iter().map(last));
            }
        }
        self.wait(&batch, &times)
    }

    /// Rows that wait until their millisecond is over.
    fn push_by_millisecond(&mut self, batch: &Batch, now: i64) -> Result<(), OperatorError> {
        self.load(batch)?;
        self.of_keys.clear();
        let times = ScalarBuffer::from(vec![now; batch.num_rows()]);
        self.wait(batch, &times)
    }

    /// Lets the rows of a loaded batch wait that are later than what `of_keys` has for their key; the others are dropped.
    fn wait(&mut self, batch: &Batch, times: &[i64]) -> Result<(), OperatorError> {
        let Some(waiting) = &mut self.waiting else {
            return Err(OperatorError::Internal("a row waits where none does".to_owned()));
        };
        let number = waiting.add(batch)?;
        let Touched { groups, slots } = &self.touched;
        let of_keys = &self.of_keys;
        let mut late = 0;
        let rows = (0_u32..).zip(times).zip(groups).filter_map(|((row, time), group)| {
            let slot = *slots.get(*group as usize)?;
            // nothing is late where there is no time
            let in_time = of_keys.get(*group as usize).is_none_or(|last| time > last);
            late += u64::from(!in_time);
            in_time.then_some((row, *time, slot))
        });
        match (&mut self.cleanup, &self.retention) {
            (None, None) => rows.for_each(|(row, time, slot)| waiting.push(number, row, time, slot)),
            (None, Some(_)) => rows.for_each(|(row, time, slot)| {
                waiting.push(number, row, time, slot);
                *at(&mut self.waiting_per_slot, slot) += 1;
            }),
            (Some(cleanup), _) => {
                let rows = rows.map(|(row, time, slot)| {
                    waiting.push(number, row, time, slot);
                    (slot, time)
                });
                cleanup.register(&mut self.table, rows)?;
            }
        }
        self.late += late;
        Ok(())
    }

    /// Works off the next rows that are due. Returns whether there were any.
    fn next_chunk(&mut self) -> Result<bool, OperatorError> {
        let Some(waiting) = &mut self.waiting else { return Ok(false) };
        // rows of one time and key are together
        let count = waiting.fitting_times(OUTPUT_BATCH_ROWS)?;
        if count == 0 {
            return Ok(false);
        }
        let rows = waiting.due_mut().get_mut(..count).unwrap_or_default();
        self.numbering.regroup(rows);
        self.numbering.group(rows, self.evaluation.steps(), &mut self.groups);
        self.times.clear();
        self.times.extend(rows.iter().map(|row| row.time));
        if self.retention.is_some() {
            for row in rows.iter() {
                *at(&mut self.waiting_per_slot, row.slot) -= 1;
            }
        }
        let batch = waiting.leave(&mut self.table, count)?;
        let chunk = Chunk { groups: &self.groups, times: &self.times };
        self.output = Some((self.evaluation.evaluate(&mut self.table, &batch, &chunk)?, 0));
        let slots = self.evaluation.steps().slots();
        if let Some(last_times) = self.last_times {
            // times ascend
            self.of_keys.clear();
            self.of_keys.resize(slots.len(), 0);
            for (group, time) in self.groups.iter().zip(&self.times) {
                if let Some(last) = self.of_keys.get_mut(*group as usize) {
                    *last = *time;
                }
            }
            let last_times = self.table.column(last_times)?;
            slots.iter().zip(&self.of_keys).for_each(|(slot, time)| last_times.set(*slot, Some(*time)));
        }
        if let Some(retention) = &mut self.retention {
            retention.register(&mut self.table, slots, self.clock.now())?;
        }
        self.table.commit(slots);
        Ok(true)
    }

    /// All rows that were due have left: what was kept for them goes.
    fn settle(&mut self) -> Result<(), OperatorError> {
        if let Some(waiting) = &mut self.waiting {
            waiting.settle()?;
        }
        let Some(until) = self.cleanup_until.take() else { return Ok(()) };
        let Some(cleanup) = &mut self.cleanup else { return Ok(()) };
        while let Some(due) = cleanup.due(&mut self.table, until)? {
            if due.is_last {
                self.table.remove(due.slot)?;
            } else if let Some(last_times) = self.last_times {
                let last_times = self.table.column(last_times)?;
                let last = last_times.get(due.slot).map_or(due.time, |last| last.max(due.time));
                last_times.set(due.slot, Some(last));
            }
        }
        Ok(())
    }

    /// Cleans up the keys whose time has come, unless rows of them wait.
    fn clean_up(&mut self, now: i64) -> Result<(), OperatorError> {
        let Some(retention) = &mut self.retention else { return Ok(()) };
        for slot in retention.due(&mut self.table, now)? {
            if *at(&mut self.waiting_per_slot, slot) > 0 {
                retention.register(&mut self.table, &[slot], now)?;
            } else {
                self.table.remove(slot)?;
            }
        }
        Ok(())
    }
}

/// The place of a slot.
fn at(places: &mut Vec<u32>, slot: u32) -> &mut u32 {
    let slot = slot as usize;
    if slot >= places.len() {
        places.resize(slot + 1, 0);
    }
    &mut places[slot]
}

impl KeyedState for OverAggregate {
    fn table(&self) -> &'static str {
        TABLE
    }

    /// No row may wait outside of state: the engine flushes first.
    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        debug_assert!(self.waiting.as_ref().is_none_or(TimedRows::is_stored));
        self.table.snapshot()
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.restored = true;
        self.table.restore(sections)
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        self.restored = true;
        KeyedState::attach(&mut self.table, store)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.table.write_back()
    }

    fn evict(&mut self) -> Result<(), StateError> {
        self.table.evict()
    }
}

impl Operator for OverAggregate {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.recover()?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.check(&batch)?;
        match (self.window.time, &self.waiting) {
            (TimeDomain::Rowtime, _) => self.push_by_row_time(batch),
            (TimeDomain::Proctime, None) => self.push_at_once(&batch),
            (TimeDomain::Proctime, Some(_)) => self.push_by_millisecond(&batch, self.reached),
        }
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            if let Some((batch, row)) = &mut self.output {
                let rows = (batch.num_rows() - *row).min(OUTPUT_BATCH_ROWS);
                if rows > 0 {
                    let output = batch.slice(*row, rows)?;
                    *row += rows;
                    return Ok(Some(output));
                }
                self.output = None;
            }
            if !self.next_chunk()? {
                self.settle()?;
                return Ok(None);
            }
        }
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if reason == FlushReason::Checkpoint {
            self.recover()?;
            if let Some(waiting) = &mut self.waiting {
                waiting.store(&mut self.table)?;
            }
        }
        Ok(())
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        if self.window.time == TimeDomain::Rowtime {
            self.recover()?;
            self.reached = watermark_ms;
            if let Some(waiting) = &mut self.waiting {
                waiting.advance(watermark_ms);
            }
            self.cleanup_until = Some(watermark_ms);
        }
        Ok(Some(watermark_ms))
    }

    fn timer(&self) -> Option<i64> {
        // what there is after a restore is not known before the first call
        let restored = self.restored.then_some(0);
        let (waits, cleanup) = match (self.window.time, &self.waiting, &self.cleanup) {
            (TimeDomain::Proctime, Some(waiting), Some(cleanup)) => {
                let over = waiting.first_time().map(|time| time.wrapping_add(1));
                (Some(over.unwrap_or(i64::MAX)), cleanup.timer())
            }
            _ => (None, None),
        };
        let retention = self.retention.as_ref().map(|retention| retention.timer().unwrap_or(i64::MAX));
        let next = [waits, cleanup, retention].into_iter().flatten().min()?;
        Some(restored.unwrap_or(next))
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.recover()?;
        self.clean_up(now_ms)?;
        if self.window.time == TimeDomain::Proctime {
            self.reached = now_ms;
            if let Some(waiting) = &mut self.waiting {
                // rows of a millisecond wait until it is over
                waiting.advance(now_ms.wrapping_sub(1));
                self.cleanup_until = Some(now_ms);
            }
        }
        Ok(None)
    }

    fn late_rows(&self) -> Option<u64> {
        let by_row_time = self.window.time == TimeDomain::Rowtime;
        by_row_time.then_some(self.late)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }

    fn residence(&self) -> Residence {
        // keys have to be found by their time, unless rows leave as they come and nobody cleans up
        if self.waiting.is_none() && self.retention.is_none() { Residence::Cached } else { Residence::Resident }
    }

    fn bundle_bytes(&self) -> usize {
        let numbers = self.groups.capacity() + self.waiting_per_slot.capacity();
        self.waiting.as_ref().map_or(0, TimedRows::bytes)
            + self.retention.as_ref().map_or(0, Retention::bytes)
            + self.cleanup.as_ref().map_or(0, RangeCleanup::bytes)
            + self.evaluation.bytes()
            + self.numbering.bytes()
            + numbers * size_of::<u32>()
            + (self.times.capacity() + self.of_keys.capacity()) * size_of::<i64>()
    }
}
