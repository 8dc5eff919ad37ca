//! OVER aggregates.

use super::AggCall;
use crate::rex::Literal;
use crate::types::{LogicalType, TimeAttribute, TimeDomain, TypeKind};

/// Aggregates over the rows of a partition that come before each row, in one window.
///
/// The output has the columns of the input and behind them a column per call. The upper bound is always the current row:
/// Flink refuses all others on a stream, and more than one sort column, and descending order.
///
/// Follows: StreamExecOverAggregate, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct OverAggregate {
    /// Columns of the input.
    pub input_columns: usize,
    /// Columns that partition the rows; empty: all rows together.
    pub partition: Vec<usize>,
    /// The column that the rows are sorted by, ascending.
    pub order: usize,
    /// Whether NULL comes last in that order.
    pub nulls_last: bool,
    /// Which rows a row is aggregated with.
    pub frame: OverFrame,
    /// Aggregate calls. An argument beyond the columns of the input is one of the constants.
    pub calls: Vec<AggCall>,
    /// Constants that calls have as arguments, numbered behind the columns of the input.
    pub constants: Vec<Constant>,
    /// State retention in milliseconds; 0 is off.
    pub ttl_ms: i64,
    /// Which of Flink's operators for an unbounded window by row time runs (`table.exec.unbounded-over.version`): 1 or 2.
    pub unbounded_version: i64,
}

/// A literal with its type.
#[derive(Debug, Clone, PartialEq)]
pub struct Constant {
    /// The value.
    pub value: Literal,
    /// Its type.
    pub ty: LogicalType,
}

/// The rows that a row is aggregated with: those before it in sort order down to a bound, and itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverFrame {
    /// `ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW`
    UnboundedRows,
    /// `RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW`: rows of its own time, too, that come behind it.
    UnboundedRange,
    /// `ROWS BETWEEN preceding PRECEDING AND CURRENT ROW`
    Rows {
        /// Rows before it, at least 0.
        preceding: i64,
    },
    /// `RANGE BETWEEN preceding PRECEDING AND CURRENT ROW`
    Range {
        /// Milliseconds before its own time, at least 0.
        preceding_ms: i64,
    },
}

impl OverFrame {
    /// Whether rows leave the frame, so that calls have to take them back.
    pub fn is_bounded(self) -> bool {
        matches!(self, Self::Rows { .. } | Self::Range { .. })
    }
}

impl OverAggregate {
    /// The time by which rows of this type are sorted; `None` if it is another column than a time attribute.
    pub fn time(&self, input: &LogicalType) -> Option<TimeDomain> {
        time_domain(input, self.order)
    }
}

/// The time of a column, if it is a time attribute.
pub(super) fn time_domain(input: &LogicalType, column: usize) -> Option<TimeDomain> {
    match input.fields().get(column).map(|field| &field.ty.kind)? {
        TypeKind::Timestamp { attribute, .. } | TypeKind::TimestampLtz { attribute, .. } => match attribute {
            TimeAttribute::Rowtime => Some(TimeDomain::Rowtime),
            TimeAttribute::Proctime => Some(TimeDomain::Proctime),
            TimeAttribute::Regular => None,
        },
        _ => None,
    }
}
