//! Tests of joins of several inputs.

use super::super::multi_join::read_multi_join;
use super::*;
use crate::node::{KeyColumn, MultiJoin};
use crate::reason::Reason;

/// The node of Flink's plan as JSON, with these members in the place of its own.
fn json(changes: &[(&str, Value)]) -> Result<Value, Box<dyn std::error::Error>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plan_multijoin.json");
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let nodes = plan["nodes"].as_array().ok_or("no nodes")?;
    let mut node = nodes.iter().find(|node| node["type"] == "stream-exec-multi-join_1").ok_or("no join")?.clone();
    for (pointer, value) in changes {
        *node.pointer_mut(pointer).ok_or("no such member")? = value.clone();
    }
    Ok(node)
}

fn read(changes: &[(&str, Value)]) -> Result<Result<MultiJoin, Reason>, Box<dyn std::error::Error>> {
    Ok(read_multi_join(&json(changes)?, &Config::default()))
}

#[test]
fn a_join_of_several_inputs_says_of_each_how_it_is_joined() -> TestResult {
    let join = read(&[])?.map_err(|reason| reason.to_string())?;
    let of_inputs = |what: fn(&crate::node::MultiJoinInput) -> i64| join.inputs.iter().map(what).collect::<Vec<_>>();
    assert_eq!(of_inputs(|input| input.ttl_ms), [3_600_000, 0, 0]);
    assert_eq!(of_inputs(|input| input.is_outer.into()), [0, 1, 0]);
    assert_eq!(of_inputs(|input| input.condition.is_some().into()), [0, 1, 1]);
    let keys: Vec<_> = join.inputs.iter().map(|input| &input.keys[..]).collect();
    let key = |equals| KeyColumn { column: 0, equals };
    assert_eq!(keys, [&[key(None), key(None)][..], &[key(Some((0, 0)))], &[key(Some((0, 0)))]]);
    let identities: Vec<_> = join.inputs.iter().map(|input| input.identity()).collect();
    assert_eq!(identities, [Some(vec![0]), None, None]);
    assert_eq!(join.common_keys(), Ok(vec![vec![0]; 3]));
    Ok(())
}

#[test]
fn joins_of_several_inputs_that_are_not_as_flink_writes_them_are_refused() -> TestResult {
    let pair = |left: i64, right: i64| json!([{"leftInputId": left, "leftFieldIndex": 0, "rightInputId": right, "rightFieldIndex": 0}]);
    let cases = [
        ("/joinTypes/1", json!("FULL"), "of type \"FULL\" is not known here"),
        ("/joinTypes", json!(["INNER"]), "does not say the same"),
        ("/inputUniqueKeys", json!([[], []]), "does not say the same"),
        ("/joinConditions/1", Value::Null, "has no condition"),
        ("/joinAttributeMap/1", pair(0, 2), "joins another input"),
        ("/joinAttributeMap/1", pair(1, 1), "an input behind it"),
        ("/joinAttributeMap/0", pair(1, 0), "is joined to something"),
    ];
    for (pointer, value, expected) in cases {
        let reason = read(&[(pointer, value)])?.err().ok_or("it is read")?;
        assert!(reason.to_string().contains(expected), "{pointer}: {reason}");
    }
    Ok(())
}

#[test]
fn joins_of_several_inputs_are_not_run_yet() -> TestResult {
    let graph = plan("multijoin")?;
    let kind = &first(&graph, "multi-join")?.kind;
    let refused = |reason: &Reason| reason.to_string().contains("MultiJoin is not supported natively");
    assert!(matches!(kind, NodeKind::Stock(reason) if refused(reason)), "{kind:?}");
    Ok(())
}
