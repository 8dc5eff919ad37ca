//! Failures of an evaluation, as Flink would report them.

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;

/// An evaluation that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// Flink fails on this input too: the same exception class, the same message.
    #[error("{class}: {message}")]
    Java {
        /// Fully qualified class of the exception that stock Flink throws, for example `java.lang.ArithmeticException`.
        class: &'static str,
        /// Its message, for example `/ by zero`.
        message: String,
    },
    /// A fault of this engine: an expression that was accepted cannot be built or evaluated.
    #[error("internal error in expression {expression}: {message}")]
    Internal {
        /// Which expression.
        expression: String,
        /// What went wrong.
        message: String,
    },
    /// The values of a column do not fit: fewer rows at once may.
    #[error("the text or binary values that an expression makes of one batch exceed 2 GiB")]
    TooLarge,
    /// The JVM threw inside a host call; the exception is pending in the calling thread.
    #[error("an exception is pending in the JVM")]
    JavaPending,
}

impl From<ExprError> for DataFusionError {
    fn from(error: ExprError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<DataFusionError> for ExprError {
    /// The original [`ExprError`] if there is one inside, otherwise an internal error.
    fn from(error: DataFusionError) -> Self {
        match error.find_root() {
            DataFusionError::External(inner) if let Some(found) = inner.downcast_ref::<ExprError>() => found.clone(),
            DataFusionError::ArrowError(inner, _) if let ArrowError::OffsetOverflowError(_) = **inner => Self::TooLarge,
            _ => Self::Internal { expression: String::new(), message: error.to_string() },
        }
    }
}

impl From<ArrowError> for ExprError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::OffsetOverflowError(_) => Self::TooLarge,
            _ => Self::Internal { expression: String::new(), message: error.to_string() },
        }
    }
}
