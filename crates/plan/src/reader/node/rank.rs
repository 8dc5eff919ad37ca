//! Top-N, ORDER BY with FETCH, and FETCH from JSON.
//!
//! Flink writes all three alike. Reading the last two it needs only what is not fixed for them; what is there all the same
//! must have the fixed value.

use serde_json::{Map, Value};

use super::options::MINI_BATCH_LATENCY;
use super::{Inputs, NodeJson, NodeType};
use crate::node::{NodeKind, Rank, RankMiniBatch, RankRange, RankStrategy, SortField};
use crate::reader::json::{array, boolean, closed, index, indices, integer, malformed, optional, required, text};
use crate::reason::Reason;

const CACHE_SIZE: &str = "table.exec.rank.topn-cache-size";
const MINI_BATCH: &str = "streamfusion.top-n.mini-batch";
const DEFAULT_CACHE_SIZE: i64 = 10_000;

const PROPERTIES: &[&str] = &[
    "rankType",
    "partition",
    "orderBy",
    "rankRange",
    "rankStrategy",
    "outputRowNumber",
    "generateUpdateBefore",
    "state",
];

pub(super) const RANK: NodeType = NodeType {
    name: "stream-exec-rank",
    properties: PROPERTIES,
    options: &[CACHE_SIZE],
    inputs: Inputs::One,
    read: |node| read_rank(node).map(NodeKind::Rank),
};

pub(super) const SORT_LIMIT: NodeType = NodeType {
    name: "stream-exec-sort-limit",
    properties: PROPERTIES,
    options: &[CACHE_SIZE],
    inputs: Inputs::One,
    read: |node| read_limit(node, read_sort(node.map, "orderBy")?).map(NodeKind::SortLimit),
};

pub(super) const LIMIT: NodeType = NodeType {
    name: "stream-exec-limit",
    properties: PROPERTIES,
    options: &[CACHE_SIZE],
    inputs: Inputs::One,
    read: |node| match optional(node.map, "orderBy").map(|_| read_sort(node.map, "orderBy")).transpose()? {
        Some(order_by) if !order_by.is_empty() => Err(malformed("a limit has a sort order")),
        _ => read_limit(node, Vec::new()).map(NodeKind::Limit),
    },
};

fn read_rank(node: &NodeJson<'_>) -> Result<Rank, Reason> {
    row_number(node.map)?;
    let [ttl_ms] = node.options.state_ttl_ms(node.map)?;
    Ok(Rank {
        partition: read_partition(node.map, "partition")?,
        order_by: read_sort(node.map, "orderBy")?,
        range: read_range(required(node.map, "rankRange")?)?,
        strategy: read_strategy(required(node.map, "rankStrategy")?)?,
        output_row_number: boolean(node.map, "outputRowNumber")?,
        generate_update_before: boolean(node.map, "generateUpdateBefore")?,
        ttl_ms,
        mini_batch: mini_batch(node)?,
        cache_size: node.options.number(CACHE_SIZE, DEFAULT_CACHE_SIZE)?,
    })
}

/// A sort-limit, or a limit if there is no sort order.
fn read_limit(node: &NodeJson<'_>, order_by: Vec<SortField>) -> Result<Rank, Reason> {
    let has = |key: &str| optional(node.map, key).is_some();
    if has("rankType") {
        row_number(node.map)?;
    }
    if has("partition") && !read_partition(node.map, "partition")?.is_empty() {
        return Err(malformed("a limit has a partition"));
    }
    if has("outputRowNumber") && boolean(node.map, "outputRowNumber")? {
        return Err(malformed("a limit hands on the row number"));
    }
    let range = match read_range(required(node.map, "rankRange")?)? {
        RankRange::Constant { end: i64::MAX, .. } => {
            return Err(Reason::new("Flink does not support OFFSET without FETCH or LIMIT on a stream"));
        }
        range @ RankRange::Constant { .. } => range,
        RankRange::Variable { .. } => return Err(malformed("the range of a limit is not constant")),
    };
    let [ttl_ms] = node.options.state_ttl_ms(node.map)?;
    Ok(Rank {
        partition: Vec::new(),
        order_by,
        range,
        strategy: read_strategy(required(node.map, "rankStrategy")?)?,
        output_row_number: false,
        generate_update_before: boolean(node.map, "generateUpdateBefore")?,
        ttl_ms,
        mini_batch: mini_batch(node)?,
        cache_size: node.options.number(CACHE_SIZE, DEFAULT_CACHE_SIZE)?,
    })
}

