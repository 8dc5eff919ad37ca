//! What of GROUP BY is native: the plan's calls, resolved to functions over typed columns, or a reason.
//!
//! Follows: AggFunctionFactory, AggregateUtil, Flink 2.2.

use std::num::NonZeroU64;

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, GroupAggregate};
use streamfusion_plan::rex;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::arrow_type;
use streamfusion_state::StateTtl;

use super::distinct::CALLS_PER_TABLE;
use super::extremum::Extremum;
use super::position::Position;
use crate::definition::describe;
use crate::keys::Keys;

/// How retractions reach a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retraction {
    /// They do not, or are ignored.
    None,
    /// They are taken back.
    Applied,
}

/// A supported aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FunctionKind {
    Count,
    Sum(Retraction),
    Sum0,
    Avg,
    Extremum(Extremum, Retraction),
    Position(Position, Retraction),
    /// The value so many rows before; only where no row is taken back.
    Lag {
        offset: u32,
    },
}

/// A column that a call reads.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    pub(super) column: usize,
    pub(super) ty: LogicalType,
    pub(super) arrow: DataType,
}

/// An aggregate call with everything known about it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: FunctionKind,
    /// Absent for COUNT(*).
    pub(super) argument: Option<Argument>,
    pub(super) filter: Option<usize>,
    pub(super) distinct: bool,
    pub(super) output: DataType,
}

impl Call {
    /// The call in words, as far as its state depends on it: the state of calls with other words is not this call's.
    pub(super) fn definition(&self) -> String {
        let argument = self.argument.as_ref().map_or_else(|| "*".to_owned(), |argument| describe(&argument.ty));
        let (name, retraction) = match self.function {
            FunctionKind::Count => ("COUNT", Retraction::None),
            FunctionKind::Sum(retraction) => ("SUM", retraction),
            FunctionKind::Sum0 => ("$SUM0", Retraction::None),
            FunctionKind::Avg => ("AVG", Retraction::None),
            FunctionKind::Extremum(Extremum::Min, retraction) => ("MIN", retraction),
            FunctionKind::Extremum(Extremum::Max, retraction) => ("MAX", retraction),
            FunctionKind::Position(Position::First, retraction) => ("FIRST_VALUE", retraction),
            FunctionKind::Position(Position::Last, retraction) => ("LAST_VALUE", retraction),
            FunctionKind::Lag { offset } => return format!("LAG({argument}, {offset})"),
        };
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let filter = if self.filter.is_some() { " with FILTER" } else { "" };
        let retraction = if retraction == Retraction::Applied { " with retraction" } else { "" };
        format!("{name}({distinct}{argument}){filter}{retraction}")
    }
}

/// A supported group aggregate.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) keys: Keys,
    pub(super) ttl: Option<StateTtl>,
    pub(super) calls: Vec<Call>,
    pub(super) bundle_size: Option<NonZeroU64>,
}

/// Resolves an aggregate over rows of `input`, or says why it stays on Flink.
pub(super) fn resolve(spec: &GroupAggregate, input: &LogicalType) -> Result<Resolved, Reason> {
    let bundle_size = spec
        .mini_batch_size
        .map(|size| NonZeroU64::new(size).ok_or_else(|| Reason::new("the mini-batch size is 0")))
        .transpose()?;
    let keys = spec.grouping.iter().map(|column| field(input, *column)).collect::<Result<Vec<_>, _>>()?;
    let arrow = keys.iter().map(arrow_type).collect::<Result<Vec<_>, _>>()?;
    let keys = Keys::try_new(&spec.grouping, &keys, &arrow)?;
    let calls = spec.calls.iter().map(|call| resolve_call(call, spec, input)).collect::<Result<Vec<_>, _>>()?;
    let ttl = StateTtl::of_millis(spec.ttl_ms);
    if ttl.is_some() {
        check_expiring(&calls)?;
    }
    Ok(Resolved { keys, ttl, calls, bundle_size })
}

/// What Flink does under a time-to-live and this operator does not.
fn check_expiring(calls: &[Call]) -> Result<(), Reason> {
    for call in calls {
        if let FunctionKind::Position(_, Retraction::Applied) = call.function {
            return Err(Reason::new(
                "FIRST_VALUE and LAST_VALUE over input that retracts, with a state time to live, are not supported natively",
            ));
        }
        let shares = |other: &&Call| {
            let column = |call: &Call| call.argument.as_ref().map(|argument| argument.column);
            other.distinct && column(other) == column(call)
        };
        if call.distinct && calls.iter().filter(shares).count() > CALLS_PER_TABLE {
            return Err(Reason::new(
                "more than 64 DISTINCT aggregates of one column, with a state time to live, are not supported natively",
            ));
        }
    }
    Ok(())
}

fn field(input: &LogicalType, column: usize) -> Result<LogicalType, Reason> {
    let field = input.fields().get(column);
    field
        .map(|field| field.ty.clone())
        .ok_or_else(|| Reason::new("the plan names a column that its input does not have"))
}

