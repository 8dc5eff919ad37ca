//! Group aggregates.
//!
//! What a local aggregate hands on behind its grouping columns are accumulators, whose types depend on the functions: that
//! the phases agree on them is left to the engine.

use super::{exist, malformed, same_layout};
use crate::node::{AggCall, GlobalGroupAggregate, GroupAggregate, IncrementalGroupAggregate, LocalGroupAggregate};
use crate::reason::Reason;
use crate::types::{Field, LogicalType, TypeKind};

pub(super) fn group(aggregate: &GroupAggregate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    keys(&aggregate.grouping, input.fields(), output.fields())?;
    results(&aggregate.calls, aggregate.grouping.len(), output.fields())?;
    calls(&aggregate.calls, input.fields())
}

pub(super) fn local(aggregate: &LocalGroupAggregate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    keys(&aggregate.grouping, input.fields(), output.fields())?;
    calls(&aggregate.calls, input.fields())
}

pub(super) fn global(
    aggregate: &GlobalGroupAggregate,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    keys(&aggregate.grouping, input.fields(), output.fields())?;
    results(&aggregate.calls, aggregate.grouping.len(), output.fields())?;
    if aggregate.count_star.is_some_and(|call| call >= aggregate.calls.len()) {
        return Err(malformed("the call that counts the rows of a group does not exist"));
    }
    calls(&aggregate.calls, aggregate.local_input.fields())
}

pub(super) fn incremental(
    aggregate: &IncrementalGroupAggregate,
    input: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    let partial = &aggregate.partial_grouping;
    if !exist(partial, input.fields()) {
        return Err(malformed("a grouping column does not exist"));
    }
    let columns: Option<Vec<usize>> = aggregate.final_grouping.iter().map(|key| partial.get(*key).copied()).collect();
    let columns = columns.ok_or_else(|| malformed("a column of the final key is not in the partial key"))?;
    keys(&columns, input.fields(), output.fields())?;
    calls(&aggregate.calls, aggregate.local_input.fields())
}

/// The output begins with the grouping columns.
pub(super) fn keys(grouping: &[usize], input: &[Field], output: &[Field]) -> Result<(), Reason> {
    let same =
        |(key, field): (&usize, &Field)| input.get(*key).is_some_and(|column| same_layout(&column.ty, &field.ty));
    if grouping.len() > output.len() {
        return Err(malformed("the aggregate has another number of columns than its output"));
    }
    if !grouping.iter().zip(output).all(same) {
        return Err(malformed("a grouping column does not exist or has another type in the output"));
    }
    Ok(())
}

/// The output ends with the results.
pub(super) fn results(calls: &[AggCall], keys: usize, output: &[Field]) -> Result<(), Reason> {
    if keys + calls.len() != output.len() {
        return Err(malformed("the aggregate has another number of columns than its output"));
    }
    if calls.iter().zip(output.iter().skip(keys)).any(|(call, field)| !same_layout(&call.ty, &field.ty)) {
        return Err(malformed("an aggregate call has another type than its output column"));
    }
    Ok(())
}

pub(super) fn calls(calls: &[AggCall], columns: &[Field]) -> Result<(), Reason> {
    for call in calls {
        if !exist(&call.args, columns) {
            return Err(malformed("an argument of an aggregate call does not exist"));
        }
        let boolean = |filter: usize| columns.get(filter).is_some_and(|column| column.ty.kind == TypeKind::Boolean);
        if call.filter.is_some_and(|filter| !boolean(filter)) {
            return Err(malformed("the filter of an aggregate call does not exist or is not BOOLEAN"));
        }
    }
    Ok(())
}
