//! Tests of the planner, with an engine that runs whatever is typed.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::capability::Host;
use crate::entry::EntryField::{self, Read, Row, Skip};
use crate::job::{Form, Source, Stage};
use crate::node::{Distribution, Node, NodeKind};
use crate::reader::Config;
use crate::rex::{Function, Rex};
use crate::spec::{EntrySpec, StageSpec};
use crate::types::LogicalType;

mod equal_rows;
mod shared;
mod two_inputs;
mod views;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// Runs what has no bundles and keeps no rows; user functions run in the JVM; refuses the nodes with these ids.
#[derive(Default)]
struct Engine {
    refused: BTreeSet<i64>,
    /// Runs every typed node, stages of two inputs among them.
    everything: bool,
}

impl Capabilities for Engine {
    fn two_inputs(&self) -> bool {
        self.everything
    }

    fn node(&self, node: &Node, _inputs: &[&LogicalType], _config: &Config) -> Result<NativeNode, Reason> {
        if self.refused.contains(&node.id) {
            return Err(Reason::new("refused"));
        }
        let mut native = NativeNode::default();
        match &node.kind {
            NodeKind::Calc(calc) => {
                for (position, rex) in calc.projection.iter().enumerate() {
                    find_hosts(rex, format!("/projection/{position}"), &mut native.hosts);
                }
            }
            NodeKind::GroupAggregate(aggregate) => {
                if aggregate.mini_batch_size.is_some() && !self.everything {
                    return Err(Reason::new("mini-batch is not supported natively"));
                }
                native.stateful = true;
            }
            NodeKind::Union | NodeKind::DropUpdateBefore | NodeKind::Exchange(_) => {}
            _ if !self.everything => return Err(node.not_supported()),
            NodeKind::Expand(_)
            | NodeKind::Correlate(_)
            | NodeKind::MiniBatchAssigner(_)
            | NodeKind::WatermarkAssigner(_)
            | NodeKind::LocalGroupAggregate(_) => {}
            _ => native.stateful = true,
        }
        Ok(native)
    }
}

fn find_hosts(rex: &Rex, pointer: String, hosts: &mut Vec<Host>) {
    if let Rex::Call { function, operands, .. } = rex {
        if let Function::User(name) = function {
            let inputs = operands.iter().filter_map(|rex| match rex {
                Rex::InputRef { index, .. } => Some(*index),
                _ => None,
            });
            let (inputs, reason) = (inputs.collect(), Reason::new("a user function"));
            hosts.push(Host { pointer, inputs, expression: name.clone(), reason });
            return;
        }
        for (position, operand) in operands.iter().enumerate() {
            find_hosts(operand, format!("{pointer}/operands/{position}"), hosts);
        }
    }
}

const ROW: &str = "ROW<`a` BIGINT, `b` BIGINT, `c` VARCHAR(9), `r` ROW<`x` INT, `y` ROW<`z` INT, `w` INT>>>";
const PAIR: &str = "ROW<`a` BIGINT, `b` BIGINT>";

/// A node of three parts: common members, its own members, and the ids of its inputs.
fn node(id: i64, name: &str, output: &str, own: Value, inputs: &[i64]) -> (Value, Vec<i64>) {
    let mut json = json!({"id": id, "type": format!("stream-exec-{name}_1"), "outputType": output,
        "description": format!("{name} {id}"), "inputProperties": []});
    if let (Some(map), Value::Object(own)) = (json.as_object_mut(), own) {
        map.extend(own);
    }
    (json, inputs.to_vec())
}

fn source(id: i64, output: &str) -> (Value, Vec<i64>) {
    node(id, "table-source-scan", output, json!({}), &[])
}

fn sink(id: i64, input: i64) -> (Value, Vec<i64>) {
    node(id, "sink", PAIR, json!({}), &[input])
}

fn column(index: usize, ty: &str) -> Value {
    json!({"kind": "INPUT_REF", "inputIndex": index, "type": ty})
}

fn call(name: &str, operands: Value, ty: &str) -> Value {
    json!({"kind": "CALL", "internalName": format!("${name}$1"), "operands": operands, "type": ty})
}

/// A calc from `a` and `b` of its input to a pair.
fn swap(id: i64, input: i64) -> (Value, Vec<i64>) {
    let projection = json!([column(1, "BIGINT"), column(0, "BIGINT")]);
    node(id, "calc", PAIR, json!({"projection": projection, "condition": null}), &[input])
}