fn resolve_call(call: &AggCall, spec: &GroupAggregate, input: &LogicalType) -> Result<Call, Reason> {
    let name = match &call.function {
        rex::Function::BuiltIn { name, version: 1 } => name.as_str(),
        rex::Function::BuiltIn { name, version } => {
            return Err(Reason::new(format!("version {version} of the aggregate function {name} is not known")));
        }
        rex::Function::User(name) => {
            return Err(Reason::new(format!("the user-defined aggregate function {name} is not supported natively")));
        }
    };
    if call.approximate {
        return Err(Reason::new(format!("the approximate aggregate function {name} is not supported natively")));
    }
    let argument = match (name, call.args.as_slice()) {
        ("COUNT", []) => None,
        (_, [column]) => {
            let ty = field(input, *column)?;
            let arrow = arrow_type(&ty)?;
            Some(Argument { column: *column, ty, arrow })
        }
        (_, args) => {
            return Err(Reason::new(format!(
                "the aggregate function {name} with {} arguments is not supported natively",
                args.len()
            )));
        }
    };
    if let Some(filter) = call.filter
        && !matches!(field(input, filter)?.kind, TypeKind::Boolean)
    {
        return Err(Reason::new("the filter of an aggregate function is not a BOOLEAN column"));
    }
    let distinct = call.distinct && argument.is_some();
    if let (true, Some(argument)) = (distinct, &argument) {
        check_distinct(&argument.ty)?;
    }
    let function = function(name, call, spec, argument.as_ref().map(|argument| &argument.ty))?;
    let output = arrow_type(&call.ty)?;
    let expected = result_type(function, argument.as_ref());
    if output != expected {
        return Err(Reason::new(format!("the aggregate function {name} has a result of an unexpected type")));
    }
    Ok(Call { function, argument, filter: call.filter, distinct, output })
}

/// The function of a name over an argument of type `ty`, as Flink's factory chooses it.
fn function(
    name: &str,
    call: &AggCall,
    spec: &GroupAggregate,
    ty: Option<&LogicalType>,
) -> Result<FunctionKind, Reason> {
    let retraction = if call.need_retraction { Retraction::Applied } else { Retraction::None };
    // Flink ignores retractions only in MIN and MAX; elsewhere its plans never lack them.
    let lacks_retraction = spec.need_retraction && retraction == Retraction::None;
    let over = |allowed: bool, function: FunctionKind| match ty {
        Some(_) if allowed => Ok(function),
        _ => Err(Reason::new(format!(
            "the aggregate function {name} over a value of this type is not supported natively"
        ))),
    };
    let kind = ty.map(|ty| &ty.kind);
    match name {
        "COUNT" => Ok(FunctionKind::Count),
        "SUM" if !lacks_retraction => over(kind.is_some_and(is_number), FunctionKind::Sum(retraction)),
        "$SUM0" => over(kind.is_some_and(is_number), FunctionKind::Sum0),
        "AVG" => over(kind.is_some_and(is_number), FunctionKind::Avg),
        "MIN" => over(kind.is_some_and(is_comparable), FunctionKind::Extremum(Extremum::Min, retraction)),
        "MAX" => over(kind.is_some_and(is_comparable), FunctionKind::Extremum(Extremum::Max, retraction)),
        "FIRST_VALUE" if !lacks_retraction => over(
            kind.is_some_and(|kind| is_kept(kind, retraction)),
            FunctionKind::Position(Position::First, retraction),
        ),
        "LAST_VALUE" if !lacks_retraction => {
            over(kind.is_some_and(|kind| is_kept(kind, retraction)), FunctionKind::Position(Position::Last, retraction))
        }
        "SUM" | "FIRST_VALUE" | "LAST_VALUE" => Err(Reason::new(format!(
            "the aggregate function {name} that ignores retractions is not supported natively"
        ))),
        _ => Err(Reason::new(format!("the aggregate function {name} is not supported natively"))),
    }
}

/// The Arrow type of a function's result.
fn result_type(function: FunctionKind, argument: Option<&Argument>) -> DataType {
    let argument = argument.map(|argument| &argument.arrow);
    match (function, argument) {
        (FunctionKind::Count, _) | (_, None) => DataType::Int64,
        (FunctionKind::Sum(_) | FunctionKind::Sum0, Some(DataType::Decimal128(_, scale))) => {
            DataType::Decimal128(38, *scale)
        }
        (FunctionKind::Avg, Some(DataType::Decimal128(_, scale))) => DataType::Decimal128(38, (*scale).max(6)),
        (_, Some(argument)) => argument.clone(),
    }
}

fn is_number(kind: &TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::Integer
            | TypeKind::BigInt
            | TypeKind::Float
            | TypeKind::Double
            | TypeKind::Decimal { .. }
    )
}

fn is_comparable(kind: &TypeKind) -> bool {
    is_number(kind)
        || matches!(
            kind,
            TypeKind::Boolean
                | TypeKind::Char(_)
                | TypeKind::VarChar(_)
                | TypeKind::Date
                | TypeKind::Time(_)
                | TypeKind::Timestamp { .. }
                | TypeKind::TimestampLtz { .. }
        )
}

/// What FIRST_VALUE and LAST_VALUE keep, and LAG what they keep of rows that retract. Flink finds a retracted BINARY by identity on one state backend and by content on
/// another, so that there is no result to be equal to.
pub(super) fn is_kept(kind: &TypeKind, retraction: Retraction) -> bool {
    is_comparable(kind)
        || matches!(kind, TypeKind::IntervalYearMonth | TypeKind::IntervalDayTime)
        || retraction == Retraction::None && matches!(kind, TypeKind::Binary(_) | TypeKind::VarBinary(_))
}

fn check_distinct(ty: &LogicalType) -> Result<(), Reason> {
    if is_comparable(&ty.kind) || matches!(ty.kind, TypeKind::IntervalYearMonth | TypeKind::IntervalDayTime) {
        Ok(())
    } else {
        Err(Reason::new("a DISTINCT aggregate over a value of this type is not supported natively"))
    }
}
