//! Tests of windowing and of aggregates over windows.

use super::*;
use crate::node::{
    LocalWindowAggregate, ShiftZone, WindowAggregate, WindowProperty, WindowSpec, Windowing, WindowingStrategy,
};
use crate::types::{TimeAttribute, TypeKind};
use crate::zone::ZoneRules;

const ZONE: (&str, &str) = ("streamfusion.time-zone.America/Los_Angeles", "A|1|-100||");

fn windowing(kind: &NodeKind) -> Result<&Windowing, Box<dyn std::error::Error>> {
    match kind {
        NodeKind::WindowAggregate(node) => Ok(&node.windowing),
        NodeKind::LocalWindowAggregate(node) => Ok(&node.windowing),
        NodeKind::GlobalWindowAggregate(node) => Ok(&node.windowing),
        other => Err(format!("{other:?}").into()),
    }
}

#[test]
fn an_aggregate_in_one_phase_has_windows_and_their_properties() -> TestResult {
    let graph = plan("win_tumble_offset_one")?;
    let node = first(&graph, "window-aggregate")?;
    let NodeKind::WindowAggregate(WindowAggregate { grouping, calls, windowing, properties, need_retraction }) =
        &node.kind
    else {
        panic!("{:?}", node.kind)
    };
    assert_eq!((grouping.as_slice(), calls.len(), *need_retraction), (&[0][..], 1, false));
    assert_eq!(properties, &[WindowProperty::Start, WindowProperty::End, WindowProperty::Rowtime]);
    let attribute = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    let expected = Windowing {
        strategy: WindowingStrategy::TimeAttribute { column: 3 },
        window: WindowSpec::Tumbling { size_ms: 600_000, offset_ms: -60_000 },
        time_attribute: LogicalType { kind: attribute, nullable: true },
        is_rowtime: true,
        zone: ShiftZone::Utc,
    };
    assert_eq!(windowing, &expected);
    assert_eq!(windowing.columns(), [3]);
    Ok(())
}

#[test]
fn the_phases_of_an_aggregate_hand_on_slices_or_windows() -> TestResult {
    let graph = plan("win_wagg_agg")?;
    let locals = nodes(&graph, "local-window-aggregate");
    let globals = nodes(&graph, "global-window-aggregate");
    let strategies = |nodes: &[&Node]| nodes.iter().map(|node| Ok(windowing(&node.kind)?.strategy)).collect();
    let local: Result<Vec<_>, Box<dyn std::error::Error>> = strategies(&locals);
    let global: Result<Vec<_>, Box<dyn std::error::Error>> = strategies(&globals);
    let attached = |start, end| WindowingStrategy::WindowAttached { start, end };
    assert_eq!(local?, [WindowingStrategy::TimeAttribute { column: 1 }, attached(Some(0), 1)]);
    assert_eq!(global?, [WindowingStrategy::SliceAttached { end: 2 }, attached(None, 1)]);
    let changed = changed("win_hop_sum", "local-window-aggregate", &[("/needRetraction", Value::Null)], &[])?;
    let NodeKind::LocalWindowAggregate(LocalWindowAggregate { need_retraction, windowing, .. }) = changed else {
        panic!("{changed:?}")
    };
    assert!(!need_retraction);
    assert_eq!(windowing.window, WindowSpec::Hopping { size_ms: 10_000, slide_ms: 2_000, offset_ms: 0 });
    Ok(())
}

#[test]
fn cumulative_and_session_windows_are_read() -> TestResult {
    let cumulate = plan("win_cumulate")?;
    let windowing_of = |graph: &Graph, name: &str| Ok(windowing(&first(graph, name)?.kind)?.window.clone());
    let window: Result<_, Box<dyn std::error::Error>> = windowing_of(&cumulate, "global-window-aggregate");
    assert_eq!(window?, WindowSpec::Cumulative { max_size_ms: 10_000, step_ms: 2_000, offset_ms: 0 });
    let window: Result<_, Box<dyn std::error::Error>> = windowing_of(&plan("win_session")?, "window-aggregate");
    assert_eq!(window?, WindowSpec::Session { gap_ms: 10_000, partition: vec![0] });
    Ok(())
}

#[test]
fn only_instants_are_shifted_by_the_zone_of_the_node_before_that_of_the_session() -> TestResult {
    let zone = |name: &str, changes: &[(&str, Value)], session: &[(&str, &str)]| {
        let kind = changed(name, "window-aggregate", changes, session)?;
        Ok::<_, Box<dyn std::error::Error>>(windowing(&kind)?.zone.clone())
    };
    let rules = ZoneRules::read(ZONE.1).map_err(|reason| reason.to_string())?;
    let session = [ZONE, ("table.local-time-zone", "UTC")];
    assert_eq!(zone("win_tumble_ltz_one", &[], &session)?, ShiftZone::Zone(rules.clone()));
    assert_eq!(zone("win_tumble_offset_one", &[], &[])?, ShiftZone::Utc);
    let without = [("/configuration", Value::Null)];
    assert_eq!(zone("win_tumble_ltz_one", &without, &session)?, ShiftZone::Zone(ZoneRules::fixed("UTC", 0)));
    let of_default = [("streamfusion.time-zone.default", ZONE.1)];
    assert_eq!(zone("win_tumble_ltz_one", &without, &of_default)?, ShiftZone::Zone(rules.clone()));
    // processing time is an instant, too
    assert_eq!(zone("win_tumble_proc", &[], &of_default)?, ShiftZone::Zone(rules));
    for session in [&[][..], &[(ZONE.0, "nonsense")]] {
        let kind = changed("win_tumble_ltz_one", "window-aggregate", &[], session)?;
        assert_stock(&kind, "the rules of ");
    }
    Ok(())
}