/// A calc to a pair with more than enough to compute.
fn busy(id: i64, input: i64) -> (Value, Vec<i64>) {
    let mut rex = column(0, "BIGINT");
    for _ in 0..20 {
        rex = call("+", json!([rex, column(0, "BIGINT")]), "BIGINT");
    }
    node(id, "calc", PAIR, json!({"projection": [rex, column(1, "BIGINT")], "condition": null}), &[input])
}

fn exchange(id: i64, output: &str, keys: &[usize], input: i64) -> (Value, Vec<i64>) {
    let distribution =
        if keys.is_empty() { json!({"type": "SINGLETON"}) } else { json!({"type": "HASH", "keys": keys}) };
    let property = json!({"requiredDistribution": distribution, "damBehavior": "PIPELINED", "priority": 0});
    node(id, "exchange", output, json!({"inputProperties": [property]}), &[input])
}

/// SUM(b) GROUP BY a.
fn aggregate(id: i64, input: i64) -> (Value, Vec<i64>) {
    let call = json!({"name": "b", "internalName": "$SUM$1", "argList": [1], "filterArg": -1, "distinct": false,
        "approximate": false, "ignoreNulls": false, "type": "BIGINT"});
    let own = json!({"grouping": [0], "aggCalls": [call], "aggCallNeedRetractions": [false],
        "generateUpdateBefore": true, "needRetraction": false});
    node(id, "group-aggregate", PAIR, own, &[input])
}

fn union(id: i64, inputs: &[i64]) -> (Value, Vec<i64>) {
    node(id, "union", PAIR, json!({}), inputs)
}

fn other(id: i64, input: i64) -> (Value, Vec<i64>) {
    node(id, "match", PAIR, json!({}), &[input])
}

fn request(nodes: Vec<(Value, Vec<i64>)>) -> Value {
    let edges: Vec<Value> = nodes
        .iter()
        .flat_map(|(json, inputs)| inputs.iter().map(|input| json!({"source": input, "target": json["id"]})))
        .collect();
    json!({"flinkVersion": "2.2.1", "nodes": nodes.into_iter().map(|(json, _)| json).collect::<Vec<_>>(), "edges": edges})
}

fn plan_request(request: &Value, engine: &Engine) -> Result<JobPlan, PlanErrorBox> {
    let graph = Graph::read(&request.to_string())?;
    let plan = plan_job(&graph, engine);
    check_invariants(&plan)?;
    Ok(plan)
}

type PlanErrorBox = Box<dyn std::error::Error>;

fn plan(nodes: Vec<(Value, Vec<i64>)>) -> Result<JobPlan, PlanErrorBox> {
    plan_request(&request(nodes), &Engine::default())
}

/// What must hold of every plan.
fn check_invariants(plan: &JobPlan) -> TestResult {
    for (id, stage) in plan.stages.iter().enumerate() {
        let specs = stage.spec.to_string();
        let spec = StageSpec::read(&specs)?;
        assert_eq!(spec.writes, stage.writes, "stage {id}");
        assert_eq!(spec.output_form, stage.output);
        let first = (&spec.reads, spec.input_form);
        let inputs: Vec<_> =
            [first].into_iter().chain(spec.second.as_ref().map(|second| (&second.reads, second.form))).collect();
        assert_eq!(inputs, stage.inputs.iter().map(|input| (&input.reads, input.form())).collect::<Vec<_>>());
        assert_eq!(spec.exchange, stage.exchange);
        assert_eq!(spec.hosts.len(), stage.hosts.len());
        for input in &stage.inputs {
            for before in input.sources.iter().filter_map(|source| source.stage) {
                assert!(before < id, "stage {id} reads from stage {before}");
                assert_eq!(plan.stages[before].output, Form::Batches);
                assert_eq!(plan.stages[before].writes, input.reads, "stage {before} to stage {id}");
            }
            let batches = input.sources.iter().filter(|source| source.stage.is_some()).count();
            assert!(batches == 0 || batches == input.sources.len(), "stage {id} mixes rows and batches");
        }
    }
    for node in &plan.nodes {
        let holding: Vec<usize> =
            (0..plan.stages.len()).filter(|stage| plan.stages[*stage].nodes.contains(&node.id)).collect();
        assert_eq!(holding, node.placement.iter().copied().collect::<Vec<_>>(), "node {}", node.id);
    }
    Ok(())
}

