//! One fragment per key group, for edges on which a checkpoint may store what is on its way.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::buffer::ScalarBuffer;
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;

use super::key_groups::KeyGrouper;
use super::{ExchangeError, row_count};
use crate::batch::Batch;
use crate::fragment::{Epoch, Fragment, Manifest, Parent};
use crate::gather::Permuter;
use crate::hash::KeyGroup;

/// Splits the batches of one edge by key group.
#[derive(Debug)]
pub struct FragmentSplitter {
    grouper: KeyGrouper,
    epoch: Epoch,
    /// Number of the next parent.
    sequence: u64,
    /// Rows per key group; while rows are placed, where the next one goes.
    cursors: Vec<u32>,
    permuter: Permuter,
}

impl FragmentSplitter {
    /// A splitter by the columns `keys`, whose types are `key_types`, in the order of the key. Its batches belong to `epoch`,
    /// which no other splitter may have. A reason as for [`KeySplitter`](super::KeySplitter::try_new).
    pub fn try_new(
        keys: &[usize],
        key_types: &[LogicalType],
        max_parallelism: u32,
        epoch: Epoch,
    ) -> Result<Self, Reason> {
        Ok(Self {
            grouper: KeyGrouper::try_new(keys, key_types, max_parallelism)?,
            epoch,
            sequence: 0,
            cursors: vec![0; max_parallelism as usize],
            permuter: Permuter::default(),
        })
    }

    /// The rows of `batch` by key group, in ascending order of groups, each with what its receiver needs to put the parts of
    /// the batch together again. A batch without rows has no fragments.
    pub fn split(&mut self, batch: &Batch) -> Result<Vec<Batch>, ExchangeError> {
        let rows = row_count(batch)?;
        if rows == 0 {
            return Ok(Vec::new());
        }
        let groups = self.grouper.key_groups(batch)?;
        let cursors = &mut self.cursors;
        cursors.fill(0);
        for group in groups {
            cursors[usize::from(group.0)] += 1;
        }
        let present: Vec<KeyGroup> =
            (0..).zip(&*cursors).filter(|(_, rows)| **rows > 0).map(|(group, _)| KeyGroup(group)).collect();
        let manifest = Manifest::of(&present);
        let parent = Arc::new(Parent { epoch: self.epoch, sequence: self.sequence, rows, manifest });
        self.sequence += 1;

        let mut next = 0;
        for cursor in &mut *cursors {
            next += std::mem::replace(cursor, next);
        }
        let mut order = vec![0; batch.num_rows()];
        for (row, group) in (0..rows).zip(groups) {
            let cursor = &mut cursors[usize::from(group.0)];
            order[*cursor as usize] = row;
            *cursor += 1;
        }
        let order = UInt32Array::from(order);
        let sorted = if present.len() == 1 { batch.clone() } else { self.permuter.permute(batch, &order)? };
        // every cursor now stands at the end of its group's rows
        let mut start = 0;
        present
            .into_iter()
            .map(|group| {
                let end = cursors[usize::from(group.0)] as usize;
                let ordinals: ScalarBuffer<u32> = order.values().slice(start, end - start);
                let rows = sorted.slice(start, end - start)?;
                start = end;
                Ok(rows.with_fragment(group, Fragment { parent: Arc::clone(&parent), ordinals }))
            })
            .collect()
    }
}
