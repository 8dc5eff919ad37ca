//! What a stage counts, per node.

use serde_json::{Value, json};
use streamfusion_operators::bundle::BundleMetrics;

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

    /// With what the bundles of the node came to, if it makes any.
    pub(crate) fn to_json(&self, node: &NodeName, bundles: Option<&BundleMetrics>) -> Value {
        let mut json = json!({
            "id": node.id,
            "batchesIn": self.batches_in,
            "rowsIn": self.rows_in,
            "batchesOut": self.batches_out,
            "rowsOut": self.rows_out,
        });
        if let (Some(bundles), Some(map)) = (bundles, json.as_object_mut()) {
            map.extend(bundles.entries().map(|(name, count)| (name.to_owned(), count.into())));
        }
        json
    }
}
