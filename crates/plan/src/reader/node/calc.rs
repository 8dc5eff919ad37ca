//! Projections from JSON: Calc and Expand.

use serde_json::Value;

use super::{Inputs, NodeJson, NodeType};
use crate::node::{Calc, Expand, NodeKind};
use crate::reader::json::{array, malformed, optional};
use crate::reader::rex::read_rex;
use crate::reason::Reason;

pub(super) const CALC: NodeType = NodeType {
    name: "stream-exec-calc",
    properties: &["projection", "condition"],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_calc(node).map(NodeKind::Calc),
};

pub(super) const EXPAND: NodeType = NodeType {
    name: "stream-exec-expand",
    properties: &["projects"],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_expand(node).map(NodeKind::Expand),
};

fn read_calc(node: &NodeJson<'_>) -> Result<Calc, Reason> {
    let projection = array(node.map, "projection")?.iter().map(read_rex).collect::<Result<_, _>>()?;
    let condition = optional(node.map, "condition").map(read_rex).transpose()?;
    Ok(Calc { projection, condition })
}

fn read_expand(node: &NodeJson<'_>) -> Result<Expand, Reason> {
    let projection = |json: &Value| {
        let list = json.as_array().ok_or_else(|| malformed("`projects` is not a list of lists"))?;
        list.iter().map(read_rex).collect::<Result<Vec<_>, Reason>>()
    };
    let projects = array(node.map, "projects")?.iter().map(projection).collect::<Result<Vec<_>, Reason>>()?;
    if projects.is_empty() { Err(malformed("`projects` is empty")) } else { Ok(Expand { projects }) }
}
