//! Mini-batch mode against the model: every cut, every reason, every size.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::properties::case;
use super::recovery::Job;
use super::*;
use crate::bundle::FlushReason;

const REASONS: [FlushReason; 4] =
    [FlushReason::Marker, FlushReason::Watermark, FlushReason::Checkpoint, FlushReason::EndOfInput];

/// A batch of so many rows, how long after the one before it comes, and whether bundles end behind it.
type Steps = Vec<(usize, i64, Option<FlushReason>)>;

fn steps() -> impl Strategy<Value = Steps> {
    let flush = prop::option::weighted(0.3, prop::sample::select(REASONS.to_vec()));
    prop::collection::vec((0_usize..12, prop_oneof![Just(0_i64), 1_i64..9], flush), 1..30)
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![Just(1), Just(2), Just(7), 1_u64..30, Just(4096)]
}

fn in_bundles(mut spec: GroupAggregate, size: u64) -> GroupAggregate {
    spec.mini_batch_size = Some(size);
    spec
}

/// Rows, cut by the steps; the last one takes what is left and ends the input.
fn batches<'a>(rows: &'a [Row], steps: &Steps) -> Vec<(i64, &'a [Row], Option<FlushReason>)> {
    let (mut now, mut rest, mut batches) = (1_000, rows, Vec::new());
    for (size, pause, flush) in steps {
        now += pause;
        let (head, tail) = rest.split_at((*size).min(rest.len()));
        batches.push((now, head, *flush));
        rest = tail;
    }
    batches.push((now, rest, Some(FlushReason::EndOfInput)));
    batches
}

/// The bundles that batches make, each with the time of its end.
fn bundles(batches: &[(i64, &[Row], Option<FlushReason>)], size: u64) -> Vec<(Vec<Row>, i64)> {
    let (mut bundles, mut open) = (Vec::new(), Vec::new());
    for (now, rows, flush) in batches {
        for row in *rows {
            open.push(row.clone());
            if open.len() as u64 == size {
                bundles.push((std::mem::take(&mut open), *now));
            }
        }
        if flush.is_some() && !open.is_empty() {
            bundles.push((std::mem::take(&mut open), *now));
        }
    }
    bundles
}

fn changelog(
    operator: &mut GroupAgg,
    clock: &StateClock,
    batches: &[(i64, &[Row], Option<FlushReason>)],
) -> Vec<String> {
    let mut out = Vec::new();
    for (now, rows, flush) in batches {
        clock.set(*now);
        operator.push(batch(rows)).unwrap();
        drain(operator, &mut out);
        if let Some(reason) = flush {
            operator.flush(*reason).unwrap();
            drain(operator, &mut out);
        }
    }
    out
}

fn open_at(spec: &GroupAggregate, clock: &StateClock) -> GroupAgg {
    supports(spec, &input_type()).unwrap();
    let context = StateContext { key_groups: KeyGroups::all(128), clock: clock.clone() };
    GroupAgg::try_new(spec, &input_type(), &context).unwrap()
}

