//! Rows into the windows of their keys, windows out when they are due.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, TimestampMillisecondArray, new_null_array};
use arrow::datatypes::{DataType, TimeUnit};
use streamfusion_expr::error::ExprError;
use streamfusion_plan::node::WindowProperty;
use streamfusion_plan::types::TimeDomain;
use streamfusion_row::Batch;
use streamfusion_state::canonical::Sections;
use streamfusion_state::{KeyedState, KeyedTable, RestoreError, StateError, StateSnapshot, Store};

use super::assign::{Assigned, Windows};
use super::clock::{Clock, LateRule};
use super::open::{Bounds, Due, OpenWindows, Run};
use super::sessions::Ended;
use crate::group_agg::SlotAggregates;
use crate::keys::Keys;
use crate::window::{TimeWindow, WindowZone};
use crate::{OUTPUT_BATCH_ROWS, Operator, OperatorError, Residence};

/// Whether a checkpoint keeps how far event time had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Kept,
    Forgotten,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct UnslicingAgg {
    pub(super) keys: Keys,
    pub(super) table: KeyedTable,
    pub(super) bounds: Bounds,
    pub(super) calls: SlotAggregates,
    pub(super) windows: Windows,
    pub(super) domain: TimeDomain,
    pub(super) progress: Progress,
    pub(super) properties: Vec<WindowProperty>,
    pub(super) clock: Clock,
    pub(super) open: OpenWindows,
    pub(super) assigned: Assigned,
    /// Windows that have fired, and how many of them were handed out.
    pub(super) due: Vec<Due>,
    pub(super) pulled: usize,
    pub(super) late: u64,
    /// Whether the state has windows that were restored and are not in `open` yet.
    pub(super) restored: bool,
}

impl UnslicingAgg {
    /// Takes over what was restored.
    fn refresh(&mut self) -> Result<(), OperatorError> {
        if std::mem::take(&mut self.restored) {
            self.open.restore(&mut self.keys, self.bounds, &mut self.table, &self.clock)?;
        }
        Ok(())
    }

    fn fire(&mut self) -> Result<(), OperatorError> {
        self.refresh()?;
        self.open.take_due(self.clock.progress(self.domain), &self.clock, &mut self.due)
    }

    /// The results of the next windows that have fired, which are forgotten with that.
    fn hand_out(&mut self) -> Result<Option<Batch>, OperatorError> {
        while self.pulled < self.due.len() {
            let end = self.due.len().min(self.pulled + OUTPUT_BATCH_ROWS);
            let fired = self.due.get(self.pulled..end).unwrap_or_default();
            self.pulled = end;
            let batch =
                results(&self.keys, &mut self.calls, &mut self.table, &self.properties, &self.clock.zone, fired)?;
            for due in fired {
                self.table.remove(due.slot)?;
            }
            if batch.is_some() {
                return Ok(batch);
            }
        }
        self.due.clear();
        self.pulled = 0;
        Ok(None)
    }

    /// What Flink fails with.
    fn ended(&self, window: Ended) -> OperatorError {
        let Ended(window) = window;
        let (what, progress, time) = match self.clock.rule {
            LateRule::Watermark => ("an event-time", "watermark", self.clock.watermark),
            LateRule::Never => ("a processing-time", "processing time", self.clock.now),
        };
        let message = format!(
            "The end timestamp of {what} window cannot become earlier than the current {progress} by merging. \
             Current {progress}: {time} window: TimeWindow{{start={}, end={}}}",
            window.start, window.end
        );
        ExprError::Java { class: "java.lang.UnsupportedOperationException", message }.into()
    }
}

/// The rows of a run that are not late.
fn in_time(batch: &Batch, first: usize, run: &Run) -> Result<Batch, OperatorError> {
    let rows = if first == 0 && run.end == batch.num_rows() {
        batch.clone()
    } else {
        batch.slice(first, run.end.saturating_sub(first))?
    };
    if run.late.is_empty() {
        return Ok(rows);
    }
    let mut mask = vec![true; rows.num_rows()];
    for row in &run.late {
        if let Some(in_time) = mask.get_mut(row - first) {
            *in_time = false;
        }
    }
    Ok(rows.filter(&BooleanArray::from(mask))?)
}

