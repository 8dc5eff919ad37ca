//! What makes watermarks of rows.

use crate::rex::Rex;

/// Makes watermarks of rows; rows pass unchanged.
///
/// Follows: StreamExecWatermarkAssigner, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct WatermarkAssigner {
    /// The row-time column, which is never NULL.
    pub row_time: usize,
    /// The watermark that a row stands for: TIMESTAMP or TIMESTAMP_LTZ in milliseconds. A NULL is none.
    pub watermark: Rex,
    /// After how many milliseconds without a row watermarks are idle; never, if 0 or less.
    pub idle_timeout_ms: i64,
}
