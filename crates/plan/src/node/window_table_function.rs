//! Rows with their windows.

use super::Windowing;

/// Each row once per window in which it lies, with the start, the end and the time attribute of that window behind its own columns.
///
/// Follows: StreamExecWindowTableFunction, Flink 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowTableFunction {
    /// Windows, by a time attribute.
    pub windowing: Windowing,
}
