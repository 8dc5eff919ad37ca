//! Tests of interval joins and temporal joins.

use super::*;
use crate::node::{IntervalJoin, JoinSpec, JoinType, RowTimes, TemporalJoin, WindowBounds};

fn interval(kind: NodeKind) -> Result<IntervalJoin, Box<dyn std::error::Error>> {
    match kind {
        NodeKind::IntervalJoin(join) => Ok(join),
        other => Err(format!("{other:?}").into()),
    }
}

fn temporal(kind: NodeKind) -> Result<TemporalJoin, Box<dyn std::error::Error>> {
    match kind {
        NodeKind::TemporalJoin(join) => Ok(join),
        other => Err(format!("{other:?}").into()),
    }
}

#[test]
fn an_interval_join_has_its_bounds_in_milliseconds() -> TestResult {
    let graph = plan("ijoin_left")?;
    let node = first(&graph, "interval-join")?;
    assert!(node.kind.has_two_inputs());
    let join = interval(node.kind.clone())?;
    let JoinSpec { join_type, left_keys, right_keys, filter_nulls, condition } = &join.join;
    assert_eq!((*join_type, left_keys, right_keys), (JoinType::Left, &vec![0], &vec![0]));
    assert_eq!((filter_nulls, condition.is_some()), (&vec![true], true));
    let expected = WindowBounds {
        time: TimeDomain::Rowtime,
        left_lower_ms: -10_000,
        left_upper_ms: 5000,
        left_time: 2,
        right_time: 2,
    };
    assert_eq!((join.bounds, join.min_clean_up_interval_ms), (expected, 0));
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));

    let graph = plan("ijoin_proc")?;
    let node = first(&graph, "interval-join")?;
    let join = interval(node.kind.clone())?;
    assert_eq!((join.bounds.time, join.join.condition), (TimeDomain::Proctime, None));
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));
    Ok(())
}

#[test]
fn the_clean_up_interval_comes_from_the_session() -> TestResult {
    let option = "table.exec.interval-join.min-cleanup-interval";
    let read = |value| changed("ijoin_left", "interval-join", &[], &[(option, value)]);
    assert_eq!(interval(read("2 min")?)?.min_clean_up_interval_ms, 120_000);
    assert_stock(&read("soon")?, "is not a duration");
    Ok(())
}

#[test]
fn a_temporal_join_has_the_times_of_both_inputs_and_the_sessions_retention() -> TestResult {
    let graph = plan("tjoin_left")?;
    let node = first(&graph, "temporal-join")?;
    assert!(node.kind.has_two_inputs());
    let join = temporal(node.kind.clone())?;
    assert_eq!((join.join.join_type, join.join.condition.is_some()), (JoinType::Left, true));
    assert_eq!((join.row_times, join.retention_ms), (Some(RowTimes { left: 2, right: 2 }), 0));
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));
    let session = [("table.exec.state.ttl", "36 h")];
    assert_eq!(temporal(changed("tjoin_left", "temporal-join", &[], &session)?)?.retention_ms, 129_600_000);
    let function = [
        ("/isTemporalFunctionJoin", json!(true)),
        ("/joinSpec/joinType", json!("INNER")),
        ("/rightTimeAttributeIndex", json!(-1)),
    ];
    assert_eq!(temporal(changed("tjoin_left", "temporal-join", &function, &[])?)?.row_times, None);
    Ok(())
}

#[test]
fn a_timed_join_with_anything_unknown_or_wrong_is_not_typed() -> TestResult {
    let cases = [
        ("/intervalJoinSpec/joinSpec/joinType", json!("SEMI"), "no interval join of type SEMI or ANTI"),
        ("/intervalJoinSpec/joinSpec/leftKeys", json!([0, 1]), "are not pairs"),
        ("/intervalJoinSpec/hint", json!(1), "the property `hint` of `intervalJoinSpec`"),
        ("/intervalJoinSpec/windowBounds/lateness", json!(1), "the property `lateness` of `windowBounds`"),
        ("/intervalJoinSpec/windowBounds/isEventTime", json!("yes"), "`isEventTime` is not true or false"),
        ("/intervalJoinSpec/windowBounds/leftLowerBound", json!(0.5), "`leftLowerBound` is not an integer"),
        ("/intervalJoinSpec/windowBounds/leftTimeIndex", json!(-1), "`leftTimeIndex` is not a column number"),
    ];
    for (pointer, value, expected) in cases {
        assert_stock(&changed("ijoin_left", "interval-join", &[(pointer, value)], &[])?, expected);
    }
    let cases = [
        ("/joinSpec/joinType", json!("FULL"), "no temporal join of this type"),
        ("/isTemporalFunctionJoin", json!(true), "no temporal join of this type"),
        ("/isTemporalFunctionJoin", Value::Null, "`isTemporalFunctionJoin` is missing"),
        ("/rightTimeAttributeIndex", json!(-1), "has no time of its right input"),
        ("/leftTimeAttributeIndex", json!(-1), "`leftTimeAttributeIndex` is not a column number"),
    ];
    for (pointer, value, expected) in cases {
        assert_stock(&changed("tjoin_left", "temporal-join", &[(pointer, value)], &[])?, expected);
    }
    Ok(())
}

#[test]
fn the_columns_of_a_timed_join_must_exist_and_agree() -> TestResult {
    let cases = [
        ("/intervalJoinSpec/joinSpec/rightKeys", json!([3]), "a key column of a join does not exist"),
        ("/intervalJoinSpec/joinSpec/rightKeys", json!([2]), "different types"),
        ("/intervalJoinSpec/windowBounds/leftTimeIndex", json!(3), "the time column of a join does not exist"),
        ("/intervalJoinSpec/windowBounds/rightTimeIndex", json!(1), "is not a time attribute"),
    ];
    let graph = plan("ijoin_left")?;
    let node = first(&graph, "interval-join")?;
    for (pointer, value, expected) in cases {
        let kind = changed("ijoin_left", "interval-join", &[(pointer, value)], &[])?;
        let result = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node));
        assert!(result.is_err_and(|reason| reason.to_string().contains(expected)), "{expected}");
    }
    assert!(check_node(node, &inputs(&graph, node)[..1]).is_err());
    let graph = plan("tjoin_left")?;
    let node = first(&graph, "temporal-join")?;
    let cases = [
        ("/joinSpec/leftKeys", json!([3]), "a key column of a join does not exist"),
        ("/leftTimeAttributeIndex", json!(0), "is not a time attribute"),
    ];
    for (pointer, value, expected) in cases {
        let kind = changed("tjoin_left", "temporal-join", &[(pointer, value)], &[])?;
        let result = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node));
        assert!(result.is_err_and(|reason| reason.to_string().contains(expected)), "{expected}");
    }
    assert!(check_node(node, &inputs(&graph, node)[..1]).is_err());
    Ok(())
}
