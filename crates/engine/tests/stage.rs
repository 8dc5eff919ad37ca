//! Stages opened from what the planner answered, as the JVM would open them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, NullArray, StructArray};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Int64Type};
use proptest::prelude::*;
use serde_json::{Value, json};
use streamfusion_engine::{
    Edge, EngineError, InputParameters, Output, Receiver, Sender, ShuffleParameters, Stage, StateParameters, plan,
};
use streamfusion_operators::StateBackend;
use streamfusion_row::{Batch, fragment, frame};
use streamfusion_state::{KeyGroups, StateClock};

const ROW: &str = "ROW<`k` BIGINT, `v` BIGINT, `unread` BIGINT>";

fn input(index: usize, ty: &str) -> Value {
    json!({"kind": "INPUT_REF", "inputIndex": index, "type": ty})
}

fn call(name: &str, operands: &[Value], ty: &str) -> Value {
    json!({"kind": "CALL", "syntax": "BINARY", "internalName": format!("${name}$1"), "operands": operands, "type": ty})
}

fn node(id: i64, kind: &str, output: &str, properties: Value) -> Value {
    let mut node = json!({
        "id": id,
        "type": format!("stream-exec-{kind}_1"),
        "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
        "outputType": output,
        "description": format!("{kind} {id}"),
    });
    let map = node.as_object_mut().unwrap();
    map.extend(properties.as_object().unwrap().clone());
    node
}

/// source 1, calc 2 (k, v / (k - 7)), exchange 3 by k, GROUP BY 4 with SUM, sink 5
fn job() -> Value {
    let literal = json!({"kind": "LITERAL", "value": 7, "type": "INT NOT NULL"});
    let divisor = call("-", &[input(0, "BIGINT"), literal], "BIGINT");
    let quotient = call("/", &[input(1, "BIGINT"), divisor], "BIGINT");
    let middle = "ROW<`k` BIGINT, `q` BIGINT>";
    let result = "ROW<`k` BIGINT, `s` BIGINT>";
    let sum = json!({"name": "s", "internalName": "$SUM$1", "argList": [1], "filterArg": -1, "distinct": false,
        "approximate": false, "ignoreNulls": false, "type": "BIGINT"});
    let nodes = [
        node(1, "table-source-scan", ROW, json!({"scanTableSource": {}})),
        node(2, "calc", middle, json!({"projection": [input(0, "BIGINT"), quotient], "condition": null})),
        node(
            3,
            "exchange",
            middle,
            json!({"inputProperties": [{"requiredDistribution": {"type": "HASH", "keys": [0]},
                "damBehavior": "PIPELINED", "priority": 0}]}),
        ),
        node(
            4,
            "group-aggregate",
            result,
            json!({"grouping": [0], "aggCalls": [sum], "aggCallNeedRetractions": [false],
                "generateUpdateBefore": true, "needRetraction": false}),
        ),
        node(5, "sink", result, json!({"dynamicTableSink": {}})),
    ];
    let edges: Vec<Value> = (1..5).map(|id| json!({"source": id, "target": id + 1})).collect();
    json!({"flinkVersion": "2.2.1", "config": {}, "nodes": nodes, "edges": edges})
}

/// source 1, calc 2 with this condition and this projection, sink 3
fn calc_job(condition: &Value, projection: &[Value], result: &str) -> Value {
    let nodes = [
        node(1, "table-source-scan", ROW, json!({"scanTableSource": {}})),
        node(2, "calc", result, json!({"projection": projection, "condition": condition})),
        node(3, "sink", result, json!({"dynamicTableSink": {}})),
    ];
    let edges: Vec<Value> = (1..3).map(|id| json!({"source": id, "target": id + 1})).collect();
    json!({"flinkVersion": "2.2.1", "config": {"streamfusion.islands.weigh": "false"}, "nodes": nodes, "edges": edges})
}

/// The specs of the job's stages.
fn stages() -> Vec<String> {
    let response: Value = serde_json::from_str(&plan(&job().to_string()).unwrap()).unwrap();
    let stages = response["stages"].as_array().unwrap();
    let specs = stages.iter().map(|stage| stage["spec"].as_str().unwrap().to_owned());
    assert_eq!(stages.len(), 2, "{response:#}");
    specs.collect()
}

fn open(spec: &str, channels: u32) -> Stage {
    let edge = Edge { channels, max_parallelism: 128 };
    let state = StateParameters {
        operator_id: "node".to_owned(),
        key_groups: KeyGroups::all(128),
        clock: StateClock::system(),
        backend: StateBackend::default(),
    };
    Stage::open(spec, edge, Some(&state), &|_, _| unreachable!("the job has no JVM expressions")).unwrap()
}

fn rows(rows: &[(i64, i64)]) -> Batch {
    let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
    let values: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
    Batch::try_new(vec![keys, values, Arc::new(NullArray::new(rows.len()))], rows.len(), None).unwrap()
}

