//! Joins of rows whose times are near each other.
//!
//! Both inputs are kept by join key and time ([`cache`]) for as long as the other one may ask for them, and written down only when a
//! checkpoint comes ([`kept`]). A batch of one input is matched
//! with the rows of the other ([`probe`], [`look`]); timers clean up what has expired ([`clean_up`]). A row of an outer input goes out beside
//! NULLs when it leaves unmatched: at once if it is not kept, else when it has expired and somebody looks. An interval that is
//! empty needs no state ([`padding`]).
//!
//! Event time goes on later than it came: by as much as a pair may be younger than the row that made it.
//!
//! Invariants: a key is in the table exactly if it has a timer; a row that is kept is in the index, and in a batch or in the table,
//! whenever a batch is done.
//!
//! Follows: RowTimeIntervalJoin, ProcTimeIntervalJoin, KeyedCoProcessOperatorWithWatermarkDelay, Flink 2.2. Differences: what one row
//! matches or makes leave comes in order of time, where Flink's order is that of a hash map or of bytes, as the state backend has it; the clock
//! is read once per batch; rows from 1970 and before that have not expired leave with their key's clean-up, where Flink may keep them
//! if younger rows come behind them in its map.

mod cache;
mod clean_up;
mod kept;
mod look;
mod padding;
mod probe;
#[cfg(test)]
mod tests;

use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, JoinType};
use streamfusion_plan::types::{LogicalType, TimeDomain};
use streamfusion_row::Batch;
use streamfusion_state::{KeyedState, KeyedTable, StateContext};

use self::cache::{Cache, Names, Spec};
use self::clean_up::{Caches, CleanUp};
use self::padding::Padding;
use self::probe::{Probe, Sides};
use crate::bundle::FlushReason;
use crate::join::condition::{self, Condition};
use crate::join::limits::Limits;
use crate::join::output::{Output, Shape, Source};
use crate::join::{Input, keys_agree};
use crate::timed_input::{self, Columns};
use crate::{Operator, OperatorError, Residence};

/// Name of the table. Names never change.
const TABLE: &str = "interval_join";
const LEFT: Names = Names { rows: "interval_join.left", timer: "left_clean_up" };
const RIGHT: Names = Names { rows: "interval_join.right", timer: "right_clean_up" };

/// Whether [`open`] makes an operator that does over rows of these types exactly what Flink does.
pub fn supports(spec: &node::IntervalJoin, left: &LogicalType, right: &LogicalType) -> Result<(), Reason> {
    if !is_stateful(spec) {
        return padding::supports(spec, left, right);
    }
    let join = &spec.join;
    if matches!(join.join_type, JoinType::Semi | JoinType::Anti) {
        return Err(Reason::new("Flink has no interval join of type SEMI or ANTI"));
    }
    timed_input::supports(side(spec, Input::Left).columns, left)?;
    timed_input::supports(side(spec, Input::Right).columns, right)?;
    keys_agree([&join.left_keys, &join.right_keys], &join.filter_nulls, left, right)?;
    join.condition.as_ref().map_or(Ok(()), condition::supports)
}

/// Whether rows can match at all.
pub fn is_stateful(spec: &node::IntervalJoin) -> bool {
    spec.bounds.left_upper_ms.wrapping_sub(spec.bounds.left_lower_ms) >= 0
}

/// The operator, without state, over rows of these types. Errors if [`supports`] refuses it, or without `context` where it
/// [keeps state](is_stateful).
pub fn open(
    spec: &node::IntervalJoin,
    left: &LogicalType,
    right: &LogicalType,
    context: Option<&StateContext>,
) -> Result<Box<dyn Operator>, OperatorError> {
    supports(spec, left, right).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
    if !is_stateful(spec) {
        return Ok(Box::new(Padding::try_new(spec.join.join_type, left, right)?));
    }
    let context = context.ok_or_else(|| OperatorError::Internal("it was opened without a range of keys".to_owned()))?;
    Ok(Box::new(IntervalJoin::with_limits(spec, left, right, context, Limits::default())?))
}

/// How an input is joined.
fn side(spec: &node::IntervalJoin, side: Input) -> Spec<'_> {
    let (join, bounds) = (&spec.join, &spec.bounds);
    let (keys, time, relative_ms, outer) = match side {
        Input::Left => (&join.left_keys, bounds.left_time, bounds.left_lower_ms.wrapping_neg(), JoinType::Left),
        Input::Right => (&join.right_keys, bounds.right_time, bounds.left_upper_ms, JoinType::Right),
    };
    Spec {
        columns: Columns { keys, time: (bounds.time == TimeDomain::Rowtime).then_some(time) },
        filter_nulls: &join.filter_nulls,
        relative_ms,
        min_clean_up_interval_ms: spec.min_clean_up_interval_ms,
        padded: join.join_type == outer || join.join_type == JoinType::Full,
    }
}

/// See the [module](self). The output has the columns of the left input and, behind them, those of the right one.
#[derive(Debug)]
struct IntervalJoin {
    time: TimeDomain,
    /// How far event time has come, not before 1970; or the clock.
    now: i64,
    /// How much later than it came event time goes on.
    delay_ms: i64,
    left: Cache,
    right: Cache,
    table: KeyedTable,
    condition: Option<Condition>,
    limits: Limits,
    /// A batch that waits for timers that are due before it.
    waiting: Option<(Input, Batch)>,
    /// The side that a batch comes from, as output has it.
    side: Input,
    probe: Probe,
    clean_up: CleanUp,
    output: Output,
    /// The rows that output refers to: of `side`, and of the other one.
    sources: [Source; 2],
    timers: Vec<(i64, u32)>,
    /// Whether the indexes have what the table has: it may have been restored.
    is_indexed: bool,
}

