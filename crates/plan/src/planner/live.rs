//! Which fields of each node's output are read by anyone, nested fields included.
//!
//! Walked from readers to inputs through native nodes. Whatever leaves for Flink is read whole, and so are the inputs of an
//! expression that runs in the JVM. An expression that is more than a path to a column is always evaluated, also when its
//! result is not read: Flink would evaluate it, and it may fail.
//!
//! Invariant: what one stage writes as batches is exactly what the stage behind it reads. The inputs of a union therefore
//! all have the same fields.

use super::{Decisions, Edges};
use crate::capability::Host;
use crate::entry::EntryField;
use crate::node::{AggCall, Calc, Correlate, Distribution, Node, NodeKind, WindowSpec};
use crate::reader::Graph;
use crate::rex::Rex;
use crate::types::{Field, LogicalType};

/// Per node, in the order of the graph, the fields of its output that are read.
pub(super) type Live = Vec<Vec<EntryField>>;

/// Computes [`Live`].
pub(super) fn fields_live(graph: &Graph, edges: &Edges, decisions: &Decisions) -> Live {
    let mut floor: Live = graph.nodes.iter().map(|node| nothing(&node.output)).collect();
    loop {
        let mut live = floor.clone();
        for &position in graph.topological().iter().rev() {
            let readers = &edges.readers[position];
            if readers.is_empty() || readers.iter().any(|reader| decisions[*reader].is_err()) {
                live[position] = everything(&graph.nodes[position].output);
                continue;
            }
            for &reader in readers {
                let demand = demand(graph, decisions, &live, reader, &graph.nodes[position].output);
                merge(&mut live[position], &demand);
            }
        }
        let mut settled = true;
        for (position, node) in graph.nodes.iter().enumerate() {
            if node.kind != NodeKind::Union || decisions[position].is_err() {
                continue;
            }
            let union = reads(graph, decisions, &live, position, &edges.inputs[position]);
            for &input in edges.inputs[position].iter().filter(|input| decisions[**input].is_ok()) {
                if live[input] != union {
                    merge(&mut floor[input], &union);
                    settled = false;
                }
            }
        }
        if settled {
            return live;
        }
    }
}

/// What is there of each field of one input, into which the nodes `inputs` are merged, where the native node at `position`
/// begins a stage.
pub(super) fn reads(
    graph: &Graph,
    decisions: &Decisions,
    live: &Live,
    position: usize,
    inputs: &[usize],
) -> Vec<EntryField> {
    let Some(&first) = inputs.first() else {
        return Vec::new();
    };
    let mut reads = demand(graph, decisions, live, position, &graph.nodes[first].output);
    for &input in inputs.iter().filter(|input| decisions[**input].is_ok()) {
        merge(&mut reads, &live[input]);
    }
    reads
}

/// What is there of each field of a node on Flink whose rows become batches once, for these native readers of its own.
pub(super) fn reads_together(
    graph: &Graph,
    decisions: &Decisions,
    live: &Live,
    producer: usize,
    readers: &[usize],
) -> Vec<EntryField> {
    let output = &graph.nodes[producer].output;
    let mut reads = nothing(output);
    for &reader in readers {
        merge(&mut reads, &demand(graph, decisions, live, reader, output));
    }
    reads
}

/// Number of columns in the column tree of these fields.
pub(super) fn columns(fields: &[EntryField]) -> usize {
    fields.iter().map(EntryField::columns).sum()
}

/// All fields of a ROW.
pub(super) fn everything(row: &LogicalType) -> Vec<EntryField> {
    row.fields().iter().map(|field| EntryField::whole(&field.ty)).collect()
}

fn nothing(row: &LogicalType) -> Vec<EntryField> {
    vec![EntryField::Skip; row.fields().len()]
}

fn merge(fields: &mut [EntryField], others: &[EntryField]) {
    for (field, other) in fields.iter_mut().zip(others) {
        field.merge(other);
    }
}

