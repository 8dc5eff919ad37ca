//! Operators that make watermarks.

use super::{check_rex, malformed, same_layout};
use crate::node::WatermarkAssigner;
use crate::reason::Reason;
use crate::types::{LogicalType, TypeKind};

pub(super) fn watermark_assigner(
    node: &WatermarkAssigner,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    if !same_layout(input, output) {
        return Err(malformed("the output type differs from the input type"));
    }
    if !input.fields().get(node.row_time).is_some_and(|field| is_in_millis(&field.ty)) {
        return Err(malformed("the row-time column is no timestamp in milliseconds"));
    }
    if node.watermark.ty().is_some_and(|ty| !is_in_millis(ty)) {
        return Err(malformed("the watermark is no timestamp in milliseconds"));
    }
    check_rex(&node.watermark, input.fields())
}

/// Whether it is a timestamp that is not finer than milliseconds.
pub(super) fn is_in_millis(ty: &LogicalType) -> bool {
    matches!(ty.kind, TypeKind::Timestamp { precision: 0..=3, .. } | TypeKind::TimestampLtz { precision: 0..=3, .. })
}
