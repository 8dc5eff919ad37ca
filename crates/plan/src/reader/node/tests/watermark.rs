//! Watermark assigners.

use serde_json::json;

use super::*;
use crate::rex::Rex;

#[test]
fn a_watermark_assigner_has_a_row_time_column_and_an_expression() -> TestResult {
    let graph = plan("wm_expr")?;
    let NodeKind::WatermarkAssigner(assigner) = &first(&graph, "watermark-assigner")?.kind else { panic!("not typed") };
    assert_eq!((assigner.row_time, assigner.idle_timeout_ms), (1, 0));
    assert!(matches!(&assigner.watermark, Rex::Call { operands, .. } if operands.len() == 2));
    Ok(())
}

#[test]
fn the_idle_timeout_is_an_option_of_the_session() -> TestResult {
    let idle = |text| changed("wm_expr", "watermark-assigner", &[], &[("table.exec.source.idle-timeout", text)]);
    assert!(matches!(idle("5 s")?, NodeKind::WatermarkAssigner(assigner) if assigner.idle_timeout_ms == 5_000));
    assert_stock(&idle("soon")?, "`table.exec.source.idle-timeout` is");
    Ok(())
}

#[test]
fn a_watermark_assigner_that_does_not_fit_its_input_stays_on_flink() -> TestResult {
    let graph = plan("wm_expr")?;
    let node = first(&graph, "watermark-assigner")?;
    let column = |index: usize, ty: &str| json!({"kind": "INPUT_REF", "inputIndex": index, "type": ty});
    let wrong = [
        ("/rowtimeFieldIndex", json!(0), "the row-time column is no timestamp"),
        ("/rowtimeFieldIndex", json!(2), "the row-time column is no timestamp"),
        ("/watermarkExpr", column(0, "BIGINT"), "the watermark is no timestamp"),
        ("/watermarkExpr", column(1, "TIMESTAMP(6)"), "the watermark is no timestamp"),
        ("/watermarkExpr", column(7, "TIMESTAMP(3)"), "a column that does not exist"),
    ];
    for (pointer, value, expected) in wrong {
        let kind = changed("wm_expr", "watermark-assigner", &[(pointer, value)], &[])?;
        let reason = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).err().ok_or("it fits")?;
        assert!(reason.to_string().contains(expected), "{reason}, not {expected}");
    }
    Ok(())
}