/// The fields of an input of type `input` that the native node at `reader` reads. All inputs of one type are read alike.
fn demand(graph: &Graph, decisions: &Decisions, live: &Live, reader: usize, input: &LogicalType) -> Vec<EntryField> {
    let (Ok(native), Node { kind, .. }) = (&decisions[reader], &graph.nodes[reader]) else {
        return everything(input);
    };
    let mut demand = match kind {
        NodeKind::Union
        | NodeKind::DropUpdateBefore
        | NodeKind::Exchange(_)
        | NodeKind::MiniBatchAssigner(_)
        | NodeKind::WatermarkAssigner(_) => live[reader].clone(),
        // rows wait in state until their session is over
        NodeKind::WindowTableFunction(function) if matches!(function.windowing.window, WindowSpec::Session { .. }) => {
            everything(input)
        }
        // the columns behind the input's are made here
        NodeKind::WindowTableFunction(_) | NodeKind::LookupJoin(_) | NodeKind::Correlate(_) => {
            live[reader].iter().take(input.fields().len()).cloned().collect()
        }
        NodeKind::Calc(_)
        | NodeKind::Expand(_)
        | NodeKind::GroupAggregate(_)
        | NodeKind::LocalGroupAggregate(_)
        | NodeKind::WindowAggregate(_)
        | NodeKind::LocalWindowAggregate(_)
        | NodeKind::GroupWindowAggregate(_) => nothing(input),
        // Keys, accumulators and views: all of it is merged.
        NodeKind::GlobalGroupAggregate(_)
        | NodeKind::IncrementalGroupAggregate(_)
        | NodeKind::GlobalWindowAggregate(_) => everything(input),
        // Rows are kept, and compared, whole: whether a change is one must not depend on who reads it, and neither must
        // what is in state.
        NodeKind::ChangelogNormalize(_)
        | NodeKind::Deduplicate(_)
        | NodeKind::Rank(_)
        | NodeKind::SortLimit(_)
        | NodeKind::Limit(_)
        | NodeKind::Join(_)
        | NodeKind::IntervalJoin(_)
        | NodeKind::TemporalJoin(_)
        | NodeKind::OverAggregate(_)
        | NodeKind::TemporalSort(_)
        | NodeKind::WindowRank(_)
        | NodeKind::WindowDeduplicate(_)
        | NodeKind::WindowJoin(_) => everything(input),
        NodeKind::Stock(_) => everything(input),
    };
    let mut reads = Reads { fields: input.fields(), demand: &mut demand, hosts: &native.hosts };
    match kind {
        NodeKind::Calc(calc) => reads.calc(calc, &live[reader]),
        NodeKind::Expand(expand) => {
            for (position, projection) in expand.projects.iter().enumerate() {
                reads.projection(projection, &format!("/projects/{position}"), &live[reader]);
            }
        }
        NodeKind::Exchange(Distribution::Hash(keys)) => reads.whole(keys.iter().copied()),
        NodeKind::WatermarkAssigner(assigner) => {
            reads.whole([assigner.row_time]);
            reads.expression(&assigner.watermark, "/watermarkExpr");
        }
        NodeKind::WindowTableFunction(function) => reads.whole(function.windowing.columns()),
        NodeKind::Correlate(correlate) => reads.expression(&correlate.collection, Correlate::COLLECTION),
        NodeKind::LookupJoin(join) => reads.whole(join.reads(input.fields().len())),
        NodeKind::GroupAggregate(aggregate) => reads.aggregate(&aggregate.grouping, &aggregate.calls),
        NodeKind::LocalGroupAggregate(aggregate) => reads.aggregate(&aggregate.grouping, &aggregate.calls),
        NodeKind::WindowAggregate(aggregate) => {
            reads.aggregate(&aggregate.grouping, &aggregate.calls);
            reads.whole(aggregate.windowing.columns());
        }
        NodeKind::GroupWindowAggregate(aggregate) => {
            reads.aggregate(&aggregate.grouping, &aggregate.calls);
            reads.whole(aggregate.read_time());
        }
        NodeKind::LocalWindowAggregate(aggregate) => {
            reads.aggregate(&aggregate.grouping, &aggregate.calls);
            reads.whole(aggregate.windowing.columns());
        }
        _ => {}
    }
    demand
}

