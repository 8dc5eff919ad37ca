//! The first row per key as it arrives; all others vanish.
//!
//! With mini-batch nothing is gained by waiting for the end of a bundle: the row that goes out is the same. Only where flags expire
//! does it matter when they are read and written, and then bundles are waited for.
//!
//! Follows: ProcTimeDeduplicateKeepFirstRowFunction, ProcTimeMiniBatchDeduplicateKeepFirstRowFunction, Flink 2.2. Differences: none
//! per key.

use std::ops::Range;

use arrow::array::UInt32Array;
use arrow::datatypes::DataType;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::types::arrow_type;
use streamfusion_state::codec::{Mapped, Required};
use streamfusion_state::{ColumnId, KeyedTable, StateContext, StateTtl, Touched};

use super::TABLE;
use crate::OperatorError;
use crate::bundle::{Emitted, FrameFold};
use crate::keys::Keys;

#[derive(Debug)]
pub(super) struct KeepFirst {
    keys: Keys,
    pub(super) table: KeyedTable,
    /// True under every key, between frames.
    seen: ColumnId<bool>,
    touched: Touched,
    /// The batches of the frame, each with the number of its first row.
    batches: Vec<(usize, Batch)>,
    /// The rows that go out, numbered through all batches, in descending order once the frame has ended.
    firsts: Vec<usize>,
    /// Per key of the frame: the last bundle in it that touched the key.
    bundles: Vec<u32>,
    bundle: u32,
}

impl KeepFirst {
    pub(super) fn try_new(
        spec: &node::Deduplicate,
        input: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let internal = |reason: streamfusion_plan::Reason| OperatorError::Internal(reason.to_string());
        let fields = spec.unique_keys.iter().map(|key| input.fields().get(*key).map(|field| field.ty.clone()));
        let types: Vec<LogicalType> = fields
            .collect::<Option<_>>()
            .ok_or_else(|| OperatorError::Internal("a key column does not exist".to_owned()))?;
        let arrow = types.iter().map(arrow_type).collect::<Result<Vec<_>, _>>().map_err(internal)?;
        let keys = Keys::try_new(&spec.unique_keys, &types, &arrow).map_err(internal)?;
        let mut table = KeyedTable::new(TABLE, keys.layout(), StateTtl::of_millis(spec.ttl_ms), context);
        let codec = Mapped::new(
            Required::new("", DataType::Boolean),
            |seen: &bool| *seen,
            |seen| if seen { Ok(seen) } else { Err("a key that was not seen") },
        );
        let seen = table.add_column("seen", None, codec, false);
        Ok(Self {
            keys,
            table,
            seen,
            touched: Touched::default(),
            batches: Vec::new(),
            firsts: Vec::new(),
            bundles: Vec::new(),
            bundle: 0,
        })
    }
}

impl FrameFold for KeepFirst {
    fn begin(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        self.keys.load_batches(batches, &mut self.table, &mut self.touched)?;
        self.batches.clear();
        let mut first = 0;
        for batch in batches {
            self.batches.push((first, batch.clone().with_kinds(None)?));
            first += batch.num_rows();
        }
        self.firsts.clear();
        self.bundles.clear();
        self.bundle = 0;
        // keys are numbered as they come: the next number is that of a key whose first row of the frame this is
        let mut next = 0;
        for (row, group) in self.touched.groups.iter().enumerate() {
            if *group as usize == next {
                next += 1;
                self.firsts.push(row);
            }
        }
        Ok(())
    }

    fn bundle(&mut self, rows: Range<usize>) -> Result<usize, OperatorError> {
        self.bundle += 1;
        self.bundles.resize(self.touched.slots.len(), 0);
        let mut keys = 0;
        for group in self.touched.groups.get(rows).unwrap_or_default() {
            if let Some(bundle) = self.bundles.get_mut(*group as usize)
                && *bundle != self.bundle
            {
                *bundle = self.bundle;
                keys += 1;
            }
        }
        Ok(keys)
    }

    fn each_row(&mut self) -> Result<(), OperatorError> {
        Ok(())
    }

    fn end(&mut self) -> Result<Emitted, OperatorError> {
        let seen = self.table.column(self.seen)?;
        let mut slots = Vec::new();
        // there is one first row for each key
        let mut keys = self.touched.slots.iter();
        self.firsts.retain(|_| {
            let unseen = keys.next().filter(|slot| !*seen.get(**slot));
            if let Some(slot) = unseen {
                seen.set(*slot, true);
                slots.push(*slot);
            }
            unseen.is_some()
        });
        self.table.commit(&slots);
        self.firsts.reverse();
        self.batches.reverse();
        Ok(Emitted { changes: slots.len(), rows: slots.len() })
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        while let Some((first, batch)) = self.batches.pop() {
            let split = self.firsts.partition_point(|row| *row >= first + batch.num_rows());
            let mut rows = self.firsts.split_off(split);
            rows.reverse();
            if rows.len() == batch.num_rows() {
                return Ok(Some(batch));
            }
            if !rows.is_empty() {
                let rows = rows.iter().filter_map(|row| u32::try_from(row - first).ok());
                return Ok(Some(batch.take(&UInt32Array::from_iter_values(rows))?));
            }
        }
        Ok(None)
    }

    fn survivors(&mut self) -> Result<Option<Vec<Batch>>, OperatorError> {
        self.firsts.reverse();
        self.batches.reverse();
        let mut survivors = Vec::new();
        while let Some(batch) = self.pull()? {
            survivors.push(batch);
        }
        Ok(Some(survivors))
    }

    fn bytes(&self) -> usize {
        self.firsts.capacity() * size_of::<usize>()
            + (self.touched.groups.capacity() + self.touched.slots.capacity() + self.bundles.capacity())
                * size_of::<u32>()
    }
}
