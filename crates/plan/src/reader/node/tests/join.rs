//! Tests of joins.

use super::*;
use crate::node::{InputSide, InputSideKey, Join, JoinType};

fn side(keys: &[usize], upsert_keys: &[&[usize]]) -> InputSide {
    InputSide { keys: keys.to_vec(), upsert_keys: upsert_keys.iter().map(|key| key.to_vec()).collect(), ttl_ms: 0 }
}

#[test]
fn a_join_has_two_sides_with_their_own_keys_and_time_to_live() -> TestResult {
    let graph = plan("join")?;
    let node = first(&graph, "join")?;
    let expected = Join {
        join_type: JoinType::Inner,
        left: side(&[0], &[&[0]]),
        right: side(&[0], &[&[0]]),
        filter_nulls: vec![true],
        condition: None,
        mini_batch_size: None,
    };
    assert_eq!(node.kind, NodeKind::Join(expected.clone()));
    assert!(node.kind.has_two_inputs());
    // The order of the list does not count, the indexes do.
    let state =
        json!([{"index": 1, "ttl": "2 s", "name": "rightState"}, {"index": 0, "ttl": "1 s", "name": "leftState"}]);
    let changes = [("/state", state), ("/leftUpsertKeys", Value::Null), ("/joinSpec/joinType", json!("FULL"))];
    let NodeKind::Join(join) = changed("join", "join", &changes, &[])? else { panic!("no join") };
    assert_eq!((join.left.ttl_ms, join.right.ttl_ms, join.join_type), (1000, 2000, JoinType::Full));
    assert_eq!((join.left.upsert_keys.len(), join.right.upsert_keys.len()), (0, 1));
    let session = [("table.exec.state.ttl", "7 ms")];
    let NodeKind::Join(join) = changed("join", "join", &[("/state", Value::Null)], &session)? else {
        panic!("no join")
    };
    assert_eq!((join.left.ttl_ms, join.right.ttl_ms), (7, 7));
    Ok(())
}

#[test]
fn the_joins_of_flinks_plans_differ_as_their_queries_do() -> TestResult {
    let read = |name: &str| match &first(&plan(name)?, "join")?.kind {
        NodeKind::Join(join) => Ok::<_, Box<dyn std::error::Error>>(join.clone()),
        other => panic!("{other:?}"),
    };
    let left = read("leftjoin_mb")?;
    assert_eq!((left.join_type, &left.left.keys, &left.right.keys), (JoinType::Left, &vec![0], &vec![1]));
    assert!(left.condition.is_some());
    assert_eq!(left.left.unique_key(), InputSideKey::JoinKeyContainsUniqueKey(&[0]));
    assert_eq!(left.right.unique_key(), InputSideKey::HasUniqueKey(&[0]));
    // A file of a plan is without its session.
    assert_eq!(left.mini_batch_size, None);
    let cross = read("crossjoin")?;
    assert_eq!((cross.left.keys.len(), cross.filter_nulls.len()), (0, 0));
    assert_eq!(cross.left.unique_key(), InputSideKey::NoUniqueKey);
    assert_eq!(cross.right.unique_key(), InputSideKey::JoinKeyContainsUniqueKey(&[]));
    assert_eq!(read("semijoin")?.join_type, JoinType::Semi);
    let hints = read("joinhint")?;
    assert_eq!((hints.left.ttl_ms, hints.right.ttl_ms), (86_400_000, 43_200_000));
    Ok(())
}

#[test]
fn the_mini_batch_of_a_join_comes_from_the_session() -> TestResult {
    let session = [("table.exec.mini-batch.enabled", "true"), ("table.exec.mini-batch.size", "100")];
    let sizes = [("INNER", Some(100)), ("LEFT", Some(100)), ("RIGHT", Some(100)), ("SEMI", None), ("ANTI", None)];
    for (name, expected) in sizes {
        let kind = changed("join_mb", "join", &[("/joinSpec/joinType", json!(name))], &session)?;
        assert!(matches!(&kind, NodeKind::Join(join) if join.mini_batch_size == expected), "{name}: {kind:?}");
    }
    // Flink asks for a size only where it bundles.
    let unsized_session = [("table.exec.mini-batch.enabled", "true")];
    assert_stock(&changed("join", "join", &[], &unsized_session)?, "is -1, and Flink wants a positive number");
    let semi = changed("join", "join", &[("/joinSpec/joinType", json!("SEMI"))], &unsized_session)?;
    assert!(matches!(semi, NodeKind::Join(_)), "{semi:?}");
    // The node consumes no options.
    let own = [("/configuration", json!({"table.exec.mini-batch.size": "5"}))];
    assert_stock(&changed("join", "join", &own, &session)?, "its option `table.exec.mini-batch.size`");
    Ok(())
}

