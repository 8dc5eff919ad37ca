//! Tests of Top-N and limits.

use super::*;
use crate::node::{Rank, RankMiniBatch, RankRange, RankStrategy, SortField};

fn column(column: usize, ascending: bool) -> SortField {
    SortField { column, ascending, nulls_last: !ascending }
}

#[test]
fn the_strategies_and_ranges_of_a_rank_are_read() -> TestResult {
    let graph = plan("topn")?;
    let expected = Rank {
        partition: vec![0],
        order_by: vec![column(2, false)],
        range: RankRange::Constant { start: 1, end: 10 },
        strategy: RankStrategy::AppendFast,
        output_row_number: true,
        generate_update_before: false,
        ttl_ms: 0,
        mini_batch: None,
        cache_size: 10_000,
    };
    assert_eq!(first(&graph, "rank")?.kind, NodeKind::Rank(expected.clone()));
    let updates = plan("topnret_mb")?;
    let NodeKind::Rank(rank) = &first(&updates, "rank")?.kind else { panic!("no rank") };
    assert_eq!((rank.partition.len(), &rank.strategy), (0, &RankStrategy::UpdateFast { primary_keys: vec![0] }));

    let variable = plan("topnvar")?;
    let NodeKind::Rank(rank) = &first(&variable, "rank")?.kind else { panic!("no rank") };
    assert_eq!((rank.range, rank.output_row_number), (RankRange::Variable { end_column: 1 }, false));

    let changes = [
        ("/rankRange", json!({"type": "Variable", "endIndex": 1})),
        ("/rankStrategy", json!({"type": "Retract"})),
        ("/configuration", Value::Null),
        ("/state", json!([])),
    ];
    let session = [("table.exec.rank.topn-cache-size", "0"), ("table.exec.state.ttl", "5")];
    let range = RankRange::Variable { end_column: 1 };
    let (strategy, cache_size, ttl_ms) = (RankStrategy::Retract, 0, 5);
    let changed = changed("topn", "rank", &changes, &session)?;
    assert_eq!(changed, NodeKind::Rank(Rank { range, strategy, cache_size, ttl_ms, ..expected }));
    Ok(())
}

#[test]
fn rank_works_in_bundles_only_if_both_options_say_so() -> TestResult {
    let (enabled, follows) = ("table.exec.mini-batch.enabled", "streamfusion.top-n.mini-batch");
    let bundles = |enables: &str, follow: &str, latency: &str| -> Result<_, Box<dyn std::error::Error>> {
        let size = ("table.exec.mini-batch.size", "7");
        let latency = ("table.exec.mini-batch.allow-latency", latency);
        match changed("topn", "rank", &[], &[(enabled, enables), (follows, follow), size, latency])? {
            NodeKind::Rank(rank) => Ok(rank.mini_batch),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bundles("true", "true", "2 s")?, Some(RankMiniBatch { size: 7, latency_ms: 2_000 }));
    assert_eq!(bundles("true", "true", "0 ms")?, Some(RankMiniBatch { size: 7, latency_ms: 1 }));
    assert_eq!(bundles("true", "false", "2 s")?, None);
    assert_eq!(bundles("false", "true", "2 s")?, None);
    Ok(())
}

#[test]
fn what_flink_refuses_of_a_rank_is_not_typed() -> TestResult {
    let cases = [
        ("/rankType", json!("RANK"), "Flink does not support RANK on a stream"),
        ("/rankType", json!("DENSE_RANK"), "Flink does not support DENSE_RANK on a stream"),
        ("/rankRange", json!({"type": "ConstantWithoutEnd", "start": 1}), "a rank range without an end"),
        ("/rankRange", json!({"type": "Constant", "start": 0, "end": 1}), "starts below 1"),
        ("/rankRange", json!({"type": "Constant", "start": 1}), "`end` is missing"),
        ("/rankRange", json!({"type": "Variable", "endIndex": 1, "end": 2}), "the property `end` of `rankRange`"),
        ("/rankRange", json!({"type": "X"}), "a rank range of type X is not known here"),
        ("/rankStrategy", json!({"type": "Undefined"}), "the rank strategy Undefined is not known here"),
        ("/rankStrategy", json!({"type": "UpdateFast"}), "`primaryKeys` is missing"),
        ("/rankStrategy/primaryKeys", json!([1]), "the property `primaryKeys` of `rankStrategy`"),
        ("/orderBy/fields/0/collation", json!("x"), "the property `collation` of a sort field"),
        ("/partition/order", json!(1), "the property `order` of `partition`"),
        ("/configuration/table.exec.rank.topn-cache-size", json!("many"), "is not a number"),
    ];
    for (pointer, value, expected) in cases {
        assert_stock(&changed("topn", "rank", &[(pointer, value)], &[])?, expected);
    }
    Ok(())
}

#[test]
fn the_columns_of_a_rank_must_exist() -> TestResult {
    let cases = [
        ("/partition/fields", json!([9]), "a partition column does not exist"),
        ("/orderBy/fields/0/index", json!(7), "a sort column does not exist"),
        ("/rankStrategy", json!({"type": "UpdateFast", "primaryKeys": [7]}), "a key column does not exist"),
        ("/rankRange", json!({"type": "Variable", "endIndex": 7}), "does not exist"),
        ("/rankRange", json!({"type": "Variable", "endIndex": 3}), "is not BIGINT, INT or SMALLINT"),
        ("/outputRowNumber", json!(false), "the output type differs from the input type"),
    ];
    let graph = plan("topn")?;
    let node = first(&graph, "rank")?;
    for (pointer, value, expected) in cases {
        let kind = changed("topn", "rank", &[(pointer, value)], &[])?;
        assert!(matches!(kind, NodeKind::Rank(_)), "{kind:?}");
        let reason = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).err().ok_or("it fits")?;
        assert!(reason.to_string().contains(expected), "{reason}, not {expected}");
    }
    Ok(())
}