/// An aggregate without or with a time-to-live under which it runs natively.
fn any_case() -> impl Strategy<Value = (GroupAggregate, Vec<Row>)> {
    (case(), prop_oneof![2 => Just(0_i64), 1 => 1_i64..12]).prop_map(|((mut spec, rows), ttl_ms)| {
        spec.ttl_ms = ttl_ms;
        if spec.need_retraction && ttl_ms > 0 {
            spec.calls.retain(|call| !["FIRST_VALUE", "LAST_VALUE"].contains(&call.name.as_str()));
        }
        (spec, rows)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changelog_of_bundles_is_that_of_the_model((spec, rows) in any_case(), size in size(), steps in steps()) {
        let spec = in_bundles(spec, size);
        let clock = StateClock::fixed(0);
        let mut operator = open_at(&spec, &clock);
        let batches = batches(&rows, &steps);
        let bundles = bundles(&batches, size);
        prop_assert_eq!(changelog(&mut operator, &clock, &batches), model::changelog_of_bundles(&spec, &bundles));

        let metrics = operator.bundle_metrics().copied().unwrap_or_default();
        prop_assert_eq!(metrics.bundles, bundles.len() as u64);
        prop_assert_eq!(metrics.rows_in, rows.len() as u64);
        let keys = |rows: &[Row]| {
            let key = |row: &Row| spec.grouping.iter().map(|c| row.values[*c].clone()).collect::<Vec<_>>();
            rows.iter().map(|row| (describe(0, &key(row)), ())).collect::<BTreeMap<_, _>>().len() as u64
        };
        prop_assert_eq!(metrics.touched_keys, bundles.iter().map(|(rows, _)| keys(rows)).sum::<u64>());
        prop_assert_eq!(metrics.peak.rows, bundles.iter().map(|(rows, _)| rows.len() as u64).max().unwrap_or(0));
    }

    #[test]
    fn batch_cuts_do_not_show_in_bundles((spec, rows) in case(), size in size(), steps in steps()) {
        let spec = in_bundles(spec, size);
        let steps = steps.into_iter().map(|(rows, pause, _)| (rows, pause, None)).collect();
        let clock = StateClock::fixed(0);
        let whole = changelog(&mut open_at(&spec, &clock), &clock, &batches(&rows, &Vec::new()));
        prop_assert_eq!(changelog(&mut open_at(&spec, &clock), &clock, &batches(&rows, &steps)), whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bundle_ends_before_a_snapshot_and_goes_on_in_the_restored_job(
        (spec, rows) in any_case(),
        size in size(),
        steps in steps(),
        parallelisms in prop::collection::vec(1_u32..5, 30),
        stored in any::<bool>(),
    ) {
        let batches = batches(&rows, &steps);
        let mut found = Vec::new();
        let clock = StateClock::fixed(0);
        // at a parallelism of more than 1 the count is that of each subtask: here only barriers end bundles
        let alone = in_bundles(spec.clone(), size);
        let spec = in_bundles(spec, 4096);
        let mut one = Job::either(stored)(&alone, &clock, 1, 128);
        let mut many = Job::either(stored)(&spec, &clock, 1, 128);
        let mut from_many = Vec::new();
        for ((now, rows, flush), parallelism) in batches.iter().zip(parallelisms.iter().cycle()) {
            clock.set(*now);
            one.push(rows, &[], &mut found);
            many.push(rows, &[], &mut from_many);
            if let Some(reason) = flush {
                for (job, out) in [(&mut one, &mut found), (&mut many, &mut from_many)] {
                    job.flush(*reason, out);
                }
                one.restart(1);
                many.restart(*parallelism);
            }
        }
        prop_assert_eq!(found, model::changelog_of_bundles(&alone, &bundles(&batches, size)));
        let mut model = model::changelog_of_bundles(&spec, &bundles(&batches, 4096));
        // the order of groups is that of subtasks
        model.sort();
        from_many.sort();
        prop_assert_eq!(from_many, model);
    }
}

/// `sum` of key 1 in bundles of `size`, each row with its kind and value.
fn sums(size: u64, rows: &[(&str, i32)]) -> Vec<String> {
    let spec = in_bundles(retracting(spec(&[KEY], vec![call("SUM", &[INT])])), size);
    let rows: Vec<Row> =
        rows.iter().map(|(kind, value)| row(kind, &[(KEY, Datum::Long(1)), (INT, Datum::Int(*value))])).collect();
    let mut operator = open(&spec);
    let mut out = Vec::new();
    operator.push(batch(&rows)).unwrap();
    drain(&mut operator, &mut out);
    operator.flush(FlushReason::EndOfInput).unwrap();
    drain(&mut operator, &mut out);
    out
}

#[test]
fn bundle_leaves_one_change_per_group() {
    assert_eq!(sums(4, &[("+I", 1), ("+I", 2), ("-U", 2), ("+U", 5)]), ["+I 1 6"]);
    assert_eq!(sums(2, &[("+I", 1), ("+I", 2), ("-U", 2), ("+U", 5)]), ["+I 1 3", "-U 1 3", "+U 1 6"]);
}

#[test]
fn equal_results_and_groups_that_came_and_went_leave_nothing() {
    assert_eq!(sums(2, &[("+I", 1), ("+I", 2), ("-U", 2), ("+U", 2)]), ["+I 1 3"]);
    assert_eq!(sums(2, &[("+I", 1), ("-D", 1)]), [""; 0]);
}

#[test]
fn group_that_is_empty_inside_a_bundle_keeps_its_accumulators() {
    // row by row the group would be deleted after the second row, and the sum begin anew
    assert_eq!(sums(3, &[("+I", 1), ("-D", 5), ("+I", 2)]), ["+I 1 -2"]);
}

#[test]
fn retractions_in_front_of_a_new_group_are_dropped_and_others_count() {
    assert_eq!(sums(4, &[("-D", 7), ("-U", 7), ("+I", 1), ("+I", 3)]), ["+I 1 4"]);
    // one more is retracted than there is: the group stays with a count below 0, until it comes to 0
    let rows = [("+I", 1), ("-D", 1), ("-D", 1), ("-D", 3), ("+I", 4), ("+I", 4)];
    assert_eq!(sums(3, &rows), ["+I 1 -1", "-D 1 -1"]);
}

#[test]
fn deleted_group_begins_anew_in_the_next_bundle_of_the_batch() {
    let mut spec = in_bundles(retracting(spec(&[KEY], vec![call("MAX", &[INT]), call("COUNT", &[INT])])), 2);
    spec.calls[1].distinct = true;
    let of = |kind, value| row(kind, &[(KEY, Datum::Long(1)), (INT, Datum::Int(value))]);
    let rows = [of("+I", 9), of("+I", 9), of("-D", 8), of("-D", 8), of("+I", 3), of("+I", 3)];
    let mut operator = open(&spec);
    let mut out = Vec::new();
    operator.push(batch(&rows)).unwrap();
    drain(&mut operator, &mut out);
    assert_eq!(out, ["+I 1 9 1", "-D 1 9 1", "+I 1 3 1"]);
}

#[test]
fn open_frame_is_charged_until_it_ends() {
    let spec = in_bundles(spec(&[TEXT_KEY], vec![call("MAX", &[TEXT])]), 4096);
    let rows: Vec<Row> = (0..100)
        .map(|n| row("+I", &[(TEXT_KEY, Datum::Text(format!("k{n}"))), (TEXT, Datum::Text("x".repeat(1000)))]))
        .collect();
    for ttl_ms in [0, 1_000] {
        let spec = GroupAggregate { ttl_ms, ..spec.clone() };
        let mut operator = open(&spec);
        let empty = operator.bundle_bytes();
        operator.push(batch(&rows)).unwrap();
        assert!(operator.pull().unwrap().is_none());
        assert!(operator.bundle_bytes() > empty + 100_000, "{}", operator.bundle_bytes());
        operator.flush(FlushReason::Marker).unwrap();
        assert_eq!(operator.pull().unwrap().map(|batch| batch.num_rows()), Some(100));
        assert!(operator.bundle_bytes() < 20_000, "{}", operator.bundle_bytes());
        operator.flush(FlushReason::Marker).unwrap();
        assert!(operator.pull().unwrap().is_none());
    }
}
