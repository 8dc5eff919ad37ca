//! Joins.

use super::{check_condition, exist, malformed, same_layout};
use crate::node::{InputSide, Join, JoinType};
use crate::reason::Reason;
use crate::types::{Field, LogicalType};

pub(super) fn join(join: &Join, left: &LogicalType, right: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    let (left, right) = (left.fields(), right.fields());
    side(&join.left, left)?;
    side(&join.right, right)?;
    for (left_key, right_key) in join.left.keys.iter().zip(&join.right.keys) {
        match (left.get(*left_key), right.get(*right_key)) {
            (Some(a), Some(b)) if same_layout(&a.ty, &b.ty) => {}
            _ => return Err(malformed("the key columns of a join have different types")),
        }
    }
    let both: Vec<Field> = left.iter().chain(right).cloned().collect();
    check_condition(join.condition.as_ref(), &both)?;
    let expected = match join.join_type {
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
