//! Expressions that the JVM evaluates: once per batch, inside the stage, by code that Flink's own generator made.
//!
//! A lookup is called in the same way, by a lookup join, and hands back any number of rows for each.
//!
//! A host call replaces the topmost call that is not native together with everything below it, so that Flink's
//! evaluation order, laziness and NULL handling hold inside it by construction.

use std::fmt::Debug;

use arrow::array::{ArrayRef, RecordBatch};
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;

use crate::error::ExprError;

/// One sub-expression that runs in the JVM.
#[derive(Debug, Clone, PartialEq)]
pub struct HostCall {
    /// JSON pointer of the sub-expression inside its node's JSON, for example `/projection/2/operands/0`.
    pub pointer: String,
    /// Columns of the node's input that it reads, ascending, without duplicates.
    pub inputs: Vec<usize>,
    /// Type of the result.
    pub output: LogicalType,
    /// Why it is not native.
    pub reason: Reason,
}

/// Evaluates one [`HostCall`].
pub trait HostFunction: Send + Sync + Debug {
    /// The result for each row of `input`: `input.num_rows()` values of the call's output type, in row order. `input` has
    /// all columns of the node's input. Called only with rows for which the value is needed.
    fn call(&self, input: &RecordBatch) -> Result<ArrayRef, ExprError>;

    /// Whether the locale of the JVM maps the letters A to Z and a to z to each other, as most do.
    fn changes_ascii_case_plainly(&self) -> bool {
        false
    }

    /// Looks up the rows of `input` from row `from` on, in their order, as many as it likes but at least one. `input` is as for
    /// [`HostFunction::call`]. Errors if it is no lookup.
    fn lookup(&self, input: &RecordBatch, from: usize) -> Result<Found, ExprError> {
        let _ = (input, from);
        Err(ExprError::Internal { expression: format!("{self:?}"), message: "it looks nothing up".into() })
    }
}

/// What was found for rows that follow each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// How many rows were found for each row, in order.
    pub matches: Vec<usize>,
    /// What was found, in order and cut anywhere: together as many rows as there are matches.
    pub rows: Vec<RecordBatch>,
}
