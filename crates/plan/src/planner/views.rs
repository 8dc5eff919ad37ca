//! Accumulators that hold a map go from native nodes to native nodes only.
//!
//! Between the phases of an aggregate with DISTINCT, and of MIN and MAX over rows that retract, Flink hands on Java objects. Native phases
//! have bytes of their own in these columns ([`TypeKind::View`](crate::types::TypeKind::View)). So whoever writes such a column and whoever
//! reads it, the exchange between them included, run natively together or not at all.

use super::{Decisions, Edges};
use crate::reader::Graph;
use crate::reason::Reason;

/// Leaves candidates on Flink that share such a column with a node that stays there.
pub(super) fn keep_together(graph: &Graph, edges: &Edges, decisions: &mut Decisions) {
    // Each pass takes the reason one edge further.
    while let Some((position, reason)) = next(graph, edges, decisions) {
        decisions[position] = Err(reason);
    }
}

/// A candidate that cannot be one, and why.
fn next(graph: &Graph, edges: &Edges, decisions: &Decisions) -> Option<(usize, Reason)> {
    let writers = (0..graph.nodes.len()).filter(|writer| graph.nodes[*writer].output.has_views());
    let mut pairs = writers.flat_map(|writer| edges.readers[writer].iter().map(move |reader| (writer, *reader)));
    pairs.find_map(|(writer, reader)| match (&decisions[writer], &decisions[reader]) {
        (Ok(_), Err(reason)) => Some((writer, together(graph, reader, reason))),
        (Err(reason), Ok(_)) => Some((reader, together(graph, writer, reason))),
        _ => None,
    })
}

fn together(graph: &Graph, other: usize, reason: &Reason) -> Reason {
    let reason = reason.to_string();
    if reason.starts_with(PHASES) {
        return Reason::new(reason); // the cause, from further away
    }
    Reason::new(format!("{PHASES} natively together, and {} does not: {reason}", name(graph, other)))
}

const PHASES: &str = "the phases of this aggregate hand on maps of values, so that they run";

/// What Flink calls a node.
fn name(graph: &Graph, position: usize) -> &str {
    let node = &graph.nodes[position];
    node.description.split('(').next().unwrap_or(&node.type_name)
}
