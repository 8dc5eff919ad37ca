//! Top-N, and ORDER BY and LIMIT, which Flink runs as Top-N.

/// The rows of each partition whose row number in sort order is within a range.
///
/// The function is always ROW_NUMBER: Flink refuses RANK and DENSE_RANK on a stream, and a range without an end. The output
/// has the columns of the input and, with `output_row_number`, the row number behind them.
///
/// Follows: StreamExecRank, StreamExecSortLimit, StreamExecLimit, Flink 2.2. The plans of the last two may leave out what is
/// fixed for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Columns that partition the rows; empty: all rows together.
    pub partition: Vec<usize>,
    /// Sort order; empty for LIMIT.
    pub order_by: Vec<SortField>,
    /// Which row numbers go out.
    pub range: RankRange,
    /// How the input changes.
    pub strategy: RankStrategy,
    /// Whether the row number, a BIGINT, is the last column of the output.
    pub output_row_number: bool,
    /// Whether -U goes out before +U.
    pub generate_update_before: bool,
    /// State time to live in milliseconds; 0 is off.
    pub ttl_ms: i64,
    /// If changes go out bundle by bundle. Flink has no such Top-N; see the option `streamfusion.top-n.mini-batch`.
    pub mini_batch: Option<RankMiniBatch>,
    /// Rows that Flink keeps on the heap (`table.exec.rank.topn-cache-size`), for all keys together.
    pub cache_size: i64,
}

/// The bundles of a Top-N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankMiniBatch {
    /// The most rows of one, at least 1.
    pub size: u64,
    /// How long one waits for more rows, at least 1 ms: in event time markers come with watermarks alone, for which Flink's Top-N does not wait.
    pub latency_ms: i64,
}

/// One column of a sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortField {
    /// The column.
    pub column: usize,
    /// Ascending or descending.
    pub ascending: bool,
    /// Whether NULL comes last or first, whatever the direction.
    pub nulls_last: bool,
}

/// Which row numbers, from 1, go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RankRange {
    /// From `start` to `end`.
    Constant {
        /// The first, at least 1.
        start: i64,
        /// The last; below `start` nothing goes out.
        end: i64,
    },
    /// From 1 to the value that the rows of the partition have in a column of type BIGINT, INT or SMALLINT.
    Variable {
        /// The column.
        end_column: usize,
    },
}

/// How the input of a Top-N changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RankStrategy {
    /// It is insert-only.
    AppendFast,
    /// It has no deletions, and an updated row never moves back in the order.
    UpdateFast {
        /// Columns that identify a row within its partition.
        primary_keys: Vec<usize>,
    },
    /// It may change in any way.
    Retract,
}
