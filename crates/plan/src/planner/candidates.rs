//! Which nodes could run natively, before anything is weighed.

use super::host::refuses_state;
use super::views::keep_together;
use super::{Decisions, Edges};
use crate::capability::{Capabilities, NativeNode};
use crate::check::check_node;
use crate::node::{Distribution, KeepRow, NodeKind, RankStrategy};
use crate::reader::Graph;
use crate::reason::Reason;
use crate::types::{LogicalType, TimeDomain, TypeKind};

/// The session's switch. Only `false` turns native execution off.
const ENABLED: &str = "streamfusion.enabled";

/// The candidates. An exchange or a union is one only if the operators behind it make it useful.
pub(super) fn decide(graph: &Graph, edges: &Edges, capabilities: &dyn Capabilities) -> Decisions {
    if graph.config.get(ENABLED).is_some_and(|value| value.trim().eq_ignore_ascii_case("false")) {
        return graph.nodes.iter().map(|_| Err(Reason::new(format!("{ENABLED} is false")))).collect();
    }
    let mut decisions: Decisions =
        (0..graph.nodes.len()).map(|position| decide_alone(graph, edges, position, capabilities)).collect();
    let mut settled = false;
    while !settled {
        keep_together(graph, edges, &mut decisions);
        settled = true;
        // Readers before their inputs: one pass settles a chain of exchanges and unions.
        for &position in graph.topological().iter().rev() {
            if decisions[position].is_ok()
                && let Some(reason) = useless(graph, position, &edges.readers[position], &decisions)
            {
                decisions[position] = Err(reason);
                settled = false;
            }
        }
    }
    decisions
}

fn decide_alone(
    graph: &Graph,
    edges: &Edges,
    position: usize,
    capabilities: &dyn Capabilities,
) -> Result<NativeNode, Reason> {
    let node = &graph.nodes[position];
    if let NodeKind::Stock(reason) = &node.kind {
        return Err(reason.clone());
    }
    let inputs: Vec<_> = edges.inputs[position].iter().map(|input| &graph.nodes[*input].output).collect();
    check_node(node, &inputs)?;
    if let Some(reason) = compares_unknown_rows(graph, edges, position) {
        return Err(reason);
    }
    let native = capabilities.node(node, &inputs, &graph.config)?;
    if node.kind.has_two_inputs() {
        if !capabilities.two_inputs() {
            return Err(Reason::new("operators with two inputs do not run natively yet"));
        }
        // A function in the JVM reads one row, and the type of that row is the type of one node.
        if !native.hosts.is_empty() {
            return Err(Reason::new("an expression over two inputs cannot run in the JVM"));
        }
    }
    match refuses_state(&graph.config) {
        Some(reason) if native.stateful => Err(reason),
        _ => Ok(native),
    }
}

/// Why it is not known what is an equal row to the node at `position`, if it asks.
///
/// Flink compares rows bit by bit where both are BinaryRowData, as they are behind an exchange, and FLOAT and DOUBLE by Java's
/// `==` elsewhere. And if objects are reused, the row that it has in state on the heap may be changed behind its back.
fn compares_unknown_rows(graph: &Graph, edges: &Edges, position: usize) -> Option<Reason> {
    let node = &graph.nodes[position];
    let (compares, compares_floats) = match &node.kind {
        NodeKind::ChangelogNormalize(normalize) => (normalize.ttl_ms == 0, true),
        NodeKind::Deduplicate(spec) => {
            (spec.time == TimeDomain::Proctime && spec.keep == KeepRow::Last && spec.ttl_ms == 0, true)
        }
        // over rows that are only inserted, a row is compared with its own copy alone
        NodeKind::Rank(rank) | NodeKind::SortLimit(rank) | NodeKind::Limit(rank) => {
            (true, rank.strategy == RankStrategy::Retract)
        }
        _ => (false, false),
    };
    if !compares {
        return None;
    }
    if graph.config.get("pipeline.object-reuse").is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
        return Some(Reason::new(
            "with pipeline.object-reuse, which rows Flink takes for equal depends on the operators around it",
        ));
    }
    let exchanged = |input: &usize| graph.nodes[*input].type_name == "stream-exec-exchange";
    if edges.inputs[position].iter().all(exchanged) {
        return None;
    }
    let are_compared = |columns| {
        Some(Reason::new(format!("rows with {columns} columns are compared natively only behind an exchange")))
    };
    match node.output.fields() {
        fields if compares_floats && fields.iter().any(|field| has_floats(&field.ty)) => {
            are_compared("FLOAT or DOUBLE")
        }
        // what is equal depends on whether Flink has them as bytes
        fields if compares_floats && fields.iter().any(|field| has_collections(&field.ty)) => {
            are_compared("ARRAY, MAP or MULTISET")
        }
        _ => None,
    }
}

/// Whether there is a FLOAT or DOUBLE in it, outside of collections.
fn has_floats(ty: &LogicalType) -> bool {
    matches!(ty.kind, TypeKind::Float | TypeKind::Double) || ty.fields().iter().any(|field| has_floats(&field.ty))
}

/// Whether there is an ARRAY, a MAP or a MULTISET in it.
fn has_collections(ty: &LogicalType) -> bool {
    matches!(ty.kind, TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Multiset(_))
        || ty.fields().iter().any(|field| has_collections(&field.ty))
}

/// Why a candidate of this kind does not help its readers.
fn useless(graph: &Graph, position: usize, readers: &[usize], decisions: &Decisions) -> Option<Reason> {
    let native = readers.iter().filter(|reader| decisions[**reader].is_ok()).count();
    match &graph.nodes[position].kind {
        _ if readers.is_empty() => Some(Reason::new("no operator reads from it")),
        // Flink's partitioner sees rows, ours sees batches: an exchange cannot serve both.
        NodeKind::Exchange(_) if native < readers.len() => {
            Some(Reason::new("an operator that it distributes rows to stays on Flink"))
        }
        // The union might read from it twice, and a fragment that comes twice is a fault.
        NodeKind::Exchange(Distribution::Hash(_))
            if graph.unaligned && readers.iter().any(|reader| graph.nodes[*reader].kind == NodeKind::Union) =>
        {
            Some(Reason::new("with unaligned checkpoints, a union cannot merge what it distributes"))
        }
        NodeKind::Union if native == 0 => Some(Reason::new("no operator behind it runs natively")),
        _ => None,
    }
}
