//! Why an operator failed.

use arrow::error::ArrowError;
use streamfusion_expr::error::ExprError;
use streamfusion_row::batch::BatchError;

/// A failure of an operator. The task fails with it; the operator is not used afterwards.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    /// An expression failed, as it would in Flink, or by a fault of the evaluation.
    #[error(transparent)]
    Expr(#[from] ExprError),
    /// A batch does not have the shape that the plan promises.
    #[error("a batch does not match the plan: {0}")]
    Input(String),
    /// The input retracts although the plan says that it only inserts.
    #[error("a retraction arrived at an operator whose input only inserts")]
    UnexpectedRetraction,
    /// Keyed state has outgrown what the layout can address.
    #[error("the state of one subtask has more than {limit} {what}")]
    Capacity {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        limit: u64,
    },
    /// A fault of this engine.
    #[error("internal error: {0}")]
    Internal(String),
}

impl From<ArrowError> for OperatorError {
    fn from(error: ArrowError) -> Self {
        Self::Internal(error.to_string())
    }
}

impl From<BatchError> for OperatorError {
    fn from(error: BatchError) -> Self {
        Self::Internal(error.to_string())
    }
}
