//! Rows into the windows of their keys, windows out when they are due.

use arrow::array::BooleanArray;
use streamfusion_expr::error::ExprError;
use streamfusion_plan::types::TimeDomain;
use streamfusion_row::Batch;
use streamfusion_state::canonical::Sections;
use streamfusion_state::{KeyedState, KeyedTable, RestoreError, StateError, StateSnapshot, Store};

use super::assign::{Assigned, Windows};
use super::clock::{Clock, LateRule};
use super::contents::{Contents, Pulled};
use super::open::{Bounds, Due, OpenWindows, Run};
use super::sessions::Ended;
use crate::keys::Keys;
use crate::{DroppedRows, Operator, OperatorError, Residence};

/// Whether a checkpoint keeps how far event time had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Kept,
    Forgotten,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Unslicing<C> {
    pub(super) keys: Keys,
    pub(super) table: KeyedTable,
    pub(super) bounds: Bounds,
    pub(super) contents: C,
    pub(super) windows: Windows,
    pub(super) domain: TimeDomain,
    pub(super) progress: Progress,
    pub(super) clock: Clock,
    pub(super) open: OpenWindows,
    pub(super) assigned: Assigned,
    /// Windows that have fired, and how many of them were handed out.
    pub(super) due: Vec<Due>,
    pub(super) pulled: usize,
    pub(super) late: u64,
    /// Rows that were dropped because they have no time.
    pub(super) without_time: u64,
    /// Whether the state has windows that were restored and are not in `open` yet.
    pub(super) restored: bool,
}

impl<C: Contents> Unslicing<C> {
    /// Takes over what was restored.
    fn refresh(&mut self) -> Result<(), OperatorError> {
        if std::mem::take(&mut self.restored) {
            self.open.restore(&mut self.keys, self.bounds, &mut self.table, &self.clock)?;
            self.contents.restore(&mut self.table)?;
        }
        Ok(())
    }

    fn fire(&mut self) -> Result<(), OperatorError> {
        self.refresh()?;
        self.open.take_due(self.clock.progress(self.domain), &self.clock, &mut self.due)
    }

    /// The results of the next windows that have fired, which are forgotten with that.
    fn hand_out(&mut self) -> Result<Option<Batch>, OperatorError> {
        while let Some(fired) = self.due.get(self.pulled..).filter(|fired| !fired.is_empty()) {
            let Pulled { batch, windows } = self.contents.pull(&self.keys, &mut self.table, &self.clock.zone, fired)?;
            for due in fired.iter().take(windows) {
                self.table.remove(due.slot)?;
            }
            self.pulled += windows;
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

impl<C: Contents> KeyedState for Unslicing<C> {
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
        self.table.bytes() + self.open.bytes(self.table.len()) + due + self.contents.bytes()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        self.restored = true;
        KeyedState::attach(&mut self.table, store)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.table.write_back()
    }
}

impl<C: Contents> Operator for Unslicing<C> {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let pushed_rows = batch.num_rows();
        let batch = self.windows.with_time(batch)?;
        let num_rows = batch.num_rows();
        self.without_time += (pushed_rows - num_rows) as u64;
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
            if rows.num_rows() > 0 {
                self.contents.add(&mut self.table, &rows, &mut run.windows)?;
            }
            self.table.commit(&run.windows.slots);
            if let Some(merge) = self.open.merge() {
                self.contents.merge(&mut self.table, merge)?;
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

    fn dropped_rows(&self) -> DroppedRows {
        let null_row_time = self.windows.drops_rows_without_time().then_some(self.without_time);
        DroppedRows { late: Some(self.late), null_row_time, ..DroppedRows::default() }
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }
}
