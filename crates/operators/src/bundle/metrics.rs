//! What the bundles of an operator came to.

use super::FlushReason;

/// How large a bundle was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BundleShape {
    /// Rows that came in, of both inputs.
    pub rows: u64,
    /// Keys that they touched, of both inputs.
    pub keys: u64,
}

/// Bundles by the reason why they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlushCounts {
    /// Full bundles.
    pub count: u64,
    /// Ended by a marker.
    pub marker: u64,
    /// Ended by a watermark.
    pub watermark: u64,
    /// Ended by a checkpoint.
    pub checkpoint: u64,
    /// Ended with the input.
    pub end_of_input: u64,
}

/// Counters of an operator's bundles since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BundleMetrics {
    /// Bundles that ended.
    pub bundles: u64,
    /// The same by reason.
    pub flushes: FlushCounts,
    /// Rows that came in, those of the open bundle included.
    pub rows_in: u64,
    /// Rows that bundles emitted.
    pub rows_out: u64,
    /// Batches that a bundle's end cut, once per cut.
    pub physical_splits: u64,
    /// Keys that bundles touched, once per bundle.
    pub touched_keys: u64,
    /// Rows that left no change of their own: replaced, inverted, or equal to what was there.
    pub cancelled_changes: u64,
    /// The last bundle.
    pub last: BundleShape,
    /// The most rows and the most keys that a bundle had.
    pub peak: BundleShape,
}

impl BundleMetrics {
    pub(super) fn ended(&mut self, reason: FlushReason, shape: BundleShape) {
        self.bundles += 1;
        let flushes = match reason {
            FlushReason::Count => &mut self.flushes.count,
            FlushReason::Marker => &mut self.flushes.marker,
            FlushReason::Watermark => &mut self.flushes.watermark,
            FlushReason::Checkpoint => &mut self.flushes.checkpoint,
            FlushReason::EndOfInput => &mut self.flushes.end_of_input,
        };
        *flushes += 1;
        self.touched_keys += shape.keys;
        self.last = shape;
        self.peak = BundleShape { rows: self.peak.rows.max(shape.rows), keys: self.peak.keys.max(shape.keys) };
    }

    /// Every counter with its name in the metrics of the stage.
    pub fn entries(&self) -> [(&'static str, u64); 15] {
        [
            ("bundles", self.bundles),
            ("bundleFlushesByCount", self.flushes.count),
            ("bundleFlushesByMarker", self.flushes.marker),
            ("bundleFlushesByWatermark", self.flushes.watermark),
            ("bundleFlushesByCheckpoint", self.flushes.checkpoint),
            ("bundleFlushesByEndOfInput", self.flushes.end_of_input),
            ("bundleRowsIn", self.rows_in),
            ("bundleRowsOut", self.rows_out),
            ("bundlePhysicalSplits", self.physical_splits),
            ("bundleTouchedKeys", self.touched_keys),
            ("bundleCancelledChanges", self.cancelled_changes),
            ("lastBundleRows", self.last.rows),
            ("lastBundleKeys", self.last.keys),
            ("peakBundleRows", self.peak.rows),
            ("peakBundleKeys", self.peak.keys),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn last_and_peak_shape_are_kept_apart() {
        let mut metrics = BundleMetrics::default();
        metrics.ended(FlushReason::Count, BundleShape { rows: 4096, keys: 64 });
        metrics.ended(FlushReason::Watermark, BundleShape { rows: 100, keys: 90 });
        let entries = BTreeMap::from(metrics.entries());
        assert_eq!(entries.len(), metrics.entries().len(), "a name stands twice");
        let expected = [
            ("bundles", 2),
            ("bundleFlushesByCount", 1),
            ("bundleFlushesByWatermark", 1),
            ("bundleFlushesByMarker", 0),
            ("bundleTouchedKeys", 154),
            ("lastBundleRows", 100),
            ("lastBundleKeys", 90),
            ("peakBundleRows", 4096),
            ("peakBundleKeys", 90),
        ];
        for (name, value) in expected {
            assert_eq!(entries.get(name), Some(&value), "{name}");
        }
    }
}