/// A stage in short: its nodes, what it reads, and how it hands on.
fn short(stage: &Stage) -> String {
    let ids = |ids: &[i64]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let source = |source: &Source| match source.stage {
        Some(stage) => format!("stage {stage}"),
        None => format!("rows of {}", source.node),
    };
    let inputs: Vec<String> =
        stage.inputs.iter().map(|input| input.sources.iter().map(source).collect::<Vec<_>>().join(", ")).collect();
    let form = match stage.output {
        Form::Rows => "rows",
        Form::Batches => "batches",
    };
    format!("{} -> [{}] @{} -> {form}", inputs.join(" | "), ids(&stage.nodes), stage.anchor)
}

fn shorts(plan: &JobPlan) -> Vec<String> {
    plan.stages.iter().map(short).collect()
}

fn reason(plan: &JobPlan, id: i64) -> String {
    let node = plan.nodes.iter().find(|node| node.id == id);
    node.and_then(|node| node.placement.as_ref().err()).map(ToString::to_string).unwrap_or_default()
}

#[test]
fn an_exchange_in_the_middle_makes_two_stages() -> TestResult {
    let plan =
        plan(vec![source(1, ROW), swap(2, 1), exchange(3, PAIR, &[0], 2), aggregate(4, 3), swap(5, 4), sink(6, 5)])?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2 3] @2 -> batches", "stage 0 -> [4 5] @4 -> rows"]);
    assert_eq!(plan.stages[0].exchange, Some(Distribution::Hash(vec![0])));
    assert_eq!(plan.stages[1].inputs[0].row_type, 3);
    assert_eq!(plan.summary(), "4 of 6 nodes run natively in 2 stages");
    Ok(())
}

#[test]
fn an_exchange_of_rows_is_a_stage_of_its_own_and_reads_what_is_behind_it() -> TestResult {
    let plan = plan(vec![source(1, ROW), exchange(2, ROW, &[2], 1), aggregate(3, 2), sink(4, 3)])?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2] @2 -> batches", "stage 0 -> [3] @3 -> rows"]);
    assert_eq!(plan.stages[0].inputs[0].reads, [Read, Read, Read, Skip]);
    // The key is hashed before it is dropped.
    assert_eq!(plan.stages[0].writes, [Read, Read, Skip, Skip]);
    assert_eq!(plan.stages[1].inputs[0].reads, [Read, Read, Skip, Skip]);
    assert_eq!(plan.stages[1].writes, [Read, Read]);
    Ok(())
}

#[test]
fn a_singleton_exchange_has_no_keys() -> TestResult {
    let plan = plan(vec![source(1, PAIR), exchange(2, PAIR, &[], 1), aggregate(3, 2), sink(4, 3)])?;
    assert_eq!(plan.stages[0].exchange, Some(Distribution::Singleton));
    assert_eq!(plan.to_json()["stages"][0]["exchange"], json!({"keys": [], "fragments": false}));
    Ok(())
}

#[test]
fn an_unsupported_operator_in_the_middle_leaves_both_sides_native() -> TestResult {
    let plan =
        plan(vec![source(1, PAIR), busy(2, 1), other(3, 2), exchange(4, PAIR, &[0], 3), aggregate(5, 4), sink(6, 5)])?;
    assert_eq!(
        shorts(&plan),
        ["rows of 1 -> [2] @2 -> rows", "rows of 3 -> [4] @4 -> batches", "stage 1 -> [5] @5 -> rows"]
    );
    assert_eq!(reason(&plan, 3), "the operator Match is not supported natively");
    Ok(())
}

#[test]
fn an_exchange_in_front_of_a_flink_operator_stays_on_flink() -> TestResult {
    let nodes = vec![source(1, PAIR), busy(2, 1), exchange(3, PAIR, &[0], 2), other(4, 3), sink(5, 4)];
    let plan = plan(nodes)?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2] @2 -> rows"]);
    assert_eq!(reason(&plan, 3), "an operator that it distributes rows to stays on Flink");
    Ok(())
}

#[test]
fn an_exchange_that_a_flink_operator_reads_too_stays_on_flink() -> TestResult {
    let nodes = vec![source(1, PAIR), exchange(2, PAIR, &[0], 1), aggregate(3, 2), other(4, 2), sink(5, 3), sink(6, 4)];
    assert_eq!(shorts(&plan(nodes)?), ["rows of 2 -> [3] @3 -> rows"]);
    Ok(())
}

