//! GROUP BY with a window in it, as SQL had it before there were table functions for windows.
//!
//! TUMBLE and SESSION are windows of their keys, as those of the window aggregate are ([`unslicing`](crate::unslicing)). HOP keeps what its
//! windows have in common once, in panes ([`paned`]). Early and late firing are off, so that each window goes out once, as +I.
//!
//! How far event time had come is in no checkpoint: until the first watermark after a restore nothing is late, as in Flink.
//!
//! Follows: AggregateWindowOperator, WindowOperator, GeneralWindowProcessFunction, MergingWindowProcessFunction, Flink 2.2. Differences: between
//! keys whose windows are due at the same time Flink has no order; here it is that of their slots.

mod paned;
#[cfg(test)]
mod tests;

use streamfusion_plan::Reason;
use streamfusion_plan::node::{GroupWindowAggregate, ShiftZone, WindowSpec};
use streamfusion_plan::types::{LogicalType, TimeDomain};
use streamfusion_state::StateContext;

use self::paned::PanedAgg;
use crate::group_agg::Merging;
use crate::unslicing::{LateRule, NullTime, Progress, Spec, Time, Windows};
use crate::{Operator, OperatorError};

/// Whether [`open`] computes this aggregate over rows of `input` exactly as Flink does.
pub fn supports(spec: &GroupWindowAggregate, input: &LogicalType) -> Result<(), Reason> {
    match resolve(spec, input)? {
        Resolved::Unslicing(spec) => spec.supports(),
        Resolved::Paned { spec, .. } => spec.supports(),
    }
}

/// The aggregate. Output columns: the grouping columns, then one column per aggregate call, then the properties of the window.
/// Errors if [`supports`] refuses it.
pub fn open(
    spec: &GroupWindowAggregate,
    input: &LogicalType,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    match resolve(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))? {
        Resolved::Unslicing(spec) => spec.open(context),
        Resolved::Paned { spec, size, slide } => Ok(Box::new(PanedAgg::try_new(&spec, size, slide, context)?)),
    }
}

/// How an aggregate is computed.
enum Resolved<'a> {
    Unslicing(Spec<'a>),
    /// The windows of the spec are its panes.
    Paned {
        spec: Spec<'a>,
        size: i64,
        slide: i64,
    },
}

fn resolve<'a>(spec: &'a GroupWindowAggregate, input: &'a LogicalType) -> Result<Resolved<'a>, Reason> {
    let time = match spec.time {
        // Flink reads the bits of a row time without asking whether it is NULL, and those of NULL are 0
        TimeDomain::Rowtime => Time::Column(spec.time_column, NullTime::Epoch),
        TimeDomain::Proctime => Time::Processing,
    };
    let of = |windows: Windows, merging: Merging| Spec {
        grouping: &spec.grouping,
        calls: &spec.calls,
        need_retraction: spec.need_retraction,
        merging,
        windows,
        domain: spec.time,
        rule: match spec.time {
            TimeDomain::Rowtime => LateRule::Watermark,
            TimeDomain::Proctime => LateRule::Never,
        },
        progress: Progress::Forgotten,
        zone: &spec.zone,
        properties: &spec.properties,
        input,
    };
    match spec.window {
        WindowSpec::Tumbling { size_ms: size, .. } => {
            Ok(Resolved::Unslicing(of(Windows::Tumbling { time, size }, Merging::Never)))
        }
        WindowSpec::Session { gap_ms: gap, .. } => {
            Ok(Resolved::Unslicing(of(Windows::Session { time, gap }, Merging::Slots)))
        }
        WindowSpec::Hopping { .. } if loses_rows(&spec.zone) => Err(Reason::new(
            "HOP in a time zone with daylight saving time: Flink loses rows at the hour that is left out, in no defined order",
        )),
        WindowSpec::Hopping { size_ms: size, slide_ms: slide, .. } => {
            let pane = greatest_common_divisor(size, slide);
            let spec = of(Windows::Tumbling { time, size: pane }, Merging::Slots);
            Ok(Resolved::Paned { spec, size, slide })
        }
        WindowSpec::Cumulative { .. } => Err(Reason::new("Flink has no cumulative window in GROUP BY")),
    }
}

/// Whether windows that end at different local times may end at one instant. Their timers fire in the order of a heap then, and the pane
/// that Flink clears with one of them is missing in the other.
fn loses_rows(zone: &ShiftZone) -> bool {
    matches!(zone, ShiftZone::Zone(rules) if rules.uses_daylight_time())
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
