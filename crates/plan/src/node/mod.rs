//! Execution nodes of a compiled plan, typed where they are known.
//!
//! A type holds what the node's Flink class makes of its properties and of the options that it consumes: defaults are
//! filled in, and what Flink would refuse to translate is no node of that type. Column numbers count from 0; whether they
//! exist is not decided here: see [`crate::check`].

mod aggregate;
mod correlate;
mod deduplicate;
mod group_window;
mod join;
mod lookup_join;
mod mini_batch;
mod multi_join;
mod over;
mod rank;
mod temporal_sort;
mod timed_join;
mod watermark;
mod window;
mod window_rows;
mod window_table_function;

pub use aggregate::{AggCall, GlobalGroupAggregate, GroupAggregate, IncrementalGroupAggregate, LocalGroupAggregate};
pub use correlate::{Correlate, Ordinality};
pub use deduplicate::{ChangelogNormalize, Deduplicate, KeepRow};
pub use group_window::GroupWindowAggregate;
pub use join::{InputSide, InputSideKey, Join, JoinType};
pub use lookup_join::LookupJoin;
pub use mini_batch::MiniBatchAssigner;
pub use multi_join::{Attribute, KeyColumn, MultiJoin, MultiJoinInput};
pub use over::{Constant, OverAggregate, OverFrame};
pub use rank::{Rank, RankMiniBatch, RankRange, RankStrategy, SortField};
pub use temporal_sort::TemporalSort;
pub use timed_join::{IntervalJoin, JoinSpec, RowTimes, TemporalJoin, WindowBounds};
pub use watermark::WatermarkAssigner;
pub use window::{
    GlobalWindowAggregate, LocalWindowAggregate, ShiftZone, WindowAggregate, WindowProperty, WindowSpec, Windowing,
    WindowingStrategy,
};
pub use window_rows::{WindowDeduplicate, WindowJoin, WindowRank};
pub use window_table_function::WindowTableFunction;

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
    /// UNNEST.
    Correlate(Correlate),
    /// Each row several times.
    Expand(Expand),
    /// All inputs, merged.
    Union,
    /// Drops -U.
    DropUpdateBefore,
    /// Repartitions.
    Exchange(Distribution),
    /// Marks where bundles end.
    MiniBatchAssigner(MiniBatchAssigner),
    /// Makes watermarks of rows.
    WatermarkAssigner(WatermarkAssigner),
    /// Each row with its windows.
    WindowTableFunction(WindowTableFunction),
    /// GROUP BY without a window.
    GroupAggregate(GroupAggregate),
    /// First phase of a GROUP BY in two phases.
    LocalGroupAggregate(LocalGroupAggregate),
    /// Second phase of a GROUP BY in two phases.
    GlobalGroupAggregate(GlobalGroupAggregate),
    /// Between the local and the global phase where distinct aggregates are split.
    IncrementalGroupAggregate(IncrementalGroupAggregate),
    /// Makes a full changelog of an upsert stream.
    ChangelogNormalize(ChangelogNormalize),
    /// The first or last row per key.
    Deduplicate(Deduplicate),
    /// Top-N.
    Rank(Rank),
    /// ORDER BY with FETCH: a [`Rank`] of all rows together (`partition` is empty), with a constant range and without the
    /// row number.
    SortLimit(Rank),
    /// FETCH without ORDER BY: as `SortLimit`, and `order_by` is empty too.
    Limit(Rank),
    /// Aggregate over windows in one phase.
    WindowAggregate(WindowAggregate),
    /// First phase of an aggregate over windows in two phases.
    LocalWindowAggregate(LocalWindowAggregate),
    /// Second phase of an aggregate over windows in two phases.
    GlobalWindowAggregate(GlobalWindowAggregate),
    /// GROUP BY with a window in it.
    GroupWindowAggregate(GroupWindowAggregate),
    /// Join of two streams without a window.
    Join(Join),
    /// Join of two streams whose times must be near each other.
    IntervalJoin(IntervalJoin),
    /// Join with the version of a table that is valid at the time of a row.
    TemporalJoin(TemporalJoin),
    /// Join with a table outside that is asked for each row.
    LookupJoin(LookupJoin),
    /// OVER aggregates.
    OverAggregate(OverAggregate),
    /// ORDER BY a time attribute.
    TemporalSort(TemporalSort),
    /// Top-N per window.
    WindowRank(WindowRank),
    /// The first or last row per key and window.
    WindowDeduplicate(WindowDeduplicate),
    /// Join of two streams per window.
    WindowJoin(WindowJoin),
    /// Stays on Flink, for this reason.
    Stock(Reason),
}

impl NodeKind {
    /// Whether it reads two inputs that it tells apart.
    pub fn has_two_inputs(&self) -> bool {
        matches!(self, Self::Join(_) | Self::IntervalJoin(_) | Self::TemporalJoin(_) | Self::WindowJoin(_))
    }
}

impl Node {
    /// The name that EXPLAIN shows: `GroupWindowAggregate` for `stream-exec-group-window-aggregate`.
    pub fn operator_name(&self) -> String {
        operator_name(&self.type_name)
    }

    /// The reason of an engine that does not run this kind of node.
    pub fn not_supported(&self) -> Reason {
        not_supported(&self.type_name)
    }
}

/// The reason that nodes of this type are not native.
pub(crate) fn not_supported(type_name: &str) -> Reason {
    Reason::new(format!("the operator {} is not supported natively", operator_name(type_name)))
}

fn operator_name(type_name: &str) -> String {
    let words = type_name.strip_prefix("stream-exec-").unwrap_or(type_name).split('-');
    words
        .map(|word| {
            let mut chars = word.chars();
            chars.next().map(|first| first.to_uppercase().chain(chars).collect::<String>()).unwrap_or_default()
        })
        .collect()
}

/// `SELECT projection WHERE condition`.
#[derive(Debug, Clone, PartialEq)]
pub struct Calc {
    /// One expression per output column.
    pub projection: Vec<Rex>,
    /// Rows for which this is TRUE pass.
    pub condition: Option<Rex>,
}

/// Each row once per projection, in their order, with its row kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Expand {
    /// One expression per output column each; at least one projection.
    pub projects: Vec<Vec<Rex>>,
}

/// Where the rows of an exchange go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distribution {
    /// By the hash of these columns.
    Hash(Vec<usize>),
    /// All to one subtask.
    Singleton,
}
