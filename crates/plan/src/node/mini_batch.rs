//! What marks the ends of bundles.

use crate::types::TimeDomain;

/// Marks the ends of bundles with watermarks; rows pass unchanged.
///
/// Follows: StreamExecMiniBatchAssigner, Flink 2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MiniBatchAssigner {
    /// By row time the watermarks that come in are thinned out to one per interval; by processing time they are swallowed,
    /// and the clock makes new ones.
    pub mode: TimeDomain,
    /// Length of an interval in milliseconds, at least 1.
    pub interval_ms: i64,
}
