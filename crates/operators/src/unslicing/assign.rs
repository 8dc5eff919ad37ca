//! The window that a row has for itself.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::is_not_null;
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType};
use streamfusion_expr::error::ExprError;
use streamfusion_row::Batch;

use super::clock::Clock;
use super::sessions::{Ended, Outcome, Sessions};
use crate::OperatorError;
use crate::window::TimeWindow;
use crate::window::assigner::window_start;

/// What Flink says of a row time that is NULL.
pub(super) const NULL_ROW_TIME: &str = "rowtimeIndex should not be null, please convert it to a non-null long value.";

/// Where the time of a row comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// A column with instants or, where time is not shifted, local times.
    Column(usize, NullTime),
    /// The clock.
    Processing,
}

/// What a row time of NULL is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NullTime {
    /// A failure with this message.
    Refused(&'static str),
    /// The epoch: what lies in a BinaryRow for it.
    Epoch,
    /// That of a row which is dropped.
    Dropped,
}

/// Windows that each key has of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Windows {
    /// Sessions: from the time of a row to one gap later, and whatever that touches.
    Session {
        /// The time of rows.
        time: Time,
        /// In milliseconds.
        gap: i64,
    },
    /// Windows of one size, end to end.
    Tumbling {
        /// The time of rows.
        time: Time,
        /// In milliseconds.
        size: i64,
    },
    /// Rows have a window, as two columns of local time.
    Attached {
        /// The column of its start.
        start: usize,
        /// The column of its end.
        end: usize,
    },
}

impl Windows {
    /// Whether rows that have no time are dropped.
    pub(super) fn drops_rows_without_time(self) -> bool {
        self.dropping().is_some()
    }

    /// The column with the time, where a row without one is dropped.
    fn dropping(self) -> Option<usize> {
        match self {
            Self::Session { time: Time::Column(column, NullTime::Dropped), .. }
            | Self::Tumbling { time: Time::Column(column, NullTime::Dropped), .. } => Some(column),
            Self::Session { .. } | Self::Tumbling { .. } | Self::Attached { .. } => None,
        }
    }

    /// The rows of a batch that are not dropped for want of a time.
    pub(super) fn with_time(self, batch: Batch) -> Result<Batch, OperatorError> {
        let times = self.dropping().and_then(|column| batch.columns().get(column));
        match times.filter(|times| times.null_count() > 0) {
            None => Ok(batch),
            Some(times) => Ok(batch.filter(&is_not_null(times)?)?),
        }
    }
}

/// The windows of the rows of a batch.
#[derive(Debug, Default)]
pub(crate) struct Assigned {
    /// The time of each row, or the start of its window.
    times: Vec<i64>,
    ends: Vec<i64>,
}

impl Assigned {
    /// Reads the times of a batch.
    pub(crate) fn read(&mut self, windows: Windows, batch: &Batch, clock: &Clock) -> Result<(), OperatorError> {
        match windows {
            Windows::Session { time, .. } | Windows::Tumbling { time, .. } => match time {
                Time::Processing => {
                    self.times.clear();
                    self.times.resize(batch.num_rows(), clock.zone.to_utc_timestamp_millis(clock.now));
                }
                Time::Column(column, null) => {
                    read(batch, column, null, &mut self.times)?;
                    clock.zone.shift_all(&mut self.times);
                }
            },
            Windows::Attached { start, end } => {
                read(batch, end, NullTime::Refused(NULL_ROW_TIME), &mut self.ends)?;
                read(batch, start, NullTime::Refused("RowTime field should not be null."), &mut self.times)?;
            }
        }
        Ok(())
    }

    /// The local time of each row.
    pub(crate) fn times(&self) -> &[i64] {
        &self.times
    }

    /// Takes a row into the windows of its key.
    #[inline]
    pub(super) fn add(
        &self,
        windows: Windows,
        row: usize,
        of_key: &mut Sessions,
        mut clock: &Clock,
    ) -> Result<Outcome, Ended> {
        let time = self.times[row];
        match windows {
            Windows::Session { gap, time: of } => {
                let outcome = of_key.add(TimeWindow { start: time, end: time.wrapping_add(gap) }, &mut clock)?;
                match (of, &outcome) {
                    (Time::Processing, Outcome::Joined(place)) => match of_key.as_slice().get(*place) {
                        // Flink forgets the window, and fails when its timer fires
                        Some(session) if clock.has_ended(session.window) => Err(Ended(session.window)),
                        _ => Ok(outcome),
                    },
                    _ => Ok(outcome),
                }
            }
            Windows::Tumbling { size, .. } => {
                let start = window_start(time, 0, size);
                Ok(of_key.attach(TimeWindow { start, end: start.wrapping_add(size) }, &mut clock))
            }
            Windows::Attached { .. } => Ok(of_key.attach(TimeWindow { start: time, end: self.ends[row] }, &mut clock)),
        }
    }
}

/// The values of a column of milliseconds.
fn read(batch: &Batch, column: usize, null: NullTime, out: &mut Vec<i64>) -> Result<(), OperatorError> {
    let columns = batch.columns();
    let array: &ArrayRef = columns
        .get(column)
        .ok_or_else(|| OperatorError::Input(format!("time column {column} of {} columns", columns.len())))?;
    let DataType::Timestamp(TimeUnit::Millisecond, _) = array.data_type() else {
        return Err(OperatorError::Input(format!("a row time of type {}", array.data_type())));
    };
    let values = array.as_primitive::<TimestampMillisecondType>();
    out.clear();
    match (array.nulls().filter(|nulls| nulls.null_count() > 0), null) {
        (None, _) => out.extend_from_slice(values.values()),
        (Some(_), NullTime::Refused(message)) => {
            return Err(ExprError::Java { class: "java.lang.RuntimeException", message: message.to_owned() }.into());
        }
        (Some(nulls), NullTime::Epoch | NullTime::Dropped) => {
            let values = values.values().iter().zip(nulls.iter());
            out.extend(values.map(|(value, valid)| if valid { *value } else { 0 }));
        }
    }
    Ok(())
}
