//! Tests of GROUP BY with a window in it.

use super::*;
use crate::node::{GroupWindowAggregate, ShiftZone, WindowProperty, WindowSpec};

const NODE: &str = "group-window-aggregate";

fn aggregate(name: &str) -> Result<GroupWindowAggregate, Box<dyn std::error::Error>> {
    match &first(&plan(name)?, NODE)?.kind {
        NodeKind::GroupWindowAggregate(aggregate) => Ok(aggregate.clone()),
        other => Err(format!("{other:?}").into()),
    }
}

#[test]
fn windows_are_read_with_their_time() -> TestResult {
    let tumble = aggregate("legacy_retract")?;
    assert_eq!(tumble.window, WindowSpec::Tumbling { size_ms: 10_000, offset_ms: 0 });
    assert_eq!((tumble.time_column, tumble.time, tumble.zone), (1, TimeDomain::Rowtime, ShiftZone::Utc));
    assert_eq!((tumble.grouping.as_slice(), tumble.need_retraction), (&[0][..], true));
    assert!(tumble.calls.iter().all(|call| call.need_retraction));
    let hop = aggregate("legacy_hop")?;
    assert_eq!(hop.window, WindowSpec::Hopping { size_ms: 10_000, slide_ms: 3_000, offset_ms: 0 });
    let properties = [WindowProperty::Start, WindowProperty::End, WindowProperty::Rowtime, WindowProperty::Proctime];
    assert_eq!((hop.properties.as_slice(), hop.need_retraction), (&properties[..], false));
    let session = aggregate("legacy_session")?;
    assert_eq!(session.window, WindowSpec::Session { gap_ms: 10_000, partition: Vec::new() });
    Ok(())
}

#[test]
fn windows_of_processing_time_need_the_zone() -> TestResult {
    let attribute =
        json!({"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "nullable": false, "precision": 3, "kind": "PROCTIME"});
    let changes = [("/window/timeField/fieldType", attribute)];
    assert_stock(&changed("legacy_hop", NODE, &changes, &[])?, "time zone");
    let utc = [changes.as_slice(), &[("/configuration/table.local-time-zone", json!("UTC"))]].concat();
    let kind = changed("legacy_hop", NODE, &utc, &[])?;
    assert!(
        matches!(&kind, NodeKind::GroupWindowAggregate(aggregate) if aggregate.time == TimeDomain::Proctime),
        "{kind:?}"
    );
    Ok(())
}

#[test]
fn what_changes_when_windows_go_out_is_a_reason() -> TestResult {
    for option in ["table.exec.emit.early-fire.enabled", "table.exec.emit.late-fire.enabled"] {
        assert_stock(&changed("legacy_hop", NODE, &[], &[(option, "true")])?, option);
    }
    let rows = [("/window/isTimeWindow", json!(false)), ("/window/size", json!(3))];
    assert_stock(&changed("legacy_retract", NODE, &rows, &[])?, "so many rows");
    assert_stock(&changed("legacy_hop", NODE, &[("/window/size", json!("PT0S"))], &[])?, "not positive");
    assert_stock(&changed("legacy_hop", NODE, &[("/window/more", json!(1))], &[])?, "`more`");
    assert_stock(&changed("legacy_session", NODE, &[("/window/kind", json!("COUNT"))], &[])?, "COUNT");
    let regular = [("/window/timeField/fieldType", json!("TIMESTAMP(3)"))];
    assert_stock(&changed("legacy_hop", NODE, &regular, &[])?, "no time attribute");
    Ok(())
}

#[test]
fn the_time_column_must_be_one_of_the_input() -> TestResult {
    let graph = plan("legacy_hop")?;
    let mut node = first(&graph, NODE)?.clone();
    let inputs = inputs(&graph, &node);
    let mut aggregate = aggregate("legacy_hop")?;
    aggregate.time_column = 0;
    node.kind = NodeKind::GroupWindowAggregate(aggregate);
    let reason = check_node(&node, &inputs).err().ok_or("it fits")?;
    assert!(reason.to_string().contains("time of a window"), "{reason}");
    Ok(())
}
