//! Results spelled out.

use super::job::{Job, Output};
use super::*;

/// Aggregates of `long` only, as `time: value ..`.
fn run(
    frame: OverFrame,
    attribute: TimeAttribute,
    ttl: i64,
    calls: Vec<AggCall>,
    events: &[Event],
) -> (Vec<String>, Job) {
    let spec = spec(frame, ttl, calls);
    let mut job = Job::open(&spec, attribute, 1);
    let mut out: Output = Vec::new();
    job.run(events, &[3, 2], &mut out);
    let words = |(_, row): (Option<i64>, String)| row.split(' ').skip(4).collect::<Vec<_>>().join(" ");
    (out.into_iter().map(words).collect(), job)
}

fn sum() -> Vec<AggCall> {
    vec![call("SUM", &[LONG], false)]
}

fn rows(rows: &[(i64, i64, i64)]) -> Vec<Event> {
    rows.iter().map(|(key, long, time)| Event::Row(row(*key, *long, *time))).collect()
}

#[test]
fn rows_leave_in_order_of_time_when_the_watermark_reaches_them() {
    let mut events = rows(&[(1, 10, 30), (1, 20, 10), (2, 5, 20), (1, 40, 31)]);
    events.push(Event::Watermark(30));
    let (out, job) = run(OverFrame::UnboundedRows, TimeAttribute::Rowtime, 0, sum(), &events);
    assert_eq!(out, ["10 Some(20)", "20 Some(5)", "30 Some(30)"]);
    assert_eq!(job.late(), 0);
}

#[test]
fn rows_of_one_time_leave_key_by_key_and_share_a_range() {
    let mut events = rows(&[(1, 1, 5), (2, 10, 5), (1, 2, 5), (2, 20, 5), (1, 4, 5)]);
    events.push(Event::Watermark(5));
    let of = |frame| run(frame, TimeAttribute::Rowtime, 0, sum(), &events).0;
    assert_eq!(of(OverFrame::UnboundedRows), ["5 Some(1)", "5 Some(3)", "5 Some(7)", "5 Some(10)", "5 Some(30)"]);
    assert_eq!(of(OverFrame::UnboundedRange), ["5 Some(7)", "5 Some(7)", "5 Some(7)", "5 Some(30)", "5 Some(30)"]);
    let rows = OverFrame::Rows { preceding: 1 };
    assert_eq!(of(rows), ["5 Some(1)", "5 Some(3)", "5 Some(6)", "5 Some(10)", "5 Some(30)"]);
    let range = OverFrame::Range { preceding_ms: 0 };
    assert_eq!(of(range), ["5 Some(7)", "5 Some(7)", "5 Some(7)", "5 Some(30)", "5 Some(30)"]);
}

#[test]
fn without_a_bound_a_row_up_to_the_watermark_is_late() {
    let mut events = rows(&[(1, 1, 50)]);
    events.push(Event::Watermark(20));
    events.extend(rows(&[(1, 2, 20), (2, 3, 19), (1, 4, 21)]));
    events.push(Event::Watermark(50));
    let (out, job) = run(OverFrame::UnboundedRange, TimeAttribute::Rowtime, 0, sum(), &events);
    assert_eq!(out, ["21 Some(4)", "50 Some(5)"]);
    assert_eq!(job.late(), 2);
    assert_eq!(job.keys(), 1, "a late row leaves no key behind");
}

#[test]
fn with_a_bound_a_row_is_late_if_a_later_one_of_its_key_has_left() {
    let frame = OverFrame::Rows { preceding: 9 };
    let mut events = rows(&[(1, 1, 10)]);
    events.push(Event::Watermark(20));
    // behind the watermark, yet in time
    events.extend(rows(&[(1, 2, 15), (2, 3, 5), (1, 4, 10)]));
    events.push(Event::Watermark(21));
    let (out, job) = run(frame, TimeAttribute::Rowtime, 0, sum(), &events);
    assert_eq!(out, ["10 Some(1)", "5 Some(3)", "15 Some(3)"]);
    assert_eq!(job.late(), 1);
}

#[test]
fn with_a_bound_rows_from_before_1970_are_late() {
    let rows_window = OverFrame::Rows { preceding: 2 };
    for frame in [rows_window, OverFrame::Range { preceding_ms: 2 }] {
        let mut events = rows(&[(1, 1, -5), (1, 2, 0), (2, 4, 0), (1, 8, 1)]);
        events.push(Event::Watermark(20));
        let (out, job) = run(frame, TimeAttribute::Rowtime, 0, sum(), &events);
        assert_eq!(out, ["1 Some(8)"]);
        assert_eq!((job.late(), job.keys()), (3, usize::from(frame == rows_window)));
    }
    let mut events = rows(&[(1, 1, -5), (1, 2, 0)]);
    events.push(Event::Watermark(20));
    let (out, _) = run(OverFrame::UnboundedRows, TimeAttribute::Rowtime, 0, sum(), &events);
    assert_eq!(out, ["-5 Some(1)", "0 Some(3)"]);
}

#[test]
fn a_range_window_forgets_its_key_and_an_overtaken_cleanup_makes_rows_late() {
    let frame = OverFrame::Range { preceding_ms: 10 };
    // the cleanup at 100 + 15 + 1 is overtaken by that of the second row
    let mut events = rows(&[(1, 1, 100), (1, 2, 112)]);
    events.push(Event::Watermark(117));
    events.extend(rows(&[(1, 4, 116), (1, 8, 117)]));
    events.push(Event::Watermark(118));
    let (out, job) = run(frame, TimeAttribute::Rowtime, 0, sum(), &events);
    assert_eq!(out, ["100 Some(1)", "112 Some(2)", "117 Some(10)"]);
    assert_eq!((job.late(), job.keys()), (1, 1));
    // when the last cleanup has come, a row of any time begins anew
    events.push(Event::Watermark(1000));
    events.extend(rows(&[(1, 16, 50)]));
    events.push(Event::Watermark(1001));
    let (out, job) = run(frame, TimeAttribute::Rowtime, 0, sum(), &events);
    assert_eq!(out.last().map(String::as_str), Some("50 Some(16)"));
    assert_eq!((job.late(), job.keys()), (1, 0));
}

