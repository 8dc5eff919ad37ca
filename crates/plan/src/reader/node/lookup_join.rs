//! Lookup joins from JSON.

use serde_json::{Map, Value};

use super::{Inputs, NodeJson, NodeType};
use crate::node::{JoinType, LookupJoin, NodeKind};
use crate::reader::json::{as_index, boolean, malformed, object, optional, required, text};
use crate::reader::rex::read_rex;
use crate::reason::Reason;

pub(super) const LOOKUP_JOIN: NodeType = NodeType {
    name: "stream-exec-lookup-join",
    properties: &[
        "joinType",
        "preFilterCondition",
        "joinCondition",
        "temporalTable",
        "lookupKeys",
        "projectionOnTemporalTable",
        "filterOnTemporalTable",
        "lookupKeyContainsPrimaryKey",
        "requireUpsertMaterialize",
        "asyncOptions",
        "retryOptions",
        "inputChangelogMode",
        "inputUpsertKey",
        "state",
        "preferCustomShuffle",
    ],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_lookup_join(node).map(NodeKind::LookupJoin),
};

fn read_lookup_join(node: &NodeJson<'_>) -> Result<LookupJoin, Reason> {
    let map = node.map;
    let flag = |map: &Map<String, Value>, key: &str| match optional(map, key) {
        Some(_) => boolean(map, key),
        None => Ok(false),
    };
    if flag(map, "requireUpsertMaterialize")? {
        return Err(Reason::new("a lookup join that keeps what it found, to retract it, is not supported natively"));
    }
    if flag(map, "preferCustomShuffle")? {
        return Err(Reason::new("a lookup join with a shuffle of its own is not supported natively"));
    }
    if let Some(options) = optional(map, "asyncOptions")
        && flag(object(options, "`asyncOptions`")?, "is-key-ordered")?
    {
        return Err(Reason::new("an asynchronous lookup join ordered by key is not supported natively"));
    }
    let join_type = match text(map, "joinType")? {
        "INNER" => JoinType::Inner,
        "LEFT" => JoinType::Left,
        other => return Err(Reason::new(format!("a lookup join of type {other} is not known here"))),
    };
    let condition = |key: &str| optional(map, key).map(read_rex).transpose();
    Ok(LookupJoin {
        join_type,
        keys: read_keys(map)?,
        pre_filter: condition("preFilterCondition")?,
        condition: condition("joinCondition")?,
        table: table(map),
    })
}

/// The columns among the keys; the others are constants.
fn read_keys(map: &Map<String, Value>) -> Result<Vec<usize>, Reason> {
    let keys = object(required(map, "lookupKeys")?, "`lookupKeys`")?;
    let mut columns = Vec::new();
    for key in keys.values() {
        let key = object(key, "a lookup key")?;
        match required(key, "type")?.as_str() {
            Some("FieldRef") => {
                let index = as_index(required(key, "index")?);
                columns.push(index.ok_or_else(|| malformed("a lookup key is not a column number"))?);
            }
            Some("Constant") => {}
            _ => return Err(Reason::new("a lookup key is neither a column nor a constant")),
        }
    }
    Ok(columns)
}

fn table(map: &Map<String, Value>) -> String {
    let name = map.get("temporalTable").and_then(|table| table.pointer("/lookupTableSource/table/identifier"));
    name.and_then(Value::as_str).unwrap_or("the table").to_owned()
}
