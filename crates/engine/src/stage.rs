//! A stage at work: batches and events are pushed in at one end and pulled out at the other.
//!
//! Output is pulled batch by batch, depth first: an operator is asked for its next batch only when the one behind it has
//! nothing left, so that an operator that multiplies rows never holds all of its output in the stage. An event goes down
//! behind the rows that came before it, see [`Events`].
//! Invariant: when [`Stage::pull`] has returned `None`, no row is inside the stage except as operator state, in open bundles and, where
//! batches travel so, in front of the first operator (see [`crate::input`]).

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::buffer::Buffer;
use serde_json::json;
use streamfusion_expr::HostFunction;
#[cfg(test)]
use streamfusion_operators::Operator;
use streamfusion_operators::Residence;
use streamfusion_operators::bundle::FlushReason;
use streamfusion_operators::{DroppedRows, WatermarkStatus};
use streamfusion_plan::node::{Distribution, NodeKind};
use streamfusion_plan::spec::{EntrySpec, SpecNode, StageSpec};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::KeyGroup;
use streamfusion_row::binary::{EncodedRows, RowEncoder};
use streamfusion_row::entry::{ColumnTree, EntryBuffers};
use streamfusion_row::names::RowNames;
use streamfusion_state::KeyedState;
use streamfusion_state::rocksdb::Database;

use crate::build::{node_name, operator};
use crate::capabilities::key_types;
use crate::error::{EngineError, NodeName, unsupported};
use crate::events::{Event, Events};
use crate::exchange::{Edge, Exchange};
use crate::input::{Input, InputError, ShuffleParameters};
use crate::link::{Link, Panicking, Pulled, catch, pull_from};
use crate::state::{StageMemory, StageSnapshot, StageState, StateParameters};

/// Makes the function behind the host of this number, which reads these columns of its node's input.
pub type HostFactory<'a> = dyn Fn(usize, &[usize]) -> Arc<dyn HostFunction> + 'a;

/// What leaves a stage.
#[derive(Debug, Clone)]
pub enum Output {
    /// A batch with at least one row.
    Batch(Batch),
    /// A watermark in milliseconds, behind the batches that came before.
    Watermark(i64),
    /// A status of watermarks, in the same way.
    Status(WatermarkStatus),
}

impl Output {
    /// The batch, if it is one.
    pub fn into_batch(self) -> Option<Batch> {
        match self {
            Self::Batch(batch) => Some(batch),
            Self::Watermark(_) | Self::Status(_) => None,
        }
    }
}

/// A chain of operators, opened from what the planner said about it.
pub struct Stage {
    /// One or two.
    ports: Vec<Port>,
    links: Vec<Link>,
    events: Events,
    state: Option<StageState>,
    /// The most that a stage without state took.
    peak_bytes: usize,
    exchange: Option<Exchange>,
    /// Input of a stage without operators, before the exchange.
    passed: VecDeque<Batch>,
    /// Output that is ready: the parts of one batch, after the exchange.
    ready: VecDeque<Batch>,
    /// Writes output as rows, where that is possible.
    rows: Option<RowEncoder>,
    /// Whether something failed, after which operators may be half-way through a batch.
    failed: bool,
}

/// Where batches come in.
struct Port {
    input: Input,
    /// Names that the first operator knows the fields of ROWs by.
    names: RowNames,
}

