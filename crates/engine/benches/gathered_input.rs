//! What is gained by gathering the small batches of a shuffle in front of GROUP BY, and that it never costs anything?
//!
//! One batch of 8,192 rows (BIGINT key, 100,000 of them, BIGINT value, text) arrives in parts, as behind an exchange: of 64 rows (128
//! receivers), 128, 256 (32 receivers) and 1,024. `each` takes every part alone, `gathered` as a stage does, which leaves parts of 256
//! rows or more alone.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::buffer::Buffer;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use streamfusion_engine::{Edge, InputParameters, Output, ShuffleParameters, Stage, StateParameters, plan};
use streamfusion_operators::StateBackend;
use streamfusion_row::{Batch, frame};
use streamfusion_state::{KeyGroups, StateClock};

const ROWS: usize = 8_192;
const KEYS: u64 = 100_000;
const INPUT: &str = "ROW<`k` BIGINT, `v` BIGINT, `t` VARCHAR(2147483647)>";
const OUTPUT: &str = "ROW<`k` BIGINT, `s` BIGINT, `m` VARCHAR(2147483647)>";

fn node(id: i64, kind: &str, output: &str, properties: Value) -> Value {
    let mut node = json!({
        "id": id,
        "type": format!("stream-exec-{kind}_1"),
        "inputProperties": [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}],
        "outputType": output,
        "description": format!("{kind} {id}"),
    });
    if let (Some(node), Value::Object(properties)) = (node.as_object_mut(), properties) {
        node.extend(properties);
    }
    node
}

/// The spec of the stage behind the exchange: SUM(v) and MAX(t) by k.
fn spec() -> String {
    let call = |name: &str, arg: usize, ty: &str| {
        json!({"name": name, "internalName": format!("${name}$1"), "argList": [arg], "filterArg": -1, "distinct": false,
            "approximate": false, "ignoreNulls": false, "type": ty})
    };
    let calls = [call("SUM", 1, "BIGINT"), call("MAX", 2, "VARCHAR(2147483647)")];
    let hash = json!({"inputProperties": [{"requiredDistribution": {"type": "HASH", "keys": [0]},
        "damBehavior": "PIPELINED", "priority": 0}]});
    let nodes = [
        node(1, "table-source-scan", INPUT, json!({"scanTableSource": {}})),
        node(2, "exchange", INPUT, hash),
        node(
            3,
            "group-aggregate",
            OUTPUT,
            json!({"grouping": [0], "aggCalls": calls, "aggCallNeedRetractions": [false, false],
                "generateUpdateBefore": true, "needRetraction": false}),
        ),
        node(4, "sink", OUTPUT, json!({"dynamicTableSink": {}})),
    ];
    let edges: Vec<Value> = (1..4).map(|id| json!({"source": id, "target": id + 1})).collect();
    let request = json!({"flinkVersion": "2.2.1", "config": {}, "nodes": nodes, "edges": edges});
    let response: Value = serde_json::from_str(&plan(&request.to_string()).unwrap()).unwrap();
    response["stages"][1]["spec"].as_str().unwrap_or_else(|| panic!("{response:#}")).to_owned()
}

fn open(spec: &str, gather_rows: usize) -> Stage {
    let state = StateParameters {
        operator_id: "bench".to_owned(),
        key_groups: KeyGroups::all(128),
        clock: StateClock::system(),
        backend: StateBackend::default(),
    };
    let edge = Edge { channels: 1, max_parallelism: 128 };
    let mut stage =
        Stage::open(spec, edge, Some(&state), &|_, _| panic!("no expression of the job runs in the JVM")).unwrap();
    stage
        .shuffle(&ShuffleParameters {
            first: InputParameters { gather_rows, receiver: None },
            ..ShuffleParameters::default()
        })
        .unwrap();
    stage
}

fn batch() -> Batch {
    let mut state = 1u64;
    let mut next = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % bound).unwrap()
    };
    let keys: ArrayRef = Arc::new((0..ROWS).map(|_| next(KEYS)).collect::<Int64Array>());
    let values: ArrayRef = Arc::new((0..ROWS).map(|_| next(1_000_000)).collect::<Int64Array>());
    let texts = (0..ROWS).map(|_| Some(format!("text {}", next(1_000_000)))).collect::<StringArray>();
    Batch::try_new(vec![keys, values, Arc::new(texts)], ROWS, None).unwrap()
}

fn run(stage: &mut Stage, parts: &[Buffer]) -> usize {
    let mut rows = 0;
    let mut drain = |stage: &mut Stage| {
        while let Some(batch) = stage.pull().unwrap().and_then(Output::into_batch) {
            rows += batch.num_rows();
        }
    };
    for part in parts {
        stage.push_encoded(0, part).unwrap();
        drain(stage);
    }
    stage.flush().unwrap();
    drain(stage);
    rows
}

fn gathered_input(c: &mut Criterion) {
    let (spec, batch) = (spec(), batch());
    for size in [64, 128, 256, 1_024] {
        let mut group = c.benchmark_group(format!("gathered_input/parts_of_{size}"));
        group.throughput(Throughput::Elements(ROWS as u64));
        let parts: Vec<Buffer> =
            (0..ROWS).step_by(size).map(|at| frame::encode(&batch.slice(at, size).unwrap()).unwrap().into()).collect();
        for (name, gather_rows) in [("each", 0), ("gathered", ROWS)] {
            let mut stage = open(&spec, gather_rows);
            run(&mut stage, &parts); // all keys are there
            group.bench_function(name, |b| {
                b.iter_batched(|| (), |()| run(&mut stage, black_box(&parts)), BatchSize::LargeInput)
            });
        }
        group.finish();
    }
}

criterion_group!(benches, gathered_input);
criterion_main!(benches);
