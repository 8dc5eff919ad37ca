#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use streamfusion_plan::node::{self, KeepRow};
use streamfusion_plan::types::{LogicalType, TimeAttribute, TimeDomain, TypeKind};
use streamfusion_state::{KeyGroups, StateClock, StateContext};

use crate::StateBackend;
use crate::deduplicate::{Deduplicate, supports};
use crate::window::testing::{Event, Expected, Job, Row, batch, check, cuts, drain, events, input_type, row};
use crate::{Operator, OperatorError};

/// The columns of events, of which the fourth is row time.
fn timed() -> LogicalType {
    let mut input = input_type();
    let TypeKind::Row(fields) = &mut input.kind else { unreachable!() };
    let mut changed: Vec<_> = fields.to_vec();
    changed[3].ty.kind = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    *fields = changed.into();
    input
}

fn spec(unique_keys: &[usize], ttl_ms: i64) -> node::Deduplicate {
    node::Deduplicate {
        unique_keys: unique_keys.to_vec(),
        time: TimeDomain::Rowtime,
        keep: KeepRow::First,
        output_insert_only: true,
        generate_update_before: false,
        generate_insert: true,
        compact_changes: false,
        ttl_ms,
        mini_batch_size: None,
    }
}

fn open(spec: &node::Deduplicate, context: &StateContext) -> Box<dyn Operator> {
    assert!(supports(spec, &timed()).is_ok());
    Box::new(Deduplicate::try_new(spec, &timed(), StateBackend::Hashmap, context).unwrap())
}

/// Flink's function, row by row. The watermark is forgotten between the parts.
fn model(keys: &[usize], parts: &[&[Event]]) -> Expected {
    let (mut waiting, mut emitted) = (Vec::<(String, Row)>::new(), BTreeMap::new());
    let mut expected = Expected { leaves_state: true, ..Expected::default() };
    let time = |row: &Row| row.t.unwrap_or(0);
    for part in parts {
        let mut watermark = i64::MIN;
        for event in *part {
            match event {
                Event::Row(row) if time(row) < watermark => expected.late_rows += 1,
                Event::Row(row) => {
                    let key = row.key(keys);
                    if emitted.contains_key(&key) {
                        continue;
                    }
                    match waiting.iter().position(|(known, _)| *known == key) {
                        Some(at) if time(row) >= time(&waiting[at].1) => continue,
                        Some(at) => drop(waiting.remove(at)),
                        None => {}
                    }
                    waiting.push((key, row.clone()));
                }
                Event::Watermark(to) => {
                    // the task sends on none that goes back
                    watermark = watermark.max(*to);
                    // stable, so that rows of one time leave as they came
                    waiting.sort_by_key(|(_, row)| time(row));
                    let due = waiting.iter().take_while(|(_, row)| time(row) <= watermark).count();
                    for (key, row) in waiting.drain(..due) {
                        expected.out.push(row.show());
                        emitted.insert(key, ());
                    }
                }
            }
        }
    }
    expected
}

/// Without watermarks that go back, as a task sends them.
fn ascending(events: Vec<Event>) -> Vec<Event> {
    let mut last = i64::MIN;
    let mut event = |event| match event {
        Event::Watermark(watermark) => {
            last = last.max(watermark % 5);
            Event::Watermark(last)
        }
        row @ Event::Row(_) => row,
    };
    events.into_iter().map(&mut event).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_are_flinks_at_any_cut_restore_and_rescaling(
        keys in prop::sample::select(vec![vec![1], vec![2], vec![1, 2]]),
        events in events(1).prop_map(ascending),
        cuts in cuts(),
    ) {
        let spec = spec(&keys, 0);
        check(&|context| open(&spec, context), &keys, &events, &cuts, |parts| model(&keys, parts))?;
    }
}

fn run(events: &[Event], sizes: &[usize]) -> (Vec<String>, u64) {
    let spec = spec(&[1], 0);
    let factory = |context: &StateContext| open(&spec, context);
    let (mut job, mut out) = (Job::open(&factory, &[1], 1), Vec::new());
    job.run(events, sizes, &mut out);
    (out, job.late_rows())
}

#[test]
fn the_earliest_row_waits_for_the_watermark_and_goes_out_once() {
    let events = [
        row("1 7 a 5 0"),
        row("2 7 b 3 0"),
        row("3 7 c 3 0"),
        row("4 8 d 4 0"),
        Event::Watermark(3),
        row("5 7 e 3 0"),
        row("6 9 f 2 0"),
        row("7 9 g 3 0"),
        Event::Watermark(4),
        Event::Watermark(9),
    ];
    let expected = ["2 7 b 3 0", "7 9 g 3 0", "4 8 d 4 0"].map(str::to_owned).to_vec();
    for sizes in [vec![], vec![4, 3], vec![2, 2, 2]] {
        assert_eq!(run(&events, &sizes), (expected.clone(), 1));
    }
}

#[test]
fn a_slot_that_is_used_again_for_the_same_time_goes_out_once() {
    // the first key leaves a timer at 5 behind, and its slot to the second one
    let events = [row("1 7 a 5 0"), row("2 7 b 3 0"), Event::Watermark(3), row("3 8 c 5 0"), Event::Watermark(5)];
    assert_eq!(run(&events, &[]).0, ["2 7 b 3 0", "3 8 c 5 0"]);
}

#[test]
fn a_timer_that_an_earlier_row_replaced_does_not_fire() {
    // the timer at 4 is left behind in the slot, which the timer at 3 gives back
    let events = [row("1 7 a 4 0"), row("2 7 b 3 0"), Event::Watermark(9), row("3 8 c 12 0"), Event::Watermark(12)];
    assert_eq!(run(&events, &[]).0, ["2 7 b 3 0", "3 8 c 12 0"]);
}

#[test]
fn a_row_at_the_watermark_waits_for_the_next_one() {
    let events = [Event::Watermark(3), row("1 7 a 3 0")];
    assert!(run(&events, &[]).0.is_empty());
    assert_eq!(run(&[&events[..], &[Event::Watermark(4)]].concat(), &[]).0, ["1 7 a 3 0"]);
}

#[test]
fn a_key_is_forgotten_behind_its_time_to_live_and_a_row_that_waits_is_not() {
    let clock = StateClock::fixed(0);
    let context = StateContext { clock: clock.clone(), ..crate::window::testing::context() };
    let mut operator = open(&spec(&[1], 10), &context);
    let mut out = Vec::new();
    let mut step = |now: i64, event: Event| {
        clock.set(now);
        match event {
            Event::Row(row) => operator.push(batch(&[row])).unwrap(),
            Event::Watermark(watermark) => drop(operator.watermark(watermark).unwrap()),
        }
        drain(operator.as_mut(), &mut out);
    };
    step(0, row("1 7 a 5 0"));
    step(100, row("2 7 b 6 0"));
    step(101, Event::Watermark(5));
    step(110, row("3 7 c 7 0"));
    step(111, row("4 7 d 8 0"));
    step(112, Event::Watermark(9));
    assert_eq!(out, ["1 7 a 5 0", "4 7 d 8 0"]);
}

#[test]
fn retractions_are_refused() {
    let mut operator =
        open(&spec(&[1], 0), &StateContext { key_groups: KeyGroups::all(128), clock: StateClock::fixed(0) });
    let Event::Row(row) = row("1 7 a 5 0") else { unreachable!() };
    let retraction = batch(&[row]).with_kinds(Some(arrow::array::UInt8Array::from(vec![3]))).unwrap();
    assert_eq!(operator.push(retraction).unwrap_err(), OperatorError::UnexpectedRetraction);
}
