//! What comes out of some rows, written down.

use streamfusion_plan::node::JoinType;
use streamfusion_state::StateContext;

use super::Case;
use crate::join::Input;
use crate::timed_testing::Event::{self, Clock, Watermark};
use crate::timed_testing::{Job, Row, Trace, left, right, row};

fn out(case: &Case, events: &[Event]) -> Vec<String> {
    case.run(events, &[]).all()
}

fn version(kind: u8, text: &str) -> Event {
    Event::Row(Input::Right, Row { kind, ..row(text) })
}

#[test]
fn a_row_finds_the_version_that_was_valid_at_its_time() {
    let versions = [right("1 10 1"), version(2, "1 20 2"), version(3, "1 30 3"), right("1 40 4")];
    let rows = [left("1 9 0"), left("1 10 0"), left("1 29 0"), left("1 30 0"), left("1 99 0"), left("2 15 0")];
    let events: Vec<Event> = rows.into_iter().chain(versions).chain([Watermark(100)]).collect();
    let expected = ["+I 1 10 0 a 1 10 1 a", "+I 1 29 0 a 1 20 2 a", "+I 1 99 0 a 1 40 4 a"].map(str::to_owned).to_vec();
    assert_eq!(out(&Case::new(JoinType::Inner), &events), expected);
    assert_eq!(out(&Case::new(JoinType::Left), &events).len(), 6);
}

#[test]
fn rows_of_a_key_go_out_in_the_order_in_which_they_came() {
    let events = [left("1 30 0"), left("1 10 1"), left("1 20 2"), left("1 60 3"), Watermark(50), Watermark(70)];
    let found = out(&Case::new(JoinType::Left), &events);
    let numbers: Vec<&str> = found.iter().map(|row| row.split(' ').nth(3).unwrap()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3"]);
}

#[test]
fn a_late_row_waits_for_the_next_watermark_and_finds_what_is_left() {
    let events = [
        right("1 10 1"),
        right("1 20 2"),
        left("1 25 0"),
        Watermark(50),
        left("1 15 8"),
        left("1 30 9"),
        Watermark(51),
    ];
    let expected = ["+I 1 25 0 a 1 20 2 a", "+I 1 15 8 a NULL NULL NULL NULL", "+I 1 30 9 a 1 20 2 a"];
    assert_eq!(out(&Case::new(JoinType::Left), &events), expected);
    assert_eq!(out(&Case::new(JoinType::Left), &events[..6]), expected[..1]);
}

#[test]
fn null_keys_equal_each_other() {
    let events = [right("NULL 10 1"), left("NULL 20 2"), Watermark(50)];
    assert_eq!(out(&Case::new(JoinType::Inner), &events), ["+I NULL 20 2 a NULL 10 1 a"]);
}

#[test]
fn a_pair_has_the_kind_of_its_left_row() {
    let case = Case { condition: true, ..Case::new(JoinType::Left) };
    let deleted = Event::Row(Input::Left, Row { kind: 3, ..row("1 20 2") });
    let events = [right("1 10 3"), deleted, left("1 21 3"), Watermark(50)];
    assert_eq!(out(&case, &events), ["-D 1 20 2 a 1 10 3 a", "+I 1 21 3 a NULL NULL NULL NULL"]);
}

#[test]
fn keys_fire_in_order_of_their_first_row() {
    let events = [left("2 30 0"), left("1 20 0"), left("3 25 0"), right("2 10 0"), Watermark(50)];
    let found = out(&Case::new(JoinType::Left), &events);
    let keys: Vec<&str> = found.iter().map(|row| row.split(' ').nth(1).unwrap()).collect();
    assert_eq!(keys, ["2", "1", "3"]);
}

#[test]
fn idle_versions_are_forgotten() {
    let case = Case { retention: 10, ..Case::new(JoinType::Left) };
    let events =
        |later: i64| [Clock(100), right("1 10 1"), Watermark(15), Clock(100 + later), left("1 20 0"), Watermark(30)];
    assert_eq!(out(&case, &events(14)), ["+I 1 20 0 a 1 10 1 a"]);
    assert_eq!(out(&case, &events(15)), ["+I 1 20 0 a NULL NULL NULL NULL"]);
}

#[test]
fn a_key_without_versions_and_waiting_rows_is_gone() {
    let case = Case::new(JoinType::Left);
    let open = |context: &StateContext| case.open(context);
    let mut job = Job::open(&open, &case.keys, 1000, 1);
    let (mut out, mut sizes) = (Trace::default(), Vec::new());
    for round in 0..40 {
        let rows: Vec<_> = (0..200).map(|key| left(&format!("{} {} 0", key + round * 200, round * 100))).collect();
        job.push(&rows, &[200], &mut out);
        job.push(&[Watermark(round * 100 + 90)], &[], &mut out);
        sizes.push(job.bytes());
    }
    assert_eq!(out.all().len(), 8000);
    assert!(sizes[39] <= sizes[2] * 2, "{sizes:?}");
}
