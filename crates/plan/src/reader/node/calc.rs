//! Calc from JSON.

use super::{Inputs, NodeJson, NodeType};
use crate::node::{Calc, NodeKind};
use crate::reader::json::{array, optional};
use crate::reader::rex::read_rex;
use crate::reason::Reason;

pub(super) const CALC: NodeType = NodeType {
    name: "stream-exec-calc",
    properties: &["projection", "condition"],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_calc(node).map(NodeKind::Calc),
};

fn read_calc(node: &NodeJson<'_>) -> Result<Calc, Reason> {
    let projection = array(node.map, "projection")?.iter().map(read_rex).collect::<Result<_, _>>()?;
    let condition = optional(node.map, "condition").map(read_rex).transpose()?;
    Ok(Calc { projection, condition })
}
