//! What must be TRUE of two rows beyond equal keys.
//!
//! It is evaluated for many pairs at once, for which the columns that it reads are copied row by row; so pairs are cut
//! by how many bytes that comes to.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, NullArray, UInt32Array};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::compute::take;
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::{compile, evaluate, host_calls};
use streamfusion_plan::Reason;
use streamfusion_plan::rex::Rex;

use super::Input;
use super::limits::{Limits, RowBytes};
use crate::OperatorError;
use crate::calc::{collect_inputs, record_batch};

/// A condition over the columns of the left input and, behind them, those of the right one.
#[derive(Debug)]
pub(crate) struct Condition {
    expression: Arc<dyn PhysicalExpr>,
    /// The columns that it reads; `None` if they are not known.
    read: Option<BTreeSet<usize>>,
    left_columns: usize,
}

/// Rows of one input, and how large they are to the condition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub(crate) columns: &'a [ArrayRef],
    pub(crate) row_bytes: &'a RowBytes,
}

/// Columns of one input, and which rows of them.
type Numbered<'a> = (&'a [ArrayRef], ScalarBuffer<u32>);

/// Pairs of rows, by number: those that came in, and those that were there.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pub(crate) input: Vec<u32>,
    pub(crate) other: Vec<u32>,
}

/// Whether the condition can be evaluated here.
pub(crate) fn supports(condition: &Rex) -> Result<(), Reason> {
    match host_calls(condition, "")?.first() {
        Some(call) => Err(Reason::new(format!("its condition is not evaluated natively: {}", call.reason))),
        None => Ok(()),
    }
}

impl Condition {
    /// `left_columns` is how many columns the left input has.
    pub(crate) fn try_new(rex: &Rex, left_columns: usize) -> Result<Self, OperatorError> {
        let mut read = BTreeSet::new();
        let known = collect_inputs(rex, &mut read);
        Ok(Self { expression: compile(rex, "", &|_| None)?, read: known.then_some(read), left_columns })
    }

    /// Whether it reads this column of an input.
    pub(crate) fn reads(&self, side: Input, column: usize) -> bool {
        let first = if side == Input::Left { 0 } else { self.left_columns };
        self.read.as_ref().is_none_or(|read| read.contains(&(first + column)))
    }

    /// How large rows of an input are to the condition.
    pub(crate) fn row_bytes(&self, side: Input, columns: &[ArrayRef], rows: usize, limits: &Limits) -> RowBytes {
        let read = columns.iter().enumerate().filter(|(column, _)| self.reads(side, *column));
        RowBytes::of(read.map(|(_, column)| column), rows, limits)
    }

    /// For each pair whether the condition is TRUE. `input` is the side that came in.
    pub(crate) fn passes(
        &self,
        side: Input,
        input: Operand<'_>,
        other: Operand<'_>,
        pairs: &mut Pairs,
        limits: &Limits,
    ) -> Result<BooleanBuffer, OperatorError> {
        let mut passes = BooleanBufferBuilder::new(pairs.input.len());
        let [of_input, of_other] =
            [&mut pairs.input, &mut pairs.other].map(|numbers| ScalarBuffer::from(std::mem::take(numbers)));
        while passes.len() < of_input.len() {
            let start = passes.len();
            let slice = start..of_input.len().min(start + limits.pairs);
            let slices = [&of_input[slice.clone()], &of_other[slice]];
            let rows = RowBytes::fitting([input.row_bytes, other.row_bytes], slices, limits.bytes);
            let input = (input.columns, of_input.slice(start, rows));
            let other = (other.columns, of_other.slice(start, rows));
            let (left, right) = if side == Input::Left { (input, other) } else { (other, input) };
            passes.append_buffer(&self.evaluate(left, right, rows)?);
        }
        // what they take is used again
        let vec = |numbers: ScalarBuffer<u32>| numbers.into_inner().into_vec().unwrap_or_default();
        (pairs.input, pairs.other) = (vec(of_input), vec(of_other));
        Ok(passes.finish())
    }

    fn evaluate(&self, left: Numbered<'_>, right: Numbered<'_>, rows: usize) -> Result<BooleanBuffer, OperatorError> {
        let mut columns = Vec::with_capacity(left.0.len() + right.0.len());
        for (side, (of_side, numbers)) in [(Input::Left, left), (Input::Right, right)] {
            let numbers = UInt32Array::new(numbers, None);
            for (position, column) in of_side.iter().enumerate() {
                columns.push(if self.reads(side, position) {
                    take(column, &numbers, None)?
                } else {
                    Arc::new(NullArray::new(rows)) as ArrayRef
                });
            }
        }
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
