//! What this engine runs natively, asked node by node.

use streamfusion_expr::clock::{self, Clock};
use streamfusion_expr::host_calls;
use streamfusion_operators::{
    StateBackend, changelog_normalize, correlate, deduplicate, expand, group_agg, group_window, interval_join, join,
    lookup_join, over, rank, temporal_join, temporal_sort, unslicing, watermark_assigner, window_agg,
    window_deduplicate, window_join, window_rank, window_table_function,
};
use streamfusion_plan::node::{Correlate, Distribution, LookupJoin, Node, NodeKind, WindowSpec};
use streamfusion_plan::reader::Config;
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::LogicalType;
use streamfusion_plan::{Capabilities, Host, NativeNode, Reason};
use streamfusion_row::binary::KeyEncoder;
use streamfusion_row::types::arrow_type;

/// The capabilities of this version.
pub fn capabilities() -> impl Capabilities {
    Engine
}

struct Engine;

impl Capabilities for Engine {
    fn node(&self, node: &Node, inputs: &[&LogicalType], config: &Config) -> Result<NativeNode, Reason> {
        match &node.kind {
            NodeKind::Calc(_) => Ok(NativeNode { hosts: hosts(&node.kind)?, stateful: false, collects: false }),
            NodeKind::WatermarkAssigner(_) => {
                carried(&node.output)?;
                Ok(NativeNode { hosts: hosts(&node.kind)?, stateful: false, collects: false })
            }
            NodeKind::Union
            | NodeKind::DropUpdateBefore
            | NodeKind::MiniBatchAssigner(_)
            | NodeKind::Exchange(Distribution::Singleton) => {
                carried(&node.output)?;
                Ok(NativeNode::default())
            }
            NodeKind::Exchange(Distribution::Hash(keys)) => {
                carried(&node.output)?;
                hashable(keys, &node.output)?;
                Ok(NativeNode::default())
            }
            NodeKind::WindowTableFunction(spec) => {
                carried(&node.output)?;
                if let WindowSpec::Session { partition, .. } = &spec.windowing.window {
                    let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                    hashable(partition, input)?;
                    unslicing::supports_session_function(spec, input)?;
                    return Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false });
                }
                window_table_function::supports(spec)?;
                Ok(NativeNode::default())
            }
            NodeKind::Correlate(spec) => {
                correlate::supports(spec)?;
                carried(&node.output)?;
                Ok(NativeNode { hosts: hosts(&node.kind)?, stateful: false, collects: false })
            }
            NodeKind::Expand(spec) => {
                expand::supports(spec)?;
                carried(&node.output)?;
                Ok(NativeNode::default())
            }
            NodeKind::GroupAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("GROUP BY has more than one input")) };
                hashable(&spec.grouping, input)?;
                group_agg::supports(spec, input)?;
                carried(&node.output)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::LocalGroupAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.grouping, input)?;
                group_agg::supports_local(spec, input, &node.output)?;
                Ok(NativeNode { collects: true, ..NativeNode::default() })
            }
            NodeKind::GlobalGroupAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.grouping, input)?;
                group_agg::supports_global(spec, input)?;
                carried(&node.output)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::IncrementalGroupAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.partial_grouping, input)?;
                group_agg::supports_incremental(spec, input, &node.output)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::WindowAggregate(spec) if matches!(spec.windowing.window, WindowSpec::Session { .. }) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.grouping, input)?;
                unslicing::supports_sessions(spec, input)?;
                carried(&node.output)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::WindowAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.grouping, input)?;
                window_agg::supports(spec, input)?;
                carried(&node.output)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::LocalWindowAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.grouping, input)?;
                window_agg::supports_local(spec, input, &node.output)?;
                Ok(NativeNode { collects: true, ..NativeNode::default() })
            }
            NodeKind::GlobalWindowAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.grouping, input)?;
                window_agg::supports_global(spec, input)?;
                carried(&node.output)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::ChangelogNormalize(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.unique_keys, input)?;
                changelog_normalize::supports(spec, input)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::Deduplicate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.unique_keys, input)?;
                deduplicate::supports(spec, input)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: deduplicate::is_stateful(spec), collects: false })
            }
            NodeKind::Join(spec) => {
                let [left, right] = inputs else { return Err(Reason::new("a join has not two inputs")) };
                hashable(&spec.left.keys, left)?;
                hashable(&spec.right.keys, right)?;
                join::supports(spec, left, right)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::IntervalJoin(spec) => {
                let [left, right] = inputs else { return Err(Reason::new("a join has not two inputs")) };
                hashable(&spec.join.left_keys, left)?;
                hashable(&spec.join.right_keys, right)?;
                interval_join::supports(spec, left, right)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: interval_join::is_stateful(spec), collects: false })
            }
            NodeKind::TemporalJoin(spec) => {
                let [left, right] = inputs else { return Err(Reason::new("a join has not two inputs")) };
                hashable(&spec.join.left_keys, left)?;
                hashable(&spec.join.right_keys, right)?;
                temporal_join::supports(spec, left, right)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::LookupJoin(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                lookup_join::supports(spec)?;
                carried(&node.output)?;
                let host = Host {
                    pointer: LookupJoin::LOOKUP.to_owned(),
                    inputs: spec.reads(input.fields().len()),
                    expression: format!("lookup of {}", spec.table),
                    reason: Reason::new("the connector looks it up"),
                };
                Ok(NativeNode { hosts: vec![host], stateful: false, collects: false })
            }
            NodeKind::Rank(spec) | NodeKind::SortLimit(spec) | NodeKind::Limit(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.partition, input)?;
                rank::supports(spec, input)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::OverAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.partition, input)?;
                over::supports(spec, input, state_backend(config))?;
                carried(&node.output)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::TemporalSort(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                temporal_sort::supports(spec, input)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: temporal_sort::is_stateful(spec, input), collects: false })
            }
            NodeKind::WindowRank(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.partition, input)?;
                window_rank::supports(spec, input)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::WindowDeduplicate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.partition, input)?;
                window_deduplicate::supports(spec, input)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::WindowJoin(spec) => {
                let [left, right] = inputs else { return Err(Reason::new("a join has not two inputs")) };
                hashable(&spec.join.left_keys, left)?;
                hashable(&spec.join.right_keys, right)?;
                window_join::supports(spec, left, right)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::GroupWindowAggregate(spec) => {
                let [input] = inputs else { return Err(Reason::new("it has more than one input")) };
                hashable(&spec.grouping, input)?;
                group_window::supports(spec, input)?;
                carried(&node.output)?;
                Ok(NativeNode { hosts: Vec::new(), stateful: true, collects: false })
            }
            NodeKind::Stock(reason) => Err(reason.clone()),
        }
    }

    fn two_inputs(&self) -> bool {
        true
    }
}

