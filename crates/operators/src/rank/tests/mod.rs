#![allow(clippy::unwrap_used)]

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
        1 => Just(Vec::new()),
    ]
}

fn ranges() -> impl Strategy<Value = RankRange> {
    prop_oneof![
        6 => (1_i64..4, 0_i64..5).prop_map(|(start, more)| RankRange::Constant { start, end: start + more }),
        1 => Just(RankRange::Constant { start: 1, end: 1 }),
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
