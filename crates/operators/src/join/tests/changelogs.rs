//! Changelogs of each join type, row by row.

use streamfusion_plan::node::JoinType;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::{LogicalType, TimeAttribute, TypeKind};

use super::super::Join;
use super::super::limits::Limits;
use super::{Case, Job, Shape, Side, Step, context, run, step};
use crate::bundle::FlushReason;
use crate::{OUTPUT_BATCH_ROWS, Operator};

fn check(case: &Case, steps: &[&str], expected: &[&str]) {
    let steps: Vec<Step> = steps.iter().map(|text| step(text)).collect();
    for sizes in [&[][..], &[9, 9, 9, 9], &[2, 3, 1, 5]] {
        assert_eq!(run(case, &steps, sizes), expected, "{case:?} in batches of {sizes:?}");
    }
}

#[test]
fn inner_join_sends_on_the_kind_of_the_row() {
    let case = Case::new(JoinType::Inner, Shape::One, Shape::One);
    let steps = ["L +I 1 10 a", "R +U 1 20 b", "L -U 1 10 a", "L +U 1 11 c", "R -D 1 20 b", "L -D 1 11 c"];
    let expected = ["+U 1 10 a 1 20 b", "-U 1 10 a 1 20 b", "+U 1 11 c 1 20 b", "-D 1 11 c 1 20 b"];
    check(&case, &steps, &expected);
}

#[test]
fn left_join_pads_rows_until_the_first_match_and_after_the_last() {
    let case = Case::new(JoinType::Left, Shape::Several, Shape::Unique);
    let steps = ["L +U 1 10 a", "R +I 1 20 b", "R +U 1 21 c", "R -U 1 20 b", "R -D 1 21 c", "L -U 1 10 a"];
    let expected = [
        "+I 1 10 a NULL NULL NULL",
        "-D 1 10 a NULL NULL NULL",
        "+I 1 10 a 1 20 b",
        "+I 1 10 a 1 21 c",
        "-U 1 10 a 1 20 b",
        "-D 1 10 a 1 21 c",
        "+I 1 10 a NULL NULL NULL",
        "-D 1 10 a NULL NULL NULL",
    ];
    check(&case, &steps, &expected);
}

#[test]
fn full_join_pads_both_sides() {
    let case = Case::new(JoinType::Full, Shape::One, Shape::One);
    let steps = ["L +I 1 10 a", "R +I 1 20 b", "R +I 2 21 c", "L -D 1 10 a"];
    let expected = [
        "+I 1 10 a NULL NULL NULL",
        "-D 1 10 a NULL NULL NULL",
        "+I 1 10 a 1 20 b",
        "+I NULL NULL NULL 2 21 c",
        "-D 1 10 a 1 20 b",
        "+I NULL NULL NULL 1 20 b",
    ];
    check(&case, &steps, &expected);
}

#[test]
fn semi_and_anti_join_look_at_the_first_and_the_last_match() {
    let steps =
        ["L +I 1 10 a", "R +U 1 20 b", "R +I 1 21 c", "L +U 1 11 d", "R -D 1 20 b", "R -U 1 21 c", "L -D 1 10 a"];
    let semi = ["+U 1 10 a", "+U 1 11 d", "-U 1 10 a", "-U 1 11 d"];
    check(&Case::new(JoinType::Semi, Shape::Several, Shape::Several), &steps, &semi);
    let anti = ["+I 1 10 a", "-D 1 10 a", "+I 1 10 a", "+I 1 11 d", "-D 1 10 a"];
    check(&Case::new(JoinType::Anti, Shape::Several, Shape::Several), &steps, &anti);
}

#[test]
fn duplicates_are_matched_as_often_as_they_are_there() {
    let case = Case::new(JoinType::Right, Shape::Several, Shape::Several);
    let steps = ["R +I 1 20 b", "R +I 1 20 b", "L +I 1 10 a", "R -D 1 20 b", "R -D 1 20 b", "R -D 1 20 b"];
    let expected = [
        "+I NULL NULL NULL 1 20 b",
        "+I NULL NULL NULL 1 20 b",
        "-D NULL NULL NULL 1 20 b",
        "+I 1 10 a 1 20 b",
        "-D NULL NULL NULL 1 20 b",
        "+I 1 10 a 1 20 b",
        "-D 1 10 a 1 20 b",
        "-D 1 10 a 1 20 b",
        // the row is not there any more; Flink does not ask
        "-D 1 10 a 1 20 b",
    ];
    check(&case, &steps, &expected);
}

