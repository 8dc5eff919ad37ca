//! The table function SESSION on its own: each row with the session that it lies in, once that is over.
//!
//! Follows: UnalignedWindowTableFunctionOperator, Flink 2.2. Differences: those of [`kept`](super::kept) and of the [module](super).

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{WindowSpec, WindowTableFunction, WindowingStrategy};
use streamfusion_plan::types::{LogicalType, TimeDomain};
use streamfusion_row::types::arrow_type;
use streamfusion_state::{RowLayout, StateContext};

use super::assign::{NullTime, Time, Windows};
use super::clock::{Clock, LateRule};
use super::kept::Kept;
use super::operator::Progress;
use super::{Timing, keys, operator};
use crate::keys::Keys;
use crate::window::WindowZone;
use crate::{Operator, OperatorError};

/// What of a plan an operator is made of.
struct Resolved {
    keys: Keys,
    timing: Timing,
    types: Vec<DataType>,
}

/// Whether [`open_session_function`] does over rows of `input` exactly what Flink does.
pub fn supports_session_function(spec: &WindowTableFunction, input: &LogicalType) -> Result<(), Reason> {
    resolve(spec, input).map(drop)
}

/// The function, without rows. Output columns: those of the input; start, end and time attribute of the session. Errors if
/// [`supports_session_function`] refuses it.
pub fn open_session_function(
    spec: &WindowTableFunction,
    input: &LogicalType,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    let resolved = resolve(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
    let Resolved { keys, timing, types } = resolved;
    operator(keys, timing, context, |table| Kept::try_new(input, &types, table))
}

fn resolve(spec: &WindowTableFunction, input: &LogicalType) -> Result<Resolved, Reason> {
    let windowing = &spec.windowing;
    let WindowSpec::Session { gap_ms: gap, partition } = &windowing.window else {
        return Err(Reason::new("the windows are no sessions"));
    };
    let WindowingStrategy::TimeAttribute { column } = windowing.strategy else {
        return Err(Reason::new("the windows are there already"));
    };
    let (time, domain, rule) = match windowing.is_rowtime {
        true => (Time::Column(column, NullTime::Dropped), TimeDomain::Rowtime, LateRule::Watermark),
        false => (Time::Processing, TimeDomain::Proctime, LateRule::Never),
    };
    let types = input.fields().iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
    RowLayout::try_new(&types).map_err(|error| Reason::new(error.to_string()))?;
    let timing = Timing {
        windows: Windows::Session { time, gap: *gap },
        domain,
        progress: Progress::Forgotten,
        clock: Clock::new(WindowZone::new(&windowing.zone), rule),
    };
    Ok(Resolved { keys: keys(partition, input)?, timing, types })
}
