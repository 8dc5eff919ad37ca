//! Which nodes of plans with mini-batch report what their bundles come to, and which stages claim memory for them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use serde_json::Value;
use streamfusion_engine::{Edge, Stage, StateParameters, plan};
use streamfusion_expr::error::ExprError;
use streamfusion_expr::host::HostFunction;
use streamfusion_operators::StateBackend;
use streamfusion_state::{KeyGroups, StateClock};

/// Compiled plans of queries with mini-batch.
const PLANS: [&str; 7] = ["groupagg", "split", "normalize", "dedup", "join", "leftjoin", "topnret"];

const FLUSHES: [&str; 5] = ["ByCount", "ByMarker", "ByWatermark", "ByCheckpoint", "ByEndOfInput"];

fn compiled(name: &str) -> Value {
    let path = format!("{}/../plan/tests/data/plan_{name}_mb.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What stands for an expression of the JVM.
#[derive(Debug)]
struct Unused;

impl HostFunction for Unused {
    fn call(&self, _: &RecordBatch) -> Result<ArrayRef, ExprError> {
        unreachable!("nothing is evaluated")
    }
}

/// The kind of a node, for example `group-aggregate`.
fn kind(plan: &Value, id: &Value) -> String {
    let node = plan["nodes"].as_array().unwrap().iter().find(|node| node["id"] == *id).unwrap();
    let ty = node["type"].as_str().unwrap();
    ty.trim_start_matches("stream-exec-").split('_').next().unwrap().to_owned()
}

fn open(stage: &Value) -> Stage {
    let state = StateParameters {
        operator_id: "node".to_owned(),
        key_groups: KeyGroups::all(128),
        clock: StateClock::system(),
        backend: StateBackend::default(),
    };
    let spec = stage["spec"].as_str().unwrap();
    let edge = Edge { channels: 1, max_parallelism: 128 };
    Stage::open(spec, edge, Some(&state), &|_, _| Arc::new(Unused)).unwrap()
}

#[test]
fn every_operator_with_bundles_says_what_they_come_to() {
    // joins have bundles only where both inputs have unique keys, which those of these plans do not
    let mut found = BTreeSet::new();
    for name in PLANS {
        let compiled = compiled(name);
        let response: Value = serde_json::from_str(&plan(&compiled.to_string()).unwrap()).unwrap();
        for stage in response["stages"].as_array().unwrap() {
            let metrics: Value = serde_json::from_str(&open(stage).metrics()).unwrap();
            for node in metrics["nodes"].as_array().unwrap() {
                if node.get("bundles").is_none() {
                    continue;
                }
                let gauges = ["bundleRowsIn", "bundleRowsOut", "bundlePhysicalSplits", "bundleTouchedKeys"];
                let more =
                    ["bundleCancelledChanges", "lastBundleRows", "lastBundleKeys", "peakBundleRows", "peakBundleKeys"];
                let flushes = FLUSHES.map(|reason| format!("bundleFlushes{reason}"));
                for gauge in gauges.into_iter().chain(more).chain(flushes.iter().map(String::as_str)) {
                    assert_eq!(node[gauge], 0, "{gauge} of {node}");
                }
                found.insert(kind(&compiled, &node["id"]));
            }
        }
    }
    let expected = [
        "changelog-normalize",
        "deduplicate",
        "global-group-aggregate",
        "incremental-group-aggregate",
        "local-group-aggregate",
    ];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn stage_of_a_local_aggregate_collects_rows() {
    let compiled = compiled("groupagg");
    let response: Value = serde_json::from_str(&plan(&compiled.to_string()).unwrap()).unwrap();
    for stage in response["stages"].as_array().unwrap() {
        let nodes = stage["nodes"].as_array().unwrap();
        let is_local = nodes.iter().any(|id| kind(&compiled, id) == "local-group-aggregate");
        assert_eq!(stage["collects"], is_local, "{stage}");
        assert!(!is_local || stage["stateful"] == false, "{stage}");
    }
}
