//! The earliest or latest row per key by row time.
//!
//! Of rows of the same time the latest that arrived stays if the last is kept, the first if the first is. Equal rows are updates
//! like any other. A NULL row time is 0, as it is where Flink reads it, in the fixed part of a BinaryRow.
//!
//! With mini-batch every winner goes out all the same, for versioned tables need all versions; if changes are to be compact, only
//! the winner of the bundle does, if it wins against what was there before.
//!
//! Follows: RowTimeDeduplicateFunction, RowTimeMiniBatchDeduplicateFunction, RowTimeMiniBatchLatestChangeDeduplicateFunction,
//! RowTimeDeduplicateFunctionHelper, Flink 2.2. Differences: none per key; the rows of a bundle go out in the order in which they
//! came, or with compact changes in first-touch order of their keys.

use std::ops::Range;

use arrow::array::Array;
use arrow::buffer::ScalarBuffer;
use streamfusion_plan::node::{self, KeepRow};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::StateContext;

use super::TABLE;
use crate::OperatorError;
use crate::bundle::{Emitted, FrameFold};
use crate::changelog::{Emission, Fold, Preimages, RowRef, Transition, Transitions};
use crate::millis::millis;
use crate::row_per_key::RowPerKey;

#[derive(Debug)]
pub(super) struct ByRowTime {
    pub(super) state: RowPerKey,
    column: usize,
    keep: KeepRow,
    emission: Emission,
    form: Form,
    writes: Writes,
    times: RowTimes,
    transitions: Transitions,
}

/// What goes out.
#[derive(Debug)]
enum Form {
    /// Every winner. Per key of the frame its row.
    All { current: Vec<Current>, bundle: u32 },
    /// The winner of the bundle.
    Compact(Fold),
}

/// Which keys live from now on when a frame ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// Those that have another row.
    Winners,
    /// All: RowTimeMiniBatchDeduplicateFunction writes back what was there as well.
    Touched,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    row: Option<(RowRef, i64)>,
    /// Number of the last bundle in the frame that touched the key.
    bundle: u32,
}

impl ByRowTime {
    pub(super) fn try_new(
        spec: &node::Deduplicate,
        input: &LogicalType,
        column: usize,
        emission: Emission,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let compact = spec.compact_changes && spec.mini_batch_size.is_some();
        Ok(Self {
            state: RowPerKey::try_new(TABLE, &spec.unique_keys, input, spec.ttl_ms, context)?,
            column,
            keep: spec.keep,
            emission,
            form: if compact {
                Form::Compact(Fold::new(Preimages::Loaded))
            } else {
                Form::All { current: Vec::new(), bundle: 0 }
            },
            writes: if spec.mini_batch_size.is_some() && !compact { Writes::Touched } else { Writes::Winners },
            times: RowTimes::default(),
            transitions: Transitions::new(),
        })
    }
}

/// Whether a row of the time `time` takes the place of one of the time `best` that arrived before it.
#[inline]
fn wins(keep: KeepRow, time: i64, best: i64) -> bool {
    match keep {
        KeepRow::Last => best <= time,
        KeepRow::First => time < best,
    }
}

impl FrameFold for ByRowTime {
    fn begin(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        self.state.load(batches)?;
        self.transitions.clear();
        self.times = RowTimes::try_new(&self.state.frame.column(self.column)?)?;
        let before = self.state.before.iter().copied();
        match &mut self.form {
            Form::All { current, bundle } => {
                *bundle = 0;
                current.clear();
                let row = |row| (row, self.times.of(row));
                current.extend(before.map(|before| Current { row: before.map(row), bundle: 0 }));
            }
            Form::Compact(fold) => {
                fold.end_frame();
                fold.load(before);
            }
        }
        Ok(())
    }

    fn bundle(&mut self, rows: Range<usize>) -> Result<usize, OperatorError> {
        let (keep, times) = (self.keep, &self.times);
        match &mut self.form {
            Form::All { current, bundle } => {
                *bundle += 1;
                let mut keys = 0;
                for run in self.state.runs(rows) {
                    for (row, key) in (run.first_row..).map(|row| RowRef::new(run.batch, row)).zip(run.keys) {
                        let Some(current) = current.get_mut(*key as usize) else { continue };
                        keys += usize::from(current.bundle != *bundle);
                        current.bundle = *bundle;
                        let (before, time) = (current.row, times.of(row));
                        if before.is_none_or(|(_, best)| wins(keep, time, best)) {
                            current.row = Some((row, time));
                            let before = before.map(|(before, _)| before);
                            self.transitions.push(Transition { key: *key, before, after: Some(row) });
                        }
                    }
                }
                Ok(keys)
            }
            Form::Compact(fold) => {
                for run in self.state.runs(rows) {
                    fold.push_winners(run.batch, run.first_row, run.keys, |row, best| {
                        wins(keep, times.of(row), times.of(best))
                    })?;
                }
                let keys = fold.touched().len();
                fold.end_bundle_if(&mut self.transitions, |transition| match (transition.before, transition.after) {
                    (Some(before), Some(after)) => wins(keep, times.of(after), times.of(before)),
                    _ => true,
                });
                Ok(keys)
            }
        }
    }

    fn each_row(&mut self) -> Result<(), OperatorError> {
        // every winner goes out, wherever a bundle ends
        self.bundle(self.state.all_rows()).map(drop)
    }

    fn end(&mut self) -> Result<Emitted, OperatorError> {
        if let Form::Compact(fold) = &mut self.form {
            fold.end_frame();
        }
        self.transitions.emit(self.emission, &mut self.state.changes);
        self.state.commit(&self.transitions)?;
        if self.writes == Writes::Touched {
            self.state.refresh();
        }
        Ok(Emitted { changes: self.transitions.as_slice().len(), rows: self.state.changes.len() })
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.state.pull()
    }

    fn survivors(&mut self) -> Result<Option<Vec<Batch>>, OperatorError> {
        if !matches!(self.form, Form::Compact(_)) {
            return Ok(None);
        }
        let mut best: Vec<Option<(usize, i64)>> = vec![None; self.state.touched.slots.len()];
        let mut number = 0;
        for run in self.state.runs(self.state.all_rows()) {
            for (row, key) in (run.first_row..).map(|row| RowRef::new(run.batch, row)).zip(run.keys) {
                let time = self.times.of(row);
                if let Some(best) = best.get_mut(*key as usize)
                    && best.is_none_or(|(_, best)| wins(self.keep, time, best))
                {
                    *best = Some((number, time));
                }
                number += 1;
            }
        }
        let best: Vec<usize> = best.into_iter().flatten().map(|(row, _)| row).collect();
        Ok(Some(self.state.gather(&best)?))
    }

    fn bytes(&self) -> usize {
        let form = match &self.form {
            Form::All { current, .. } => current.capacity() * size_of::<Current>(),
            Form::Compact(fold) => fold.bytes(),
        };
        self.state.bytes() + form
    }
}

/// The row times of a frame, batch by batch.
#[derive(Debug, Default)]
struct RowTimes(Vec<ScalarBuffer<i64>>);

impl RowTimes {
    fn try_new(arrays: &[&dyn Array]) -> Result<Self, OperatorError> {
        arrays.iter().map(|array| millis(*array)).collect::<Result<_, _>>().map(Self)
    }

    /// That of a row of the frame.
    #[inline]
    fn of(&self, row: RowRef) -> i64 {
        self.0[row.batch()][row.row()]
    }
}
