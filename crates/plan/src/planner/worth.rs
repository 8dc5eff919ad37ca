//! Weighs what an island saves against its entry and its exit.

use super::live::{Live, columns, everything, reads};
use super::{Decisions, Edges};
use crate::capability::{Host, NativeNode};
use crate::node::{Correlate, Node, NodeKind};
use crate::reader::Graph;
use crate::reason::Reason;
use crate::rex::Rex;
use crate::types::{LogicalType, TypeKind};

/// Session option. `false` runs natively whatever can, for tests and measurements of small islands.
const WEIGH: &str = "streamfusion.islands.weigh";

/// Flink's option that makes chained operators hand rows over as they are.
const OBJECT_REUSE: &str = "pipeline.object-reuse";

/// Work of a call that touches text, bytes or decimals, in calls on values of fixed width.
const HEAVY_CALL: usize = 4;

/// Connected native nodes, as far as the weighing rule looks at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Island {
    /// Whether one of them keeps state.
    pub stateful: bool,
    /// Native function calls per row: 1 each, 4 where text, bytes or decimals are involved.
    pub work: usize,
    /// Columns that Flink would copy per row: it copies a row for each operator that is chained behind another.
    pub copies: usize,
    /// Columns that are converted per row: those that enter, those that exit, and the inputs and the result of each
    /// expression that runs in the JVM.
    pub columns: usize,
}

/// Whether an island is faster than Flink.
///
/// A stateful operator always is: it looks its keys up once per batch. Everything else has its expressions to offer, and the
/// copies that Flink makes of a row on its way through a chain: an entry needs none. Converting a column costs a few nanoseconds
/// per row, about what a native call saves over Flink's generated code and what a copied column costs, so an island must make up for
/// each column that it converts. A lone projection, filter or exchange stays; with a watermark assigner behind it, it does not.
pub fn worth_it(island: &Island) -> Result<(), Reason> {
    let saved = island.work + island.copies;
    if island.stateful || (saved > 0 && saved >= island.columns) {
        return Ok(());
    }
    let columns = island.columns;
    Err(Reason::new(if island.work == 0 {
        format!("natively it would not be faster: nothing is computed, and {columns} columns have to be converted")
    } else {
        format!("natively it would not be faster: it computes too little for the {columns} columns to be converted")
    }))
}

/// Leaves every island on Flink that is not worth it, unless the session says that whatever can run natively shall.
pub(super) fn weigh(graph: &Graph, edges: &Edges, live: &Live, decisions: &mut Decisions) {
    if graph.config.get(WEIGH).is_some_and(|value| value.trim().eq_ignore_ascii_case("false")) {
        return;
    }
    let mut seen = vec![false; graph.nodes.len()];
    for start in 0..graph.nodes.len() {
        if seen[start] || decisions[start].is_err() {
            continue;
        }
        let mut members = vec![start];
        seen[start] = true;
        let mut next = 0;
        while let Some(&position) = members.get(next) {
            next += 1;
            for &neighbour in edges.inputs[position].iter().chain(&edges.readers[position]) {
                if !seen[neighbour] && decisions[neighbour].is_ok() {
                    seen[neighbour] = true;
                    members.push(neighbour);
                }
            }
        }
        if let Err(reason) = worth_it(&island(graph, edges, live, decisions, &members)) {
            for member in members {
                decisions[member] = Err(reason.clone());
            }
        }
    }
}

