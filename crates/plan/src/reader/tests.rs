//! Tests of the reader.

use serde_json::json;

use super::*;
use crate::node::{Calc, Distribution};
use crate::rex::{Function, Literal, Rex};
use crate::types::{Field, LogicalType, TimeAttribute, TypeKind};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn nullable(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn not_null(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: false }
}

fn plan(name: &str) -> Result<Graph, Box<dyn std::error::Error>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    Ok(Graph::read(&std::fs::read_to_string(path)?)?)
}

#[test]
fn compact_types_are_read_with_their_parameters() {
    let decimal = TypeKind::Decimal { precision: 24, scale: 3 };
    let timestamp = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Regular };
    let ltz = TypeKind::TimestampLtz { precision: 3, attribute: TimeAttribute::Regular };
    let cases = [
        ("BIGINT", nullable(TypeKind::BigInt)),
        ("INT NOT NULL", not_null(TypeKind::Integer)),
        ("DECIMAL(24, 3)", nullable(decimal)),
        ("VARCHAR(2147483647)", nullable(TypeKind::VarChar(2_147_483_647))),
        ("CHAR(1) NOT NULL", not_null(TypeKind::Char(1))),
        ("VARBINARY(7)", nullable(TypeKind::VarBinary(7))),
        ("TIME(0)", nullable(TypeKind::Time(0))),
        ("TIMESTAMP(3)", nullable(timestamp)),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL", not_null(ltz)),
        ("INTERVAL SECOND(6) NOT NULL", not_null(TypeKind::IntervalDayTime)),
        ("INTERVAL DAY(2) TO SECOND(3)", nullable(TypeKind::IntervalDayTime)),
        ("INTERVAL YEAR(4) TO MONTH", nullable(TypeKind::IntervalYearMonth)),
        ("NULL", nullable(TypeKind::Null)),
        ("ARRAY<INT NOT NULL>", nullable(TypeKind::Array(not_null(TypeKind::Integer).into()))),
        (
            "MAP<INT, ARRAY<DATE>> NOT NULL",
            not_null(TypeKind::Map(
                nullable(TypeKind::Integer).into(),
                nullable(TypeKind::Array(nullable(TypeKind::Date).into())).into(),
            )),
        ),
        ("TIMESTAMP(6) WITH TIME ZONE", nullable(TypeKind::Other("TIMESTAMP(6) WITH TIME ZONE".to_owned()))),
        ("RAW('a,b', 'x>)') NOT NULL", not_null(TypeKind::Other("RAW('a,b', 'x>)')".to_owned()))),
        ("`c`.`d`.`t`", nullable(TypeKind::Other("`c`.`d`.`t`".to_owned()))),
    ];
    for (text, expected) in cases {
        assert_eq!(read_type(&json!(text)), Ok(expected), "{text}");
    }
}

#[test]
fn a_row_keeps_its_names_and_reads_past_a_type_that_is_not_known() {
    let text = "ROW<`a``b` STRUCTURED<'c.D', `x` INT>, `b` CHAR(1) NOT NULL 'it''s', `c` ROW<`d` INT>>";
    let field = |name: &str, ty| Field { name: name.to_owned(), ty };
    let expected = vec![
        field("a`b", nullable(TypeKind::Other("STRUCTURED<'c.D', `x` INT>".to_owned()))),
        field("b", not_null(TypeKind::Char(1))),
        field("c", nullable(TypeKind::Row(vec![field("d", nullable(TypeKind::Integer))].into()))),
    ];
    assert_eq!(read_type(&json!(text)), Ok(nullable(TypeKind::Row(expected.into()))));
}

#[test]
fn an_object_type_carries_time_attributes_and_zero_lengths() {
    let rowtime = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    let json = json!({"type": "ROW", "nullable": false, "fields": [
        {"name": "t", "fieldType": {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "precision": 3, "kind": "ROWTIME"}},
        {"name": "e", "fieldType": {"type": "CHAR", "nullable": false, "length": 0}, "description": "x"}]});
    let field = |name: &str, ty| Field { name: name.to_owned(), ty };
    let fields = vec![field("t", nullable(rowtime)), field("e", not_null(TypeKind::Char(0)))];
    assert_eq!(read_type(&json), Ok(not_null(TypeKind::Row(fields.into()))));
    assert_eq!(read_type(&json!({"type": "SYMBOL"})), Ok(nullable(TypeKind::Other("SYMBOL".to_owned()))));
}

