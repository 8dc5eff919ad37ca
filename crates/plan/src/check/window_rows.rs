//! Operators over rows that come with their window.

use super::rows::{keys, numbered, unchanged};
use super::{join, malformed};
use crate::node::{WindowDeduplicate, WindowJoin, WindowRank, Windowing, WindowingStrategy};
use crate::reason::Reason;
use crate::types::{Field, LogicalType, TypeKind};

pub(super) fn rank(node: &WindowRank, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    windows(&node.windowing, input.fields())?;
    keys(&node.partition, input)?;
    if node.order_by.iter().any(|field| field.column >= input.fields().len()) {
        return Err(malformed("a sort column does not exist"));
    }
    numbered(node.output_row_number, input.fields(), output)
}

pub(super) fn deduplicate(node: &WindowDeduplicate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    windows(&node.windowing, input.fields())?;
    keys(&node.partition, input)?;
    if !is_millis(node.order_key, input.fields()) {
        return Err(malformed("rows are ordered by a column that is not a timestamp in milliseconds"));
    }
    unchanged(input.fields(), output.fields())
}

pub(super) fn join(
    node: &WindowJoin,
    left: &LogicalType,
    right: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    windows(&node.left, left.fields())?;
    windows(&node.right, right.fields())?;
    join::timed(&node.join, [left.fields(), right.fields()], output)
}

/// Whether the ends of the windows are there.
fn windows(windowing: &Windowing, columns: &[Field]) -> Result<(), Reason> {
    match windowing.strategy {
        WindowingStrategy::WindowAttached { end, .. } if is_millis(end, columns) => Ok(()),
        _ => Err(malformed("the end of the window is not a timestamp in milliseconds")),
    }
}

/// Whether Flink reads the column as milliseconds.
fn is_millis(column: usize, columns: &[Field]) -> bool {
    matches!(
        columns.get(column).map(|field| &field.ty.kind),
        Some(TypeKind::Timestamp { precision: 0..=3, .. } | TypeKind::TimestampLtz { precision: 0..=3, .. })
    )
}