#[test]
fn a_node_with_several_readers_ends_its_stage_and_exits_for_flink() -> TestResult {
    let nodes = vec![
        source(1, ROW),
        busy(2, 1),
        exchange(3, PAIR, &[0], 2),
        aggregate(4, 3),
        sink(5, 4),
        busy(6, 2),
        sink(7, 6),
        sink(8, 2),
    ];
    let plan = plan(nodes)?;
    let expected = [
        "rows of 1 -> [2] @2 -> batches",
        "stage 0 -> [] @2 -> rows",
        "stage 0 -> [3] @3 -> batches",
        "stage 2 -> [4] @4 -> rows",
        "stage 0 -> [6] @6 -> rows",
    ];
    assert_eq!(shorts(&plan), expected);
    assert_eq!(plan.stages[0].writes, [Read, Read]);
    Ok(())
}

#[test]
fn two_aggregates_in_a_row_are_two_stages() -> TestResult {
    let plan = plan(vec![source(1, PAIR), aggregate(2, 1), swap(3, 2), aggregate(4, 3), sink(5, 4)])?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2 3] @2 -> batches", "stage 0 -> [4] @4 -> rows"]);
    assert_eq!(plan.stages[0].exchange, None);
    Ok(())
}

#[test]
fn a_union_of_rows_is_merged_in_front_of_its_readers_stage() -> TestResult {
    let plan = plan(vec![source(1, PAIR), source(2, PAIR), union(3, &[1, 2]), busy(4, 3), sink(5, 4)])?;
    assert_eq!(shorts(&plan), ["rows of 1, rows of 2 -> [3 4] @4 -> rows"]);
    assert_eq!(plan.stages[0].inputs[0].row_type, 3);
    Ok(())
}

#[test]
fn a_union_of_batches_and_rows_enters_the_rows_first() -> TestResult {
    let nodes = vec![
        source(1, PAIR),
        busy(2, 1),
        source(3, PAIR),
        union(4, &[2, 3]),
        exchange(5, PAIR, &[0], 4),
        aggregate(6, 5),
        sink(7, 6),
    ];
    let expected = [
        "rows of 1 -> [2] @2 -> batches",
        "rows of 3 -> [] @3 -> batches",
        "stage 0, stage 1 -> [4 5] @4 -> batches",
        "stage 2 -> [6] @6 -> rows",
    ];
    assert_eq!(shorts(&plan(nodes)?), expected);
    Ok(())
}

#[test]
fn the_inputs_of_a_union_carry_the_same_fields() -> TestResult {
    // Node 2 also goes to a sink and is therefore whole, though the union needs one column of it.
    let one = json!({"projection": [column(0, "BIGINT"), column(0, "BIGINT")], "condition": null});
    let nodes = vec![
        source(1, PAIR),
        busy(2, 1),
        sink(3, 2),
        source(4, PAIR),
        busy(5, 4),
        union(6, &[2, 5]),
        node(7, "calc", PAIR, one, &[6]),
        aggregate(8, 7),
        sink(9, 8),
    ];
    let plan = plan(nodes)?;
    let union = plan.stages.iter().find(|stage| stage.nodes.contains(&6)).ok_or("no stage")?;
    assert_eq!(union.inputs[0].reads, [Read, Read]);
    Ok(())
}

#[test]
fn a_union_of_a_node_with_itself_reads_its_stage_twice() -> TestResult {
    let plan = plan(vec![source(1, PAIR), busy(2, 1), union(3, &[2, 2]), busy(4, 3), sink(5, 4)])?;
    assert_eq!(shorts(&plan), ["rows of 1 -> [2] @2 -> batches", "stage 0, stage 0 -> [3 4] @4 -> rows"]);
    Ok(())
}

#[test]
fn a_union_without_a_native_reader_stays_on_flink() -> TestResult {
    let plan = plan(vec![source(1, PAIR), busy(2, 1), busy(3, 1), union(4, &[2, 3]), sink(5, 4)])?;
    let expected = ["rows of 1 -> [] @1 -> batches", "stage 0 -> [2] @2 -> rows", "stage 0 -> [3] @3 -> rows"];
    assert_eq!(shorts(&plan), expected);
    assert_eq!(reason(&plan, 4), "no operator behind it runs natively");
    Ok(())
}

#[test]
fn a_lone_projection_stays_on_flink_and_busy_expressions_do_not() -> TestResult {
    let lone = plan(vec![source(1, PAIR), swap(2, 1), sink(3, 2)])?;
    assert!(lone.stages.is_empty());
    let expected = "natively it would not be faster: nothing is computed, and 4 columns have to be converted";
    assert_eq!(reason(&lone, 2), expected);
    assert_eq!(lone.summary(), "0 of 3 nodes run natively");
    assert_eq!(plan(vec![source(1, PAIR), busy(2, 1), sink(3, 2)])?.stages.len(), 1);
    Ok(())
}