#[test]
fn a_text_that_flink_does_not_write_is_no_type() {
    let deep = format!("{}INT{}", "ARRAY<".repeat(10_000), ">".repeat(10_000));
    let texts = [
        "",
        " ",
        ",",
        "DECIMAL(39, 0)",
        "DECIMAL(3, 4)",
        "TIMESTAMP(10)",
        "CHAR(0)",
        "CHAR(99999999999)",
        "ROW<`a INT>",
        "ROW<`a` INT",
        "INT>",
        "INT INT",
        "INTERVAL MONTH TO DAY",
        "INTERVAL",
        "ARRAY<>",
        "MAP<INT>",
        "RAW('x",
        &deep,
    ];
    for text in texts {
        assert!(read_type(&json!(text)).is_err(), "{text}");
    }
}

#[test]
fn literals_are_read_by_their_type() {
    let cases = [
        (json!(null), "INT", Literal::Null),
        (json!(true), "BOOLEAN", Literal::Boolean(true)),
        (json!(-128), "TINYINT", Literal::Integer(-128)),
        (json!(i64::MIN), "BIGINT", Literal::Integer(i64::MIN)),
        (json!("0.908"), "DECIMAL(4, 3)", Literal::Decimal(908)),
        (json!("1E+2"), "DECIMAL(5, 1)", Literal::Decimal(1000)),
        (json!("1.1"), "FLOAT", Literal::Double(f64::from(1.1_f32))),
        (json!("1.1"), "DOUBLE", Literal::Double(1.1)),
        (json!("a"), "CHAR(1)", Literal::String("a".to_owned())),
        (json!("AQL/"), "BINARY(3)", Literal::Bytes(vec![1, 2, 255])),
        (json!("AQ=="), "VARBINARY(3)", Literal::Bytes(vec![1])),
        (json!("1970-01-02"), "DATE", Literal::Date(1)),
        (json!("00:00:01.5"), "TIME(3)", Literal::Time(1500)),
        (json!("1970-01-01 00:00:00.000001"), "TIMESTAMP(6)", Literal::Timestamp { millis: 0, nanos: 1000 }),
        (json!("86400000"), "INTERVAL DAY(2)", Literal::Integer(86_400_000)),
        (json!("14"), "INTERVAL YEAR(2) TO MONTH", Literal::Integer(14)),
    ];
    for (value, ty, expected) in cases {
        let json = json!({"kind": "LITERAL", "value": value, "type": ty});
        match read_rex(&json) {
            Ok(Rex::Literal { value, .. }) => assert_eq!(value, expected, "{json}"),
            other => panic!("{json}: {other:?}"),
        }
    }
    for (value, ty) in [(json!(128), "TINYINT"), (json!("1.25"), "DECIMAL(3, 1)"), (json!("100"), "DECIMAL(2, 0)")] {
        assert!(read_rex(&json!({"kind": "LITERAL", "value": value, "type": ty})).is_err(), "{value} {ty}");
    }
}

#[test]
fn a_field_access_resolves_its_index_and_its_nullability() -> TestResult {
    let json = json!({"kind": "FIELD_ACCESS", "name": "y", "expr":
        {"kind": "INPUT_REF", "inputIndex": 2, "type": "ROW<`x` INT, `y` INT NOT NULL>"}});
    let Rex::FieldAccess { index, ty, .. } = read_rex(&json).map_err(|r| r.to_string())? else {
        panic!("no field access");
    };
    assert_eq!((index, ty), (1, nullable(TypeKind::Integer)));
    Ok(())
}

