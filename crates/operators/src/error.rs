//! Why an operator failed.

use arrow::error::ArrowError;
use streamfusion_expr::error::ExprError;
use streamfusion_row::batch::BatchError;
use streamfusion_row::binary::KeyError;
use streamfusion_row::gather::GatherError;
use streamfusion_state::StateError;

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
    /// Keyed state has outgrown what its tables can address.
    #[error(transparent)]
    State(#[from] StateError),
    /// The key columns are not those of the plan.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// One row of the output does not fit.
    #[error("a text or binary value is larger than 2 GiB")]
    TooLarge,
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

impl From<GatherError> for OperatorError {
    fn from(error: GatherError) -> Self {
        Self::Internal(error.to_string())
    }
}
