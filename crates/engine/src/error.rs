//! Failures of planning and of a stage, each with the node that it belongs to.

use std::fmt;

use streamfusion_expr::ExprError;
use streamfusion_operators::OperatorError;
use streamfusion_plan::spec::SpecError;
use streamfusion_plan::{PlanError, Reason};
use streamfusion_row::batch::BatchError;
use streamfusion_row::binary::KeyError;
use streamfusion_row::entry::EntryError;
use streamfusion_row::gather::GatherError;
use streamfusion_state::RestoreError;
use streamfusion_state::canonical::CanonicalError;

use crate::input::InputError;

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

impl NodeName {
    /// The name of a stage that has no node of its own.
    pub(crate) fn entry() -> Self {
        Self { id: 0, description: "native entry".to_owned() }
    }
}

/// A stage that cannot be built.
pub(crate) fn unsupported(text: &str) -> EngineError {
    EngineError::Unsupported(Reason::new(text))
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
    Type(#[from] GatherError),
    /// A batch that cannot leave as rows: of another type than the stage's output, or with a row too large for Flink.
    #[error("rows cannot leave the stage: {0}")]
    Rows(#[from] KeyError),
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
    /// What a stage with state is opened with cannot be read.
    #[error("the state of a stage is described by something else than expected: {0}")]
    StateParameters(#[source] serde_json::Error),
    /// A range of key groups that cannot be.
    #[error("key groups {first} to {last} of {max_parallelism} are no range of keys")]
    KeyGroups {
        /// The number of key groups.
        max_parallelism: u32,
        /// The first one.
        first: u16,
        /// The last one.
        last: u16,
    },
    /// The state of a stage cannot be worked with: a fault of the planner or of the caller.
    #[error("{node}: {what}")]
    State {
        /// The node.
        node: NodeName,
        /// What is wrong.
        what: &'static str,
    },
    /// State of a key group cannot be encoded, or what should be restored is damaged or not of this operator.
    #[error("{node}: {source}")]
    Container {
        /// The node whose state it is.
        node: NodeName,
        /// The key group, the fault and what to do.
        #[source]
        source: Box<CanonicalError>,
    },
    /// State that is whole, but not of an operator that is defined like this one.
    #[error(
        "{node}: native state of key group {group} is not of this operator: {source}; the operator was defined otherwise when the \
         snapshot was taken, so restore the job with the statement, the uids and the StreamFusion version that it had, or start it \
         without this state"
    )]
    Restore {
        /// The node.
        node: NodeName,
        /// The key group.
        group: u16,
        /// What does not fit.
        #[source]
        source: Box<RestoreError>,
    },
    /// State of keys that belong to another subtask.
    #[error(
        "{node}: native state of key group {group} does not belong to this subtask, whose key groups are {first} to {last}; this is a \
             mistake in StreamFusion, please report it"
    )]
    ForeignKeyGroup {
        /// The node.
        node: NodeName,
        /// The key group.
        group: u16,
        /// The first one of the subtask.
        first: u16,
        /// The last one of the subtask.
        last: u16,
    },
    /// Rows could not be distributed to the subtasks of the next stage.
    #[error("{node}: {message}")]
    Exchange {
        /// The exchange.
        node: NodeName,
        /// Why.
        message: String,
    },
    /// The input is not one of the stage.
    #[error("{node}: the input is no batch of its stage: {source}")]
    Input {
        /// The node that reads it.
        node: NodeName,
        /// Why.
        #[source]
        source: InputError,
    },
    /// What was said about the way of batches cannot be read.
    #[error("how batches travel cannot be read: {0}")]
    ShuffleParameters(#[source] serde_json::Error),
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
