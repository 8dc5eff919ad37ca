//! ORDER BY a time attribute.

use super::SortField;
use super::over::time_domain;
use crate::types::{LogicalType, TimeDomain};

/// Sorts all rows by a time attribute, and rows of one time by further columns.
///
/// Follows: StreamExecTemporalSort, Flink 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemporalSort {
    /// The sort order. There is a first column; Flink wants it to be a time attribute, ascending.
    pub order_by: Vec<SortField>,
}

impl TemporalSort {
    /// The column of the time attribute.
    pub fn time_column(&self) -> Option<usize> {
        self.order_by.first().map(|field| field.column)
    }

    /// The time by which rows of this type are sorted; `None` if the first column is no time attribute.
    pub fn time(&self, input: &LogicalType) -> Option<TimeDomain> {
        time_domain(input, self.time_column()?)
    }
}
