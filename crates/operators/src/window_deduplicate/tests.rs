#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use streamfusion_plan::node::ShiftZone;

use super::*;
use crate::window::testing::{
    Event, Expected, Job, Row, Slots, add, batch, check, context, cuts, events, input_type, row, windowing, zones,
};

fn spec(keep: KeepRow, partition: &[usize], zone: ShiftZone) -> node::WindowDeduplicate {
    node::WindowDeduplicate { partition: partition.to_vec(), order_key: 3, keep, windowing: windowing(zone) }
}

fn open(spec: &node::WindowDeduplicate, context: &StateContext) -> Box<dyn Operator> {
    Box::new(WindowDeduplicate::try_new(spec, &input_type(), context).unwrap())
}

/// Flink's processor, row by row.
fn model(spec: &node::WindowDeduplicate, parts: &[&[Event]]) -> Expected {
    let zone = WindowZone::new(&spec.windowing.zone);
    let (mut slots, mut expected, mut progress) = (Slots::new(), Expected::default(), i64::MIN);
    for event in parts.iter().flat_map(|part| part.iter()) {
        match event {
            Event::Row(row) if zone.is_window_fired(row.window(), progress) => expected.late_rows += 1,
            Event::Row(row) => add(&mut slots, &spec.partition, row),
            Event::Watermark(watermark) => {
                progress = progress.max(*watermark);
                while let Some(window) = slots.first_entry().filter(|e| zone.is_window_fired(*e.key(), progress)) {
                    for (_, rows) in window.remove() {
                        let time = |row: &Row| row.t.unwrap_or(0);
                        let winner = rows.into_iter().reduce(|best, row| match spec.keep {
                            KeepRow::Last if time(&best) <= time(&row) => row,
                            KeepRow::First if time(&row) < time(&best) => row,
                            _ => best,
                        });
                        expected.out.extend(winner.map(|row| row.show()));
                    }
                }
            }
        }
    }
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_are_flinks_at_any_cut_restore_and_rescaling(
        keep in prop::sample::select(vec![KeepRow::First, KeepRow::Last]),
        partition in prop::sample::select(vec![vec![1], vec![2], vec![1, 2], vec![]]),
        zone in zones(),
        events in events(1),
        cuts in cuts(),
    ) {
        let spec = spec(keep, &partition, zone);
        check(&|context| open(&spec, context), &partition, &events, &cuts, |parts| model(&spec, parts))?;
    }
}

fn run(spec: &node::WindowDeduplicate, events: &[Event], sizes: &[usize]) -> Vec<String> {
    let mut out = Vec::new();
    let factory = |context: &StateContext| open(spec, context);
    Job::open(&factory, &spec.partition, 1).run(events, sizes, &mut out);
    out
}

#[test]
fn of_equal_times_the_last_or_the_first_that_came_wins() {
    let events = [
        row("1 7 a 5 10"),
        row("2 7 a 5 10"),
        row("3 7 a 4 10"),
        row("4 8 a NULL 10"),
        row("5 8 a -1 10"),
        row("6 8 a 0 10"),
        Event::Watermark(9),
    ];
    for sizes in [vec![], vec![6], vec![2, 4]] {
        let last = run(&spec(KeepRow::Last, &[1], ShiftZone::Utc), &events, &sizes);
        assert_eq!(last, ["2 7 a 5 10", "6 8 a 0 10"]);
        let first = run(&spec(KeepRow::First, &[1], ShiftZone::Utc), &events, &sizes);
        assert_eq!(first, ["3 7 a 4 10", "5 8 a -1 10"]);
    }
}

#[test]
fn the_first_row_stays_however_late_its_time() {
    let latest = format!("1 7 a {} 10", i64::MAX);
    let events = [row(&latest), Event::Watermark(9)];
    assert_eq!(run(&spec(KeepRow::First, &[1], ShiftZone::Utc), &events, &[]), [latest]);
    let earliest = format!("1 7 a {} 10", i64::MIN);
    let events = [row(&earliest), Event::Watermark(9)];
    assert_eq!(run(&spec(KeepRow::Last, &[1], ShiftZone::Utc), &events, &[]), [earliest]);
}

#[test]
fn a_window_is_due_one_millisecond_before_its_end() {
    let spec = spec(KeepRow::Last, &[1], ShiftZone::Utc);
    let events = [row("1 7 a 5 10"), Event::Watermark(8), row("2 7 a 6 10"), Event::Watermark(9), row("3 7 a 7 10")];
    let factory = |context: &StateContext| open(&spec, context);
    let (mut job, mut out) = (Job::open(&factory, &[1], 1), Vec::new());
    job.run(&events, &[], &mut out);
    assert_eq!((out, job.late_rows(), job.is_empty()), (vec!["2 7 a 6 10".to_owned()], 1, true));
}

#[test]
fn more_rows_than_a_batch_go_out_in_batches() {
    let rows: Vec<Row> = (0..20_000_i64)
        .map(|id| Row { side: 0, id, k: Some(id), v: Some("a".to_owned()), t: Some(0), end: Some(10) })
        .collect();
    let mut operator =
        WindowDeduplicate::try_new(&spec(KeepRow::Last, &[1], ShiftZone::Utc), &input_type(), &context()).unwrap();
    for rows in rows.chunks(4096) {
        operator.push(batch(rows)).unwrap();
        assert!(operator.pull().unwrap().is_none());
    }
    operator.watermark(9).unwrap();
    let sizes: Vec<usize> = std::iter::from_fn(|| operator.pull().unwrap()).map(|batch| batch.num_rows()).collect();
    assert_eq!(sizes, [8192, 8192, 3616]);
}

#[test]
fn retractions_are_refused() {
    let mut operator = open(&spec(KeepRow::Last, &[1], ShiftZone::Utc), &context());
    let Event::Row(row) = row("1 7 a 5 10") else { unreachable!() };
    let kinds = arrow::array::UInt8Array::from(vec![1]);
    let retraction = batch(&[row]).with_kinds(Some(kinds)).unwrap();
    assert_eq!(operator.push(retraction).unwrap_err(), OperatorError::UnexpectedRetraction);
}
