//! Joins of two streams with a condition on time: interval join and temporal join.

use super::JoinType;
use crate::rex::Rex;
use crate::types::TimeDomain;

/// What joins of two streams have in common, but for what is kept of their inputs.
///
/// Without key columns everything is on one subtask.
///
/// Follows: JoinSpec, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinSpec {
    /// Which rows go out.
    pub join_type: JoinType,
    /// Columns of the left input that must equal ..
    pub left_keys: Vec<usize>,
    /// .. these of the right one.
    pub right_keys: Vec<usize>,
    /// Per pair of key columns whether NULL matches nothing; else it matches NULL.
    pub filter_nulls: Vec<bool>,
    /// What else must be TRUE of two rows: an expression over the columns of the left input and, behind them, those of the
    /// right one.
    pub condition: Option<Rex>,
}

/// Rows match if their times are not too far apart. The output has the columns of the left input, then those of the right one.
///
/// Follows: StreamExecIntervalJoin, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalJoin {
    /// Keys and condition; never SEMI or ANTI.
    pub join: JoinSpec,
    /// Which pairs are near enough.
    pub bounds: WindowBounds,
    /// How much longer than needed rows are kept at most before they are cleaned up
    /// (`table.exec.interval-join.min-cleanup-interval`), in milliseconds.
    pub min_clean_up_interval_ms: i64,
}

/// A left and a right row match if `right + lower <= left <= right + upper`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowBounds {
    /// Which time.
    pub time: TimeDomain,
    /// In milliseconds; may be negative.
    pub left_lower_ms: i64,
    /// In milliseconds; may be negative, and less than the lower one: then no rows match.
    pub left_upper_ms: i64,
    /// Column of the left time attribute; of no meaning in processing time.
    pub left_time: usize,
    /// Column of the right time attribute; of no meaning in processing time.
    pub right_time: usize,
}

/// Joins each left row with the version of the right side that was valid at its time. The output has the columns of the left
/// input, then those of the right one.
///
/// Follows: StreamExecTemporalJoin, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct TemporalJoin {
    /// Keys and condition; INNER or LEFT.
    pub join: JoinSpec,
    /// Columns of the left and the right time attribute; `None` in processing time, which only joins with a temporal table
    /// function have.
    pub row_times: Option<RowTimes>,
    /// State retention in milliseconds; 0 or 1 is off.
    pub retention_ms: i64,
}

/// Columns of the time attributes of two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowTimes {
    /// Of the left one.
    pub left: usize,
    /// Of the right one.
    pub right: usize,
}
