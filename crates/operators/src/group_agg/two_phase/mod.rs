//! GROUP BY in two phases: local aggregates make accumulators of bundles, the global aggregate merges them into state.
//!
//! Both number the keys of their bundles ([`numbers`]), keep the accumulators of a frame of bundles in dense vectors
//! ([`partial`]), and hand on or merge them when the frame ends. What lies in the columns between them is Flink's own form, so
//! that either side may face Flink across the exchange: `layout` checks it against the types of the plan.
//!
//! Follows: MiniBatchLocalGroupAggFunction, MiniBatchGlobalGroupAggFunction, AggsHandlerCodeGenerator, Flink 2.2. Differences: none
//! per key; Flink's order over keys is that of a hash map.

mod frame;
mod global;
mod incremental;
mod layout;
mod local;
mod merge;
mod numbers;
mod order;
mod partial;
mod ready;
mod state;
#[cfg(test)]
mod tests;
mod view;

pub use global::{GlobalGroupAgg, supports_global};
pub use incremental::{IncrementalGroupAgg, supports_incremental};
pub(in crate::group_agg) use layout::check_sets;
pub use local::{LocalGroupAgg, supports_local};
pub(in crate::group_agg) use merge::{Merge, ValueVisitor, Visitor, counted_extremum, visit, visit_value};
pub(in crate::group_agg) use order::check_distinct;
pub(in crate::group_agg) use partial::column_types;
pub(in crate::group_agg) use view::{Carried, Fixed, SlotCells, begin_list, put_value, read_list};
