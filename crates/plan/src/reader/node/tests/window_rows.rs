//! Tests of Top-N, deduplication and joins per window.

use super::*;
use crate::node::{
    JoinType, KeepRow, ShiftZone, SortField, WindowDeduplicate, WindowJoin, WindowRank, WindowSpec, WindowingStrategy,
};

/// The rules of the session's zone.
const ZONE: (&str, &str) = ("streamfusion.time-zone.default", "+01:00|0|3600||");

type Failure = Box<dyn std::error::Error>;

fn rank(kind: NodeKind) -> Result<WindowRank, Failure> {
    match kind {
        NodeKind::WindowRank(rank) => Ok(rank),
        other => Err(format!("{other:?}").into()),
    }
}

fn deduplicate(kind: NodeKind) -> Result<WindowDeduplicate, Failure> {
    match kind {
        NodeKind::WindowDeduplicate(deduplicate) => Ok(deduplicate),
        other => Err(format!("{other:?}").into()),
    }
}

fn join(kind: NodeKind) -> Result<WindowJoin, Failure> {
    match kind {
        NodeKind::WindowJoin(join) => Ok(join),
        other => Err(format!("{other:?}").into()),
    }
}

#[test]
fn a_window_top_n_has_its_order_its_ranks_and_its_windows() -> TestResult {
    let graph = plan("wrank_offset")?;
    let node = first(&graph, "window-rank")?;
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));
    assert!(!node.kind.has_two_inputs());
    let rank = rank(node.kind.clone())?;
    assert_eq!((rank.partition, rank.start, rank.end, rank.output_row_number), (vec![0], 2, 4, true));
    let by = |column, ascending| SortField { column, ascending, nulls_last: false };
    assert_eq!(rank.order_by, [by(2, false), by(1, true)]);
    let hop = WindowSpec::Hopping { size_ms: 10_000, slide_ms: 2000, offset_ms: 0 };
    let attached = WindowingStrategy::WindowAttached { start: Some(3), end: 4 };
    assert_eq!((rank.windowing.window, rank.windowing.strategy), (hop, attached));
    assert_eq!((rank.windowing.is_rowtime, rank.windowing.zone), (true, ShiftZone::Utc));
    Ok(())
}

#[test]
fn windows_of_instants_begin_and_end_in_the_sessions_zone() -> TestResult {
    let read = |session: &[(&str, &str)]| changed("wdedup_ltz", "window-deduplicate", &[], session);
    assert_stock(&read(&[])?, "the rules of ");
    let node = deduplicate(read(&[ZONE])?)?;
    assert_eq!((&node.partition, node.order_key, node.keep), (&vec![0], 2, KeepRow::Last));
    assert!(matches!(&node.windowing.zone, ShiftZone::Zone(rules) if rules.offset_at(0).offset == 3600));
    let first = [("/keepLastRow", json!(false))];
    let node = deduplicate(changed("wdedup_ltz", "window-deduplicate", &first, &[ZONE])?)?;
    assert_eq!(node.keep, KeepRow::First);
    Ok(())
}

#[test]
fn the_first_row_of_a_window_is_read() -> TestResult {
    let graph = plan("wdedup_first")?;
    let node = first(&graph, "window-deduplicate")?;
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));
    let node = deduplicate(node.kind.clone())?;
    assert_eq!((node.partition, node.order_key, node.keep), (vec![0], 2, KeepRow::First));
    Ok(())
}

#[test]
fn a_window_join_has_two_inputs_with_windows() -> TestResult {
    let graph = plan("wjoin_left")?;
    let node = first(&graph, "window-join")?;
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));
    assert!(node.kind.has_two_inputs());
    let left = join(node.kind.clone())?;
    assert_eq!(
        (left.join.join_type, &left.join.left_keys, &left.join.right_keys),
        (JoinType::Left, &vec![0, 1], &vec![0, 1])
    );
    assert_eq!((left.join.filter_nulls, left.join.condition), (vec![false, true], None));
    let attached = WindowingStrategy::WindowAttached { start: Some(5), end: 6 };
    assert_eq!((left.left.strategy, left.right.strategy), (attached, attached));

    let graph = plan("wjoin_anti")?;
    let node = first(&graph, "window-join")?;
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));
    let anti = join(node.kind.clone())?;
    assert_eq!((anti.join.join_type, anti.join.condition.is_some()), (JoinType::Anti, true));
    Ok(())
}

