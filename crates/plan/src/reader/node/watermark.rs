//! Watermark assigners from JSON.

use super::{Inputs, NodeJson, NodeType};
use crate::node::{NodeKind, WatermarkAssigner};
use crate::reader::json::{index, required};
use crate::reader::rex::read_rex;
use crate::reason::Reason;

const IDLE_TIMEOUT: &str = "table.exec.source.idle-timeout";

pub(super) const WATERMARK_ASSIGNER: NodeType = NodeType {
    name: "stream-exec-watermark-assigner",
    properties: &["watermarkExpr", "rowtimeFieldIndex"],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_assigner(node).map(NodeKind::WatermarkAssigner),
};

fn read_assigner(node: &NodeJson<'_>) -> Result<WatermarkAssigner, Reason> {
    Ok(WatermarkAssigner {
        row_time: index(node.map, "rowtimeFieldIndex")?,
        watermark: read_rex(required(node.map, "watermarkExpr")?)?,
        idle_timeout_ms: node.options.duration_ms(IDLE_TIMEOUT, 0)?,
    })
}
