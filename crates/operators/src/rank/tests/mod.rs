#![allow(clippy::unwrap_used)]

mod bundles;
mod model;

use proptest::prelude::*;
use streamfusion_plan::node::{Rank, RankRange, RankStrategy, SortField};

use self::model::Model;
use super::*;
use crate::row_per_key::testing::{
    Row, batch, check, check_every_restore, context, cuts, drain, input_type, row, rows,
};

fn field(column: usize, ascending: bool, nulls_last: bool) -> SortField {
    SortField { column, ascending, nulls_last }
}

fn spec(strategy: RankStrategy, range: RankRange, output_row_number: bool) -> Rank {
    Rank {
        partition: vec![0],
        order_by: vec![field(3, true, true)],
        range,
        strategy,
        output_row_number,
        generate_update_before: true,
        ttl_ms: 0,
        mini_batch: None,
        cache_size: 10_000,
    }
}

fn orders() -> impl Strategy<Value = Vec<SortField>> {
    let one = |column: usize| (any::<bool>(), any::<bool>()).prop_map(move |(up, last)| field(column, up, last));
    prop_oneof![
        3 => one(3).prop_map(|field| vec![field]),
        // a text needs keys of any width
        2 => one(1).prop_map(|field| vec![field]),
        2 => (one(1), one(3)).prop_map(|(a, b)| vec![a, b]),
        // for the first row alone
        2 => (one(2), one(3)).prop_map(|(a, b)| vec![a, b]),
        1 => one(2).prop_map(|field| vec![field]),
        1 => Just(Vec::new()),
    ]
}

fn ranges() -> impl Strategy<Value = RankRange> {
    prop_oneof![
        6 => (1_i64..4, 0_i64..5).prop_map(|(start, more)| RankRange::Constant { start, end: start + more }),
        2 => Just(RankRange::Constant { start: 1, end: 1 }),
        2 => Just(RankRange::Variable { end_column: 0 }),
    ]
}

fn strategies() -> impl Strategy<Value = RankStrategy> {
    prop_oneof![
        2 => Just(RankStrategy::AppendFast),
        3 => prop::sample::select(vec![vec![0, 1], vec![1]])
            .prop_map(|primary_keys| RankStrategy::UpdateFast { primary_keys }),
        4 => Just(RankStrategy::Retract),
    ]
}

fn specs() -> impl Strategy<Value = Rank> {
    let flags = (any::<bool>(), prop::bool::weighted(0.8), prop::sample::select(vec![vec![0], vec![1], vec![1, 0]]));
    (strategies(), ranges(), orders(), flags).prop_map(|(strategy, range, order_by, flags)| {
        let (output_row_number, generate_update_before, partition) = flags;
        Rank { partition, order_by, generate_update_before, ..spec(strategy, range, output_row_number) }
    })
}

/// Rows of the kinds that a strategy takes.
fn with_kinds(strategy: &RankStrategy, mut rows: Vec<Row>) -> Vec<Row> {
    for row in &mut rows {
        row.kind = match strategy {
            RankStrategy::AppendFast => 0,
            RankStrategy::UpdateFast { .. } => row.kind & 2,
            RankStrategy::Retract => row.kind,
        };
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changelog_is_flinks_at_any_cut_restore_and_rescaling(
        spec in specs(),
        rows in rows(0_u8..4),
        cuts in cuts(),
    ) {
        prop_assume!(supports(&spec, &input_type()).is_ok());
        let rows = with_kinds(&spec.strategy, rows);
        let expected = Model::run(&spec, false, &rows);
        check(&|context| open(&spec, &input_type(), context).unwrap(), &spec.partition, &rows, &cuts, &expected)?;
    }

    #[test]
    fn changelog_of_rows_that_expire_is_flinks_at_any_cut_restore_and_rescaling(
        spec in specs(),
        ttl_ms in 1_i64..40,
        rows in rows(0_u8..4),
        cuts in cuts(),
    ) {
        let spec = Rank { strategy: RankStrategy::Retract, ttl_ms, ..spec };
        prop_assume!(supports(&spec, &input_type()).is_ok());
        let expected = Model::run(&spec, false, &rows);
        check(&|context| open(&spec, &input_type(), context).unwrap(), &spec.partition, &rows, &cuts, &expected)?;
    }

    #[test]
    fn global_changelog_is_flinks(spec in specs(), rows in rows(0_u8..4), sizes in prop::collection::vec(1_usize..9, 0..9)) {
        let spec = Rank { partition: Vec::new(), ..spec };
        prop_assume!(supports(&spec, &input_type()).is_ok());
        let rows = with_kinds(&spec.strategy, rows);
        prop_assert_eq!(run(&spec, &rows, &sizes), Model::run(&spec, false, &rows));
    }
}

/// What batches of these sizes make a Top-N emit.
fn run(spec: &Rank, rows: &[Row], sizes: &[usize]) -> Vec<String> {
    let mut operator = open(spec, &input_type(), &context()).unwrap();
    let (mut out, mut rest, mut sizes) = (Vec::new(), rows, sizes.iter().copied());
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(sizes.next().unwrap_or(rest.len()).min(rest.len()));
        rest = tail;
        operator.push(batch(head)).unwrap();
        drain(operator.as_mut(), &mut out);
    }
    out
}

