//! Decides which nodes run natively and cuts them into stages.
//!
//! 1. A node is a candidate if the engine can run it and nothing about the job forbids it (`candidates`), and if whoever it exchanges maps of
//!    values with is one too (`views`).
//! 2. Candidates that are connected form an island. An island that would not pay for its entry and exit stays on Flink as a
//!    whole (`worth`).
//! 3. What is left is cut into stages: chains that end at an exchange, at a node with several readers, and before a second
//!    stateful node (`stages`). `live` says which fields travel between them.

mod candidates;
mod host;
mod live;
mod stages;
#[cfg(test)]
mod tests;
mod views;
mod worth;

use crate::capability::{Capabilities, NativeNode};
use crate::job::{JobPlan, PlannedNode};
use crate::reader::Graph;
use crate::reason::Reason;

pub use worth::{Island, worth_it};

/// The edges of a graph by position. An edge appears as often as the plan has it.
struct Edges {
    inputs: Vec<Vec<usize>>,
    readers: Vec<Vec<usize>>,
}

impl Edges {
    fn new(graph: &Graph) -> Self {
        let inputs: Vec<Vec<usize>> =
            graph.nodes.iter().map(|node| node.inputs.iter().filter_map(|id| graph.position(*id)).collect()).collect();
        let mut readers = vec![Vec::new(); graph.nodes.len()];
        for (reader, producers) in inputs.iter().enumerate() {
            for &producer in producers {
                readers[producer].push(reader);
            }
        }
        Self { inputs, readers }
    }

    /// The inputs that a node tells apart, in order, each with the nodes that are merged into it.
    fn ports(&self, graph: &Graph, position: usize) -> Vec<&[usize]> {
        let inputs = self.inputs[position].as_slice();
        if graph.nodes[position].kind.has_two_inputs() { inputs.chunks(1).collect() } else { vec![inputs] }
    }
}

/// Per node, in the order of the graph: how it runs natively, or why it stays on Flink.
type Decisions = Vec<Result<NativeNode, Reason>>;

/// Plans a job. Never fails: a job of which nothing can run natively has no stages.
pub fn plan_job(graph: &Graph, capabilities: &dyn Capabilities) -> JobPlan {
    let edges = Edges::new(graph);
    let mut decisions = candidates::decide(graph, &edges, capabilities);
    let live = live::fields_live(graph, &edges, &decisions);
    worth::weigh(graph, &edges, &live, &mut decisions);
    let (stages, stage_of) = stages::cut(graph, &edges, &live, &decisions);

    let nodes = graph
        .nodes
        .iter()
        .zip(decisions)
        .zip(stage_of)
        .map(|((node, decision), stage)| {
            let (placement, hosts) = match (decision, stage) {
                (Ok(native), Some(stage)) => (Ok(stage), native.hosts),
                (Ok(_), None) => (Err(Reason::new("it belongs to no stage")), Vec::new()),
                (Err(reason), _) => (Err(reason), Vec::new()),
            };
            let (type_name, description) = (node.type_name.clone(), node.description.clone());
            PlannedNode { id: node.id, type_name, description, placement, hosts }
        })
        .collect();
    JobPlan { nodes, stages }
}
