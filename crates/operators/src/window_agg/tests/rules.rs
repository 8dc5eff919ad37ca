//! Single rules, spelled out.

use streamfusion_plan::node::WindowSpec;

use super::{ID, KEY, Query, TIME, call};
use crate::Operator;
use crate::window::testing::{Event, batch};
use crate::window::testing::{context, drain, row};

fn query(window: WindowSpec) -> Query {
    Query {
        window,
        attached: false,
        by_clock: false,
        grouping: vec![KEY],
        calls: vec![call("COUNT", &[], false), call("SUM", &[ID], false)],
    }
}

fn push(operator: &mut dyn Operator, rows: &[&str]) {
    let rows: Vec<_> = rows
        .iter()
        .map(|text| match row(text) {
            Event::Row(row) => row,
            Event::Watermark(_) => unreachable!(),
        })
        .collect();
    operator.push(batch(&rows)).unwrap();
}

fn advance(operator: &mut dyn Operator, watermark: i64) -> Vec<String> {
    operator.watermark(watermark).unwrap();
    let mut out = Vec::new();
    drain(operator, &mut out);
    out
}

#[test]
fn a_tumbling_window_fires_once_and_drops_what_comes_later() {
    let mut operator = query(WindowSpec::Tumbling { size_ms: 10, offset_ms: 0 }).one_phase(&context());
    push(operator.as_mut(), &["1 7 a 3 0", "2 8 a 9 0", "3 7 a 10 0"]);
    assert_eq!(advance(operator.as_mut(), 8), Vec::<String>::new());
    assert_eq!(advance(operator.as_mut(), 9), ["7 1 1 0 10", "8 1 2 0 10"]);
    push(operator.as_mut(), &["4 7 a 9 0", "5 7 a 11 0"]);
    assert_eq!(operator.late_rows(), Some(1));
    assert_eq!(operator.watermark(4).unwrap(), Some(9));
    assert_eq!(advance(operator.as_mut(), i64::MAX), ["7 2 8 10 20"]);
    assert_eq!(operator.progress(), Some(i64::MAX));
}

#[test]
fn a_hopping_window_goes_on_without_rows_until_it_is_empty() {
    let mut operator = query(WindowSpec::Hopping { size_ms: 20, slide_ms: 10, offset_ms: 0 }).one_phase(&context());
    push(operator.as_mut(), &["1 7 a 3 0"]);
    assert_eq!(advance(operator.as_mut(), 9), ["7 1 1 -10 10"]);
    // late for one window, not for the other
    push(operator.as_mut(), &["2 7 a 4 0", "3 8 a 5 0"]);
    assert_eq!(operator.late_rows(), Some(0));
    assert_eq!(advance(operator.as_mut(), 100), ["7 2 3 0 20", "8 1 3 0 20"]);
    assert!(operator.state().unwrap().snapshot().key_groups().is_empty());
}

#[test]
fn a_cumulative_window_fires_at_each_step_once_it_has_rows() {
    let mut operator =
        query(WindowSpec::Cumulative { max_size_ms: 30, step_ms: 10, offset_ms: 0 }).one_phase(&context());
    push(operator.as_mut(), &["1 7 a 13 0"]);
    assert_eq!(advance(operator.as_mut(), 19), ["7 1 1 0 20"]);
    push(operator.as_mut(), &["2 7 a 4 0"]);
    assert_eq!(advance(operator.as_mut(), 100), ["7 2 3 0 30"]);
    assert!(operator.state().unwrap().snapshot().key_groups().is_empty());
}

#[test]
fn a_row_without_row_time_is_an_error() {
    let mut operator = query(WindowSpec::Tumbling { size_ms: 10, offset_ms: 0 }).one_phase(&context());
    let Event::Row(row) = row("1 7 a NULL 0") else { unreachable!() };
    let error = operator.push(batch(&[row])).unwrap_err();
    assert!(error.to_string().contains("RowTime field should not be null"), "{error}");
    assert_eq!(TIME, 3);
}
