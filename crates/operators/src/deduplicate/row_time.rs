//! The earliest or latest row per key by row time.
//!
//! Of rows of the same time the latest that arrived stays if the last is kept, the first if the first is. Equal rows are updates
//! like any other. A NULL row time is 0, as it is where Flink reads it, in the fixed part of a BinaryRow.
//!
//! Follows: RowTimeDeduplicateFunction, RowTimeDeduplicateFunctionHelper, Flink 2.2. Differences: none.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::TimestampMillisecondType;
use streamfusion_plan::node::{self, KeepRow};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::StateContext;

use super::TABLE;
use crate::OperatorError;
use crate::changelog::{Emission, RowRef, Transition, Transitions};
use crate::row_per_key::RowPerKey;

#[derive(Debug)]
pub(super) struct ByRowTime {
    pub(super) state: RowPerKey,
    column: usize,
    keep: KeepRow,
    emission: Emission,
    transitions: Transitions,
}

impl ByRowTime {
    pub(super) fn try_new(
        spec: &node::Deduplicate,
        input: &LogicalType,
        column: usize,
        keep: KeepRow,
        emission: Emission,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let state = RowPerKey::try_new(TABLE, &spec.unique_keys, input, spec.ttl_ms, context)?;
        Ok(Self { state, column, keep, emission, transitions: Transitions::new() })
    }

    pub(super) fn push(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let numbers = self.state.load(std::slice::from_ref(batch))?;
        self.transitions.clear();
        let mut current = self.current()?;
        let times = row_times(batch.columns().get(self.column))?;
        for number in numbers {
            for ((row, key), time) in (0_u32..).zip(&self.state.touched.groups).zip(&times) {
                let Some(current) = current.get_mut(*key as usize) else { continue };
                let before = *current;
                let wins = before.is_none_or(|(_, best)| match self.keep {
                    KeepRow::Last => best <= *time,
                    KeepRow::First => *time < best,
                });
                if wins {
                    let after = RowRef::new(number, row);
                    *current = Some((after, *time));
                    let (before, after) = (before.map(|(before, _)| before), Some(after));
                    self.transitions.push(Transition { key: *key, before, after });
                }
            }
        }
        self.transitions.emit(self.emission, &mut self.state.changes);
        self.state.commit(&self.transitions)
    }

    /// The rows under the keys of the frame, with their row times.
    fn current(&self) -> Result<Vec<Option<(RowRef, i64)>>, OperatorError> {
        let present: Vec<RowRef> = self.state.before.iter().copied().flatten().collect();
        if present.is_empty() {
            return Ok(vec![None; self.state.before.len()]);
        }
        let loaded = self.state.frame.gather(&present)?;
        let mut times = row_times(loaded.columns().get(self.column))?.into_iter();
        Ok(self.state.before.iter().map(|before| before.zip(before.and_then(|_| times.next()))).collect())
    }
}

/// Milliseconds of each row.
fn row_times(column: Option<&ArrayRef>) -> Result<Vec<i64>, OperatorError> {
    let array = column.and_then(|column| column.as_primitive_opt::<TimestampMillisecondType>());
    let array = array.ok_or_else(|| OperatorError::Input("the row time is no TIMESTAMP of milliseconds".to_owned()))?;
    let value = |(row, time): (usize, &i64)| if array.is_valid(row) { *time } else { 0 };
    Ok(array.values().iter().enumerate().map(value).collect())
}
