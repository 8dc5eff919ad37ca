//! Decides which nodes run natively and cuts them into stages.

use crate::capability::Capabilities;
use crate::job::{JobPlan, PlannedNode};
use crate::node::NodeKind;
use crate::reader::Graph;
use crate::reason::Reason;

/// Plans a job.
pub fn plan_job(graph: &Graph, _capabilities: &dyn Capabilities) -> JobPlan {
    let nodes = graph
        .nodes
        .iter()
        .map(|node| PlannedNode {
            id: node.id,
            type_name: node.type_name.clone(),
            description: node.description.clone(),
            placement: Err(match &node.kind {
                NodeKind::Stock(reason) => reason.clone(),
                _ => Reason::new("the planner is not built yet"),
            }),
            hosts: Vec::new(),
        })
        .collect();
    JobPlan { nodes, stages: Vec::new() }
}