#[test]
fn what_flink_refuses_over_windows_is_not_typed() -> TestResult {
    let proctime = json!({"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision": 3, "kind": "PROCTIME"});
    let time_attribute = json!({
        "strategy": "TimeAttribute",
        "window": {"type": "TumblingWindow", "size": "PT10S"},
        "timeAttributeType": {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"},
        "timeAttributeIndex": 3,
        "isRowtime": true
    });
    let utc = [("table.local-time-zone", "UTC")];
    let cases = [
        ("window-rank", "/rankType", json!("RANK"), "Flink does not support RANK"),
        ("window-rank", "/rankRange/end", json!(1), "a window Top-N without a rank"),
        ("window-rank", "/rankRange", json!({"type": "Variable", "endIndex": 0}), "whose last rank is not constant"),
        ("window-rank", "/windowing", time_attribute.clone(), "only over rows that come with their window"),
        ("window-rank", "/windowing", Value::Null, "`windowing` is missing"),
        ("window-rank", "/sortSpec/fields/0/index", json!(-1), "`index` is not a column number"),
        ("window-rank", "/state", json!([]), "its property `state` is not known here"),
        ("window-join", "/leftWindowing", time_attribute, "only over rows that come with their window"),
        ("window-join", "/joinSpec/filterNulls", json!([]), "are not pairs"),
    ];
    for (node, pointer, value, expected) in cases {
        let name = if node == "window-rank" { "wrank_offset" } else { "wjoin_anti" };
        assert_stock(&changed(name, node, &[(pointer, value)], &utc)?, expected);
    }
    let of_proctime = [("/windowing/timeAttributeType", proctime), ("/windowing/isRowtime", json!(false))];
    assert_stock(&changed("wrank_offset", "window-rank", &of_proctime, &[ZONE])?, "only over windows of event time");
    Ok(())
}

#[test]
fn columns_of_windows_that_do_not_exist_are_refused() -> TestResult {
    let cases = [
        ("wrank_offset", "window-rank", "/windowing/windowEnd", json!(0), "the end of the window is not a timestamp"),
        ("wrank_offset", "window-rank", "/windowing/windowEnd", json!(9), "the end of the window is not a timestamp"),
        ("wrank_offset", "window-rank", "/partitionSpec/fields/0", json!(9), "a key column does not exist"),
        ("wrank_offset", "window-rank", "/sortSpec/fields/0/index", json!(9), "a sort column does not exist"),
        ("wrank_offset", "window-rank", "/outputRowNumber", json!(false), "the output type differs"),
        (
            "wjoin_anti",
            "window-join",
            "/rightWindowing/windowEnd",
            json!(0),
            "the end of the window is not a timestamp",
        ),
        ("wjoin_anti", "window-join", "/joinSpec/leftKeys/0", json!(9), "a key column of a join does not exist"),
        ("wdedup_ltz", "window-deduplicate", "/orderKey", json!(0), "rows are ordered by a column that is not"),
    ];
    for (name, type_name, pointer, value, expected) in cases {
        let graph = plan(name)?;
        let node = first(&graph, type_name)?;
        let kind = changed(name, type_name, &[(pointer, value)], &[ZONE])?;
        let node = Node { kind, ..node.clone() };
        let reason = check_node(&node, &inputs(&graph, &node)).err().ok_or_else(|| format!("{pointer} passes"))?;
        assert!(reason.to_string().contains(expected), "{pointer}: {reason}");
    }
    Ok(())
}
