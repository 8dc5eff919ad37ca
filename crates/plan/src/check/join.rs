//! Joins.

use super::{check_condition, exist, malformed, same_layout};
use crate::node::{InputSide, IntervalJoin, Join, JoinSpec, JoinType, LookupJoin, TemporalJoin};
use crate::reason::Reason;
use crate::rex::Rex;
use crate::types::{Field, LogicalType, TimeDomain, TypeKind};

pub(super) fn join(join: &Join, left: &LogicalType, right: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    let (left, right) = (left.fields(), right.fields());
    side(&join.left, left)?;
    side(&join.right, right)?;
    let condition = join.condition.as_ref();
    both(join.join_type, [&join.left.keys, &join.right.keys], condition, [left, right], output)
}

pub(super) fn interval_join(
    join: &IntervalJoin,
    left: &LogicalType,
    right: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    let (left, right) = (left.fields(), right.fields());
    let bounds = &join.bounds;
    if bounds.time == TimeDomain::Rowtime {
        time_attribute(bounds.left_time, left)?;
        time_attribute(bounds.right_time, right)?;
    }
    timed(&join.join, [left, right], output)
}

pub(super) fn temporal_join(
    join: &TemporalJoin,
    left: &LogicalType,
    right: &LogicalType,
    output: &LogicalType,
) -> Result<(), Reason> {
    let (left, right) = (left.fields(), right.fields());
    if let Some(times) = join.row_times {
        time_attribute(times.left, left)?;
        time_attribute(times.right, right)?;
    }
    timed(&join.join, [left, right], output)
}

pub(super) fn lookup_join(join: &LookupJoin, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    let (input, output) = (input.fields(), output.fields());
    if !exist(&join.keys, input) {
        return Err(malformed("a lookup key does not exist"));
    }
    let carries = |(column, of_input): (&Field, &Field)| same_layout(&column.ty, &of_input.ty);
    if output.len() < input.len() || !output.iter().zip(input).all(carries) {
        return Err(malformed("the output of a lookup join does not begin with its input"));
    }
    check_condition(join.pre_filter.as_ref(), input)?;
    check_condition(join.condition.as_ref(), output)
}

/// Keys, condition and output of a join of two streams.
pub(super) fn timed(join: &JoinSpec, inputs: [&[Field]; 2], output: &LogicalType) -> Result<(), Reason> {
    let keys = [&join.left_keys[..], &join.right_keys[..]];
    for (keys, columns) in keys.into_iter().zip(inputs) {
        if !exist(keys, columns) {
            return Err(malformed("a key column of a join does not exist"));
        }
    }
    both(join.join_type, keys, join.condition.as_ref(), inputs, output)
}

/// Whether a column can be the row time: milliseconds.
fn time_attribute(column: usize, columns: &[Field]) -> Result<(), Reason> {
    match columns.get(column).map(|field| &field.ty.kind) {
        Some(TypeKind::Timestamp { precision: 0..=3, .. } | TypeKind::TimestampLtz { precision: 0..=3, .. }) => Ok(()),
        Some(_) => Err(malformed("the time column of a join is not a time attribute")),
        None => Err(malformed("the time column of a join does not exist")),
    }
}

/// Whether keys, condition and output fit the inputs. The key columns exist.
fn both(
    join_type: JoinType,
    [left_keys, right_keys]: [&[usize]; 2],
    condition: Option<&Rex>,
    [left, right]: [&[Field]; 2],
    output: &LogicalType,
) -> Result<(), Reason> {
    for (left_key, right_key) in left_keys.iter().zip(right_keys) {
        match (left.get(*left_key), right.get(*right_key)) {
            (Some(a), Some(b)) if same_layout(&a.ty, &b.ty) => {}
            _ => return Err(malformed("the key columns of a join have different types")),
        }
    }
    let both: Vec<Field> = left.iter().chain(right).cloned().collect();
    check_condition(condition, &both)?;
    let expected = match join_type {
        JoinType::Semi | JoinType::Anti => left,
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => both.as_slice(),
    };
    let result = output.fields();
    if expected.len() != result.len() || expected.iter().zip(result).any(|(a, b)| !same_layout(&a.ty, &b.ty)) {
        return Err(malformed("the output of a join has other columns than its inputs"));
    }
    Ok(())
}

fn side(side: &InputSide, columns: &[Field]) -> Result<(), Reason> {
    if !exist(&side.keys, columns) {
        return Err(malformed("a key column of a join does not exist"));
    }
    if !side.upsert_keys.iter().all(|key| exist(key, columns)) {
        return Err(malformed("a column of an upsert key does not exist"));
    }
    Ok(())
}
