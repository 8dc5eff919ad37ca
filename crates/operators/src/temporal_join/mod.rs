//! Joins of rows with the version of a table that was valid at their time.
//!
//! The right input is a changelog whose rows are *versions*: each is valid from its time until that of the next one of its key. Left rows wait
//! until the watermark has passed them, and then find their version ([`firing`]). When that is, and when state has been idle for
//! too long, is kept in [`timers`].
//!
//! A row that comes late waits for the next watermark, and finds what versions there still are. NULL keys equal each other. Joins in
//! processing time keep one version and let nothing wait: see [`latest`].
//!
//! Invariants: a key is in the table as long as it has rows, versions or timers; versions are in the table and in the index, or in
//! neither, whenever a batch is done.
//!
//! Follows: TemporalRowTimeJoinOperator, Flink 2.2. Differences: the clock is read once per batch.

mod firing;
mod latest;
#[cfg(test)]
mod tests;
mod timers;

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, JoinType, RowTimes};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::codec::{Codec, Mapped, Required};
use streamfusion_state::{KeyedState, KeyedTable, StateContext, Touched, Value};

use self::firing::{Firing, Sides};
use self::latest::LatestJoin;
use self::timers::{Retention, Timers};
use crate::join::condition::{self, Condition};
use crate::join::limits::Limits;
use crate::join::output::{Output, Shape, Source};
use crate::join::{Input, keys_agree};
use crate::time_index::{TimeIndex, TimedRow};
use crate::timed_input::{self, Columns, TimedInput, Writing};
use crate::{Operator, OperatorError, Residence};

/// Name of the table. Names never change.
const TABLE: &str = "temporal_join";
const LEFT: &str = "temporal_join.left";
const RIGHT: &str = "temporal_join.right";

/// What is kept beside a row.
#[derive(Debug, Clone, Copy)]
struct Timed {
    time: i64,
    kind: u8,
}

impl Value for Timed {}

fn timed_codec() -> impl Codec<Timed> {
    let codec = (Required::<i64>::new("time", DataType::Int64), Required::<i8>::new("kind", DataType::Int8));
    let whole = |(time, kind): (i64, i8)| match u8::try_from(kind) {
        Ok(kind) if kind <= RowKind::Delete as u8 => Ok(Timed { time, kind }),
        _ => Err("a row kind that does not exist"),
    };
    // kinds are 0 to 3
    Mapped::new(codec, |timed: &Timed| (timed.time, timed.kind.cast_signed()), whole)
}

/// The columns that count of either input.
fn columns(spec: &node::TemporalJoin, times: RowTimes) -> [Columns<'_>; 2] {
    [
        Columns { keys: &spec.join.left_keys, time: Some(times.left) },
        Columns { keys: &spec.join.right_keys, time: Some(times.right) },
    ]
}

/// Whether [`open`] makes an operator that does over rows of these types exactly what Flink does.
pub fn supports(spec: &node::TemporalJoin, left: &LogicalType, right: &LogicalType) -> Result<(), Reason> {
    let join = &spec.join;
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return Err(Reason::new("Flink has no temporal join of this type"));
    }
    let Some(times) = spec.row_times else { return latest::supports(spec, left, right) };
    let [of_left, of_right] = columns(spec, times);
    timed_input::supports(of_left, left)?;
    timed_input::supports(of_right, right)?;
    keys_agree([&join.left_keys, &join.right_keys], &join.filter_nulls, left, right)?;
    join.condition.as_ref().map_or(Ok(()), condition::supports)
}

/// An operator without state over rows of these types. Errors if [`supports`] refuses it.
pub fn open(
    spec: &node::TemporalJoin,
    left: &LogicalType,
    right: &LogicalType,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    with_limits(spec, left, right, context, Limits::default())
}

fn with_limits(
    spec: &node::TemporalJoin,
    left: &LogicalType,
    right: &LogicalType,
    context: &StateContext,
    limits: Limits,
) -> Result<Box<dyn Operator>, OperatorError> {
    supports(spec, left, right).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
    Ok(match spec.row_times {
        Some(times) => Box::new(TemporalJoin::try_new(spec, times, [left, right], context, limits)?),
        None => Box::new(LatestJoin::with_limits(spec, left, right, context, limits)?),
    })
}

/// See the [module](self). The output has the columns of the left input and, behind them, those of the right one.
#[derive(Debug)]
struct TemporalJoin {
    is_outer: bool,
    /// The clock.
    now: i64,
    left: TimedInput<Timed>,
    right: TimedInput<Timed>,
    /// The rows of `right`.
    versions: TimeIndex,
    table: KeyedTable,
    timers: Timers,
    condition: Option<Condition>,
    limits: Limits,
    firing: Firing,
    touched: Touched,
    /// From 0 on, as many as the largest batch had rows.
    numbers: Vec<u32>,
    output: Output,
    /// The rows that output refers to.
    sources: [Source; 2],
    /// Whether indexes and timers have what the table has: it may have been restored.
    is_indexed: bool,
}