/// Bundles, where mini-batch is on and Top-N shall follow it.
fn mini_batch(node: &NodeJson<'_>) -> Result<Option<RankMiniBatch>, Reason> {
    if !node.options.flag(MINI_BATCH, false)? {
        return Ok(None);
    }
    let Some(size) = node.options.mini_batch()? else { return Ok(None) };
    let latency_ms = node.options.duration_ms(MINI_BATCH_LATENCY, 0)?.max(1);
    Ok(Some(RankMiniBatch { size, latency_ms }))
}

/// Errors unless the function is ROW_NUMBER.
pub(super) fn row_number(map: &Map<String, Value>) -> Result<(), Reason> {
    match text(map, "rankType")? {
        "ROW_NUMBER" => Ok(()),
        other => Err(Reason::new(format!("Flink does not support {other} on a stream"))),
    }
}

/// The columns of a PartitionSpec.
pub(super) fn read_partition(map: &Map<String, Value>, key: &str) -> Result<Vec<usize>, Reason> {
    indices(closed(required(map, key)?, &format!("`{key}`"), &["fields"])?, "fields")
}

/// The columns of a SortSpec.
pub(super) fn read_sort(map: &Map<String, Value>, key: &str) -> Result<Vec<SortField>, Reason> {
    let fields = array(closed(required(map, key)?, &format!("`{key}`"), &["fields"])?, "fields")?;
    let field = |json: &Value| {
        let field = closed(json, "a sort field", &["index", "isAscending", "nullIsLast"])?;
        Ok(SortField {
            column: index(field, "index")?,
            ascending: boolean(field, "isAscending")?,
            nulls_last: boolean(field, "nullIsLast")?,
        })
    };
    fields.iter().map(field).collect()
}

pub(super) fn read_range(json: &Value) -> Result<RankRange, Reason> {
    let range = closed(json, "`rankRange`", &["type", "start", "end", "endIndex"])?;
    match text(range, "type")? {
        "Constant" => {
            let range = closed(json, "`rankRange`", &["type", "start", "end"])?;
            let (start, end) = (integer(range, "start")?, integer(range, "end")?);
            if start < 1 {
                Err(malformed("a rank range starts below 1"))
            } else {
                Ok(RankRange::Constant { start, end })
            }
        }
        "Variable" => {
            let range = closed(json, "`rankRange`", &["type", "endIndex"])?;
            Ok(RankRange::Variable { end_column: index(range, "endIndex")? })
        }
        "ConstantWithoutEnd" => Err(Reason::new("Flink does not support a rank range without an end on a stream")),
        other => Err(Reason::new(format!("a rank range of type {other} is not known here"))),
    }
}

fn read_strategy(json: &Value) -> Result<RankStrategy, Reason> {
    let strategy = closed(json, "`rankStrategy`", &["type", "primaryKeys"])?;
    let name = text(strategy, "type")?;
    if name != "UpdateFast" {
        closed(json, "`rankStrategy`", &["type"])?;
    }
    match name {
        "AppendFast" => Ok(RankStrategy::AppendFast),
        "UpdateFast" => Ok(RankStrategy::UpdateFast { primary_keys: indices(strategy, "primaryKeys")? }),
        "Retract" => Ok(RankStrategy::Retract),
        other => Err(Reason::new(format!("the rank strategy {other} is not known here"))),
    }
}
