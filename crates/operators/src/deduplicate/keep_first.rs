//! The first row per key as it arrives; all others vanish.
//!
//! Follows: ProcTimeDeduplicateKeepFirstRowFunction, Flink 2.2. Differences: none.

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
use crate::keys::Keys;

#[derive(Debug)]
pub(super) struct KeepFirst {
    keys: Keys,
    pub(super) table: KeyedTable,
    /// True under every key, between batches.
    seen: ColumnId<bool>,
    touched: Touched,
    pub(super) output: Option<Batch>,
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
        Ok(Self { keys, table, seen, touched: Touched::default(), output: None })
    }

    pub(super) fn push(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let columns = self.keys.columns(batch)?;
        self.keys.load(&columns, batch.num_rows(), &mut self.table, &mut self.touched)?;
        let seen = self.table.column(self.seen)?;
        let mut firsts = Vec::new();
        let mut slots = Vec::new();
        // keys are numbered as they come: the next number is that of a key whose first row of the batch this is
        let mut next = 0;
        for (row, group) in (0_u32..).zip(&self.touched.groups) {
            if *group as usize == next {
                let Some(slot) = self.touched.slots.get(next) else { break };
                next += 1;
                if !*seen.get(*slot) {
                    seen.set(*slot, true);
                    firsts.push(row);
                    slots.push(*slot);
                }
            }
        }
        self.table.commit(&slots);
        self.output = match firsts.len() {
            0 => None,
            count if count == batch.num_rows() => Some(batch.clone()),
            _ => Some(batch.take(&UInt32Array::from(firsts))?),
        };
        Ok(())
    }
}
