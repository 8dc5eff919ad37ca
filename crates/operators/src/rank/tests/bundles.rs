//! Top-N in bundles: what a bundle comes to is the difference of the ranks before and after it, and the fold of what Flink
//! emits in between.

use std::collections::BTreeMap;

use proptest::prelude::*;
use streamfusion_plan::node::{RankMiniBatch, RankStrategy};

use super::model::Model;
use super::*;
use crate::bundle::FlushReason;
use crate::row_per_key::testing::bundles::{Plan, by_key, check_bundles, plans};
use crate::row_per_key::testing::{Row, batch, context, drain, input_type, key_of, rows};

const LATENCY_MS: i64 = 100;

fn bundled(spec: &Rank, size: u64) -> Rank {
    Rank { mini_batch: Some(RankMiniBatch { size, latency_ms: LATENCY_MS }), ..spec.clone() }
}

/// What the ranks of a partition differ in, as a bundle emits it.
fn difference(spec: &Rank, model: &Model<'_>, before: &[Row], after: &[Row]) -> Vec<String> {
    let mut out = Vec::new();
    let mut emit = |kind: &str, row: &Row, rank: i64| {
        let rank = if spec.output_row_number { format!(" {rank}") } else { String::new() };
        if kind != "-U" || spec.generate_update_before {
            out.push(row.show(kind) + &rank);
        }
    };
    if spec.output_row_number || is_top1(spec) {
        for (index, rank) in (0..before.len().max(after.len())).zip(model.start().max(1)..) {
            match (before.get(index), after.get(index)) {
                (Some(old), Some(new)) if old.same(new) => {}
                (Some(old), Some(new)) => {
                    emit("-U", old, rank);
                    emit("+U", new, rank);
                }
                (Some(old), None) => emit("-D", old, rank),
                (None, Some(new)) => emit("+I", new, rank),
                (None, None) => {}
            }
        }
        return out;
    }
    let without = |rows: &[Row], others: &[Row]| {
        let mut left = others.to_vec();
        let mut rest = Vec::new();
        for row in rows {
            match left.iter().position(|other| other.same(row)) {
                Some(place) => drop(left.remove(place)),
                None => rest.push(row.clone()),
            }
        }
        rest
    };
    without(before, after).iter().for_each(|row| emit("-D", row, 0));
    without(after, before).iter().for_each(|row| emit("+I", row, 0));
    out
}

/// How often each row comes out of a changelog with -U.
fn net(changes: &[String]) -> BTreeMap<String, i64> {
    let mut net = BTreeMap::new();
    for change in changes {
        let (kind, row) = change.split_at(2);
        *net.entry(row.to_owned()).or_default() += if kind.starts_with('+') { 1 } else { -1 };
    }
    net.retain(|_, count| *count != 0);
    net
}

/// Retracts only what is there.
fn consistent(spec: &Rank, mut rows: Vec<Row>) -> Vec<Row> {
    let mut live: Vec<Row> = Vec::new();
    for row in &mut rows {
        if spec.strategy == RankStrategy::Retract && row.kind % 2 == 1 {
            match live.iter().position(|other| other.same(row)) {
                Some(place) => drop(live.remove(place)),
                None => row.kind = 0,
            }
        }
        if row.kind % 2 == 0 {
            live.push(row.clone());
        }
    }
    rows
}

fn check(spec: &Rank, rows: &[Row], plan: &Plan, is_consistent: bool) -> Result<(), TestCaseError> {
    let with_update_before = Rank { generate_update_before: true, ..spec.clone() };
    let mut model = Model::new(&with_update_before);
    let mut disagreement = None;
    let mut of_bundle = |rows: &[Row], _now: i64| {
        let partitions: Vec<String> =
            by_key(rows, &spec.partition).iter().map(|rows| key_of(&rows[0], &spec.partition)).collect();
        let ranked = |model: &Model<'_>| -> Vec<Vec<Row>> {
            partitions.iter().map(|partition| model.ranked(partition)).collect()
        };
        let before = ranked(&model);
        rows.iter().for_each(|row| model.push(row, false));
        let emitted = model.take_emitted();
        let after = ranked(&model);
        let pairs = || before.iter().zip(&after);
        let all: Vec<String> = pairs().flat_map(|(a, b)| difference(&with_update_before, &model, a, b)).collect();
        if is_consistent && net(&emitted) != net(&all) {
            disagreement = Some((emitted, all));
        }
        pairs().flat_map(|(a, b)| difference(spec, &model, a, b)).collect()
    };
    let spec = bundled(spec, plan.bundle);
    let factory = |context: &_| open(&spec, &input_type(), context).unwrap();
    check_bundles(&factory, &spec.partition, rows, plan, &mut of_bundle)?;
    prop_assert_eq!(disagreement, None);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn bundle_comes_to_what_ranks_differ_in_and_to_the_fold_of_flinks_changelog(
        spec in specs(),
        rows in rows(0_u8..4),
        plan in plans(80),
        is_consistent in any::<bool>(),
    ) {
        prop_assume!(supports(&spec, &input_type()).is_ok());
        let mut rows = with_kinds(&spec.strategy, rows);
        if is_consistent {
            rows = consistent(&spec, rows);
        }
        check(&spec, &rows, &plan, is_consistent)?;
    }
}