/// A row per window, but for windows whose rows were all taken back.
fn results(
    keys: &Keys,
    calls: &mut SlotAggregates,
    table: &mut KeyedTable,
    properties: &[WindowProperty],
    zone: &WindowZone,
    fired: &[Due],
) -> Result<Option<Batch>, OperatorError> {
    let mut slots: Vec<u32> = fired.iter().map(|due| due.slot).collect();
    let mut windows: Vec<TimeWindow> = fired.iter().map(|due| due.window).collect();
    if let Some(counts) = calls.counts(table, &slots)? {
        keep(&mut slots, &counts);
        keep(&mut windows, &counts);
    }
    if slots.is_empty() {
        return Ok(None);
    }
    let mut columns = keys.of_slots(table, &slots)?;
    columns.extend(calls.values(table, &slots)?);
    columns.extend(properties.iter().map(|of| property(*of, &windows, zone)));
    Ok(Some(Batch::try_new(columns, slots.len(), None)?))
}

/// Leaves the items whose count is not 0.
pub(crate) fn keep<T>(items: &mut Vec<T>, counts: &[i64]) {
    let mut counts = counts.iter();
    items.retain(|_| counts.next().is_none_or(|count| *count != 0));
}

/// What is known of windows.
///
/// Follows: AggsHandlerCodeGenerator.getWindowExpressions, Flink 2.2.
pub(crate) fn property(of: WindowProperty, windows: &[TimeWindow], zone: &WindowZone) -> ArrayRef {
    let millis = |of: &dyn Fn(&TimeWindow) -> i64| {
        Arc::new(TimestampMillisecondArray::from_iter_values(windows.iter().map(of))) as ArrayRef
    };
    match of {
        WindowProperty::Start => millis(&|window| window.start),
        WindowProperty::End => millis(&|window| window.end),
        WindowProperty::Rowtime => millis(&|window| zone.to_epoch_millis(window.max_timestamp())),
        WindowProperty::Proctime => new_null_array(&DataType::Timestamp(TimeUnit::Millisecond, None), windows.len()),
    }
}

impl KeyedState for UnslicingAgg {
    fn table(&self) -> &'static str {
        super::TABLE
    }

    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        self.table.snapshot()
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.restored = true;
        self.table.restore(sections)
    }

    fn bytes(&self) -> usize {
        let due = self.due.capacity() * size_of::<Due>();
        self.table.bytes() + self.open.bytes(self.table.len()) + due
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        self.restored = true;
        KeyedState::attach(&mut self.table, store)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.table.write_back()
    }
}

impl Operator for UnslicingAgg {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let num_rows = batch.num_rows();
        if num_rows == 0 {
            return Ok(());
        }
        if i32::try_from(num_rows).is_err() {
            return Err(OperatorError::Input(format!("a batch of {num_rows} rows")));
        }
        self.refresh()?;
        let columns = self.keys.columns(&batch)?;
        self.assigned.read(self.windows, &batch, &self.clock)?;
        self.open.begin_batch(&mut self.keys, &columns, num_rows)?;
        let mut first = 0;
        loop {
            let Self { open, assigned, windows, clock, .. } = self;
            let taken = open.take_run(first, |of_key, row| assigned.add(*windows, row, of_key, clock));
            taken.map_err(|ended| self.ended(ended))?;
            let run = self.open.load_run(&mut self.keys, &columns, &mut self.table)?;
            self.late += run.late.len() as u64;
            let rows = in_time(&batch, first, run)?;
            first = run.end;
            std::mem::swap(self.calls.touched(), &mut run.windows);
            if rows.num_rows() > 0 {
                self.calls.fold(&mut self.table, &rows)?;
            }
            std::mem::swap(self.calls.touched(), &mut run.windows);
            self.table.commit(&run.windows.slots);
            if let Some(merge) = self.open.merge() {
                self.calls.merge(&mut self.table, &[merge.from], &[merge.into])?;
                self.table.remove(merge.from)?;
            }
            self.open.end_run(self.bounds, &mut self.table, &self.clock)?;
            if !self.open.is_cut() {
                return self.open.end_batch();
            }
        }
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.hand_out()
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        if watermark_ms > self.clock.watermark {
            self.clock.watermark = watermark_ms;
            if self.domain == TimeDomain::Rowtime {
                self.fire()?;
            }
        }
        Ok(Some(self.clock.watermark))
    }

    fn timer(&self) -> Option<i64> {
        match self.domain {
            TimeDomain::Rowtime => None,
            // what was restored is looked at first
            TimeDomain::Proctime if self.restored => Some(0),
            TimeDomain::Proctime => Some(self.open.next_timer().map_or(i64::MAX, |timer| timer.saturating_add(1))),
        }
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.clock.now = now_ms;
        if self.domain == TimeDomain::Proctime {
            self.fire()?;
        }
        Ok(None)
    }

    fn progress(&self) -> Option<i64> {
        (self.progress == Progress::Kept).then_some(self.clock.watermark)
    }

    fn restore_progress(&mut self, watermark_ms: i64) {
        self.clock.watermark = watermark_ms;
    }

    fn late_rows(&self) -> Option<u64> {
        Some(self.late)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }
}
