//! GROUP BY without a window, in one phase or several.
//!
//! In two phases a local aggregate folds each bundle to one row per key: the grouping columns, then the accumulators of its
//! calls, then one view per set of distinct values. The global aggregate merges those. The calls of both are the same and
//! count columns of the *local* aggregate's input. Where distinct aggregates are split over buckets, an incremental
//! aggregate stands between them: it merges by the partial key (with the bucket), and hands on by the final key.

use crate::rex::Function;
use crate::types::LogicalType;

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
    /// Rows per bundle, at least 1, where mini-batch is on.
    pub mini_batch_size: Option<u64>,
}

/// The local phase: no state, not keyed; always in bundles, whatever `table.exec.mini-batch.enabled` says.
///
/// Follows: StreamExecLocalGroupAggregate, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalGroupAggregate {
    /// Key columns of the input.
    pub grouping: Vec<usize>,
    /// Aggregate calls.
    pub calls: Vec<AggCall>,
    /// Whether the input retracts.
    pub need_retraction: bool,
    /// Rows per bundle, at least 1.
    pub mini_batch_size: u64,
}

/// The global phase, always in bundles: Flink refuses it where mini-batch is off.
///
/// Follows: StreamExecGlobalGroupAggregate, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct GlobalGroupAggregate {
    /// Key columns of the input.
    pub grouping: Vec<usize>,
    /// Aggregate calls; their columns are those of `local_input`.
    pub calls: Vec<AggCall>,
    /// Type of the rows that the calls are about; a ROW: those that the local aggregate reads or, behind an incremental
    /// aggregate, those that a one-phase aggregate by the partial key would hand on.
    pub local_input: LogicalType,
    /// Whether -U goes out before +U.
    pub generate_update_before: bool,
    /// Whether those rows retract.
    pub need_retraction: bool,
    /// The call that counts the rows of a group; only with `need_retraction`. `None` there: Flink looks for a COUNT(*) among
    /// the calls and appends one if there is none.
    pub count_star: Option<usize>,
    /// State time to live in milliseconds; 0 is off.
    pub ttl_ms: i64,
    /// Rows per bundle, at least 1.
    pub mini_batch_size: u64,
}

/// The phase between local and global where distinct aggregates are split; always in bundles.
///
/// Follows: StreamExecIncrementalGroupAggregate, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct IncrementalGroupAggregate {
    /// Key columns of the input, which are also the key of its state.
    pub partial_grouping: Vec<usize>,
    /// The key of what goes out: positions *in the partial key*, not columns of the input.
    pub final_grouping: Vec<usize>,
    /// Aggregate calls; their columns are those of `local_input`.
    pub calls: Vec<AggCall>,
    /// Type of the rows that the local aggregate reads; a ROW.
    pub local_input: LogicalType,
    /// Whether the input of the local aggregate retracts.
    pub need_retraction: bool,
    /// State time to live in milliseconds; 0 is off.
    pub ttl_ms: i64,
    /// Rows per bundle, at least 1.
    pub mini_batch_size: u64,
}

/// One aggregate call.
#[derive(Debug, Clone, PartialEq)]
pub struct AggCall {
    /// Name of the output column.
    pub name: String,
    /// The function: built-in name such as `COUNT`, `SUM`, `$SUM0`, or a user function.
    pub function: Function,
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