fn constant(start: i64, end: i64) -> RankRange {
    RankRange::Constant { start, end }
}

/// Rows of one partition: kind, text, time.
fn of_one(changes: &[(&str, &str, i64)]) -> Vec<Row> {
    changes.iter().map(|(kind, text, time)| row(kind, 7, text, *time)).collect()
}

fn emitted(spec: &Rank, changes: &[(&str, &str, i64)]) -> Vec<String> {
    let shorten = |change: String| change.replacen(" 7 ", " ", 1).replacen(" 1.5 ", " ", 1);
    run(spec, &of_one(changes), &[]).into_iter().map(shorten).collect()
}

#[test]
fn better_row_moves_the_others_down() {
    let changes = [("+I", "b", 2), ("+I", "d", 4), ("+I", "a", 1), ("+I", "e", 5)];
    let spec = spec(RankStrategy::AppendFast, constant(1, 2), true);
    assert_eq!(emitted(&spec, &changes), ["+I b 2 1", "+I d 4 2", "-U b 2 1", "+U a 1 1", "-U d 4 2", "+U b 2 2"]);
    let spec = Rank { output_row_number: false, ..spec };
    assert_eq!(emitted(&spec, &changes), ["+I b 2", "+I d 4", "-D d 4", "+I a 1"]);
}

#[test]
fn of_equal_sort_keys_the_first_row_ranks_first() {
    let changes = [("+I", "a", 1), ("+I", "b", 1), ("+I", "c", 1), ("+I", "d", 0)];
    let spec = spec(RankStrategy::AppendFast, constant(1, 2), false);
    assert_eq!(emitted(&spec, &changes), ["+I a 1", "+I b 1", "-D b 1", "+I d 0"]);
}

#[test]
fn retraction_brings_the_next_row_up() {
    let changes = [("+I", "a", 1), ("+I", "b", 2), ("+I", "c", 3), ("-D", "a", 1), ("-D", "c", 3), ("-D", "b", 2)];
    let spec = spec(RankStrategy::Retract, constant(1, 2), true);
    let expected = ["+I a 1 1", "+I b 2 2", "-U a 1 1", "+U b 2 1", "-U b 2 2", "+U c 3 2", "-D c 3 2", "-D b 2 1"];
    assert_eq!(emitted(&spec, &changes), expected);
    let spec = Rank { output_row_number: false, ..spec };
    let expected = ["+I a 1", "+I b 2", "-D a 1", "+I c 3", "-D c 3", "-D b 2"];
    assert_eq!(emitted(&spec, &changes), expected);
}

#[test]
fn retraction_of_a_row_never_seen_is_counted_under_its_sort_key() {
    // Flink counts one row of time 1 less, so that the one of time 2 is found at rank 1 and the second row is not behind it
    let changes = [("+I", "a", 1), ("-D", "x", 1), ("+I", "b", 2), ("+I", "c", 3), ("-D", "a", 1), ("+I", "d", 1)];
    let spec = spec(RankStrategy::Retract, constant(1, 2), true);
    let rows = of_one(&changes);
    let expected = Model::run(&spec, false, &rows);
    assert_eq!(expected[..2], ["+I 7 a 1.5 1 1", "+I 7 b 1.5 2 1"]);
    assert_eq!(run(&spec, &rows, &[2, 1]), expected);
}

