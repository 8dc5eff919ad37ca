//! Which operators that compare whole rows stay on Flink, because of what equal is there.

use super::*;

const FLOATS: &str = "ROW<`a` BIGINT, `r` ROW<`x` DOUBLE>>";

fn normalize(id: i64, output: &str, ttl: &str, input: i64) -> (Value, Vec<i64>) {
    let state = json!([{"index": 0, "ttl": ttl, "name": "changelogNormalizeState"}]);
    let own = json!({"uniqueKeys": [0], "generateUpdateBefore": true, "filterCondition": null, "state": state});
    node(id, "changelog-normalize", output, own, &[input])
}

fn keep_last(id: i64, output: &str, ttl: &str, input: i64) -> (Value, Vec<i64>) {
    let state = json!([{"index": 0, "ttl": ttl, "name": "deduplicateState"}]);
    let own = json!({"uniqueKeys": [0], "isRowtime": false, "keepLastRow": true, "outputInsertOnly": false,
        "generateUpdateBefore": true, "state": state});
    node(id, "deduplicate", output, own, &[input])
}

#[test]
fn floats_are_compared_behind_an_exchange_alone_and_no_rows_if_objects_are_reused() -> TestResult {
    let engine = Engine { everything: true, ..Engine::default() };
    let reuse = "with pipeline.object-reuse";
    let floats = "rows with FLOAT or DOUBLE columns";
    for operator in [normalize, keep_last] {
        for (row, ttl, exchanged, reused, expected) in [
            (PAIR, "0 ms", false, false, None),
            (FLOATS, "0 ms", true, false, None),
            (FLOATS, "0 ms", false, false, Some(floats)),
            (FLOATS, "1 h", false, false, None),
            (PAIR, "0 ms", true, true, Some(reuse)),
            (PAIR, "1 h", true, true, None),
        ] {
            let nodes = if exchanged {
                vec![source(1, row), exchange(2, row, &[0], 1), operator(3, row, ttl, 2), sink(4, 3)]
            } else {
                vec![source(1, row), operator(3, row, ttl, 1), sink(4, 3)]
            };
            let mut json = request(nodes);
            json["config"] = json!({"pipeline.object-reuse": reused.to_string()});
            let plan = plan_request(&json, &engine)?;
            match expected {
                None => assert_eq!(reason(&plan, 3), ""),
                Some(expected) => assert!(reason(&plan, 3).starts_with(expected), "{}", reason(&plan, 3)),
            }
        }
    }
    Ok(())
}

fn rank(id: i64, output: &str, strategy: &str, input: i64) -> (Value, Vec<i64>) {
    let order = json!({"fields": [{"index": 0, "isAscending": true, "nullIsLast": false}]});
    let own = json!({"rankType": "ROW_NUMBER", "partition": {"fields": [0]}, "orderBy": order,
        "rankRange": {"type": "Constant", "start": 1, "end": 3}, "rankStrategy": {"type": strategy},
        "outputRowNumber": false, "generateUpdateBefore": true});
    node(id, "rank", output, own, &[input])
}

#[test]
fn ranked_rows_are_compared_if_they_are_retracted() -> TestResult {
    let engine = Engine { everything: true, ..Engine::default() };
    for (strategy, reused, expected) in [
        ("Retract", false, Some("rows with FLOAT or DOUBLE columns")),
        ("Retract", true, Some("with pipeline.object-reuse")),
        ("AppendFast", false, None),
        ("AppendFast", true, Some("with pipeline.object-reuse")),
    ] {
        let mut json = request(vec![source(1, FLOATS), rank(2, FLOATS, strategy, 1), sink(3, 2)]);
        json["config"] = json!({"pipeline.object-reuse": reused.to_string()});
        let plan = plan_request(&json, &engine)?;
        match expected {
            None => assert_eq!(reason(&plan, 2), ""),
            Some(expected) => assert!(reason(&plan, 2).starts_with(expected), "{}", reason(&plan, 2)),
        }
    }
    Ok(())
}