#[test]
fn projections_in_a_row_spare_flinks_copies_between_them() -> TestResult {
    let twice = || vec![source(1, PAIR), swap(2, 1), swap(3, 2), sink(4, 3)];
    assert_eq!(plan(twice())?.stages.len(), 1);
    let mut json = request(twice());
    json["config"] = json!({"pipeline.object-reuse": "true"});
    assert!(plan_request(&json, &Engine::default())?.stages.is_empty());
    Ok(())
}

#[test]
fn expressions_in_the_jvm_weigh_against_an_island() -> TestResult {
    let user = json!({"kind": "CALL", "systemName": "f", "operands": [column(0, "BIGINT")], "type": "BIGINT"});
    let own = json!({"projection": [user, column(1, "BIGINT")], "condition": null});
    let nodes = |own: &Value| vec![source(1, PAIR), node(2, "calc", PAIR, own.clone(), &[1]), sink(3, 2)];
    assert!(plan(nodes(&own))?.stages.is_empty());
    Ok(())
}

#[test]
fn only_the_fields_that_are_read_enter() -> TestResult {
    let field = |name: &str, expr: Value| json!({"kind": "FIELD_ACCESS", "name": name, "expr": expr});
    let r = column(3, "ROW<`x` INT, `y` ROW<`z` INT, `w` INT>>");
    let z = call("CAST", json!([field("z", field("y", r))]), "BIGINT");
    let own = json!({"projection": [column(0, "BIGINT"), z], "condition": null});
    let plan = plan(vec![source(1, ROW), node(2, "calc", PAIR, own, &[1]), aggregate(3, 2), sink(4, 3)])?;
    assert_eq!(plan.stages[0].inputs[0].reads, [Read, Skip, Skip, Row(vec![Skip, Row(vec![Read, Skip])])]);
    let entry = json!([{}, null, null, {"children": [null, {"children": [{}, null]}]}]);
    assert_eq!(plan.to_json()["stages"][0]["entry"], entry);
    Ok(())
}

#[test]
fn a_projected_column_that_nobody_reads_does_not_enter() -> TestResult {
    let triple = "ROW<`a` BIGINT, `b` BIGINT, `c` VARCHAR(9)>";
    let own =
        json!({"projection": [column(1, "BIGINT"), column(0, "BIGINT"), column(2, "VARCHAR(9)")], "condition": null});
    let plan = plan(vec![source(1, ROW), node(2, "calc", triple, own, &[1]), aggregate(3, 2), sink(4, 3)])?;
    assert_eq!(plan.stages[0].inputs[0].reads, [Read, Read, Skip, Skip]);
    Ok(())
}

#[test]
fn a_projected_path_that_nobody_reads_leaves_its_row_behind() -> TestResult {
    let y = json!({"kind": "FIELD_ACCESS", "name": "y", "expr": column(3, "ROW<`x` INT, `y` ROW<`z` INT, `w` INT>>")});
    let z = json!({"kind": "FIELD_ACCESS", "name": "z", "expr": y});
    let own = json!({"projection": [column(1, "BIGINT"), column(0, "BIGINT"), z], "condition": null});
    let triple = "ROW<`a` BIGINT, `b` BIGINT, `z` INT>";
    let plan = plan(vec![source(1, ROW), node(2, "calc", triple, own, &[1]), aggregate(3, 2), sink(4, 3)])?;
    assert_eq!(plan.stages[0].inputs[0].reads, [Read, Read, Skip, Skip]);
    Ok(())
}

#[test]
fn an_expression_that_nobody_reads_is_still_evaluated() -> TestResult {
    let triple = "ROW<`a` BIGINT, `b` BIGINT, `c` BIGINT>";
    let c = call("CHAR_LENGTH", json!([column(2, "VARCHAR(9)")]), "BIGINT");
    let own = json!({"projection": [column(1, "BIGINT"), column(0, "BIGINT"), c], "condition": null});
    let nodes = vec![
        source(1, ROW),
        node(2, "calc", triple, own, &[1]),
        exchange(3, triple, &[0], 2),
        aggregate(4, 3),
        sink(5, 4),
    ];
    let plan = plan(nodes)?;
    assert_eq!(plan.stages[0].inputs[0].reads, [Read, Read, Read, Skip]);
    assert_eq!(plan.stages[0].writes, [Read, Read, Skip]);
    Ok(())
}

