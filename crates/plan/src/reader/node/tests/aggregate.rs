//! Tests of the aggregates.

use super::*;
use crate::node::{GlobalGroupAggregate, IncrementalGroupAggregate, LocalGroupAggregate};

#[test]
fn an_aggregate_in_two_phases_counts_columns_of_the_local_input() -> TestResult {
    let graph = plan("groupagg_mb")?;
    let NodeKind::LocalGroupAggregate(LocalGroupAggregate { grouping, calls, need_retraction, mini_batch_size }) =
        &first(&graph, "local-group-aggregate")?.kind
    else {
        panic!("no local aggregate");
    };
    assert_eq!((grouping.as_slice(), calls.len(), *need_retraction, *mini_batch_size), (&[0][..], 3, false, 50_000));
    let NodeKind::GlobalGroupAggregate(GlobalGroupAggregate { calls: global, local_input, count_star, ttl_ms, .. }) =
        &first(&graph, "global-group-aggregate")?.kind
    else {
        panic!("no global aggregate");
    };
    assert_eq!(global, calls);
    assert_eq!((global[2].args.as_slice(), global[2].filter, local_input.fields().len()), (&[2][..], Some(3), 4));
    assert_eq!((*count_star, *ttl_ms), (None, 0));
    Ok(())
}

#[test]
fn a_global_aggregate_that_retracts_may_name_its_count() -> TestResult {
    let changes = [("/needRetraction", json!(true)), ("/indexOfCountStar", json!(0)), ("/state/0/ttl", json!("1 d"))];
    let kind = changed("groupagg_mb", "global-group-aggregate", &changes, &[])?;
    let NodeKind::GlobalGroupAggregate(aggregate) = &kind else { panic!("{kind:?}") };
    assert_eq!((aggregate.count_star, aggregate.ttl_ms), (Some(0), 86_400_000));
    let graph = plan("groupagg_mb")?;
    let mut node = first(&graph, "global-group-aggregate")?.clone();
    node.kind = NodeKind::GlobalGroupAggregate(GlobalGroupAggregate { count_star: Some(3), ..aggregate.clone() });
    let reason = check_node(&node, &inputs(&graph, &node)).err().ok_or("it fits")?;
    assert!(reason.to_string().contains("counts the rows"), "{reason}");
    Ok(())
}

#[test]
fn the_phases_of_an_aggregate_go_by_the_bundle_size_as_flink_reads_it() -> TestResult {
    let (enabled, size) = ("/configuration/table.exec.mini-batch.enabled", "/configuration/table.exec.mini-batch.size");
    let off = (enabled, json!("false"));
    // Local aggregates do not ask whether mini-batch is on; global ones do.
    let local = changed("groupagg_mb", "local-group-aggregate", std::slice::from_ref(&off), &[])?;
    assert!(matches!(local, NodeKind::LocalGroupAggregate(LocalGroupAggregate { mini_batch_size: 50_000, .. })));
    assert_stock(&changed("groupagg_mb", "global-group-aggregate", &[off], &[])?, "in mini-batch mode only");
    for (value, expected) in [("0", "is 0, and Flink wants a positive number"), ("1e3", "is not a number")] {
        for name in ["local-group-aggregate", "global-group-aggregate"] {
            assert_stock(&changed("groupagg_mb", name, &[(size, json!(value))], &[])?, expected);
        }
    }
    let session = [("table.exec.mini-batch.size", "12")];
    let local = changed("groupagg_mb", "local-group-aggregate", &[(size, Value::Null)], &session)?;
    assert!(matches!(local, NodeKind::LocalGroupAggregate(LocalGroupAggregate { mini_batch_size: 12, .. })));
    Ok(())
}

#[test]
fn the_final_key_of_an_incremental_aggregate_counts_within_the_partial_key() -> TestResult {
    let graph = plan("split_mb")?;
    let mut node = first(&graph, "incremental-group-aggregate")?.clone();
    let inputs = inputs(&graph, &node);
    let NodeKind::IncrementalGroupAggregate(aggregate) = node.kind.clone() else { panic!("{:?}", node.kind) };
    let keys = (aggregate.partial_grouping.as_slice(), aggregate.final_grouping.as_slice());
    assert_eq!(keys, (&[0, 1, 2][..], &[0][..]));
    assert_eq!((aggregate.ttl_ms, aggregate.mini_batch_size), (129_600_000, 100));
    assert_eq!((aggregate.calls[2].args.as_slice(), aggregate.calls[2].filter), (&[2][..], Some(8)));
    assert_eq!(aggregate.local_input.fields().len(), 9);
    let wrong: [fn(&mut IncrementalGroupAggregate); 4] = [
        |a| a.final_grouping = vec![3],
        |a| a.partial_grouping = vec![0, 99],
        |a| a.partial_grouping = vec![1, 0],
        |a| a.calls[0].args = vec![9],
    ];
    for (position, wrong) in wrong.iter().enumerate() {
        let mut aggregate = aggregate.clone();
        wrong(&mut aggregate);
        node.kind = NodeKind::IncrementalGroupAggregate(aggregate);
        assert!(check_node(&node, &inputs).is_err(), "case {position}");
    }
    Ok(())
}

#[test]
fn a_global_aggregate_behind_an_incremental_one_is_about_partial_results() -> TestResult {
    let graph = plan("split_mb")?;
    let NodeKind::GlobalGroupAggregate(aggregate) = &first(&graph, "global-group-aggregate")?.kind else {
        panic!("no global aggregate");
    };
    let args: Vec<_> = aggregate.calls.iter().flat_map(|call| call.args.iter().copied()).collect();
    assert_eq!((args.as_slice(), aggregate.local_input.fields().len()), (&[3, 4, 5][..], 6));
    Ok(())
}
