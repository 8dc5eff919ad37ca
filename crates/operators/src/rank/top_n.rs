//! The operator around the buffers: batches in, changelog out, and when a bundle ends that nobody else ends.

use streamfusion_plan::node::{self, RankMiniBatch, RankStrategy};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedState, StateContext};

use super::ranked::Ranked;
use super::sort_key::SortKeys;
use crate::bundle::{BundleMetrics, FlushReason, FrameFold, Frames};
use crate::{Operator, OperatorError, Residence};

/// Top-N over a buffer per partition, row by row or in bundles.
#[derive(Debug)]
pub(super) struct TopN<S: SortKeys> {
    frames: Frames,
    ranked: Ranked<S>,
    /// Whether rows are only inserted.
    insert_only: bool,
    latency: Option<Latency>,
}

/// How long bundles wait at most: in event time markers come with watermarks alone, and Flink's Top-N waits for none.
#[derive(Debug, Clone, Copy)]
struct Latency {
    most_ms: i64,
    now_ms: i64,
    /// When the open bundle ends, and its number.
    due: Option<(i64, u64)>,
}

impl<S: SortKeys> TopN<S> {
    pub(super) fn try_new(
        spec: &node::Rank,
        input: &LogicalType,
        keys: S,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        // with a time-to-live it matters to which rows a change comes
        let bundles = spec.mini_batch.filter(|_| spec.ttl_ms == 0);
        let latency = |bundles: RankMiniBatch| Latency { most_ms: bundles.latency_ms, now_ms: i64::MIN, due: None };
        Ok(Self {
            frames: Frames::new(bundles.map(|bundles| bundles.size)),
            ranked: Ranked::try_new(spec, input, keys, context)?,
            insert_only: spec.strategy == RankStrategy::AppendFast,
            latency: bundles.map(latency),
        })
    }

    /// Sets the time at which the open bundle ends, if there is one.
    fn set_due(&mut self) {
        let Some(latency) = &mut self.latency else { return };
        let number = self.frames.metrics().map_or(0, |metrics| metrics.bundles);
        latency.due = match latency.due {
            _ if !self.frames.is_open() => None,
            Some(due) if due.1 == number => Some(due),
            _ => Some((latency.now_ms.saturating_add(latency.most_ms), number)),
        };
    }
}

impl<S: SortKeys> Operator for TopN<S> {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let retracts = |kind: &u8| RowKind::from_byte(*kind).is_none_or(|kind| !kind.is_accumulate());
        if self.insert_only && batch.kinds().is_some_and(|kinds| kinds.values().iter().any(retracts)) {
            return Err(OperatorError::UnexpectedRetraction);
        }
        self.frames.push(batch);
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let batch = self.frames.pull(&mut self.ranked)?;
        self.set_due();
        Ok(batch)
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        self.frames.flush(reason, &mut self.ranked)?;
        self.set_due();
        Ok(())
    }

    fn timer(&self) -> Option<i64> {
        self.latency.map(|latency| latency.due.map_or(i64::MAX, |(due, _)| due))
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        let Some(latency) = &mut self.latency else { return Ok(None) };
        latency.now_ms = now_ms;
        if latency.due.is_some_and(|(due, _)| due <= now_ms) {
            self.flush(FlushReason::Marker)?;
        }
        Ok(None)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self.ranked.state())
    }

    fn residence(&self) -> Residence {
        Residence::Cached
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        self.frames.metrics()
    }

    fn bundle_bytes(&self) -> usize {
        self.frames.bytes() + self.ranked.bytes()
    }
}
