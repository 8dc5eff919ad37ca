//! Mini-batch assigners from JSON.

use super::{Inputs, NodeJson, NodeType};
use crate::node::{MiniBatchAssigner, NodeKind};
use crate::reader::json::{closed, integer, malformed, required, text};
use crate::reason::Reason;
use crate::types::TimeDomain;

pub(super) const MINI_BATCH_ASSIGNER: NodeType = NodeType {
    name: "stream-exec-mini-batch-assigner",
    properties: &["miniBatchInterval"],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_assigner(node).map(NodeKind::MiniBatchAssigner),
};

fn read_assigner(node: &NodeJson<'_>) -> Result<MiniBatchAssigner, Reason> {
    let interval = closed(required(node.map, "miniBatchInterval")?, "`miniBatchInterval`", &["interval", "mode"])?;
    let mode = match text(interval, "mode")? {
        "ProcTime" => TimeDomain::Proctime,
        "RowTime" => TimeDomain::Rowtime,
        other => return Err(Reason::new(format!("a mini-batch assigner in the mode {other} is not known here"))),
    };
    match integer(interval, "interval")? {
        interval_ms @ 1.. => Ok(MiniBatchAssigner { mode, interval_ms }),
        other => Err(malformed(format_args!("the interval of a mini-batch assigner is {other} ms"))),
    }
}
