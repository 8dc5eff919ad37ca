//! Nodes from JSON.
//!
//! A node is typed only where everything in it is known: its version, each of its properties, each of its options. What
//! Flink would refuse to translate is not typed either. One file per family of nodes; [`TYPES`] lists them all.

mod aggregate;
mod calc;
mod correlate;
mod deduplicate;
mod exchange;
mod group_window;
mod join;
mod lookup_join;
mod mini_batch;
mod multi_join;
mod options;
mod over;
mod rank;
#[cfg(test)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
mod tests;
mod timed_join;
mod watermark;
mod window_aggregate;
mod window_rows;
mod window_table_function;
mod windowing;

use serde_json::{Map, Value};

pub use self::multi_join::read_multi_join;
use self::options::Options;
use super::Config;
use super::json::{malformed, unknown_key};
use super::types::read_type;
use crate::node::{Node, NodeKind, not_supported};
use crate::reason::Reason;
use crate::types::{LogicalType, TypeKind};

/// Properties of every node.
const COMMON_KEYS: [&str; 6] = ["id", "type", "configuration", "inputProperties", "outputType", "description"];

/// A type of node that can be typed, in version 1: no other exists in Flink 2.2.
struct NodeType {
    name: &'static str,
    /// Its own properties.
    properties: &'static [&'static str],
    /// The options that it consumes.
    options: &'static [&'static str],
    inputs: Inputs,
    read: fn(&NodeJson<'_>) -> Result<NodeKind, Reason>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inputs {
    One,
    Two,
    OneOrMore,
}

/// What the `read` of a [`NodeType`] gets: properties that are all known, and options.
struct NodeJson<'a> {
    map: &'a Map<String, Value>,
    options: Options<'a>,
}

const TYPES: &[NodeType] = &[
    calc::CALC,
    calc::EXPAND,
    correlate::CORRELATE,
    NodeType {
        name: "stream-exec-union",
        properties: &[],
        options: &[],
        inputs: Inputs::OneOrMore,
        read: |_| Ok(NodeKind::Union),
    },
    NodeType {
        name: "stream-exec-drop-update-before",
        properties: &[],
        options: &[],
        inputs: Inputs::One,
        read: |_| Ok(NodeKind::DropUpdateBefore),
    },
    exchange::EXCHANGE,
    mini_batch::MINI_BATCH_ASSIGNER,
    watermark::WATERMARK_ASSIGNER,
    window_table_function::WINDOW_TABLE_FUNCTION,
    aggregate::GROUP_AGGREGATE,
    aggregate::LOCAL_GROUP_AGGREGATE,
    aggregate::GLOBAL_GROUP_AGGREGATE,
    aggregate::INCREMENTAL_GROUP_AGGREGATE,
    deduplicate::CHANGELOG_NORMALIZE,
    deduplicate::DEDUPLICATE,
    rank::RANK,
    rank::SORT_LIMIT,
    rank::LIMIT,
    join::JOIN,
    timed_join::INTERVAL_JOIN,
    timed_join::TEMPORAL_JOIN,
    lookup_join::LOOKUP_JOIN,
    over::OVER_AGGREGATE,
    over::TEMPORAL_SORT,
    window_aggregate::WINDOW_AGGREGATE,
    window_aggregate::LOCAL_WINDOW_AGGREGATE,
    window_aggregate::GLOBAL_WINDOW_AGGREGATE,
    group_window::GROUP_WINDOW_AGGREGATE,
    window_rows::WINDOW_RANK,
    window_rows::WINDOW_DEDUPLICATE,
    window_rows::WINDOW_JOIN,
];

/// Reads one node. `inputs` are the ids of its input nodes, `config` the session's options, which stand behind the
/// options of the node itself. Whatever does not fit makes it [`NodeKind::Stock`]; an id that is missing is -1.
pub fn read_node(json: &Value, inputs: Vec<i64>, config: &Config) -> Node {
    let empty = Map::new();
    let map = json.as_object().unwrap_or(&empty);
    let (type_name, version) = split_type(map.get("type").and_then(Value::as_str).unwrap_or_default());
    let output =
        map.get("outputType").map_or_else(|| Err(malformed("the property `outputType` is missing")), read_type);
    let (output, unreadable) = match output {
        Ok(ty) if matches!(ty.kind, TypeKind::Row(_)) => (ty, Ok(())),
        Ok(ty) => (ty, Err(malformed("the output type is not a ROW"))),
        Err(reason) => (LogicalType { kind: TypeKind::Other(String::new()), nullable: true }, Err(reason)),
    };
    let kind = match TYPES.iter().find(|known| known.name == type_name) {
        Some(known) => unreadable.and_then(|()| read_kind(map, known, version, inputs.len(), config)),
        None => Err(stock_reason(map, type_name)),
    };
    Node {
        id: map.get("id").and_then(Value::as_i64).unwrap_or(-1),
        type_name: type_name.to_owned(),
        version: version.unwrap_or(0),
        description: map.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        output,
        inputs,
        kind: kind.unwrap_or_else(NodeKind::Stock),
    }
}

/// `stream-exec-calc_1` to its name and version.
fn split_type(qualified: &str) -> (&str, Option<u32>) {
    match qualified.rsplit_once('_') {
        Some((name, version)) => match version.parse() {
            Ok(version) => (name, Some(version)),
            Err(_) => (qualified, None),
        },
        None => (qualified, None),
    }
}

/// Why nodes of a type that is not known here are never native.
fn stock_reason(map: &Map<String, Value>, type_name: &str) -> Reason {
    let text = match type_name {
        "stream-exec-table-source-scan" | "stream-exec-values" => "sources stay on Flink",
        "stream-exec-sink" => "sinks stay on Flink",
        "stream-exec-multi-join" => {
            "the operator MultiJoin is not supported natively; joins of two inputs are, with table.optimizer.multi-join.enabled off"
        }
        "unserializable" => {
            map.get("reason").and_then(Value::as_str).unwrap_or("Flink cannot write this operator into a plan")
        }
        "" => "the plan is malformed: the property `type` is missing",
        name if name.starts_with("batch-exec-") => "batch jobs stay on Flink",
        name => return not_supported(name),
    };
    Reason::new(text)
}

fn read_kind(
    map: &Map<String, Value>,
    known: &NodeType,
    version: Option<u32>,
    inputs: usize,
    config: &Config,
) -> Result<NodeKind, Reason> {
    match version {
        Some(1) => {}
        Some(version) => return Err(Reason::new(format!("version {version} of {} is not known here", known.name))),
        None => return Err(malformed("the type of the node has no version")),
    }
    let keys: Vec<&str> = COMMON_KEYS.iter().chain(known.properties).copied().collect();
    if let Some(key) = unknown_key(map, &keys) {
        return Err(Reason::new(format!("its property `{key}` is not known here")));
    }
    let options = Options::read(map, known.options, config)?;
    match (known.inputs, inputs) {
        (Inputs::One, 1) | (Inputs::Two, 2) | (Inputs::OneOrMore, 1..) => {}
        (Inputs::OneOrMore, 0) => return Err(malformed("a union has no input")),
        _ => return Err(malformed(format_args!("the operator has {inputs} inputs"))),
    }
    (known.read)(&NodeJson { map, options })
}
