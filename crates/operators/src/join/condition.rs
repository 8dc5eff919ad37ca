//! What must be TRUE of two rows beyond equal keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, NullArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::{compile, evaluate, host_calls};
use streamfusion_plan::Reason;
use streamfusion_plan::rex::Rex;

use super::Input;
use crate::OperatorError;
use crate::calc::{collect_inputs, record_batch};

/// A condition over the columns of the left input and, behind them, those of the right one.
#[derive(Debug)]
pub(super) struct Condition {
    expression: Arc<dyn PhysicalExpr>,
    /// The columns that it reads; `None` if they are not known.
    read: Option<BTreeSet<usize>>,
}

/// Pairs of rows, by number: those that came in, and those that were there.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) input: Vec<u32>,
    pub(super) other: Vec<u32>,
}

/// Whether the condition can be evaluated here.
pub(super) fn supports(condition: &Rex) -> Result<(), Reason> {
    match host_calls(condition, "")?.first() {
        Some(call) => Err(Reason::new(format!("its condition is not evaluated natively: {}", call.reason))),
        None => Ok(()),
    }
}

impl Condition {
    pub(super) fn try_new(rex: &Rex) -> Result<Self, OperatorError> {
        let mut read = BTreeSet::new();
        let known = collect_inputs(rex, &mut read);
        Ok(Self { expression: compile(rex, "", &|_| None)?, read: known.then_some(read) })
    }

    /// For each pair whether the condition is TRUE. `input` are the columns of the side that came in.
    pub(super) fn passes(
        &self,
        side: Input,
        input: &[ArrayRef],
        other: &[ArrayRef],
        pairs: &Pairs,
    ) -> Result<BooleanBuffer, OperatorError> {
        let rows = pairs.input.len();
        if rows == 0 {
            return Ok(BooleanBuffer::new_unset(0));
        }
        let input = (input, UInt32Array::from(pairs.input.clone()));
        let other = (other, UInt32Array::from(pairs.other.clone()));
        let (left, right) = if side == Input::Left { (input, other) } else { (other, input) };
        let both =
            [&left, &right].into_iter().flat_map(|(columns, rows)| columns.iter().map(move |column| (column, rows)));
        let columns = both
            .enumerate()
            .map(|(position, (column, numbers))| match &self.read {
                Some(read) if !read.contains(&position) => Ok(Arc::new(NullArray::new(rows)) as ArrayRef),
                _ => Ok(take(column, numbers, None)?),
            })
            .collect::<Result<Vec<_>, OperatorError>>()?;
        let passes = evaluate(&self.expression, &record_batch(&columns, rows)?)?;
        let passes = passes.as_boolean_opt().ok_or_else(|| {
            OperatorError::Internal(format!("a condition of type {} instead of BOOLEAN", passes.data_type()))
        })?;
        Ok(match passes.nulls() {
            Some(valid) => passes.values() & valid.inner(),
            None => passes.values().clone(),
        })
    }
}
