//! Execution nodes of a compiled plan, typed where they are known.

use crate::reason::Reason;
use crate::rex::Rex;
use crate::types::LogicalType;

/// A node with what all nodes share.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Id, unique in its plan.
    pub id: i64,
    /// `type` of the plan without the version, for example `stream-exec-calc`.
    pub type_name: String,
    /// Version of the node type.
    pub version: u32,
    /// Flink's own description.
    pub description: String,
    /// Type of the rows that come out; a ROW.
    pub output: LogicalType,
    /// Ids of the input nodes, in input order.
    pub inputs: Vec<i64>,
    /// What the node does.
    pub kind: NodeKind,
}

/// What a node does. A node is `Stock` when something in it is not known here.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// Projection and condition.
    Calc(Calc),
    /// All inputs, merged.
    Union,
    /// Drops -U.
    DropUpdateBefore,
    /// Repartitions.
    Exchange(Distribution),
    /// GROUP BY without a window.
    GroupAggregate(GroupAggregate),
    /// Stays on Flink, for this reason.
    Stock(Reason),
}

/// `SELECT projection WHERE condition`.
#[derive(Debug, Clone, PartialEq)]
pub struct Calc {
    /// One expression per output column.
    pub projection: Vec<Rex>,
    /// Rows for which this is TRUE pass.
    pub condition: Option<Rex>,
}

/// Where the rows of an exchange go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distribution {
    /// By the hash of these columns.
    Hash(Vec<usize>),
    /// All to one subtask.
    Singleton,
}

/// A group aggregate, immediate or (with `mini_batch_size`) in bundles.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupAggregate {
    /// Key columns of the input.
    pub grouping: Vec<usize>,
    /// Aggregate calls.
    pub calls: Vec<AggCall>,
    /// Whether -U goes out before +U.
    pub generate_update_before: bool,
    /// Whether the input retracts.
    pub need_retraction: bool,
    /// State time to live in milliseconds; 0 is off.
    pub ttl_ms: i64,
    /// Rows per bundle where mini-batch is on.
    pub mini_batch_size: Option<i64>,
}

/// One aggregate call.
#[derive(Debug, Clone, PartialEq)]
pub struct AggCall {
    /// Name of the output column.
    pub name: String,
    /// The function: built-in name such as `COUNT`, `SUM`, `$SUM0`, or a user function.
    pub function: crate::rex::Function,
    /// Argument columns of the input.
    pub args: Vec<usize>,
    /// Column that filters the rows of this call.
    pub filter: Option<usize>,
    /// DISTINCT
    pub distinct: bool,
    /// APPROXIMATE
    pub approximate: bool,
    /// IGNORE NULLS
    pub ignore_nulls: bool,
    /// Whether rows of this call are retracted (`aggCallNeedRetractions`).
    pub need_retraction: bool,
    /// Type of the result.
    pub ty: LogicalType,
}
