//! OVER aggregates and sorting by time.

use super::rows::unchanged;
use super::{exist, malformed, same_layout};
use crate::node::{OverAggregate, TemporalSort};
use crate::reason::Reason;
use crate::types::{Field, LogicalType, TimeDomain, TypeKind};

pub(super) fn aggregate(over: &OverAggregate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    let columns = input.fields();
    if over.input_columns != columns.len() {
        return Err(malformed("an OVER aggregate has another number of input columns than its input"));
    }
    if !exist(&over.partition, columns) {
        return Err(malformed("a partition column does not exist"));
    }
    if over.order >= columns.len() {
        return Err(malformed("a sort column does not exist"));
    }
    let Some((rows, results)) = output.fields().split_at_checked(columns.len()) else {
        return Err(malformed("the aggregate has another number of columns than its output"));
    };
    unchanged(columns, rows)?;
    if results.len() != over.calls.len()
        || over.calls.iter().zip(results).any(|(call, field)| !same_layout(&call.ty, &field.ty))
    {
        return Err(malformed("an aggregate call has another type than its output column"));
    }
    let arguments = columns.len() + over.constants.len();
    if over.calls.iter().any(|call| call.args.iter().any(|column| *column >= arguments)) {
        return Err(malformed("an argument of an aggregate call does not exist"));
    }
    let boolean = |filter: usize| columns.get(filter).is_some_and(|column| column.ty.kind == TypeKind::Boolean);
    if over.calls.iter().any(|call| call.filter.is_some_and(|filter| !boolean(filter))) {
        return Err(malformed("the filter of an aggregate call does not exist or is not BOOLEAN"));
    }
    row_time(over.time(input), columns.get(over.order))
}

pub(super) fn temporal_sort(sort: &TemporalSort, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    let columns = input.fields();
    if sort.order_by.iter().any(|field| field.column >= columns.len()) {
        return Err(malformed("a sort column does not exist"));
    }
    unchanged(columns, output.fields())?;
    match sort.time(input) {
        None => Err(malformed("the first sort column is not a time attribute")),
        time => row_time(time, sort.time_column().and_then(|column| columns.get(column))),
    }
}

fn row_time(time: Option<TimeDomain>, column: Option<&Field>) -> Result<(), Reason> {
    match (time, column.map(|field| &field.ty.kind)) {
        (Some(TimeDomain::Proctime) | None, _) => Ok(()),
        (_, Some(TypeKind::Timestamp { precision: 0..=3, .. } | TypeKind::TimestampLtz { precision: 0..=3, .. })) => {
            Ok(())
        }
        _ => Err(malformed("a row-time attribute is finer than milliseconds")),
    }
}
