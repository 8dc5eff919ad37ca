//! Rows that operators drop, by the names under which Flink counts them.

/// How many rows were dropped since the operator was opened; `None` for a reason for which it drops none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedRows {
    /// They came too late: `numLateRecordsDropped`.
    pub late: Option<u64>,
    /// Rows of the left input came too late: `leftNumLateRecordsDropped`.
    pub left_late: Option<u64>,
    /// Rows of the right input came too late: `rightNumLateRecordsDropped`.
    pub right_late: Option<u64>,
    /// Their row time was NULL: `numNullRowTimeRecordsDropped`.
    pub null_row_time: Option<u64>,
}

impl DroppedRows {
    /// The counts in the order of the fields.
    pub fn counts(&self) -> [Option<u64>; 4] {
        [self.late, self.left_late, self.right_late, self.null_row_time]
    }

    /// What both dropped.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| a.map_or(b, |a| Some(a + b.unwrap_or(0)));
        Self {
            late: sum(self.late, other.late),
            left_late: sum(self.left_late, other.left_late),
            right_late: sum(self.right_late, other.right_late),
            null_row_time: sum(self.null_row_time, other.null_row_time),
        }
    }
}
