//! Regular joins from JSON.

use serde_json::{Map, Value};

use super::{Inputs, NodeJson, NodeType};
use crate::node::{InputSide, Join, JoinSpec, JoinType, NodeKind};
use crate::reader::json::{array, as_indices, closed, indices, malformed, optional, required, text};
use crate::reader::rex::read_rex;
use crate::reason::Reason;
use crate::rex::{Literal, Rex};

pub(super) const JOIN: NodeType = NodeType {
    name: "stream-exec-join",
    properties: &["joinSpec", "leftUpsertKeys", "rightUpsertKeys", "state"],
    options: &[],
    inputs: Inputs::Two,
    read: |node| read_join(node).map(NodeKind::Join),
};

fn read_join(node: &NodeJson<'_>) -> Result<Join, Reason> {
    let JoinSpec { join_type, left_keys, right_keys, filter_nulls, condition } =
        read_join_spec(required(node.map, "joinSpec")?)?;
    let mini_batch_size = match join_type {
        JoinType::Semi | JoinType::Anti => None,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => node.options.mini_batch()?,
    };
    let [left_ttl_ms, right_ttl_ms] = node.options.state_ttl_ms(node.map)?;
    let side = |keys, upsert_keys, ttl_ms| InputSide { keys, upsert_keys, ttl_ms };
    Ok(Join {
        join_type,
        left: side(left_keys, read_upsert_keys(node.map, "leftUpsertKeys")?, left_ttl_ms),
        right: side(right_keys, read_upsert_keys(node.map, "rightUpsertKeys")?, right_ttl_ms),
        filter_nulls,
        condition,
        mini_batch_size,
    })
}

/// The `joinSpec` of a node. A condition that is always TRUE is none.
pub(super) fn read_join_spec(json: &Value) -> Result<JoinSpec, Reason> {
    let keys = ["joinType", "leftKeys", "rightKeys", "filterNulls", "nonEquiCondition"];
    let spec = closed(json, "`joinSpec`", &keys)?;
    let join_type = match text(spec, "joinType")? {
        "INNER" => JoinType::Inner,
        "LEFT" => JoinType::Left,
        "RIGHT" => JoinType::Right,
        "FULL" => JoinType::Full,
        "SEMI" => JoinType::Semi,
        "ANTI" => JoinType::Anti,
        other => return Err(Reason::new(format!("a join of type {other} is not known here"))),
    };
    let filter_nulls: Vec<bool> = array(spec, "filterNulls")?
        .iter()
        .map(|flag| flag.as_bool().ok_or_else(|| malformed("`filterNulls` is not a list of true and false")))
        .collect::<Result<_, _>>()?;
    let (left_keys, right_keys) = (indices(spec, "leftKeys")?, indices(spec, "rightKeys")?);
    if left_keys.len() != right_keys.len() || left_keys.len() != filter_nulls.len() {
        return Err(malformed("the key columns of a join are not pairs"));
    }
    let condition = optional(spec, "nonEquiCondition").map(read_rex).transpose()?;
    let always = |rex: &Rex| matches!(rex, Rex::Literal { value: Literal::Boolean(true), .. });
    Ok(JoinSpec { join_type, left_keys, right_keys, filter_nulls, condition: condition.filter(|rex| !always(rex)) })
}

/// Left out where there are none.
fn read_upsert_keys(map: &Map<String, Value>, key: &str) -> Result<Vec<Vec<usize>>, Reason> {
    match optional(map, key) {
        None => Ok(Vec::new()),
        Some(_) => array(map, key)?.iter().map(|columns| as_indices(columns, key)).collect(),
    }
}
