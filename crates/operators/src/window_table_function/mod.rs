//! Each row once per window in which it lies: `TUMBLE`, `HOP` and `CUMULATE` on their own.
//!
//! Start and end of the window are local time, its time attribute is the instant of its last millisecond. The copies of a row lie side by
//! side, with its kind. A row without row time has no window and is dropped. By processing time all rows of a batch have the windows of the
//! moment of which they were told; there is a timer where other windows begin.
//!
//! Rows that follow each other mostly have the same windows, so these are computed anew only where time leaves them.
//!
//! What SESSION does is in [`unslicing`](crate::unslicing).
//!
//! Follows: AlignedWindowTableFunctionOperator, Flink 2.2. Differences: none.

mod assigned;
#[cfg(test)]
mod tests;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::compute::is_not_null;
use arrow::datatypes::TimestampMillisecondType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, WindowingStrategy};
use streamfusion_row::Batch;

use self::assigned::{Assigned, Output};
use crate::window::{WindowAssigner, WindowZone};
use crate::{DroppedRows, OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, Operator, OperatorError};

/// When it comes first, the clock is told at once.
const AT_ONCE_MS: i64 = 0;

/// Zones change their offsets at such moments.
const QUARTER_HOUR_MS: i64 = 15 * 60 * 1_000;

/// Whether these are windows that [`WindowTableFunction`] assigns.
pub fn supports(spec: &node::WindowTableFunction) -> Result<(), Reason> {
    match WindowAssigner::new(&spec.windowing.window) {
        Some(_) => Ok(()),
        None => Err(Reason::new("sessions are windows of their keys, which this operator does not have")),
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct WindowTableFunction {
    time: Time,
    assigned: Assigned,
    rest: Option<Rest>,
    output: Output,
    null_row_times: u64,
}

/// What windows go by.
#[derive(Debug, Clone, Copy)]
enum Time {
    /// A column.
    Row(usize),
    /// The clock, once it was told.
    Clock { now_ms: Option<i64> },
}

/// What of the pushed batch has not gone yet.
#[derive(Debug)]
struct Rest {
    batch: Batch,
    /// Per row its local time; one time for all rows by processing time.
    times: Vec<i64>,
    /// The row that is next.
    row: usize,
    /// How many of its windows have gone.
    windows: usize,
    /// Bytes of each row, where rows may be too large for batches of the usual number of rows.
    row_bytes: Option<Vec<usize>>,
}

impl Rest {
    fn time(&self, row: usize) -> i64 {
        self.times.get(row).or(self.times.first()).copied().unwrap_or_default()
    }
}

impl WindowTableFunction {
    /// For a node of a plan, which [`supports`] it.
    pub fn try_new(spec: &node::WindowTableFunction) -> Result<Self, OperatorError> {
        let windowing = &spec.windowing;
        let assigner = WindowAssigner::new(&windowing.window)
            .ok_or_else(|| OperatorError::Internal("windows without an assigner".into()))?;
        let time = match windowing.strategy {
            WindowingStrategy::TimeAttribute { column } if windowing.is_rowtime => Time::Row(column),
            WindowingStrategy::TimeAttribute { .. } => Time::Clock { now_ms: None },
            _ => return Err(OperatorError::Internal("windows that are there already".into())),
        };
        Ok(Self {
            time,
            assigned: Assigned::new(assigner, WindowZone::new(&windowing.zone)),
            rest: None,
            output: Output::default(),
            null_row_times: 0,
        })
    }

    /// The rows that have a time, and their local times.
    fn times(&mut self, batch: Batch) -> Result<(Batch, Vec<i64>), OperatorError> {
        let zone = self.assigned.zone();
        let Time::Row(column) = self.time else {
            let Time::Clock { now_ms: Some(now_ms) } = self.time else {
                return Err(OperatorError::Internal("rows came before the time was told".into()));
            };
            return Ok((batch, vec![zone.to_utc_timestamp_millis(now_ms)]));
        };
        let missing = || OperatorError::Input("no row-time column".into());
        let times = batch.columns().get(column).ok_or_else(missing)?;
        let batch = match times.null_count() {
            0 => batch,
            nulls => {
                self.null_row_times += nulls as u64;
                let has_time: BooleanArray = is_not_null(times)?;
                batch.filter(&has_time)?
            }
        };
        let times =
            batch.columns().get(column).and_then(|column| column.as_primitive_opt::<TimestampMillisecondType>());
        let mut times = times.ok_or_else(missing)?.values().to_vec();
        zone.shift_all(&mut times);
        Ok((batch, times))
    }
}

impl Operator for WindowTableFunction {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let (batch, times) = self.times(batch)?;
        let copies = self.assigned.most_windows();
        let row_bytes = match batch.bytes().saturating_mul(copies) > OUTPUT_BATCH_BYTES && batch.num_rows() > 1 {
            true => {
                let bytes = (0..batch.num_rows()).map(|row| Ok(batch.slice(row, 1)?.bytes()));
                Some(bytes.collect::<Result<_, OperatorError>>()?)
            }
            false => None,
        };
        self.rest = Some(Rest { batch, times, row: 0, windows: 0, row_bytes });
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let Some(rest) = &mut self.rest else { return Ok(None) };
        let rows = rest.batch.num_rows();
        let mut bytes = 0;
        while rest.row < rows && self.output.len() < OUTPUT_BATCH_ROWS && bytes < OUTPUT_BATCH_BYTES {
            let windows = self.assigned.windows(rest.time(rest.row));
            let row_bytes = rest.row_bytes.as_ref().and_then(|bytes| bytes.get(rest.row)).copied().unwrap_or_default();
            let room = OUTPUT_BATCH_ROWS - self.output.len();
            let fitting = (OUTPUT_BATCH_BYTES - bytes).checked_div(row_bytes).unwrap_or(room).clamp(1, room);
            let left = windows.get(rest.windows..).unwrap_or_default();
            let going = left.get(..fitting).unwrap_or(left);
            self.output.push(rest.row, going)?;
            bytes = bytes.saturating_add(row_bytes.saturating_mul(going.len()));
            if going.len() == left.len() {
                (rest.row, rest.windows) = (rest.row + 1, 0);
            } else {
                rest.windows += going.len();
                break;
            }
        }
        if self.output.len() == 0 {
            self.rest = None;
            return Ok(None);
        }
        self.output.take(&rest.batch).map(Some)
    }

    fn timer(&self) -> Option<i64> {
        let Time::Clock { now_ms } = self.time else { return None };
        let Some(now_ms) = now_ms else { return Some(AT_ONCE_MS) };
        let zone = self.assigned.zone();
        let local_ms = zone.to_utc_timestamp_millis(now_ms);
        let changes_ms = now_ms.saturating_add(self.assigned.next_change(local_ms).wrapping_sub(local_ms));
        let offset_changes_ms = now_ms.saturating_add(QUARTER_HOUR_MS - now_ms.rem_euclid(QUARTER_HOUR_MS));
        Some(if zone.is_utc() { changes_ms } else { changes_ms.min(offset_changes_ms) })
    }

    fn processing_time(&mut self, told_ms: i64) -> Result<Option<i64>, OperatorError> {
        if let Time::Clock { now_ms } = &mut self.time {
            *now_ms = Some(told_ms);
        }
        Ok(None)
    }

    fn dropped_rows(&self) -> DroppedRows {
        DroppedRows { null_row_time: Some(self.null_row_times), ..DroppedRows::default() }
    }
}
