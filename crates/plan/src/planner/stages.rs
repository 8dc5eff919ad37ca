//! Cuts native nodes into stages.
//!
//! Rows of a Flink operator that several chains read become batches once, in a stage that only enters; the chains get the same
//! batches.
//!
//! Invariants: a stage is a chain; only its first node may have two inputs; what is merged into one input is all rows or all
//! batches; it holds at most one stateful node; only its
//! last node has several readers; an exchange is the last node. Stages stand behind those that they read from.

use super::live::{Live, everything, reads, reads_together};
use super::{Decisions, Edges};
use crate::capability::NativeNode;
use crate::entry::EntryField;
use crate::job::{Form, Source, Stage, StageInput};
use crate::node::{Distribution, Node, NodeKind};
use crate::reader::Graph;
use crate::spec::{self, InputParts, NodeText, SpecParts};

/// The stages, and per node, in the order of the graph, the stage that it is part of.
pub(super) fn cut(
    graph: &Graph,
    edges: &Edges,
    live: &Live,
    decisions: &Decisions,
) -> (Vec<Stage>, Vec<Option<usize>>) {
    let chains = chains(graph, edges, decisions);
    let mut cutter = Cutter {
        graph,
        edges,
        live,
        decisions,
        stages: Vec::with_capacity(chains.len()),
        stage_of: vec![None; graph.nodes.len()],
    };
    for chain in &chains {
        cutter.chain(chain);
    }
    (cutter.stages, cutter.stage_of)
}

/// Maximal chains of native nodes, in topological order of their first nodes: a node joins the chain of its input, where
/// that is allowed, and chains read only from nodes before their first.
fn chains(graph: &Graph, edges: &Edges, decisions: &Decisions) -> Vec<Vec<usize>> {
    struct Chain {
        nodes: Vec<usize>,
        stateful: bool,
    }
    let mut chains: Vec<Chain> = Vec::new();
    let mut chain_of: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for &position in graph.topological() {
        let Ok(native) = &decisions[position] else { continue };
        let joined = match edges.inputs[position].as_slice() {
            &[input] if graph.nodes[position].kind != NodeKind::Union => chain_of[input].filter(|chain| {
                !matches!(graph.nodes[input].kind, NodeKind::Exchange(_))
                    && edges.readers[input].len() == 1
                    && !(chains[*chain].stateful && native.stateful)
            }),
            _ => None,
        };
        let chain = joined.unwrap_or(chains.len());
        if joined.is_none() {
            chains.push(Chain { nodes: Vec::new(), stateful: false });
        }
        chains[chain].nodes.push(position);
        chains[chain].stateful |= native.stateful;
        chain_of[position] = Some(chain);
    }
    chains.into_iter().map(|chain| chain.nodes).collect()
}

struct Cutter<'a> {
    graph: &'a Graph,
    edges: &'a Edges,
    live: &'a Live,
    decisions: &'a Decisions,
    stages: Vec<Stage>,
    stage_of: Vec<Option<usize>>,
}

/// A stage without what follows from its nodes.
struct Draft<'a> {
    /// Positions of its nodes.
    nodes: &'a [usize],
    anchor: usize,
    inputs: Vec<StageInput>,
    output: Form,
    writes: Vec<EntryField>,
}

