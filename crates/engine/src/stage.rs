//! A stage at work: batches are pushed in at one end and pulled out at the other.
//!
//! Output is pulled batch by batch, depth first: an operator is asked for its next batch only when the one behind it has
//! nothing left, so that an operator that multiplies rows never holds all of its output in the stage.
//! Invariant: when [`Stage::pull`] has returned `None`, no row is inside the stage except as operator state and, where batches
//! travel so, in front of the first operator (see [`crate::input`]).

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::json;
use streamfusion_expr::HostFunction;
use streamfusion_expr::host_calls;
use streamfusion_operators::deduplicate::{StoredKind, is_stateful};
use streamfusion_operators::{
    Calc, ChangelogNormalize, Deduplicate, DropUpdateBefore, GroupAgg, Operator, OperatorError,
};
use streamfusion_plan::Reason;
use streamfusion_plan::node::{Distribution, NodeKind};
use streamfusion_plan::spec::{EntrySpec, SpecHost, SpecNode, StageSpec};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::KeyGroup;
use streamfusion_row::entry::{ColumnTree, EntryBuffers};
use streamfusion_row::exchange::{FragmentSplitter, KeySplitter};
use streamfusion_row::names::RowNames;
use streamfusion_state::{KeyedState, StateContext};

use crate::capabilities::{calc_expressions, key_types};
use crate::error::{EngineError, NodeName};
use crate::input::{Input, InputError, ShuffleParameters};
use crate::metrics::NodeMetrics;
use crate::state::{StageMemory, StageSnapshot, StageState, StateParameters};

/// The Flink edge behind a stage that ends in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Subtasks of the next stage.
    pub channels: u32,
    /// Number of key groups.
    pub max_parallelism: u32,
}

/// Makes the function behind the host of this number, which reads these columns of its node's input.
pub type HostFactory<'a> = dyn Fn(usize, &[usize]) -> Arc<dyn HostFunction> + 'a;

/// A chain of operators, opened from what the planner said about it.
pub struct Stage {
    input: Input,
    /// Names that the first operator knows the fields of ROWs by.
    names: RowNames,
    links: Vec<Link>,
    state: Option<StageState>,
    exchange: Option<Exchange>,
    /// Input of a stage without operators, before the exchange.
    passed: VecDeque<Batch>,
    /// Output that is ready: the parts of one batch, after the exchange.
    ready: VecDeque<Batch>,
    /// Whether something failed, after which operators may be half-way through a batch.
    failed: bool,
}

struct Link {
    node: NodeName,
    operator: Box<dyn Operator>,
    metrics: NodeMetrics,
}

struct Exchange {
    node: NodeName,
    keys: Vec<usize>,
    key_types: Vec<LogicalType>,
    max_parallelism: u32,
    splitter: Splitter,
}

/// In which parts a batch leaves.
enum Splitter {
    Destinations(KeySplitter),
    Fragments(FragmentSplitter),
}

impl Stage {
    /// Opens a stage. `spec` is the planner's text for it, `edge` counts only behind an exchange, `state` is for a stage with
    /// keyed state, whose keys are then those of `state` alone.
    pub fn open(
        spec: &str,
        edge: Edge,
        state: Option<&StateParameters>,
        hosts: &HostFactory<'_>,
    ) -> Result<Self, EngineError> {
        let spec = StageSpec::read(spec)?;
        let context = state.map(StateParameters::context);
        let stored = state.map(|state| state.stored_kind).unwrap_or_default();
        let mut links = Vec::with_capacity(spec.nodes.len());
        for node in &spec.nodes {
            if let Some(operator) = operator(node, context.as_ref(), stored, &spec.hosts, hosts)? {
                links.push(Link { node: node_name(node), operator, metrics: NodeMetrics::default() });
            }
        }
        let operators = links.iter_mut().map(|link| (&link.node, link.operator.as_mut()));
        let state = StageState::find(operators, state)?;
        let exchange = match &spec.exchange {
            // Everything goes to the one subtask of the next stage; Flink's own partitioner knows that.
            None | Some(Distribution::Singleton) => None,
            Some(Distribution::Hash(keys)) => {
                let key_types = key_types(keys, spec.output()).map_err(EngineError::Unsupported)?;
                let max_parallelism = edge.max_parallelism;
                let splitter = KeySplitter::try_new(keys, &key_types, edge.channels, max_parallelism)
                    .map_err(EngineError::Unsupported)?;
                let splitter = Splitter::Destinations(splitter);
                let node = spec.nodes.last().map_or_else(NodeName::entry, node_name);
                Some(Exchange { node, keys: keys.clone(), key_types, max_parallelism, splitter })
            }
        };
        let input = spec.input.fields().iter().map(|field| field.ty.clone()).collect();
        let names = RowNames::new(match spec.nodes.first() {
            Some(SpecNode { node, .. }) if node.kind == NodeKind::Union => &node.output,
            _ => &spec.input,
        });
        Ok(Self {
            input: Input::new(input),
            names,
            links,
            state,
            exchange,
            passed: VecDeque::new(),
            ready: VecDeque::new(),
            failed: false,
        })
    }

