//! Any rows, in any batches, with checkpoints and restores anywhere: the same rows come out as of the model.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::job::{Job, Output};
use super::model::Model;
use super::*;

#[derive(Debug, Clone)]
struct Case {
    frame: OverFrame,
    attribute: TimeAttribute,
    ttl: i64,
    events: Vec<Event>,
    sizes: Vec<usize>,
    /// Where a checkpoint is taken, and whether the job goes on from it at another parallelism.
    stops: Vec<(Index, Option<u32>)>,
    /// Whether the state lies in a database.
    is_stored: bool,
}

fn frames() -> impl Strategy<Value = OverFrame> {
    prop_oneof![
        Just(OverFrame::UnboundedRows),
        Just(OverFrame::UnboundedRange),
        (0_i64..5).prop_map(|preceding| OverFrame::Rows { preceding }),
        (1_i64..25).prop_map(|preceding_ms| OverFrame::Range { preceding_ms }),
    ]
}

/// Times go on, some rows are behind.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let key = prop_oneof![1 => Just(None), 6 => (0_i64..4).prop_map(Some)];
    let text = prop::option::of(prop::sample::select(vec!["", "a", "bb", "c"]));
    let double = prop::option::of(prop::sample::select(vec![0.1, -2.5, 1e16, 3.0]));
    let row = (key, prop::option::of(-3_i64..4), double, text, -12_i64..12);
    let step = prop_oneof![
        10 => row.prop_map(|row| (0, Some(row))),
        2 => (0_i64..9).prop_map(|step| (step, None)),
        1 => (20_i64..60).prop_map(|step| (step, None)),
    ];
    let steps = prop::collection::vec((step, any::<u8>()), 0..70);
    (steps, -10_i64..30).prop_map(|(steps, start)| {
        let (mut now, mut watermark, mut time) = (100, start - 5, start);
        let events = steps.into_iter().map(|((step, row), choice)| match row {
            Some((key, long, double, text, offset)) => {
                let text = text.map(str::to_owned);
                Event::Row(Row { key, long, double, text, time: time + offset })
            }
            None if choice % 2 == 0 => {
                now += step;
                Event::Clock(now)
            }
            None => {
                time += step;
                watermark = watermark.max(time - i64::from(choice % 7));
                Event::Watermark(watermark)
            }
        });
        [Event::Clock(100)].into_iter().chain(events.collect::<Vec<_>>()).collect()
    })
}

fn cases() -> impl Strategy<Value = Case> {
    let attribute = prop_oneof![3 => Just(TimeAttribute::Rowtime), 2 => Just(TimeAttribute::Proctime)];
    let ttl = prop_oneof![3 => Just(0_i64), 1 => Just(1), 3 => 5_i64..40];
    let sizes = prop::collection::vec(1_usize..20, 0..12);
    let stops = prop::collection::vec((any::<Index>(), prop::option::of(1_u32..4)), 0..4);
    (frames(), attribute, ttl, events(), sizes, stops, prop::bool::weighted(0.3)).prop_map(
        |(frame, attribute, ttl, events, sizes, stops, is_stored)| Case {
            frame,
            attribute,
            ttl,
            events,
            sizes,
            stops,
            is_stored,
        },
    )
}

fn by_key(output: &Output) -> BTreeMap<Option<i64>, Vec<&str>> {
    let mut keys: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (key, row) in output {
        keys.entry(*key).or_default().push(row);
    }
    keys
}

/// The calls of a case: with a time-to-live by processing time Flink does not forget distinct values.
fn calls_of(case: &Case) -> Vec<AggCall> {
    calls_over(case.frame)
        .into_iter()
        .filter(|call| !(call.distinct && case.ttl > 0 && !case.frame.is_bounded() && is_by_clock(case)))
        .collect()
}

fn is_by_clock(case: &Case) -> bool {
    case.attribute == TimeAttribute::Proctime
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let calls = calls_of(case);
    let all = calls.len() == calls_over(case.frame).len();
    let spec = spec(case.frame, case.ttl, calls);
    supports(&spec, &input_type(case.attribute), StateBackend::RocksDb).unwrap();
    let mut model = Model::new(case.frame, case.attribute, case.ttl);
    let mut job = Job::open(&spec, case.attribute, 1);
    if case.is_stored {
        job = job.stored();
    }
    let mut stops: Vec<(usize, Option<u32>)> =
        case.stops.iter().map(|(at, parallelism)| (at.index(case.events.len() + 1), *parallelism)).collect();
    stops.sort_unstable();
    let (mut out, mut done) = (Vec::new(), 0);
    for (at, parallelism) in stops.into_iter().chain([(case.events.len(), None)]) {
        let events = &case.events[done..at];
        job.run(events, &case.sizes, &mut out);
        events.iter().for_each(|event| model.take(event));
        done = at;
        match parallelism {
            Some(parallelism) => {
                job = job.restored(parallelism);
                model.restore();
            }
            None => drop(job.checkpoint()),
        }
    }
    let strip = |row: String| -> String {
        if all {
            return row;
        }
        let mut words: Vec<&str> = row.split(' ').collect();
        // the distinct one, behind the columns and eight others
        words.remove(TIME + 9);
        words.join(" ")
    };
    let expected: Output = model.out.into_iter().map(|(key, row)| (key, strip(row))).collect();
    prop_assert_eq!(by_key(&out), by_key(&expected));
    if case.attribute == TimeAttribute::Rowtime {
        prop_assert_eq!(job.late(), model.late);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn cuts_checkpoints_and_restores_do_not_matter(case in cases()) {
        check(&case)?;
    }
}
