//! The keyed exchange: one batch per destination.
//!
//! Flink sends a row to the subtask that owns the key group of its key. Here a batch is split by that rule into at most one
//! batch per subtask; rows keep their order within each. Every part carries the key group of its first row, which stands for
//! all of its rows: any group of the destination's range leads the record to the same subtask.
//!
//! Rows are ordered by destination with a counting sort of row numbers, gathered once per column ([`permute`]), and cut into
//! slices, so that the work depends on the rows and not on the number of destinations. Parts of one batch share buffers.
//!
//! Follows: KeyGroupStreamPartitioner, KeyGroupRangeAssignment, Flink 2.2. Differences: none.

mod permute;

use arrow::array::{ArrayRef, UInt32Array};
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;

use crate::batch::Batch;
use crate::binary::{KeyEncoder, KeyError, KeyRows};
use crate::gather::GatherError;
use crate::hash::{KeyGroup, murmur_hash};
use permute::Permuter;

/// A batch that cannot be split.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The batch has no such column.
    #[error("key column {column} of a batch of {columns} columns")]
    Column {
        /// The key column.
        column: usize,
        /// Columns of the batch.
        columns: usize,
    },
    /// The key columns are not of the expected types.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The rows cannot be gathered.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// More rows than fit into a row number.
    #[error("a batch of {rows} rows is too large to be split")]
    TooLarge {
        /// Rows of the batch.
        rows: usize,
    },
}

/// The rows of a batch that go to one destination, in their order; never empty.
#[derive(Debug, Clone)]
pub struct Part {
    /// The destination: a subtask below the number of channels.
    pub channel: u32,
    /// Its rows, marked with their representative key group.
    pub batch: Batch,
}

/// Splits the batches of one edge.
#[derive(Debug)]
pub struct KeySplitter {
    encoder: KeyEncoder,
    keys: Vec<usize>,
    max_parallelism: u32,
    /// Destination of each key group.
    channel_of_group: Vec<u32>,
    /// Rows per destination; while rows are placed, where the next one goes.
    cursors: Vec<u32>,
    key_columns: Vec<ArrayRef>,
    rows: KeyRows,
    hashes: Vec<i32>,
    groups: Vec<KeyGroup>,
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
        if channels == 0 || channels > max_parallelism || max_parallelism > KeyGroup::MAX_PARALLELISM {
            return Err(Reason::new(format!(
                "an exchange to {channels} subtasks is not possible with a maximum parallelism of {max_parallelism}"
            )));
        }
        if keys.len() != key_types.len() {
            return Err(Reason::new("the exchange does not name a type for each of its keys"));
        }
        let groups = 0..=u16::try_from(max_parallelism - 1).unwrap_or(u16::MAX);
        Ok(Self {
            encoder: KeyEncoder::try_new(key_types)?,
            keys: keys.to_vec(),
            max_parallelism,
            channel_of_group: groups.map(|group| KeyGroup(group).subtask(channels, max_parallelism)).collect(),
            cursors: vec![0; channels as usize],
            key_columns: Vec::with_capacity(keys.len()),
            rows: KeyRows::new(),
            hashes: Vec::new(),
            groups: Vec::new(),
            channels: Vec::new(),
            permuter: Permuter::default(),
        })
    }

    /// The rows of `batch` by destination, in ascending order of channels. A batch without rows has no parts; one whose rows
    /// all go to the same destination is passed on with its own columns.
    pub fn split(&mut self, batch: &Batch) -> Result<Vec<Part>, ExchangeError> {
        let num_rows = batch.num_rows();
        if num_rows == 0 {
            return Ok(Vec::new());
        }
        let Ok(count) = u32::try_from(num_rows) else { return Err(ExchangeError::TooLarge { rows: num_rows }) };
        if let [_] = self.cursors.as_slice() {
            // one key decides, and it is enough to hash that one
            self.hash(&batch.slice(0, 1)?)?;
            return Ok(vec![self.whole(batch)]);
        }
        self.hash(batch)?;
        self.channels.clear();
        self.cursors.fill(0);
        self.channels.extend(self.groups.iter().map(|group| {
            let channel = self.channel_of_group[usize::from(group.0)];
            self.cursors[channel as usize] += 1;
            channel
        }));
        if self.cursors.contains(&count) {
            return Ok(vec![self.whole(batch)]);
        }
        let mut next = 0;
        for cursor in &mut self.cursors {
            next += std::mem::replace(cursor, next);
        }
        let mut order = vec![0; num_rows];
        for (row, channel) in (0..count).zip(&self.channels) {
            let cursor = &mut self.cursors[*channel as usize];
            order[*cursor as usize] = row;
            *cursor += 1;
        }
        let order = UInt32Array::from(order);
        let sorted = self.permuter.permute(batch, &order)?;
        // every cursor now stands at the end of its destination's rows
        let mut start = 0;
        let mut parts = Vec::new();
        for (channel, end) in (0..).zip(&self.cursors) {
            let end = *end as usize;
            if end > start {
                let group = self.groups[order.value(start) as usize];
                parts.push(Part { channel, batch: sorted.slice(start, end - start)?.with_key_group(group.0) });
            }
            start = end;
        }
        Ok(parts)
    }

    /// All of a batch, to the destination of its first row.
    fn whole(&self, batch: &Batch) -> Part {
        let group = self.groups[0];
        Part { channel: self.channel_of_group[usize::from(group.0)], batch: batch.clone().with_key_group(group.0) }
    }

    /// Sets the key group of each row.
    fn hash(&mut self, batch: &Batch) -> Result<(), ExchangeError> {
        self.key_columns.clear();
        for key in &self.keys {
            let column = batch
                .columns()
                .get(*key)
                .ok_or(ExchangeError::Column { column: *key, columns: batch.columns().len() })?;
            self.key_columns.push(column.clone());
        }
        let hashed = self.encoder.hash_into(&self.key_columns, batch.num_rows(), &mut self.rows, &mut self.hashes);
        self.key_columns.clear(); // keep no batch alive
        hashed?;
        let max_parallelism = self.max_parallelism;
        self.groups.clear();
        if max_parallelism.is_power_of_two() {
            // the remainder without a division
            let mask = max_parallelism - 1;
            self.groups
                .extend(self.hashes.iter().map(|hash| KeyGroup((murmur_hash(*hash).cast_unsigned() & mask) as u16)));
        } else {
            self.groups.extend(self.hashes.iter().map(|hash| KeyGroup::of_hash(*hash, max_parallelism)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
