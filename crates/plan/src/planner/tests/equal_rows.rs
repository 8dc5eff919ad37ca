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