#[test]
fn windows_of_processing_time_go_by_no_column() -> TestResult {
    let zone = [("streamfusion.time-zone.default", "U|0|0||")];
    let kind = changed("win_tumble_proc", "window-aggregate", &[], &zone)?;
    let windowing = windowing(&kind)?;
    assert_eq!((windowing.is_rowtime, windowing.columns()), (false, vec![]));
    Ok(())
}

#[test]
fn windowing_that_is_not_known_or_refused_by_flink_is_not_typed() -> TestResult {
    let window = |window: Value| ("/windowing/window", window);
    let cases = [
        ("/windowing/strategy", json!("X"), "the windowing strategy X is not known here"),
        ("/windowing/sliceEnd", json!(1), "the property `sliceEnd` of `windowing` is not known here"),
        ("/windowing/isRowtime", json!(false), "`isRowtime` of `windowing`"),
        ("/windowing/timeAttributeType", json!("BIGINT"), "no time attribute"),
        ("/windowing/timeAttributeIndex", json!(-1), "`timeAttributeIndex` is not a column number"),
        ("/windowing/window/gap", json!("PT1S"), "the property `gap` of `window` is not known here"),
        ("/windowing/window/size", json!("PT0S"), "`size` of a window is not positive"),
        ("/windowing/window/size", json!("PT60S"), "an offset as large as its size"),
        ("/windowing/window/size", json!("10 s"), "is not a duration"),
        ("/namedWindowProperties/0/property/kind", json!("X"), "the window property X is not known here"),
    ];
    for (pointer, value, expected) in cases {
        assert_stock(&changed("win_tumble_offset_one", "window-aggregate", &[(pointer, value)], &[])?, expected);
    }
    let windows = [
        (window(json!({"type": "X"})), "the window X is not known here"),
        (
            window(json!({"type": "CumulativeWindow", "maxSize": "PT5S", "step": "PT2S"})),
            "whose size is not a multiple of its step",
        ),
    ];
    for (change, expected) in windows {
        assert_stock(&changed("win_tumble_offset_one", "window-aggregate", &[change], &[])?, expected);
    }
    let attribute = json!({"strategy": "TimeAttribute", "timeAttributeIndex": 2});
    let mut windowing = json!({"window": {"type": "TumblingWindow", "size": "PT1S"}});
    windowing["timeAttributeType"] = json!({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"});
    for (key, value) in attribute.as_object().into_iter().flatten() {
        windowing[key] = value.clone();
    }
    let kind = changed("win_hop_sum", "global-window-aggregate", &[("/windowing", windowing)], &[])?;
    assert_stock(&kind, "a global aggregate assigns windows");
    Ok(())
}

#[test]
fn aggregates_over_windows_fit_their_columns() -> TestResult {
    let cases = [
        (
            "win_tumble_offset_one",
            "window-aggregate",
            "/windowing/timeAttributeIndex",
            json!(0),
            "the time of a window",
        ),
        (
            "win_tumble_offset_one",
            "window-aggregate",
            "/windowing/timeAttributeIndex",
            json!(9),
            "the time of a window",
        ),
        ("win_tumble_offset_one", "window-aggregate", "/grouping", json!([3]), "a grouping column"),
        ("win_tumble_offset_one", "window-aggregate", "/namedWindowProperties", json!([]), "number of columns"),
        ("win_tumble_offset_one", "window-aggregate", "/aggCalls/0/argList", json!([7]), "an argument"),
        ("win_hop_sum", "global-window-aggregate", "/windowing/sliceEnd", json!(4), "the time of a window"),
        ("win_hop_sum", "global-window-aggregate", "/aggCalls/0/argList", json!([7]), "an argument"),
        ("win_hop_sum", "local-window-aggregate", "/windowing/timeAttributeIndex", json!(1), "the time of a window"),
    ];
    for (name, type_name, pointer, value, expected) in cases {
        let graph = plan(name)?;
        let node = first(&graph, type_name)?;
        let kind = changed(name, type_name, &[(pointer, value)], &[])?;
        let reason = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).err().ok_or("it fits")?;
        assert!(reason.to_string().contains(expected), "{reason}, not {expected}");
    }
    Ok(())
}
