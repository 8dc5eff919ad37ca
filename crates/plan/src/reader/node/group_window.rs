//! GROUP BY with a window in it, from JSON.

use serde_json::{Map, Value};

use super::aggregate::read_calls_alike;
use super::options::{LOCAL_TIME_ZONE, MINI_BATCH_ENABLED, MINI_BATCH_SIZE};
use super::window_aggregate::properties;
use super::windowing::{length, shift_zone};
use super::{Inputs, NodeJson, NodeType};
use crate::node::{GroupWindowAggregate, NodeKind, WindowSpec};
use crate::reader::json::{boolean, closed, index, indices, integer, malformed, object, required, text, unknown_key};
use crate::reader::types::read_type;
use crate::reason::Reason;
use crate::types::{TimeAttribute, TimeDomain, TypeKind};

const EARLY_FIRE: &str = "table.exec.emit.early-fire.enabled";
const LATE_FIRE: &str = "table.exec.emit.late-fire.enabled";

pub(super) const GROUP_WINDOW_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-group-window-aggregate",
    properties: &["grouping", "aggCalls", "window", "namedWindowProperties", "needRetraction"],
    // mini-batch changes nothing about it
    options: &[LOCAL_TIME_ZONE, MINI_BATCH_ENABLED, MINI_BATCH_SIZE],
    inputs: Inputs::One,
    read: |node| read(node).map(NodeKind::GroupWindowAggregate),
};

fn read(node: &NodeJson<'_>) -> Result<GroupWindowAggregate, Reason> {
    let map = object(required(node.map, "window")?, "`window`")?;
    let time_attribute = closed(
        required(map, "timeField")?,
        "the time attribute of a window",
        &["fieldName", "fieldIndex", "inputIndex", "fieldType"],
    )?;
    if integer(time_attribute, "inputIndex")? != 0 {
        return Err(malformed("the time attribute of a window is of another input"));
    }
    let time_column = index(time_attribute, "fieldIndex")?;
    let ty = read_type(required(time_attribute, "fieldType")?)?;
    let attribute = match &ty.kind {
        TypeKind::Timestamp { attribute, .. } | TypeKind::TimestampLtz { attribute, .. } => *attribute,
        _ => TimeAttribute::Regular,
    };
    let time = match attribute {
        TimeAttribute::Rowtime => TimeDomain::Rowtime,
        TimeAttribute::Proctime => TimeDomain::Proctime,
        TimeAttribute::Regular => return Err(malformed("the windows go by a column that is no time attribute")),
    };
    let window = read_window(map)?;
    for option in [EARLY_FIRE, LATE_FIRE] {
        if node.options.flag(option, false)? {
            return Err(Reason::new(format!("`{option}` is not supported natively")));
        }
    }
    let need_retraction = boolean(node.map, "needRetraction")?;
    Ok(GroupWindowAggregate {
        grouping: indices(node.map, "grouping")?,
        calls: read_calls_alike(node.map, need_retraction)?,
        window,
        time_column,
        time,
        zone: shift_zone(&ty, &node.options)?,
        properties: properties(node.map)?,
        need_retraction,
    })
}

fn read_window(map: &Map<String, Value>) -> Result<WindowSpec, Reason> {
    let known = |own: &[&str]| {
        let keys: Vec<&str> = ["kind", "alias", "timeField"].iter().chain(own).copied().collect();
        match unknown_key(map, &keys) {
            Some(key) => Err(Reason::new(format!("the property `{key}` of `window` is not known here"))),
            None => Ok(()),
        }
    };
    let of_time = || {
        boolean(map, "isTimeWindow")?
            .then_some(())
            .ok_or_else(|| Reason::new("windows of so many rows are not supported natively"))
    };
    match text(map, "kind")? {
        "TUMBLING" => {
            known(&["isTimeWindow", "size"])?;
            of_time()?;
            Ok(WindowSpec::Tumbling { size_ms: length(map, "size")?, offset_ms: 0 })
        }
        "SLIDING" => {
            known(&["isTimeWindow", "size", "slide"])?;
            of_time()?;
            Ok(WindowSpec::Hopping { size_ms: length(map, "size")?, slide_ms: length(map, "slide")?, offset_ms: 0 })
        }
        "SESSION" => {
            known(&["gap"])?;
            Ok(WindowSpec::Session { gap_ms: length(map, "gap")?, partition: Vec::new() })
        }
        other => Err(Reason::new(format!("the window {other} is not known here"))),
    }
}
