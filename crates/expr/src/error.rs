//! Failures of an evaluation, as Flink would report them.

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
        if let DataFusionError::External(inner) = error.find_root()
            && let Some(found) = inner.downcast_ref::<ExprError>()
        {
            return found.clone();
        }
        ExprError::Internal { expression: String::new(), message: error.to_string() }
    }
}

impl From<arrow::error::ArrowError> for ExprError {
    fn from(error: arrow::error::ArrowError) -> Self {
        ExprError::Internal { expression: String::new(), message: error.to_string() }
    }
}
