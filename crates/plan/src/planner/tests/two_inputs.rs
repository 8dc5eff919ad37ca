//! Stages of joins, which tell two inputs apart, and what changelog operators read.

use super::*;

const FOUR: &str = "ROW<`a` BIGINT, `b` BIGINT, `c` BIGINT, `d` BIGINT>";

/// A join of two pairs by their first columns.
fn join(id: i64, left: i64, right: i64) -> (Value, Vec<i64>) {
    let spec = json!({"joinType": "LEFT", "leftKeys": [0], "rightKeys": [0], "filterNulls": [true],
        "nonEquiCondition": null});
    node(id, "join", FOUR, json!({"joinSpec": spec}), &[left, right])
}

fn everything() -> Engine {
    Engine { everything: true, ..Engine::default() }
}

fn plan_everything(nodes: Vec<(Value, Vec<i64>)>) -> Result<JobPlan, PlanErrorBox> {
    plan_request(&request(nodes), &everything())
}

#[test]
fn an_engine_without_stages_of_two_inputs_leaves_joins_to_flink() -> TestResult {
    struct OneInput;
    impl Capabilities for OneInput {
        fn node(&self, _: &Node, _: &[&LogicalType], _: &Config) -> Result<NativeNode, Reason> {
            Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
        }
    }
    let json = request(vec![source(1, PAIR), source(2, PAIR), join(3, 1, 2), sink(4, 3)]);
    let plan = plan_job(&Graph::read(&json.to_string())?, &OneInput);
    assert!(plan.stages.is_empty());
    assert_eq!(reason(&plan, 3), "operators with two inputs do not run natively yet");
    Ok(())
}

#[test]
fn a_join_begins_a_stage_with_two_inputs() -> TestResult {
    let nodes = vec![
        source(1, PAIR),
        exchange(2, PAIR, &[0], 1),
        source(3, PAIR),
        exchange(4, PAIR, &[0], 3),
        join(5, 2, 4),
        node(6, "drop-update-before", FOUR, json!({}), &[5]),
        sink(7, 6),
    ];
    let plan = plan_everything(nodes)?;
    let expected =
        ["rows of 1 -> [2] @2 -> batches", "rows of 3 -> [4] @4 -> batches", "stage 0 | stage 1 -> [5 6] @5 -> rows"];
    assert_eq!(shorts(&plan), expected);
    let rows: Vec<i64> = plan.stages[2].inputs.iter().map(|input| input.row_type).collect();
    assert_eq!(rows, [2, 4]);
    Ok(())
}

#[test]
fn the_inputs_of_a_join_are_rows_or_batches_each_for_itself() -> TestResult {
    let nodes = vec![source(1, PAIR), source(2, ROW), busy(3, 2), join(4, 1, 3), sink(5, 4)];
    let json = plan_everything(nodes)?.to_json();
    let mut stage = json["stages"][1].clone();
    let spec = stage.as_object_mut().and_then(|map| map.remove("spec")).ok_or("no spec")?;
    let expected = json!({"id": 1, "nodes": [4], "anchor": 4, "inputs": [{"node": 1, "stage": null}], "rowType": 1,
        "entry": [{}, {}], "fragmentInput": false,
        "second": {"inputs": [{"node": 3, "stage": 0}], "rowType": 3, "entry": null, "fragmentInput": false},
        "output": "rows", "exchange": null, "hosts": [], "stateful": true, "collects": false});
    assert_eq!(stage, expected);
    let spec = StageSpec::read(spec.as_str().ok_or("no text")?)?;
    let second = spec.second.ok_or("no second input")?;
    assert_eq!((spec.input_form, second.form), (Form::Rows, Form::Batches));
    assert_eq!((spec.reads, second.reads), (vec![Read, Read], vec![Read, Read]));
    Ok(())
}

#[test]
fn the_inputs_of_a_join_are_fragments_or_not_each_for_itself() -> TestResult {
    let nodes =
        vec![source(1, PAIR), exchange(2, PAIR, &[0], 1), source(3, PAIR), busy(4, 3), join(5, 2, 4), sink(6, 5)];
    let mut json = request(nodes);
    json["unaligned"] = json!(true);
    let plan = plan_request(&json, &everything())?;
    let fragments: Vec<bool> = plan.stages[2].inputs.iter().map(|input| input.fragments).collect();
    assert_eq!(fragments, [true, false]);
    Ok(())
}