impl IntervalJoin {
    fn with_limits(
        spec: &node::IntervalJoin,
        left: &LogicalType,
        right: &LogicalType,
        context: &StateContext,
        limits: Limits,
    ) -> Result<Self, OperatorError> {
        let (of_left, of_right) = (side(spec, Input::Left), side(spec, Input::Right));
        let mut table = KeyedTable::new(TABLE, timed_input::keys(of_left.columns, left)?.layout(), None, context);
        let condition = |condition| Condition::try_new(condition, left.fields().len());
        Ok(Self {
            time: spec.bounds.time,
            now: 0,
            delay_ms: of_left.relative_ms.max(of_right.relative_ms),
            left: Cache::try_new(LEFT, &of_left, left, &mut table)?,
            right: Cache::try_new(RIGHT, &of_right, right, &mut table)?,
            table,
            condition: spec.join.condition.as_ref().map(condition).transpose()?,
            limits,
            waiting: None,
            side: Input::Left,
            probe: Probe::default(),
            clean_up: CleanUp::default(),
            output: Output::new(limits),
            sources: [Source::default(), Source::default()],
            timers: Vec::new(),
            is_indexed: false,
        })
    }

    fn accept(&mut self, side: Input, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        match side {
            Input::Left => self.left.input.check(&batch)?,
            Input::Right => self.right.input.check(&batch)?,
        }
        self.index()?;
        self.waiting = Some((side, batch));
        Ok(())
    }

    /// Makes the indexes of what was restored, before the first batch or timer.
    fn index(&mut self) -> Result<(), OperatorError> {
        if std::mem::replace(&mut self.is_indexed, true) {
            return Ok(());
        }
        let mut slots = Vec::with_capacity(self.table.len());
        self.table.for_each_slot(|slot, _| slots.push(slot));
        for (side, cache) in [(Input::Left, &mut self.left), (Input::Right, &mut self.right)] {
            for slot in &slots {
                if let Some(due) = cache.restored(&mut self.table, *slot)? {
                    self.clean_up.add(side, due, *slot);
                }
            }
        }
        Ok(())
    }

    /// Lets it be this late, and timers fire that are due.
    fn go_on(&mut self, until: i64) -> Result<(), OperatorError> {
        self.index()?;
        self.now = match self.time {
            // Flink counts event time from 1970
            TimeDomain::Rowtime => until.max(0),
            TimeDomain::Proctime => until,
        };
        self.clean_up.fire(until);
        Ok(())
    }

    /// Goes on with what is under way. False if there is nothing.
    fn advance(&mut self) -> Result<bool, OperatorError> {
        let Self { left, right, table, limits, now, .. } = self;
        let (limits, now) = (&*limits, *now);
        if self.clean_up.is_busy() {
            let mut caches = Caches { left, right, table, limits, now };
            let (of_left, of_right) = self.clean_up.advance(&mut caches, &mut self.output)?;
            (self.side, self.sources) = (Input::Left, [of_left, of_right]);
            return Ok(true);
        }
        let begun = self.waiting.take();
        if let Some((side, _)) = &begun {
            self.side = *side;
        }
        let side = self.side;
        let (own, other) = if side == Input::Left { (left, right) } else { (right, left) };
        let mut sides = Sides { side, own, other, table, condition: self.condition.as_ref(), limits, now };
        if let Some((_, batch)) = begun {
            self.sources = [self.probe.begin(batch, &mut sides)?, Source::default()];
        }
        if !self.probe.is_busy() {
            self.sources = [Source::default(), Source::default()];
            self.left.settle()?;
            self.right.settle()?;
            return Ok(false);
        }
        let [_, fetched] = &mut self.sources;
        self.probe.advance(&mut sides, &mut self.output, fetched, &mut self.timers)?;
        for (due, slot) in self.timers.drain(..) {
            self.clean_up.add(side, due, slot);
        }
        Ok(true)
    }
}

impl Operator for IntervalJoin {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.accept(Input::Left, batch)
    }

    fn push_second(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.accept(Input::Right, batch)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            let of_left = &self.left.input.types[..];
            let of_right = &self.right.input.types[..];
            let types = if self.side == Input::Left { [of_left, of_right] } else { [of_right, of_left] };
            let [input, other] = &self.sources;
            if let Some(batch) = self.output.pull(Shape::Both, self.side, [input, other], types)? {
                return Ok(Some(batch));
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if reason == FlushReason::Checkpoint {
            self.index()?;
            self.left.store_all(&mut self.table)?;
            self.right.store_all(&mut self.table)?;
        }
        Ok(())
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        if self.time == TimeDomain::Proctime {
            return Ok(Some(watermark_ms));
        }
        self.go_on(watermark_ms)?;
        Ok(Some(watermark_ms.wrapping_sub(self.delay_ms)))
    }

    fn timer(&self) -> Option<i64> {
        // without a timer too it must be told the time
        (self.time == TimeDomain::Proctime).then(|| self.clean_up.first().unwrap_or(i64::MAX))
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        if self.time == TimeDomain::Proctime {
            self.go_on(now_ms)?;
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
        self.left.bytes()
            + self.right.bytes()
            + self.probe.bytes()
            + self.clean_up.bytes()
            + self.output.bytes()
            + self.sources.iter().map(Source::bytes).sum::<usize>()
    }
}
