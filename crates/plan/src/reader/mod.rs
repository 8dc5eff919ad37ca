//! Reads a planning request (or a compiled plan file, which is a valid request) into a [`Graph`].
//!
//! What is not known here becomes [`NodeKind::Stock`] on its node. Only a text that is no
//! plan at all is an error: not JSON, nodes without ids, edges to nowhere, a cycle. Each node is parsed on its own, so that
//! one that is nested too deeply costs only itself.

mod date;
mod json;
mod literal;
mod node;
mod number;
mod rex;
#[cfg(test)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
mod tests;
mod types;

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use json::parse_shallow;
pub use node::{read_multi_join, read_node};
pub use rex::read_rex;
pub use types::read_type;

use crate::node::{Node, NodeKind};
use crate::reason::Reason;

/// Options of the session, as text.
pub type Config = BTreeMap<String, String>;

/// A plan: nodes, connected by their `inputs`.
#[derive(Debug, Clone)]
pub struct Graph {
    /// The nodes in plan order. Ids are unique, every input is a node of the graph, and there is no cycle.
    pub nodes: Vec<Node>,
    /// Every option set in the session.
    pub config: Config,
    /// Whether its checkpoints may be unaligned, at once or after a timeout: they then store records on their way.
    pub unaligned: bool,
    /// Version of Flink that wrote the plan, where it says so.
    pub flink_version: Option<String>,
    raw: Vec<Value>,
    index: HashMap<i64, usize>,
    topological: Vec<usize>,
}

/// A text that is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not JSON, or JSON of another shape.
    #[error("not a plan: {source}")]
    Json {
        /// Where and why.
        #[from]
        source: serde_json::Error,
    },
    /// An element of `nodes` that is no object or has no integer `id`.
    #[error("element {position} of the plan's nodes has no id")]
    NodeWithoutId {
        /// Position in `nodes`, from 0.
        position: usize,
    },
    /// Two nodes of one id.
    #[error("the plan has two nodes with the id {id}")]
    DuplicateId {
        /// The id.
        id: i64,
    },
    /// An edge from or to a node that the plan does not have.
    #[error("an edge of the plan names node {id}, which does not exist")]
    UnknownNode {
        /// The id.
        id: i64,
    },
    /// The edges form a cycle.
    #[error("the edges of the plan form a cycle through node {id}")]
    Cycle {
        /// A node on the cycle or behind it.
        id: i64,
    },
}

#[derive(Deserialize)]
struct Request {
    #[serde(rename = "flinkVersion", default)]
    flink_version: Option<Value>,
    #[serde(default)]
    config: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    unaligned: Option<bool>,
    nodes: Vec<Box<RawValue>>,
    #[serde(default)]
    edges: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    source: i64,
    target: i64,
    #[serde(default)]
    shuffle: Option<Value>,
}

impl Graph {
    /// Reads a request. Nodes keep the order of the text.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        let request: Request = serde_json::from_str(text)?;
        let config: Config = request
            .config
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(key, value)| Some((key, scalar(value)?)))
            .collect();

        let mut inputs: HashMap<i64, Vec<i64>> = HashMap::new();
        let mut shuffled: HashMap<i64, Reason> = HashMap::new();
        for edge in &request.edges {
            inputs.entry(edge.target).or_default().push(edge.source);
            if let Some(kind) =
                edge.shuffle.as_ref().and_then(|s| s.get("type")).filter(|t| t.as_str() != Some("FORWARD"))
            {
                shuffled.insert(edge.target, Reason::new(format!("an input arrives by the unknown shuffle {kind}")));
            }
        }

        let mut nodes = Vec::with_capacity(request.nodes.len());
        let mut raw = Vec::with_capacity(request.nodes.len());
        let mut index = HashMap::new();
        for (position, text) in request.nodes.iter().enumerate() {
            let (json, unreadable) = json::parse_shallow(text.get()).ok_or(PlanError::NodeWithoutId { position })?;
            let id = json.get("id").and_then(Value::as_i64).ok_or(PlanError::NodeWithoutId { position })?;
            if index.insert(id, position).is_some() {
                return Err(PlanError::DuplicateId { id });
            }
            let mut node = read_node(&json, inputs.remove(&id).unwrap_or_default(), &config);
            if let Some(reason) = unreadable.or(shuffled.remove(&id)) {
                node.kind = NodeKind::Stock(reason);
            }
            nodes.push(node);
            raw.push(json);
        }
        if let Some(&id) = inputs.keys().min() {
            return Err(PlanError::UnknownNode { id });
        }

        let topological = topological(&nodes, &index)?;
        Ok(Self {
            nodes,
            config,
            unaligned: request.unaligned.unwrap_or(false),
            flink_version: request.flink_version.and_then(scalar),
            raw,
            index,
            topological,
        })
    }

    /// The node with this id.
    pub fn node(&self, id: i64) -> Option<&Node> {
        self.nodes.get(self.position(id)?)
    }

    /// Position of a node in `nodes`.
    pub fn position(&self, id: i64) -> Option<usize> {
        self.index.get(&id).copied()
    }

    /// The JSON of the node at a position of `nodes`.
    pub fn json(&self, position: usize) -> Option<&Value> {
        self.raw.get(position)
    }

    /// Positions of all nodes, inputs before their readers; plan order where that leaves a choice.
    pub fn topological(&self) -> &[usize] {
        &self.topological
    }
}

fn scalar(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn topological(nodes: &[Node], index: &HashMap<i64, usize>) -> Result<Vec<usize>, PlanError> {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waiting = vec![0_usize; nodes.len()];
    for (position, node) in nodes.iter().enumerate() {
        for input in &node.inputs {
            let producer = *index.get(input).ok_or(PlanError::UnknownNode { id: *input })?;
            if let (Some(list), Some(count)) = (readers.get_mut(producer), waiting.get_mut(position)) {
                list.push(position);
                *count += 1;
            }
        }
    }
    // A heap keeps plan order where the edges leave a choice.
    let mut ready: std::collections::BinaryHeap<std::cmp::Reverse<usize>> =
        waiting.iter().enumerate().filter(|(_, count)| **count == 0).map(|(p, _)| std::cmp::Reverse(p)).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(std::cmp::Reverse(position)) = ready.pop() {
        order.push(position);
        for &reader in readers.get(position).into_iter().flatten() {
            if let Some(count) = waiting.get_mut(reader) {
                *count -= 1;
                if *count == 0 {
                    ready.push(std::cmp::Reverse(reader));
                }
            }
        }
    }
    match waiting.iter().position(|count| *count > 0).and_then(|position| nodes.get(position)) {
        Some(node) => Err(PlanError::Cycle { id: node.id }),
        None => Ok(order),
    }
}
