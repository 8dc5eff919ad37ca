//! State time-to-live: against the model, over a clock that the test sets.

use proptest::prelude::*;
use streamfusion_state::StateSnapshot;

use super::properties::case;
use super::recovery::Job;
use super::*;

/// Batches of so many rows at these distances in time.
type Steps = Vec<(usize, i64)>;

fn steps() -> impl Strategy<Value = Steps> {
    prop::collection::vec((1_usize..9, prop_oneof![Just(0_i64), 1_i64..4, 1_i64..15]), 1..60)
}

/// An aggregate with a time-to-live that runs natively, over rows.
fn expiring_case() -> impl Strategy<Value = (GroupAggregate, Vec<Row>)> {
    (case(), 1_i64..12).prop_map(|((mut spec, rows), ttl_ms)| {
        spec.ttl_ms = ttl_ms;
        if spec.need_retraction {
            spec.calls.retain(|call| !["FIRST_VALUE", "LAST_VALUE"].contains(&call.name.as_str()));
        }
        (spec, rows)
    })
}

/// The rows of each batch, with its time; what is left when the steps end comes at the last time.
fn batches<'a>(rows: &'a [Row], steps: &Steps) -> Vec<(i64, &'a [Row])> {
    let (mut now, mut rest, mut batches) = (1_000, rows, Vec::new());
    for (size, pause) in steps {
        now += pause;
        let (head, tail) = rest.split_at((*size).min(rest.len()));
        batches.push((now, head));
        rest = tail;
    }
    batches.push((now, rest));
    batches.retain(|(_, rows)| !rows.is_empty());
    batches
}

fn expected(spec: &GroupAggregate, batches: &[(i64, &[Row])]) -> Vec<String> {
    let rows: Vec<Row> = batches.iter().flat_map(|(_, rows)| rows.to_vec()).collect();
    let times: Vec<i64> = batches.iter().flat_map(|(now, rows)| vec![*now; rows.len()]).collect();
    model::changelog_over_time(spec, &rows, &times)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_has_expired_is_absent(
        (spec, rows) in expiring_case(),
        steps in steps(),
        stored in any::<bool>(),
    ) {
        let batches = batches(&rows, &steps);
        let clock = StateClock::fixed(0);
        let mut job = Job::either(stored)(&spec, &clock, 1, 128);
        let mut out = Vec::new();
        for (now, rows) in &batches {
            clock.set(*now);
            job.push(rows, &[rows.len()], &mut out);
        }
        prop_assert_eq!(out, expected(&spec, &batches));
    }

    #[test]
    fn restore_and_rescaling_do_not_matter_with_time_to_live(
        (spec, rows) in expiring_case(),
        steps in steps(),
        stops in prop::collection::vec(0_u32..5, 60),
        max_parallelism in prop::sample::select(vec![128_u32, 200, 32_768]),
        stored in any::<bool>(),
    ) {
        let batches = batches(&rows, &steps);
        let clock = StateClock::fixed(0);
        let mut job = Job::either(stored)(&spec, &clock, 1, max_parallelism);
        let mut out = Vec::new();
        for ((now, rows), parallelism) in batches.iter().zip(stops.iter().cycle()) {
            clock.set(*now);
            if *parallelism > 0 {
                job.restart(*parallelism);
            }
            job.push(rows, &[], &mut out);
        }
        prop_assert_eq!(out, expected(&spec, &batches));
    }
}

fn at(rows: &[(i64, &str, Option<i32>)], spec: &GroupAggregate) -> Vec<String> {
    let clock = StateClock::fixed(0);
    let mut job = Job::open(spec, &clock, 1, 128);
    let mut out = Vec::new();
    for (now, kind, value) in rows {
        clock.set(*now);
        let value = value.map_or(Datum::Null, Datum::Int);
        job.push(&[row(kind, &[(KEY, Datum::Long(1)), (INT, value)])], &[], &mut out);
    }
    out
}

fn with_ttl(mut spec: GroupAggregate, ttl_ms: i64) -> GroupAggregate {
    spec.ttl_ms = ttl_ms;
    spec
}

#[test]
fn unchanged_result_is_emitted_again_with_time_to_live() {
    let spec = with_ttl(spec(&[KEY], vec![call("SUM", &[INT])]), 10);
    let rows = [(0, "+I", Some(5)), (9, "+I", Some(0)), (18, "+I", None), (28, "+I", Some(1))];
    // each write lets the group live until 10 later
    assert_eq!(at(&rows, &spec), ["+I 1 5", "-U 1 5", "+U 1 5", "-U 1 5", "+U 1 5", "+I 1 1"]);
}

#[test]
fn retraction_of_an_expired_group_is_ignored() {
    let spec = retracting(with_ttl(spec(&[KEY], vec![call("SUM", &[INT])]), 10));
    assert_eq!(at(&[(0, "+I", Some(5)), (10, "-D", Some(5)), (11, "+I", Some(3))], &spec), ["+I 1 5", "+I 1 3"]);
}