#[test]
fn the_inputs_of_a_host_call_are_read_whole() -> TestResult {
    let r = column(3, "ROW<`x` INT, `y` ROW<`z` INT, `w` INT>>");
    let user = json!({"kind": "CALL", "systemName": "f", "operands": [r], "type": "BIGINT"});
    let sum = call("+", json!([column(0, "BIGINT"), user]), "BIGINT");
    let own = json!({"projection": [column(0, "BIGINT"), sum], "condition": null});
    let plan = plan(vec![source(1, ROW), node(2, "calc", PAIR, own, &[1]), aggregate(3, 2), sink(4, 3)])?;
    let whole = Row(vec![Read, Row(vec![Read, Read])]);
    assert_eq!(plan.stages[0].inputs[0].reads, [Read, Skip, Skip, whole]);
    let json = plan.to_json();
    assert_eq!(json["stages"][0]["hosts"], json!([{"node": 2, "pointer": "/projection/1/operands/1", "inputs": [3]}]));
    assert_eq!(json["nodes"][1]["jvmExpressions"], json!([{"expression": "f", "reason": "a user function"}]));
    Ok(())
}

#[test]
fn a_field_that_the_jvm_takes_out_of_its_row_needs_the_row() -> TestResult {
    let field =
        json!({"kind": "FIELD_ACCESS", "name": "x", "expr": column(3, "ROW<`x` INT, `y` ROW<`z` INT, `w` INT>>")});
    let own = json!({"projection": [column(0, "BIGINT"), field], "condition": null});
    let nodes =
        vec![source(1, ROW), node(2, "calc", "ROW<`a` BIGINT, `x` INT>", own, &[1]), aggregate(3, 2), sink(4, 3)];
    let graph = Graph::read(&request(nodes).to_string())?;
    let (pointer, expression) = ("/projection/1".to_owned(), String::new());
    let host = Host { pointer, inputs: vec![3], expression, reason: Reason::new("") };
    let native = |hosts| Ok(NativeNode { hosts, stateful: false, collects: false });
    let decisions = vec![Err(Reason::new("")), native(vec![host]), native(Vec::new()), Err(Reason::new(""))];
    let edges = Edges::new(&graph);
    let live = live::fields_live(&graph, &edges, &decisions);
    let whole = Row(vec![Read, Row(vec![Read, Read])]);
    assert_eq!(live::reads(&graph, &decisions, &live, 1, &[0]), [Read, Skip, Skip, whole]);
    Ok(())
}

#[test]
fn a_node_that_nothing_reads_stays_on_flink() -> TestResult {
    let plan = plan(vec![source(1, PAIR), aggregate(2, 1)])?;
    assert_eq!(reason(&plan, 2), "no operator reads from it");
    Ok(())
}

#[test]
fn what_exits_is_read_whole() -> TestResult {
    let own = json!({"projection": [column(3, "ROW<`x` INT, `y` ROW<`z` INT, `w` INT>>")], "condition":
        call("IS NOT NULL", json!([column(2, "VARCHAR(9)")]), "BOOLEAN NOT NULL")});
    let output = "ROW<`r` ROW<`x` INT, `y` ROW<`z` INT, `w` INT>>>";
    let graph =
        Graph::read(&request(vec![source(1, ROW), node(2, "calc", output, own, &[1]), sink(3, 2)]).to_string())?;
    let decisions = vec![Err(Reason::new("")), Ok(NativeNode::default()), Err(Reason::new(""))];
    let edges = Edges::new(&graph);
    let live = live::fields_live(&graph, &edges, &decisions);
    let whole: EntryField = Row(vec![Read, Row(vec![Read, Read])]);
    assert_eq!(live::reads(&graph, &decisions, &live, 1, &[0]), [Skip, Skip, Read, whole]);
    Ok(())
}

#[test]
fn the_switch_turns_everything_off() -> TestResult {
    let mut json = request(vec![source(1, PAIR), aggregate(2, 1), sink(3, 2)]);
    json["config"] = json!({"streamfusion.enabled": "false"});
    let plan = plan_request(&json, &Engine::default())?;
    assert!(plan.stages.is_empty());
    assert_eq!(reason(&plan, 2), "streamfusion.enabled is false");
    Ok(())
}