/// The state backend of the job, as far as its configuration says.
fn state_backend(config: &Config) -> StateBackend {
    let backend = ["state.backend.type", "state.backend"].iter().find_map(|key| config.get(*key));
    match backend {
        Some(backend) if backend.trim().eq_ignore_ascii_case("rocksdb") => StateBackend::RocksDb,
        _ => StateBackend::Hashmap,
    }
}

/// Whether batches can carry every column of a row type.
fn carried(row: &LogicalType) -> Result<(), Reason> {
    row.fields().iter().try_for_each(|field| arrow_type(&field.ty).map(drop))
}

/// Whether Flink's key hash of these columns can be computed.
fn hashable(keys: &[usize], row: &LogicalType) -> Result<(), Reason> {
    let types = key_types(keys, row)?;
    KeyEncoder::try_new(&types).map(drop)
}

/// Types of the key columns.
pub(crate) fn key_types(keys: &[usize], row: &LogicalType) -> Result<Vec<LogicalType>, Reason> {
    keys.iter()
        .map(|key| row.fields().get(*key).map(|field| field.ty.clone()))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Reason::new("a key column does not exist"))
}

/// The expressions of a node that may run in the JVM, with their JSON pointers.
pub(crate) fn expressions(kind: &NodeKind) -> Vec<(String, &Rex)> {
    match kind {
        NodeKind::Calc(calc) => {
            let condition = calc.condition.iter().map(|rex| ("/condition".to_owned(), rex));
            let projection = calc.projection.iter().enumerate().map(|(i, rex)| (format!("/projection/{i}"), rex));
            condition.chain(projection).collect()
        }
        NodeKind::WatermarkAssigner(assigner) => {
            vec![(watermark_assigner::EXPRESSION.to_owned(), &assigner.watermark)]
        }
        NodeKind::Correlate(correlate) => vec![(Correlate::COLLECTION.to_owned(), &correlate.collection)],
        _ => Vec::new(),
    }
}

/// What of the expressions of a node runs in the JVM.
fn hosts(kind: &NodeKind) -> Result<Vec<Host>, Reason> {
    let mut hosts = Vec::new();
    let mut reads_clock = None;
    for (pointer, rex) in expressions(kind) {
        for call in host_calls(rex, &pointer)? {
            let expression = at(rex, call.pointer.strip_prefix(&pointer).unwrap_or_default());
            if let Some(function) = expression.and_then(|rex| clock::reader_of(rex, Clock::Record))
                && let Some(other) = reads_clock.replace(function)
            {
                return Err(two_clock_readings(other, function));
            }
            hosts.push(Host {
                pointer: call.pointer,
                inputs: call.inputs,
                expression: expression.map_or_else(|| "expression".to_owned(), name),
                reason: call.reason,
            });
        }
    }
    Ok(hosts)
}

fn two_clock_readings(first: &str, second: &str) -> Reason {
    let functions = if first == second { format!("{first} twice") } else { format!("{first} and {second}") };
    Reason::new(format!("{functions} must see one reading of the clock, which separate JVM expressions do not"))
}

/// The sub-expression at a JSON pointer relative to `rex`.
fn at<'a>(rex: &'a Rex, pointer: &str) -> Option<&'a Rex> {
    let mut parts = pointer.split('/').skip(1);
    let mut found = rex;
    while let Some(part) = parts.next() {
        found = match found {
            Rex::Call { operands, .. } => operands.get(parts.next()?.parse::<usize>().ok()?)?,
            Rex::Search { operand, .. } => {
                parts.next()?;
                operand
            }
            Rex::FieldAccess { expr, .. } if part == "expr" => expr,
            _ => return None,
        };
    }
    Some(found)
}

/// What a user calls this expression.
fn name(rex: &Rex) -> String {
    match rex {
        Rex::Call { function: Function::BuiltIn { name, .. }, .. } => name.clone(),
        Rex::Call { function: Function::User(name), .. } => name.clone(),
        Rex::Search { .. } => "SEARCH".to_owned(),
        Rex::FieldAccess { .. } => "field access".to_owned(),
        _ => "expression".to_owned(),
    }
}