    /// A stage of these operators, which are all node 9, without an exchange.
    #[cfg(test)]
    pub(crate) fn of_operators(
        operators: Vec<Box<dyn Operator>>,
        state: Option<&StateParameters>,
    ) -> Result<Self, EngineError> {
        let node = NodeName { id: 9, description: "sums".to_owned() };
        let link = |operator| Link { node: node.clone(), operator, metrics: NodeMetrics::default() };
        let mut links: Vec<_> = operators.into_iter().map(link).collect();
        let state = StageState::find(links.iter_mut().map(|link| (&link.node, link.operator.as_mut())), state)?;
        let none = LogicalType { nullable: false, kind: streamfusion_plan::types::TypeKind::Row([].into()) };
        Ok(Self {
            input: Input::new(Vec::new()),
            names: RowNames::new(&none),
            links,
            state,
            exchange: None,
            passed: VecDeque::new(),
            ready: VecDeque::new(),
            failed: false,
        })
    }

    /// Says how batches travel to and from this stage, where that is not as a batch each. To be called before the first batch.
    pub fn shuffle(&mut self, parameters: &ShuffleParameters) -> Result<(), EngineError> {
        self.input.configure(parameters);
        if let Some(sender) = &parameters.sender {
            let exchange = self.exchange.as_mut().ok_or_else(|| unsupported("no exchange stands behind the stage"))?;
            let Exchange { keys, key_types, max_parallelism, .. } = exchange;
            let splitter = FragmentSplitter::try_new(keys, key_types, *max_parallelism, sender.epoch());
            exchange.splitter = Splitter::Fragments(splitter.map_err(EngineError::Unsupported)?);
        }
        Ok(())
    }

    /// Takes one batch. Its output must be pulled before the next batch is pushed.
    ///
    /// After an error, here or in [`Stage::pull`], every further call fails.
    pub fn push(&mut self, batch: Batch) -> Result<(), EngineError> {
        self.with_input(|input| input.push(batch))?;
        self.guarded(|stage| stage.feed().map(drop))
    }

    /// Takes one batch in its wire form.
    pub fn push_encoded(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        self.with_input(|input| input.push_encoded(bytes))?;
        self.guarded(|stage| stage.feed().map(drop))
    }

    /// Lets rows go that wait for more; what comes of them is to be pulled.
    pub fn flush(&mut self) -> Result<(), EngineError> {
        self.with_input(Input::flush)?;
        self.guarded(|stage| stage.feed().map(drop))
    }

    /// Rows of the input that wait for more, until [`Stage::flush`].
    pub fn waiting_rows(&self) -> usize {
        self.input.waiting_rows()
    }

    /// Whether a fragment misses siblings: nothing that it came before may pass yet.
    pub fn is_pending(&self) -> bool {
        self.input.is_pending()
    }

    /// The key groups of fragments that miss siblings, ascending.
    pub fn pending_key_groups(&self) -> Vec<KeyGroup> {
        self.input.pending_key_groups()
    }

    /// The fragments of a key group that miss siblings, as a checkpoint stores them.
    pub fn snapshot_pending(&mut self, group: KeyGroup) -> Result<Vec<u8>, EngineError> {
        self.with_input(|input| input.snapshot_pending(group))
    }

    /// Takes the fragments of a key group out of a checkpoint, before the first batch; what comes of them is to be pulled.
    /// Errors if they are damaged, or not those of a key group of this subtask.
    pub fn restore_pending(&mut self, group: KeyGroup, bytes: &[u8]) -> Result<(), EngineError> {
        self.with_input(|input| input.restore_pending(group, bytes))
    }

    fn with_input<T>(&mut self, body: impl FnOnce(&mut Input) -> Result<T, InputError>) -> Result<T, EngineError> {
        let node = self.first_node();
        self.guarded(|stage| {
            catch(&node, || body(&mut stage.input))?.map_err(|source| EngineError::Input { node: node.clone(), source })
        })
    }

    /// Gives the first operator the next batch that is ready for it, if there is one.
    fn feed(&mut self) -> Result<bool, EngineError> {
        let Some(batch) = self.input.next() else { return Ok(false) };
        let batch = self.names.apply(batch)?;
        match self.links.first_mut() {
            Some(link) => link.push(batch)?,
            None => self.passed.push_back(batch),
        }
        Ok(true)
    }