fn island(graph: &Graph, edges: &Edges, live: &Live, decisions: &Decisions, members: &[usize]) -> Island {
    let mut island = Island::default();
    let copied = !graph.config.get(OBJECT_REUSE).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    for &position in members {
        let Ok(native) = &decisions[position] else { continue };
        let node = &graph.nodes[position];
        island.stateful |= native.stateful;
        island.work += work(node, native);
        if copied && let Some(row) = chained_input(graph, edges, position) {
            island.copies += columns(&everything(row));
        }
        island.columns += native.hosts.iter().map(|host| host.inputs.len() + 1).sum::<usize>();
        if let (NodeKind::LookupJoin(_), Some(&input)) = (&node.kind, edges.inputs[position].first()) {
            // what is found has more columns than the one of an expression
            let found = node.output.fields().len().saturating_sub(graph.nodes[input].output.fields().len());
            island.columns += found.saturating_sub(1);
        }
        let stock = |neighbours: &[usize]| neighbours.iter().any(|neighbour| decisions[*neighbour].is_err());
        for port in edges.ports(graph, position).into_iter().filter(|port| stock(port)) {
            island.columns += columns(&reads(graph, decisions, live, position, port));
        }
        if edges.readers[position].is_empty() || stock(&edges.readers[position]) {
            island.columns += columns(&everything(&node.output));
        }
    }
    island
}

/// The row that Flink copies for a node: there is an operator in front, and no network between them.
fn chained_input<'a>(graph: &'a Graph, edges: &Edges, position: usize) -> Option<&'a LogicalType> {
    let &[input] = edges.inputs[position].as_slice() else { return None };
    let input = &graph.nodes[input];
    let moves = |node: &Node| matches!(node.kind, NodeKind::Exchange(_));
    (!moves(&graph.nodes[position]) && !moves(input)).then_some(&input.output)
}

fn work(node: &Node, native: &NativeNode) -> usize {
    let calc = match &node.kind {
        NodeKind::Calc(calc) => calc,
        NodeKind::WatermarkAssigner(assigner) => return calls(&assigner.watermark, "/watermarkExpr", &native.hosts),
        NodeKind::Correlate(correlate) => return calls(&correlate.collection, Correlate::COLLECTION, &native.hosts),
        _ => return 0,
    };
    let projection = calc.projection.iter().enumerate().map(|(n, rex)| (rex, format!("/projection/{n}")));
    let condition = calc.condition.iter().map(|rex| (rex, "/condition".to_owned()));
    projection.chain(condition).map(|(rex, pointer)| calls(rex, &pointer, &native.hosts)).sum()
}

fn calls(rex: &Rex, pointer: &str, hosts: &[Host]) -> usize {
    if hosts.iter().any(|host| host.pointer == pointer) {
        return 0;
    }
    match rex {
        Rex::Call { operands, .. } => {
            let own = if operands.iter().chain([rex]).filter_map(Rex::ty).any(is_heavy) { HEAVY_CALL } else { 1 };
            let below =
                operands.iter().enumerate().map(|(n, rex)| calls(rex, &format!("{pointer}/operands/{n}"), hosts));
            own + below.sum::<usize>()
        }
        Rex::Search { operand, .. } => {
            let own = if operand.ty().is_some_and(is_heavy) { HEAVY_CALL } else { 1 };
            own + calls(operand, &format!("{pointer}/operands/0"), hosts)
        }
        Rex::FieldAccess { expr, .. } => calls(expr, &format!("{pointer}/expr"), hosts),
        Rex::InputRef { .. } | Rex::Literal { .. } | Rex::Unknown { .. } => 0,
    }
}

fn is_heavy(ty: &LogicalType) -> bool {
    matches!(
        ty.kind,
        TypeKind::Char(_)
            | TypeKind::VarChar(_)
            | TypeKind::Binary(_)
            | TypeKind::VarBinary(_)
            | TypeKind::Decimal { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stateful_operator_is_always_worth_it() {
        assert!(worth_it(&Island { stateful: true, columns: 100, ..Island::default() }).is_ok());
    }

    #[test]
    fn a_lone_projection_is_not_worth_it() {
        assert!(worth_it(&Island { columns: 14, copies: 7, ..Island::default() }).is_err());
        assert!(worth_it(&Island::default()).is_err());
    }

    #[test]
    fn expressions_and_copies_must_make_up_for_the_columns_converted() {
        assert!(worth_it(&Island { work: 6, columns: 7, ..Island::default() }).is_err());
        assert!(worth_it(&Island { work: 7, columns: 7, ..Island::default() }).is_ok());
        assert!(worth_it(&Island { work: 2, copies: 5, columns: 7, ..Island::default() }).is_ok());
    }
}