fn drain(stage: &mut Stage) -> Result<Vec<Batch>, EngineError> {
    let mut out = Vec::new();
    while let Some(batch) = stage.pull()?.and_then(Output::into_batch) {
        out.push(batch);
    }
    Ok(out)
}

/// Changes as text per key, for example `+U 1 6`.
fn changes(batches: &[Batch]) -> BTreeMap<i64, Vec<String>> {
    let mut changes: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for batch in batches {
        let column = |i: usize| batch.columns()[i].as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let kind = ["+I", "-U", "+U", "-D"][batch.kinds().map_or(0, |kinds| usize::from(kinds.value(row)))];
            let (key, sum) = (column(0).value(row), column(1).value(row));
            changes.entry(key).or_default().push(format!("{kind} {key} {sum}"));
        }
    }
    changes
}

/// Runs the job over the rows, cut into batches behind the given row numbers, through an exchange to `channels` subtasks.
fn run(input: &[(i64, i64)], cuts: &[usize], channels: u32) -> Result<BTreeMap<i64, Vec<String>>, EngineError> {
    let specs = stages();
    let mut first = open(&specs[0], channels);
    let mut second: Vec<Stage> = (0..channels).map(|_| open(&specs[1], 1)).collect();
    let mut out = Vec::new();
    let mut bounds = vec![0];
    bounds.extend(cuts.iter().map(|cut| cut % (input.len() + 1)));
    bounds.push(input.len());
    bounds.sort_unstable();
    for pair in bounds.windows(2) {
        first.push(0, rows(&input[pair[0]..pair[1]]))?;
        for part in drain(&mut first)? {
            let group = u32::from(part.key_group().expect("a key group behind a keyed exchange"));
            let target = &mut second[(group * channels / 128) as usize];
            target.push_encoded(0, &frame::encode(&part).unwrap().into())?;
            out.extend(drain(target)?);
        }
    }
    Ok(changes(&out))
}

#[test]
fn calc_reads_the_clock_in_one_jvm_expression_at_most() {
    let date = || call("CURRENT_DATE", &[], "DATE NOT NULL");
    let now = || call("NOW", &[], "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL");
    let is_set = call("IS NOT NULL", &[date()], "BOOLEAN NOT NULL");
    let planned = |condition: &Value, projection: &[Value], result: &str| -> Value {
        let response = plan(&calc_job(condition, projection, result).to_string()).unwrap();
        serde_json::from_str::<Value>(&response).unwrap()["nodes"][1].clone()
    };
    let one = planned(&is_set, &[input(0, "BIGINT")], "ROW<`k` BIGINT>");
    assert_eq!(one["jvmExpressions"].as_array().map(Vec::len), Some(1), "{one:#}");
    let mixed = planned(&is_set, &[now()], "ROW<`t` TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL>");
    let reason = "must see one reading of the clock, which separate JVM expressions do not";
    assert_eq!(mixed["native"], false);
    assert_eq!(mixed["reasons"][0], format!("CURRENT_DATE and NOW {reason}"));
    let twice = planned(&Value::Null, &[date(), date()], "ROW<`a` DATE NOT NULL, `b` DATE NOT NULL>");
    assert_eq!(twice["reasons"][0], format!("CURRENT_DATE twice {reason}"));
}

#[test]
fn job_yields_the_changelog_of_flink() {
    let changes = run(&[(1, 6), (2, 10), (1, 12), (1, 0)], &[], 1).unwrap();
    assert_eq!(changes[&1], ["+I 1 -1", "-U 1 -1", "+U 1 -3"]);
    assert_eq!(changes[&2], ["+I 2 -2"]);
}

#[test]
fn failure_names_its_node_and_its_java_class_and_the_stage_fails_from_then_on() {
    let mut stage = open(&stages()[0], 1);
    stage.push(0, rows(&[(1, 1)])).unwrap();
    drain(&mut stage).unwrap();
    let pushed = stage.push(0, rows(&[(7, 1)])).and_then(|()| drain(&mut stage).map(drop));
    let error = pushed.expect_err("a division by zero");
    assert!(error.to_string().contains("node 2 calc 2"), "{error}");
    let java = error.expression_error().expect("an error that Flink shares").to_string();
    assert_eq!(java, "java.lang.ArithmeticException: / by zero");
    assert!(matches!(stage.push(0, rows(&[(1, 1)])), Err(EngineError::Failed)));
    assert!(matches!(stage.pull(), Err(EngineError::Failed)));
}

#[test]
fn panic_becomes_an_error_that_names_the_node() {
    let mut stage = open(&stages()[0], 1);
    stage.panic_on_purpose();
    let error = stage.push(0, rows(&[(1, 1)])).expect_err("a panic");
    assert!(error.to_string().contains("node 2 calc 2: native code panicked: on purpose"), "{error}");
    assert!(matches!(stage.pull(), Err(EngineError::Failed)));
}

