//! No plan may panic, whatever somebody did to it: plans of Flink are changed at random places and planned as usual.
//!
//! Where a changed plan is still accepted, what is written for its stages must be readable again.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use serde_json::{Map, Value, json};
use streamfusion_plan::node::{Node, NodeKind};
use streamfusion_plan::reader::{Config, read_node, read_rex, read_type};
use streamfusion_plan::types::LogicalType;
use streamfusion_plan::{Capabilities, Graph, Host, NativeNode, Reason, StageSpec, plan_job};

/// Runs everything, with an expression in the JVM at a place that may not exist.
struct Everything;

impl Capabilities for Everything {
    fn node(&self, node: &Node, _inputs: &[&LogicalType], _config: &Config) -> Result<NativeNode, Reason> {
        let host = |pointer: &str| Host {
            pointer: pointer.to_owned(),
            inputs: vec![0, usize::MAX],
            expression: "F".to_owned(),
            reason: Reason::new("it is tested"),
        };
        let hosts = if node.id % 2 == 0 && !node.kind.has_two_inputs() {
            vec![host("/projection/0"), host("")]
        } else {
            Vec::new()
        };
        let stateless = matches!(
            node.kind,
            NodeKind::Calc(_)
                | NodeKind::Correlate(_)
                | NodeKind::Expand(_)
                | NodeKind::Union
                | NodeKind::DropUpdateBefore
                | NodeKind::Exchange(_)
                | NodeKind::MiniBatchAssigner(_)
                | NodeKind::LocalGroupAggregate(_)
        );
        Ok(NativeNode { hosts, stateful: !stateless, collects: stateless })
    }

    fn two_inputs(&self) -> bool {
        true
    }
}

static PLANS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut plans: Vec<(String, Value)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let plan = serde_json::from_str(&fs::read_to_string(&path).ok()?).ok()?;
            Some((path.to_string_lossy().into_owned(), plan))
        })
        .collect();
    plans.sort_by(|a, b| a.0.cmp(&b.0));
    plans.into_iter().map(|(_, plan)| plan).collect()
});

/// Plans a text. True if it was a plan with at least one stage.
fn plan(text: &str) -> Result<bool, TestCaseError> {
    let Ok(graph) = Graph::read(text) else {
        return Ok(false);
    };
    let job = plan_job(&graph, &Everything);
    let _ = job.to_json().to_string();
    for (id, stage) in job.stages.iter().enumerate() {
        let spec = StageSpec::read(&stage.spec.to_string());
        prop_assert!(spec.is_ok(), "stage {}: {:?}", id, spec);
        for input in &stage.inputs {
            for before in input.sources.iter().filter_map(|source| source.stage) {
                prop_assert!(before < id, "stage {} reads from behind", id);
                prop_assert_eq!(&job.stages[before].writes, &input.reads);
            }
        }
    }
    Ok(!job.stages.is_empty())
}

/// JSON that plans are made of, and JSON that they are not.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| json!(n)),
        (-2_i64..9).prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        Just(serde_json::from_str("1e999999999").unwrap_or(Value::Null)),
        Just(serde_json::from_str("123456789012345678901234567890").unwrap_or(Value::Null)),
        type_text().prop_map(Value::String),
        ".{0,12}".prop_map(Value::String),
        prop::sample::select(vec![
            "HASH",
            "SINGLETON",
            "INPUT_REF",
            "CALL",
            "LITERAL",
            "$SEARCH$1",
            "$$1",
            "ROW",
            "0 ms",
            "ANTI",
            "RIGHT",
            "Variable",
            "UpdateFast",
            "RowTime",
            "true",
            "7",
        ])
        .prop_map(|text| json!(text)),
    ];
    let keys = prop::sample::select(vec![
        "id",
        "type",
        "kind",
        "operands",
        "value",
        "sarg",
        "ranges",
        "lower",
        "inputIndex",
        "fields",
        "name",
        "fieldType",
        "elementType",
        "nullable",
        "precision",
        "expr",
        "internalName",
        "outputType",
        "index",
        "ttl",
        "endIndex",
        "primaryKeys",
        "joinType",
        "leftKeys",
        "x",
    ]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

fn type_text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "BIGINT",
            "DECIMAL(39, 3)",
            "VARCHAR(9)",
            "ROW<`a` BIGINT>",
            "TIMESTAMP(3)",
            "RAW('a', 'b')"
        ])
        .prop_map(str::to_owned),
        "(ROW|MAP|ARRAY|INT|[A-Z]{1,8}|é)?[<(]?`?[a-z]{0,2}`? ?[A-Z]{0,6}[0-9]{0,11}[,)>]?( NOT NULL)?",
    ]
}

/// A change of one place of a JSON value.
#[derive(Debug, Clone)]
enum Change {
    Replace(Value),
    Remove,
    Double,
    Wrap,
    Swap(Index),
}

