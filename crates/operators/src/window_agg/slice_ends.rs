//! The slice of each row.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMillisecondType};
use streamfusion_plan::Reason;
use streamfusion_plan::node::{Windowing, WindowingStrategy};
use streamfusion_row::Batch;

use crate::OperatorError;
use crate::watermark_assigner::null_row_time;
use crate::window::{SliceAssigner, WindowZone};

/// Where the slice of a row comes from.
#[derive(Debug)]
pub(super) struct SliceEnds {
    source: Source,
    slices: SliceAssigner,
    zone: WindowZone,
    /// Per row, for those that were read last.
    pub(super) ends: Vec<i64>,
    /// Whether the row has another end than the row before it, for the first row of each run.
    pub(super) runs: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The row time in this column.
    RowTime(usize),
    /// The clock.
    Clock,
    /// The row says so, in this column.
    Attached(usize),
}

impl SliceEnds {
    pub(super) fn try_new(windowing: &Windowing, slices: SliceAssigner) -> Result<Self, Reason> {
        let source = match windowing.strategy {
            WindowingStrategy::TimeAttribute { column } if windowing.is_rowtime => Source::RowTime(column),
            WindowingStrategy::TimeAttribute { .. } => Source::Clock,
            WindowingStrategy::WindowAttached { end, .. } | WindowingStrategy::SliceAttached { end } => {
                Source::Attached(end)
            }
        };
        let zone = WindowZone::new(&windowing.zone);
        Ok(Self { source, slices, zone, ends: Vec::new(), runs: Vec::new() })
    }

    /// Whether rows go by the clock.
    pub(super) fn is_processing_time(&self) -> bool {
        self.source == Source::Clock
    }

    /// The local time at which the slice ends that is open now.
    pub(super) fn current_end(&self, now_ms: i64) -> i64 {
        self.slices.assign_slice_end(self.zone.to_utc_timestamp_millis(now_ms))
    }

    /// Reads the ends of the slices of a batch.
    pub(super) fn read(&mut self, batch: &Batch, now_ms: i64) -> Result<(), OperatorError> {
        self.ends.clear();
        match self.source {
            Source::RowTime(column) => {
                let times = millis(batch, column)?;
                if times.null_count() > 0 {
                    return Err(null_row_time());
                }
                self.assign(times)?;
            }
            Source::Clock => {
                let end = self.current_end(now_ms);
                self.ends.resize(batch.num_rows(), end);
            }
            Source::Attached(column) => self.copy(millis(batch, column)?)?,
        }
        self.find_runs();
        Ok(())
    }

    /// From row times to slices; rows of one slice come one behind the other.
    fn assign(&mut self, times: &ArrayRef) -> Result<(), OperatorError> {
        self.copy(times)?;
        self.zone.shift_all(&mut self.ends);
        let slices = self.slices;
        let length = slices.slice_end_interval();
        let (mut start, mut end) = (i64::MAX, i64::MAX);
        for time in &mut self.ends {
            if *time < start || *time >= end {
                end = slices.assign_slice_end(*time);
                start = end.wrapping_sub(length);
            }
            *time = end;
        }
        Ok(())
    }

    /// The values as they are; in the place of NULL Flink reads 0.
    fn copy(&mut self, array: &ArrayRef) -> Result<(), OperatorError> {
        let values = match array.data_type() {
            DataType::Int64 => array.as_primitive_opt::<Int64Type>().map(|array| array.values()),
            _ => array.as_primitive_opt::<TimestampMillisecondType>().map(|array| array.values()),
        };
        let values = values.ok_or_else(|| OperatorError::Input(format!("a time of type {}", array.data_type())))?;
        self.ends.extend_from_slice(values);
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            let absent = self.ends.iter_mut().zip(nulls).filter(|(_, valid)| !valid);
            absent.for_each(|(end, _)| *end = 0);
        }
        Ok(())
    }

    fn find_runs(&mut self) {
        self.runs.clear();
        let Some(first) = self.ends.first() else { return };
        self.runs.push(0);
        let mut last = *first;
        for (row, end) in (0..).zip(&self.ends) {
            if *end != last {
                self.runs.push(row);
                last = *end;
            }
        }
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.ends.capacity() * size_of::<i64>() + self.runs.capacity() * size_of::<u32>()
    }
}

/// A column of milliseconds.
fn millis(batch: &Batch, column: usize) -> Result<&ArrayRef, OperatorError> {
    let array = batch.columns().get(column);
    let is_time = |array: &&ArrayRef| {
        matches!(array.data_type(), DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, None))
    };
    array.filter(is_time).ok_or_else(|| OperatorError::Input(format!("column {column} is no time in milliseconds")))
}
