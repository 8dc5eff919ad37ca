//! OVER aggregates and sorting by time from JSON.

use serde_json::{Map, Value};

use super::aggregate::read_call;
use super::rank::{read_partition, read_sort};
use super::{Inputs, NodeJson, NodeType};
use crate::node::{Constant, NodeKind, OverAggregate, OverFrame, TemporalSort};
use crate::reader::json::{array, boolean, closed, index, integer, malformed, object, optional, required, text};
use crate::reader::rex::read_rex;
use crate::reason::Reason;
use crate::rex::{Literal, Rex};

pub(super) const OVER_AGGREGATE: NodeType = NodeType {
    name: "stream-exec-over-aggregate",
    properties: &["overSpec", "unboundedOverVersion"],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_over(node).map(NodeKind::OverAggregate),
};

pub(super) const TEMPORAL_SORT: NodeType = NodeType {
    name: "stream-exec-temporal-sort",
    properties: &["orderBy"],
    options: &[],
    inputs: Inputs::One,
    read: |node| read_temporal_sort(node).map(NodeKind::TemporalSort),
};

/// Of a plan without `unboundedOverVersion`, which is from before there was a second one.
const FIRST_VERSION: i64 = 1;

fn read_over(node: &NodeJson<'_>) -> Result<OverAggregate, Reason> {
    let known = ["partition", "groups", "constants", "originalInputFields"];
    let spec = closed(required(node.map, "overSpec")?, "`overSpec`", &known)?;
    let [group] = array(spec, "groups")? else {
        return Err(Reason::new("Flink computes OVER aggregates of one window only in an operator"));
    };
    let group = closed(group, "a window", &["orderBy", "isRows", "lowerBound", "upperBound", "aggCalls"])?;
    let order_by = read_sort(group, "orderBy")?;
    let [order] = order_by.as_slice() else {
        return Err(Reason::new("Flink sorts an OVER window on a stream by a single column only"));
    };
    if !order.ascending {
        return Err(Reason::new("Flink sorts an OVER window on a stream in ascending order only"));
    }
    let constants = array(spec, "constants")?.iter().map(read_constant).collect::<Result<Vec<_>, _>>()?;
    let input_fields = index(spec, "originalInputFields")?;
    let frame = read_frame(group, input_fields, &constants)?;
    let calls = array(group, "aggCalls")?.iter().map(|json| read_call(json, frame.is_bounded()));
    let calls = calls.collect::<Result<Vec<_>, _>>()?;
    let last = input_fields.saturating_add(constants.len());
    if calls.iter().any(|call| call.args.iter().chain(&call.filter).any(|column| *column >= last)) {
        return Err(malformed("an argument of an OVER aggregate does not exist"));
    }
    let unbounded_version = match optional(node.map, "unboundedOverVersion") {
        Some(_) => integer(node.map, "unboundedOverVersion")?,
        None => FIRST_VERSION,
    };
    Ok(OverAggregate {
        input_columns: input_fields,
        partition: read_partition(spec, "partition")?,
        order: order.column,
        nulls_last: order.nulls_last,
        frame,
        calls,
        constants,
        // Flink's node has no `state` of its own: the session's retention counts
        ttl_ms: node.options.session_ttl_ms()?,
        unbounded_version,
    })
}

fn read_constant(json: &Value) -> Result<Constant, Reason> {
    match read_rex(json)? {
        Rex::Literal { value, ty } => Ok(Constant { value, ty }),
        _ => Err(malformed("a constant of an OVER aggregate is not a literal")),
    }
}

fn read_frame(group: &Map<String, Value>, input_fields: usize, constants: &[Constant]) -> Result<OverFrame, Reason> {
    let known = ["kind", "isPreceding", "offset"];
    let upper = closed(required(group, "upperBound")?, "a bound", &known)?;
    if text(upper, "kind")? != "CURRENT_ROW" {
        return Err(Reason::new("Flink ends an OVER window on a stream at the current row only"));
    }
    let lower = closed(required(group, "lowerBound")?, "a bound", &known)?;
    let is_rows = boolean(group, "isRows")?;
    match text(lower, "kind")? {
        "UNBOUNDED_PRECEDING" => Ok(if is_rows { OverFrame::UnboundedRows } else { OverFrame::UnboundedRange }),
        "BOUNDED_WINDOW" if boolean(lower, "isPreceding")? => {
            let offset = object(required(lower, "offset")?, "an offset")?;
            let constant = match text(offset, "kind")? {
                "INPUT_REF" => index(offset, "inputIndex")?.checked_sub(input_fields),
                _ => None,
            };
            let constant = constant.and_then(|number| constants.get(number));
            let constant = constant.ok_or_else(|| malformed("the offset of a bound is not one of the constants"))?;
            match constant.value {
                Literal::Integer(offset) if offset >= 0 => Ok(if is_rows {
                    OverFrame::Rows { preceding: offset }
                } else {
                    OverFrame::Range { preceding_ms: offset }
                }),
                Literal::Decimal(_) => Err(Reason::new("Flink supports no DECIMAL bound of an OVER window")),
                _ => Err(malformed("the offset of a bound is not a number from 0 on")),
            }
        }
        _ => Err(Reason::new("Flink begins an OVER window on a stream at a preceding row only")),
    }
}

fn read_temporal_sort(node: &NodeJson<'_>) -> Result<TemporalSort, Reason> {
    let order_by = read_sort(node.map, "orderBy")?;
    match order_by.first() {
        Some(first) if first.ascending => Ok(TemporalSort { order_by }),
        _ => Err(Reason::new("Flink sorts a stream by time in ascending order only")),
    }
}
