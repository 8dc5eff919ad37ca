//! GROUP BY with a window in it, as SQL had it before there were table functions for windows.

use super::{AggCall, ShiftZone, WindowProperty, WindowSpec};
use crate::types::TimeDomain;

/// An aggregate per key and window, whose windows go out once: early and late firing are off.
///
/// A row of the output has the grouping columns, the results and the properties of its window.
///
/// Follows: StreamExecGroupWindowAggregate, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupWindowAggregate {
    /// Key columns of the input, beside the window.
    pub grouping: Vec<usize>,
    /// Aggregate calls; may be none.
    pub calls: Vec<AggCall>,
    /// Windows; cumulative ones, offsets and partitions there are none.
    pub window: WindowSpec,
    /// The time attribute of the input.
    pub time_column: usize,
    /// Whether it is one of event or processing time.
    pub time: TimeDomain,
    /// In whose local time windows begin and end.
    pub zone: ShiftZone,
    /// Columns behind the results.
    pub properties: Vec<WindowProperty>,
    /// Whether the input retracts.
    pub need_retraction: bool,
}

impl GroupWindowAggregate {
    /// The column of the input from which a window follows: none with windows of processing time, which go by the clock.
    pub fn read_time(&self) -> Option<usize> {
        (self.time == TimeDomain::Rowtime).then_some(self.time_column)
    }
}
