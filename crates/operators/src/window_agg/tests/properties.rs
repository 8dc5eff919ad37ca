//! Rows in batches of any size, restored and rescaled on the way, against the model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use streamfusion_plan::node::WindowSpec;

use super::model::{Model, Out};
use super::{ID, KEY, Query, TEXT, call};
use crate::Operator;
use crate::window::testing::{Event, Factory, Job, Row, batch, context, drain};

fn windows() -> impl Strategy<Value = WindowSpec> {
    let hop =
        |(slide, times, offset)| WindowSpec::Hopping { size_ms: slide * times, slide_ms: slide, offset_ms: offset };
    let cumulate = |(step, times, offset): (i64, i64, i64)| WindowSpec::Cumulative {
        max_size_ms: step * times,
        step_ms: step,
        offset_ms: offset,
    };
    prop_oneof![
        (1..20_i64, -19..20_i64)
            .prop_map(|(size_ms, offset)| WindowSpec::Tumbling { size_ms, offset_ms: offset % size_ms }),
        (1..9_i64, 1..5_i64, -20..20_i64).prop_map(hop),
        (1..9_i64, 1..5_i64, -20..20_i64).prop_map(cumulate),
    ]
}

fn query(two_phases: bool) -> impl Strategy<Value = Query> {
    let grouping = prop_oneof![Just(vec![KEY]), Just(vec![KEY, TEXT]), Just(vec![TEXT])];
    (windows(), any::<bool>(), grouping, 0..3_u8).prop_map(move |(window, attached, grouping, which)| {
        let attached = attached && matches!(window, WindowSpec::Tumbling { .. });
        let mut calls = match which {
            0 => vec![],
            1 => vec![call("SUM", &[ID], false), call("MAX", &[TEXT], false)],
            _ => vec![call("COUNT", &[], false), call("SUM", &[ID], false)],
        };
        if which > 0 {
            calls.push(call("COUNT", &[KEY], true));
            calls.push(call("SUM", &[KEY], true));
            calls.push(call("COUNT", &[TEXT], true));
        }
        if !two_phases && which > 0 && matches!(window, WindowSpec::Tumbling { .. }) {
            calls.push(call("LAST_VALUE", &[ID], false));
        }
        Query { window, attached, by_clock: false, grouping, calls }
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let text = prop_oneof![1 => Just(None), 5 => "[ab]".prop_map(Some)];
    let end = prop::option::weighted(0.9, (1..6_i64).prop_map(|end| 10 * end));
    let row = (prop::option::weighted(0.9, 0_i64..3), text, 0..70_i64, end);
    let event = prop_oneof![10 => row.prop_map(Ok), 2 => (1..70_i64).prop_map(Err)];
    (prop::collection::vec(event, 0..100), any::<bool>()).prop_map(|(events, ends)| {
        let event = |(id, event)| match event {
            Ok((k, v, t, end)) => Event::Row(Row { side: 0, id, k, v, t: Some(t), end }),
            Err(watermark) => Event::Watermark(watermark),
        };
        let mut events: Vec<Event> = (0..).zip(events).map(event).collect();
        if ends {
            events.push(Event::Watermark(i64::MAX));
        }
        events
    })
}

/// Rows by their key columns, which come first.
fn by_key(query: &Query, out: &[String]) -> Out {
    let mut rows: Out = BTreeMap::new();
    for shown in out {
        let key = shown.split(' ').take(query.grouping.len()).collect::<Vec<_>>().join(" ");
        rows.entry(key).or_default().push(shown.clone());
    }
    rows
}

/// What a model came to, by the same keys.
fn expected(query: &Query, model: &Model<'_>) -> Out {
    by_key(query, &model.out.values().flatten().cloned().collect::<Vec<_>>())
}

fn sorted(restores: &[(u32, prop::sample::Index)], events: usize) -> Vec<usize> {
    let mut places: Vec<usize> = restores.iter().map(|(_, at)| at.index(events)).collect();
    places.sort_unstable();
    places
}

fn check(
    query: &Query,
    factory: Factory<'_>,
    events: &[Event],
    sizes: &[usize],
    restores: &[(u32, prop::sample::Index)],
    counts_late_rows: bool,
) -> Result<(), TestCaseError> {
    let model = Model::run(query, events);
    let mut out = Vec::new();
    let mut job = Job::open(factory, &query.grouping, 1);
    job.run(events, sizes, &mut out);
    prop_assert_eq!(&by_key(query, &out), &expected(query, &model), "in batches");
    if counts_late_rows {
        prop_assert_eq!(job.late_rows(), model.late_rows);
    }
    if events.last() == Some(&Event::Watermark(i64::MAX)) {
        prop_assert!(job.is_empty(), "state is left");
    }
    let (mut out, mut done) = (Vec::new(), 0);
    let mut job = Job::open(factory, &query.grouping, 1);
    for ((parallelism, _), place) in restores.iter().zip(sorted(restores, events.len().max(1))) {
        job.run(&events[done..place], &[2, 9], &mut out);
        done = place;
        job = job.restored(*parallelism);
    }
    job.run(&events[done..], &[3], &mut out);
    prop_assert_eq!(&by_key(query, &out), &expected(query, &model), "restored and rescaled");
    if counts_late_rows {
        prop_assert_eq!(job.late_rows(), model.late_rows);
    }
    let (mut out, mut done) = (Vec::new(), 0);
    let mut job = Job::stored(factory, &query.grouping);
    for place in sorted(restores, events.len().max(1)) {
        job.run(&events[done..place], &[2, 9], &mut out);
        done = place;
        job = job.reopened();
    }
    job.run(&events[done..], &[3], &mut out);
    prop_assert_eq!(&by_key(query, &out), &expected(query, &model), "from a database that was reopened");
    Ok(())
}

/// Rows with what the clock says when they come.
fn ticks() -> impl Strategy<Value = Vec<Row>> {
    let text = prop_oneof![1 => Just(None), 5 => "[ab]".prop_map(Some)];
    let later = prop_oneof![4 => Just(0), 4 => 1..4_i64, 1 => 1..40_i64];
    let row = (prop::option::weighted(0.9, 0_i64..3), text, later);
    prop::collection::vec(row, 0..80).prop_map(|rows| {
        let mut now = 50;
        let row = |(id, (k, v, later))| {
            now += later;
            Row { side: 0, id, k, v, t: Some(now), end: None }
        };
        (0..).zip(rows).map(row).collect()
    })
}

/// Lets a clock go on to the time of each row, or of several that come at once, with timers between them.
fn run_by_clock(operator: &mut dyn Operator, rows: &[Row], sizes: &[usize], out: &mut Vec<String>) {
    let mut sizes = sizes.iter().copied();
    let mut rest = rows;
    let mut tell = |operator: &mut dyn Operator, now: i64| {
        while let Some(timer) = operator.timer().filter(|timer| *timer < now) {
            operator.processing_time(timer).unwrap();
            drain(operator, out);
            assert!(operator.timer() > Some(timer), "a timer that does not go on");
        }
        operator.processing_time(now).unwrap();
        drain(operator, out);
    };
    while let Some(first) = rest.first() {
        let size = sizes.next().unwrap_or(1);
        let together = rest.iter().take(size).take_while(|row| row.t == first.t).count();
        let (batch_rows, behind) = rest.split_at(together);
        tell(operator, first.t.unwrap());
        operator.push(batch(batch_rows)).unwrap();
        rest = behind;
    }
    tell(operator, 1_000);
}

fn restores() -> impl Strategy<Value = Vec<(u32, prop::sample::Index)>> {
    prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 1..4)
}

proptest! {
    #[test]
    fn one_phase_follows_flinks_processors(
        query in query(false),
        events in events(),
        sizes in prop::collection::vec(1_usize..40, 0..20),
        restores in restores(),
    ) {
        let factory = |context: &_| -> Box<dyn Operator> { query.one_phase(context) };
        check(&query, &factory, &events, &sizes, &restores, true)?;
    }

    #[test]
    fn windows_by_the_clock_are_those_of_rows_that_come_when_their_time_is(
        query in query(false),
        rows in ticks(),
        sizes in prop::collection::vec(1_usize..20, 0..20),
    ) {
        let query = Query { attached: false, by_clock: true, ..query };
        // what ends with the millisecond before a row has fired, and nothing else
        let event = |row: &Row| [Event::Watermark(row.t.unwrap_or_default() - 1), Event::Row(row.clone())];
        let mut events: Vec<Event> = rows.iter().flat_map(event).collect();
        events.push(Event::Watermark(i64::MAX));
        let mut operator = query.one_phase(&context());
        let mut out = Vec::new();
        run_by_clock(operator.as_mut(), &rows, &sizes, &mut out);
        prop_assert_eq!(by_key(&query, &out), expected(&query, &Model::run(&query, &events)));
        prop_assert_eq!(operator.late_rows(), Some(0));
        prop_assert!(operator.state().is_some_and(|state| state.snapshot().key_groups().is_empty()), "state is left");
    }

    #[test]
    fn two_phases_come_to_the_same_as_one(
        query in query(true),
        events in events(),
        sizes in prop::collection::vec(1_usize..40, 0..20),
        restores in restores(),
    ) {
        let factory = |context: &_| -> Box<dyn Operator> { query.two_phases(context) };
        check(&query, &factory, &events, &sizes, &restores, false)?;
    }
}