fn change() -> impl Strategy<Value = (Index, Change)> {
    let change = prop_oneof![
        4 => any_json().prop_map(Change::Replace),
        1 => Just(Change::Remove),
        1 => Just(Change::Double),
        1 => Just(Change::Wrap),
        2 => any::<Index>().prop_map(Change::Swap),
    ];
    (any::<Index>(), change)
}

/// JSON pointers of every value in `json`.
fn pointers(json: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match json {
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(n, value)| pointers(value, &format!("{at}/{n}"), found));
        }
        Value::Object(map) => map.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), found)),
        _ => {}
    }
}

fn apply(json: &mut Value, place: &Index, change: &Change) {
    let mut all = Vec::new();
    pointers(json, "", &mut all);
    let pointer = place.get(&all);
    let other = match change {
        Change::Swap(other) => json.pointer(other.get(all.as_slice()).as_str()).cloned(),
        _ => None,
    };
    if let (Change::Remove | Change::Double, Some((parent, key))) = (change, pointer.rsplit_once('/')) {
        let double = matches!(change, Change::Double);
        match json.pointer_mut(parent) {
            Some(Value::Array(values)) => {
                if let Some(n) = key.parse().ok().filter(|n: &usize| *n < values.len()) {
                    let value = values.remove(n);
                    if double {
                        values.extend([value.clone(), value]);
                    }
                }
            }
            Some(Value::Object(map)) => {
                if let Some(value) = map.remove(key).filter(|_| double) {
                    map.insert(format!("{key}2"), value);
                }
            }
            _ => {}
        }
        return;
    }
    if let Some(value) = json.pointer_mut(pointer) {
        match change {
            Change::Replace(new) => *value = new.clone(),
            Change::Wrap => *value = Value::Object(Map::from_iter([("expr".to_owned(), value.take())])),
            Change::Swap(_) => *value = other.unwrap_or(Value::Null),
            Change::Remove | Change::Double => {}
        }
    }
}

#[test]
fn the_plans_to_change_are_there_and_have_stages() -> Result<(), TestCaseError> {
    prop_assert!(PLANS.len() >= 31);
    let mut with_stages = 0;
    for json in PLANS.iter() {
        with_stages += usize::from(plan(&json.to_string())?);
    }
    prop_assert!(with_stages >= 25);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_plan_does_not_panic(
        which in any::<Index>(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        let mut json = which.get(&PLANS).clone();
        for (place, change) in &changes {
            apply(&mut json, place, change);
        }
        plan(&json.to_string())?;
    }

    #[test]
    fn a_changed_node_does_not_panic(
        which in any::<Index>(),
        node in any::<Index>(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        let mut json = which.get(&PLANS).clone();
        if let Some(nodes) = json["nodes"].as_array_mut() {
            let position = node.index(nodes.len());
            for (place, change) in &changes {
                apply(&mut nodes[position], place, change);
            }
        }
        plan(&json.to_string())?;
    }

    #[test]
    fn a_changed_text_does_not_panic(
        which in any::<Index>(),
        cuts in prop::collection::vec((any::<Index>(), 0_usize..40, "[\\[\\]{}\",:0-9a-zé`<>]{0,3}"), 1..3),
    ) {
        let mut text = which.get(&PLANS).to_string();
        for (place, length, insert) in cuts {
            let start = place.index(text.len());
            let end = (start + length).min(text.len());
            if text.is_char_boundary(start) && text.is_char_boundary(end) {
                text.replace_range(start..end, &insert);
            }
        }
        plan(&text)?;
    }

    #[test]
    fn json_of_any_shape_does_not_panic(json in any_json(), nodes in prop::collection::vec(any_json(), 0..4)) {
        let _ = read_type(&json);
        let _ = read_rex(&json);
        let _ = read_node(&json, vec![1], &Config::new());
        let _ = StageSpec::read(&json.to_string());
        plan(&json.to_string())?;
        plan(&json!({"nodes": nodes, "edges": [json], "config": {"a": 1}}).to_string())?;
    }

    #[test]
    fn a_changed_spec_does_not_panic(
        which in any::<Index>(),
        changes in prop::collection::vec(change(), 1..3),
    ) {
        let graph = Graph::read(&which.get(&PLANS).to_string()).map_err(|e| TestCaseError::fail(e.to_string()))?;
        for stage in plan_job(&graph, &Everything).stages {
            let mut spec = stage.spec;
            for (place, change) in &changes {
                apply(&mut spec, place, change);
            }
            let _ = StageSpec::read(&spec.to_string());
        }
    }

    #[test]
    fn a_type_in_any_text_does_not_panic(text in type_text(), noise in ".{0,40}", depth in 0_usize..3000) {
        let _ = read_type(&json!(text));
        let _ = read_type(&json!(noise));
        let _ = read_type(&json!(format!("{}{text}{}", "ARRAY<".repeat(depth), ">".repeat(depth))));
    }
}
