//! Any interval join over any rows, cut, restored and rescaled anywhere, does what the model does.

use proptest::prelude::*;
use streamfusion_plan::node::JoinType;
use streamfusion_plan::types::TimeDomain;
use streamfusion_state::StateContext;

use super::Case;
use super::model::Model;
use crate::join::limits::Limits;
use crate::timed_testing::{Event, Job, Trace, events, sizes};

const TYPES: [JoinType; 4] = [JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full];

/// Those of production, which these rows never come near, or ones that cut them everywhere.
fn limits() -> impl Strategy<Value = Limits> {
    let bytes = prop::sample::select(vec![1_usize, 20, 60, 1 << 20]);
    let small = (1_usize..4, 1_usize..4, 1_usize..4, bytes).prop_map(|(chunk_rows, pairs, output_rows, bytes)| {
        Limits { chunk_rows, pairs, output_rows, bytes, ..Limits::default() }
    });
    prop_oneof![1 => Just(Limits::default()), 3 => small]
}

fn cases(time: TimeDomain) -> impl Strategy<Value = Case> {
    let keys = prop::sample::select(vec![vec![0], vec![0], vec![0, 3], vec![]]);
    let flags = (any::<bool>(), any::<bool>());
    let bounds = (-12_i64..8, prop_oneof![1 => Just(-3_i64), 9 => 0_i64..20]);
    let interval = prop_oneof![2 => Just(0_i64), 1 => 0_i64..10];
    (prop::sample::select(TYPES.to_vec()), keys, flags, bounds, interval, limits()).prop_map(
        move |(join_type, keys, (filter_nulls, condition), (lower, size), min_clean_up_interval, limits)| Case {
            join_type,
            time,
            keys,
            filter_nulls,
            condition,
            lower,
            upper: lower + size,
            min_clean_up_interval,
            limits,
        },
    )
}

fn inserts(clock: bool) -> impl Strategy<Value = Vec<Event>> {
    events([&[0], &[0]], clock)
}

fn expected(case: &Case, events: &[Event]) -> Trace {
    let mut model = Model::new(case);
    events.iter().for_each(|event| model.push(event));
    model.out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn batch_cuts_do_not_matter(case in cases(TimeDomain::Rowtime), events in inserts(false), sizes in sizes()) {
        prop_assume!(case.upper >= case.lower);
        prop_assert_eq!(case.run(&events, &sizes).comparable(&case.keys), expected(&case, &events).comparable(&case.keys));
    }

    #[test]
    fn batch_cuts_do_not_matter_in_processing_time(
        case in cases(TimeDomain::Proctime),
        events in inserts(true),
        sizes in sizes(),
    ) {
        prop_assume!(case.upper >= case.lower);
        prop_assert_eq!(case.run(&events, &sizes).comparable(&case.keys), expected(&case, &events).comparable(&case.keys));
    }

    #[test]
    fn restore_at_any_row_and_rescaling_do_not_matter(
        case in cases(TimeDomain::Rowtime),
        events in inserts(false),
        restores in prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 1..4),
        is_stored in prop::bool::weighted(0.3),
    ) {
        prop_assume!(case.upper >= case.lower);
        let mut places: Vec<usize> = restores.iter().map(|(_, at)| at.index(events.len() + 1)).collect();
        places.sort_unstable();
        let open = |context: &StateContext| case.open(context);
        let (mut out, mut done, mut model) = (Trace::default(), 0, Model::new(&case));
        let mut job = Job::open(&open, &case.keys, case.limits.output_rows, 1);
        if is_stored {
            job = job.stored();
        }
        for ((parallelism, _), place) in restores.iter().zip(&places) {
            job.push(&events[done..*place], &[], &mut out);
            events[done..*place].iter().for_each(|event| model.push(event));
            done = *place;
            let parallelism = if case.keys.is_empty() { 1 } else { *parallelism };
            job = job.restored(parallelism);
            model.restore(parallelism);
        }
        job.push(&events[done..], &[], &mut out);
        events[done..].iter().for_each(|event| model.push(event));
        prop_assert_eq!(out.comparable(&case.keys), model.out.comparable(&case.keys), "restored at {:?}", places);
    }

    #[test]
    fn an_empty_interval_pads_rows_at_once(case in cases(TimeDomain::Rowtime), events in inserts(false), sizes in sizes()) {
        let case = Case { upper: case.lower - 1, ..case };
        let mut expected = Trace::default();
        for event in &events {
            match event {
                Event::Row(side, row) => {
                    let (outer, row) = match side {
                        crate::join::Input::Left => (JoinType::Left, crate::timed_testing::Row::pair(0, Some(row), None)),
                        crate::join::Input::Right => (JoinType::Right, crate::timed_testing::Row::pair(0, None, Some(row))),
                    };
                    if case.join_type == outer || case.join_type == JoinType::Full {
                        expected.rows(false).push(row);
                    }
                }
                Event::Watermark(watermark) => expected.watermarks.push(*watermark),
                Event::Clock(_) => {}
            }
        }
        let case = Case { limits: Limits::default(), ..case };
        prop_assert_eq!(case.run(&events, &sizes).all(), expected.clone().all());
        prop_assert_eq!(case.run(&events, &sizes).watermarks, expected.watermarks);
    }
}