impl Cutter<'_> {
    /// Adds the stage of a chain, behind it the stage that exits for its Flink readers, and before it those that
    /// enter rows where a union reads both rows and batches, or where several chains read the same rows.
    fn chain(&mut self, nodes: &[usize]) {
        let (Some(&first), Some(&last)) = (nodes.first(), nodes.last()) else { return };
        let ports = self.edges.ports(self.graph, first);
        let inputs = ports.into_iter().map(|producers| self.input(first, producers)).collect();

        let readers = &self.edges.readers[last];
        let native_readers = readers.iter().filter(|reader| self.decisions[**reader].is_ok()).count();
        let output = if native_readers > 0 { Form::Batches } else { Form::Rows };
        let writes = self.live[last].clone();
        let stage = self.push(Draft { nodes, anchor: self.anchor(nodes, last), inputs, output, writes });
        for &node in nodes {
            self.stage_of[node] = Some(stage);
        }
        if native_readers > 0 && native_readers < readers.len() {
            self.exit(last, stage);
        }
    }

    /// One input of the stage that begins with the node at `first`: what the nodes `producers` hand on, merged.
    fn input(&mut self, first: usize, producers: &[usize]) -> StageInput {
        let together = self.readers_together(first, producers);
        let reads = match (&together, producers) {
            (Some(readers), &[producer]) => reads_together(self.graph, self.decisions, self.live, producer, readers),
            _ => reads(self.graph, self.decisions, self.live, first, producers),
        };
        let row_type = match (&self.graph.nodes[first].kind, producers.first()) {
            (NodeKind::Union, _) | (_, None) => first,
            (_, Some(producer)) => *producer,
        };
        let row_type = self.graph.nodes[row_type].id;
        let batches = together.is_some() || producers.iter().any(|producer| self.stage_of[*producer].is_some());
        let sources = producers
            .iter()
            .map(|&producer| {
                let stage = match self.stage_of[producer] {
                    None if batches => Some(self.enter(producer, row_type, &reads)),
                    stage => stage,
                };
                Source { node: self.graph.nodes[producer].id, stage }
            })
            .collect();
        let fragments = producers
            .iter()
            .filter_map(|producer| self.stage_of[*producer])
            .any(|stage| self.ends_in_hash_exchange(stage));
        StageInput { sources, row_type, reads, fragments }
    }

    /// The chains, by their first nodes, that read the rows of the same Flink operator as the one at `first`, this one among them, if
    /// there are several. A union gives what it merges a form of its own.
    fn readers_together(&self, first: usize, producers: &[usize]) -> Option<Vec<usize>> {
        let &[producer] = producers else { return None };
        let shares = |reader: &usize| {
            self.decisions[*reader].is_ok() && !matches!(self.graph.nodes[*reader].kind, NodeKind::Union)
        };
        if self.decisions[producer].is_ok() || !shares(&first) {
            return None;
        }
        let readers: Vec<usize> = self.edges.readers[producer].iter().copied().filter(shares).collect();
        (readers.len() > 1).then_some(readers)
    }

    fn ends_in_hash_exchange(&self, stage: usize) -> bool {
        matches!(self.stages[stage].exchange, Some(Distribution::Hash(_)))
    }

    /// A stage that turns the rows of a Flink operator into batches: one for the chains that read them, and one per union that needs them.
    fn enter(&mut self, producer: usize, row_type: i64, reads: &[EntryField]) -> usize {
        let sources = vec![Source { node: self.graph.nodes[producer].id, stage: None }];
        let input = StageInput { sources, row_type, reads: reads.to_vec(), fragments: false };
        let twin = |stage: &Stage| {
            let [own] = stage.inputs.as_slice() else { return false };
            stage.nodes.is_empty() && own.sources == input.sources && own.row_type == row_type
        };
        if let Some(stage) = self.stages.iter().position(twin) {
            return stage;
        }
        let writes = reads.to_vec();
        self.push(Draft { nodes: &[], anchor: producer, inputs: vec![input], output: Form::Batches, writes })
    }

    /// A stage that turns the batches of `stage` into rows for the Flink readers of its last node.
    fn exit(&mut self, node: usize, stage: usize) {
        let Node { id, output, .. } = &self.graph.nodes[node];
        let sources = vec![Source { node: *id, stage: Some(stage) }];
        let fragments = self.ends_in_hash_exchange(stage);
        let input = StageInput { sources, row_type: *id, reads: everything(output), fragments };
        let writes = everything(output);
        self.push(Draft { nodes: &[], anchor: node, inputs: vec![input], output: Form::Rows, writes });
    }

    /// The stateful node, else the last node that is not an exchange, else the exchange.
    fn anchor(&self, nodes: &[usize], last: usize) -> usize {
        let stateful = nodes.iter().find(|node| self.decisions[**node].as_ref().is_ok_and(|native| native.stateful));
        let unmoved = nodes.iter().rev().find(|node| !matches!(self.graph.nodes[**node].kind, NodeKind::Exchange(_)));
        stateful.or(unmoved).copied().unwrap_or(last)
    }

    fn push(&mut self, draft: Draft<'_>) -> usize {
        let node = |position: usize| &self.graph.nodes[position];
        let native = |position: usize| self.decisions[position].as_ref().ok();
        let hosts: Vec<_> = draft
            .nodes
            .iter()
            .flat_map(|&position| {
                let hosts = native(position).map(|native: &NativeNode| native.hosts.as_slice()).unwrap_or_default();
                hosts.iter().map(move |host| (node(position).id, host.clone()))
            })
            .collect();
        let exchange = draft.nodes.last().and_then(|position| match &node(*position).kind {
            NodeKind::Exchange(distribution) => Some(distribution.clone()),
            _ => None,
        });
        let fragments_out = self.graph.unaligned && matches!(exchange, Some(Distribution::Hash(_)));
        let mut stage = Stage {
            nodes: draft.nodes.iter().map(|position| node(*position).id).collect(),
            anchor: node(draft.anchor).id,
            inputs: draft.inputs,
            output: draft.output,
            exchange,
            fragments_out,
            writes: draft.writes,
            hosts,
            stateful: draft.nodes.iter().any(|&position| native(position).is_some_and(|native| native.stateful)),
            collects: draft.nodes.iter().any(|&position| native(position).is_some_and(|native| native.collects)),
            spec: serde_json::Value::Null,
        };
        stage.spec = self.spec(&stage, draft.nodes);
        self.stages.push(stage);
        self.stages.len() - 1
    }

    fn spec(&self, stage: &Stage, nodes: &[usize]) -> serde_json::Value {
        let null = serde_json::Value::Null;
        let json = |position: usize| self.graph.json(position).unwrap_or(&null);
        let output_type = |position: usize| json(position).get("outputType").unwrap_or(&null);
        let computing = nodes.iter().filter(|node| !matches!(self.graph.nodes[**node].kind, NodeKind::Exchange(_)));
        let nodes = computing
            .map(|&position| NodeText {
                json: json(position),
                inputs: &self.graph.nodes[position].inputs,
                types: self.edges.inputs[position].iter().map(|input| output_type(*input)).collect(),
            })
            .collect();
        let inputs = stage
            .inputs
            .iter()
            .map(|input| InputParts {
                row_type: self.graph.position(input.row_type).map_or(&null, output_type),
                form: input.form(),
                reads: &input.reads,
            })
            .collect();
        spec::write(&SpecParts {
            inputs,
            nodes,
            hosts: stage.hosts.iter().map(|(node, host)| (*node, host.pointer.as_str())).collect(),
            exchange: stage.exchange.as_ref().map(|distribution: &Distribution| distribution),
            output_form: stage.output,
            writes: &stage.writes,
            config: &self.graph.config,
        })
    }
}
