#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use streamfusion_plan::node::{self, KeepRow};
use streamfusion_plan::types::TimeDomain;
use streamfusion_state::StateContext;

use super::Deduplicate;
use crate::StateBackend;
use crate::row_per_key::testing::bundles::{Plan, by_key, check_bundles, plans};
use crate::row_per_key::testing::{
    Job, Row, Store, batch, check, check_every_restore, context, cuts, input_type, key_of, row, rows,
};
use crate::{Operator, OperatorError};

fn spec(time: TimeDomain, keep: KeepRow) -> node::Deduplicate {
    node::Deduplicate {
        unique_keys: vec![0],
        time,
        keep,
        output_insert_only: false,
        generate_update_before: true,
        generate_insert: true,
        compact_changes: false,
        ttl_ms: 0,
        mini_batch_size: None,
    }
}

/// Flink's functions, with the kind of rows in state.
struct Model<'a> {
    spec: &'a node::Deduplicate,
    backend: StateBackend,
    state: Store<Row>,
}

fn time_of(row: &Row) -> i64 {
    row.time.unwrap_or(0)
}

impl<'a> Model<'a> {
    fn new(spec: &'a node::Deduplicate, backend: StateBackend) -> Self {
        Self { spec, backend, state: Store::new(spec.ttl_ms) }
    }

    fn wins(&self, current: &Row, pre: &Row) -> bool {
        match self.spec.keep {
            KeepRow::Last => time_of(pre) <= time_of(current),
            KeepRow::First => time_of(current) < time_of(pre),
        }
    }

    fn process(&mut self, current: &Row, now: i64, out: &mut Vec<String>) {
        let Self { spec, backend, .. } = *self;
        let kinds = spec.generate_update_before || spec.generate_insert;
        let key = key_of(current, &spec.unique_keys);
        let pre = self.state.get(&key, now);
        let mut kept = current.clone();
        match (spec.time, spec.keep) {
            (TimeDomain::Proctime, KeepRow::First) => {
                if pre.is_none() {
                    self.state.update(&key, kept, now);
                    out.push(current.show("+I"));
                }
            }
            (TimeDomain::Proctime, KeepRow::Last) if !kinds => out.push(current.show("+U")),
            (TimeDomain::Proctime, KeepRow::Last) => {
                match pre {
                    None => out.push(current.show("+I")),
                    Some(pre) if spec.ttl_ms == 0 && pre.kind == current.kind && pre.same(current) => {}
                    Some(pre) => {
                        if spec.generate_update_before {
                            out.push(pre.show("-U"));
                        }
                        out.push(current.show("+U"));
                        if backend == StateBackend::Hashmap {
                            kept.kind = 2;
                        }
                    }
                }
                self.state.update(&key, kept, now);
            }
            (TimeDomain::Rowtime, _) => {
                if pre.as_ref().is_none_or(|pre| self.wins(current, pre)) {
                    match pre {
                        _ if !kinds => out.push(current.show("+U")),
                        None => out.push(current.show("+I")),
                        Some(pre) => {
                            if spec.generate_update_before {
                                out.push(pre.show("-U"));
                            }
                            out.push(current.show("+U"));
                        }
                    }
                    self.state.update(&key, kept, now);
                }
            }
        }
    }

    /// The functions for mini-batch.
    fn bundle(&mut self, rows: &[Row], now: i64) -> Vec<String> {
        let mut out = Vec::new();
        if self.spec.time == TimeDomain::Rowtime && !self.spec.compact_changes {
            rows.iter().for_each(|row| self.process(row, now, &mut out));
            for row in rows {
                let key = key_of(row, &self.spec.unique_keys);
                let pre = self.state.get(&key, now).unwrap();
                self.state.update(&key, pre, now);
            }
            return out;
        }
        for rows in by_key(rows, &self.spec.unique_keys) {
            let row = match (self.spec.time, self.spec.keep) {
                (TimeDomain::Proctime, KeepRow::First) => rows[0].clone(),
                (TimeDomain::Proctime, KeepRow::Last) => rows[rows.len() - 1].clone(),
                (TimeDomain::Rowtime, _) => {
                    rows.into_iter().reduce(|pre, row| if self.wins(&row, &pre) { row } else { pre }).unwrap()
                }
            };
            self.process(&row, now, &mut out);
        }
        out
    }
}

/// Row by row.
fn model(spec: &node::Deduplicate, backend: StateBackend, rows: &[Row]) -> Vec<String> {
    let (mut model, mut out) = (Model::new(spec, backend), Vec::new());
    rows.iter().for_each(|row| model.process(row, row.arrives, &mut out));
    out
}

fn factory(spec: &node::Deduplicate, backend: StateBackend) -> impl Fn(&StateContext) -> Box<dyn Operator> {
    move |context| Box::new(Deduplicate::try_new(spec, &input_type(), backend, context).unwrap())
}

fn run(spec: &node::Deduplicate, backend: StateBackend, rows: &[Row]) -> Vec<String> {
    let mut out = Vec::new();
    Job::open(&factory(spec, backend), &spec.unique_keys, 1).push(rows, &[rows.len()], &mut out);
    out
}