#[test]
fn distinct_value_that_only_comes_again_expires_after_its_first_row() {
    // over rows that insert only, Flink writes an entry when a call sees its value for the first time
    let distinct = AggCall { distinct: true, ..call("COUNT", &[INT]) };
    let spec = with_ttl(spec(&[KEY], vec![distinct]), 10);
    let rows = [(0, "+I", Some(5)), (6, "+I", Some(5)), (12, "+I", Some(5))];
    assert_eq!(at(&rows, &spec), ["+I 1 1", "-U 1 1", "+U 1 1", "-U 1 1", "+U 1 2"]);
    // over rows that retract, with every row
    assert_eq!(at(&rows, &retracting(spec)), ["+I 1 1", "-U 1 1", "+U 1 1", "-U 1 1", "+U 1 1"]);
}

#[test]
fn minimum_whose_values_have_all_expired_is_null() {
    let spec = retracting(with_ttl(spec(&[KEY], vec![call("MIN", &[INT])]), 10));
    let rows = [
        (0, "+I", Some(1)),
        (0, "+I", Some(2)),
        (8, "+I", Some(7)),
        (8, "+I", None),
        (12, "+I", None), // 1 and 2 have expired, and yet 1 stays the result
        (12, "+I", Some(1)),
        (12, "-D", Some(1)), // only 7 is left
        (17, "+I", None),
        (21, "+I", Some(9)), // 7 has expired, and yet it stays
        (21, "+I", Some(7)),
        (25, "+I", None),
        (31, "+I", Some(5)),
        (31, "-D", Some(5)), // nothing is left, but three values are said to count
    ];
    let expected = [
        "+I 1 1",
        "-U 1 1",
        "+U 1 1",
        "-U 1 1",
        "+U 1 1",
        "-U 1 1",
        "+U 1 1",
        "-U 1 1",
        "+U 1 1",
        "-U 1 1",
        "+U 1 1",
        "-U 1 1",
        "+U 1 7",
        "-U 1 7",
        "+U 1 7",
        "-U 1 7",
        "+U 1 7",
        "-U 1 7",
        "+U 1 7",
        "-U 1 7",
        "+U 1 7",
        "-U 1 7",
        "+U 1 5",
        "-U 1 5",
        "+U 1 NULL",
    ];
    assert_eq!(at(&rows, &spec), expected);
}

#[test]
fn expired_groups_are_removed_though_nobody_touches_them() {
    let distinct = AggCall { distinct: true, ..call("COUNT", &[INT]) };
    let spec = with_ttl(retracting(spec(&[KEY], vec![distinct, call("MAX", &[INT])])), 1000);
    let clock = StateClock::fixed(0);
    let context = StateContext { key_groups: KeyGroups::all(128), clock: clock.clone() };
    let mut operator = GroupAgg::try_new(&spec, &input_type(), &context).unwrap();
    let mut bytes = Vec::new();
    for round in 0..200_i64 {
        clock.set(round * 100);
        let rows: Vec<Row> =
            (0..500).map(|i| row("+I", &[(KEY, Datum::Long(round * 500 + i)), (INT, Datum::Int(i as i32))])).collect();
        operator.push(batch(&rows)).unwrap();
        drain(&mut operator, &mut Vec::new());
        assert!(operator.groups.table.len() < 10_000, "{} groups in round {round}", operator.groups.table.len());
        bytes.push(operator.bytes());
    }
    assert!(bytes[199] < bytes[50] * 3 / 2, "{} bytes, then {}", bytes[50], bytes[199]);
}

#[test]
fn the_deadline_is_that_of_the_earliest_value() {
    let distinct = AggCall { distinct: true, ..call("COUNT", &[INT]) };
    let spec = with_ttl(spec(&[KEY], vec![distinct]), 1000);
    let clock = StateClock::fixed(0);
    let mut job = Job::open(&spec, &clock, 1, 128);
    for (now, value) in [(0, 1), (500, 2)] {
        clock.set(now);
        job.push(&[row("+I", &[(KEY, Datum::Long(1)), (INT, Datum::Int(value))])], &[], &mut Vec::new());
    }
    let snapshots = job.snapshot();
    let deadline = |snapshot: &dyn StateSnapshot| snapshot.deadline(snapshot.key_groups()[0]);
    // the group was written at 500, the value 1 at 0
    assert_eq!(deadline(snapshots[0].as_ref()), Some(1000));
}

#[test]
fn time_to_live_may_be_switched_on_and_off() {
    let calls = vec![call("COUNT", &[]), AggCall { distinct: true, ..call("COUNT", &[INT]) }];
    let without = spec(&[KEY], calls);
    let with = with_ttl(without.clone(), 10);
    let clock = StateClock::fixed(100);
    let rows = |value: i32| [row("+I", &[(KEY, Datum::Long(1)), (INT, Datum::Int(value))])];
    let mut out = Vec::new();
    let mut job = Job::open(&without, &clock, 1, 128);
    job.push(&rows(7), &[], &mut out);
    // state without a time is as old as the restored job
    clock.set(500);
    let snapshots = job.snapshot();
    let mut job = Job::open(&with, &clock, 1, 128).restored(&snapshots, 1);
    clock.set(509);
    job.push(&rows(7), &[], &mut out);
    let snapshots = job.snapshot();
    let mut never = Job::open(&without, &clock, 1, 128).restored(&snapshots, 1);
    clock.set(519);
    job.push(&rows(7), &[], &mut out);
    never.push(&rows(8), &[], &mut out);
    assert_eq!(out, ["+I 1 1 1", "-U 1 1 1", "+U 1 2 1", "+I 1 1 1", "-U 1 2 1", "+U 1 3 2"]);
}
