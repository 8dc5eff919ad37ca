//! Tests of lookup joins.

use super::*;
use crate::node::{JoinType, LookupJoin};

fn lookup(kind: NodeKind) -> Result<LookupJoin, Box<dyn std::error::Error>> {
    match kind {
        NodeKind::LookupJoin(join) => Ok(join),
        other => Err(format!("{other:?}").into()),
    }
}

#[test]
fn a_lookup_join_reads_its_keys_and_what_its_conditions_read() -> TestResult {
    let graph = plan("lookup_left")?;
    let node = first(&graph, "lookup-join")?;
    let join = lookup(node.kind.clone())?;
    assert_eq!((join.join_type, &join.keys), (JoinType::Left, &vec![0]));
    assert_eq!(join.table, "`default_catalog`.`default_database`.`side`");
    // the key, the column of the condition on the left, that of the condition on both, and not that of the table
    assert_eq!(join.reads(3), [0, 1, 2]);
    assert_eq!(check_node(node, &inputs(&graph, node)), Ok(()));

    let changes = [("/joinCondition", Value::Null), ("/preFilterCondition", Value::Null)];
    let join = lookup(changed("lookup_left", "lookup-join", &changes, &[])?)?;
    assert_eq!((join.reads(3), join.condition, join.pre_filter), (vec![0], None, None));
    Ok(())
}

#[test]
fn a_lookup_may_be_asynchronous_but_not_keyed() -> TestResult {
    let ordered = json!({"capacity ": 100, "timeout": 180_000, "output-mode": "ORDERED"});
    lookup(changed("lookup_left", "lookup-join", &[("/asyncOptions", ordered)], &[])?)?;
    let keyed = json!({"capacity ": 100, "timeout": 180_000, "is-key-ordered": true, "output-mode": "ORDERED"});
    let cases = [
        ("/asyncOptions", keyed, "ordered by key"),
        ("/requireUpsertMaterialize", json!(true), "keeps what it found"),
        ("/preferCustomShuffle", json!(true), "a shuffle of its own"),
        ("/joinType", json!("FULL"), "of type FULL"),
        ("/lookupKeys/0", json!({"type": "Call"}), "neither a column nor a constant"),
    ];
    for (pointer, value, reason) in cases {
        match changed("lookup_left", "lookup-join", &[(pointer, value)], &[])? {
            NodeKind::Stock(given) if given.to_string().contains(reason) => {}
            other => return Err(format!("{pointer}: {other:?}").into()),
        }
    }
    Ok(())
}

#[test]
fn a_lookup_key_must_exist() -> TestResult {
    let graph = plan("lookup_left")?;
    let node = first(&graph, "lookup-join")?;
    let key = json!({"type": "FieldRef", "index": 3});
    let kind = changed("lookup_left", "lookup-join", &[("/lookupKeys/0", key)], &[])?;
    assert!(check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).is_err());
    Ok(())
}
