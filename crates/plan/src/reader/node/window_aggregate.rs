//! Aggregates over windows from JSON: in one phase, local and global.

use serde_json::{Map, Value};

use super::aggregate::{read_calls_alike, read_row};
use super::options::LOCAL_TIME_ZONE;
use super::windowing::windowing;
use super::{Inputs, NodeJson, NodeType};
use crate::node::{
    GlobalWindowAggregate, LocalWindowAggregate, NodeKind, WindowAggregate, WindowProperty, WindowingStrategy,
};
use crate::reader::json::{array, boolean, closed, indices, malformed, optional, required, text};
use crate::reason::Reason;

pub(super) const WINDOW_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-window-aggregate",
    properties: &["grouping", "aggCalls", "windowing", "namedWindowProperties", "needRetraction"],
    options: &[LOCAL_TIME_ZONE],
    inputs: Inputs::One,
    read: |node| read_window(node).map(NodeKind::WindowAggregate),
};

pub(super) const LOCAL_WINDOW_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-local-window-aggregate",
    properties: &["grouping", "aggCalls", "windowing", "needRetraction"],
    options: &[LOCAL_TIME_ZONE],
    inputs: Inputs::One,
    read: |node| read_local(node).map(NodeKind::LocalWindowAggregate),
};

pub(super) const GLOBAL_WINDOW_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-global-window-aggregate",
    properties: &[
        "grouping",
        "aggCalls",
        "windowing",
        "namedWindowProperties",
        "needRetraction",
        "localAggInputRowType",
    ],
    options: &[LOCAL_TIME_ZONE],
    inputs: Inputs::One,
    read: |node| read_global(node).map(NodeKind::GlobalWindowAggregate),
};

fn read_window(node: &NodeJson<'_>) -> Result<WindowAggregate, Reason> {
    let need_retraction = need_retraction(node.map)?;
    Ok(WindowAggregate {
        grouping: indices(node.map, "grouping")?,
        calls: read_calls_alike(node.map, need_retraction)?,
        windowing: windowing(node)?,
        properties: properties(node.map)?,
        need_retraction,
    })
}

fn read_local(node: &NodeJson<'_>) -> Result<LocalWindowAggregate, Reason> {
    let need_retraction = need_retraction(node.map)?;
    Ok(LocalWindowAggregate {
        grouping: indices(node.map, "grouping")?,
        calls: read_calls_alike(node.map, need_retraction)?,
        windowing: windowing(node)?,
        need_retraction,
    })
}

fn read_global(node: &NodeJson<'_>) -> Result<GlobalWindowAggregate, Reason> {
    let need_retraction = need_retraction(node.map)?;
    let windowing = windowing(node)?;
    if matches!(windowing.strategy, WindowingStrategy::TimeAttribute { .. }) {
        return Err(malformed("a global aggregate assigns windows"));
    }
    Ok(GlobalWindowAggregate {
        grouping: indices(node.map, "grouping")?,
        calls: read_calls_alike(node.map, need_retraction)?,
        local_input: read_row(node.map, "localAggInputRowType")?,
        windowing,
        properties: properties(node.map)?,
        need_retraction,
    })
}

/// Plans of old do not say.
fn need_retraction(map: &Map<String, Value>) -> Result<bool, Reason> {
    optional(map, "needRetraction").map_or(Ok(false), |_| boolean(map, "needRetraction"))
}

/// The property `namedWindowProperties`; their names and what they refer to mean nothing here.
pub(super) fn properties(map: &Map<String, Value>) -> Result<Vec<WindowProperty>, Reason> {
    array(map, "namedWindowProperties")?.iter().map(property).collect()
}

fn property(json: &Value) -> Result<WindowProperty, Reason> {
    let named = closed(json, "a window property", &["name", "property"])?;
    let property = closed(required(named, "property")?, "a window property", &["kind", "reference"])?;
    match text(property, "kind")? {
        "WindowStart" => Ok(WindowProperty::Start),
        "WindowEnd" => Ok(WindowProperty::End),
        "Rowtime" => Ok(WindowProperty::Rowtime),
        "Proctime" => Ok(WindowProperty::Proctime),
        other => Err(Reason::new(format!("the window property {other} is not known here"))),
    }
}
