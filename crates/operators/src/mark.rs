//! What an operator sends on between its own batches, where neither a watermark nor the clock asked for it.

/// Stands between two batches of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A watermark in milliseconds.
    Watermark(i64),
    /// Whether more watermarks are to be expected.
    Status(WatermarkStatus),
}

/// Whether watermarks are to be expected of an input. Flink's valves do not wait for one that is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatermarkStatus {
    /// They are.
    Active,
    /// Not until it is active again.
    Idle,
}