#[test]
fn each_input_of_a_join_is_entered_by_its_own_row_type() -> TestResult {
    let six = "ROW<`a` BIGINT, `b` BIGINT, `c` VARCHAR(9), `r` ROW<`x` INT, `y` ROW<`z` INT, `w` INT>>, `d` BIGINT, \
               `e` BIGINT>";
    let spec = json!({"joinType": "INNER", "leftKeys": [0], "rightKeys": [1], "filterNulls": [true]});
    let nodes = vec![
        source(1, ROW),
        source(2, PAIR),
        node(3, "join", six, json!({"joinSpec": spec}), &[1, 2]),
        swap(4, 3),
        sink(5, 4),
    ];
    let plan = plan_everything(nodes)?;
    assert_eq!(shorts(&plan), ["rows of 1 | rows of 2 -> [3 4] @3 -> rows"]);
    // Nobody reads more than two of its columns, but a join keeps rows whole.
    let whole = vec![Read, Read, Read, Row(vec![Read, Row(vec![Read, Read])])];
    assert_eq!(plan.stages[0].inputs[0].reads, whole);
    assert_eq!(plan.stages[0].inputs[1].reads, [Read, Read]);
    let text = plan.stages[0].spec.to_string();
    assert_eq!(EntrySpec::read(&text)?.reads, whole);
    assert_eq!(EntrySpec::read_second(&text)?.reads, [Read, Read]);
    Ok(())
}

#[test]
fn a_join_of_a_node_with_itself_reads_its_stage_twice() -> TestResult {
    let plan = plan_everything(vec![source(1, PAIR), busy(2, 1), join(3, 2, 2), sink(4, 3)])?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2] @2 -> batches", "stage 0 | stage 0 -> [3] @3 -> rows"]);
    Ok(())
}

#[test]
fn a_union_in_front_of_a_join_is_one_of_its_inputs() -> TestResult {
    let nodes = vec![source(1, PAIR), source(2, PAIR), union(3, &[1, 2]), source(4, PAIR), join(5, 3, 4), sink(6, 5)];
    let expected = ["rows of 1, rows of 2 -> [3] @3 -> batches", "stage 0 | rows of 4 -> [5] @5 -> rows"];
    assert_eq!(shorts(&plan_everything(nodes)?), expected);
    Ok(())
}

#[test]
fn a_spec_with_more_or_fewer_inputs_than_its_nodes_is_refused() -> TestResult {
    let join = plan_everything(vec![source(1, PAIR), source(2, PAIR), join(3, 1, 2), sink(4, 3)])?;
    let plain = plan(vec![source(1, PAIR), aggregate(2, 1), sink(3, 2)])?;
    let mut without = join.stages[0].spec.clone();
    let second = without.as_object_mut().and_then(|map| map.remove("second")).ok_or("no second input")?;
    let mut with = plain.stages[0].spec.clone();
    with["second"] = second;
    for spec in [without, with] {
        let error = StageSpec::read(&spec.to_string()).err().ok_or("it is accepted")?;
        assert!(error.to_string().contains("does not have the inputs of its nodes"), "{error}");
    }
    Ok(())
}

#[test]
fn a_host_over_two_inputs_keeps_a_join_on_flink() -> TestResult {
    struct Hosts;
    impl Capabilities for Hosts {
        fn node(&self, _: &Node, _: &[&LogicalType], _: &Config) -> Result<NativeNode, Reason> {
            let pointer = "/joinSpec/nonEquiCondition".to_owned();
            let host = Host { pointer, inputs: vec![3], expression: "F".to_owned(), reason: Reason::new("") };
            Ok(NativeNode { hosts: vec![host], stateful: true, collects: false })
        }

        fn two_inputs(&self) -> bool {
            true
        }
    }
    let json = request(vec![source(1, PAIR), source(2, PAIR), join(3, 1, 2), sink(4, 3)]);
    let plan = plan_job(&Graph::read(&json.to_string())?, &Hosts);
    assert_eq!(reason(&plan, 3), "an expression over two inputs cannot run in the JVM");
    Ok(())
}

/// The plan of a node between a source of `ROW` and a calc that reads its first two columns.
fn between(name: &str, own: Value, output: &str) -> Result<JobPlan, PlanErrorBox> {
    plan_everything(vec![source(1, ROW), node(2, name, output, own, &[1]), swap(3, 2), sink(4, 3)])
}

