//! Windows that each key has of its own: sessions, above all.
//!
//! A row finds its window among those that are open for its key ([`open`]), opens one, or makes one of two ([`sessions`]). A slot of the state,
//! one per key and window, has what becomes of it: accumulators ([`contents`]), or the row itself ([`kept`]). A window goes out once,
//! when its time has come ([`timers`]), and is forgotten with that. What is late is decided row by row, by the window that comes out
//! ([`clock`]).
//!
//! Follows: UnsliceWindowAggProcessor, WindowAggOperator, UnalignedWindowTableFunctionOperator, MergingWindowProcessFunction, Flink 2.2.
//! Differences: between keys whose windows are due at the same time Flink has no order; here it is that of their slots.

mod assign;
mod clock;
mod contents;
mod function;
mod kept;
mod open;
mod operator;
mod sessions;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod timers;

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, ShiftZone, WindowAggregate, WindowProperty, WindowSpec, WindowingStrategy};
use streamfusion_plan::types::{LogicalType, TimeDomain};
use streamfusion_row::types::arrow_type;
use streamfusion_state::codec::Required;
use streamfusion_state::{KeyedTable, StateContext};

pub(crate) use self::assign::{Assigned, NullTime, Time, Windows};
pub(crate) use self::clock::{Clock, LateRule};
pub(crate) use self::contents::{keep, property};
pub use self::function::{open_session_function, supports_session_function};
pub(crate) use self::operator::Progress;

use self::assign::NULL_ROW_TIME;
use self::contents::{Accumulators, Contents};
use self::open::{Bounds, OpenWindows};
use self::operator::Unslicing;
use crate::group_agg::{Merging, SlotAggregates, SlotCalls};
use crate::keys::Keys;
use crate::window::WindowZone;
use crate::{Operator, OperatorError};

/// Name of the table, and of its main section.
const TABLE: &str = "windows";

/// What an aggregate over windows of keys is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec<'a> {
    pub(crate) grouping: &'a [usize],
    pub(crate) calls: &'a [AggCall],
    pub(crate) need_retraction: bool,
    pub(crate) merging: Merging,
    pub(crate) windows: Windows,
    pub(crate) domain: TimeDomain,
    pub(crate) rule: LateRule,
    pub(crate) progress: Progress,
    pub(crate) zone: &'a ShiftZone,
    pub(crate) properties: &'a [WindowProperty],
    /// The rows that come in.
    pub(crate) input: &'a LogicalType,
}

/// The keys of rows of the type `input`, by columns.
fn keys(columns: &[usize], input: &LogicalType) -> Result<Keys, Reason> {
    let field = |column: &usize| input.fields().get(*column).map(|field| field.ty.clone());
    let missing = || Reason::new("the plan names a column that its input does not have");
    let types = columns.iter().map(field).collect::<Option<Vec<_>>>().ok_or_else(missing)?;
    let arrow = types.iter().map(arrow_type).collect::<Result<Vec<_>, _>>()?;
    Keys::try_new(columns, &types, &arrow)
}

/// How time is told, and what is done with it.
#[derive(Debug)]
struct Timing {
    windows: Windows,
    domain: TimeDomain,
    progress: Progress,
    clock: Clock,
}

/// An operator with empty state; `register` adds what it keeps of rows to its table.
fn operator<C: Contents + 'static>(
    keys: Keys,
    timing: Timing,
    context: &StateContext,
    register: impl FnOnce(&mut KeyedTable) -> Result<C, OperatorError>,
) -> Result<Box<dyn Operator>, OperatorError> {
    let mut table = KeyedTable::namespaced(TABLE, keys.layout(), None, context);
    let mut bound = |name| table.add_column(name, None, Required::new("", DataType::Int64), 0);
    let bounds = Bounds { start: bound("start"), end: bound("end") };
    let contents = register(&mut table)?;
    let Timing { windows, domain, progress, clock } = timing;
    Ok(Box::new(Unslicing {
        open: OpenWindows::new(&keys, context),
        keys,
        table,
        bounds,
        contents,
        windows,
        domain,
        progress,
        clock,
        assigned: Assigned::default(),
        due: Vec::new(),
        pulled: 0,
        late: 0,
        without_time: 0,
        restored: false,
    }))
}

impl<'a> Spec<'a> {
    /// The keys of the rows.
    pub(crate) fn keys(&self) -> Result<Keys, Reason> {
        keys(self.grouping, self.input)
    }

    pub(crate) fn slot_calls(&self) -> SlotCalls<'a> {
        SlotCalls {
            calls: self.calls,
            input: self.input,
            need_retraction: self.need_retraction,
            // a window is empty when all rows that came were taken back
            counts_rows: self.need_retraction,
            merging: self.merging,
        }
    }

    /// Whether the aggregate is computed exactly as Flink does.
    pub(crate) fn supports(&self) -> Result<(), Reason> {
        self.keys()?;
        SlotAggregates::supports(&self.slot_calls())
    }

    /// The aggregate, with empty state. Errors if [`Spec::supports`] refuses it.
    pub(crate) fn open(&self, context: &StateContext) -> Result<Box<dyn Operator>, OperatorError> {
        let keys = self.keys().map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let timing = Timing {
            windows: self.windows,
            domain: self.domain,
            progress: self.progress,
            clock: Clock::new(WindowZone::new(self.zone), self.rule),
        };
        operator(keys, timing, context, |table| {
            let calls = SlotAggregates::try_new(&self.slot_calls(), table)?;
            Ok(Accumulators { calls, properties: self.properties.to_vec() })
        })
    }
}

/// Whether [`open_sessions`] computes this aggregate over session windows exactly as Flink does.
pub fn supports_sessions(spec: &WindowAggregate, input: &LogicalType) -> Result<(), Reason> {
    of_sessions(spec, input)?.supports()
}

/// The aggregate over session windows. Output columns: the grouping columns, then one column per aggregate call, then the properties
/// of the window. Errors if [`supports_sessions`] refuses it.
pub fn open_sessions(
    spec: &WindowAggregate,
    input: &LogicalType,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    of_sessions(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?.open(context)
}

fn of_sessions<'a>(spec: &'a WindowAggregate, input: &'a LogicalType) -> Result<Spec<'a>, Reason> {
    let WindowSpec::Session { gap_ms: gap, .. } = spec.windowing.window else {
        return Err(Reason::new("the windows are no sessions"));
    };
    let rowtime = if spec.windowing.is_rowtime { TimeDomain::Rowtime } else { TimeDomain::Proctime };
    let (windows, domain) = match spec.windowing.strategy {
        WindowingStrategy::TimeAttribute { column } => {
            let time = match rowtime {
                TimeDomain::Rowtime => Time::Column(column, NullTime::Refused(NULL_ROW_TIME)),
                TimeDomain::Proctime => Time::Processing,
            };
            (Windows::Session { time, gap }, rowtime)
        }
        // whatever the time was by which they were attached
        WindowingStrategy::WindowAttached { start: Some(start), end } => {
            (Windows::Attached { start, end }, TimeDomain::Rowtime)
        }
        WindowingStrategy::WindowAttached { start: None, .. } | WindowingStrategy::SliceAttached { .. } => {
            return Err(Reason::new("Flink does not support sessions of which only the end is known"));
        }
    };
    Ok(Spec {
        grouping: &spec.grouping,
        calls: &spec.calls,
        need_retraction: spec.need_retraction,
        merging: Merging::Slots,
        windows,
        domain,
        rule: LateRule::Watermark,
        progress: Progress::Kept,
        zone: &spec.windowing.zone,
        properties: &spec.properties,
        input,
    })
}