/// The fields of an input row that are read so far.
struct Reads<'a> {
    fields: &'a [Field],
    demand: &'a mut [EntryField],
    hosts: &'a [Host],
}

impl Reads<'_> {
    fn whole(&mut self, columns: impl IntoIterator<Item = usize>) {
        for column in columns {
            if let (Some(demand), Some(field)) = (self.demand.get_mut(column), self.fields.get(column)) {
                demand.merge(&EntryField::whole(&field.ty));
            }
        }
    }

    fn aggregate(&mut self, grouping: &[usize], calls: &[AggCall]) {
        self.whole(grouping.iter().copied());
        for call in calls {
            self.whole(call.args.iter().chain(&call.filter).copied());
        }
    }

    fn calc(&mut self, calc: &Calc, live: &[EntryField]) {
        self.projection(&calc.projection, "/projection", live);
        if let Some(condition) = &calc.condition {
            self.expression(condition, "/condition");
        }
    }

    /// The expressions at a JSON pointer, for the columns of the output that are read.
    fn projection(&mut self, projection: &[Rex], pointer: &str, live: &[EntryField]) {
        for (position, (rex, live)) in projection.iter().zip(live).enumerate() {
            let pointer = format!("{pointer}/{position}");
            match path(rex) {
                Some(path) if !self.is_host(&pointer) => self.place(&path, live),
                _ => self.expression(rex, &pointer),
            }
        }
    }

    fn is_host(&self, pointer: &str) -> bool {
        self.hosts.iter().any(|host| host.pointer == pointer)
    }

    fn expression(&mut self, rex: &Rex, pointer: &str) {
        if let Some(host) = self.hosts.iter().find(|host| host.pointer == pointer) {
            return self.whole(host.inputs.iter().copied());
        }
        if let (Some(path), Some(ty)) = (path(rex), rex.ty()) {
            return self.place(&path, &EntryField::whole(ty));
        }
        match rex {
            Rex::Call { operands, .. } => {
                for (position, operand) in operands.iter().enumerate() {
                    self.expression(operand, &format!("{pointer}/operands/{position}"));
                }
            }
            Rex::Search { operand, .. } => self.expression(operand, &format!("{pointer}/operands/0")),
            Rex::FieldAccess { expr, .. } => self.expression(expr, &format!("{pointer}/expr")),
            Rex::Unknown { .. } => self.whole(0..self.fields.len()),
            Rex::InputRef { .. } | Rex::Literal { .. } => {}
        }
    }

    /// Adds `value` at the end of a path: a column, then fields of ROWs.
    fn place(&mut self, path: &[usize], value: &EntryField) {
        if let Some((column, rest)) = path.split_first()
            && let (Some(demand), Some(field)) = (self.demand.get_mut(*column), self.fields.get(*column))
        {
            place(demand, &field.ty, rest, value);
        }
    }
}

fn place(demand: &mut EntryField, ty: &LogicalType, path: &[usize], value: &EntryField) {
    let Some((field, rest)) = path.split_first() else {
        return demand.merge(value);
    };
    if *value == EntryField::Skip {
        return;
    }
    if *demand == EntryField::Skip {
        *demand = EntryField::Row(nothing(ty));
    }
    if let (EntryField::Row(children), Some(child)) = (demand, ty.fields().get(*field))
        && let Some(demand) = children.get_mut(*field)
    {
        place(demand, &child.ty, rest, value);
    }
}

/// Column and field positions, if the expression is a path to a field and nothing more.
fn path(rex: &Rex) -> Option<Vec<usize>> {
    match rex {
        Rex::InputRef { index, .. } => Some(vec![*index]),
        Rex::FieldAccess { expr, index, .. } => {
            let mut path = path(expr)?;
            path.push(*index);
            Some(path)
        }
        _ => None,
    }
}