#[test]
fn by_processing_time_rows_leave_as_they_come() {
    let events = rows(&[(1, 1, 9), (2, 2, 9), (1, 4, 9), (1, 8, 9)]);
    let of = |frame| run(frame, TimeAttribute::Proctime, 0, sum(), &events).0;
    assert_eq!(of(OverFrame::UnboundedRange), ["9 Some(1)", "9 Some(2)", "9 Some(5)", "9 Some(13)"]);
    assert_eq!(of(OverFrame::Rows { preceding: 1 }), ["9 Some(1)", "9 Some(2)", "9 Some(5)", "9 Some(12)"]);
}

#[test]
fn by_processing_time_a_range_waits_until_its_millisecond_is_over() {
    let frame = OverFrame::Range { preceding_ms: 10 };
    let mut events = vec![Event::Clock(100)];
    events.extend(rows(&[(1, 1, 9), (1, 2, 9)]));
    assert_eq!(run(frame, TimeAttribute::Proctime, 0, sum(), &events).0, [""; 0]);
    events.push(Event::Clock(101));
    events.extend(rows(&[(1, 4, 9)]));
    events.push(Event::Clock(111));
    events.extend(rows(&[(1, 8, 9)]));
    events.push(Event::Clock(112));
    let (out, job) = run(frame, TimeAttribute::Proctime, 0, sum(), &events);
    assert_eq!(out, ["9 Some(3)", "9 Some(3)", "9 Some(7)", "9 Some(12)"]);
    assert_eq!(job.keys(), 1);
    events.push(Event::Clock(200));
    assert_eq!(run(frame, TimeAttribute::Proctime, 0, sum(), &events).1.keys(), 0);
}

#[test]
fn a_retention_cleans_up_a_key_that_was_not_used_unless_rows_wait() {
    let frame = OverFrame::UnboundedRows;
    let mut events = vec![Event::Clock(0)];
    events.extend(rows(&[(1, 1, 10), (2, 2, 90)]));
    events.extend([Event::Watermark(50), Event::Clock(151)]);
    let (_, job) = run(frame, TimeAttribute::Rowtime, 100, sum(), &events);
    assert_eq!(job.keys(), 1, "of the second key a row waits");
    events.extend(rows(&[(1, 4, 60)]));
    events.push(Event::Watermark(100));
    let (out, _) = run(frame, TimeAttribute::Rowtime, 100, sum(), &events);
    assert_eq!(out, ["10 Some(1)", "60 Some(4)", "90 Some(2)"]);
}

#[test]
fn rows_are_numbered_and_constants_are_added_up() {
    let mut of_constants = spec(OverFrame::UnboundedRows, 0, vec![call("ROW_NUMBER", &[], false)]);
    let ty = LogicalType { kind: TypeKind::Integer, nullable: false };
    let three = Literal::Integer(3);
    of_constants.constants.push(node::Constant { value: three, ty: ty.clone() });
    of_constants.calls.push(AggCall { args: vec![X + 1], ty, ..call("SUM", &[LONG], false) });
    supports(&of_constants, &input_type(TimeAttribute::Rowtime), StateBackend::Hashmap).unwrap();
    let context = StateContext { key_groups: streamfusion_state::KeyGroups::all(1), clock: StateClock::fixed(0) };
    let mut operator = OverAggregate::try_new(&of_constants, &input_type(TimeAttribute::Rowtime), &context).unwrap();
    operator.push(batch(&[row(1, None, 2), row(1, None, 1)])).unwrap();
    operator.watermark(5).unwrap();
    let batch = operator.pull().unwrap().unwrap();
    let column = |number: usize| {
        (0..2)
            .map(|row| match batch.columns()[number].data_type() {
                DataType::Int32 => {
                    batch.columns()[number].as_primitive::<arrow::datatypes::Int32Type>().value(row).into()
                }
                _ => batch.columns()[number].as_primitive::<Int64Type>().value(row),
            })
            .collect::<Vec<i64>>()
    };
    assert_eq!((column(5), column(6)), (vec![1, 2], vec![3, 6]));
}

#[test]
fn a_partition_may_be_all_rows_and_outgrow_a_batch() {
    let mut all = spec(OverFrame::Rows { preceding: 2 }, 0, vec![call("COUNT", &[], false)]);
    all.partition.clear();
    let mut job = Job::open(&all, TimeAttribute::Rowtime, 1);
    let events: Vec<Event> = (0..20_000).map(|n| Event::Row(row(n % 7, n, 1 + n / 9000))).collect();
    let mut out: Output = Vec::new();
    job.run(&events, &[20_000], &mut out);
    job.run(&[Event::Watermark(3)], &[], &mut out);
    let counts: Vec<&str> = out.iter().filter_map(|(_, row)| row.split(' ').next_back()).collect();
    assert_eq!((counts.len(), &counts[..4]), (20_000, &["Some(1)", "Some(2)", "Some(3)", "Some(3)"][..]));
    assert!(
        out.iter().zip(0..20_000).all(|((_, row), n)| row.split(' ').nth(1) == Some(format!("Some({n})").as_str()))
    );
}
