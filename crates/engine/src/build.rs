//! Makes the operators of a stage from what the planner said about its nodes.

use std::collections::HashMap;
use std::sync::Arc;

use streamfusion_expr::{HostFunction, host_calls};
use streamfusion_operators::deduplicate::is_stateful;
use streamfusion_operators::{
    Calc, ChangelogNormalize, Correlate, Deduplicate, DropUpdateBefore, Expand, GlobalGroupAgg, GroupAgg,
    IncrementalGroupAgg, Join, LocalGroupAgg, LocalWindowAgg, LookupJoin, MiniBatchAssigner, Operator, StateBackend,
    WatermarkAssigner, WindowAgg, WindowDeduplicate, WindowJoin, WindowTableFunction, group_window, interval_join,
    over, rank, temporal_join, temporal_sort, unslicing, window_rank,
};
use streamfusion_plan::node::{self, NodeKind, WindowSpec};
use streamfusion_plan::spec::{SpecHost, SpecNode};
use streamfusion_plan::types::LogicalType;
use streamfusion_state::StateContext;

use crate::capabilities::expressions;
use crate::error::{EngineError, NodeName, unsupported};
use crate::stage::HostFactory;

/// The operator of a node; `None` for a union, whose inputs Flink has merged already.
pub(crate) fn operator(
    spec: &SpecNode,
    context: Option<&StateContext>,
    backend: StateBackend,
    numbers: &[SpecHost],
    hosts: &HostFactory<'_>,
) -> Result<Option<Box<dyn Operator>>, EngineError> {
    let failed = |source| EngineError::Operator { node: node_name(spec), source };
    Ok(match &spec.node.kind {
        NodeKind::Calc(calc) => {
            let functions = functions(spec, numbers, hosts)?;
            Some(Box::new(Calc::try_new(calc, &|pointer| functions.get(pointer).cloned()).map_err(failed)?))
        }
        NodeKind::WatermarkAssigner(assigner) => {
            let functions = functions(spec, numbers, hosts)?;
            let find = |pointer: &str| functions.get(pointer).cloned();
            Some(Box::new(WatermarkAssigner::try_new(assigner, &find).map_err(failed)?))
        }
        NodeKind::WindowTableFunction(function) if matches!(function.windowing.window, WindowSpec::Session { .. }) => {
            let (input, context) = keyed(spec, context)?;
            Some(unslicing::open_session_function(function, input, context).map_err(failed)?)
        }
        NodeKind::WindowTableFunction(function) => {
            Some(Box::new(WindowTableFunction::try_new(function).map_err(failed)?))
        }
        NodeKind::Correlate(correlate) => {
            let functions = functions(spec, numbers, hosts)?;
            let find = |pointer: &str| functions.get(pointer).cloned();
            Some(Box::new(Correlate::try_new(correlate, &find).map_err(failed)?))
        }
        NodeKind::Expand(expand) => Some(Box::new(Expand::try_new(expand).map_err(failed)?)),
        NodeKind::DropUpdateBefore => Some(Box::new(DropUpdateBefore::new())),
        NodeKind::GroupAggregate(aggregate) => {
            let input = spec.inputs.first().ok_or_else(|| unsupported("GROUP BY has no input"))?;
            let context = context.ok_or_else(|| unsupported("GROUP BY was opened without a range of keys"))?;
            Some(Box::new(GroupAgg::try_new(aggregate, input, context).map_err(failed)?))
        }
        NodeKind::LocalGroupAggregate(aggregate) => {
            let input = spec.inputs.first().ok_or_else(|| unsupported("a local aggregate has no input"))?;
            Some(Box::new(LocalGroupAgg::try_new(aggregate, input, &spec.node.output).map_err(failed)?))
        }
        NodeKind::GlobalGroupAggregate(aggregate) => {
            let (input, context) = keyed(spec, context)?;
            Some(Box::new(GlobalGroupAgg::try_new(aggregate, input, context).map_err(failed)?))
        }
        NodeKind::IncrementalGroupAggregate(aggregate) => {
            let (input, context) = keyed(spec, context)?;
            let output = &spec.node.output;
            Some(Box::new(IncrementalGroupAgg::try_new(aggregate, input, output, context).map_err(failed)?))
        }
        NodeKind::ChangelogNormalize(normalize) => {
            let (input, context) = keyed(spec, context)?;
            Some(Box::new(ChangelogNormalize::try_new(normalize, input, context).map_err(failed)?))
        }
        NodeKind::Deduplicate(deduplicate) if !is_stateful(deduplicate) => Some(Box::new(Deduplicate::stateless())),
        NodeKind::Deduplicate(deduplicate) => {
            let (input, context) = keyed(spec, context)?;
            Some(Box::new(Deduplicate::try_new(deduplicate, input, backend, context).map_err(failed)?))
        }
        NodeKind::WindowAggregate(aggregate) if !matches!(aggregate.windowing.window, WindowSpec::Session { .. }) => {
            let (input, context) = keyed(spec, context)?;
            Some(Box::new(WindowAgg::try_new(aggregate, input, context).map_err(failed)?))
        }
        NodeKind::LocalWindowAggregate(aggregate) => {
            let input = spec.inputs.first().ok_or_else(|| unsupported("a local aggregate has no input"))?;
            Some(Box::new(LocalWindowAgg::try_new(aggregate, input).map_err(failed)?))
        }
        NodeKind::GlobalWindowAggregate(aggregate) => {
            let (input, context) = keyed(spec, context)?;
            Some(Box::new(WindowAgg::try_new_global(aggregate, input, context).map_err(failed)?))
        }
        NodeKind::MiniBatchAssigner(assigner) => Some(Box::new(MiniBatchAssigner::new(assigner))),
        NodeKind::Join(join) => {
            let (left, context) = keyed(spec, context)?;
            let right = spec.inputs.get(1).ok_or_else(|| unsupported("a join has one input"))?;
            Some(Box::new(Join::try_new(join, left, right, context).map_err(failed)?))
        }
        NodeKind::IntervalJoin(join) => {
            let [left, right] = &spec.inputs[..] else { return Err(unsupported("a join has not two inputs")) };
            Some(interval_join::open(join, left, right, context).map_err(failed)?)
        }
        NodeKind::TemporalJoin(join) => {
            let (left, context) = keyed(spec, context)?;
            let right = spec.inputs.get(1).ok_or_else(|| unsupported("a join has one input"))?;
            Some(temporal_join::open(join, left, right, context).map_err(failed)?)
        }
        NodeKind::LookupJoin(join) => {
            let input = spec.inputs.first().ok_or_else(|| unsupported("a lookup join has no input"))?;
            let width = input.fields().len();
            let number = numbers
                .iter()
                .position(|host| host.node == spec.node.id && host.pointer == node::LookupJoin::LOOKUP)
                .ok_or_else(|| unsupported("the lookup has no function in the JVM"))?;
            let found = spec.node.output.fields().len().saturating_sub(width);
            Some(Box::new(LookupJoin::new(hosts(number, &join.reads(width)), found)))
        }
        NodeKind::Rank(rank) | NodeKind::SortLimit(rank) | NodeKind::Limit(rank) => {
            let (input, context) = keyed(spec, context)?;
            Some(rank::open(rank, input, context).map_err(failed)?)
        }
        NodeKind::WindowAggregate(aggregate) if matches!(aggregate.windowing.window, WindowSpec::Session { .. }) => {
            let (input, context) = keyed(spec, context)?;
            Some(unslicing::open_sessions(aggregate, input, context).map_err(failed)?)
        }
        NodeKind::GroupWindowAggregate(aggregate) => {
            let (input, context) = keyed(spec, context)?;
            Some(group_window::open(aggregate, input, context).map_err(failed)?)
        }
        NodeKind::OverAggregate(aggregate) => {
            let (input, context) = keyed(spec, context)?;
            Some(over::open(aggregate, input, backend, context).map_err(failed)?)
        }
        NodeKind::TemporalSort(sort) => match spec.inputs.first() {
            // rows go on as they come
            Some(input) if !temporal_sort::is_stateful(sort, input) => None,
            _ => {
                let (input, context) = keyed(spec, context)?;
                Some(temporal_sort::open(sort, input, context).map_err(failed)?)
            }
        },
        NodeKind::WindowRank(rank) => {
            let (input, context) = keyed(spec, context)?;
            Some(window_rank::open(rank, input, context).map_err(failed)?)
        }
        NodeKind::WindowDeduplicate(deduplicate) => {
            let (input, context) = keyed(spec, context)?;
            Some(Box::new(WindowDeduplicate::try_new(deduplicate, input, context).map_err(failed)?))
        }
        NodeKind::WindowJoin(join) => {
            let (left, context) = keyed(spec, context)?;
            let right = spec.inputs.get(1).ok_or_else(|| unsupported("a join has one input"))?;
            Some(Box::new(WindowJoin::try_new(join, left, right, context).map_err(failed)?))
        }
        NodeKind::Union => None,
        NodeKind::Exchange(_) => return Err(unsupported("an exchange stands inside a stage")),
        NodeKind::Stock(reason) => return Err(EngineError::Unsupported(reason.clone())),
        _ => return Err(EngineError::Unsupported(spec.node.not_supported())),
    })
}

