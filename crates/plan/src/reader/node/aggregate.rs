//! Group aggregates from JSON: in one phase, local, global and incremental.

use serde_json::{Map, Value};

use super::options::{MINI_BATCH_ENABLED, MINI_BATCH_SIZE};
use super::{Inputs, NodeJson, NodeType};
use crate::node::{
    AggCall, GlobalGroupAggregate, GroupAggregate, IncrementalGroupAggregate, LocalGroupAggregate, NodeKind,
};
use crate::reader::json::{
    array, boolean, index, indices, integer, malformed, object, optional, required, unknown_key,
};
use crate::reader::rex::{FUNCTION_KEYS, read_function};
use crate::reader::types::read_type;
use crate::reason::Reason;
use crate::types::{LogicalType, TypeKind};

const OPTIONS: &[&str] = &[MINI_BATCH_ENABLED, MINI_BATCH_SIZE];

pub(super) const GROUP_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-group-aggregate",
    properties: &["grouping", "aggCalls", "aggCallNeedRetractions", "generateUpdateBefore", "needRetraction", "state"],
    options: OPTIONS,
    inputs: Inputs::One,
    read: |node| read_group(node).map(NodeKind::GroupAggregate),
};

pub(super) const LOCAL_GROUP_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-local-group-aggregate",
    properties: &["grouping", "aggCalls", "aggCallNeedRetractions", "needRetraction"],
    options: OPTIONS,
    inputs: Inputs::One,
    read: |node| read_local(node).map(NodeKind::LocalGroupAggregate),
};

pub(super) const GLOBAL_GROUP_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-global-group-aggregate",
    properties: &[
        "grouping",
        "aggCalls",
        "aggCallNeedRetractions",
        "localAggInputRowType",
        "generateUpdateBefore",
        "needRetraction",
        "indexOfCountStar",
        "state",
    ],
    options: OPTIONS,
    inputs: Inputs::One,
    read: |node| read_global(node).map(NodeKind::GlobalGroupAggregate),
};

pub(super) const INCREMENTAL_GROUP_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-incremental-group-aggregate",
    properties: &[
        "partialAggGrouping",
        "finalAggGrouping",
        "partialOriginalAggCalls",
        "partialAggCallNeedRetractions",
        "partialLocalAggInputRowType",
        "partialAggNeedRetraction",
        "state",
    ],
    options: OPTIONS,
    inputs: Inputs::One,
    read: |node| read_incremental(node).map(NodeKind::IncrementalGroupAggregate),
};

fn read_group(node: &NodeJson<'_>) -> Result<GroupAggregate, Reason> {
    let [ttl_ms] = node.options.state_ttl_ms(node.map)?;
    Ok(GroupAggregate {
        grouping: indices(node.map, "grouping")?,
        calls: read_calls(node.map, "aggCalls", "aggCallNeedRetractions")?,
        generate_update_before: boolean(node.map, "generateUpdateBefore")?,
        need_retraction: boolean(node.map, "needRetraction")?,
        ttl_ms,
        mini_batch_size: node.options.mini_batch()?,
    })
}

fn read_local(node: &NodeJson<'_>) -> Result<LocalGroupAggregate, Reason> {
    Ok(LocalGroupAggregate {
        grouping: indices(node.map, "grouping")?,
        calls: read_calls(node.map, "aggCalls", "aggCallNeedRetractions")?,
        need_retraction: boolean(node.map, "needRetraction")?,
        mini_batch_size: node.options.mini_batch_size()?,
    })
}

fn read_global(node: &NodeJson<'_>) -> Result<GlobalGroupAggregate, Reason> {
    let [ttl_ms] = node.options.state_ttl_ms(node.map)?;
    let need_retraction = boolean(node.map, "needRetraction")?;
    let count_star = optional(node.map, "indexOfCountStar").map(|_| index(node.map, "indexOfCountStar")).transpose()?;
    if count_star.is_some() && !need_retraction {
        return Err(malformed("an aggregate whose input does not retract counts its rows"));
    }
    let Some(mini_batch_size) = node.options.mini_batch()? else {
        return Err(Reason::new("Flink runs a global aggregate in mini-batch mode only, which is off"));
    };
    Ok(GlobalGroupAggregate {
        grouping: indices(node.map, "grouping")?,
        calls: read_calls(node.map, "aggCalls", "aggCallNeedRetractions")?,
        local_input: read_row(node.map, "localAggInputRowType")?,
        generate_update_before: boolean(node.map, "generateUpdateBefore")?,
        need_retraction,
        count_star,
        ttl_ms,
        mini_batch_size,
    })
}

fn read_incremental(node: &NodeJson<'_>) -> Result<IncrementalGroupAggregate, Reason> {
    let [ttl_ms] = node.options.state_ttl_ms(node.map)?;
    Ok(IncrementalGroupAggregate {
        partial_grouping: indices(node.map, "partialAggGrouping")?,
        final_grouping: indices(node.map, "finalAggGrouping")?,
        calls: read_calls(node.map, "partialOriginalAggCalls", "partialAggCallNeedRetractions")?,
        local_input: read_row(node.map, "partialLocalAggInputRowType")?,
        need_retraction: boolean(node.map, "partialAggNeedRetraction")?,
        ttl_ms,
        mini_batch_size: node.options.mini_batch_size()?,
    })
}

pub(super) fn read_row(map: &Map<String, Value>, key: &str) -> Result<LogicalType, Reason> {
    match read_type(required(map, key)?)? {
        row @ LogicalType { kind: TypeKind::Row(_), .. } => Ok(row),
        _ => Err(malformed(format_args!("`{key}` is not a ROW"))),
    }
}

/// The calls of a node that says once for all of them whether rows are retracted.
pub(super) fn read_calls_alike(map: &Map<String, Value>, need_retraction: bool) -> Result<Vec<AggCall>, Reason> {
    array(map, "aggCalls")?.iter().map(|json| read_call(json, need_retraction)).collect()
}

fn read_calls(map: &Map<String, Value>, calls: &str, retractions: &str) -> Result<Vec<AggCall>, Reason> {
    let (json, flags) = (array(map, calls)?, array(map, retractions)?);
    if json.len() != flags.len() {
        return Err(malformed(format_args!("`{retractions}` has another length than `{calls}`")));
    }
    let flag = |flag: &Value| {
        flag.as_bool().ok_or_else(|| malformed(format_args!("`{retractions}` is not a list of true and false")))
    };
    json.iter().zip(flags).map(|(json, need_retraction)| read_call(json, flag(need_retraction)?)).collect()
}

pub(super) fn read_call(json: &Value, need_retraction: bool) -> Result<AggCall, Reason> {
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
