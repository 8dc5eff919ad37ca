//! Jobs with mini-batch: cut into batches, flushed for any reason, restored and rescaled, against a model of bundles.

use proptest::prelude::*;

use super::{Factory, Job, MAX_PARALLELISM, Row, batch, drain};
use crate::bundle::FlushReason;
use crate::stored_testing;

/// What comes between rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Flush(FlushReason),
    /// A checkpoint, a failure, and a restore at this parallelism.
    Restore(u32),
}

/// How rows come: the size of a bundle, those of batches one after the other and over again, and events in front of rows.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) bundle: u64,
    pub(crate) batches: Vec<usize>,
    pub(crate) events: Vec<(usize, Event)>,
    /// Whether the state lies in a database.
    pub(crate) stored: bool,
}

/// Plans for at most so many rows.
pub(crate) fn plans(rows: usize) -> impl Strategy<Value = Plan> {
    let reasons = [FlushReason::Marker, FlushReason::Watermark, FlushReason::Checkpoint, FlushReason::EndOfInput];
    let flush = prop::sample::select(reasons.to_vec()).prop_map(Event::Flush);
    let event = prop_oneof![3 => flush, 1 => (1_u32..4).prop_map(Event::Restore)];
    let bundle = prop::sample::select(vec![1_u64, 2, 3, 7, 20, 4096]);
    let events = prop::collection::vec((0..rows, event), 0..5);
    let batches = prop::collection::vec(1_usize..30, 1..6);
    (bundle, batches, events, any::<bool>()).prop_map(|(bundle, batches, mut events, stored)| {
        events.sort_by_key(|(at, _)| *at);
        Plan { bundle, batches, events, stored }
    })
}

/// What a bundle comes to that ends at a time: the rows of one subtask in the order in which they came.
pub(crate) type OfBundle<'a> = &'a mut dyn FnMut(&[Row], i64) -> Vec<String>;

/// Claims that a run as planned gives what `of_bundle` says of each bundle: of each subtask between two restores in order.
pub(crate) fn check_bundles(
    factory: Factory<'_>,
    keys: &[usize],
    rows: &[Row],
    plan: &Plan,
    of_bundle: OfBundle<'_>,
) -> Result<(), TestCaseError> {
    let job = if plan.stored { Job::stored(factory, keys, 1) } else { Job::open(factory, keys, 1) };
    let mut run = Run { job, open: vec![Vec::new()], found: vec![Vec::new()], now: 0 };
    let mut expected = vec![Vec::new()];
    let mut sizes = plan.batches.iter().cycle();
    let mut done = 0;
    for (at, event) in &plan.events {
        let at = (*at).min(rows.len());
        run.push(&rows[done..at], &mut sizes, plan.bundle, &mut expected, of_bundle);
        done = at;
        match event {
            Event::Flush(reason) => run.flush(*reason, &mut expected, of_bundle),
            Event::Restore(parallelism) => {
                run.flush(FlushReason::Checkpoint, &mut expected, of_bundle);
                prop_assert_eq!(&run.found, &expected);
                run.job = run.job.restored(*parallelism);
                run.open = vec![Vec::new(); *parallelism as usize];
                run.found = vec![Vec::new(); *parallelism as usize];
                expected = run.found.clone();
            }
        }
    }
    run.push(&rows[done..], &mut sizes, plan.bundle, &mut expected, of_bundle);
    run.flush(FlushReason::EndOfInput, &mut expected, of_bundle);
    prop_assert_eq!(&run.found, &expected);
    Ok(())
}

struct Run<'a> {
    job: Job<'a>,
    /// Per subtask the open bundle of the model.
    open: Vec<Vec<Row>>,
    found: Vec<Vec<String>>,
    now: i64,
}

impl Run<'_> {
    fn push<'b>(
        &mut self,
        rows: &[Row],
        sizes: &mut impl Iterator<Item = &'b usize>,
        bundle: u64,
        expected: &mut [Vec<String>],
        of_bundle: OfBundle<'_>,
    ) {
        let parallelism = self.open.len() as u32;
        for of_time in rows.chunk_by(|a, b| a.arrives == b.arrives) {
            self.now = of_time[0].arrives;
            self.job.clock.set(self.now);
            let mut rest = of_time;
            while !rest.is_empty() {
                let (head, tail) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                rest = tail;
                let groups = self.job.key_groups(head);
                let owner = |i: usize| groups[i].subtask(parallelism, MAX_PARALLELISM) as usize;
                let subtasks =
                    self.job.subtasks.iter_mut().zip(&mut self.open).zip(&mut self.found).zip(&mut *expected);
                for (subtask, (((operator, open), found), expected)) in subtasks.enumerate() {
                    let mine =
                        head.iter().enumerate().filter(|(i, _)| owner(*i) == subtask).map(|(_, row)| row.clone());
                    let mine: Vec<Row> = mine.collect();
                    if mine.is_empty() {
                        continue;
                    }
                    operator.push(batch(&mine)).unwrap();
                    drain(operator.as_mut(), found);
                    stored_testing::evict(operator.as_mut());
                    for row in mine {
                        open.push(row);
                        if open.len() as u64 == bundle {
                            expected.extend(of_bundle(&std::mem::take(open), self.now));
                        }
                    }
                }
            }
        }
    }

    fn flush(&mut self, reason: FlushReason, expected: &mut [Vec<String>], of_bundle: OfBundle<'_>) {
        for (subtask, operator) in self.job.subtasks.iter_mut().enumerate() {
            operator.flush(reason).unwrap();
            drain(operator.as_mut(), &mut self.found[subtask]);
            let rows = std::mem::take(&mut self.open[subtask]);
            expected[subtask].extend(of_bundle(&rows, self.now));
        }
    }
}

/// The rows of each key, the keys in first-touch order.
pub(crate) fn by_key(rows: &[Row], keys: &[usize]) -> Vec<Vec<Row>> {
    let mut found: Vec<(String, Vec<Row>)> = Vec::new();
    for row in rows {
        let key = super::key_of(row, keys);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, rows)) => rows.push(row.clone()),
            None => found.push((key, vec![row.clone()])),
        }
    }
    found.into_iter().map(|(_, rows)| rows).collect()
}
