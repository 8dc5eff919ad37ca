//! The last row per key as it arrives.
//!
//! A row that equals the one before it changes nothing and nothing goes out, unless state has a time-to-live: then
//! operators behind this one need the refresh. Flink's rows remember their kind in state, and rows of different kinds differ:
//! see [`StoredKind`].
//!
//! Follows: ProcTimeDeduplicateKeepLastRowFunction over insert-only rows, Flink 2.2. Differences: none.

use arrow::datatypes::DataType;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::codec::Required;
use streamfusion_state::{ColumnId, StateContext};

use super::TABLE;
use crate::OperatorError;
use crate::changelog::{Emission, Floats, Fold, Preimages, RowPair, Transitions, equal_pairs};
use crate::row_per_key::RowPerKey;

/// The kind that a row has in Flink's state once it went out as an update.
///
/// Flink puts the row into state first and changes its kind for the output afterwards. RocksDB has then written the row
/// as it was, +I. The heap holds the very row, which is +U from then on; the next row of the key arrives as +I and differs
/// from it, however equal its content is. So on the heap equal rows go out once a key was updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoredKind {
    /// +U: HashMapStateBackend.
    #[default]
    AsEmitted,
    /// +I: EmbeddedRocksDBStateBackend.
    AsArrived,
}

#[derive(Debug)]
pub(super) struct KeepLast {
    pub(super) state: RowPerKey,
    /// Whether the row of a key is +U in state.
    updated: ColumnId<bool>,
    stored: StoredKind,
    emission: Emission,
    drops_equal: bool,
    fold: Fold,
    all: Transitions,
    transitions: Transitions,
}

impl KeepLast {
    pub(super) fn try_new(
        spec: &node::Deduplicate,
        input: &LogicalType,
        emission: Emission,
        stored: StoredKind,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let mut state = RowPerKey::try_new(TABLE, &spec.unique_keys, input, spec.ttl_ms, context)?;
        let updated = state.table.add_column("updated", None, Required::new("", DataType::Boolean), false);
        Ok(Self {
            state,
            updated,
            stored,
            emission,
            drops_equal: spec.ttl_ms <= 0,
            fold: Fold::new(Preimages::Loaded),
            all: Transitions::new(),
            transitions: Transitions::new(),
        })
    }

    pub(super) fn push(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let numbers = self.state.load(std::slice::from_ref(batch))?;
        self.all.clear();
        self.fold.load(self.state.before.iter().copied());
        for number in numbers {
            self.fold.push_each(number, 0, &self.state.touched.groups, None, &mut self.all)?;
        }
        self.fold.end_frame();
        self.select(batch.columns().len())?;
        self.transitions.emit(self.emission, &mut self.state.changes);
        // also rows that were not emitted: the kind in state is that of the last one
        self.state.commit(&self.all)
    }

    /// Takes over the transitions that go out.
    fn select(&mut self, num_columns: usize) -> Result<(), OperatorError> {
        self.transitions.clear();
        let pairs = self.all.as_slice().iter().filter_map(|transition| {
            let (left, right) = (transition.before?, transition.after?);
            self.drops_equal.then_some(RowPair { left, right })
        });
        let equal = equal_pairs(&self.state.frame, pairs, 0..num_columns, Floats::Bits)?;
        let mut equal = equal.iter();
        let column = self.state.table.column(self.updated)?;
        let mut updated: Vec<bool> = self.state.touched.slots.iter().map(|slot| *column.get(*slot)).collect();
        for transition in self.all.as_slice() {
            let Some(updated) = updated.get_mut(transition.key as usize) else { continue };
            let changes = transition.before.is_none() || !self.drops_equal || {
                let equal = equal.next().copied().unwrap_or_default();
                !equal || *updated
            };
            *updated = changes && transition.before.is_some() && self.stored == StoredKind::AsEmitted;
            if changes {
                self.transitions.push(*transition);
            }
        }
        for (slot, updated) in self.state.touched.slots.iter().zip(updated) {
            if *column.get(*slot) != updated {
                column.set(*slot, updated);
            }
        }
        Ok(())
    }
}
