//! Any join over any rows, cut, restored and rescaled anywhere, does what the model does.

use std::collections::BTreeMap;

use proptest::prelude::*;
use streamfusion_plan::node::JoinType;

use super::super::limits::Limits;
use super::model::Model;
use super::{Case, Job, Shape, Side, Step, expected, run};
use crate::bundle::FlushReason;

const TYPES: [JoinType; 6] =
    [JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full, JoinType::Semi, JoinType::Anti];

/// Those of production, which these changelogs never come near, or ones that cut them everywhere.
fn limits() -> impl Strategy<Value = Limits> {
    let bytes = prop::sample::select(vec![1_usize, 20, 60, 1 << 20]);
    let small = (1_usize..4, 1_usize..4, 1_usize..4, bytes, 1_usize..4).prop_map(
        |(chunk_rows, pairs, output_rows, bytes, replayed_rows)| Limits {
            chunk_rows,
            pairs,
            output_rows,
            bytes,
            replayed_rows,
        },
    );
    prop_oneof![1 => Just(Limits::default()), 3 => small]
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = || prop::sample::select(vec![Shape::One, Shape::Unique, Shape::Several]);
    let keys = prop::sample::select(vec![vec![0], vec![0], vec![0, 2], vec![]]);
    let ttl = || prop::sample::select(vec![0_i64, 0, 0, 8]);
    let flags = (any::<bool>(), any::<bool>());
    (prop::sample::select(TYPES.to_vec()), shape(), shape(), keys, flags, ttl(), ttl(), limits()).prop_map(
        |(join_type, left, right, keys, (filter_nulls, condition), left_ttl, right_ttl, limits)| Case {
            join_type,
            left,
            right,
            keys,
            filter_nulls,
            condition,
            left_ttl,
            right_ttl,
            mini_batch: None,
            limits,
        },
    )
}

/// Rows of few keys and values on both sides, in runs.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let v = prop_oneof![1 => Just(None), 4 => "[ab]".prop_map(Some), 1 => ".{0,20}".prop_map(Some)];
    let row = (0_u8..4, prop::option::weighted(0.9, 0_i64..4), 0_i64..3, v);
    let step = (row, prop::bool::weighted(0.3), prop_oneof![8 => Just(0_i64), 1 => 1_i64..10]);
    prop::collection::vec(step, 0..90).prop_map(|steps| {
        let (mut arrives, mut side) = (0, Side::Left);
        let row = |((kind, k, u, v), turn, later)| {
            arrives += later;
            if turn {
                side = if side == Side::Left { Side::Right } else { Side::Left };
            }
            Step { side, kind, k, u, v, arrives }
        };
        steps.into_iter().map(row).collect()
    })
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..30, 0..30)
}

/// The rows of each key, in order. A key is what stands in the first column that has one.
fn by_key(out: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in out {
        let parts: Vec<&str> = row.split(' ').collect();
        let key = parts.iter().skip(1).step_by(3).find(|part| **part != "NULL").unwrap_or(&"NULL");
        keys.entry((*key).to_owned()).or_default().push(row.clone());
    }
    keys
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn batch_cuts_do_not_matter(case in cases(), steps in steps(), sizes in sizes()) {
        prop_assert_eq!(run(&case, &steps, &sizes), expected(&case, &steps));
    }

    #[test]
    fn restore_at_any_row_and_rescaling_do_not_matter(
        case in cases(),
        steps in steps(),
        restores in prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 1..4),
        stored in any::<bool>(),
    ) {
        let mut places: Vec<usize> = restores.iter().map(|(_, at)| at.index(steps.len() + 1)).collect();
        places.sort_unstable();
        let (mut out, mut done) = (Vec::new(), 0);
        let mut job = if stored { Job::stored(&case, 1) } else { Job::open(&case, 1) };
        for ((parallelism, _), place) in restores.iter().zip(&places) {
            job.push(&steps[done..*place], &[], &mut out);
            done = *place;
            job = job.restored(*parallelism, &mut out);
        }
        job.push(&steps[done..], &[], &mut out);
        prop_assert_eq!(out, expected(&case, &steps), "restored at {:?}", places);
    }

    #[test]
    fn bundles_are_those_of_flink(case in cases(), size in 1_u64..20, steps in steps(), sizes in sizes()) {
        let case = Case { left: Shape::One, right: Shape::One, mini_batch: Some(size), ..case };
        // state is read when a bundle ends
        let steps: Vec<Step> = steps.into_iter().map(|step| Step { arrives: 0, ..step }).collect();
        prop_assert_eq!(run(&case, &steps, &sizes), expected(&case, &steps));
    }

    #[test]
    fn bundles_end_in_front_of_a_checkpoint(
        case in cases(),
        steps in steps(),
        restores in prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 1..4),
        stored in any::<bool>(),
    ) {
        let case = Case { left: Shape::One, right: Shape::One, keys: vec![0], mini_batch: Some(1000), ..case };
        let steps: Vec<Step> = steps.into_iter().map(|step| Step { arrives: 0, ..step }).collect();
        let mut places: Vec<usize> = restores.iter().map(|(_, at)| at.index(steps.len() + 1)).collect();
        places.sort_unstable();
        let (mut out, mut done, mut model) = (Vec::new(), 0, Model::new(&case));
        let mut job = if stored { Job::stored(&case, 1) } else { Job::open(&case, 1) };
        for ((parallelism, _), place) in restores.iter().zip(&places) {
            job.push(&steps[done..*place], &[3, 4], &mut out);
            steps[done..*place].iter().for_each(|step| model.push(step));
            model.flush();
            done = *place;
            job = job.restored(*parallelism, &mut out);
        }
        job.push(&steps[done..], &[5], &mut out);
        job.flush(FlushReason::EndOfInput, &mut out);
        steps[done..].iter().for_each(|step| model.push(step));
        model.flush();
        prop_assert_eq!(by_key(&out), by_key(&model.out));
    }

    #[test]
    fn joins_with_several_rows_per_key_stay_immediate(case in cases(), steps in steps(), size in 1_u64..9) {
        let case = Case { left: Shape::Several, mini_batch: Some(size), ..case };
        prop_assert_eq!(run(&case, &steps, &[4, 4, 4]), expected(&Case { mini_batch: None, ..case }, &steps));
    }
}
