//! The text that carries a stage from planning to running. Only this module writes and reads it.
//!
//! It travels through the JVM and the job graph as an opaque string, within one version of this library, so it has no
//! version of its own.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::check::check_node;
use crate::entry::{EntryField, entry_from_json, entry_to_json};
use crate::job::Form;
use crate::node::{Distribution, Node, NodeKind};
use crate::reader::{Config, read_node, read_type};
use crate::reason::Reason;
use crate::types::LogicalType;
use crate::zone::RULES_OPTION_PREFIX;

/// What the engine needs to open a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageSpec {
    /// Type of the input rows; a ROW.
    pub input: LogicalType,
    /// Whether rows or batches come in.
    pub input_form: Form,
    /// What is there of each field of the input: what the entry reads, or what the columns of the incoming batches hold.
    /// A field that is not there is a column of Arrow type Null.
    pub reads: Vec<EntryField>,
    /// The second input; there exactly if the first node tells two inputs apart.
    pub second: Option<SecondInput>,
    /// The nodes in order, without the exchange; may be empty.
    pub nodes: Vec<SpecNode>,
    /// Sub-expressions that run in the JVM; the position is the host's number.
    pub hosts: Vec<SpecHost>,
    /// How the output is distributed.
    pub exchange: Option<Distribution>,
    /// Whether rows or batches go out.
    pub output_form: Form,
    /// What the stages behind read of each field of the output. The others may leave as columns of type Null; a computed
    /// column that nobody reads leaves as it was computed.
    pub writes: Vec<EntryField>,
    /// The session's `table.*` options, and the rules of time zones.
    pub config: Config,
}

/// The second input of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct SecondInput {
    /// Type of its rows; a ROW.
    pub input: LogicalType,
    /// Whether rows or batches come in.
    pub form: Form,
    /// What is there of each field.
    pub reads: Vec<EntryField>,
}

/// A node of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct SpecNode {
    /// The node; never [`NodeKind::Stock`].
    pub node: Node,
    /// Types of its inputs; ROWs. A union has one per input, which are all alike.
    pub inputs: Vec<LogicalType>,
}

/// A sub-expression that runs in the JVM.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SpecHost {
    /// Id of its node.
    pub node: i64,
    /// JSON pointer inside the node's JSON.
    pub pointer: String,
}

/// A text that [`StageSpec`] did not write, or a spec of another version of this library.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// Not JSON, or JSON of another shape.
    #[error("the stage cannot be read: {source}")]
    Json {
        /// Where and why.
        #[from]
        source: serde_json::Error,
    },
    /// A part is not as it was written.
    #[error("{part} of the stage cannot be read: {reason}")]
    Part {
        /// Which part.
        part: &'static str,
        /// Why.
        reason: Reason,
    },
    /// A node cannot be read back.
    #[error("node {id} of the stage cannot be read: {reason}")]
    Node {
        /// Its id.
        id: i64,
        /// Why.
        reason: Reason,
    },
}

#[derive(Deserialize)]
struct SpecJson {
    input: Box<RawValue>,
    entry: bool,
    reads: Value,
    #[serde(default)]
    second: Option<InputJson>,
    nodes: Vec<NodeJson>,
    hosts: Vec<SpecHost>,
    exchange: Option<Vec<usize>>,
    output: String,
    writes: Value,
    config: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct InputJson {
    input: Box<RawValue>,
    entry: bool,
    reads: Value,
}

#[derive(Deserialize)]
struct NodeJson {
    json: Box<RawValue>,
    inputs: Vec<i64>,
    types: Vec<Box<RawValue>>,
}

/// A node as the planner hands it over.
pub(crate) struct NodeText<'a> {
    pub(crate) json: &'a Value,
    pub(crate) inputs: &'a [i64],
    pub(crate) types: Vec<&'a Value>,
}

/// An input as the planner hands it over.
pub(crate) struct InputParts<'a> {
    pub(crate) row_type: &'a Value,
    pub(crate) form: Form,
    pub(crate) reads: &'a [EntryField],
}

/// Everything of a stage that the planner hands over.
pub(crate) struct SpecParts<'a> {
    /// One or two.
    pub(crate) inputs: Vec<InputParts<'a>>,
    pub(crate) nodes: Vec<NodeText<'a>>,
    pub(crate) hosts: Vec<(i64, &'a str)>,
    pub(crate) exchange: Option<&'a Distribution>,
    pub(crate) output_form: Form,
    pub(crate) writes: &'a [EntryField],
    pub(crate) config: &'a Config,
}

/// The JSON of a stage.
pub(crate) fn write(parts: &SpecParts<'_>) -> Value {
    let nodes: Vec<Value> =
        parts.nodes.iter().map(|node| json!({"json": node.json, "inputs": node.inputs, "types": node.types})).collect();
    let hosts: Vec<Value> =
        parts.hosts.iter().map(|(node, pointer)| json!({"node": node, "pointer": pointer})).collect();
    let config: Map<String, Value> = parts
        .config
        .iter()
        .filter(|(key, _)| key.starts_with("table.") || key.starts_with(RULES_OPTION_PREFIX))
        .map(|(key, value)| (key.clone(), Value::String(value.clone())))
        .collect();
    let mut spec = json!({
        "nodes": nodes,
        "hosts": hosts,
        "exchange": parts.exchange.map(distribution_keys),
        "output": form_name(parts.output_form),
        "writes": entry_to_json(parts.writes),
        "config": config,
    });
    let mut inputs = parts.inputs.iter().map(|input| {
        let members = [
            ("input", input.row_type.clone()),
            ("entry", Value::Bool(input.form == Form::Rows)),
            ("reads", entry_to_json(input.reads)),
        ];
        members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>()
    });
    if let Some(map) = spec.as_object_mut() {
        map.extend(inputs.next().unwrap_or_default());
        map.extend(inputs.next().map(|second| ("second".to_owned(), Value::Object(second))));
    }
    spec
}

