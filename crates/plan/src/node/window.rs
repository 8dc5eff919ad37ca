//! Which window a row belongs to: the windowing of every node that goes by windows.
//!
//! All durations are in milliseconds and inside of what Flink's assigners accept. Whether the slices of a window come out
//! even is not decided here, since only some nodes cut windows into slices.

use super::AggCall;
use crate::types::LogicalType;
use crate::zone::ZoneRules;

/// How a node comes to the windows of its rows.
///
/// Follows: WindowingStrategy and its subclasses, Flink 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windowing {
    /// Where the window of a row comes from.
    pub strategy: WindowingStrategy,
    /// The windows.
    pub window: WindowSpec,
    /// Type of the time attribute by which the windows were assigned, wherever that was.
    pub time_attribute: LogicalType,
    /// Whether the windows are of event time. Where windows are attached, nodes go by watermarks all the same.
    pub is_rowtime: bool,
    /// In whose local time windows begin and end.
    pub zone: ShiftZone,
}

impl Windowing {
    /// The columns of the input from which a window follows: none with windows of processing time, which go by the clock.
    pub fn columns(&self) -> Vec<usize> {
        match self.strategy {
            WindowingStrategy::TimeAttribute { column } if self.is_rowtime => vec![column],
            WindowingStrategy::TimeAttribute { .. } => Vec::new(),
            WindowingStrategy::WindowAttached { start, end } => start.into_iter().chain([end]).collect(),
            WindowingStrategy::SliceAttached { end } => vec![end],
        }
    }
}

/// Where the window of a row comes from. Column numbers are those of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowingStrategy {
    /// From a time attribute, or from the clock if that is a processing-time attribute.
    TimeAttribute {
        /// The attribute.
        column: usize,
    },
    /// It is there, as two columns of local time.
    WindowAttached {
        /// The start; absent where only the end is there.
        start: Option<usize>,
        /// The end.
        end: usize,
    },
    /// The end of the slice is there, as local time in milliseconds: BIGINT.
    SliceAttached {
        /// The end.
        end: usize,
    },
}

/// The windows that a stream is cut into.
///
/// Follows: WindowSpec and its subclasses, Flink 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowSpec {
    /// Windows of one size, end to end.
    Tumbling {
        /// Length, at least 1.
        size_ms: i64,
        /// By how much windows begin later than at the epoch; negative is earlier. Less than a window.
        offset_ms: i64,
    },
    /// Windows of one size that begin every so often.
    Hopping {
        /// Length, at least 1.
        size_ms: i64,
        /// From begin to begin, at least 1.
        slide_ms: i64,
        /// By how much windows begin later than at the epoch; negative is earlier.
        offset_ms: i64,
    },
    /// Windows that grow step by step up to a size, then begin anew.
    Cumulative {
        /// Length of the last one, at least 1, a multiple of the step.
        max_size_ms: i64,
        /// By how much they grow, at least 1.
        step_ms: i64,
        /// By how much windows begin later than at the epoch; negative is earlier.
        offset_ms: i64,
    },
    /// Windows that end when no row came for a while.
    Session {
        /// How long, at least 1.
        gap_ms: i64,
        /// Columns whose values have sessions of their own.
        partition: Vec<usize>,
    },
}

/// In whose local time windows begin and end: that of the session if the time attribute is TIMESTAMP_LTZ, which is an
/// instant, and otherwise none, since the attribute is local time already.
///
/// Follows: TimeWindowUtil.getShiftTimeZone, Flink 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShiftZone {
    /// Time is not shifted.
    Utc,
    /// Time is shifted by the offset of this zone.
    Zone(ZoneRules),
}

/// An aggregate over windows in one phase.
///
/// A row of the output has the grouping columns, the results and the properties of its window.
///
/// Follows: StreamExecWindowAggregate, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowAggregate {
    /// Key columns of the input, beside the window.
    pub grouping: Vec<usize>,
    /// Aggregate calls; may be none.
    pub calls: Vec<AggCall>,
    /// Windows.
    pub windowing: Windowing,
    /// Columns behind the results.
    pub properties: Vec<WindowProperty>,
    /// Whether the input retracts.
    pub need_retraction: bool,
}

/// The local phase of an aggregate over windows: no state, not keyed.
///
/// A row of the output has the grouping columns, the accumulators, and the end of the slice or attached window as BIGINT.
///
/// Follows: StreamExecLocalWindowAggregate, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalWindowAggregate {
    /// Key columns of the input, beside the window.
    pub grouping: Vec<usize>,
    /// Aggregate calls; may be none.
    pub calls: Vec<AggCall>,
    /// Windows.
    pub windowing: Windowing,
    /// Whether the input retracts.
    pub need_retraction: bool,
}

/// The global phase of an aggregate over windows.
///
/// Follows: StreamExecGlobalWindowAggregate, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct GlobalWindowAggregate {
    /// Key columns of the input, beside the window.
    pub grouping: Vec<usize>,
    /// Aggregate calls; their columns are those of `local_input`.
    pub calls: Vec<AggCall>,
    /// Type of the rows that the local phase reads; a ROW.
    pub local_input: LogicalType,
    /// Windows; attached as windows or slices.
    pub windowing: Windowing,
    /// Columns behind the results.
    pub properties: Vec<WindowProperty>,
    /// Whether the input of the local phase retracts.
    pub need_retraction: bool,
}

/// What is known of a window beside its results.
///
/// Follows: WindowProperty and its subclasses, Flink 2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowProperty {
    /// Its start as local time.
    Start,
    /// Its end as local time.
    End,
    /// Its last millisecond, as the time attribute of the rows that come out.
    Rowtime,
    /// Always NULL; whoever reads it asks the clock.
    Proctime,
}