#[test]
fn a_search_holds_its_ranges_in_order() -> TestResult {
    let json = json!({"kind": "CALL", "syntax": "INTERNAL", "internalName": "$SEARCH$1", "type": "BOOLEAN", "operands": [
        {"kind": "INPUT_REF", "inputIndex": 0, "type": "BIGINT"},
        {"kind": "LITERAL", "type": "INT NOT NULL", "sarg": {"nullAs": "FALSE", "ranges": [
            {"upper": {"value": 1, "boundType": "OPEN"}}, {"lower": {"value": 5, "boundType": "CLOSED"}}]}}]});
    let Rex::Search { sarg, .. } = read_rex(&json).map_err(|r| r.to_string())? else {
        panic!("no search");
    };
    assert_eq!((sarg.null_as, sarg.ranges.len()), (Some(false), 2));
    assert_eq!(sarg.ranges[0].lower, None);
    assert_eq!(sarg.ranges[1].lower.as_ref().map(|b| (&b.value, b.inclusive)), Some((&Literal::Integer(5), true)));
    Ok(())
}

#[test]
fn what_flink_knows_and_this_reader_does_not_is_unknown_and_not_an_error() {
    let unknown = [
        json!({"kind": "CORREL_VARIABLE", "correl": "$cor0", "type": "INT"}),
        json!({"kind": "LAMBDA"}),
        json!({"kind": "INPUT_REF", "inputIndex": 0, "type": "INT", "alias": "x"}),
        json!({"kind": "LITERAL", "value": "x", "type": "RAW('a', 'b')"}),
    ];
    for json in unknown {
        assert!(matches!(read_rex(&json), Ok(Rex::Unknown { .. })), "{json}");
    }
    for (key, name) in [("catalogName", "`a`.`b`.`f`"), ("class", "c.D"), ("systemName", "f"), ("sqlKind", "OTHER")] {
        let json = json!({"kind": "CALL", key: name, "operands": [], "type": "INT"});
        assert!(matches!(read_rex(&json), Ok(Rex::Call { function: Function::User(n), .. }) if n == name), "{json}");
    }
}

#[test]
fn the_nodes_of_a_group_by_are_typed() -> TestResult {
    let graph = plan("plan_groupagg.json")?;
    let node = |id| graph.node(id).ok_or("no node");
    assert!(matches!(&node(7)?.kind, NodeKind::Calc(Calc { projection, condition: None }) if projection.len() == 4));
    assert_eq!(node(8)?.kind, NodeKind::Exchange(Distribution::Hash(vec![0])));
    let NodeKind::GroupAggregate(aggregate) = &node(9)?.kind else {
        panic!("{:?}", node(9)?.kind);
    };
    assert_eq!((aggregate.grouping.as_slice(), aggregate.ttl_ms, aggregate.mini_batch_size), ([0].as_slice(), 0, None));
    let call = &aggregate.calls[2];
    assert_eq!((call.args.as_slice(), call.filter, call.distinct), ([2].as_slice(), Some(3), true));
    assert_eq!(node(9)?.inputs, [8]);
    assert_eq!(node(10)?.kind, NodeKind::Stock(Reason::new("sinks stay on Flink")));
    Ok(())
}

/// The group aggregate of the plan, changed.
fn aggregate_with(change: impl FnOnce(&mut Value)) -> Result<NodeKind, Box<dyn std::error::Error>> {
    let graph = plan("plan_groupagg.json")?;
    let mut json = graph.position(9).and_then(|p| graph.json(p)).ok_or("no node")?.clone();
    change(&mut json);
    Ok(read_node(&json, vec![8], &Config::new()).kind)
}

#[test]
fn mini_batch_and_time_to_live_are_read_from_the_node() -> TestResult {
    let kind = aggregate_with(|json| {
        json["configuration"] = json!({"table.exec.mini-batch.enabled": "true", "table.exec.mini-batch.size": "500"});
        json["state"][0]["ttl"] = json!("36 h");
    })?;
    let NodeKind::GroupAggregate(aggregate) = kind else { panic!("{kind:?}") };
    assert_eq!((aggregate.mini_batch_size, aggregate.ttl_ms), (Some(500), 129_600_000));
    Ok(())
}