#[test]
fn operators_that_keep_rows_read_them_whole() -> TestResult {
    let rank = json!({"rankType": "ROW_NUMBER", "partition": {"fields": [0]}, "orderBy": {"fields": []},
        "rankRange": {"type": "Constant", "start": 1, "end": 2}, "rankStrategy": {"type": "AppendFast"},
        "outputRowNumber": false, "generateUpdateBefore": true});
    let mut limit = rank.clone();
    limit["partition"] = json!({"fields": []});
    let deduplicate = json!({"uniqueKeys": [0], "isRowtime": false, "keepLastRow": true, "generateUpdateBefore": true});
    let cases = [
        ("changelog-normalize", json!({"uniqueKeys": [0], "generateUpdateBefore": true})),
        ("deduplicate", deduplicate),
        ("rank", rank),
        ("sort-limit", limit.clone()),
        ("limit", limit),
    ];
    let whole = vec![Read, Read, Read, Row(vec![Read, Row(vec![Read, Read])])];
    for (name, own) in cases {
        let plan = between(name, own, ROW)?;
        assert_eq!(shorts(&plan), ["rows of 1 -> [2 3] @2 -> rows"], "{name}: {}", plan.explain());
        assert_eq!(plan.stages[0].inputs[0].reads, whole, "{name}");
    }
    Ok(())
}

#[test]
fn a_local_aggregate_reads_its_keys_arguments_and_filters_and_a_global_one_everything() -> TestResult {
    let call = json!({"name": "s", "internalName": "$SUM$1", "argList": [1], "filterArg": -1, "distinct": false,
        "approximate": false, "ignoreNulls": false, "type": "BIGINT"});
    let mut own = json!({"grouping": [0], "aggCalls": [call], "aggCallNeedRetractions": [false],
        "needRetraction": false,
        "configuration": {"table.exec.mini-batch.enabled": "true", "table.exec.mini-batch.size": "5"}});
    let local = node(3, "local-group-aggregate", PAIR, own.clone(), &[2]);
    own["localAggInputRowType"] = json!(ROW);
    own["generateUpdateBefore"] = json!(true);
    let assigner = json!({"miniBatchInterval": {"interval": 5, "mode": "ProcTime"}});
    let nodes = vec![
        source(1, ROW),
        node(2, "mini-batch-assigner", ROW, assigner, &[1]),
        local,
        exchange(4, PAIR, &[0], 3),
        node(5, "global-group-aggregate", PAIR, own, &[4]),
        sink(6, 5),
    ];
    let plan = plan_everything(nodes)?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2 3 4] @3 -> batches", "stage 0 -> [5] @5 -> rows"]);
    assert_eq!(plan.stages[0].inputs[0].reads, [Read, Read, Skip, Skip]);
    assert_eq!(plan.stages[1].inputs[0].reads, [Read, Read]);
    assert_eq!((plan.stages[0].stateful, plan.stages[1].stateful), (false, true));
    Ok(())
}

#[test]
fn an_expand_reads_what_any_of_its_projections_needs() -> TestResult {
    let three = "ROW<`a` BIGINT, `b` BIGINT, `e` VARCHAR(9)>";
    let text = call("UPPER", json!([column(2, "VARCHAR(9)")]), "VARCHAR(9)");
    let none = json!({"kind": "LITERAL", "value": null, "type": "BIGINT"});
    let projects = json!([[column(0, "BIGINT"), none, column(2, "VARCHAR(9)")], [none, column(1, "BIGINT"), text]]);
    let reads = |projects: &Value| {
        let expand = node(2, "expand", three, json!({"projects": projects}), &[1]);
        let plan = plan_everything(vec![source(1, ROW), expand, aggregate(3, 2), sink(4, 3)])?;
        Ok::<_, PlanErrorBox>(plan.stages[0].inputs[0].reads.clone())
    };
    // Nobody reads the third column, but what is computed for it may fail.
    assert_eq!(reads(&projects)?, [Read, Read, Read, Skip]);
    assert_eq!(reads(&json!([projects[0]]))?, [Read, Skip, Skip, Skip]);
    Ok(())
}

#[test]
fn flinks_plans_have_stages_for_an_engine_that_runs_everything() -> TestResult {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let cases = [
        ("dedup_mb", vec!["rows of 89 -> [90 91 92] @91 -> batches", "stage 0 -> [93 94] @93 -> rows"]),
        ("topn", vec!["rows of 19 -> [20 21] @20 -> batches", "stage 0 -> [22] @22 -> rows"]),
        (
            "join",
            vec![
                "rows of 38 -> [39] @39 -> batches",
                "stage 0 -> [40 41] @40 -> batches",
                "stage 1 -> [42 43] @42 -> batches",
                "stage 0 -> [44 45] @44 -> batches",
                "stage 3 -> [46 47] @46 -> batches",
                "stage 2 | stage 4 -> [48 49] @48 -> rows",
            ],
        ),
    ];
    for (name, expected) in cases {
        let text = std::fs::read_to_string(directory.join(format!("plan_{name}.json")))?;
        let plan = plan_job(&Graph::read(&text)?, &everything());
        check_invariants(&plan)?;
        assert_eq!(shorts(&plan), expected, "{name}");
    }
    Ok(())
}
