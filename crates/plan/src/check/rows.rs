//! Operators that hand on rows as they are: changelog normalization, deduplication, Top-N, UNNEST.

use super::{check_condition, check_rex, exist, malformed, same_layout};
use crate::node::{ChangelogNormalize, Correlate, Deduplicate, Rank, RankRange, RankStrategy};
use crate::reason::Reason;
use crate::types::{Field, LogicalType, TimeDomain, TypeKind};

pub(super) fn normalize(node: &ChangelogNormalize, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    keys(&node.unique_keys, input)?;
    unchanged(input.fields(), output.fields())?;
    check_condition(node.filter.as_ref(), input.fields())
}

pub(super) fn deduplicate(node: &Deduplicate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    keys(&node.unique_keys, input)?;
    unchanged(input.fields(), output.fields())?;
    if node.time == TimeDomain::Proctime {
        return Ok(());
    }
    let column = node.rowtime_column(input).and_then(|column| input.fields().get(column));
    match column.map(|field| &field.ty.kind) {
        Some(TypeKind::Timestamp { precision: 0..=3, .. } | TypeKind::TimestampLtz { precision: 0..=3, .. }) => Ok(()),
        Some(_) => Err(malformed("a row-time attribute is finer than milliseconds")),
        None => Err(malformed("the input has no row-time attribute")),
    }
}

pub(super) fn rank(node: &Rank, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    let columns = input.fields();
    if !exist(&node.partition, columns) {
        return Err(malformed("a partition column does not exist"));
    }
    if node.order_by.iter().any(|field| field.column >= columns.len()) {
        return Err(malformed("a sort column does not exist"));
    }
    if let RankStrategy::UpdateFast { primary_keys } = &node.strategy {
        keys(primary_keys, input)?;
    }
    if let RankRange::Variable { end_column } = node.range {
        match columns.get(end_column).map(|column| &column.ty.kind) {
            Some(TypeKind::BigInt | TypeKind::Integer | TypeKind::SmallInt) => {}
            Some(_) => return Err(malformed("the end of a rank range is not BIGINT, INT or SMALLINT")),
            None => return Err(malformed("the column of the end of a rank range does not exist")),
        }
    }
    numbered(node.output_row_number, columns, output)
}

pub(super) fn correlate(node: &Correlate, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    check_rex(&node.collection, input.fields())?;
    let elements = node.element_columns().ok_or_else(|| malformed("UNNEST of no collection"))?;
    check_condition(node.condition.as_ref(), &elements)?;
    let columns: Vec<Field> = input.fields().iter().cloned().chain(elements).collect();
    unchanged(&columns, output.fields())
}

/// Whether the output is the input, with a row number behind it or not.
pub(super) fn numbered(row_number: bool, columns: &[Field], output: &LogicalType) -> Result<(), Reason> {
    if !row_number {
        return unchanged(columns, output.fields());
    }
    match output.fields().split_last() {
        Some((number, rest)) if number.ty.kind == TypeKind::BigInt => unchanged(columns, rest),
        _ => Err(malformed("the row number is not BIGINT")),
    }
}

pub(super) fn keys(keys: &[usize], input: &LogicalType) -> Result<(), Reason> {
    if exist(keys, input.fields()) { Ok(()) } else { Err(malformed("a key column does not exist")) }
}

pub(super) fn unchanged(input: &[Field], output: &[Field]) -> Result<(), Reason> {
    if input.len() == output.len() && input.iter().zip(output).all(|(a, b)| same_layout(&a.ty, &b.ty)) {
        return Ok(());
    }
    Err(malformed("the output type differs from the input type"))
}
