//! Nodes from JSON.
//!
//! A node is typed only where everything in it is known: its version, each of its properties, each of its options.

use serde_json::{Map, Value};

use super::Config;
use super::json::{array, boolean, indices, integer, malformed, object, required, text, unknown_key};
use super::rex::{FUNCTION_KEYS, read_function, read_rex};
use super::types::read_type;
use crate::node::{AggCall, Calc, Distribution, GroupAggregate, Node, NodeKind};
use crate::reason::Reason;
use crate::types::{LogicalType, TypeKind};

const COMMON_KEYS: [&str; 6] = ["id", "type", "configuration", "inputProperties", "outputType", "description"];
const MINI_BATCH_ENABLED: &str = "table.exec.mini-batch.enabled";
const MINI_BATCH_SIZE: &str = "table.exec.mini-batch.size";
const STATE_TTL: &str = "table.exec.state.ttl";

/// Reads one node. `inputs` are the ids of its input nodes, `config` the session's options, which stand behind the
/// options of the node itself. Whatever does not fit makes it [`NodeKind::Stock`]; an id that is missing is -1.
pub fn read_node(json: &Value, inputs: Vec<i64>, config: &Config) -> Node {
    let empty = Map::new();
    let map = json.as_object().unwrap_or(&empty);
    let (type_name, version) = split_type(map.get("type").and_then(Value::as_str).unwrap_or_default());
    let output =
        map.get("outputType").map_or_else(|| Err(malformed("the property `outputType` is missing")), read_type);
    let (output, unreadable) = match output {
        Ok(ty) if matches!(ty.kind, TypeKind::Row(_)) => (ty, None),
        Ok(ty) => (ty, Some(malformed("the output type is not a ROW"))),
        Err(reason) => (LogicalType { kind: TypeKind::Other(String::new()), nullable: true }, Some(reason)),
    };
    let kind = match stock_reason(map, type_name).or(unreadable) {
        Some(reason) => Err(reason),
        None => read_kind(map, type_name, version, inputs.len(), config),
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

/// Why nodes of this type are never native; `None` for the types that may be.
fn stock_reason(map: &Map<String, Value>, type_name: &str) -> Option<Reason> {
    let text = match type_name {
        "stream-exec-calc"
        | "stream-exec-union"
        | "stream-exec-drop-update-before"
        | "stream-exec-exchange"
        | "stream-exec-group-aggregate" => return None,
        "stream-exec-table-source-scan" | "stream-exec-values" => "sources stay on Flink".to_owned(),
        "stream-exec-sink" => "sinks stay on Flink".to_owned(),
        "unserializable" => match map.get("reason").and_then(Value::as_str) {
            Some(reason) => reason.to_owned(),
            None => "Flink cannot write this operator into a plan".to_owned(),
        },
        "" => "the plan is malformed: the property `type` is missing".to_owned(),
        name if name.starts_with("batch-exec-") => "batch jobs stay on Flink".to_owned(),
        name => format!("the operator {} is not supported natively", operator_name(name)),
    };
    Some(Reason::new(text))
}

/// `stream-exec-group-window-aggregate` to `GroupWindowAggregate`, the name that EXPLAIN shows.
fn operator_name(type_name: &str) -> String {
    let words = type_name.strip_prefix("stream-exec-").unwrap_or(type_name).split('-');
    words
        .map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_uppercase().chain(chars).collect::<String>()).unwrap_or_default()
        })
        .collect()
}

fn read_kind(
    map: &Map<String, Value>,
    type_name: &str,
    version: Option<u32>,
    inputs: usize,
    config: &Config,
) -> Result<NodeKind, Reason> {
    match version {
        Some(1) => {}
        Some(version) => return Err(Reason::new(format!("version {version} of {type_name} is not known here"))),
        None => return Err(malformed("the type of the node has no version")),
    }
    let (own_keys, options): (&[&str], &[&str]) = match type_name {
        "stream-exec-calc" => (&["projection", "condition"], &[]),
        "stream-exec-group-aggregate" => (
            &["grouping", "aggCalls", "aggCallNeedRetractions", "generateUpdateBefore", "needRetraction", "state"],
            &[MINI_BATCH_ENABLED, MINI_BATCH_SIZE],
        ),
        _ => (&[], &[]),
    };
    let keys: Vec<&str> = COMMON_KEYS.iter().chain(own_keys).copied().collect();
    if let Some(key) = unknown_key(map, &keys) {
        return Err(Reason::new(format!("its property `{key}` is not known here")));
    }
    let own_options = read_options(map, options)?;
    match (type_name, inputs) {
        ("stream-exec-union", 0) => return Err(malformed("a union has no input")),
        ("stream-exec-union", _) | (_, 1) => {}
        _ => return Err(malformed(format_args!("the operator has {inputs} inputs"))),
    }
    match type_name {
        "stream-exec-calc" => read_calc(map).map(NodeKind::Calc),
        "stream-exec-union" => Ok(NodeKind::Union),
        "stream-exec-drop-update-before" => Ok(NodeKind::DropUpdateBefore),
        "stream-exec-exchange" => read_distribution(map).map(NodeKind::Exchange),
        "stream-exec-group-aggregate" => {
            let option = |key: &str| own_options.get(key).or_else(|| config.get(key)).map(String::as_str);
            read_group_aggregate(map, option).map(NodeKind::GroupAggregate)
        }
        other => Err(Reason::new(format!("the operator {} is not supported natively", operator_name(other)))),
    }
}

fn read_options(map: &Map<String, Value>, known: &[&str]) -> Result<Config, Reason> {
    let Some(json) = map.get("configuration").filter(|json| !json.is_null()) else {
        return Ok(Config::new());
    };
    let options = object(json, "`configuration`")?;
    if let Some(key) = unknown_key(options, known) {
        return Err(Reason::new(format!("its option `{key}` is not known here")));
    }
    options.keys().map(|key| Ok((key.clone(), text(options, key)?.to_owned()))).collect()
}