#[test]
fn islands_are_not_weighed_if_the_session_says_so() -> TestResult {
    let mut json = request(vec![source(1, PAIR), swap(2, 1), sink(3, 2)]);
    assert!(plan_request(&json, &Engine::default())?.stages.is_empty());
    json["config"] = json!({"streamfusion.islands.weigh": "false"});
    assert_eq!(shorts(&plan_request(&json, &Engine::default())?), ["rows of 1 -> [2] @2 -> rows"]);
    Ok(())
}

#[test]
fn only_the_stage_of_a_stateful_node_has_state() -> TestResult {
    let json = request(vec![source(1, PAIR), busy(2, 1), exchange(3, PAIR, &[0], 2), aggregate(4, 3), sink(5, 4)]);
    let response = plan_request(&json, &Engine::default())?.to_json();
    assert_eq!((&response["stages"][0]["stateful"], &response["stages"][1]["stateful"]), (&json!(false), &json!(true)));
    Ok(())
}

#[test]
fn with_unaligned_checkpoints_a_hash_exchange_carries_fragments() -> TestResult {
    let mut json = request(vec![source(1, PAIR), busy(2, 1), exchange(3, PAIR, &[0], 2), aggregate(4, 3), sink(5, 4)]);
    for unaligned in [false, true] {
        json["unaligned"] = json!(unaligned);
        let response = plan_request(&json, &Engine::default())?.to_json();
        let (sender, receiver) = (&response["stages"][0], &response["stages"][1]);
        assert_eq!(sender["exchange"], json!({"keys": [0], "fragments": unaligned}));
        assert_eq!((&sender["fragmentInput"], &receiver["fragmentInput"]), (&json!(false), &json!(true)));
    }
    Ok(())
}

#[test]
fn a_singleton_exchange_never_carries_fragments() -> TestResult {
    let mut json = request(vec![source(1, PAIR), busy(2, 1), exchange(3, PAIR, &[], 2), aggregate(4, 3), sink(5, 4)]);
    json["unaligned"] = json!(true);
    let response = plan_request(&json, &Engine::default())?.to_json();
    assert_eq!(response["stages"][0]["exchange"], json!({"keys": [], "fragments": false}));
    assert_eq!(response["stages"][1]["fragmentInput"], json!(false));
    Ok(())
}

#[test]
fn options_that_no_native_state_can_follow_keep_it_and_its_exchange_on_flink() -> TestResult {
    let mut json = request(vec![source(1, PAIR), busy(2, 1), exchange(3, PAIR, &[0], 2), aggregate(4, 3), sink(5, 4)]);
    for (option, value, expected) in [
        (
            "state.backend.type",
            "forst",
            Some("the state backend forst cannot host native state, hashmap and rocksdb can"),
        ),
        (
            "state.backend",
            "my.Factory",
            Some("the state backend my.Factory cannot host native state, hashmap and rocksdb can"),
        ),
        (
            "state.changelog.enabled",
            "TRUE",
            Some("the job writes a state changelog, which native state has no part in"),
        ),
        (
            "state.backend.changelog.enabled",
            "true",
            Some("the job writes a state changelog, which native state has no part in"),
        ),
        (
            "table.exec.async-state.enabled",
            "true",
            Some("table.exec.async-state.enabled asks for other operators, with asynchronous state"),
        ),
        ("table.exec.async-state.enabled", "false", None),
        ("state.changelog.enabled", "false", None),
        ("state.backend.type", "RocksDB", None),
        ("state.backend.type", "hashmap", None),
        ("execution.checkpointing.interval", "1 s", None),
    ] {
        json["config"] = json!({option: value});
        let plan = plan_request(&json, &Engine::default())?;
        match expected {
            Some(expected) => {
                assert_eq!(shorts(&plan), ["rows of 1 -> [2] @2 -> rows"]);
                assert_eq!(reason(&plan, 4), expected);
            }
            None => assert_eq!(plan.stages.len(), 2, "{option} = {value}"),
        }
    }
    Ok(())
}

#[test]
fn a_column_that_does_not_exist_keeps_its_node_on_flink() -> TestResult {
    let bad = json!({"projection": [column(0, "BIGINT"), column(9, "BIGINT")], "condition": null});
    let cases = [
        (node(2, "calc", PAIR, bad, &[1]), "a column that does not exist"),
        (exchange(2, PAIR, &[2], 1), "a key column of the exchange does not exist"),
        (exchange(2, ROW, &[0], 1), "the output type differs"),
    ];
    for (node, expected) in cases {
        let plan = plan(vec![source(1, PAIR), node, aggregate(3, 2), sink(4, 3)])?;
        assert!(reason(&plan, 2).contains(expected), "{}", reason(&plan, 2));
    }
    Ok(())
}

