//! Whether a node fits its inputs: column numbers in range, types that agree.
//!
//! A plan that Flink wrote always passes. One that was edited by hand must not make the engine read a column that does not
//! exist, or as another type than it has.

mod aggregate;
mod join;
mod over;
mod rows;
mod time;
mod window;
mod window_rows;

use crate::node::{Calc, Distribution, Node, NodeKind};
use crate::reason::Reason;
use crate::rex::Rex;
use crate::types::{Field, LogicalType, TypeKind};

/// Fails if `node` does not fit rows of the types `inputs`, in input order.
pub fn check_node(node: &Node, inputs: &[&LogicalType]) -> Result<(), Reason> {
    if let Some(ty) = inputs.iter().find(|ty| !matches!(ty.kind, TypeKind::Row(_))) {
        return Err(match &ty.kind {
            TypeKind::Other(text) if text.is_empty() => Reason::new("the type of its input cannot be read"),
            _ => malformed("the type of its input is not a ROW"),
        });
    }
    let Some(input) = inputs.first() else {
        return Err(malformed("the operator has no input"));
    };
    let output = &node.output;
    match &node.kind {
        NodeKind::Stock(_) => Ok(()),
        NodeKind::Calc(calc) => check_calc(calc, input, output),
        NodeKind::Expand(expand) => {
            expand.projects.iter().try_for_each(|projection| check_projection(projection, input, output))
        }
        NodeKind::Correlate(correlate) => rows::correlate(correlate, input, output),
        NodeKind::GroupAggregate(aggregate) => aggregate::group(aggregate, input, output),
        NodeKind::LocalGroupAggregate(aggregate) => aggregate::local(aggregate, input, output),
        NodeKind::GlobalGroupAggregate(aggregate) => aggregate::global(aggregate, input, output),
        NodeKind::IncrementalGroupAggregate(aggregate) => aggregate::incremental(aggregate, input, output),
        NodeKind::WindowAggregate(aggregate) => window::window_aggregate(aggregate, input, output),
        NodeKind::LocalWindowAggregate(aggregate) => window::local(aggregate, input, output),
        NodeKind::GlobalWindowAggregate(aggregate) => window::global(aggregate, input, output),
        NodeKind::GroupWindowAggregate(aggregate) => window::group_window(aggregate, input, output),
        NodeKind::ChangelogNormalize(normalize) => rows::normalize(normalize, input, output),
        NodeKind::Deduplicate(deduplicate) => rows::deduplicate(deduplicate, input, output),
        NodeKind::Rank(rank) | NodeKind::SortLimit(rank) | NodeKind::Limit(rank) => rows::rank(rank, input, output),
        NodeKind::WindowTableFunction(function) => window::table_function(function, input, output),
        NodeKind::WatermarkAssigner(assigner) => time::watermark_assigner(assigner, input, output),
        NodeKind::Join(join) => match inputs {
            [left, right] => join::join(join, left, right, output),
            _ => Err(malformed("a join has not two inputs")),
        },
        NodeKind::WindowRank(rank) => window_rows::rank(rank, input, output),
        NodeKind::WindowDeduplicate(deduplicate) => window_rows::deduplicate(deduplicate, input, output),
        NodeKind::WindowJoin(join) => match inputs {
            [left, right] => window_rows::join(join, left, right, output),
            _ => Err(malformed("a join has not two inputs")),
        },
        NodeKind::IntervalJoin(join) => match inputs {
            [left, right] => join::interval_join(join, left, right, output),
            _ => Err(malformed("a join has not two inputs")),
        },
        NodeKind::TemporalJoin(join) => match inputs {
            [left, right] => join::temporal_join(join, left, right, output),
            _ => Err(malformed("a join has not two inputs")),
        },
        NodeKind::LookupJoin(join) => join::lookup_join(join, input, output),
        NodeKind::OverAggregate(over) => over::aggregate(over, input, output),
        NodeKind::TemporalSort(sort) => over::temporal_sort(sort, input, output),
        NodeKind::Exchange(Distribution::Hash(keys)) if !exist(keys, input.fields()) => {
            Err(malformed("a key column of the exchange does not exist"))
        }
        NodeKind::Union | NodeKind::DropUpdateBefore | NodeKind::Exchange(_) | NodeKind::MiniBatchAssigner(_) => {
            if inputs.iter().all(|input| same_layout(input, output)) {
                Ok(())
            } else {
                Err(malformed("the output type differs from the input type"))
            }
        }
    }
}