/// The expressions of a node that run in the JVM, by their JSON pointers.
fn functions(
    spec: &SpecNode,
    numbers: &[SpecHost],
    hosts: &HostFactory<'_>,
) -> Result<HashMap<String, Arc<dyn HostFunction>>, EngineError> {
    let mut functions = HashMap::new();
    for (pointer, rex) in expressions(&spec.node.kind) {
        for call in host_calls(rex, &pointer).map_err(EngineError::Unsupported)? {
            let number = numbers
                .iter()
                .position(|host| host.node == spec.node.id && host.pointer == call.pointer)
                .ok_or_else(|| unsupported("an expression of the stage has no function in the JVM"))?;
            functions.insert(call.pointer, hosts(number, &call.inputs));
        }
    }
    Ok(functions)
}

/// The input of a keyed operator, and which keys it owns.
fn keyed<'a>(
    spec: &'a SpecNode,
    context: Option<&'a StateContext>,
) -> Result<(&'a LogicalType, &'a StateContext), EngineError> {
    let input = spec.inputs.first().ok_or_else(|| unsupported("a keyed operator has no input"))?;
    let context = context.ok_or_else(|| unsupported("a keyed operator was opened without a range of keys"))?;
    Ok((input, context))
}

pub(crate) fn node_name(node: &SpecNode) -> NodeName {
    NodeName { id: node.node.id, description: node.node.description.clone() }
}
