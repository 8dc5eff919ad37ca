//! The last row per key as it arrives.
//!
//! A row that equals the one before it changes nothing and nothing goes out, unless state has a time-to-live: then
//! operators behind this one need the refresh. With mini-batch the same is done to the last row of each key in a bundle, and to no other.
//!
//! Flink's rows remember their kind in state, and rows of different kinds differ. It puts the row into state first and changes its kind
//! for the output afterwards. RocksDB has then written the row as it was, +I. The heap holds the very row, which is +U from then on; the
//! next row of the key arrives as +I and differs from it, however equal its content is. So on the heap equal rows go out once a key was
//! updated.
//!
//! Follows: ProcTimeDeduplicateKeepLastRowFunction and ProcTimeMiniBatchDeduplicateKeepLastRowFunction over insert-only rows,
//! Flink 2.2. Differences: none per key; the keys of a bundle go out in first-touch order.

use std::ops::Range;

use arrow::datatypes::DataType;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::codec::Required;
use streamfusion_state::{ColumnId, StateContext};

use super::TABLE;
use crate::bundle::{Emitted, FrameFold};
use crate::changelog::{Emission, Floats, Fold, Preimages, RowPair, Transitions, equal_pairs};
use crate::row_per_key::RowPerKey;
use crate::{OperatorError, StateBackend};

/// What is to be known of a key to emit a row of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// The row before.
    Rows,
    /// Nothing, for every row is +U. The table then numbers the keys of a frame, and is empty between frames.
    Nothing,
}

#[derive(Debug)]
pub(super) struct KeepLast {
    pub(super) state: RowPerKey,
    /// Whether the row of a key is +U in state.
    updated: ColumnId<bool>,
    backend: StateBackend,
    emission: Emission,
    reads: Reads,
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
        reads: Reads,
        backend: StateBackend,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let mut state = RowPerKey::try_new(TABLE, &spec.unique_keys, input, spec.ttl_ms, context)?;
        let updated = state.table.add_column("updated", None, Required::new("", DataType::Boolean), false);
        Ok(Self {
            state,
            updated,
            backend,
            emission,
            reads,
            drops_equal: spec.ttl_ms <= 0,
            fold: Fold::new(Preimages::Loaded),
            all: Transitions::new(),
            transitions: Transitions::new(),
        })
    }

    /// Takes over the transitions that go out.
    fn select(&mut self) -> Result<(), OperatorError> {
        self.transitions.clear();
        let pairs = self.all.as_slice().iter().filter_map(|transition| {
            let (left, right) = (transition.before?, transition.after?);
            self.drops_equal.then_some(RowPair { left, right })
        });
        let equal = equal_pairs(&self.state.frame, pairs, 0..self.state.frame.num_columns(), Floats::Bits)?;
        let mut equal = equal.iter();
        let column = self.state.table.column(self.updated)?;
        let mut updated: Vec<bool> = self.state.touched.slots.iter().map(|slot| *column.get(*slot)).collect();
        for transition in self.all.as_slice() {
            let Some(updated) = updated.get_mut(transition.key as usize) else { continue };
            let changes = transition.before.is_none() || !self.drops_equal || {
                let equal = equal.next().copied().unwrap_or_default();
                !equal || *updated
            };
            *updated = changes && transition.before.is_some() && self.backend == StateBackend::Hashmap;
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

impl FrameFold for KeepLast {
    fn begin(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        self.all.clear();
        self.fold.end_frame();
        if self.reads == Reads::Nothing {
            return self.state.load_keys(batches);
        }
        self.state.load(batches)?;
        self.fold.load(self.state.before.iter().copied());
        Ok(())
    }

    fn bundle(&mut self, rows: Range<usize>) -> Result<usize, OperatorError> {
        for run in self.state.runs(rows) {
            self.fold.push(run.batch, run.first_row, run.keys, None)?;
        }
        let keys = self.fold.touched().len();
        self.fold.end_bundle(&mut self.all);
        Ok(keys)
    }

    fn each_row(&mut self) -> Result<(), OperatorError> {
        for run in self.state.runs(self.state.all_rows()) {
            self.fold.push_each(run.batch, run.first_row, run.keys, None, &mut self.all)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Emitted, OperatorError> {
        self.fold.end_frame();
        if self.reads == Reads::Nothing {
            self.all.emit(self.emission, &mut self.state.changes);
            self.state.remove_keys()?;
            return Ok(Emitted { changes: self.all.as_slice().len(), rows: self.state.changes.len() });
        }
        self.select()?;
        self.transitions.emit(self.emission, &mut self.state.changes);
        // also rows that were not emitted: the kind in state is that of the last one
        self.state.commit(&self.all)?;
        Ok(Emitted { changes: self.transitions.as_slice().len(), rows: self.state.changes.len() })
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.state.pull()
    }

    fn survivors(&mut self) -> Result<Option<Vec<Batch>>, OperatorError> {
        Ok(Some(self.state.last_rows()?))
    }

    fn bytes(&self) -> usize {
        self.state.bytes() + self.fold.bytes()
    }
}