#[test]
fn null_matches_null_only_where_the_key_says_so() {
    let steps = ["L +I NULL 10 a", "R +I NULL 20 b"];
    let filtered = Case::new(JoinType::Inner, Shape::One, Shape::One);
    check(&filtered, &steps, &[]);
    let safe = Case { filter_nulls: false, ..filtered };
    check(&safe, &steps, &["+I NULL 10 a NULL 20 b"]);
}

#[test]
fn condition_decides_pair_by_pair_and_is_not_true_of_null() {
    let case = Case { condition: true, ..Case::new(JoinType::Left, Shape::Unique, Shape::Unique) };
    let steps = ["R +I 1 10 x", "R +I 1 30 y", "L +I 1 20 a", "L +I 1 40 b", "R +I 1 50 z"];
    let expected = [
        "+I 1 20 a 1 30 y",
        "+I 1 40 b NULL NULL NULL",
        "+I 1 20 a 1 50 z",
        "-D 1 40 b NULL NULL NULL",
        "+I 1 40 b 1 50 z",
    ];
    check(&case, &steps, &expected);
}

#[test]
fn updates_in_a_bundle_pad_nothing() {
    let case = Case { mini_batch: Some(4), ..Case::new(JoinType::Left, Shape::One, Shape::One) };
    let steps = [
        "R +I 1 20 b",
        "L +I 1 10 a",
        "L -U 1 10 a",
        "L +U 1 11 c",
        // an update of the right side that comes in two bundles would pad the left row in between
        "R -U 1 20 b",
        "R +U 1 21 d",
        "R -U 1 21 d",
        "R +U 1 22 e",
    ];
    check(&case, &steps, &["+I 1 11 c 1 20 b", "-U 1 11 c 1 20 b", "+I 1 11 c 1 22 e"]);
}

#[test]
fn bundles_of_both_inputs_share_one_count_and_right_goes_first() {
    let case = Case { mini_batch: Some(2), ..Case::new(JoinType::Full, Shape::One, Shape::One) };
    check(
        &case,
        &["L +I 1 10 a", "R +I 1 20 b"],
        &["+I NULL NULL NULL 1 20 b", "-D NULL NULL NULL 1 20 b", "+I 1 10 a 1 20 b"],
    );
    let case = Case { join_type: JoinType::Right, ..case };
    check(&case, &["R +I 1 20 b", "L +I 1 10 a"], &["+I 1 10 a 1 20 b"]);
}

#[test]
fn what_cancels_out_in_a_bundle_is_counted() {
    let case = Case { mini_batch: Some(100), ..Case::new(JoinType::Inner, Shape::One, Shape::One) };
    let (mut job, mut out) = (Job::open(&case, 1), Vec::new());
    let steps = ["L +I 1 10 a", "L -D 1 10 a", "L +I 2 10 a", "R +I 2 20 b", "R +U 2 21 c"].map(step);
    job.push(&steps, &[], &mut out);
    assert!(out.is_empty());
    job.flush(FlushReason::Watermark, &mut out);
    assert_eq!(out, ["+I 2 10 a 2 21 c"]);
    let metrics = job.subtasks[0].bundle_metrics().unwrap();
    assert_eq!((metrics.bundles, metrics.rows_in, metrics.rows_out), (1, 5, 1));
    assert_eq!((metrics.touched_keys, metrics.cancelled_changes, metrics.flushes.watermark), (3, 3, 1));
}

/// Rows `first..first + count` of one key.
fn rows(side: Side, first: i64, count: i64) -> Vec<Step> {
    let row = |u| Step { side, kind: 0, k: Some(1), u, v: Some("v".to_owned()), arrives: 0 };
    (first..first + count).map(row).collect()
}

#[test]
fn a_join_that_explodes_goes_out_in_pieces() {
    // more rows of one key than a chunk has
    let (many, few) = (20_000, 3);
    for (condition, shape) in [(false, Shape::Unique), (true, Shape::Several)] {
        let case = Case { condition, ..Case::new(JoinType::Full, shape, shape) };
        let mut job = Job::open(&case, 1);
        let mut out = Vec::new();
        job.push(&rows(Side::Right, 1000, many), &[20_000], &mut out);
        assert_eq!(out.len() as i64, many);
        out.clear();
        let operator = &mut job.subtasks[0];
        operator.push(super::batch(&rows(Side::Left, 0, few))).unwrap();
        let mut pulled = 0;
        while let Some(batch) = operator.pull().unwrap() {
            assert!(batch.num_rows() <= OUTPUT_BATCH_ROWS);
            pulled += batch.num_rows() as i64;
        }
        // each pair, and once for each right row that it was padded before
        assert_eq!(pulled, many * few + many);
        // nothing that grows with the pairs was kept
        assert!(operator.bundle_bytes() < 3 << 20, "{} bytes", operator.bundle_bytes());
    }
}