/// Key columns of a distribution; empty for a singleton.
pub(crate) fn distribution_keys(distribution: &Distribution) -> &[usize] {
    match distribution {
        Distribution::Hash(keys) => keys,
        Distribution::Singleton => &[],
    }
}

pub(crate) fn form_name(form: Form) -> &'static str {
    match form {
        Form::Rows => "rows",
        Form::Batches => "batches",
    }
}

impl StageSpec {
    /// Reads the `spec` of a stage.
    pub fn read(text: &str) -> Result<Self, SpecError> {
        let spec: SpecJson = serde_json::from_str(text)?;
        let input = type_of(&spec.input, "the input type")?;
        let mut nodes = Vec::with_capacity(spec.nodes.len());
        for node in spec.nodes {
            nodes.push(read_spec_node(node, &spec.config)?);
        }
        let output_type = nodes.last().map_or(&input, |node: &SpecNode| &node.node.output);
        let entry = |json: &Value, ty: &LogicalType, part| {
            entry_from_json(json, ty).ok_or(SpecError::Part { part, reason: Reason::new("it does not fit its type") })
        };
        let reads = entry(&spec.reads, &input, "the list of fields read")?;
        let second = match spec.second {
            Some(second) => {
                let input = type_of(&second.input, "the type of the second input")?;
                let reads = entry(&second.reads, &input, "the list of fields read of the second input")?;
                Some(SecondInput { form: input_form(second.entry), input, reads })
            }
            None => None,
        };
        let two = |node: &SpecNode| node.node.kind.has_two_inputs();
        if second.is_some() != nodes.first().is_some_and(two) || nodes.iter().skip(1).any(two) {
            let reason = Reason::new("the stage does not have the inputs of its nodes");
            return Err(SpecError::Part { part: "the list of inputs", reason });
        }
        let writes = entry(&spec.writes, output_type, "the list of fields written")?;
        let exchange = match spec.exchange {
            None => None,
            Some(keys) if keys.is_empty() => Some(Distribution::Singleton),
            Some(keys) if keys.iter().all(|key| *key < output_type.fields().len()) => Some(Distribution::Hash(keys)),
            Some(_) => {
                let reason = Reason::new("a key column does not exist");
                return Err(SpecError::Part { part: "the exchange", reason });
            }
        };
        let output_form = match spec.output.as_str() {
            "rows" => Form::Rows,
            "batches" => Form::Batches,
            _ => return Err(SpecError::Part { part: "the output", reason: Reason::new("its form is not known") }),
        };
        let input_form = input_form(spec.entry);
        let (hosts, config) = (spec.hosts, spec.config);
        Ok(Self { input, input_form, reads, second, nodes, hosts, exchange, output_form, writes, config })
    }

    /// Type of the rows that go out.
    pub fn output(&self) -> &LogicalType {
        self.nodes.last().map_or(&self.input, |node| &node.node.output)
    }
}

fn input_form(entry: bool) -> Form {
    if entry { Form::Rows } else { Form::Batches }
}

fn type_of(raw: &RawValue, part: &'static str) -> Result<LogicalType, SpecError> {
    let json: Value = serde_json::from_str(raw.get())?;
    read_type(&json).map_err(|reason| SpecError::Part { part, reason })
}

fn read_spec_node(node: NodeJson, config: &Config) -> Result<SpecNode, SpecError> {
    let broken = || SpecError::Part { part: "a node", reason: Reason::new("it is not an object") };
    let (json, unreadable) = crate::reader::parse_shallow(node.json.get()).ok_or_else(broken)?;
    let inputs = node.types.iter().map(|raw| type_of(raw, "an input type")).collect::<Result<Vec<_>, _>>()?;
    let node = read_node(&json, node.inputs, config);
    let id = node.id;
    if let NodeKind::Stock(reason) = node.kind {
        return Err(SpecError::Node { id, reason });
    }
    if let Some(reason) = unreadable {
        return Err(SpecError::Node { id, reason });
    }
    check_node(&node, &inputs.iter().collect::<Vec<_>>()).map_err(|reason| SpecError::Node { id, reason })?;
    Ok(SpecNode { node, inputs })
}

/// The part of a stage that the entry of rows needs: the type of the rows and what is read of them.
#[derive(Debug, Clone, PartialEq)]
pub struct EntrySpec {
    /// Type of the rows; a ROW.
    pub input: LogicalType,
    /// What is read of each field.
    pub reads: Vec<EntryField>,
}

#[derive(Deserialize)]
struct EntryJson {
    input: Box<RawValue>,
    reads: Value,
}

#[derive(Deserialize)]
struct SecondEntryJson {
    second: EntryJson,
}

impl EntrySpec {
    /// Reads the properties `input` and `reads` of a stage's `spec`, or of a text that has only these.
    pub fn read(text: &str) -> Result<Self, SpecError> {
        Self::of(&serde_json::from_str(text)?)
    }

    /// Reads the same of the second input of a stage's `spec`.
    pub fn read_second(text: &str) -> Result<Self, SpecError> {
        let spec: SecondEntryJson = serde_json::from_str(text)?;
        Self::of(&spec.second)
    }

    fn of(spec: &EntryJson) -> Result<Self, SpecError> {
        let input = type_of(&spec.input, "the input type")?;
        let reads = entry_from_json(&spec.reads, &input).ok_or(SpecError::Part {
            part: "the list of fields read",
            reason: Reason::new("it does not fit its type"),
        })?;
        Ok(Self { input, reads })
    }
}
