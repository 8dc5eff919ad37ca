//! Windows of one row after the other, and the batch that is made of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, TimestampMillisecondArray, UInt32Array};
use streamfusion_row::Batch;

use crate::OperatorError;
use crate::window::assigner::window_start;
use crate::window::{TimeWindow, WindowAssigner, WindowZone};

/// A window with its time attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowWindow {
    start: i64,
    end: i64,
    /// The instant of the last millisecond.
    time: i64,
}

/// The windows of the last row, and for which local times they stay the same.
#[derive(Debug)]
pub(super) struct Assigned {
    assigner: WindowAssigner,
    zone: WindowZone,
    windows: Vec<RowWindow>,
    /// Times from the first on, up to but without the second, have these windows.
    same: (i64, i64),
    assigning: Vec<TimeWindow>,
}

impl Assigned {
    pub(super) fn new(assigner: WindowAssigner, zone: WindowZone) -> Self {
        Self { assigner, zone, windows: Vec::new(), same: (0, 0), assigning: Vec::new() }
    }

    pub(super) fn zone(&self) -> &WindowZone {
        &self.zone
    }

    /// The windows of a local time, in Flink's order.
    #[inline]
    pub(super) fn windows(&mut self, local_ms: i64) -> &[RowWindow] {
        let (from, until) = self.same;
        if local_ms < from || local_ms >= until {
            self.assign(local_ms);
        }
        &self.windows
    }

    fn assign(&mut self, local_ms: i64) {
        self.assigning.clear();
        self.assigner.assign(local_ms, &mut self.assigning);
        let zone = &self.zone;
        let window = |window: &TimeWindow| RowWindow {
            start: window.start,
            end: window.end,
            time: zone.to_epoch_millis(window.max_timestamp()),
        };
        self.windows.clear();
        self.windows.extend(self.assigning.iter().map(window));
        self.same = (self.border(local_ms), self.next_change(local_ms));
    }

    /// The last moment up to a local time where windows begin, or could.
    fn border(&self, local_ms: i64) -> i64 {
        match self.assigner {
            WindowAssigner::Tumbling { size, offset } => window_start(local_ms, offset, size),
            // where one begins, and where one ends
            WindowAssigner::Hopping { size, slide, offset } => {
                window_start(local_ms, offset, slide).max(window_start(local_ms, offset.wrapping_add(size), slide))
            }
            WindowAssigner::Cumulative { step, offset, .. } => window_start(local_ms, offset, step),
        }
    }

    /// The first moment behind a local time that has other windows, or could have.
    pub(super) fn next_change(&self, local_ms: i64) -> i64 {
        match self.assigner {
            WindowAssigner::Tumbling { size, offset } => window_start(local_ms, offset, size).wrapping_add(size),
            WindowAssigner::Hopping { size, slide, offset } => {
                let begins = window_start(local_ms, offset, slide).wrapping_add(slide);
                let ends = window_start(local_ms, offset.wrapping_add(size), slide).wrapping_add(slide);
                begins.min(ends)
            }
            WindowAssigner::Cumulative { step, offset, .. } => window_start(local_ms, offset, step).wrapping_add(step),
        }
    }

    /// A row has no more windows than these.
    pub(super) fn most_windows(&self) -> usize {
        let windows = match self.assigner {
            WindowAssigner::Tumbling { .. } => 1,
            WindowAssigner::Hopping { size, slide, .. } => size.saturating_add(slide - 1) / slide,
            WindowAssigner::Cumulative { max_size, step, .. } => max_size / step,
        };
        usize::try_from(windows).unwrap_or(usize::MAX)
    }
}

/// Rows of a batch, each with a window.
#[derive(Debug, Default)]
pub(super) struct Output {
    rows: Vec<u32>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    times: Vec<i64>,
}

impl Output {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row once per window.
    #[inline]
    pub(super) fn push(&mut self, row: usize, windows: &[RowWindow]) -> Result<(), OperatorError> {
        let row = u32::try_from(row).map_err(|_| OperatorError::Input("a batch of more than 2^32 rows".into()))?;
        for window in windows {
            self.rows.push(row);
            self.starts.push(window.start);
            self.ends.push(window.end);
            self.times.push(window.time);
        }
        Ok(())
    }

    /// The rows that were added, of this batch, with the columns of their windows; leaves nothing.
    pub(super) fn take(&mut self, batch: &Batch) -> Result<Batch, OperatorError> {
        let rows = std::mem::take(&mut self.rows);
        let count = rows.len();
        let follow_each_other = rows.windows(2).all(|pair| matches!(pair, [a, b] if a.wrapping_add(1) == *b));
        let copied = match rows.first() {
            // a view of the columns
            Some(first) if follow_each_other => batch.slice(*first as usize, count)?,
            _ => batch.take(&UInt32Array::from(rows))?,
        };
        let times = [&mut self.starts, &mut self.ends, &mut self.times]
            .map(|times| Arc::new(TimestampMillisecondArray::from(std::mem::take(times))) as ArrayRef);
        let columns = copied.columns().iter().cloned().chain(times).collect();
        let result = Batch::try_new(columns, count, copied.kinds().cloned())?;
        Ok(crate::calc::like(batch, result))
    }
}
