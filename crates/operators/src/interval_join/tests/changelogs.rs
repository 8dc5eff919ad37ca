//! What comes out of some rows, written down.

use streamfusion_plan::node::JoinType;
use streamfusion_plan::types::TimeDomain;
use streamfusion_state::StateContext;

use super::Case;
use crate::timed_testing::Event::{Clock, Watermark};
use crate::timed_testing::{Job, Trace, left, right};

fn out(case: &Case, events: &[crate::timed_testing::Event]) -> Vec<String> {
    case.run(events, &[]).all()
}

#[test]
fn rows_match_at_both_ends_of_the_interval_and_not_beyond() {
    let case = Case::new(JoinType::Inner, -10, 5);
    let events = [right("1 100 0"), left("1 89 1"), left("1 90 2"), left("1 105 3"), left("1 106 4"), left("2 100 5")];
    assert_eq!(out(&case, &events), ["+I 1 90 2 a 1 100 0 a", "+I 1 105 3 a 1 100 0 a"]);
}

#[test]
fn what_a_row_matches_comes_by_time_and_then_by_arrival() {
    let case = Case::new(JoinType::Inner, -10, 10);
    let events = [right("1 105 0"), right("1 95 1"), right("1 105 2"), right("1 100 3"), left("1 100 9")];
    let numbers: Vec<String> =
        out(&case, &events).iter().map(|row| row.split(' ').nth(7).unwrap().to_owned()).collect();
    assert_eq!(numbers, ["1", "3", "0", "2"]);
}

#[test]
fn a_row_is_padded_when_no_match_can_come_any_more() {
    let case = Case::new(JoinType::Left, -10, 5);
    let events = [left("1 100 0"), Watermark(110), Watermark(111), Watermark(112)];
    // Flink looks one millisecond after the last match could have come
    let before = case.run(&events[..2], &[]).all();
    assert!(before.is_empty(), "{before:?}");
    assert_eq!(case.run(&events[..3], &[]).all(), ["+I 1 100 0 a NULL NULL NULL NULL"]);
    assert_eq!(case.run(&events, &[]).watermarks, [100, 101, 102]);
}

#[test]
fn a_row_that_comes_too_late_to_match_is_padded_at_once() {
    let case = Case::new(JoinType::Full, -10, 5);
    let events = [Watermark(200), left("1 190 0"), left("1 191 1"), right("1 195 2"), Watermark(i64::MAX)];
    let expected =
        ["+I 1 190 0 a NULL NULL NULL NULL", "+I NULL NULL NULL NULL 1 195 2 a", "+I 1 191 1 a NULL NULL NULL NULL"];
    // 191 is kept, and goes at the end
    let found = out(&case, &events);
    assert_eq!(found[0], expected[0]);
    assert!(found.contains(&"+I 1 191 1 a 1 195 2 a".to_owned()) || found[1..] == expected[1..], "{found:?}");
}

#[test]
fn the_end_of_the_input_goes_on_later_than_it_came() {
    let case = Case::new(JoinType::Inner, -10, 5);
    assert_eq!(case.run(&[Watermark(i64::MAX)], &[]).watermarks, [i64::MAX - 10]);
    let ahead = Case::new(JoinType::Inner, 3, 8);
    assert_eq!(ahead.run(&[Watermark(100)], &[]).watermarks, [92]);
    let exact = Case::new(JoinType::Inner, 0, 0);
    assert_eq!(exact.run(&[Watermark(i64::MAX)], &[]).watermarks, [i64::MAX]);
}

#[test]
fn timers_of_several_keys_fire_in_order_of_time() {
    let case = Case::new(JoinType::Left, -10, 0);
    let events = [left("2 105 0"), left("1 103 1"), left("3 101 2"), Watermark(150)];
    let keys: Vec<String> = out(&case, &events).iter().map(|row| row.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(keys, ["3", "1", "2"]);
}

#[test]
fn expired_rows_are_there_until_somebody_looks() {
    let case = Case { min_clean_up_interval: 50, ..Case::new(JoinType::Right, -5, 5) };
    // the timer of the row at 100 is due at 156
    let events = [right("1 100 0"), Watermark(120), left("1 300 1"), Watermark(121), Watermark(i64::MAX)];
    assert_eq!(case.run(&events[..3], &[]).all(), ["+I NULL NULL NULL NULL 1 100 0 a"]);
    let alone = [right("1 100 0"), Watermark(120), Watermark(155), Watermark(156)];
    assert!(case.run(&alone[..3], &[]).all().is_empty());
    assert_eq!(case.run(&alone, &[]).all().len(), 1);
}

#[test]
fn rows_of_1970_leave_without_padding() {
    let case = Case::new(JoinType::Left, -10, 0);
    // when the timer of -2 is due at 9, the row at 0 has not expired
    let events = [left("1 -2 0"), left("1 0 1"), Watermark(9), Watermark(i64::MAX)];
    assert_eq!(out(&case, &events), ["+I 1 -2 0 a NULL NULL NULL NULL"]);
}

#[test]
fn processing_time_is_that_of_the_clock() {
    let case = Case { time: TimeDomain::Proctime, ..Case::new(JoinType::Left, -10, 5) };
    let events = [
        Clock(1000),
        left("1 7 0"),
        Clock(1010),
        right("1 7 1"),
        Clock(1011),
        right("1 7 2"),
        left("2 7 3"),
        Clock(1021),
        Clock(1022),
        Watermark(5),
    ];
    let expected = ["+I 1 7 0 a 1 7 1 a", "+I 2 7 3 a NULL NULL NULL NULL"];
    assert_eq!(out(&case, &events), expected);
    assert_eq!(case.run(&events, &[]).watermarks, [5]);
    assert_eq!(case.run(&events[..8], &[]).all(), expected[..1]);
}

#[test]
fn a_key_that_is_cleaned_up_is_gone() {
    let case = Case::new(JoinType::Full, -10, 5);
    let open = |context: &StateContext| case.open(context);
    let mut job = Job::open(&open, &case.keys, 1000, 1);
    let mut out = Trace::default();
    let mut sizes = Vec::new();
    for round in 0..40 {
        let rows: Vec<_> = (0..200).map(|key| left(&format!("{} {} 0", key + round * 200, round * 100))).collect();
        job.push(&rows, &[200], &mut out);
        job.push(&[Watermark(round * 100 + 90)], &[], &mut out);
        sizes.push(job.bytes());
    }
    assert_eq!(out.all().len(), 8000);
    assert!(sizes[39] <= sizes[2] * 2, "{sizes:?}");
}
