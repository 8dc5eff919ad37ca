//! Operators over rows that come with their window: Top-N, deduplication and joins per window.

use super::{JoinSpec, KeepRow, SortField, Windowing};

/// The rows of each key and window whose row number in sort order is within a range.
///
/// The function is always ROW_NUMBER, the windows are of event time and attached. The output has the columns of the input and, with
/// `output_row_number`, the row number behind them.
///
/// Follows: StreamExecWindowRank, Flink 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRank {
    /// Columns that partition the rows of a window; empty: all rows together.
    pub partition: Vec<usize>,
    /// Sort order.
    pub order_by: Vec<SortField>,
    /// The first row number that goes out, at least 1.
    pub start: i64,
    /// The last one, at least `start`.
    pub end: i64,
    /// Whether the row number, a BIGINT, is the last column of the output.
    pub output_row_number: bool,
    /// The windows.
    pub windowing: Windowing,
}

/// The first or last row of each key and window by row time. The output has the type of the input.
///
/// Follows: StreamExecWindowDeduplicate, Flink 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowDeduplicate {
    /// Key columns.
    pub partition: Vec<usize>,
    /// The column of the time that rows are ordered by.
    pub order_key: usize,
    /// Which row stays.
    pub keep: KeepRow,
    /// The windows.
    pub windowing: Windowing,
}

/// Pairs of rows of two inputs with equal keys and the same window.
///
/// The output has the columns of the left input and, but for SEMI and ANTI, those of the right one behind them.
///
/// Follows: StreamExecWindowJoin, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowJoin {
    /// Which rows go out.
    pub join: JoinSpec,
    /// The windows of the left input, whose zone counts for both.
    pub left: Windowing,
    /// The windows of the right input.
    pub right: Windowing,
}