impl TemporalJoin {
    fn try_new(
        spec: &node::TemporalJoin,
        times: RowTimes,
        [left, right]: [&LogicalType; 2],
        context: &StateContext,
        limits: Limits,
    ) -> Result<Self, OperatorError> {
        let [of_left, of_right] = columns(spec, times);
        let mut table = KeyedTable::new(TABLE, timed_input::keys(of_left, left)?.layout(), None, context);
        let nothing = Timed { time: 0, kind: 0 };
        let condition = |condition| Condition::try_new(condition, left.fields().len());
        Ok(Self {
            is_outer: spec.join.join_type == JoinType::Left,
            now: 0,
            left: TimedInput::try_new(LEFT, of_left, left, timed_codec(), nothing, &mut table)?,
            right: TimedInput::try_new(RIGHT, of_right, right, timed_codec(), nothing, &mut table)?,
            versions: TimeIndex::default(),
            timers: Timers::new(Retention::new(spec.retention_ms), &mut table),
            table,
            condition: spec.join.condition.as_ref().map(condition).transpose()?,
            limits,
            firing: Firing::default(),
            touched: Touched::default(),
            numbers: Vec::new(),
            output: Output::new(limits),
            sources: [Source::default(), Source::default()],
            is_indexed: false,
        })
    }

    /// Makes the indexes of what was restored, before the first batch or timer.
    fn index(&mut self) -> Result<(), OperatorError> {
        if std::mem::replace(&mut self.is_indexed, true) {
            return Ok(());
        }
        let mut slots = Vec::with_capacity(self.table.len());
        self.table.for_each_slot(|slot, _| slots.push(slot));
        for slot in slots {
            let entries = self.right.entries(&mut self.table)?;
            for position in entries.walk(slot) {
                self.versions.insert(slot, TimedRow { time: entries.value(position).time, position });
            }
            self.timers.restored(&mut self.table, slot)?;
        }
        Ok(())
    }

    /// The rows of a batch wait, or are versions from now on.
    fn accept(&mut self, side: Input, batch: &Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.index()?;
        let Self { left, right, versions, table, timers, touched, numbers, now, .. } = self;
        let input = if side == Input::Left { left } else { right };
        input.check(batch)?;
        input.load(batch, table, touched)?;
        let times = input.times(batch, *now)?;
        let known = numbers.len();
        numbers.extend((0..).take(batch.num_rows()).skip(known));
        let Writing { entries, slots, packed } =
            input.write(batch, numbers.get(..batch.num_rows()).unwrap_or_default(), table)?;
        let mut first: Vec<i64> = vec![i64::MAX; touched.slots.len()];
        for (row, (key, time)) in touched.groups.iter().zip(times.iter()).enumerate() {
            let (slot, first) = match (touched.slots.get(*key as usize), first.get_mut(*key as usize)) {
                (Some(slot), Some(first)) => (*slot, first),
                _ => return Err(OperatorError::Internal("a row without a key".to_owned())),
            };
            *first = (*first).min(*time);
            let timed = Timed { time: *time, kind: batch.kinds().map_or(0, |kinds| kinds.value(row)) };
            match side {
                Input::Left => {
                    entries.append(slots, slot, packed, row, timed)?;
                }
                Input::Right => match versions.find(slot, *time) {
                    Some(position) => {
                        entries.replace(position, packed, row)?;
                        *entries.value_mut(position) = timed;
                    }
                    None => {
                        let position = entries.append(slots, slot, packed, row, timed)?;
                        versions.insert(slot, TimedRow { time: *time, position });
                    }
                },
            }
        }
        for (slot, first) in touched.slots.iter().zip(first) {
            timers.register_smallest(table, *slot, first)?;
            timers.used(table, *slot, *now)?;
        }
        table.commit(&touched.slots);
        Ok(())
    }

    /// Forgets what has been idle for too long.
    fn clean_up(&mut self) -> Result<(), OperatorError> {
        let Self { left, right, versions, table, timers, now, .. } = self;
        while let Some(slot) = timers.next_idle(table, *now)? {
            left.entries(table)?.clear(slot);
            right.entries(table)?.clear(slot);
            versions.forget(slot);
            if timers.are_none(table, slot)? {
                table.remove(slot)?;
            } else {
                table.commit(&[slot]);
            }
        }
        Ok(())
    }
}

impl Operator for TemporalJoin {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.accept(Input::Left, &batch)
    }

    fn push_second(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.accept(Input::Right, &batch)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            let types: [&[_]; 2] = [&self.left.types, &self.right.types];
            let [left, right] = &self.sources;
            if let Some(batch) = self.output.pull(Shape::Both, Input::Left, [left, right], types)? {
                return Ok(Some(batch));
            }
            if !self.firing.is_busy() {
                self.sources = [Source::default(), Source::default()];
                return Ok(None);
            }
            let mut sides = Sides {
                left: &self.left,
                right: &self.right,
                versions: &mut self.versions,
                table: &mut self.table,
                timers: &mut self.timers,
                condition: self.condition.as_ref(),
                limits: &self.limits,
                is_outer: self.is_outer,
                now: self.now,
            };
            let (left, right) = self.firing.advance(&mut sides, &mut self.output)?;
            self.sources = [left, right];
        }
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.index()?;
        self.firing.fire(watermark_ms);
        Ok(Some(watermark_ms))
    }

    fn timer(&self) -> Option<i64> {
        self.timers.first_idle()
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        if self.timers.cleans_up() {
            self.index()?;
            self.now = now_ms;
            self.clean_up()?;
        }
        Ok(None)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.table)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }

    fn bundle_bytes(&self) -> usize {
        let Touched { groups, slots } = &self.touched;
        self.left.bytes()
            + self.right.bytes()
            + self.versions.bytes()
            + self.timers.bytes()
            + self.firing.bytes()
            + self.output.bytes()
            + self.sources.iter().map(Source::bytes).sum::<usize>()
            + (groups.capacity() + slots.capacity() + self.numbers.capacity()) * size_of::<u32>()
    }
}
