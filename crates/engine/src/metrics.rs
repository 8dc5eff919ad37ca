//! What a stage counts, per node.

use serde_json::{Value, json};
use streamfusion_operators::Operator;

use crate::error::NodeName;

/// Names of [`DroppedRows::counts`](streamfusion_operators::DroppedRows::counts).
const DROPPED: [&str; 4] = ["lateRowsDropped", "leftLateRowsDropped", "rightLateRowsDropped", "nullRowTimeRowsDropped"];

/// Counters of one node since the stage was opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeMetrics {
    pub batches_in: u64,
    pub rows_in: u64,
    pub batches_out: u64,
    pub rows_out: u64,
}

impl NodeMetrics {
    pub(crate) fn entered(&mut self, rows: usize) {
        self.batches_in += 1;
        self.rows_in += rows as u64;
    }

    pub(crate) fn left(&mut self, rows: usize) {
        self.batches_out += 1;
        self.rows_out += rows as u64;
    }

    /// With what the operator itself counts.
    pub(crate) fn to_json(&self, node: &NodeName, operator: &dyn Operator) -> Value {
        let mut json = json!({
            "id": node.id,
            "batchesIn": self.batches_in,
            "rowsIn": self.rows_in,
            "batchesOut": self.batches_out,
            "rowsOut": self.rows_out,
        });
        if let Some(map) = json.as_object_mut() {
            let bundles = operator.bundle_metrics().into_iter().flat_map(|bundles| bundles.entries());
            map.extend(bundles.map(|(name, count)| (name.to_owned(), count.into())));
            let dropped = DROPPED.into_iter().zip(operator.dropped_rows().counts());
            map.extend(dropped.filter_map(|(name, count)| Some((name.to_owned(), count?.into()))));
        }
        json
    }
}
