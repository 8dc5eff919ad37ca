//! Tests of OVER aggregates and sorting by time.

use super::*;
use crate::node::{Constant, OverAggregate, OverFrame, SortField, TemporalSort};
use crate::rex::Literal;
use crate::types::TypeKind;

fn over(kind: NodeKind) -> Result<OverAggregate, Box<dyn std::error::Error>> {
    match kind {
        NodeKind::OverAggregate(over) => Ok(over),
        other => Err(format!("{other:?}").into()),
    }
}

#[test]
fn windows_constants_and_the_retention_of_the_session_are_read() -> TestResult {
    let rows = over(changed("over_rows", "over-aggregate", &[], &[("table.exec.state.ttl", "36 h")])?)?;
    assert_eq!((rows.input_columns, rows.partition.as_slice(), rows.order, rows.nulls_last), (3, &[0][..], 2, false));
    assert_eq!((rows.frame, rows.ttl_ms, rows.unbounded_version), (OverFrame::Rows { preceding: 5 }, 129_600_000, 2));
    let names: Vec<_> = rows.calls.iter().map(|call| (call.args.as_slice(), call.need_retraction)).collect();
    assert_eq!(names, [(&[1][..], true), (&[1], true), (&[1], true)]);

    let range = over(changed("over_range_mb", "over-aggregate", &[], &[])?)?;
    assert_eq!((range.frame, range.ttl_ms), (OverFrame::Range { preceding_ms: 10_000 }, 0));

    let constants = over(changed("over_constants", "over-aggregate", &[], &[])?)?;
    let ty = LogicalType { kind: TypeKind::Integer, nullable: false };
    let constant = |value| Constant { value: Literal::Integer(value), ty: ty.clone() };
    assert_eq!(constants.constants, [constant(3), constant(1)]);
    assert_eq!(constants.calls.iter().map(|call| call.args.as_slice()).collect::<Vec<_>>(), [[3], [4]]);
    assert!(constants.calls.iter().all(|call| !call.need_retraction));
    assert_eq!(constants.frame, OverFrame::UnboundedRange);
    let rows = [("/overSpec/groups/0/isRows", json!(true)), ("/unboundedOverVersion", Value::Null)];
    let rows = over(changed("over_constants", "over-aggregate", &rows, &[])?)?;
    assert_eq!((rows.frame, rows.unbounded_version), (OverFrame::UnboundedRows, 1));
    Ok(())
}

#[test]
fn what_flink_refuses_of_an_over_window_is_not_typed() -> TestResult {
    let group = "/overSpec/groups/0";
    let cases = [
        ("/lowerBound/isPreceding", json!(false), "begins an OVER window on a stream at a preceding row only"),
        ("/lowerBound/kind", json!("CURRENT_ROW"), "begins an OVER window"),
        ("/upperBound/kind", json!("UNBOUNDED_FOLLOWING"), "ends an OVER window on a stream at the current row only"),
        ("/orderBy/fields/0/isAscending", json!(false), "in ascending order only"),
        ("/orderBy/fields", json!([]), "by a single column only"),
        ("/lowerBound/offset/inputIndex", json!(4), "not one of the constants"),
        ("/lowerBound/offset/inputIndex", json!(1), "not one of the constants"),
        ("/lowerBound/exclude", json!("TIES"), "the property `exclude` of a bound"),
        ("/aggCalls/0/argList", json!([9]), "does not exist"),
    ];
    for (pointer, value, expected) in cases {
        let pointer = format!("{group}{pointer}");
        assert_stock(&changed("over_rows", "over-aggregate", &[(&pointer, value)], &[])?, expected);
    }
    let decimal = json!([{"kind": "LITERAL", "value": "1.5", "type": "DECIMAL(2, 1) NOT NULL"}]);
    let negative = json!([{"kind": "LITERAL", "value": -1, "type": "INT NOT NULL"}]);
    let cases = [
        ("/overSpec/constants", decimal, "no DECIMAL bound"),
        ("/overSpec/constants", negative, "not a number from 0 on"),
        ("/overSpec/groups", json!([]), "of one window only"),
        ("/overSpec/hints", json!(1), "the property `hints` of `overSpec`"),
    ];
    for (pointer, value, expected) in cases {
        assert_stock(&changed("over_rows", "over-aggregate", &[(pointer, value)], &[])?, expected);
    }
    Ok(())
}

#[test]
fn the_columns_of_an_over_aggregate_must_exist() -> TestResult {
    let cases = [
        ("/overSpec/partition/fields", json!([9]), "a partition column does not exist"),
        ("/overSpec/groups/0/orderBy/fields/0/index", json!(7), "a sort column does not exist"),
        ("/overSpec/originalInputFields", json!(2), "another number of input columns"),
        ("/overSpec/groups/0/aggCalls/0/type", json!("INT"), "another type than its output column"),
        ("/overSpec/groups/0/aggCalls/0/filterArg", json!(1), "is not BOOLEAN"),
    ];
    let graph = plan("over_rows")?;
    let node = first(&graph, "over-aggregate")?;
    for (pointer, value, expected) in cases {
        let offset = ("/overSpec/groups/0/lowerBound/offset/inputIndex", json!(if value == json!(2) { 2 } else { 3 }));
        let kind = changed("over_rows", "over-aggregate", &[(pointer, value), offset], &[])?;
        let reason = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).err().ok_or("it fits")?;
        assert!(reason.to_string().contains(expected), "{reason}, not {expected}");
    }
    Ok(())
}

#[test]
fn a_sort_begins_with_a_time_attribute_in_ascending_order() -> TestResult {
    let graph = plan("temporal_sort")?;
    let node = first(&graph, "temporal-sort")?;
    let column = |column, ascending| SortField { column, ascending, nulls_last: !ascending };
    let sort = TemporalSort { order_by: vec![column(2, true), column(1, false), column(0, true)] };
    assert_eq!(sort.time(&node.output), Some(TimeDomain::Rowtime));
    assert_eq!(node.kind, NodeKind::TemporalSort(sort));
    let descending = ("/orderBy/fields/0/isAscending", json!(false));
    assert_stock(&changed("temporal_sort", "temporal-sort", &[descending], &[])?, "in ascending order only");
    for (index, expected) in [(1, "not a time attribute"), (9, "a sort column does not exist")] {
        let kind = changed("temporal_sort", "temporal-sort", &[("/orderBy/fields/0/index", json!(index))], &[])?;
        let reason = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).err().ok_or("it fits")?;
        assert!(reason.to_string().contains(expected), "{reason}, not {expected}");
    }
    Ok(())
}
