//! What a stage counts, per node.

use serde_json::{Value, json};

use crate::error::NodeName;

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

    pub(crate) fn to_json(&self, node: &NodeName) -> Value {
        json!({
            "id": node.id,
            "batchesIn": self.batches_in,
            "rowsIn": self.rows_in,
            "batchesOut": self.batches_out,
            "rowsOut": self.rows_out,
        })
    }
}
