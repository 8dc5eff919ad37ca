//! Joins of several inputs from JSON.

use serde_json::{Map, Value};

use super::options::Options;
use super::{COMMON_KEYS, Config};
use crate::node::{KeyColumn, MultiJoin, MultiJoinInput};
use crate::reader::json::{
    array, as_indices, closed, index, integer, malformed, object, optional, required, unknown_key,
};
use crate::reader::rex::read_rex;
use crate::reason::Reason;
use crate::rex::{Literal, Rex};

/// Reads a node of the type `stream-exec-multi-join`. `config` are the session's options. [`read_node`](super::read_node) leaves
/// these nodes to Flink until there is an operator for them.
pub fn read_multi_join(json: &Value, config: &Config) -> Result<MultiJoin, Reason> {
    let map = object(json, "the node")?;
    let names = ["joinTypes", "joinConditions", "multiJoinCondition", "joinAttributeMap", "inputUniqueKeys", "state"];
    let known: Vec<&str> = COMMON_KEYS.iter().chain(&names).copied().collect();
    if let Some(key) = unknown_key(map, &known) {
        return Err(Reason::new(format!("its property `{key}` is not known here")));
    }
    let options = Options::read(map, &[], config)?;
    let types = array(map, "joinTypes")?;
    let conditions = array(map, "joinConditions")?;
    let unique_keys = array(map, "inputUniqueKeys")?;
    if types.len() < 2 || conditions.len() != types.len() || unique_keys.len() != types.len() {
        return Err(malformed("a join of several inputs does not say the same of each of them"));
    }
    let ttls = options.states_ttl_ms(map, types.len())?;
    let keys = required(map, "joinAttributeMap")?;
    let numbers: Vec<String> = (0..types.len()).map(|input| input.to_string()).collect();
    let known: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let keys = closed(keys, "`joinAttributeMap`", &known)?;
    let mut inputs = Vec::with_capacity(types.len());
    for (input, (((join_type, condition), unique_keys), ttl_ms)) in
        types.iter().zip(conditions).zip(unique_keys).zip(ttls).enumerate()
    {
        let is_outer = match join_type.as_str() {
            Some("INNER") => false,
            Some("LEFT") => true,
            _ => return Err(Reason::new(format!("a join of several inputs of type {join_type} is not known here"))),
        };
        inputs.push(MultiJoinInput {
            is_outer: is_outer && input > 0,
            keys: read_keys(keys, input)?,
            condition: if input == 0 { None } else { read_condition(condition)? },
            unique_keys: read_unique_keys(unique_keys)?,
            ttl_ms,
        });
    }
    Ok(MultiJoin { inputs })
}

/// A condition that is always TRUE is none.
fn read_condition(json: &Value) -> Result<Option<Rex>, Reason> {
    if json.is_null() {
        return Err(malformed("a step of a join of several inputs has no condition"));
    }
    let always = |rex: &Rex| matches!(rex, Rex::Literal { value: Literal::Boolean(true), .. });
    Ok(Some(read_rex(json)?).filter(|rex| !always(rex)))
}

fn read_unique_keys(json: &Value) -> Result<Vec<Vec<usize>>, Reason> {
    let keys = json.as_array().ok_or_else(|| malformed("`inputUniqueKeys` is not a list of lists"))?;
    keys.iter().map(|columns| as_indices(columns, "inputUniqueKeys")).collect()
}

/// The key columns of an input; it need not have any. What those of the first equal is left open with -1.
fn read_keys(map: &Map<String, Value>, input: usize) -> Result<Vec<KeyColumn>, Reason> {
    let number = input.to_string();
    if optional(map, &number).is_none() {
        return Ok(Vec::new());
    }
    let read = |json: &Value| {
        let names = ["leftInputId", "leftFieldIndex", "rightInputId", "rightFieldIndex"];
        let pair = closed(json, "an element of `joinAttributeMap`", &names)?;
        if index(pair, "rightInputId")? != input {
            return Err(malformed("a step of a join of several inputs joins another input"));
        }
        let column = index(pair, "rightFieldIndex")?;
        if input == 0 {
            return match (integer(pair, "leftInputId")?, integer(pair, "leftFieldIndex")?) {
                (-1, -1) => Ok(KeyColumn { column, equals: None }),
                _ => Err(malformed("the first of several inputs is joined to something")),
            };
        }
        let equals = (index(pair, "leftInputId")?, index(pair, "leftFieldIndex")?);
        if equals.0 >= input {
            return Err(malformed("a step of a join of several inputs refers to an input behind it"));
        }
        Ok(KeyColumn { column, equals: Some(equals) })
    };
    array(map, &number)?.iter().map(read).collect()
}
