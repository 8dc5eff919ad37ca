//! One batch per destination, for edges whose barriers are always aligned.
//!
//! Every part carries the key group of its first row, which stands for all of its rows: any group of the destination's range
//! leads the record to the same subtask. After a rescaling the rows may belong to several subtasks, so a part must not be
//! stored in a checkpoint: that takes [fragments](super::FragmentSplitter).
//!
//! Rows are ordered by destination with a counting sort of row numbers, gathered once per column, and cut
//! into slices, so that the work depends on the rows and not on the number of destinations. Parts of one batch share buffers.

use arrow::array::UInt32Array;
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;

use super::key_groups::KeyGrouper;
use super::{ExchangeError, row_count};
use crate::batch::Batch;
use crate::gather::Permuter;
use crate::hash::KeyGroup;

/// The rows of a batch that go to one destination, in their order; never empty.
#[derive(Debug, Clone)]
pub struct Part {
    /// The destination: a subtask below the number of channels.
    pub channel: u32,
    /// Its rows, marked with their representative key group.
    pub batch: Batch,
}

/// Splits the batches of one edge by destination.
#[derive(Debug)]
pub struct KeySplitter {
    grouper: KeyGrouper,
    /// Destination of each key group.
    channel_of_group: Vec<u32>,
    /// Rows per destination; while rows are placed, where the next one goes.
    cursors: Vec<u32>,
    /// Destination of each row.
    channels: Vec<u32>,
    permuter: Permuter,
}

impl KeySplitter {
    /// A splitter by the columns `keys`, whose types are `key_types`, in the order of the key; without any, all rows go to
    /// one destination. `channels` is at least 1 and at most `max_parallelism`, which is at most
    /// [`KeyGroup::MAX_PARALLELISM`]; otherwise, or for key types that cannot be hashed, a reason.
    pub fn try_new(
        keys: &[usize],
        key_types: &[LogicalType],
        channels: u32,
        max_parallelism: u32,
    ) -> Result<Self, Reason> {
        if channels == 0 || channels > max_parallelism {
            return Err(Reason::new(format!(
                "an exchange to {channels} subtasks is not possible with a maximum parallelism of {max_parallelism}"
            )));
        }
        let grouper = KeyGrouper::try_new(keys, key_types, max_parallelism)?;
        let groups = 0..=u16::try_from(max_parallelism - 1).unwrap_or(u16::MAX);
        Ok(Self {
            grouper,
            channel_of_group: groups.map(|group| KeyGroup(group).subtask(channels, max_parallelism)).collect(),
            cursors: vec![0; channels as usize],
            channels: Vec::new(),
            permuter: Permuter::default(),
        })
    }

    /// The rows of `batch` by destination, in ascending order of channels. A batch without rows has no parts; one whose rows
    /// all go to the same destination is passed on with its own columns.
    pub fn split(&mut self, batch: &Batch) -> Result<Vec<Part>, ExchangeError> {
        let count = row_count(batch)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let Self { grouper, channel_of_group, cursors, channels, permuter } = self;
        // with one destination it is enough to hash one key
        let groups = match cursors.as_slice() {
            [_] => grouper.key_groups(&batch.slice(0, 1)?)?,
            _ => grouper.key_groups(batch)?,
        };
        cursors.fill(0);
        channels.clear();
        channels.extend(groups.iter().map(|group| {
            let channel = channel_of_group[usize::from(group.0)];
            cursors[channel as usize] += 1;
            channel
        }));
        if cursors.len() == 1 || cursors.contains(&count) {
            let (channel, group) = (channels[0], groups[0]);
            return Ok(vec![Part { channel, batch: batch.clone().with_key_group(group.0) }]);
        }
        let mut next = 0;
        for cursor in &mut *cursors {
            next += std::mem::replace(cursor, next);
        }
        let mut order = vec![0; batch.num_rows()];
        for (row, channel) in (0..count).zip(&*channels) {
            let cursor = &mut cursors[*channel as usize];
            order[*cursor as usize] = row;
            *cursor += 1;
        }
        let order = UInt32Array::from(order);
        let sorted = permuter.permute(batch, &order)?;
        // every cursor now stands at the end of its destination's rows
        let mut start = 0;
        let mut parts = Vec::new();
        for (channel, end) in (0..).zip(&*cursors) {
            let end = *end as usize;
            if end > start {
                let group = groups[order.value(start) as usize];
                parts.push(Part { channel, batch: sorted.slice(start, end - start)?.with_key_group(group.0) });
            }
            start = end;
        }
        Ok(parts)
    }
}
