//! What of OVER in the order of another column than a time attribute is native.

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, OverAggregate, OverFrame, SortField};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_state::StateTtl;

use crate::keys::Keys;
use crate::over::support::{Shape, shape};
use crate::rank::sort_key;

/// What is made of a plan.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) keys: Keys,
    pub(super) types: Vec<DataType>,
    /// The calls of the plan, and behind them those that tell whether accumulators changed.
    pub(super) calls: Vec<AggCall>,
}

/// Whether the aggregate is computed exactly as Flink does.
pub(in crate::over) fn supports(spec: &OverAggregate, input: &LogicalType) -> Result<(), Reason> {
    resolve(spec, input).map(drop)
}

pub(super) fn sort_field(spec: &OverAggregate) -> SortField {
    SortField { column: spec.order, ascending: true, nulls_last: spec.nulls_last }
}

pub(super) fn resolve(spec: &OverAggregate, input: &LogicalType) -> Result<Resolved, Reason> {
    if spec.frame.is_bounded() {
        return Err(Reason::new("Flink has no bounded window in the order of another column than a time attribute"));
    }
    if StateTtl::of_millis(spec.ttl_ms).is_some() {
        return Err(Reason::new(
            "sorted by another column than a time attribute, and with a state time to live Flink forgets the parts of a partition one by one",
        ));
    }
    let order = input.fields().get(spec.order).ok_or_else(|| Reason::new("the sort column does not exist"))?;
    sort_key::supports(&order.ty)?;
    if input.fields().iter().any(|field| has_floats(&field.ty)) {
        return Err(Reason::new(
            "sorted by another column than a time attribute, and a row that is taken back is looked for by Java's comparison of FLOAT and DOUBLE",
        ));
    }
    for call in &spec.calls {
        check_call(call, spec.frame)?;
    }
    let Shape { keys, types, mut calls } = shape(spec, input)?;
    calls.extend(spec.calls.iter().filter(|call| name(call) == "AVG").map(count_of));
    Ok(Resolved { keys, types, calls })
}

fn has_floats(ty: &LogicalType) -> bool {
    match &ty.kind {
        TypeKind::Float | TypeKind::Double => true,
        TypeKind::Row(fields) => fields.iter().any(|field| has_floats(&field.ty)),
        _ => false,
    }
}

fn name(call: &AggCall) -> &str {
    match &call.function {
        Function::BuiltIn { name, .. } => name,
        Function::User(name) => name,
    }
}

fn check_call(call: &AggCall, frame: OverFrame) -> Result<(), Reason> {
    if call.distinct {
        return Err(Reason::new(
            "sorted by another column than a time attribute, and Flink has one set of DISTINCT values for all rows of a partition",
        ));
    }
    match (name(call), frame) {
        ("COUNT" | "SUM" | "$SUM0" | "MIN" | "MAX" | "ROW_NUMBER" | "RANK" | "DENSE_RANK", _)
        | ("AVG", OverFrame::UnboundedRange) => Ok(()),
        ("AVG", _) => Err(Reason::new(
            "sorted by another column than a time attribute, and Flink takes the average of ROWS for its accumulators",
        )),
        (name, _) => Err(Reason::new(format!(
            "sorted by another column than a time attribute, and {name} is not supported natively in that order"
        ))),
    }
}

/// The accumulators of an average are a sum and a count, which no change leaves as they are but that of a NULL.
fn count_of(call: &AggCall) -> AggCall {
    let function = Function::BuiltIn { name: "COUNT".to_owned(), version: 1 };
    let ty = LogicalType { kind: TypeKind::BigInt, nullable: false };
    AggCall { function, ty, ..call.clone() }
}