#[test]
fn restore_at_any_row_does_not_matter() {
    let kinds = ["+I", "-U", "+U", "-D"];
    let rows: Vec<Row> = (0..60_usize)
        .map(|i| row(kinds[i * 7 % 11 % 4], (i % 3) as i64, ["a", "b"][i * 5 % 7 % 2], (i * 3 % 5) as i64))
        .collect();
    for strategy in [RankStrategy::Retract, RankStrategy::UpdateFast { primary_keys: vec![0, 1] }] {
        let spec = spec(strategy, constant(1, 3), true);
        let rows = with_kinds(&spec.strategy, rows.clone());
        let expected = Model::run(&spec, false, &rows);
        check_every_restore(&|context| open(&spec, &input_type(), context).unwrap(), &[0], &rows, &expected);
    }
}

/// Rows of one partition under a time-to-live of 100: time at which they arrive, kind, text, sort column.
fn expiring(output_row_number: bool, changes: &[(i64, &str, &str, i64)]) -> Vec<String> {
    let spec = Rank { ttl_ms: 100, ..spec(RankStrategy::Retract, constant(1, 2), output_row_number) };
    let context = context();
    let mut operator = open(&spec, &input_type(), &context).unwrap();
    let (mut out, mut rows) = (Vec::new(), Vec::new());
    for (now, kind, text, time) in changes {
        context.clock.set(*now);
        rows.push(Row { arrives: *now, ..row(kind, 7, text, *time) });
        operator.push(batch(&rows[rows.len() - 1..])).unwrap();
        drain(operator.as_mut(), &mut out);
    }
    assert_eq!(out, Model::run(&spec, false, &rows));
    out.iter().map(|change| change.replacen(" 7 ", " ", 1).replacen(" 1.5 ", " ", 1)).collect()
}

#[test]
fn rows_that_expired_are_counted_until_a_change_misses_them() {
    let changes =
        [(0, "+I", "a", 5), (60, "+I", "x", 9), (100, "+I", "b", 6), (101, "+I", "c", 4), (102, "+I", "d", 5)];
    let expected = [
        "+I a 5 1", "+I x 9 2", //
        // a has expired, and b has rank 2 all the same
        "-U x 9 2", "+U b 6 2", //
        // c misses a, so that b has rank 1 from there on
        "-U b 6 1", "+U c 4 1", "-U x 9 2", "+U b 6 2", //
        "-U b 6 2", "+U d 5 2",
    ];
    assert_eq!(expiring(true, &changes), expected);
}

#[test]
fn rows_of_one_sort_key_expire_together() {
    let changes =
        [(0, "+I", "a", 5), (60, "+I", "b", 5), (120, "-D", "a", 5), (219, "-D", "b", 5), (220, "+I", "c", 5)];
    assert_eq!(expiring(false, &changes), ["+I a 5", "+I b 5", "-D a 5", "-D b 5", "+I c 5"]);
    let changes = [(0, "+I", "a", 5), (60, "+I", "b", 5), (160, "-D", "a", 5), (161, "+I", "c", 5)];
    assert_eq!(expiring(false, &changes), ["+I a 5", "+I b 5", "+I c 5"]);
}

fn processing_time() -> LogicalType {
    let mut ty = input_type();
    if let TypeKind::Row(fields) = &mut ty.kind {
        let mut changed = fields.to_vec();
        changed[3].ty.kind = TypeKind::TimestampLtz { precision: 3, attribute: TimeAttribute::Proctime };
        *fields = changed.into();
    }
    ty
}

proptest! {
    #[test]
    fn first_rows_are_flinks_at_any_cut_restore_and_rescaling(
        range in ranges(),
        output_row_number in any::<bool>(),
        rows in rows(Just(0)),
        cuts in cuts(),
    ) {
        let spec = spec(RankStrategy::AppendFast, range, output_row_number);
        let expected = Model::run(&spec, true, &rows);
        check(&|context| open(&spec, &processing_time(), context).unwrap(), &[0], &rows, &cuts, &expected)?;
    }
}

#[test]
fn first_rows_are_counted_anew_when_a_partition_expired() {
    let spec = Rank { ttl_ms: 100, ..spec(RankStrategy::AppendFast, constant(1, 2), true) };
    let context = context();
    let mut operator = open(&spec, &processing_time(), &context).unwrap();
    let mut out = Vec::new();
    for (now, text) in [(0, "a"), (60, "b"), (100, "c"), (159, "d"), (160, "e")] {
        context.clock.set(now);
        operator.push(batch(&of_one(&[("+I", text, 0)]))).unwrap();
        drain(operator.as_mut(), &mut out);
    }
    assert_eq!(out, ["+I 7 a 1.5 0 1", "+I 7 b 1.5 0 2", "+I 7 e 1.5 0 1"]);
}

