//! Joins in processing time against the model that Flink's operator is: a row per key.

use std::collections::BTreeMap;

use proptest::prelude::*;
use streamfusion_plan::node::JoinType;
use streamfusion_row::RowKind;
use streamfusion_state::StateContext;

use super::Case;
use super::properties::{cases, clocked_changes};
use crate::join::{Input, is_accumulate};
use crate::timed_testing::{Event, Job, Row, Trace, left, right, sizes};

type Key = Vec<Option<String>>;

#[derive(Debug, Default, Clone)]
struct State {
    right: Option<Row>,
    clean_up: Option<i64>,
}

/// TemporalProcessTimeJoinOperator, row by row.
fn expected(case: &Case, events: &[Event]) -> Trace {
    let (mut out, mut now, mut keys) = (Trace::default(), 0, BTreeMap::<Key, State>::new());
    for event in events {
        match event {
            Event::Row(side, row) => {
                let column = |key: &usize| if *key == 0 { row.k.map(|k| k.to_string()) } else { row.v.clone() };
                let state = keys.entry(case.keys.iter().map(column).collect()).or_default();
                let used = |state: &mut State| {
                    if case.retention > 1 && state.clean_up.is_none_or(|due| now + case.retention > due) {
                        state.clean_up = Some(now + case.retention * 3 / 2);
                    }
                };
                match (side, &state.right) {
                    (Input::Right, _) if is_accumulate(row.kind) => {
                        state.right = Some(row.clone());
                        used(state);
                    }
                    (Input::Right, _) => *state = State::default(),
                    (Input::Left, found) => {
                        let pair = found.as_ref().filter(|found| !case.condition || row.u < found.u);
                        if pair.is_some() || case.join_type == JoinType::Left {
                            out.rows(false).push(Row::pair(row.kind, Some(row), pair));
                        }
                        if found.is_some() {
                            used(state);
                        }
                    }
                }
            }
            Event::Watermark(watermark) => {
                out.begin_event();
                out.watermarks.push(*watermark);
            }
            Event::Clock(time) => {
                out.begin_event();
                now = *time;
                keys.retain(|_, state| state.clean_up.is_none_or(|due| due > now));
            }
        }
    }
    out
}

fn run(case: &Case, events: &[Event], sizes: &[usize], restores: &[(u32, usize)], is_stored: bool) -> Trace {
    let open = |context: &StateContext| case.open(context);
    let (mut out, mut done, mut now) = (Trace::default(), 0, 0);
    let mut job = Job::open(&open, &case.keys, case.limits.output_rows, 1);
    if is_stored {
        job = job.stored();
    }
    for (parallelism, place) in restores {
        job.push(&events[done..*place], sizes, &mut out);
        now = events[done..*place].iter().fold(now, |now, event| match event {
            Event::Clock(later) => *later,
            _ => now,
        });
        done = *place;
        job = job.restored(if case.keys.is_empty() { 1 } else { *parallelism });
        if case.retention > 1 {
            job.push(&[Event::Clock(now)], &[], &mut out);
        }
    }
    job.push(&events[done..], sizes, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cuts_restores_and_rescaling_do_not_matter(
        case in cases(),
        retention in prop_oneof![Just(0_i64), 2_i64..60],
        events in clocked_changes(),
        sizes in sizes(),
        restores in prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 0..4),
        is_stored in prop::bool::weighted(0.3),
    ) {
        let case = Case { retention, by_clock: true, ..case };
        let events: Vec<Event> =
            events.into_iter().filter(|event| retention > 0 || !matches!(event, Event::Clock(_))).collect();
        let mut restores: Vec<(u32, usize)> =
            restores.iter().map(|(parallelism, at)| (*parallelism, at.index(events.len() + 1))).collect();
        restores.sort_unstable_by_key(|(_, place)| *place);
        // of a batch that goes to several subtasks rows come out subtask by subtask
        let sizes = if restores.is_empty() { &sizes[..] } else { &[] };
        let found = run(&case, &events, sizes, &restores, is_stored);
        prop_assert_eq!(found.comparable(&case.keys), expected(&case, &events).comparable(&case.keys));
    }
}

#[test]
fn a_row_meets_the_last_row_of_its_key_that_was_not_taken_back() {
    let case = Case { by_clock: true, ..Case::new(JoinType::Inner) };
    let of_kind = |event, kind| match event {
        Event::Row(side, row) => Event::Row(side, Row { kind: kind as u8, ..row }),
        other => other,
    };
    let events = [
        left("1 5 0"),
        right("1 9 1"),
        left("1 5 2"),
        of_kind(right("1 2 3"), RowKind::UpdateAfter),
        of_kind(left("1 5 4"), RowKind::UpdateBefore),
        of_kind(right("1 2 3"), RowKind::Delete),
        left("1 5 5"),
    ];
    let out = case.run(&events, &[]).all();
    assert_eq!(expected(&case, &events).all(), out);
    assert_eq!(out, ["+I 1 5 2 a 1 9 1 a", "-U 1 5 4 a 1 2 3 a"]);
}
