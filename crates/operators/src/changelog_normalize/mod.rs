//! Makes a full changelog of an upsert stream.
//!
//! The last row of each key is kept. A row of kind +I or +U replaces it: what goes out is +I for a new key, else -U and +U, and
//! nothing if both are equal and state lives for ever. -U and -D remove it, whatever they contain: what goes out is -D with
//! the row that was kept, and nothing for a key without one. With a condition, a row that does not pass is a removal.
//!
//! Follows: ProcTimeDeduplicateKeepLastRowFunction over a changelog, DeduplicateFunctionHelper, Flink 2.2. Differences: none in the
//! changelog. The condition is evaluated for equal rows too, of which it says what it said before, since it must not depend on
//! anything but the row.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, UInt8Array};
use arrow::buffer::BooleanBuffer;
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::{compile, evaluate, host_calls};
use streamfusion_plan::Reason;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedState, StateContext};

use crate::calc::record_batch;
use crate::changelog::{Emission, Floats, Fold, Preimages, Transitions, Unseen, UpdateBefore};
use crate::row_per_key::{self, RowPerKey};
use crate::{Operator, OperatorError};

/// Name of the table, and of its section.
const TABLE: &str = "last_rows";

/// Whether [`ChangelogNormalize`] does over rows of `input` exactly what Flink does.
pub fn supports(spec: &node::ChangelogNormalize, input: &LogicalType) -> Result<(), Reason> {
    if spec.mini_batch_size.is_some() {
        return Err(Reason::new("mini-batch ChangelogNormalize is not supported natively yet"));
    }
    if let Some(filter) = &spec.filter
        && let Some(call) = host_calls(filter, "")?.first()
    {
        return Err(Reason::new(format!("its condition is not evaluated natively: {}", call.reason)));
    }
    row_per_key::supports(&spec.unique_keys, input)
}

/// The immediate operator. The output has the columns of the input.
#[derive(Debug)]
pub struct ChangelogNormalize {
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
        Ok(Self {
            state: RowPerKey::try_new(TABLE, &spec.unique_keys, input, spec.ttl_ms, context)?,
            filter,
            emission: Emission {
                update_before: if spec.generate_update_before { UpdateBefore::Emit } else { UpdateBefore::Omit },
                unseen: Unseen::Insert,
            },
            equal_updates: if spec.ttl_ms > 0 { EqualUpdates::Emit } else { EqualUpdates::Drop },
            fold: Fold::new(Preimages::Loaded),
            transitions: Transitions::new(),
        })
    }

    /// The batch with -D for each row that does not pass the condition. It is evaluated for rows alone that add.
    fn restrict(&self, batch: Batch) -> Result<Batch, OperatorError> {
        let Some(filter) = &self.filter else { return Ok(batch) };
        let num_rows = batch.num_rows();
        let adds = match batch.kinds() {
            None => BooleanBuffer::new_set(num_rows),
            Some(kinds) => kinds.values().iter().map(|kind| adds(*kind)).collect(),
        };
        let adding = batch.filter(&BooleanArray::new(adds.clone(), None))?;
        if adding.num_rows() == 0 {
            return Ok(batch);
        }
        let passes = evaluate(filter, &record_batch(adding.columns(), adding.num_rows())?)?;
        let passes = passes.as_boolean_opt().ok_or_else(|| {
            OperatorError::Internal(format!("a condition of type {} instead of BOOLEAN", passes.data_type()))
        })?;
        if passes.true_count() == passes.len() {
            return Ok(batch);
        }
        let mut passes = passes.iter();
        let kind = |(row, adds): (usize, bool)| {
            if adds && passes.next().flatten() != Some(true) {
                return RowKind::Delete as u8;
            }
            batch.kinds().map_or(RowKind::Insert as u8, |kinds| kinds.value(row))
        };
        let kinds: UInt8Array = adds.iter().enumerate().map(kind).collect::<Vec<u8>>().into();
        Ok(batch.with_kinds(Some(kinds))?)
    }
}

/// +I or +U.
fn adds(kind: u8) -> bool {
    kind == RowKind::Insert as u8 || kind == RowKind::UpdateAfter as u8
}

impl Operator for ChangelogNormalize {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = self.restrict(batch)?;
        let numbers = self.state.load(std::slice::from_ref(&batch))?;
        self.transitions.clear();
        self.fold.load(self.state.before.iter().copied());
        for number in numbers {
            let kinds = batch.kinds().map(|kinds| &kinds.values()[..]);
            self.fold.push_each(number, 0, &self.state.touched.groups, kinds, &mut self.transitions)?;
        }
        self.fold.end_frame();
        if self.equal_updates == EqualUpdates::Drop {
            let columns = 0..batch.columns().len();
            self.transitions.cancel_equal(&self.state.frame, columns, Floats::Bits)?;
        }
        self.transitions.emit(self.emission, &mut self.state.changes);
        self.state.commit(&self.transitions)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.state.pull()
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.state.table)
    }
}