impl Port {
    fn new(columns: &LogicalType, names: &LogicalType) -> Self {
        let types = columns.fields().iter().map(|field| field.ty.clone()).collect();
        Self { input: Input::new(types), names: RowNames::new(names) }
    }
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
        let backend = state.map(|state| state.backend).unwrap_or_default();
        let mut links = Vec::with_capacity(spec.nodes.len());
        for node in &spec.nodes {
            if let Some(operator) = operator(node, context.as_ref(), backend, &spec.hosts, hosts)? {
                links.push(Link::new(node_name(node), operator));
            }
        }
        let exchange = match &spec.exchange {
            // Everything goes to the one subtask of the next stage; Flink's own partitioner knows that.
            None | Some(Distribution::Singleton) => None,
            Some(Distribution::Hash(keys)) => {
                let key_types = key_types(keys, spec.output()).map_err(EngineError::Unsupported)?;
                let node = spec.nodes.last().map_or_else(NodeName::entry, node_name);
                Some(Exchange::new(node, keys, key_types, edge)?)
            }
        };
        let names = match spec.nodes.first() {
            Some(SpecNode { node, .. }) if node.kind == NodeKind::Union => &node.output,
            _ => &spec.input,
        };
        let mut ports = vec![Port::new(&spec.input, names)];
        ports.extend(spec.second.iter().map(|second| Port::new(&second.input, &second.input)));
        let output: Vec<_> = spec.output().fields().iter().map(|field| field.ty.clone()).collect();
        let rows = RowEncoder::try_new(&output).ok();
        Ok(Self { rows, ..Self::of_parts(ports, links, exchange, state)? })
    }

    fn of_parts(
        ports: Vec<Port>,
        mut links: Vec<Link>,
        exchange: Option<Exchange>,
        state: Option<&StateParameters>,
    ) -> Result<Self, EngineError> {
        let operators = links.iter_mut().map(|link| (&link.node, link.operator.as_mut()));
        let state = StageState::find(operators, state)?;
        Ok(Self {
            ports,
            links,
            events: Events::default(),
            state,
            peak_bytes: 0,
            exchange,
            passed: VecDeque::new(),
            ready: VecDeque::new(),
            rows: None,
            failed: false,
        })
    }

    /// A stage of these operators, which are all node 9, without an exchange. It has two inputs of no known columns.
    #[cfg(test)]
    pub(crate) fn of_operators(
        operators: Vec<Box<dyn Operator>>,
        state: Option<&StateParameters>,
    ) -> Result<Self, EngineError> {
        let node = NodeName { id: 9, description: "sums".to_owned() };
        let links = operators.into_iter().map(|operator| Link::new(node.clone(), operator)).collect();
        let none = LogicalType { nullable: false, kind: streamfusion_plan::types::TypeKind::Row([].into()) };
        Self::of_parts(vec![Port::new(&none, &none), Port::new(&none, &none)], links, None, state)
    }

    /// Says how batches travel to and from this stage, where that is not as a batch each. To be called before the first batch.
    pub fn shuffle(&mut self, parameters: &ShuffleParameters) -> Result<(), EngineError> {
        let inputs = [Some(&parameters.first), parameters.second.as_ref()];
        for (port, input) in self.ports.iter_mut().zip(inputs) {
            if let Some(input) = input {
                port.input.configure(input);
            }
        }
        if let Some(sender) = &parameters.sender {
            let exchange = self.exchange.as_mut().ok_or_else(|| unsupported("no exchange stands behind the stage"))?;
            exchange.send_fragments(sender)?;
        }
        Ok(())
    }

    /// Takes one batch of an input: 0, or 1 where there are two. Its output must be pulled before anything else is pushed.
    ///
    /// After an error, here or in [`Stage::pull`], every further call fails.
    pub fn push(&mut self, input: usize, batch: Batch) -> Result<(), EngineError> {
        self.with_input(input, |input| input.push(batch))?;
        self.guarded(|stage| stage.feed().map(drop))
    }

    /// Takes one batch in its wire form.
    pub fn push_encoded(&mut self, input: usize, bytes: &Buffer) -> Result<(), EngineError> {
        self.with_input(input, |input| input.push_encoded(bytes))?;
        self.guarded(|stage| stage.feed().map(drop))
    }

    /// Lets rows go that wait for more; what comes of them is to be pulled.
    pub fn flush(&mut self) -> Result<(), EngineError> {
        (0..self.ports.len()).try_for_each(|input| self.with_input(input, Input::flush))?;
        self.guarded(|stage| stage.feed().map(drop))
    }

    /// Ends bundles, behind the rows that wait for more; what comes of them is to be pulled.
    /// [`FlushReason::Watermark`] stands for a watermark of one of two inputs: it ends the bundle of the node that reads them alone.
    pub fn flush_bundles(&mut self, reason: FlushReason) -> Result<(), EngineError> {
        self.event(match reason {
            FlushReason::EndOfInput => Event::EndOfInput,
            reason => Event::Flush(reason),
        })
    }

    /// Takes a watermark, behind the rows that wait for more: it ends bundles, and what becomes of it is to be pulled.
    pub fn watermark(&mut self, watermark_ms: i64) -> Result<(), EngineError> {
        self.event(Event::Watermark(watermark_ms, FlushReason::Watermark))
    }

    /// Takes a status of watermarks, behind the rows that wait for more; what becomes of it is to be pulled.
    pub fn status(&mut self, status: WatermarkStatus) -> Result<(), EngineError> {
        self.event(Event::Status(status))
    }

    fn event(&mut self, event: Event) -> Result<(), EngineError> {
        self.events.push(0, event);
        self.flush()
    }

    /// Whether watermarks of the second input count for nothing, as if its last one had come.
    pub fn ignores_second_watermarks(&self) -> bool {
        self.links.first().is_some_and(|link| link.operator.ignores_second_watermarks())
    }

    /// When, in processing time, [`Stage::processing_time`] is to be called. Without, it need not be called at all.
    pub fn timer(&self) -> Option<i64> {
        self.links.iter().filter_map(|link| link.operator.timer()).min()
    }

    /// Tells the job's `pipeline.auto-watermark-interval`, before the first batch.
    pub fn auto_watermark_interval(&mut self, interval_ms: i64) {
        self.links.iter_mut().for_each(|link| link.operator.auto_watermark_interval(interval_ms));
    }

    /// Tells how long the task has worked or waited for input, in front of [`Stage::processing_time`].
    pub fn input_activity_time(&mut self, relative_ms: i64) {
        self.links.iter_mut().for_each(|link| link.operator.input_activity_time(relative_ms));
    }

    /// Tells the processing time: before a batch is pushed, and when a [timer](Stage::timer) is due. Whether there may be
    /// something to pull, which must be done before a batch is pushed.
    pub fn processing_time(&mut self, now_ms: i64) -> Result<bool, EngineError> {
        let due = self.timer().is_some_and(|timer| timer <= now_ms);
        self.guarded(|stage| {
            for (place, link) in stage.links.iter_mut().enumerate() {
                if let Some(watermark) = link.run(|operator| operator.processing_time(now_ms))? {
                    stage.events.push(place + 1, Event::Watermark(watermark, FlushReason::Marker));
                }
            }
            Ok(())
        })?;
        let marked = !self.events.is_empty();
        if marked {
            self.flush()?;
        }
        Ok(due || marked)
    }

    /// Rows of the inputs that wait for more, until [`Stage::flush`].
    pub fn waiting_rows(&self) -> usize {
        self.ports.iter().map(|port| port.input.waiting_rows()).sum()
    }

    /// Whether a fragment of an input misses siblings: nothing that it came before may pass yet.
    pub fn is_pending(&self, input: usize) -> bool {
        self.ports.get(input).is_some_and(|port| port.input.is_pending())
    }

    /// The key groups of an input's fragments that miss siblings, ascending.
    pub fn pending_key_groups(&self, input: usize) -> Vec<KeyGroup> {
        self.ports.get(input).map(|port| port.input.pending_key_groups()).unwrap_or_default()
    }

    /// The fragments of a key group that miss siblings, as a checkpoint stores them.
    pub fn snapshot_pending(&mut self, input: usize, group: KeyGroup) -> Result<Vec<u8>, EngineError> {
        self.with_input(input, |input| input.snapshot_pending(group))
    }

    /// Takes the fragments of a key group out of a checkpoint, before the first batch; what comes of them is to be pulled.
    /// Errors if they are damaged, or not those of a key group of this subtask.
    pub fn restore_pending(&mut self, input: usize, group: KeyGroup, bytes: &[u8]) -> Result<(), EngineError> {
        self.with_input(input, |input| input.restore_pending(group, bytes))
    }

    fn with_input<T>(
        &mut self,
        number: usize,
        body: impl FnOnce(&mut Input) -> Result<T, InputError>,
    ) -> Result<T, EngineError> {
        let node = self.first_node();
        self.guarded(|stage| {
            let port = stage.ports.get_mut(number).ok_or_else(|| unsupported("the stage has no such input"))?;
            catch(&node, || body(&mut port.input))?.map_err(|source| EngineError::Input { node: node.clone(), source })
        })
    }

    /// Gives the first operator the next batch that is ready for it, if there is one.
    fn feed(&mut self) -> Result<bool, EngineError> {
        for (number, port) in self.ports.iter_mut().enumerate() {
            let Some(batch) = port.input.next() else { continue };
            let batch = port.names.apply(batch)?;
            match self.links.first_mut() {
                Some(link) => link.push(number, batch)?,
                None => self.passed.push_back(batch),
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// What leaves next, or `None` when everything that was pushed has been answered completely.
    pub fn pull(&mut self) -> Result<Option<Output>, EngineError> {
        self.guarded(Self::next)
    }

    /// A batch of the stage's output as Flink's BinaryRows, or `None` if rows of this output have no such form here.
    pub fn encode_rows(&mut self, batch: &Batch) -> Result<Option<EncodedRows<'_>>, EngineError> {
        match &mut self.rows {
            Some(rows) => Ok(rows.encode(batch)?),
            None => Ok(None),
        }
    }

    /// Whether the stage has keyed state that may be kept in a database.
    pub fn can_attach(&self) -> bool {
        let link = self.state.as_ref().and_then(|about| self.links.get(about.link));
        link.is_some_and(|link| link.operator.residence() != Residence::Memory)
    }

    /// Keeps the keyed state in a database from now on and takes over what that has; before anything else, restoring included. False if the
    /// stage keeps no state, or keeps it in memory. Errors if the database has the state of another operator.
    pub fn attach(&mut self, database: Database) -> Result<bool, EngineError> {
        let Some(link) = self.state.as_ref().and_then(|about| self.links.get(about.link)) else { return Ok(false) };
        let resident = match link.operator.residence() {
            Residence::Memory => return Ok(false),
            Residence::Resident => true,
            Residence::Cached => false,
        };
        let attached =
            self.guarded(|stage| stage.with_state(|about, state| about.attach(state, database, resident)))?;
        Ok(attached.unwrap_or(false))
    }

    /// Writes what has changed to the database: before that takes a snapshot, and behind [`Stage::flush_bundles`].
    pub fn write_back(&mut self) -> Result<(), EngineError> {
        self.guarded(|stage| stage.with_state(|about, state| about.write_back(state))).map(drop)
    }

    /// Lets part of the keyed state leave memory, where a database has it. To be called when everything has been pulled.
    pub fn evict(&mut self) -> Result<(), EngineError> {
        self.guarded(|stage| stage.with_state(|about, state| about.evict(state))).map(drop)
    }

    /// The keyed state as it is now, or `None` if no operator keeps any. To be called when everything has been pulled, and behind
    /// [`Stage::flush_bundles`].
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

    /// How far event time had come for the operator that remembers it across a restore, if there is one. To be called when everything
    /// has been pulled.
    pub fn progress(&self) -> Option<i64> {
        self.links.iter().filter_map(|link| link.operator.progress()).min()
    }

    /// Takes the progress out of a checkpoint, before the first batch.
    pub fn restore_progress(&mut self, watermark_ms: i64) -> Result<(), EngineError> {
        self.guarded(|stage| {
            stage.links.iter_mut().try_for_each(|link| {
                link.run(|operator| {
                    operator.restore_progress(watermark_ms);
                    Ok(())
                })
            })
        })
    }

    /// Rows that its operators dropped, per reason.
    pub fn dropped_rows(&self) -> DroppedRows {
        self.links.iter().fold(DroppedRows::default(), |sum, link| sum.and(link.operator.dropped_rows()))
    }

    /// What the keyed state and open bundles take, with what lies in front of the first operator. To be called when everything
    /// has been pulled.
    pub fn memory(&mut self) -> Result<StageMemory, EngineError> {
        let waiting: usize = self.ports.iter().map(|port| port.input.bytes()).sum();
        let bundles: usize = self.links.iter().map(|link| link.operator.bundle_bytes()).sum();
        let transient = waiting.saturating_add(bundles);
        if let Some(memory) = self.guarded(|stage| stage.with_state(|about, state| about.memory(state, transient)))? {
            return Ok(memory);
        }
        self.peak_bytes = self.peak_bytes.max(transient);
        Ok(StageMemory { used_bytes: transient, peak_bytes: self.peak_bytes })
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

    fn next(&mut self) -> Result<Option<Output>, EngineError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(Output::Batch(batch)));
            }
            let behind = self.events.behind();
            let pulled = match self.links.len() {
                0 => self.passed.pop_front().map_or(Pulled::Nothing, Pulled::Batch),
                count => pull_from(&mut self.links, behind, count - 1)?,
            };
            let batch = match pulled {
                Pulled::Batch(batch) => batch,
                Pulled::Mark(place, mark) => {
                    self.events.mark(place + 1, mark);
                    continue;
                }
                Pulled::Nothing => {
                    // the batches in front of the stage came before the events, but for those that the stage itself sends
                    if behind == 0 && self.feed()? {
                        continue;
                    }
                    if self.events.is_empty() {
                        return Ok(None);
                    }
                    if let Some(output) = self.events.step(&mut self.links)? {
                        return Ok(Some(output));
                    }
                    continue;
                }
            };
            match &mut self.exchange {
                None => return Ok(Some(Output::Batch(batch))),
                Some(exchange) => self.ready.extend(exchange.split(&batch)?),
            }
        }
    }

    /// Counters per node, as JSON.
    pub fn metrics(&self) -> String {
        let nodes: Vec<_> =
            self.links.iter().map(|link| link.metrics.to_json(&link.node, link.operator.as_ref())).collect();
        json!({ "nodes": nodes }).to_string()
    }

    /// Makes the first operator panic at its next batch, so that tests see what becomes of a panic.
    pub fn panic_on_purpose(&mut self) {
        if let Some(link) = self.links.first_mut() {
            link.operator = Box::new(Panicking);
        }
    }
}

/// Opens the buffers through which rows enter a stage: batches of up to `capacity` rows of what the stage reads of an input.
///
/// `spec` is the planner's text for a stage, or just the two properties of it that count here: `input`, a ROW type, and `reads`.
pub fn open_entry(spec: &str, input: usize, capacity: usize) -> Result<EntryBuffers, EngineError> {
    let spec = match input {
        0 => EntrySpec::read(spec)?,
        _ => EntrySpec::read_second(spec)?,
    };
    let tree = ColumnTree::try_new(&spec.input, &spec.reads).map_err(EngineError::Unsupported)?;
    Ok(EntryBuffers::try_new(tree, capacity)?)
}