#[test]
fn a_row_that_is_there_very_often_goes_out_in_pieces() {
    let case = Case::new(JoinType::Inner, Shape::Several, Shape::Several);
    let mut job = Job::open(&case, 1);
    let copy = rows(Side::Right, 7, 1).remove(0);
    job.push(&vec![copy; 50_000], &[50_000], &mut Vec::new());
    let operator = &mut job.subtasks[0];
    operator.push(super::batch(&rows(Side::Left, 0, 2))).unwrap();
    let mut sizes = Vec::new();
    while let Some(batch) = operator.pull().unwrap() {
        sizes.push(batch.num_rows());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 100_000);
    assert!(sizes.iter().all(|size| *size <= OUTPUT_BATCH_ROWS));
}

#[test]
fn large_texts_go_out_in_smaller_batches() {
    let case = Case::new(JoinType::Inner, Shape::One, Shape::Unique);
    let mut job = Job::open(&case, 1);
    let text = "x".repeat(100_000);
    let large = |step: Step| Step { v: Some(text.clone()), ..step };
    let right: Vec<Step> = rows(Side::Right, 0, 200).into_iter().map(large).collect();
    let operator = &mut job.subtasks[0];
    operator.push_second(super::batch(&right)).unwrap();
    assert!(operator.pull().unwrap().is_none());
    let left: Vec<Step> = rows(Side::Left, 0, 1).into_iter().map(large).collect();
    operator.push(super::batch(&left)).unwrap();
    let mut sizes = Vec::new();
    while let Some(batch) = operator.pull().unwrap() {
        assert!(batch.bytes() <= crate::OUTPUT_BATCH_BYTES + (64 << 10));
        sizes.push(batch.num_rows());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 200);
}

#[test]
fn a_condition_over_large_texts_sees_few_pairs_at_once() {
    let case = Case { condition: true, ..Case::new(JoinType::Inner, Shape::Unique, Shape::One) };
    let mut spec = case.spec();
    if let Some(Rex::Call { operands, .. }) = &mut spec.condition {
        let text = LogicalType { kind: TypeKind::VarChar(i32::MAX as u32), nullable: true };
        *operands = [2, 5].map(|index| Rex::InputRef { index, ty: text.clone() }).to_vec();
    }
    let mut join = Join::try_new(&spec, &super::input_type(), &super::input_type(), &context()).unwrap();
    let right = Step { v: Some("w".repeat(300 << 10)), ..rows(Side::Right, 0, 1).remove(0) };
    join.push_second(super::batch(&[right])).unwrap();
    assert!(join.pull().unwrap().is_none());
    // copied for each pair, the text would be larger than a column can be
    let left = 8_000;
    join.push(super::batch(&rows(Side::Left, 0, left))).unwrap();
    let mut pulled = 0;
    while let Some(batch) = join.pull().unwrap() {
        pulled += batch.num_rows() as i64;
    }
    assert_eq!(pulled, left);
}

#[test]
fn memory_beyond_state_is_charged_and_that_of_an_outlier_given_back() {
    let case = Case::new(JoinType::Inner, Shape::Several, Shape::Several);
    let mut job = Job::open(&case, 1);
    let operator = &mut job.subtasks[0];
    let keys = 8_000;
    let row = |k| Step { side: Side::Right, kind: 0, k: Some(k), u: k, v: None, arrives: 0 };
    operator.push_second(super::batch(&(0..keys).map(row).collect::<Vec<_>>())).unwrap();
    assert!(operator.pull().unwrap().is_none());
    // packed rows, and four numbers of each row or key at least
    assert!(operator.bundle_bytes() > keys as usize * 32, "{} bytes", operator.bundle_bytes());
    let large = |step: Step| Step { v: Some("x".repeat(100_000)), ..step };
    let right: Vec<Step> = rows(Side::Right, 0, 200).into_iter().map(large).collect();
    operator.push_second(super::batch(&right)).unwrap();
    assert!(operator.pull().unwrap().is_none());
    assert!(operator.bundle_bytes() < 1 << 20, "{} bytes", operator.bundle_bytes());
}

