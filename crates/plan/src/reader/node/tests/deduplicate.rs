//! Tests of changelog normalization and deduplication.

use super::*;
use crate::node::{Deduplicate, KeepRow};
use crate::rex::Rex;

#[test]
fn a_changelog_normalization_may_have_a_filter() -> TestResult {
    let read = |changes: &[(&str, Value)]| match changed("normalize_mb", "changelog-normalize", changes, &[])? {
        NodeKind::ChangelogNormalize(normalize) => Ok::<_, Box<dyn std::error::Error>>(normalize),
        other => panic!("{other:?}"),
    };
    let full = read(&[])?;
    assert!(matches!(full.filter, Some(Rex::Call { .. })));
    assert_eq!((full.unique_keys.as_slice(), full.generate_update_before), (&[0][..], false));
    assert_eq!((full.ttl_ms, full.mini_batch_size), (129_600_000, Some(100)));
    let missing = ["/filterCondition", "/configuration", "/state"].map(|pointer| (pointer, Value::Null));
    let bare = read(&missing)?;
    assert_eq!((bare.filter, bare.ttl_ms, bare.mini_batch_size), (None, 0, None));

    let graph = plan("normalize_mb")?;
    let node = first(&graph, "changelog-normalize")?;
    let cases = [
        ("/filterCondition/operands/0/operands/0/inputIndex", json!(3), "a column that does not exist"),
        ("/filterCondition", json!({"kind": "INPUT_REF", "inputIndex": 1, "type": "BIGINT"}), "not BOOLEAN"),
        ("/uniqueKeys", json!([3]), "a key column does not exist"),
    ];
    for (pointer, value, expected) in cases {
        let kind = NodeKind::ChangelogNormalize(read(&[(pointer, value)])?);
        let reason = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).err().ok_or("it fits")?;
        assert!(reason.to_string().contains(expected), "{reason}, not {expected}");
    }
    Ok(())
}

#[test]
fn a_deduplication_orders_by_the_first_row_time_attribute() -> TestResult {
    let graph = plan("dedup_mb")?;
    let node = first(&graph, "deduplicate")?;
    let NodeKind::Deduplicate(deduplicate) = &node.kind else { panic!("{:?}", node.kind) };
    let expected = Deduplicate {
        unique_keys: vec![0, 1],
        time: TimeDomain::Rowtime,
        keep: KeepRow::Last,
        output_insert_only: false,
        generate_update_before: false,
        generate_insert: true,
        compact_changes: false,
        ttl_ms: 0,
        mini_batch_size: Some(50_000),
    };
    assert_eq!(*deduplicate, expected);
    assert_eq!(deduplicate.rowtime_column(inputs(&graph, node)[0]), Some(5));
    assert_eq!(Deduplicate { time: TimeDomain::Proctime, ..expected }.rowtime_column(&node.output), None);
    Ok(())
}

#[test]
fn a_deduplication_by_row_time_needs_a_row_time_attribute() -> TestResult {
    let graph = plan("dedup")?;
    let node = first(&graph, "deduplicate")?;
    let row = |kind: &str, precision: u8| {
        let time = json!({"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": precision, "kind": kind});
        let fields = json!([{"name": "a", "fieldType": "BIGINT"}, {"name": "b", "fieldType": "BIGINT"},
            {"name": "t", "fieldType": time}]);
        read_type(&json!({"type": "ROW", "fields": fields})).map_err(|reason| reason.to_string())
    };
    let cases = [
        (row("ROWTIME", 3)?, None),
        (row("ROWTIME", 6)?, Some("finer than milliseconds")),
        (row("PROCTIME", 3)?, Some("no row-time attribute")),
    ];
    for (row, expected) in cases {
        let node = Node { output: row.clone(), ..node.clone() };
        let reason = check_node(&node, &[&row]).err().map(|reason| reason.to_string());
        assert_eq!(reason.is_some(), expected.is_some(), "{reason:?}");
        assert!(reason.unwrap_or_default().contains(expected.unwrap_or_default()));
    }
    Ok(())
}

#[test]
fn a_deduplication_has_flinks_defaults() -> TestResult {
    let missing = [("/configuration", Value::Null), ("/outputInsertOnly", Value::Null), ("/state", Value::Null)];
    let read = |changes: &[(&str, Value)], session: &[(&str, &str)]| match changed(
        "dedup",
        "deduplicate",
        changes,
        session,
    )? {
        NodeKind::Deduplicate(deduplicate) => Ok::<_, Box<dyn std::error::Error>>(deduplicate),
        other => panic!("{other:?}"),
    };
    let defaults = read(&missing, &[])?;
    assert!(defaults.generate_insert && !defaults.compact_changes && !defaults.output_insert_only);
    assert_eq!((defaults.ttl_ms, defaults.mini_batch_size), (0, None));
    let session = [
        ("table.exec.deduplicate.insert-update-after-sensitive-enabled", "false"),
        ("table.exec.deduplicate.mini-batch.compact-changes-enabled", "true"),
        ("table.exec.mini-batch.enabled", "true"),
        ("table.exec.mini-batch.size", "9"),
        ("table.exec.state.ttl", "2 h"),
    ];
    let set = read(&missing, &session)?;
    assert!(!set.generate_insert && set.compact_changes);
    assert_eq!((set.ttl_ms, set.mini_batch_size), (7_200_000, Some(9)));
    // What the plan keeps stands before the session.
    let kept = read(&[], &session)?;
    assert!(kept.generate_insert && !kept.compact_changes);
    assert_eq!((kept.ttl_ms, kept.mini_batch_size), (0, None));
    let first = read(&[("/keepLastRow", json!(false)), ("/outputInsertOnly", json!(true))], &[])?;
    assert_eq!((first.keep, first.output_insert_only), (KeepRow::First, true));
    let graph = plan("dedupfirst")?;
    let NodeKind::Deduplicate(planned) = &super::first(&graph, "deduplicate")?.kind else { panic!("not typed") };
    assert_eq!((planned.keep, planned.output_insert_only), (KeepRow::First, true));
    let bundled = [("/outputInsertOnly", json!(true))];
    assert_stock(&changed("dedup_mb", "deduplicate", &bundled, &[])?, "has no mini-batch form");
    let proctime = read(&[("/isRowtime", json!(false))], &[])?;
    assert_eq!(proctime.time, TimeDomain::Proctime);
    Ok(())
}
