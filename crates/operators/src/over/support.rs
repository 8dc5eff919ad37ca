//! What of OVER is native.

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, OverAggregate, OverFrame};
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::{Field, LogicalType, TimeDomain, TypeKind};
use streamfusion_row::types::arrow_type;
use streamfusion_state::{RowLayout, StateTtl};

use crate::StateBackend;
use crate::group_agg::{Running, RunningWindow};
use crate::keys::Keys;

/// Version of Flink's operators for unbounded windows by row time that is followed.
const UNBOUNDED_VERSION: i64 = 2;

/// What is computed, by what time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) time: TimeDomain,
    pub(super) frame: OverFrame,
}

/// What an OVER aggregate over rows of `input` comes to, or why it stays on Flink.
pub(super) fn resolve(spec: &OverAggregate, input: &LogicalType, backend: StateBackend) -> Result<Resolved, Reason> {
    let Some(time) = spec.time(input) else {
        return Err(Reason::new("the rows are not sorted by a time attribute"));
    };
    let Shape { keys, types, calls } = shape(spec, input)?;
    let frame = match (time, spec.frame) {
        // Flink has one function for both
        (TimeDomain::Proctime, OverFrame::UnboundedRange) => OverFrame::UnboundedRows,
        (_, frame) => frame,
    };
    check_frame(spec, input, Window { time, frame }, backend)?;
    Ok(Resolved { keys, types, calls, window: Window { time, frame } })
}

/// What there is of an aggregate, whatever its rows are sorted by.
pub(super) struct Shape {
    pub(super) keys: Keys,
    pub(super) types: Vec<DataType>,
    pub(super) calls: Vec<AggCall>,
}

/// The keys and calls of an aggregate, or why it stays on Flink.
pub(super) fn shape(spec: &OverAggregate, input: &LogicalType) -> Result<Shape, Reason> {
    let types = input.fields().iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
    RowLayout::try_new(&types).map_err(|error| Reason::new(error.to_string()))?;
    let key = |column: &usize| Some((input.fields().get(*column)?.ty.clone(), types.get(*column)?.clone()));
    let keys: Option<(Vec<_>, Vec<_>)> = spec.partition.iter().map(key).collect();
    let (logical, arrow) = keys.ok_or_else(|| Reason::new("a partition column does not exist"))?;
    let keys = Keys::try_new(&spec.partition, &logical, &arrow)?;
    let calls = running_calls(spec)?;
    let arguments = calls.iter().flat_map(|call| &call.args);
    for constant in arguments.filter_map(|column| spec.constants.get(column.checked_sub(types.len())?)) {
        streamfusion_expr::supports(&Rex::Literal { value: constant.value.clone(), ty: constant.ty.clone() })?;
    }
    let window = RunningWindow { retracts: spec.frame.is_bounded(), constants: &spec.constants };
    Running::supports(&calls, window, &with_constants(spec, input))?;
    if spec.calls.iter().any(|call| call.filter.is_some()) {
        return Err(Reason::new("an OVER aggregate with FILTER is not supported natively"));
    }
    Ok(Shape { keys, types, calls })
}

/// A supported OVER aggregate.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) keys: Keys,
    pub(super) types: Vec<DataType>,
    pub(super) calls: Vec<AggCall>,
    pub(super) window: Window,
}

fn check_frame(spec: &OverAggregate, input: &LogicalType, window: Window, backend: StateBackend) -> Result<(), Reason> {
    let unbounded = !window.frame.is_bounded();
    if unbounded && window.time == TimeDomain::Rowtime && spec.unbounded_version != UNBOUNDED_VERSION {
        return Err(Reason::new(format!(
            "the plan asks for version {} of Flink's unbounded OVER window, and version {UNBOUNDED_VERSION} is native",
            spec.unbounded_version
        )));
    }
    let distinct = spec.calls.iter().any(|call| call.distinct);
    if unbounded && window.time == TimeDomain::Proctime && distinct && StateTtl::of_millis(spec.ttl_ms).is_some() {
        return Err(Reason::new(
            "with a state time to live, Flink forgets the result of a DISTINCT aggregate by processing time, but not the values that it has seen",
        ));
    }
    match window.frame {
        OverFrame::Rows { preceding } if preceding == i64::MAX => {
            Err(Reason::new("the window has more rows than a number has"))
        }
        OverFrame::Range { preceding_ms: 0 } if window.time == TimeDomain::Proctime => {
            Err(Reason::new("over a window of no time by processing time, Flink drops rows before they are aggregated"))
        }
        OverFrame::Range { preceding_ms } if preceding_ms > LONGEST_RANGE_MS => {
            Err(Reason::new("the window is longer than the time that a timestamp has"))
        }
        OverFrame::Range { .. } if backend == StateBackend::Hashmap && sums_floats(spec, input) => Err(Reason::new(
            "in which order FLOAT and DOUBLE values leave a RANGE window, and so the last digits of their sum, depends on a hash map of Flink's heap state backend; with RocksDB it is native",
        )),
        _ => Ok(()),
    }
}

/// Far beyond what is between two timestamps, and far from where a number ends.
const LONGEST_RANGE_MS: i64 = i64::MAX / 4;

/// Whether a call adds up FLOAT or DOUBLE values.
fn sums_floats(spec: &OverAggregate, input: &LogicalType) -> bool {
    let is_float = |column: &usize| {
        let ty = input.fields().get(*column).map(|field| &field.ty.kind);
        matches!(ty, Some(TypeKind::Float | TypeKind::Double))
    };
    let adds = |call: &AggCall| matches!(&call.function, Function::BuiltIn { name, .. } if matches!(name.as_str(), "SUM" | "$SUM0" | "AVG"));
    spec.calls.iter().any(|call| adds(call) && call.args.iter().any(is_float))
}

/// The calls as GROUP BY has them. ROW_NUMBER counts rows, and so do RANK and DENSE_RANK: on a stream Flink's do not know by what rows
/// are sorted, and take no row for equal to the one before.
///
/// Follows: RankAggFunction, DenseRankAggFunction, RankLikeAggFunctionBase.orderKeyEqualsExpression, AggFunctionFactory, Flink 2.2.
fn running_calls(spec: &OverAggregate) -> Result<Vec<AggCall>, Reason> {
    let counts = |name: &str| matches!(name, "ROW_NUMBER" | "RANK" | "DENSE_RANK");
    let call = |call: &AggCall| match &call.function {
        Function::BuiltIn { name, version: 1 } if counts(name) && call.args.is_empty() => {
            if spec.frame.is_bounded() || name == "ROW_NUMBER" && spec.frame != OverFrame::UnboundedRows {
                return Err(Reason::new(format!("Flink has no {name} over such a window")));
            }
            let function = Function::BuiltIn { name: "COUNT".to_owned(), version: 1 };
            Ok(AggCall { function, ..call.clone() })
        }
        _ => Ok(call.clone()),
    };
    spec.calls.iter().map(call).collect()
}

/// The type of the rows of `input` with the constants behind them.
pub(super) fn with_constants(spec: &OverAggregate, input: &LogicalType) -> LogicalType {
    let constants = spec
        .constants
        .iter()
        .enumerate()
        .map(|(number, constant)| Field { name: format!("constant{number}"), ty: constant.ty.clone() });
    let fields: Vec<Field> = input.fields().iter().cloned().chain(constants).collect();
    LogicalType { kind: TypeKind::Row(fields.into()), nullable: false }
}
