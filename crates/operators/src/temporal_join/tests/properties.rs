//! Any temporal join over any rows, cut, restored and rescaled anywhere, does what the model does.

use proptest::prelude::*;
use streamfusion_plan::node::JoinType;
use streamfusion_state::StateContext;

use super::Case;
use super::model::Model;
use crate::join::limits::Limits;
use crate::timed_testing::{Event, Job, Trace, events, sizes};

fn limits() -> impl Strategy<Value = Limits> {
    let bytes = prop::sample::select(vec![1_usize, 20, 60, 1 << 20]);
    let small = (1_usize..4, 1_usize..4, 1_usize..4, bytes).prop_map(|(chunk_rows, pairs, output_rows, bytes)| {
        Limits { chunk_rows, pairs, output_rows, bytes, ..Limits::default() }
    });
    prop_oneof![1 => Just(Limits::default()), 3 => small]
}

pub(super) fn cases() -> impl Strategy<Value = Case> {
    let types = prop::sample::select(vec![JoinType::Inner, JoinType::Left]);
    let keys = prop::sample::select(vec![vec![0], vec![0], vec![0, 3], vec![]]);
    (types, keys, any::<bool>(), limits()).prop_map(|(join_type, keys, condition, limits)| Case {
        join_type,
        keys,
        condition,
        retention: 0,
        by_clock: false,
        limits,
    })
}

/// Changelogs of both inputs.
fn changes() -> impl Strategy<Value = Vec<Event>> {
    events([&[0, 0, 0, 1, 2, 3], &[0, 2, 2, 1, 3]], false)
}

/// Changelogs, watermarks, and a clock that goes on in large steps now and then.
pub(super) fn clocked_changes() -> impl Strategy<Value = Vec<Event>> {
    (changes(), prop::collection::vec((any::<prop::sample::Index>(), 0_i64..60), 0..8)).prop_map(
        |(mut events, clocks)| {
            for (at, later) in clocks {
                events.insert(at.index(events.len() + 1), Event::Clock(later));
            }
            let mut now = 0;
            for event in &mut events {
                if let Event::Clock(later) = event {
                    now += *later;
                    *later = now;
                }
            }
            events
        },
    )
}

fn expected(case: &Case, events: &[Event]) -> Trace {
    let mut model = Model::new(case);
    events.iter().for_each(|event| model.push(event));
    model.out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn batch_cuts_do_not_matter(case in cases(), events in changes(), sizes in sizes()) {
        let found = case.run(&events, &sizes);
        prop_assert_eq!(found.comparable(&case.keys), expected(&case, &events).comparable(&case.keys));
    }

    #[test]
    fn idle_state_is_cleaned_up_as_in_flink(
        case in cases(),
        retention in 1_i64..60,
        events in clocked_changes(),
        sizes in sizes(),
    ) {
        let case = Case { retention, ..case };
        let events: Vec<Event> = if retention == 1 {
            // off: nobody tells the clock
            events.into_iter().filter(|event| !matches!(event, Event::Clock(_))).collect()
        } else {
            events
        };
        let found = case.run(&events, &sizes);
        prop_assert_eq!(found.comparable(&case.keys), expected(&case, &events).comparable(&case.keys));
    }

    #[test]
    fn restore_at_any_row_and_rescaling_do_not_matter(
        case in cases(),
        retention in prop_oneof![Just(0_i64), 2_i64..60],
        events in clocked_changes(),
        restores in prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 1..4),
        is_stored in prop::bool::weighted(0.3),
    ) {
        let case = Case { retention, ..case };
        let events: Vec<Event> =
            events.into_iter().filter(|event| retention > 0 || !matches!(event, Event::Clock(_))).collect();
        let mut places: Vec<usize> = restores.iter().map(|(_, at)| at.index(events.len() + 1)).collect();
        places.sort_unstable();
        let open = |context: &StateContext| case.open(context);
        let (mut out, mut done, mut now) = (Trace::default(), 0, 0);
        let mut job = Job::open(&open, &case.keys, case.limits.output_rows, 1);
        if is_stored {
            job = job.stored();
        }
        for ((parallelism, _), place) in restores.iter().zip(&places) {
            job.push(&events[done..*place], &[], &mut out);
            now = events[done..*place].iter().fold(now, |now, event| match event {
                Event::Clock(later) => *later,
                _ => now,
            });
            done = *place;
            job = job.restored(if case.keys.is_empty() { 1 } else { *parallelism });
            if retention > 0 {
                job.push(&[Event::Clock(now)], &[], &mut out);
            }
        }
        job.push(&events[done..], &[], &mut out);
        prop_assert_eq!(
            out.comparable(&case.keys),
            expected(&case, &events).comparable(&case.keys),
            "restored at {:?}",
            places
        );
    }
}