#[test]
fn equal_rows_go_out_again_once_a_key_was_updated_on_the_heap_and_not_on_rocksdb() {
    let input = ["a", "a", "b", "b", "b"].map(|text| row("+I", 1, text, 0));
    let updated = ["+I 1 a 1.5 0", "-U 1 a 1.5 0", "+U 1 b 1.5 0"];
    let again = ["-U 1 b 1.5 0", "+U 1 b 1.5 0"];
    let spec = spec(TimeDomain::Proctime, KeepRow::Last);
    assert_eq!(run(&spec, StateBackend::RocksDb, &input), updated);
    assert_eq!(run(&spec, StateBackend::Hashmap, &input), [&updated[..], &again, &again].concat());
}

#[test]
fn row_that_is_late_by_row_time_changes_nothing() {
    let input = [row("+I", 1, "a", 5), row("+I", 1, "late", 4), row("+I", 1, "b", 5), row("+I", 1, "first", 1)];
    let last = run(&spec(TimeDomain::Rowtime, KeepRow::Last), StateBackend::RocksDb, &input);
    assert_eq!(last, ["+I 1 a 1.5 5", "-U 1 a 1.5 5", "+U 1 b 1.5 5"]);
    let first = run(&spec(TimeDomain::Rowtime, KeepRow::First), StateBackend::RocksDb, &input);
    assert_eq!(first, ["+I 1 a 1.5 5", "-U 1 a 1.5 5", "+U 1 late 1.5 4", "-U 1 late 1.5 4", "+U 1 first 1.5 1"]);
}

#[test]
fn without_kinds_asked_for_the_last_row_needs_no_state() {
    let spec = node::Deduplicate {
        generate_update_before: false,
        generate_insert: false,
        ..spec(TimeDomain::Proctime, KeepRow::Last)
    };
    let input = [row("+I", 1, "a", 5), row("+I", 1, "a", 5)];
    assert_eq!(run(&spec, StateBackend::Hashmap, &input), ["+U 1 a 1.5 5", "+U 1 a 1.5 5"]);
    let mut operator = Deduplicate::try_new(&spec, &input_type(), StateBackend::Hashmap, &context()).unwrap();
    assert!(operator.state().is_none() && !super::is_stateful(&spec));
}

#[test]
fn rows_that_do_not_insert_are_refused() {
    for kind in ["-U", "+U", "-D"] {
        let mut operator = Deduplicate::try_new(
            &spec(TimeDomain::Rowtime, KeepRow::Last),
            &input_type(),
            StateBackend::Hashmap,
            &context(),
        )
        .unwrap();
        assert_eq!(operator.push(batch(&[row(kind, 1, "a", 0)])), Err(OperatorError::UnexpectedRetraction));
    }
}

fn modes() -> Vec<(TimeDomain, KeepRow)> {
    let times = [TimeDomain::Proctime, TimeDomain::Rowtime];
    times.into_iter().flat_map(|time| [(time, KeepRow::First), (time, KeepRow::Last)]).collect()
}

#[test]
fn restore_at_every_row_of_one_input() {
    let input: Vec<Row> = (0..40).map(|i| row("+I", i % 3, ["x", "y"][(i / 4 % 2) as usize], i % 7)).collect();
    for (time, keep) in modes() {
        let spec = spec(time, keep);
        let expected = model(&spec, StateBackend::Hashmap, &input);
        check_every_restore(&factory(&spec, StateBackend::Hashmap), &[0], &input, &expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn changelog_is_that_of_flinks_function(
        rows in rows(Just(0)),
        (time, keep) in prop::sample::select(modes()),
        unique_keys in prop::sample::select(vec![vec![0], vec![0, 1], vec![1], vec![]]),
        generate_update_before: bool,
        generate_insert: bool,
        ttl_ms in prop::sample::select(vec![0_i64, 0, 8]),
        backend in prop::sample::select(vec![StateBackend::Hashmap, StateBackend::RocksDb]),
        cuts in cuts(),
    ) {
        let spec = node::Deduplicate { unique_keys, generate_update_before, generate_insert, ttl_ms, ..spec(time, keep) };
        check(&factory(&spec, backend), &spec.unique_keys, &rows, &cuts, &model(&spec, backend, &rows))?;
    }

    #[test]
    fn bundles_come_to_what_flinks_functions_make_of_them(
        rows in rows(Just(0)),
        (time, keep) in prop::sample::select(modes()),
        unique_keys in prop::sample::select(vec![vec![0], vec![0, 1], vec![1], vec![]]),
        generate_update_before: bool,
        generate_insert: bool,
        compact_changes: bool,
        ttl_ms in prop::sample::select(vec![0_i64, 0, 8]),
        backend in prop::sample::select(vec![StateBackend::Hashmap, StateBackend::RocksDb]),
        plan in plans(80),
        compact_at in 1_usize..100,
    ) {
        let mini_batch_size = Some(plan.bundle);
        let spec = node::Deduplicate {
            unique_keys, generate_update_before, generate_insert, compact_changes, ttl_ms, mini_batch_size, ..spec(time, keep)
        };
        let factory = |context: &StateContext| -> Box<dyn Operator> {
            let mut operator = Deduplicate::try_new(&spec, &input_type(), backend, context).unwrap();
            operator.frames.compact_at(compact_at);
            Box::new(operator)
        };
        // it goes out as it comes
        let waits = (time, keep) != (TimeDomain::Proctime, KeepRow::First) || ttl_ms > 0;
        let plan = Plan { bundle: if waits { plan.bundle } else { 1 }, ..plan };
        let mut model = Model::new(&spec, backend);
        check_bundles(&factory, &spec.unique_keys, &rows, &plan, &mut |rows, now| model.bundle(rows, now))?;
    }
}