#[test]
fn rows_that_wait_to_be_replayed_are_charged() {
    let case = Case { mini_batch: Some(8_000), ..Case::new(JoinType::Inner, Shape::One, Shape::One) };
    let case = Case { limits: Limits { replayed_rows: 10, ..case.limits }, ..case };
    let mut job = Job::open(&case, 1);
    let operator = &mut job.subtasks[0];
    let row = |k| Step { side: Side::Left, kind: 0, k: Some(k), u: k, v: None, arrives: 0 };
    operator.push_second(super::batch(&[Step { side: Side::Right, ..row(0) }])).unwrap();
    assert!(operator.pull().unwrap().is_none());
    operator.push(super::batch(&(0..7_999).map(row).collect::<Vec<_>>())).unwrap();
    assert_eq!(operator.pull().unwrap().map(|batch| batch.num_rows()), Some(1));
    let waiting = operator.bundle_bytes();
    assert!(operator.pull().unwrap().is_none());
    let empty = operator.bundle_bytes();
    assert!(waiting > empty + 7_999 * 8, "{waiting} bytes, then {empty}");
}

#[test]
fn semi_and_anti_join_are_never_bundled() {
    for join_type in [JoinType::Semi, JoinType::Anti] {
        let case = Case::new(join_type, Shape::One, Shape::One);
        let spec = streamfusion_plan::node::Join { mini_batch_size: Some(5), ..case.spec() };
        let join = Join::try_new(&spec, &super::input_type(), &super::input_type(), &context()).unwrap();
        assert!(join.bundle_metrics().is_none());
    }
}

#[test]
fn keys_that_are_gone_take_no_memory() {
    for shape in [Shape::One, Shape::Unique, Shape::Several] {
        let case = Case::new(JoinType::Full, shape, shape);
        let (mut job, mut out) = (Job::open(&case, 1), Vec::new());
        for kind in [0, 3] {
            for side in [Side::Left, Side::Right] {
                let row = |k| Step { side, kind, k: Some(k), u: k, v: None, arrives: 0 };
                job.push(&(0..3000).map(row).collect::<Vec<_>>(), &[1000; 3], &mut out);
            }
        }
        let tables = &job.subtasks[0].tables;
        assert!(tables.left.is_empty() && tables.right.is_empty());
    }
}

#[test]
fn rows_of_another_type_are_an_error() {
    let mut join = Case::new(JoinType::Inner, Shape::One, Shape::One).open(&context());
    let rows = super::batch(&rows(Side::Left, 0, 1));
    let fewer = streamfusion_row::Batch::try_new(rows.columns()[1..].to_vec(), 1, None).unwrap();
    assert!(join.push(fewer).is_err());
}

#[test]
fn a_condition_for_the_jvm_is_refused() {
    use streamfusion_plan::rex::{Function, Rex};
    let case = Case { condition: true, ..Case::new(JoinType::Inner, Shape::One, Shape::One) };
    let mut spec = case.spec();
    if let Some(Rex::Call { function, .. }) = &mut spec.condition {
        *function = Function::User("cat.db.f".to_owned());
    }
    let refused = super::super::supports(&spec, &super::input_type(), &super::input_type());
    assert!(refused.is_err_and(|reason| reason.to_string().contains("condition")));
}

#[test]
fn keys_of_different_types_are_refused() {
    let spec = Case::new(JoinType::Inner, Shape::One, Shape::One).spec();
    let with_key = |kind| {
        let mut fields = super::input_type().fields().to_vec();
        fields[0].ty.kind = kind;
        LogicalType { kind: TypeKind::Row(fields.into()), nullable: false }
    };
    let reason = |left, right| super::super::supports(&spec, &with_key(left), &with_key(right)).err();
    let timestamp = |precision| TypeKind::TimestampLtz { precision, attribute: TimeAttribute::Regular };
    for (left, right) in [(TypeKind::BigInt, TypeKind::Integer), (timestamp(3), timestamp(6))] {
        let reason = reason(left, right).unwrap().to_string();
        assert!(reason.starts_with("a key column is "), "{reason}");
    }
    assert!(reason(TypeKind::Char(3), TypeKind::VarChar(9)).is_none());
    assert!(reason(TypeKind::Binary(3), TypeKind::VarBinary(9)).is_none());
}

#[test]
fn a_unique_key_that_does_not_exist_is_refused() {
    let mut spec = Case::new(JoinType::Inner, Shape::Unique, Shape::One).spec();
    spec.left.upsert_keys = vec![vec![3]];
    let refused = super::super::supports(&spec, &super::input_type(), &super::input_type());
    assert!(refused.is_err_and(|reason| reason.to_string().contains("unique key")));
}