#[test]
fn a_condition_that_is_always_true_is_none() -> TestResult {
    let literal = |value: bool| json!({"kind": "LITERAL", "value": value, "type": "BOOLEAN NOT NULL"});
    let read = |value: Value| match changed("join", "join", &[("/joinSpec/nonEquiCondition", value)], &[])? {
        NodeKind::Join(join) => Ok::<_, Box<dyn std::error::Error>>(join.condition),
        other => panic!("{other:?}"),
    };
    assert_eq!(read(literal(true))?, None);
    assert!(read(literal(false))?.is_some());
    Ok(())
}

#[test]
fn a_join_with_anything_unknown_or_wrong_is_not_typed() -> TestResult {
    let state =
        |index: i64| json!([{"index": 0, "ttl": "0 ms", "name": "x"}, {"index": index, "ttl": "0 ms", "name": "y"}]);
    let cases = [
        ("/joinSpec/joinType", json!("CROSS"), "a join of type CROSS is not known here"),
        ("/joinSpec/hint", json!(1), "the property `hint` of `joinSpec`"),
        ("/joinSpec/leftKeys", json!([0, 1]), "are not pairs"),
        ("/joinSpec/filterNulls", json!([]), "are not pairs"),
        ("/joinSpec/filterNulls", json!([1]), "`filterNulls` is not a list of true and false"),
        ("/leftUpsertKeys", json!([0]), "`leftUpsertKeys` is not a list of column numbers"),
        ("/state", json!([{"index": 0, "ttl": "0 ms", "name": "x"}]), "`state` has 1 elements, not 2"),
        ("/state", state(0), "`state` has the index 0 twice"),
        ("/state", state(2), "`state` has the index 2, which is out of range"),
        ("/state/0/name", Value::Null, "`name` is missing"),
        ("/state/1/since", json!(1), "the property `since` of its state"),
    ];
    for (pointer, value, expected) in cases {
        assert_stock(&changed("join", "join", &[(pointer, value)], &[])?, expected);
    }
    let graph = plan("join")?;
    let json = graph.position(first(&graph, "join")?.id).and_then(|at| graph.json(at)).ok_or("no JSON")?;
    for inputs in [vec![], vec![1], vec![1, 2, 3]] {
        let expected = format!("the operator has {} inputs", inputs.len());
        assert_stock(&read_node(json, inputs, &Config::new()).kind, &expected);
    }
    Ok(())
}

#[test]
fn the_columns_of_a_join_must_exist_and_agree() -> TestResult {
    let graph = plan("join")?;
    let node = first(&graph, "join")?;
    let both = |index: usize, ty: &str| {
        let operand = json!({"kind": "INPUT_REF", "inputIndex": index, "type": ty});
        json!({"kind": "CALL", "internalName": "$IS NULL$1", "operands": [operand], "type": "BOOLEAN NOT NULL"})
    };
    let cases = [
        ("/joinSpec/rightKeys", json!([2]), Some("a key column of a join does not exist")),
        ("/rightUpsertKeys", json!([[0], [2]]), Some("a column of an upsert key does not exist")),
        ("/joinSpec/joinType", json!("ANTI"), Some("has other columns than its inputs")),
        ("/joinSpec/nonEquiCondition", both(3, "BIGINT"), None),
        ("/joinSpec/nonEquiCondition", both(4, "BIGINT"), Some("a column that does not exist")),
        ("/joinSpec/nonEquiCondition", both(2, "INT"), Some("another type than it has")),
    ];
    for (pointer, value, expected) in cases {
        let kind = changed("join", "join", &[(pointer, value)], &[])?;
        assert!(matches!(kind, NodeKind::Join(_)), "{kind:?}");
        let result = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node));
        match expected {
            Some(expected) => assert!(result.is_err_and(|reason| reason.to_string().contains(expected)), "{expected}"),
            None => assert_eq!(result, Ok(())),
        }
    }
    let text = read_type(&json!("ROW<`x` VARCHAR(3), `m` BIGINT>")).map_err(|reason| reason.to_string())?;
    let reason = check_node(node, &[inputs(&graph, node)[0], &text]).err().ok_or("it fits")?;
    assert!(reason.to_string().contains("different types"), "{reason}");
    assert!(check_node(node, &inputs(&graph, node)[..1]).is_err());
    Ok(())
}

#[test]
fn the_shape_of_a_join_side_follows_its_shortest_first_key() {
    use InputSideKey::{HasUniqueKey, JoinKeyContainsUniqueKey, NoUniqueKey};
    let cases = [
        (side(&[0], &[]), NoUniqueKey),
        (side(&[0, 1], &[&[2], &[1, 0], &[1]]), JoinKeyContainsUniqueKey(&[1])),
        (side(&[0, 1], &[&[1], &[0]]), JoinKeyContainsUniqueKey(&[1])),
        (side(&[0], &[&[0, 1], &[2, 3], &[3, 1]]), HasUniqueKey(&[0, 1])),
        (side(&[], &[&[]]), JoinKeyContainsUniqueKey(&[])),
        (side(&[], &[&[0]]), HasUniqueKey(&[0])),
    ];
    for (side, expected) in cases {
        assert_eq!(side.unique_key(), expected, "{side:?}");
    }
}
