//! Window table functions.

use serde_json::json;

use super::*;
use crate::node::{WindowSpec, WindowingStrategy};

const FUNCTION: &str = "window-table-function";

#[test]
fn a_window_table_function_has_windows_by_a_time_attribute() -> TestResult {
    let graph = plan("wtf_hop")?;
    let NodeKind::WindowTableFunction(function) = &first(&graph, FUNCTION)?.kind else { panic!("not typed") };
    let windowing = &function.windowing;
    assert_eq!(windowing.window, WindowSpec::Hopping { size_ms: 10_000, slide_ms: 3_000, offset_ms: 0 });
    assert_eq!(windowing.strategy, WindowingStrategy::TimeAttribute { column: 2 });
    assert_eq!(windowing.columns(), [2]);
    Ok(())
}

#[test]
fn windows_of_processing_time_read_no_column_but_need_the_rules_of_the_zone() -> TestResult {
    let rules = [("streamfusion.time-zone.default", "U|0|0||")];
    let kind = changed("wtf_proc", FUNCTION, &[], &rules)?;
    assert!(matches!(kind, NodeKind::WindowTableFunction(function) if function.windowing.columns().is_empty()));
    assert!(matches!(changed("wtf_proc", FUNCTION, &[], &[])?, NodeKind::Stock(_)));
    Ok(())
}

#[test]
fn a_window_table_function_adds_three_times_to_its_input() -> TestResult {
    let graph = plan("wtf_hop")?;
    let node = first(&graph, FUNCTION)?;
    let input = inputs(&graph, node);
    let mut fields = node.output.fields().to_vec();
    fields.pop();
    let output = LogicalType { kind: crate::types::TypeKind::Row(fields.into()), nullable: false };
    let reason = check_node(&Node { output, ..node.clone() }, &input).err().ok_or("it fits")?;
    assert!(reason.to_string().contains("is not its input with a window"), "{reason}");
    let kind = changed("wtf_hop", FUNCTION, &[("/windowing/timeAttributeIndex", json!(0))], &[])?;
    let reason = check_node(&Node { kind, ..node.clone() }, &input).err().ok_or("it fits")?;
    assert!(reason.to_string().contains("does not exist or has another type"), "{reason}");
    Ok(())
}
