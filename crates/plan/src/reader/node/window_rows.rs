//! Top-N, deduplication and joins per window from JSON.

use super::join::read_join_spec;
use super::rank::{read_partition, read_range, read_sort, row_number};
use super::windowing::windowing_at;
use super::{Inputs, NodeJson, NodeType};
use crate::node::{
    KeepRow, NodeKind, RankRange, WindowDeduplicate, WindowJoin, WindowRank, Windowing, WindowingStrategy,
};
use crate::reader::json::{boolean, index, indices, required};
use crate::reason::Reason;

const ZONE: &str = "table.local-time-zone";

pub(super) const WINDOW_RANK: NodeType = NodeType {
    name: "stream-exec-window-rank",
    properties: &["rankType", "partitionSpec", "sortSpec", "rankRange", "outputRowNumber", "windowing"],
    options: &[ZONE],
    inputs: Inputs::One,
    read: |node| read_window_rank(node).map(NodeKind::WindowRank),
};

pub(super) const WINDOW_DEDUPLICATE: NodeType = NodeType {
    name: "stream-exec-window-deduplicate",
    properties: &["partitionKeys", "orderKey", "keepLastRow", "windowing"],
    options: &[ZONE],
    inputs: Inputs::One,
    read: |node| read_window_deduplicate(node).map(NodeKind::WindowDeduplicate),
};

pub(super) const WINDOW_JOIN: NodeType = NodeType {
    name: "stream-exec-window-join",
    properties: &["joinSpec", "leftWindowing", "rightWindowing"],
    options: &[ZONE],
    inputs: Inputs::Two,
    read: |node| read_window_join(node).map(NodeKind::WindowJoin),
};

fn read_window_rank(node: &NodeJson<'_>) -> Result<WindowRank, Reason> {
    row_number(node.map)?;
    let (start, end) = match read_range(required(node.map, "rankRange")?)? {
        RankRange::Constant { start, end } if end >= start => (start, end),
        RankRange::Constant { .. } => return Err(Reason::new("Flink does not support a window Top-N without a rank")),
        RankRange::Variable { .. } => {
            return Err(Reason::new("Flink does not support a window Top-N whose last rank is not constant"));
        }
    };
    Ok(WindowRank {
        partition: read_partition(node.map, "partitionSpec")?,
        order_by: read_sort(node.map, "sortSpec")?,
        start,
        end,
        output_row_number: boolean(node.map, "outputRowNumber")?,
        windowing: attached(node, "windowing")?,
    })
}

fn read_window_deduplicate(node: &NodeJson<'_>) -> Result<WindowDeduplicate, Reason> {
    Ok(WindowDeduplicate {
        partition: indices(node.map, "partitionKeys")?,
        order_key: index(node.map, "orderKey")?,
        keep: if boolean(node.map, "keepLastRow")? { KeepRow::Last } else { KeepRow::First },
        windowing: attached(node, "windowing")?,
    })
}

fn read_window_join(node: &NodeJson<'_>) -> Result<WindowJoin, Reason> {
    let join = read_join_spec(required(node.map, "joinSpec")?)?;
    let (left, right) = (attached(node, "leftWindowing")?, attached(node, "rightWindowing")?);
    if left.zone != right.zone {
        return Err(Reason::new("its inputs have windows in the local time of different zones"));
    }
    Ok(WindowJoin { join, left, right })
}

/// Windows of event time that come with the rows: Flink has no other here.
fn attached(node: &NodeJson<'_>, key: &str) -> Result<Windowing, Reason> {
    let windowing = windowing_at(node, key)?;
    if !windowing.is_rowtime {
        return Err(Reason::new("Flink supports it only over windows of event time"));
    }
    match windowing.strategy {
        WindowingStrategy::WindowAttached { .. } => Ok(windowing),
        WindowingStrategy::TimeAttribute { .. } | WindowingStrategy::SliceAttached { .. } => {
            Err(Reason::new("Flink supports it only over rows that come with their window"))
        }
    }
}
