//! Which phases of an aggregate stay on Flink because another one does.

use super::*;

const KEY: &str = "ROW<`a` BIGINT, `b` BIGINT>";

fn map_view() -> Value {
    json!({"type": "RAW", "class": "org.apache.flink.table.api.dataview.MapView", "externalDataType": "STRUCTURED<>"})
}

/// Rows of the phases of COUNT(DISTINCT b) GROUP BY a.
fn counted() -> Value {
    let field = |name: &str, ty: Value| json!({"name": name, "fieldType": ty});
    let fields = [field("a", json!("BIGINT")), field("count$0", json!("BIGINT")), field("distinct$0", map_view())];
    json!({"type": "ROW", "fields": fields})
}

fn typed(id: i64, name: &str, output: Value, own: Value, input: i64) -> (Value, Vec<i64>) {
    let (mut json, inputs) = node(id, name, "", own, &[input]);
    json["outputType"] = output;
    (json, inputs)
}

fn count() -> Value {
    json!({"name": "c", "internalName": "$COUNT$1", "argList": [1], "filterArg": -1, "distinct": true,
        "approximate": false, "ignoreNulls": false, "type": "BIGINT NOT NULL"})
}

fn bundles() -> Value {
    json!({"table.exec.mini-batch.enabled": "true", "table.exec.mini-batch.size": "5"})
}

fn local(id: i64, input: i64) -> (Value, Vec<i64>) {
    let own = json!({"grouping": [0], "aggCalls": [count()], "aggCallNeedRetractions": [false], "needRetraction": false,
        "configuration": bundles()});
    typed(id, "local-group-aggregate", counted(), own, input)
}

fn exchange_of(id: i64, output: Value, input: i64) -> (Value, Vec<i64>) {
    let (mut json, inputs) = exchange(id, "", &[0], input);
    json["outputType"] = output;
    (json, inputs)
}

fn global(id: i64, input: i64) -> (Value, Vec<i64>) {
    let own = json!({"grouping": [0], "aggCalls": [count()], "aggCallNeedRetractions": [false], "needRetraction": false,
        "localAggInputRowType": KEY, "generateUpdateBefore": true, "configuration": bundles()});
    typed(id, "global-group-aggregate", json!("ROW<`a` BIGINT, `c` BIGINT NOT NULL>"), own, input)
}

fn incremental(id: i64, input: i64) -> (Value, Vec<i64>) {
    let own = json!({"partialAggGrouping": [0], "finalAggGrouping": [0], "partialOriginalAggCalls": [count()],
        "partialAggCallNeedRetractions": [false], "partialLocalAggInputRowType": KEY, "partialAggNeedRetraction": false,
        "configuration": bundles()});
    typed(id, "incremental-group-aggregate", json!("ROW<`a` BIGINT, `count$0` BIGINT>"), own, input)
}

fn plan_without(refused: &[i64], nodes: Vec<(Value, Vec<i64>)>) -> Result<JobPlan, PlanErrorBox> {
    let engine = Engine { everything: true, refused: refused.iter().copied().collect() };
    plan_request(&request(nodes), &engine)
}

fn two_phases() -> Vec<(Value, Vec<i64>)> {
    vec![source(1, PAIR), local(2, 1), exchange_of(3, counted(), 2), global(4, 3), sink(5, 4)]
}

#[test]
fn phases_that_hand_on_maps_run_natively_together() -> TestResult {
    let plan = plan_without(&[], two_phases())?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2 3] @2 -> batches", "stage 0 -> [4] @4 -> rows"]);
    Ok(())
}

#[test]
fn phases_that_hand_on_maps_stay_on_flink_together_and_say_why() -> TestResult {
    for refused in [2, 3, 4] {
        let plan = plan_without(&[refused], two_phases())?;
        assert_eq!(shorts(&plan), Vec::<String>::new(), "without {refused}");
        let name = ["local-group-aggregate 2", "exchange 3", "global-group-aggregate 4"][refused as usize - 2];
        for other in [2, 3, 4].into_iter().filter(|other| *other != refused) {
            let reason = reason(&plan, other);
            assert!(reason.ends_with(&format!("and {name} does not: refused")), "{other} without {refused}: {reason}");
        }
    }
    Ok(())
}

#[test]
fn a_phase_behind_the_maps_may_run_without_the_others() -> TestResult {
    let plain = || json!("ROW<`a` BIGINT, `count$0` BIGINT>");
    let nodes = || {
        vec![
            source(1, PAIR),
            local(2, 1),
            exchange_of(3, counted(), 2),
            incremental(4, 3),
            exchange_of(5, plain(), 4),
            global(6, 5),
            sink(7, 6),
        ]
    };
    assert_eq!(plan_without(&[], nodes())?.stages.len(), 3);
    let plan = plan_without(&[4], nodes())?;
    assert_eq!(shorts(&plan), ["rows of 4 -> [5] @5 -> batches", "stage 0 -> [6] @6 -> rows"]);
    let plan = plan_without(&[6], nodes())?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2 3] @2 -> batches", "stage 0 -> [4] @4 -> rows"]);
    Ok(())
}