#[test]
fn the_session_stands_behind_the_options_of_a_node() -> TestResult {
    let graph = plan("plan_groupagg.json")?;
    let mut json = graph.position(9).and_then(|p| graph.json(p)).ok_or("no node")?.clone();
    json.as_object_mut().ok_or("no object")?.retain(|key, _| key != "configuration" && key != "state");
    let config = [(MINI_BATCH, "true"), ("table.exec.mini-batch.size", "20"), ("table.exec.state.ttl", "1 s")];
    let config = config.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let NodeKind::GroupAggregate(aggregate) = read_node(&json, vec![8], &config).kind else { panic!("not typed") };
    assert_eq!((aggregate.mini_batch_size, aggregate.ttl_ms), (Some(20), 1000));
    Ok(())
}

const MINI_BATCH: &str = "table.exec.mini-batch.enabled";

#[test]
fn a_node_with_anything_unknown_stays_on_flink() -> TestResult {
    type Change = Box<dyn FnOnce(&mut Value)>;
    let cases: [(&str, Change); 8] = [
        ("version 2 of stream-exec-group-aggregate", Box::new(|j| j["type"] = json!("stream-exec-group-aggregate_2"))),
        ("its property `hint`", Box::new(|j| j["hint"] = json!(1))),
        ("its option `x`", Box::new(|j| j["configuration"]["x"] = json!("1"))),
        ("the property `y` of an aggregate call", Box::new(|j| j["aggCalls"][0]["y"] = json!("1"))),
        ("`grouping` is not a list of column numbers", Box::new(|j| j["grouping"] = json!([-1]))),
        ("`filterArg` is not a column number", Box::new(|j| j["aggCalls"][0]["filterArg"] = json!(-2))),
        ("is not a time to live", Box::new(|j| j["state"][0]["ttl"] = json!("forever"))),
        ("the output type is not a ROW", Box::new(|j| j["outputType"] = json!("INT"))),
    ];
    for (expected, change) in cases {
        match aggregate_with(change)? {
            NodeKind::Stock(reason) => assert!(reason.to_string().contains(expected), "{reason}, not {expected}"),
            other => panic!("{expected}: {other:?}"),
        }
    }
    Ok(())
}

#[test]
fn an_operator_that_is_not_supported_is_named_as_explain_names_it() -> TestResult {
    let json = serde_json::json!({"id": 1, "type": "stream-exec-group-window-xyz_1", "outputType": "ROW<`a` INT>"});
    let NodeKind::Stock(reason) = read_node(&json, vec![0], &Config::new()).kind else { panic!("it is typed") };
    assert_eq!(reason.to_string(), "the operator GroupWindowXyz is not supported natively");
    Ok(())
}

#[test]
fn a_node_nested_too_deeply_costs_only_itself() -> TestResult {
    let mut rex = r#"{"kind":"INPUT_REF","inputIndex":0,"type":"INT"}"#.to_owned();
    for _ in 0..10_000 {
        rex = format!(r#"{{"kind":"CALL","internalName":"$+$1","operands":[{rex}],"type":"INT"}}"#);
    }
    let text = format!(
        r#"{{"nodes":[{{"id":1,"type":"stream-exec-values_1","outputType":"ROW<`a` INT>"}},
            {{"id":2,"type":"stream-exec-calc_1","outputType":"ROW<`a` INT>","projection":[{rex}]}}],
            "edges":[{{"source":1,"target":2}}]}}"#
    );
    let graph = Graph::read(&text)?;
    assert!(
        matches!(&graph.nodes[1].kind, NodeKind::Stock(r) if r.to_string().contains("`projection` cannot be read"))
    );
    Ok(())
}

