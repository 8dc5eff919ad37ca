//! Nodes that go by windows.

use super::time::is_in_millis;
use super::{aggregate, malformed, same_layout};
use crate::node::{
    AggCall, GlobalWindowAggregate, GroupWindowAggregate, LocalWindowAggregate, WindowAggregate, WindowProperty,
    WindowTableFunction, Windowing, WindowingStrategy,
};
use crate::reason::Reason;
use crate::types::{Field, LogicalType, TypeKind};

pub(super) fn window_aggregate(
    aggregate: &WindowAggregate,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    windowing(&aggregate.windowing, input.fields())?;
    aggregate::keys(&aggregate.grouping, input.fields(), output.fields())?;
    results(&aggregate.calls, &aggregate.properties, aggregate.grouping.len(), output.fields())?;
    aggregate::calls(&aggregate.calls, input.fields())
}

pub(super) fn local(aggregate: &LocalWindowAggregate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    windowing(&aggregate.windowing, input.fields())?;
    aggregate::keys(&aggregate.grouping, input.fields(), output.fields())?;
    if output.fields().last().is_none_or(|end| end.ty.kind != TypeKind::BigInt) {
        return Err(malformed("a local aggregate over windows does not hand on the end of the slice"));
    }
    aggregate::calls(&aggregate.calls, input.fields())
}

pub(super) fn global(
    aggregate: &GlobalWindowAggregate,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    windowing(&aggregate.windowing, input.fields())?;
    aggregate::keys(&aggregate.grouping, input.fields(), output.fields())?;
    results(&aggregate.calls, &aggregate.properties, aggregate.grouping.len(), output.fields())?;
    aggregate::calls(&aggregate.calls, aggregate.local_input.fields())
}

pub(super) fn group_window(
    aggregate: &GroupWindowAggregate,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    let time = input.fields().get(aggregate.time_column).map(|field| &field.ty.kind);
    let is_time =
        matches!(time, Some(TypeKind::Timestamp { precision: 3, .. } | TypeKind::TimestampLtz { precision: 3, .. }));
    if !is_time {
        return Err(malformed("a column with the time of a window does not exist or has another type"));
    }
    aggregate::keys(&aggregate.grouping, input.fields(), output.fields())?;
    results(&aggregate.calls, &aggregate.properties, aggregate.grouping.len(), output.fields())?;
    aggregate::calls(&aggregate.calls, input.fields())
}

/// The columns from which a node has its windows exist and are what the strategy says.
pub(super) fn windowing(windowing: &Windowing, input: &[Field]) -> Result<(), Reason> {
    let column = |column: usize| input.get(column).map(|field| &field.ty);
    // a local phase hands on the end of a window as BIGINT
    let is_time = |ty: &LogicalType| matches!(ty.kind, TypeKind::Timestamp { precision: 3, .. } | TypeKind::BigInt);
    let fits = match windowing.strategy {
        WindowingStrategy::TimeAttribute { column: time } => {
            column(time).is_some_and(|ty| same_layout(ty, &windowing.time_attribute))
        }
        WindowingStrategy::WindowAttached { start, end } => {
            column(end).is_some_and(is_time) && start.is_none_or(|start| column(start).is_some_and(is_time))
        }
        WindowingStrategy::SliceAttached { end } => column(end).is_some_and(|ty| ty.kind == TypeKind::BigInt),
    };
    if fits { Ok(()) } else { Err(malformed("a column with the time of a window does not exist or has another type")) }
}

/// The output ends with results and properties.
pub(super) fn results(
    calls: &[AggCall],
    properties: &[WindowProperty],
    keys: usize,
    output: &[Field],
) -> Result<(), Reason> {
    let Some((results, last)) = output.len().checked_sub(properties.len()).map(|end| output.split_at(end)) else {
        return Err(malformed("the aggregate has another number of columns than its output"));
    };
    let fits = |(property, field): (&WindowProperty, &Field)| match (property, &field.ty.kind) {
        (WindowProperty::Start | WindowProperty::End, kind) => matches!(kind, TypeKind::Timestamp { precision: 3, .. }),
        (WindowProperty::Rowtime, TypeKind::Timestamp { precision: 3, .. }) => true,
        (_, kind) => matches!(kind, TypeKind::TimestampLtz { precision: 3, .. }),
    };
    if !properties.iter().zip(last).all(fits) {
        return Err(malformed("a window property has another type than its output column"));
    }
    aggregate::results(calls, keys, results)
}

pub(super) fn table_function(
    function: &WindowTableFunction,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    windowing(&function.windowing, input.fields())?;
    if !is_in_millis(&function.windowing.time_attribute) {
        return Err(malformed("the windows go by a time that is not in milliseconds"));
    }
    let added = output.fields().get(input.fields().len()..).unwrap_or_default();
    let passed = input.fields().iter().zip(output.fields()).all(|(a, b)| same_layout(&a.ty, &b.ty));
    match added {
        [start, end, time] if passed && [start, end, time].iter().all(|field| is_in_millis(&field.ty)) => Ok(()),
        _ => Err(malformed("the output of a window table function is not its input with a window")),
    }
}
