//! Aggregates over windows whose borders are the same for all keys: TUMBLE, HOP and CUMULATE.
//!
//! Rows are aggregated by key and *slice*, the part of time that no window border cuts ([`SliceAssigner`](crate::window::SliceAssigner)):
//! each pair has a slot in the table, whose namespace is the end of the slice. When a window is due, its slices are put
//! together. In two phases a local aggregate ([`LocalWindowAgg`]) hands on the accumulators of slices, which the global one
//! ([`WindowAgg`] again) merges. What aggregates compute is in [`crate::group_agg`].
//!
//! A slot of shared slices stays when its window has fired, since later windows need it. Whether it *waits*, so that the window
//! that ends with it is still to fire, does not follow from event time alone and is kept with it: of two subtasks one may
//! have fired what the other had not. A window that is due because of the one before it, though it got no row of its own, has an empty slot.
//!
//! Follows: WindowAggOperator, SliceUnsharedSyncStateWindowAggProcessor, SliceSharedSyncStateWindowAggProcessor, AggCombiner,
//! GlobalAggCombiner, LocalSlicingWindowAggOperator, LocalAggCombiner, Flink 2.2. Differences: Flink collects rows in a buffer, which it
//! empties when event time passes a multiple of the window's size since the epoch. Where windows do not end there, because of an offset
//! or of local time, Flink may miss that a window is due, and then loses what is in the buffer; here no row is lost.

mod agg;
mod due;
mod local;
mod output;
mod slice_ends;
#[cfg(test)]
mod tests;

pub use agg::{WindowAgg, supports, supports_global};
pub use local::{LocalWindowAgg, supports_local};

use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, WindowSpec, Windowing, WindowingStrategy};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::types::arrow_type;

use self::slice_ends::SliceEnds;
use crate::group_agg::{Merging, SlotCalls};
use crate::keys::Keys;
use crate::window::SliceAssigner;

/// What the plan says of either phase.
#[derive(Debug, Clone, Copy)]
struct Plan<'a> {
    grouping: &'a [usize],
    calls: &'a [AggCall],
    windowing: &'a Windowing,
    need_retraction: bool,
    /// The rows that come in.
    input: &'a LogicalType,
    /// The rows that the calls are about.
    call_input: &'a LogicalType,
}

impl<'a> Plan<'a> {
    fn keys(&self) -> Result<Keys, Reason> {
        let fields = self.input.fields();
        let types = self.grouping.iter().map(|key| fields.get(*key).map(|field| field.ty.clone()));
        let types = types.collect::<Option<Vec<_>>>().ok_or_else(|| Reason::new("a grouping column does not exist"))?;
        let arrow = types.iter().map(arrow_type).collect::<Result<Vec<_>, _>>()?;
        Keys::try_new(self.grouping, &types, &arrow)
    }

    /// The slices, and where those of rows come from.
    fn slices(&self) -> Result<(SliceAssigner, SliceEnds), Reason> {
        let slices = SliceAssigner::new(&self.windowing.window)?;
        let slices = match self.windowing.strategy {
            // each row says in which window it is
            WindowingStrategy::WindowAttached { .. } => slices.attached(),
            _ => slices,
        };
        Ok((slices, SliceEnds::try_new(self.windowing, slices)?))
    }

    /// The calls. Rows are counted where windows hop or rows retract, whatever slices are shared.
    ///
    /// Follows: AggregateUtil.deriveStreamWindowAggregateInfoList, Flink 2.2.
    fn slot_calls(&self, merging: Merging) -> SlotCalls<'a> {
        SlotCalls {
            calls: self.calls,
            input: self.call_input,
            need_retraction: self.need_retraction,
            counts_rows: self.need_retraction || matches!(self.windowing.window, WindowSpec::Hopping { .. }),
            merging,
        }
    }
}
