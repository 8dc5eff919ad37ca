//! Tests of the nodes of changelog operators: those of Flink's plans, and what may be missing, unknown or wrong in them.

mod aggregate;
mod correlate;
mod deduplicate;
mod group_window;
mod join;
mod lookup_join;
mod multi_join;
mod over;
mod rank;
mod timed_join;
mod watermark;
mod window_aggregate;
mod window_rows;
mod window_table_function;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::check::check_node;
use crate::node::{MiniBatchAssigner, Node, NodeKind};
use crate::reader::{Config, Graph, read_node, read_type};
use crate::types::{LogicalType, TimeDomain};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn plan(name: &str) -> Result<Graph, Box<dyn std::error::Error>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("plan_{name}.json"));
    Ok(Graph::read(&std::fs::read_to_string(path)?)?)
}

/// The only nodes of a type in a plan, in plan order.
fn nodes<'a>(graph: &'a Graph, type_name: &str) -> Vec<&'a Node> {
    graph.nodes.iter().filter(|node| node.type_name == format!("stream-exec-{type_name}")).collect()
}

fn first<'a>(graph: &'a Graph, type_name: &str) -> Result<&'a Node, Box<dyn std::error::Error>> {
    Ok(nodes(graph, type_name).first().copied().ok_or("no such node")?)
}

fn inputs<'a>(graph: &'a Graph, node: &Node) -> Vec<&'a LogicalType> {
    node.inputs.iter().filter_map(|id| graph.node(*id)).map(|input| &input.output).collect()
}

/// The first node of a type in a plan, with other values at these JSON pointers; NULL removes.
fn changed(
    name: &str,
    type_name: &str,
    changes: &[(&str, Value)],
    session: &[(&str, &str)],
) -> Result<NodeKind, Box<dyn std::error::Error>> {
    let graph = plan(name)?;
    let node = first(&graph, type_name)?;
    let mut json = graph.position(node.id).and_then(|position| graph.json(position)).ok_or("no JSON")?.clone();
    let ids = node.inputs.clone();
    change(&mut json, changes)?;
    Ok(read_node(&json, ids, &config(session)).kind)
}

fn config(session: &[(&str, &str)]) -> Config {
    session.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn change(json: &mut Value, changes: &[(&str, Value)]) -> TestResult {
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').ok_or("no pointer")?;
        let parent = json.pointer_mut(parent).ok_or("no parent")?;
        match (parent, value) {
            (Value::Object(map), Value::Null) => drop(map.remove(key)),
            (Value::Object(map), value) => drop(map.insert(key.to_owned(), value.clone())),
            (Value::Array(list), value) => {
                *list.get_mut(key.parse::<usize>()?).ok_or("no element")? = value.clone();
            }
            _ => return Err("neither object nor list".into()),
        }
    }
    Ok(())
}

/// A reason that begins or ends with this text, or contains it.
fn assert_stock(kind: &NodeKind, expected: &str) {
    match kind {
        NodeKind::Stock(reason) => assert!(reason.to_string().contains(expected), "{reason}, not {expected}"),
        other => panic!("{expected}: {other:?}"),
    }
}

#[test]
fn the_nodes_of_flinks_plans_are_typed_and_fit_their_inputs() -> TestResult {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut typed = BTreeSet::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let graph = Graph::read(&std::fs::read_to_string(&path)?)?;
        for node in &graph.nodes {
            if let NodeKind::Stock(_) = node.kind {
                continue;
            }
            check_node(node, &inputs(&graph, node)).map_err(|reason| format!("{}: {reason}", path.display()))?;
            typed.insert(node.type_name.clone());
        }
    }
    let without_a_plan = ["stream-exec-union", "stream-exec-drop-update-before"];
    let known = super::TYPES.iter().map(|known| known.name).filter(|name| !without_a_plan.contains(name));
    assert_eq!(typed, known.map(str::to_owned).collect());
    Ok(())
}