#[test]
fn limits_are_ranks_of_all_rows_without_the_row_number() -> TestResult {
    let plain = Rank {
        partition: Vec::new(),
        order_by: Vec::new(),
        range: RankRange::Constant { start: 3, end: 12 },
        strategy: RankStrategy::AppendFast,
        output_row_number: false,
        generate_update_before: false,
        ttl_ms: 0,
        mini_batch: None,
        cache_size: 10_000,
    };
    let (range, strategy) = (RankRange::Constant { start: 2, end: 11 }, RankStrategy::Retract);
    // NULLS FIRST
    let sort = Rank { order_by: vec![column(1, true)], range, strategy, ..plain.clone() };
    // What is fixed may be missing.
    let fixed = ["/rankType", "/partition", "/outputRowNumber"].map(|pointer| (pointer, Value::Null));
    let order = [("/orderBy", Value::Null)];
    assert_eq!(changed("limit", "limit", &[], &[])?, NodeKind::Limit(plain.clone()));
    assert_eq!(changed("limit", "limit", &[&fixed[..], &order].concat(), &[])?, NodeKind::Limit(plain));
    assert_eq!(changed("sortlimit", "sort-limit", &[], &[])?, NodeKind::SortLimit(sort.clone()));
    assert_eq!(changed("sortlimit", "sort-limit", &fixed, &[])?, NodeKind::SortLimit(sort));
    assert_stock(&changed("sortlimit", "sort-limit", &order, &[])?, "`orderBy` is missing");
    Ok(())
}

#[test]
fn a_limit_with_another_value_of_what_is_fixed_is_not_typed() -> TestResult {
    let cases = [
        ("/partition/fields", json!([0]), "a limit has a partition"),
        ("/outputRowNumber", json!(true), "a limit hands on the row number"),
        ("/rankType", json!("RANK"), "Flink does not support RANK"),
        ("/rankRange", json!({"type": "Variable", "endIndex": 0}), "the range of a limit is not constant"),
        ("/rankRange/end", json!(i64::MAX), "OFFSET without FETCH"),
    ];
    for (pointer, value, expected) in cases {
        assert_stock(&changed("limit", "limit", &[(pointer, value.clone())], &[])?, expected);
        assert_stock(&changed("sortlimit", "sort-limit", &[(pointer, value)], &[])?, expected);
    }
    let order = json!([{"index": 0, "isAscending": true, "nullIsLast": true}]);
    assert_stock(&changed("limit", "limit", &[("/orderBy/fields", order)], &[])?, "a limit has a sort order");
    Ok(())
}