fn read_calc(map: &Map<String, Value>) -> Result<Calc, Reason> {
    let projection = array(map, "projection")?.iter().map(read_rex).collect::<Result<_, _>>()?;
    let condition = map.get("condition").filter(|json| !json.is_null()).map(read_rex).transpose()?;
    Ok(Calc { projection, condition })
}

fn read_distribution(map: &Map<String, Value>) -> Result<Distribution, Reason> {
    let [property] = array(map, "inputProperties")? else {
        return Err(malformed("an exchange has not exactly one input property"));
    };
    let property = object(property, "an input property")?;
    let distribution = object(required(property, "requiredDistribution")?, "`requiredDistribution`")?;
    let unknown = unknown_key(property, &["requiredDistribution", "damBehavior", "priority"])
        .or_else(|| unknown_key(distribution, &["type", "keys"]));
    if let Some(key) = unknown {
        return Err(Reason::new(format!("its property `{key}` is not known here")));
    }
    match text(distribution, "type")? {
        "HASH" => match indices(distribution, "keys")? {
            keys if keys.is_empty() => Err(malformed("an exchange hashes no columns")),
            keys => Ok(Distribution::Hash(keys)),
        },
        "SINGLETON" => Ok(Distribution::Singleton),
        other => Err(Reason::new(format!("an exchange of type {other} is not supported natively"))),
    }
}

fn read_group_aggregate<'a>(
    map: &Map<String, Value>,
    option: impl Fn(&str) -> Option<&'a str>,
) -> Result<GroupAggregate, Reason> {
    let json_calls = array(map, "aggCalls")?;
    let retractions = array(map, "aggCallNeedRetractions")?;
    if json_calls.len() != retractions.len() {
        return Err(malformed("`aggCallNeedRetractions` has another length than `aggCalls`"));
    }
    let mut calls = Vec::with_capacity(json_calls.len());
    for (json, retraction) in json_calls.iter().zip(retractions) {
        let need_retraction = retraction
            .as_bool()
            .ok_or_else(|| malformed("`aggCallNeedRetractions` is not a list of true and false"))?;
        calls.push(read_agg_call(json, need_retraction)?);
    }
    let mini_batch = match option(MINI_BATCH_ENABLED).map(|text| text.trim().to_ascii_lowercase()).as_deref() {
        None | Some("false") => None,
        Some("true") => {
            let size = option(MINI_BATCH_SIZE).unwrap_or("-1");
            Some(size.trim().parse().map_err(|_| malformed(format_args!("`{MINI_BATCH_SIZE}` is not a number")))?)
        }
        Some(other) => return Err(malformed(format_args!("`{MINI_BATCH_ENABLED}` is {other}"))),
    };
    Ok(GroupAggregate {
        grouping: indices(map, "grouping")?,
        calls,
        generate_update_before: boolean(map, "generateUpdateBefore")?,
        need_retraction: boolean(map, "needRetraction")?,
        ttl_ms: read_ttl(map, option(STATE_TTL))?,
        mini_batch_size: mini_batch,
    })
}

fn read_agg_call(json: &Value, need_retraction: bool) -> Result<AggCall, Reason> {
    let map = object(json, "an aggregate call")?;
    let own = ["name", "argList", "filterArg", "distinct", "approximate", "ignoreNulls", "type"];
    let keys: Vec<&str> = own.into_iter().chain(FUNCTION_KEYS).collect();
    if let Some(key) = unknown_key(map, &keys) {
        return Err(Reason::new(format!("the property `{key}` of an aggregate call is not known here")));
    }
    let filter = match integer(map, "filterArg")? {
        -1 => None,
        n => Some(
            i32::try_from(n)
                .ok()
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(|| malformed("`filterArg` is not a column number"))?,
        ),
    };
    Ok(AggCall {
        name: map.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        function: read_function(map)?,
        args: indices(map, "argList")?,
        filter,
        distinct: boolean(map, "distinct")?,
        approximate: boolean(map, "approximate")?,
        ignore_nulls: boolean(map, "ignoreNulls")?,
        need_retraction,
        ty: read_type(required(map, "type")?)?,
    })
}

/// State time to live: of the node's `state`, else the session's.
fn read_ttl(map: &Map<String, Value>, session: Option<&str>) -> Result<i64, Reason> {
    let states = match map.get("state") {
        None | Some(Value::Null) => &[],
        Some(_) => array(map, "state")?,
    };
    let text = match states {
        [] => session.unwrap_or("0 ms"),
        [state] => {
            let state = object(state, "an element of `state`")?;
            if let Some(key) = unknown_key(state, &["index", "ttl", "name"]) {
                return Err(Reason::new(format!("the property `{key}` of its state is not known here")));
            }
            if integer(state, "index")? != 0 {
                return Err(malformed("the index of the only state is not 0"));
            }
            text(state, "ttl")?
        }
        _ => return Err(malformed("a group aggregate has more than one state")),
    };
    duration_ms(text).ok_or_else(|| malformed(format_args!("`{text}` is not a time to live")))
}

/// A duration such as `36 h` in whole milliseconds; follows TimeUtils.parseDuration but for the ISO form.
fn duration_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: i128 = number.parse().ok()?;
    let nanos: i128 = match unit.trim().to_lowercase().as_str() {
        "d" | "day" | "days" => 86_400_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "min" | "m" | "minute" | "minutes" => 60_000_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        _ => return None,
    };
    i64::try_from(number.checked_mul(nanos)? / 1_000_000).ok()
}