#[test]
fn a_text_that_is_no_plan_is_an_error() {
    let node = |id: i64| json!({"id": id, "type": "stream-exec-union_1", "outputType": "ROW<`a` INT>"});
    let edge = |source: i64, target: i64| json!({"source": source, "target": target});
    let read = |json: Value| Graph::read(&json.to_string());
    assert!(matches!(Graph::read("{"), Err(PlanError::Json { .. })));
    assert!(matches!(Graph::read("[]"), Err(PlanError::Json { .. })));
    assert!(matches!(read(json!({"nodes": [1]})), Err(PlanError::NodeWithoutId { position: 0 })));
    assert!(matches!(read(json!({"nodes": [node(1), node(1)]})), Err(PlanError::DuplicateId { id: 1 })));
    assert!(matches!(read(json!({"nodes": [node(1)], "edges": [edge(2, 1)]})), Err(PlanError::UnknownNode { id: 2 })));
    assert!(matches!(read(json!({"nodes": [node(1)], "edges": [edge(1, 2)]})), Err(PlanError::UnknownNode { id: 2 })));
    let cycle = json!({"nodes": [node(1), node(2)], "edges": [edge(1, 2), edge(2, 1)]});
    assert!(matches!(read(cycle), Err(PlanError::Cycle { id: 1 })));
}

#[test]
fn inputs_stand_before_their_readers() -> TestResult {
    let node = |id: i64| json!({"id": id, "type": "stream-exec-union_1", "outputType": "ROW<`a` INT>"});
    let edges = json!([{"source": 3, "target": 1}, {"source": 2, "target": 1}]);
    let graph = Graph::read(&json!({"nodes": [node(1), node(2), node(3)], "edges": edges}).to_string())?;
    assert_eq!(graph.topological(), [1, 2, 0]);
    assert_eq!(graph.nodes[0].inputs, [3, 2]);
    Ok(())
}

#[test]
fn a_node_that_flink_cannot_write_says_why() -> TestResult {
    let node = json!({"id": 1, "type": "unserializable", "reason": "no metadata", "outputType": null});
    let bare = json!({"id": 2, "type": "unserializable"});
    let graph = Graph::read(&json!({"nodes": [node, bare]}).to_string())?;
    assert_eq!(graph.nodes[0].kind, NodeKind::Stock(Reason::new("no metadata")));
    assert_eq!(graph.nodes[1].kind, NodeKind::Stock(Reason::new("Flink cannot write this operator into a plan")));
    Ok(())
}

#[test]
fn an_edge_that_shuffles_by_itself_keeps_its_reader_on_flink() -> TestResult {
    let node =
        |id: i64, name: &str| json!({"id": id, "type": format!("stream-exec-{name}_1"), "outputType": "ROW<`a` INT>"});
    let read = |shuffle: &str| {
        let edge = json!({"source": 1, "target": 2, "shuffle": {"type": shuffle}});
        Graph::read(&json!({"nodes": [node(1, "values"), node(2, "union")], "edges": [edge]}).to_string())
    };
    assert_eq!(read("FORWARD")?.nodes[1].kind, NodeKind::Union);
    assert!(matches!(&read("HASH")?.nodes[1].kind, NodeKind::Stock(r) if r.to_string().contains("unknown shuffle")));
    Ok(())
}

#[test]
fn accumulators_that_hold_a_map_are_views() {
    let raw = |class: &str| json!({"type": "RAW", "class": class, "externalDataType": "x"});
    let accumulator = |name: &str| {
        let package = "org.apache.flink.table.runtime.functions.aggregate";
        json!({"type": "STRUCTURED_TYPE", "implementationClass": format!("{package}.{name}"), "attributes": []})
    };
    let of = |json: Value| read_type(&json).map(|ty| ty.kind);
    assert_eq!(of(raw("org.apache.flink.table.api.dataview.MapView")), Ok(TypeKind::View));
    assert_eq!(of(accumulator("MinWithRetractAggFunction$MinWithRetractAccumulator")), Ok(TypeKind::View));
    assert_eq!(of(accumulator("MaxWithRetractAggFunction$MaxWithRetractAccumulator")), Ok(TypeKind::View));
    assert_eq!(of(raw("org.apache.flink.table.api.dataview.ListView")), Ok(TypeKind::Other("RAW".to_owned())));
    assert_eq!(of(accumulator("Other")), Ok(TypeKind::Other("STRUCTURED_TYPE".to_owned())));
}
