//! Makes a full changelog of an upsert stream.
//!
//! The last row of each key is kept. A row of kind +I or +U replaces it: what goes out is +I for a new key, else -U and +U, and
//! nothing if both are equal and state lives for ever. -U and -D remove it, whatever they contain: what goes out is -D with
//! the row that was kept, and nothing for a key without one. With a condition, a row that does not pass is a removal. With
//! mini-batch the same is done to the last row of each key in a bundle, and to no other.
//!
//! Follows: ProcTimeDeduplicateKeepLastRowFunction and ProcTimeMiniBatchDeduplicateKeepLastRowFunction over a changelog,
//! DeduplicateFunctionHelper, Flink 2.2. Differences: none per key; the keys of a bundle go out in first-touch order.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanBufferBuilder};
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::{compile, evaluate, host_calls};
use streamfusion_plan::Reason;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::{KeyedState, StateContext};

use crate::bundle::{BundleMetrics, Emitted, FlushReason, FrameFold, Frames};
use crate::calc::record_batch;
use crate::changelog::{Emission, Floats, Fold, Preimages, RowRef, Transitions, Unseen, UpdateBefore};
use crate::row_per_key::{self, RowPerKey};
use crate::{Operator, OperatorError, Residence};

/// Name of the table, and of its section.
const TABLE: &str = "last_rows";

/// Whether [`ChangelogNormalize`] does over rows of `input` exactly what Flink does.
pub fn supports(spec: &node::ChangelogNormalize, input: &LogicalType) -> Result<(), Reason> {
    if let Some(filter) = &spec.filter
        && let Some(call) = host_calls(filter, "")?.first()
    {
        return Err(Reason::new(format!("its condition is not evaluated natively: {}", call.reason)));
    }
    row_per_key::supports(&spec.unique_keys, input)
}

/// The operator, immediate or in bundles. The output has the columns of the input.
#[derive(Debug)]
pub struct ChangelogNormalize {
    frames: Frames,
    rows: LastRows,
}

/// What it does with the rows of a frame.
#[derive(Debug)]
struct LastRows {
    state: RowPerKey,
    filter: Option<Arc<dyn PhysicalExpr>>,
    emission: Emission,
    /// Whether an update that changes nothing goes out: with a time-to-live, operators behind this one need the refresh.
    equal_updates: EqualUpdates,
    fold: Fold,
    transitions: Transitions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EqualUpdates {
    Emit,
    Drop,
}

impl ChangelogNormalize {
    /// An operator without state for rows of the type `input`. Errors if [`supports`] refuses it.
    pub fn try_new(
        spec: &node::ChangelogNormalize,
        input: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        supports(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let filter = spec.filter.as_ref().map(|filter| compile(filter, "", &|_| None)).transpose()?;
        let rows = LastRows {
            state: RowPerKey::try_new(TABLE, &spec.unique_keys, input, spec.ttl_ms, context)?,
            filter,
            emission: Emission {
                update_before: if spec.generate_update_before { UpdateBefore::Emit } else { UpdateBefore::Omit },
                unseen: Unseen::Insert,
            },
            equal_updates: if spec.ttl_ms > 0 { EqualUpdates::Emit } else { EqualUpdates::Drop },
            fold: Fold::new(Preimages::Loaded),
            transitions: Transitions::new(),
        };
        Ok(Self { frames: Frames::new(spec.mini_batch_size), rows })
    }
}

impl LastRows {
    /// Takes away the postimages that do not pass the condition.
    fn restrict(&mut self) -> Result<(), OperatorError> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let postimages: Vec<RowRef> = self.transitions.postimages().collect();
        let mut passes = BooleanBufferBuilder::new(postimages.len());
        let mut rest = postimages.as_slice();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(self.state.frame.fitting(rest)?);
            rest = behind;
            let rows = self.state.frame.gather(piece)?;
            let verdicts = evaluate(filter, &record_batch(rows.columns(), rows.num_rows())?)?;
            let verdicts = verdicts.as_boolean_opt().ok_or_else(|| {
                OperatorError::Internal(format!("a condition of type {} instead of BOOLEAN", verdicts.data_type()))
            })?;
            match verdicts.nulls() {
                None => passes.append_buffer(verdicts.values()),
                Some(nulls) => passes.append_buffer(&(verdicts.values() & nulls.inner())),
            }
        }
        self.transitions.retain_postimages(&passes.finish())
    }
}

impl FrameFold for LastRows {
    fn begin(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        self.state.load(batches)?;
        self.transitions.clear();
        self.fold.end_frame();
        self.fold.load(self.state.before.iter().copied());
        Ok(())
    }

    fn bundle(&mut self, rows: Range<usize>) -> Result<usize, OperatorError> {
        for run in self.state.runs(rows) {
            self.fold.push(run.batch, run.first_row, run.keys, run.kinds)?;
        }
        let keys = self.fold.touched().len();
        self.fold.end_bundle(&mut self.transitions);
        Ok(keys)
    }

    fn each_row(&mut self) -> Result<(), OperatorError> {
        for run in self.state.runs(self.state.all_rows()) {
            self.fold.push_each(run.batch, run.first_row, run.keys, run.kinds, &mut self.transitions)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<Emitted, OperatorError> {
        self.fold.end_frame();
        if self.equal_updates == EqualUpdates::Drop {
            let columns = 0..self.state.frame.num_columns();
            self.transitions.cancel_equal(&self.state.frame, columns, Floats::Bits)?;
        }
        self.restrict()?;
        self.transitions.emit(self.emission, &mut self.state.changes);
        self.state.commit(&self.transitions)?;
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

impl Operator for ChangelogNormalize {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.frames.push(batch);
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.frames.pull(&mut self.rows)
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        self.frames.flush(reason, &mut self.rows)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.rows.state.table)
    }

    fn residence(&self) -> Residence {
        Residence::Cached
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        self.frames.metrics()
    }

    fn bundle_bytes(&self) -> usize {
        self.frames.bytes() + self.rows.bytes()
    }
}
