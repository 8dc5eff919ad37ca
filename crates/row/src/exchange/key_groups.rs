//! The key group of each row of a batch.

use arrow::array::ArrayRef;
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;

use super::ExchangeError;
use crate::batch::Batch;
use crate::binary::{KeyEncoder, KeyRows};
use crate::hash::{KeyGroup, murmur_hash};

/// Hashes the key columns of batches.
#[derive(Debug)]
pub(super) struct KeyGrouper {
    encoder: KeyEncoder,
    keys: Vec<usize>,
    max_parallelism: u32,
    key_columns: Vec<ArrayRef>,
    rows: KeyRows,
    hashes: Vec<i32>,
    groups: Vec<KeyGroup>,
}

impl KeyGrouper {
    /// A reason if `max_parallelism` is not from 1 to [`KeyGroup::MAX_PARALLELISM`], or keys of these types cannot be hashed.
    pub(super) fn try_new(keys: &[usize], key_types: &[LogicalType], max_parallelism: u32) -> Result<Self, Reason> {
        if max_parallelism == 0 || max_parallelism > KeyGroup::MAX_PARALLELISM {
            return Err(Reason::new(format!(
                "an exchange is not possible with a maximum parallelism of {max_parallelism}"
            )));
        }
        if keys.len() != key_types.len() {
            return Err(Reason::new("the exchange does not name a type for each of its keys"));
        }
        Ok(Self {
            encoder: KeyEncoder::try_new(key_types)?,
            keys: keys.to_vec(),
            max_parallelism,
            key_columns: Vec::with_capacity(keys.len()),
            rows: KeyRows::new(),
            hashes: Vec::new(),
            groups: Vec::new(),
        })
    }

    /// Key group of each row: `num_rows()` values, each below the maximum parallelism.
    pub(super) fn key_groups(&mut self, batch: &Batch) -> Result<&[KeyGroup], ExchangeError> {
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
            // the remainder without a division, below 2^15
            let mask = max_parallelism - 1;
            let group = |hash: &i32| KeyGroup((murmur_hash(*hash).cast_unsigned() & mask) as u16);
            self.groups.extend(self.hashes.iter().map(group));
        } else {
            self.groups.extend(self.hashes.iter().map(|hash| KeyGroup::of_hash(*hash, max_parallelism)));
        }
        Ok(&self.groups)
    }
}