    /// The next batch of output, or `None` when the pushed batch has been answered completely.
    pub fn pull(&mut self) -> Result<Option<Batch>, EngineError> {
        self.guarded(Self::next)
    }

    /// The keyed state as it is now, or `None` if no operator keeps any. To be called when everything has been pulled.
    pub fn snapshot(&mut self) -> Result<Option<StageSnapshot>, EngineError> {
        self.guarded(|stage| stage.with_state(|about, state| about.snapshot(state)))
    }

    /// Takes the state of a key group from its container, before the first batch. Errors if the container is damaged or is not
    /// of this stage's state, or if the key group is not one of this subtask.
    pub fn restore(&mut self, group: KeyGroup, header: &[u8], chunks: &[Vec<u8>]) -> Result<(), EngineError> {
        let node = self.first_node();
        self.guarded(|stage| {
            let restored = stage.with_state(|about, state| about.restore(state, group, header, chunks))?;
            restored.ok_or(EngineError::State { node, what: "there is state to restore, but the stage keeps none" })
        })
    }

    /// What the keyed state takes, with what lies in front of the first operator. To be called when everything has been pulled.
    pub fn memory(&mut self) -> Result<StageMemory, EngineError> {
        let waiting = self.input.bytes();
        let memory = self.guarded(|stage| stage.with_state(|about, state| about.memory(state, waiting)))?;
        Ok(memory.unwrap_or(StageMemory { used_bytes: waiting, peak_bytes: waiting }))
    }

    /// Runs `body` on the keyed state, if there is any.
    fn with_state<T>(
        &mut self,
        body: impl FnOnce(&mut StageState, &mut dyn KeyedState) -> Result<T, EngineError>,
    ) -> Result<Option<T>, EngineError> {
        let Some(about) = &mut self.state else { return Ok(None) };
        let state = self.links.get_mut(about.link).and_then(|link| link.operator.state());
        state.map(|state| body(about, state)).transpose()
    }

    fn guarded<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T, EngineError>) -> Result<T, EngineError> {
        if self.failed {
            return Err(EngineError::Failed);
        }
        self.failed = true;
        let result = body(self)?;
        self.failed = false;
        Ok(result)
    }

    /// The node that reads the input.
    fn first_node(&self) -> NodeName {
        let link = self.links.first().map(|link| &link.node);
        link.or(self.exchange.as_ref().map(|exchange| &exchange.node)).cloned().unwrap_or_else(NodeName::entry)
    }

    fn next(&mut self) -> Result<Option<Batch>, EngineError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            let next = match self.links.len() {
                0 => self.passed.pop_front(),
                count => pull_from(&mut self.links, count - 1)?,
            };
            let Some(batch) = next else {
                if self.feed()? {
                    continue;
                }
                return Ok(None);
            };
            match &mut self.exchange {
                None => return Ok(Some(batch)),
                Some(exchange) => self.ready.extend(exchange.split(&batch)?),
            }
        }
    }

    /// Counters per node, as JSON.
    pub fn metrics(&self) -> String {
        let nodes: Vec<_> = self.links.iter().map(|link| link.metrics.to_json(&link.node)).collect();
        json!({ "nodes": nodes }).to_string()
    }

    /// Makes the first operator panic at its next batch, so that tests see what becomes of a panic.
    pub fn panic_on_purpose(&mut self) {
        if let Some(link) = self.links.first_mut() {
            link.operator = Box::new(Panicking);
        }
    }
}

impl Exchange {
    fn split(&mut self, batch: &Batch) -> Result<Vec<Batch>, EngineError> {
        let Self { node, splitter, .. } = self;
        let parts = catch(node, || match splitter {
            Splitter::Destinations(splitter) => {
                splitter.split(batch).map(|parts| parts.into_iter().map(|part| part.batch).collect())
            }
            Splitter::Fragments(splitter) => splitter.split(batch),
        })?;
        parts.map_err(|error| EngineError::Exchange { node: node.clone(), message: error.to_string() })
    }
}

impl Link {
    fn push(&mut self, batch: Batch) -> Result<(), EngineError> {
        self.metrics.entered(batch.num_rows());
        self.run(|operator| operator.push(batch))
    }

    fn pull(&mut self) -> Result<Option<Batch>, EngineError> {
        let pulled = self.run(|operator| operator.pull())?;
        if let Some(batch) = &pulled {
            self.metrics.left(batch.num_rows());
        }
        Ok(pulled)
    }

    /// Runs the operator; what it fails with, a panic included, gets the node's name.
    fn run<T>(&mut self, body: impl FnOnce(&mut dyn Operator) -> Result<T, OperatorError>) -> Result<T, EngineError> {
        catch(&self.node, || body(self.operator.as_mut()))?
            .map_err(|source| EngineError::Operator { node: self.node.clone(), source })
    }
}