#[test]
fn last_rank_of_a_partition_expires_before_its_count() {
    // the last rank is what the first row has in column 0, which all rows here may say anew
    let plain = spec(RankStrategy::AppendFast, RankRange::Variable { end_column: 0 }, true);
    let spec = Rank { ttl_ms: 100, partition: vec![1], ..plain };
    let context = context();
    let mut operator = open(&spec, &processing_time(), &context).unwrap();
    let mut out = Vec::new();
    for (now, end) in [(0, 2), (60, 9), (90, 9), (100, 3), (120, 9), (199, 9), (200, 4), (220, 9), (300, 1)] {
        context.clock.set(now);
        operator.push(batch(&[row("+I", end, "a", now)])).unwrap();
        drain(operator.as_mut(), &mut out);
    }
    // at 100 the last rank is said anew, and the two rows still count; at 200 both are forgotten
    let expected = ["+I 2 a 1.5 0 1", "+I 9 a 1.5 60 2", "+I 3 a 1.5 100 3", "+I 4 a 1.5 200 1", "+I 9 a 1.5 220 2"];
    assert_eq!(out[..5], expected);
    assert_eq!(out.len(), 5, "at 300 the last rank is 1");
}

#[test]
fn retraction_where_rows_are_only_inserted_is_an_error() {
    for ty in [input_type(), processing_time()] {
        let spec = spec(RankStrategy::AppendFast, constant(1, 2), true);
        let mut operator = open(&spec, &ty, &context()).unwrap();
        assert_eq!(operator.push(batch(&of_one(&[("-D", "a", 1)]))), Err(OperatorError::UnexpectedRetraction));
    }
}

#[test]
fn what_depends_on_flinks_heap_is_refused() {
    let plain = spec(RankStrategy::Retract, constant(2, 3), true);
    let reason = |spec: Rank| supports(&spec, &input_type()).err().map(|reason| reason.to_string());
    assert_eq!(reason(plain.clone()), None);
    let refused = [
        (Rank { ttl_ms: 1, strategy: RankStrategy::AppendFast, ..plain.clone() }, "time-to-live"),
        (Rank { order_by: vec![field(2, true, true)], ..plain.clone() }, "FLOAT or DOUBLE"),
        (Rank { output_row_number: false, ..plain.clone() }, "with an offset"),
        (Rank { partition: vec![9], ..plain.clone() }, "does not exist"),
    ];
    for (spec, expected) in refused {
        assert!(reason(spec.clone()).is_some_and(|reason| reason.contains(expected)), "{spec:?}");
    }
    assert_eq!(reason(Rank { range: constant(1, 3), output_row_number: false, ..plain }), None);
}

#[test]
fn keys_of_fixed_width_order_as_their_columns() {
    use arrow::array::{ArrayRef, Decimal128Array, Int8Array};
    use std::sync::Arc;

    use super::sort_key::{FixedKeys, SortKeys};
    use streamfusion_plan::types::Field;

    let kinds = [TypeKind::TinyInt, TypeKind::Decimal { precision: 28, scale: 2 }];
    let fields = kinds.into_iter().map(|kind| Field { name: "f".into(), ty: LogicalType { kind, nullable: true } });
    let input = LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false };
    let most = 10_i128.pow(28) - 1;
    let bytes: ArrayRef = Arc::new(Int8Array::from(vec![None, Some(-128), Some(-128), Some(-128), Some(0), Some(127)]));
    let decimals = vec![Some(0), Some(most), Some(0), Some(-most), None, Some(5)];
    let decimals: ArrayRef = Arc::new(Decimal128Array::from(decimals).with_precision_and_scale(28, 2).unwrap());
    let keys = FixedKeys::try_new(&[field(0, true, false), field(1, false, true)], &input).unwrap();
    let keys = keys.encode(&[bytes, decimals], 6).unwrap();
    assert!(keys.is_sorted() && keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:x?}");
    let wide = LogicalType { kind: TypeKind::Decimal { precision: 38, scale: 2 }, nullable: true };
    let fields = [Field { name: "f".into(), ty: wide }];
    let input = LogicalType { kind: TypeKind::Row(fields.into()), nullable: false };
    assert!(FixedKeys::try_new(&[field(0, true, false)], &input).is_none(), "128 bits and one for NULL");
}
