//! Failures of planning and of a stage, each with the node that it belongs to.

use std::fmt;

use streamfusion_expr::ExprError;
use streamfusion_operators::OperatorError;
use streamfusion_plan::spec::SpecError;
use streamfusion_plan::{PlanError, Reason};
use streamfusion_row::batch::BatchError;
use streamfusion_row::entry::EntryError;
use streamfusion_row::frame::FrameError;
use streamfusion_row::gather::GatherError;

/// Which node of the plan, in the words of Flink's own plan output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName {
    /// Id in the plan.
    pub id: i64,
    /// Flink's description, for example `Calc(select=[a, b])`.
    pub description: String,
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} {}", self.id, self.description)
    }
}

/// Why planning or a stage failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The request or the stage's description cannot be read.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The description of a stage cannot be read.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The buffers of an entry cannot be made.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// A stage was described that this version cannot build: planned by another version, or a fault of this one.
    #[error("a native stage cannot be built: {0}")]
    Unsupported(Reason),
    /// A batch is not of the stage's input type.
    #[error("a batch of another type: {0}")]
    Input(#[from] GatherError),
    /// An operator failed.
    #[error("{node}: {source}")]
    Operator {
        /// The node that failed.
        node: NodeName,
        /// Why.
        #[source]
        source: OperatorError,
    },
    /// An operator, the exchange behind it or the reader in front of it panicked: a fault of this engine.
    #[error("{node}: native code panicked: {message}")]
    Panic {
        /// The node that failed.
        node: NodeName,
        /// What the panic said.
        message: String,
    },
    /// The stage failed before.
    #[error("the stage failed before and cannot be used any more")]
    Failed,
    /// Rows could not be distributed to the subtasks of the next stage.
    #[error("{node}: {message}")]
    Exchange {
        /// The exchange.
        node: NodeName,
        /// Why.
        message: String,
    },
    /// Bytes from the network are not a batch.
    #[error("{node}: the input is no batch of its stage: {source}")]
    Frame {
        /// The node that reads them.
        node: NodeName,
        /// Why.
        #[source]
        source: FrameError,
    },
    /// A batch does not have the shape that the stage was opened for.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

impl EngineError {
    /// The expression failure behind this error, if there is one: such a failure has a Java exception class.
    pub fn expression_error(&self) -> Option<&ExprError> {
        match self {
            Self::Operator { source: OperatorError::Expr(error), .. } => Some(error),
            _ => None,
        }
    }
}