#[test]
fn a_mini_batch_assigner_has_a_mode_and_an_interval() -> TestResult {
    let assigner = |mode, interval_ms| NodeKind::MiniBatchAssigner(MiniBatchAssigner { mode, interval_ms });
    assert_eq!(first(&plan("dedup_mb")?, "mini-batch-assigner")?.kind, assigner(TimeDomain::Rowtime, 2000));
    assert_eq!(first(&plan("topn_mb")?, "mini-batch-assigner")?.kind, assigner(TimeDomain::Proctime, 2000));
    let cases = [
        ("/miniBatchInterval/mode", json!("None"), "in the mode None is not known here"),
        ("/miniBatchInterval/interval", json!(0), "is 0 ms"),
        ("/miniBatchInterval/start", json!(0), "the property `start` of `miniBatchInterval`"),
        ("/miniBatchInterval", Value::Null, "`miniBatchInterval` is missing"),
    ];
    for (pointer, value, expected) in cases {
        assert_stock(&changed("topn_mb", "mini-batch-assigner", &[(pointer, value)], &[])?, expected);
    }
    Ok(())
}

#[test]
fn an_expand_has_projections_of_the_columns_of_its_output() -> TestResult {
    let graph = plan("split_mb")?;
    let node = first(&graph, "expand")?;
    let NodeKind::Expand(expand) = &node.kind else { panic!("{:?}", node.kind) };
    assert_eq!(expand.projects.iter().map(Vec::len).collect::<Vec<_>>(), [7, 7, 7]);
    let untyped = [(json!([]), "`projects` is empty"), (json!([1]), "`projects` is not a list of lists")];
    for (value, expected) in untyped {
        assert_stock(&changed("split_mb", "expand", &[("/projects", value)], &[])?, expected);
    }
    let wrong = [
        ("/projects/1", json!([]), "another number of columns"),
        ("/projects/2/0", json!({"kind": "LITERAL", "value": null, "type": "INT"}), "another type"),
        ("/projects/0/0/inputIndex", json!(99), "a column that does not exist"),
    ];
    for (pointer, value, expected) in wrong {
        let kind = changed("split_mb", "expand", &[(pointer, value)], &[])?;
        let reason = check_node(&Node { kind, ..node.clone() }, &inputs(&graph, node)).err().ok_or("it fits")?;
        assert!(reason.to_string().contains(expected), "{reason}, not {expected}");
    }
    Ok(())
}

#[test]
fn an_unknown_property_option_or_version_keeps_any_node_on_flink() -> TestResult {
    let plans = [
        ("groupagg_mb", "local-group-aggregate"),
        ("groupagg_mb", "global-group-aggregate"),
        ("dedup", "deduplicate"),
        ("topn", "rank"),
        ("join", "join"),
        ("topn_mb", "mini-batch-assigner"),
        ("wm_expr", "watermark-assigner"),
        ("split_mb", "incremental-group-aggregate"),
        ("normalize_mb", "changelog-normalize"),
        ("split_mb", "expand"),
        ("limit", "limit"),
        ("sortlimit", "sort-limit"),
    ];
    for (name, type_name) in plans {
        let version = format!("stream-exec-{type_name}_2");
        let cases = [
            ("/hint", json!(1), "its property `hint` is not known here".to_owned()),
            ("/configuration", json!({"x": "1"}), "its option `x` is not known here".to_owned()),
            ("/type", json!(version), format!("version 2 of stream-exec-{type_name} is not known here")),
        ];
        for (pointer, value, expected) in cases {
            assert_stock(&changed(name, type_name, &[(pointer, value)], &[])?, &expected);
        }
    }
    Ok(())
}

#[test]
fn every_form_of_a_time_to_live_that_flink_writes_is_read() -> TestResult {
    let cases = [
        ("0 ms", Some(0)),
        ("1 d", Some(86_400_000)),
        ("36 h", Some(129_600_000)),
        ("90min", Some(5_400_000)),
        ("12 s", Some(12_000)),
        ("15", Some(15)),
        (" 7 MS ", Some(7)),
        ("2500 µs", Some(2)),
        ("999999 ns", Some(0)),
        ("-1 s", None),
        ("1 week", None),
        ("", None),
        ("99999999999999999999 d", None),
        ("9223372036854775808 ms", None),
    ];
    for (text, expected) in cases {
        let kind = changed("topn", "rank", &[("/state/0/ttl", json!(text))], &[])?;
        match expected {
            Some(ttl) => assert!(matches!(&kind, NodeKind::Rank(rank) if rank.ttl_ms == ttl), "{text}: {kind:?}"),
            None => assert_stock(&kind, "is not a time to live"),
        }
    }
    Ok(())
}
