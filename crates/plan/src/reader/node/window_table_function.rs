//! Window table functions from JSON.

use super::options::LOCAL_TIME_ZONE;
use super::windowing::windowing;
use super::{Inputs, NodeJson, NodeType};
use crate::node::{NodeKind, WindowTableFunction, WindowingStrategy};
use crate::reader::json::malformed;
use crate::reason::Reason;

pub(super) const WINDOW_TABLE_FUNCTION: NodeType = NodeType {
    name: "stream-exec-window-table-function",
    properties: &["windowing"],
    options: &[LOCAL_TIME_ZONE],
    inputs: Inputs::One,
    read: |node| read_function(node).map(NodeKind::WindowTableFunction),
};

fn read_function(node: &NodeJson<'_>) -> Result<WindowTableFunction, Reason> {
    let windowing = windowing(node)?;
    match windowing.strategy {
        WindowingStrategy::TimeAttribute { .. } => Ok(WindowTableFunction { windowing }),
        _ => Err(malformed("a window table function assigns windows that are there already")),
    }
}