#[test]
fn bytes_that_are_no_batch_are_refused() {
    let specs = stages();
    let mut first = open(&specs[0], 1);
    first.push(0, rows(&[(1, 1)])).unwrap();
    let bytes = frame::encode(&drain(&mut first).unwrap()[0]).unwrap();
    for end in 0..bytes.len() {
        let error = open(&specs[1], 1).push_encoded(0, &Buffer::from(&bytes[..end])).unwrap_err();
        assert!(matches!(error, EngineError::Input { .. }), "{end} bytes: {error}");
        assert!(error.to_string().starts_with("node 4 "), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batch_cuts_and_parallelism_do_not_matter(
        input in prop::collection::vec((8_i64..20, -100_i64..100), 0..60),
        cuts in prop::collection::vec(0_usize..1000, 0..12),
        channels in 1_u32..5,
    ) {
        let whole = run(&input, &[], 1).unwrap();
        prop_assert_eq!(run(&input, &cuts, channels).unwrap(), whole);
    }
}

/// sources 1 and 2, union 3, calc 4 (COALESCE of two ROWs, a CAST), sink 5
#[test]
fn the_inputs_of_a_union_may_name_the_fields_of_a_row_differently() {
    let row = |name: &str| format!("ROW<`r` ROW<`{name}` BIGINT>, `s` ROW<`{name}` BIGINT>>");
    let inner = "ROW<`x` BIGINT>";
    let first = call("COALESCE", &[input(0, inner), input(1, inner)], inner);
    let nodes = [
        node(1, "table-source-scan", &row("x"), json!({"scanTableSource": {}})),
        node(2, "table-source-scan", &row("y"), json!({"scanTableSource": {}})),
        node(
            3,
            "union",
            &row("x"),
            json!({"inputProperties": vec![
            json!({"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}); 2]}),
        ),
        node(4, "calc", "ROW<`r` ROW<`x` BIGINT>>", json!({"projection": [first], "condition": null})),
        node(5, "sink", "ROW<`r` ROW<`x` BIGINT>>", json!({"dynamicTableSink": {}})),
    ];
    let edges = [(1, 3), (2, 3), (3, 4), (4, 5)].map(|(source, target)| json!({"source": source, "target": target}));
    let job = json!({"flinkVersion": "2.2.1", "config": {"streamfusion.islands.weigh": "false"}, "checkpointing": false,
        "nodes": nodes, "edges": edges});
    let response: Value = serde_json::from_str(&plan(&job.to_string()).unwrap()).unwrap();
    let spec = response["stages"][0]["spec"].as_str().unwrap_or_else(|| unreachable!("{response:#}")).to_owned();
    let mut stage = open(&spec, 1);
    for name in ["x", "y"] {
        let column = |value: i64, valid: bool| -> ArrayRef {
            let fields = vec![Field::new(name, DataType::Int64, true)].into();
            let values: ArrayRef = Arc::new(Int64Array::from(vec![value]));
            Arc::new(StructArray::new(fields, vec![values], Some(NullBuffer::from(vec![valid]))))
        };
        stage.push(0, Batch::try_new(vec![column(1, false), column(2, true)], 1, None).unwrap()).unwrap();
        let out = drain(&mut stage).unwrap();
        assert_eq!(out[0].columns()[0].as_struct().column(0).as_primitive::<Int64Type>().values(), &[2]);
    }
}

#[test]
fn fragments_of_the_first_stage_give_the_result_of_whole_batches() {
    let sender = Sender { epoch: 2, attempt: 7 };
    let receiver = Receiver { epoch: 2, first_key_group: 0, last_key_group: 127 };
    let specs = stages();
    let input: Vec<_> = (0..100).map(|row| (row % 9, row)).filter(|row| row.0 != 7).collect();
    let run = |unaligned: bool| {
        let (mut first, mut second) = (open(&specs[0], 1), open(&specs[1], 1));
        if unaligned {
            first.shuffle(&ShuffleParameters { sender: Some(sender), ..Default::default() }).unwrap();
            let parameters = ShuffleParameters {
                first: InputParameters { gather_rows: 1000, receiver: Some(receiver) },
                ..Default::default()
            };
            second.shuffle(&parameters).unwrap();
        }
        first.push(0, rows(&input)).unwrap();
        let sent = drain(&mut first).unwrap();
        let last = sent.len() - 1;
        assert_eq!(unaligned, sent.len() > 1);
        for (index, batch) in sent.into_iter().enumerate() {
            if unaligned {
                second.push_encoded(0, &fragment::encode(&batch).unwrap().into()).unwrap();
                assert_eq!(second.is_pending(0), index < last);
            } else {
                second.push_encoded(0, &frame::encode(&batch).unwrap().into()).unwrap();
            }
        }
        second.flush().unwrap();
        drain(&mut second).unwrap().iter().flat_map(|batch| batch.columns().to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn fragments_need_an_exchange() {
    let mut second = open(&stages()[1], 1);
    let parameters = ShuffleParameters { sender: Some(Sender { epoch: 0, attempt: 1 }), ..Default::default() };
    assert!(matches!(second.shuffle(&parameters), Err(EngineError::Unsupported(_))));
}