#[test]
fn every_shared_plan_is_cut_as_expected() -> TestResult {
    let group_by = |a: i64| vec![format!("rows of {} -> [{} {}] @{} -> batches", a - 1, a, a + 1, a)];
    let cases = [
        ("calc", vec!["rows of 2 -> [3] @3 -> rows".to_owned()]),
        ("groupagg", [group_by(7), vec!["stage 0 -> [9] @9 -> rows".to_owned()]].concat()),
        ("dedup", vec![]),
        ("topn", vec![]),
        ("topnret", [group_by(26), vec!["stage 0 -> [28] @28 -> rows".to_owned()]].concat()),
        ("tumble", vec!["rows of 12 -> [13] @13 -> rows".to_owned()]),
        (
            "join",
            [
                "rows of 39 -> [] @39 -> batches",
                "stage 0 -> [40 41] @40 -> batches",
                "stage 1 -> [42] @42 -> rows",
                "stage 0 -> [44 45] @44 -> batches",
                "stage 3 -> [46] @46 -> rows",
            ]
            .map(str::to_owned)
            .to_vec(),
        ),
    ];
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for (name, expected) in cases {
        for suffix in ["", "_mb"] {
            let text = std::fs::read_to_string(directory.join(format!("plan_{name}{suffix}.json")))?;
            let plan = plan_job(&Graph::read(&text)?, &Engine::default());
            check_invariants(&plan)?;
            if suffix.is_empty() {
                assert_eq!(shorts(&plan), expected, "{name}");
            } else {
                assert!(plan.stages.iter().all(|stage| !stage.stateful), "{name}: this engine has no mini-batches");
            }
        }
    }
    Ok(())
}

#[test]
fn explain_has_a_line_per_node_and_a_reason_for_each_on_flink() -> TestResult {
    let nodes = vec![source(1, PAIR), exchange(2, PAIR, &[0], 1), aggregate(3, 2), other(10, 3)];
    let expected = "\
2 of 4 nodes run natively in 2 stages
 1  Flink            table-source-scan 1
      stays on Flink: sources stay on Flink
 2  native, stage 0  exchange 2
 3  native, stage 1  group-aggregate 3
10  Flink            match 10
      stays on Flink: the operator Match is not supported natively
";
    let plan = plan(nodes)?;
    assert_eq!(plan.explain(), expected);
    assert_eq!(plan.to_json()["explain"], json!(expected));
    Ok(())
}

#[test]
fn the_response_is_what_the_boundary_says() -> TestResult {
    let json = plan(vec![source(1, PAIR), exchange(2, PAIR, &[0], 1), aggregate(3, 2), sink(4, 3)])?.to_json();
    let mut stage = json["stages"][1].clone();
    let spec = stage.as_object_mut().and_then(|map| map.remove("spec")).ok_or("no spec")?;
    assert!(spec.is_string());
    let expected = json!({"id": 1, "nodes": [3], "anchor": 3, "inputs": [{"node": 2, "stage": 0}], "rowType": 2,
        "output": "rows", "exchange": null, "fragmentInput": true, "entry": null, "hosts": [], "stateful": true, "collects": false});
    assert_eq!(stage, expected);
    let native = json!({"id": 3, "type": "stream-exec-group-aggregate", "description": "group-aggregate 3",
        "native": true, "stage": 1, "reasons": [], "jvmExpressions": []});
    assert_eq!(json["nodes"][2], native);
    assert_eq!(json["nodes"][3]["reasons"], json!(["sinks stay on Flink"]));
    Ok(())
}

#[test]
fn a_spec_keeps_the_options_that_nodes_and_expressions_depend_on() -> TestResult {
    let mut json = request(vec![source(1, PAIR), aggregate(2, 1), sink(3, 2)]);
    json["config"] = json!({"table.exec.state.ttl": "3 s", "table.local-time-zone": "UTC", "s3.secret-key": "x"});
    let plan = plan_request(&json, &Engine::default())?;
    let spec = StageSpec::read(&plan.stages[0].spec.to_string())?;
    assert_eq!(spec.config.keys().collect::<Vec<_>>(), ["table.exec.state.ttl", "table.local-time-zone"]);
    assert!(matches!(&spec.nodes[0].node.kind, NodeKind::GroupAggregate(aggregate) if aggregate.ttl_ms == 3000));
    Ok(())
}