fn push(operator: &mut dyn Operator, changes: &[(&str, &str, i64)]) -> Vec<String> {
    let mut out = Vec::new();
    operator.push(batch(&of_one(changes))).unwrap();
    drain(operator, &mut out);
    out
}

#[test]
fn only_net_changes_leave_a_bundle() {
    let plain = spec(RankStrategy::Retract, constant(1, 2), true);
    let first = [("+I", "a", 1), ("+I", "b", 2), ("+I", "c", 3)];
    let second = [("-U", "a", 1), ("+U", "a", 9), ("-U", "a", 9), ("+U", "a", 1), ("+I", "d", 0), ("-D", "b", 2)];
    for (spec, expected) in [
        (plain.clone(), vec!["-U 7 a 1.5 1 1", "+U 7 d 1.5 0 1", "-U 7 b 1.5 2 2", "+U 7 a 1.5 1 2"]),
        (Rank { output_row_number: false, ..plain }, vec!["-D 7 b 1.5 2", "+I 7 d 1.5 0"]),
    ] {
        let mut operator = open(&bundled(&spec, 100), &input_type(), &context()).unwrap();
        assert!(push(operator.as_mut(), &first).is_empty());
        let mut out = Vec::new();
        operator.flush(FlushReason::Watermark).unwrap();
        drain(operator.as_mut(), &mut out);
        assert_eq!(out.len(), 2, "{out:?}");
        push(operator.as_mut(), &second);
        out.clear();
        operator.flush(FlushReason::Checkpoint).unwrap();
        drain(operator.as_mut(), &mut out);
        assert_eq!(out, expected);
        let metrics = operator.bundle_metrics().unwrap();
        assert_eq!((metrics.bundles, metrics.flushes.watermark, metrics.flushes.checkpoint), (2, 1, 1));
        assert_eq!((metrics.rows_in, metrics.touched_keys, metrics.cancelled_changes), (9, 2, 5));
    }
}

#[test]
fn bundle_waits_no_longer_than_the_latency() {
    let spec = bundled(&spec(RankStrategy::AppendFast, constant(1, 2), true), 3);
    let mut operator = open(&spec, &input_type(), &context()).unwrap();
    assert_eq!(operator.timer(), Some(i64::MAX));
    operator.processing_time(1_000).unwrap();
    assert!(push(operator.as_mut(), &[("+I", "a", 1)]).is_empty());
    assert_eq!(operator.timer(), Some(1_100));
    operator.processing_time(1_050).unwrap();
    // a full bundle leaves, and the next one waits anew
    assert_eq!(push(operator.as_mut(), &[("+I", "b", 2), ("+I", "c", 3), ("+I", "d", 0)]).len(), 2);
    assert_eq!(operator.timer(), Some(1_150));
    operator.processing_time(1_149).unwrap();
    assert_eq!(operator.pull().unwrap().map(|batch| batch.num_rows()), None);
    operator.processing_time(1_150).unwrap();
    let mut out = Vec::new();
    drain(operator.as_mut(), &mut out);
    assert_eq!(out.len(), 4, "{out:?}");
    assert_eq!(operator.timer(), Some(i64::MAX));
    let metrics = operator.bundle_metrics().unwrap();
    assert_eq!((metrics.bundles, metrics.flushes.count, metrics.flushes.marker), (2, 1, 1));
}
