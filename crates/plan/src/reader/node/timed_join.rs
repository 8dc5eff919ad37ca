//! Interval joins and temporal joins from JSON.

use serde_json::{Map, Value};

use super::join::read_join_spec;
use super::{Inputs, NodeJson, NodeType};
use crate::node::{IntervalJoin, JoinType, NodeKind, RowTimes, TemporalJoin, WindowBounds};
use crate::reader::json::{boolean, closed, index, integer, malformed, required};
use crate::reason::Reason;
use crate::types::TimeDomain;

const MIN_CLEAN_UP_INTERVAL: &str = "table.exec.interval-join.min-cleanup-interval";

pub(super) const INTERVAL_JOIN: NodeType = NodeType {
    name: "stream-exec-interval-join",
    properties: &["intervalJoinSpec"],
    options: &[],
    inputs: Inputs::Two,
    read: |node| read_interval_join(node).map(NodeKind::IntervalJoin),
};

pub(super) const TEMPORAL_JOIN: NodeType = NodeType {
    name: "stream-exec-temporal-join",
    properties: &["joinSpec", "isTemporalFunctionJoin", "leftTimeAttributeIndex", "rightTimeAttributeIndex"],
    options: &[],
    inputs: Inputs::Two,
    read: |node| read_temporal_join(node).map(NodeKind::TemporalJoin),
};

fn read_interval_join(node: &NodeJson<'_>) -> Result<IntervalJoin, Reason> {
    let spec = closed(required(node.map, "intervalJoinSpec")?, "`intervalJoinSpec`", &["joinSpec", "windowBounds"])?;
    let join = read_join_spec(required(spec, "joinSpec")?)?;
    match join.join_type {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {}
        JoinType::Semi | JoinType::Anti => {
            return Err(Reason::new("Flink has no interval join of type SEMI or ANTI"));
        }
    }
    let bounds = read_bounds(spec)?;
    let min_clean_up_interval_ms = node.options.duration_ms(MIN_CLEAN_UP_INTERVAL, 0)?;
    Ok(IntervalJoin { join, bounds, min_clean_up_interval_ms })
}

fn read_bounds(spec: &Map<String, Value>) -> Result<WindowBounds, Reason> {
    let keys = ["isEventTime", "leftLowerBound", "leftUpperBound", "leftTimeIndex", "rightTimeIndex"];
    let bounds = closed(required(spec, "windowBounds")?, "`windowBounds`", &keys)?;
    let time = if boolean(bounds, "isEventTime")? { TimeDomain::Rowtime } else { TimeDomain::Proctime };
    Ok(WindowBounds {
        time,
        left_lower_ms: integer(bounds, "leftLowerBound")?,
        left_upper_ms: integer(bounds, "leftUpperBound")?,
        left_time: index(bounds, "leftTimeIndex")?,
        right_time: index(bounds, "rightTimeIndex")?,
    })
}

fn read_temporal_join(node: &NodeJson<'_>) -> Result<TemporalJoin, Reason> {
    let join = read_join_spec(required(node.map, "joinSpec")?)?;
    let of_function = boolean(node.map, "isTemporalFunctionJoin")?;
    match (join.join_type, of_function) {
        (JoinType::Inner, _) | (JoinType::Left, false) => {}
        _ => return Err(Reason::new("Flink has no temporal join of this type")),
    }
    // a negative number stands for processing time
    let row_times = match integer(node.map, "rightTimeAttributeIndex")? {
        0.. => Some(RowTimes {
            left: index(node.map, "leftTimeAttributeIndex")?,
            right: index(node.map, "rightTimeAttributeIndex")?,
        }),
        _ if of_function => None,
        _ => return Err(malformed("a temporal join of a table has no time of its right input")),
    };
    let [retention_ms] = node.options.state_ttl_ms(node.map)?;
    Ok(TemporalJoin { join, row_times, retention_ms })
}