/// Whether values of both types are represented alike: the same but for nullability, names, lengths and time attributes.
pub fn same_layout(a: &LogicalType, b: &LogicalType) -> bool {
    match (&a.kind, &b.kind) {
        (TypeKind::Char(_) | TypeKind::VarChar(_), TypeKind::Char(_) | TypeKind::VarChar(_))
        | (TypeKind::Binary(_) | TypeKind::VarBinary(_), TypeKind::Binary(_) | TypeKind::VarBinary(_))
        | (TypeKind::Time(_), TypeKind::Time(_)) => true,
        (TypeKind::Timestamp { precision: a, .. }, TypeKind::Timestamp { precision: b, .. })
        | (TypeKind::TimestampLtz { precision: a, .. }, TypeKind::TimestampLtz { precision: b, .. }) => a == b,
        (TypeKind::Row(a), TypeKind::Row(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_layout(&a.ty, &b.ty))
        }
        (TypeKind::Array(a), TypeKind::Array(b)) | (TypeKind::Multiset(a), TypeKind::Multiset(b)) => same_layout(a, b),
        (TypeKind::Map(ak, av), TypeKind::Map(bk, bv)) => same_layout(ak, bk) && same_layout(av, bv),
        (a, b) => a == b,
    }
}

fn malformed(what: &str) -> Reason {
    Reason::new(format!("the plan is malformed: {what}"))
}

fn check_calc(calc: &Calc, input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    check_projection(&calc.projection, input, output)?;
    check_condition(calc.condition.as_ref(), input.fields())
}

fn check_projection(projection: &[Rex], input: &LogicalType, output: &LogicalType) -> Result<(), Reason> {
    if projection.len() != output.fields().len() {
        return Err(malformed("the projection has another number of columns than the output"));
    }
    for (rex, field) in projection.iter().zip(output.fields()) {
        if rex.ty().is_some_and(|ty| !same_layout(ty, &field.ty)) {
            return Err(malformed("a projected expression has another type than its output column"));
        }
    }
    projection.iter().try_for_each(|rex| check_rex(rex, input.fields()))
}

fn check_condition(condition: Option<&Rex>, columns: &[Field]) -> Result<(), Reason> {
    let Some(rex) = condition else { return Ok(()) };
    if rex.ty().is_some_and(|ty| ty.kind != TypeKind::Boolean) {
        return Err(malformed("the condition is not BOOLEAN"));
    }
    check_rex(rex, columns)
}

fn check_rex(rex: &Rex, columns: &[Field]) -> Result<(), Reason> {
    match rex {
        Rex::InputRef { index, ty } => match columns.get(*index) {
            Some(field) if same_layout(&field.ty, ty) => Ok(()),
            Some(_) => Err(malformed("an expression reads a column as another type than it has")),
            None => Err(malformed("an expression reads a column that does not exist")),
        },
        Rex::Call { operands, .. } => operands.iter().try_for_each(|operand| check_rex(operand, columns)),
        Rex::Search { operand, .. } => check_rex(operand, columns),
        Rex::FieldAccess { expr, .. } => check_rex(expr, columns),
        Rex::Literal { .. } | Rex::Unknown { .. } => Ok(()),
    }
}

/// Whether all these columns exist.
fn exist(columns: &[usize], fields: &[Field]) -> bool {
    columns.iter().all(|column| *column < fields.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reader::read_type;

    #[test]
    fn a_layout_ignores_what_does_not_change_the_values() -> Result<(), Reason> {
        let rowtime = json!({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"});
        let cases = [
            (json!("INT"), json!("INT NOT NULL"), true),
            (json!("CHAR(3)"), json!("VARCHAR(9)"), true),
            (json!("TIME(0)"), json!("TIME(3)"), true),
            (rowtime, json!("TIMESTAMP(3)"), true),
            (json!("ROW<`a` INT NOT NULL>"), json!("ROW<`b` INT>"), true),
            (json!("INT"), json!("BIGINT"), false),
            (json!("TIMESTAMP(3)"), json!("TIMESTAMP(6)"), false),
            (json!("TIMESTAMP(3)"), json!("TIMESTAMP_LTZ(3)"), false),
            (json!("DECIMAL(5, 2)"), json!("DECIMAL(5, 3)"), false),
            (json!("CHAR(3)"), json!("BINARY(3)"), false),
            (json!("ROW<`a` INT>"), json!("ROW<`a` INT, `b` INT>"), false),
        ];
        for (a, b, same) in cases {
            assert_eq!(same_layout(&read_type(&a)?, &read_type(&b)?), same, "{a} {b}");
        }
        Ok(())
    }
}
