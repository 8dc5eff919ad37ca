#![allow(clippy::unwrap_used)]

use std::cmp::Ordering;

use proptest::prelude::*;
use streamfusion_plan::node::{ShiftZone, SortField, WindowRank};

use super::*;
use crate::window::testing::{
    Event, Expected, Job, Row, Slots, add, batch, check, context, cuts, events, input_type, row, windowing, zones,
};

fn field(column: usize, ascending: bool, nulls_last: bool) -> SortField {
    SortField { column, ascending, nulls_last }
}

fn spec(start: i64, end: i64, output_row_number: bool) -> WindowRank {
    WindowRank {
        partition: vec![1],
        order_by: vec![field(3, true, true)],
        start,
        end,
        output_row_number,
        windowing: windowing(ShiftZone::Utc),
    }
}

fn compare(a: &Row, b: &Row, order_by: &[SortField]) -> Ordering {
    fn one<T: Ord>(a: Option<&T>, b: Option<&T>, field: &SortField) -> Ordering {
        match (a, b) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => {
                if field.nulls_last {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (Some(_), None) => {
                if field.nulls_last {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (Some(a), Some(b)) => {
                if field.ascending {
                    a.cmp(b)
                } else {
                    b.cmp(a)
                }
            }
        }
    }
    let column = |field: &SortField| match field.column {
        1 => one(a.k.as_ref(), b.k.as_ref(), field),
        2 => one(a.v.as_ref(), b.v.as_ref(), field),
        _ => one(a.t.as_ref(), b.t.as_ref(), field),
    };
    order_by.iter().map(column).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Flink's processor, row by row.
fn model(spec: &WindowRank, parts: &[&[Event]]) -> Expected {
    let zone = WindowZone::new(&spec.windowing.zone);
    let (mut slots, mut expected, mut progress) = (Slots::new(), Expected::default(), i64::MIN);
    for event in parts.iter().flat_map(|part| part.iter()) {
        match event {
            Event::Row(row) if zone.is_window_fired(row.window(), progress) => expected.late_rows += 1,
            Event::Row(row) => add(&mut slots, &spec.partition, row),
            Event::Watermark(watermark) => {
                progress = progress.max(*watermark);
                while let Some(window) = slots.first_entry().filter(|e| zone.is_window_fired(*e.key(), progress)) {
                    for (_, mut rows) in window.remove() {
                        rows.sort_by(|a, b| compare(a, b, &spec.order_by));
                        for (rank, row) in (1_i64..).zip(&rows) {
                            if (spec.start..=spec.end).contains(&rank) {
                                let number = if spec.output_row_number { format!(" {rank}") } else { String::new() };
                                expected.out.push(row.show() + &number);
                            }
                        }
                    }
                }
            }
        }
    }
    expected
}

fn orders() -> impl Strategy<Value = Vec<SortField>> {
    let one = |column: usize| (any::<bool>(), any::<bool>()).prop_map(move |(up, last)| field(column, up, last));
    prop_oneof![
        3 => one(3).prop_map(|field| vec![field]),
        // a text needs keys of any width
        2 => one(2).prop_map(|field| vec![field]),
        2 => (one(2), one(3)).prop_map(|(a, b)| vec![a, b]),
        1 => (one(3), one(1)).prop_map(|(a, b)| vec![a, b]),
        1 => Just(Vec::new()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_are_flinks_at_any_cut_restore_and_rescaling(
        order_by in orders(),
        (start, more) in (1_i64..4, 0_i64..4),
        output_row_number in any::<bool>(),
        partition in prop::sample::select(vec![vec![1], vec![2], vec![1, 2], vec![]]),
        zone in zones(),
        events in events(1),
        cuts in cuts(),
    ) {
        let spec = WindowRank {
            order_by,
            partition,
            windowing: windowing(zone),
            ..spec(start, start + more, output_row_number)
        };
        let factory = |context: &StateContext| open(&spec, &input_type(), context).unwrap();
        check(&factory, &spec.partition, &events, &cuts, |parts| model(&spec, parts))?;
    }
}

fn run(spec: &WindowRank, events: &[Event], sizes: &[usize]) -> Vec<String> {
    let mut out = Vec::new();
    let factory = |context: &StateContext| open(spec, &input_type(), context).unwrap();
    Job::open(&factory, &spec.partition, 1).run(events, sizes, &mut out);
    out
}

#[test]
fn of_equal_sort_keys_the_row_that_came_first_ranks_first() {
    let events = [
        row("1 7 a 5 10"),
        row("2 7 a 4 10"),
        row("3 7 a 5 10"),
        row("4 7 a 4 10"),
        row("5 7 a NULL 10"),
        Event::Watermark(9),
    ];
    for sizes in [vec![], vec![5], vec![2, 3]] {
        let first = run(&spec(1, 3, true), &events, &sizes);
        assert_eq!(first, ["2 7 a 4 10 1", "4 7 a 4 10 2", "1 7 a 5 10 3"]);
        let others = run(&spec(3, 9, false), &events, &sizes);
        assert_eq!(others, ["1 7 a 5 10", "3 7 a 5 10", "5 7 a NULL 10"]);
    }
}

/// Rows of one key whose times go down, so that each is better than all before.
fn descending(rows: i64) -> Vec<Row> {
    let row = |id| Row { side: 0, id, k: Some(1), v: Some("a".to_owned()), t: Some(-id), end: Some(10) };
    (0..rows).map(row).collect()
}

#[test]
fn rows_that_cannot_get_a_rank_do_not_pile_up() {
    let rows = descending(20_000);
    for size in [1, 100, 4096] {
        let mut operator = open(&spec(1, 100, true), &input_type(), &context()).unwrap();
        let mut most = 0;
        for (number, rows) in rows.chunks(size).take(5_000).enumerate() {
            operator.push(batch(rows)).unwrap();
            if number % 23 != 0 {
                continue;
            }
            let snapshot = operator.state().unwrap().snapshot();
            let rows =
                |group| snapshot.sections(group).unwrap().iter().map(|section| section.num_rows()).sum::<usize>();
            most = most.max(snapshot.key_groups().into_iter().map(rows).sum());
        }
        assert!(most <= 202, "{most} rows");
    }
}

#[test]
fn a_key_with_more_ranks_than_a_batch_has_rows_goes_out_in_batches() {
    let rows = descending(30_000);
    let mut operator = open(&spec(2, 20_000, true), &input_type(), &context()).unwrap();
    rows.chunks(4096).for_each(|rows| operator.push(batch(rows)).unwrap());
    operator.watermark(9).unwrap();
    let mut out = Vec::new();
    crate::window::testing::drain(operator.as_mut(), &mut out);
    assert_eq!(out.len(), 19_999);
    assert_eq!((out[0].as_str(), out[19_998].as_str()), ("29998 1 a -29998 10 2", "10000 1 a -10000 10 20000"));
}

#[test]
fn sorting_by_a_double_is_refused() {
    use streamfusion_plan::types::TypeKind;
    let mut input = input_type();
    let TypeKind::Row(fields) = &mut input.kind else { unreachable!() };
    let mut changed: Vec<_> = fields.to_vec();
    changed[0].ty.kind = TypeKind::Double;
    *fields = changed.into();
    let by = |column| WindowRank { order_by: vec![field(column, true, true)], ..spec(1, 1, false) };
    assert!(supports(&by(0), &input).is_err() && supports(&by(3), &input).is_ok());
}