/// Runs `body`; a panic becomes an error of `node`.
///
/// A stage is not used after a failure, so that nobody sees what a panic left half done.
pub(crate) fn catch<T>(node: &NodeName, body: impl FnOnce() -> T) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(body))
        .map_err(|payload| EngineError::Panic { node: node.clone(), message: panic_text(payload.as_ref()) })
}

/// The text of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

/// See [`Stage::panic_on_purpose`].
struct Panicking;

impl Operator for Panicking {
    #[expect(clippy::panic, reason = "this is what it is for")]
    fn push(&mut self, _: Batch) -> Result<(), OperatorError> {
        panic!("on purpose");
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(None)
    }
}

/// The next batch out of link `last`, which is fed from the links before it as needed.
fn pull_from(links: &mut [Link], last: usize) -> Result<Option<Batch>, EngineError> {
    loop {
        let Some(link) = links.get_mut(last) else { return Ok(None) };
        if let Some(batch) = link.pull()? {
            return Ok(Some(batch));
        }
        let Some(before) = last.checked_sub(1) else { return Ok(None) };
        let Some(batch) = pull_from(links, before)? else { return Ok(None) };
        if let Some(link) = links.get_mut(last) {
            link.push(batch)?;
        }
    }
}

impl NodeName {
    /// The name of a stage that has no node of its own.
    pub(crate) fn entry() -> Self {
        Self { id: 0, description: "native entry".to_owned() }
    }
}

fn node_name(node: &SpecNode) -> NodeName {
    NodeName { id: node.node.id, description: node.node.description.clone() }
}

/// The operator of a node; `None` for a union, whose inputs Flink has merged already.
fn operator(
    spec: &SpecNode,
    context: Option<&StateContext>,
    stored: StoredKind,
    numbers: &[SpecHost],
    hosts: &HostFactory<'_>,
) -> Result<Option<Box<dyn Operator>>, EngineError> {
    let failed = |source| EngineError::Operator { node: node_name(spec), source };
    Ok(match &spec.node.kind {
        NodeKind::Calc(calc) => {
            let mut functions = Vec::new();
            for (pointer, rex) in calc_expressions(calc) {
                for call in host_calls(rex, &pointer).map_err(EngineError::Unsupported)? {
                    let number = numbers
                        .iter()
                        .position(|host| host.node == spec.node.id && host.pointer == call.pointer)
                        .ok_or_else(|| unsupported("an expression of the stage has no function in the JVM"))?;
                    functions.push((call.pointer, hosts(number, &call.inputs)));
                }
            }
            let find = |pointer: &str| {
                functions.iter().find(|(at, _)| at == pointer).map(|(_, function)| Arc::clone(function))
            };
            Some(Box::new(Calc::try_new(calc, &find).map_err(failed)?))
        }
        NodeKind::DropUpdateBefore => Some(Box::new(DropUpdateBefore::new())),
        NodeKind::GroupAggregate(aggregate) => {
            let input = spec.inputs.first().ok_or_else(|| unsupported("GROUP BY has no input"))?;
            let context = context.ok_or_else(|| unsupported("GROUP BY was opened without a range of keys"))?;
            Some(Box::new(GroupAgg::try_new(aggregate, input, context).map_err(failed)?))
        }
        NodeKind::ChangelogNormalize(normalize) => {
            let (input, context) = keyed(spec, context)?;
            Some(Box::new(ChangelogNormalize::try_new(normalize, input, context).map_err(failed)?))
        }
        NodeKind::Deduplicate(deduplicate) if !is_stateful(deduplicate) => Some(Box::new(Deduplicate::stateless())),
        NodeKind::Deduplicate(deduplicate) => {
            let (input, context) = keyed(spec, context)?;
            Some(Box::new(Deduplicate::try_new(deduplicate, input, stored, context).map_err(failed)?))
        }
        NodeKind::Union => None,
        NodeKind::Exchange(_) => return Err(unsupported("an exchange stands inside a stage")),
        NodeKind::Stock(reason) => return Err(EngineError::Unsupported(reason.clone())),
        _ => return Err(EngineError::Unsupported(spec.node.not_supported())),
    })
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

fn unsupported(text: &str) -> EngineError {
    EngineError::Unsupported(Reason::new(text))
}

/// Opens the buffers through which rows enter a stage: batches of up to `capacity` rows of what the stage reads.
///
/// `spec` is the planner's text for a stage, or just the two properties of it that count here: `input`, a ROW type, and `reads`.
pub fn open_entry(spec: &str, capacity: usize) -> Result<EntryBuffers, EngineError> {
    let spec = EntrySpec::read(spec)?;
    let tree = ColumnTree::try_new(&spec.input, &spec.reads).map_err(EngineError::Unsupported)?;
    Ok(EntryBuffers::try_new(tree, capacity)?)
}
