//! The operator around the buffers: batches in, changelog out.

use streamfusion_plan::node::{self, RankStrategy};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedState, StateContext};

use super::ranked::Ranked;
use super::sort_key::SortKeys;
use crate::bundle::{BundleMetrics, FlushReason, FrameFold, Frames};
use crate::{Operator, OperatorError};

/// Top-N over a buffer per partition, row by row or in bundles.
#[derive(Debug)]
pub(super) struct TopN<S: SortKeys> {
    frames: Frames,
    ranked: Ranked<S>,
    /// Whether rows are only inserted.
    insert_only: bool,
}

impl<S: SortKeys> TopN<S> {
    pub(super) fn try_new(
        spec: &node::Rank,
        input: &LogicalType,
        keys: S,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        Ok(Self {
            frames: Frames::new(spec.mini_batch_size),
            ranked: Ranked::try_new(spec, input, keys, context)?,
            insert_only: spec.strategy == RankStrategy::AppendFast,
        })
    }
}

impl<S: SortKeys> Operator for TopN<S>
where
    S::Encoded: Send,
{
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let retracts = |kind: &u8| RowKind::from_byte(*kind).is_none_or(|kind| !kind.is_accumulate());
        if self.insert_only && batch.kinds().is_some_and(|kinds| kinds.values().iter().any(retracts)) {
            return Err(OperatorError::UnexpectedRetraction);
        }
        self.frames.push(batch);
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.frames.pull(&mut self.ranked)
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        self.frames.flush(reason, &mut self.ranked)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self.ranked.state())
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        self.frames.metrics()
    }

    fn bundle_bytes(&self) -> usize {
        self.frames.bytes() + self.ranked.bytes()
    }
}
