//! The keyed state of a stage: opened for a range of key groups, snapshot while rows go on, restored key group by key group.
//!
//! A stage has at most one operator with keyed state. What its state is called in the canonical form is
//! `<operator id>/<table>`: the id is the node's, not the stage's, so that stages cut differently later find their state.
//! Where the bytes are kept, and on which thread a snapshot is encoded, is decided by the caller.

mod snapshot;
#[cfg(test)]
mod tests;

pub use snapshot::{EncodedGroup, StageSnapshot};

use serde::Deserialize;
use streamfusion_operators::{Operator, OperatorError, StateBackend};
use streamfusion_row::KeyGroup;
use streamfusion_state::canonical::{CanonicalError, Sections, decode};
use streamfusion_state::rocksdb::Database;
use streamfusion_state::{KeyGroups, KeyedState, RestoreError, StateClock, StateContext, StateError, Store};

use crate::error::{EngineError, NodeName};
use crate::link::catch;

/// What a stage with keyed state is opened with.
#[derive(Debug, Clone)]
pub struct StateParameters {
    /// The Flink uid of the operator, or its generated id: stays the same from one version of the job to the next.
    pub operator_id: String,
    /// The keys of this subtask.
    pub key_groups: KeyGroups,
    /// The clock of state time-to-live.
    pub clock: StateClock,
    /// The state backend of the job.
    pub backend: StateBackend,
}

/// [`StateParameters`] as text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Parameters {
    operator_id: String,
    max_parallelism: u32,
    first_key_group: u16,
    last_key_group: u16,
    #[serde(default)]
    backend: Backend,
}

/// The state backend of the job.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Backend {
    #[default]
    Hashmap,
    Rocksdb,
}

impl StateParameters {
    /// Reads JSON: `{"operatorId": "..", "maxParallelism": 128, "firstKeyGroup": 0, "lastKeyGroup": 127, "backend": "hashmap"}`, or
    /// `rocksdb`; without a backend it is `hashmap`. The clock is the machine's. Errors if the text is something else, or if the
    /// range is not within the key groups.
    pub fn read(text: &str) -> Result<Self, EngineError> {
        let read: Parameters = serde_json::from_str(text).map_err(EngineError::StateParameters)?;
        let (first, last) = (read.first_key_group, read.last_key_group);
        let all = 1..=KeyGroup::MAX_PARALLELISM;
        if !all.contains(&read.max_parallelism) || first > last || u32::from(last) >= read.max_parallelism {
            return Err(EngineError::KeyGroups { max_parallelism: read.max_parallelism, first, last });
        }
        let key_groups = KeyGroups { max_parallelism: read.max_parallelism, first, last };
        let backend = match read.backend {
            Backend::Hashmap => StateBackend::Hashmap,
            Backend::Rocksdb => StateBackend::RocksDb,
        };
        Ok(Self { operator_id: read.operator_id, key_groups, clock: StateClock::system(), backend })
    }

    pub(crate) fn context(&self) -> StateContext {
        StateContext { key_groups: self.key_groups, clock: self.clock.clone() }
    }
}

/// Memory that the state of a stage takes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageMemory {
    /// What it takes now, with what snapshots in flight keep alive.
    pub used_bytes: usize,
    /// The most it took whenever it was asked for.
    pub peak_bytes: usize,
}

/// Which operator of a stage keeps state, and how that state is called.
pub(crate) struct StageState {
    /// Position of its link.
    pub link: usize,
    /// Its node.
    pub node: NodeName,
    /// The operator identifier in the canonical form.
    pub operator_id: String,
    key_groups: KeyGroups,
    peak_bytes: usize,
}

impl StageState {
    /// The state of these operators, if one keeps state. Errors if two do, or if nobody said whose keys they are.
    pub fn find<'a>(
        operators: impl Iterator<Item = (&'a NodeName, &'a mut (dyn Operator + 'static))>,
        parameters: Option<&StateParameters>,
    ) -> Result<Option<Self>, EngineError> {
        let mut found: Option<Self> = None;
        for (link, (node, operator)) in operators.enumerate() {
            let Some(table) = operator.state().map(|state| state.table()) else { continue };
            let fault = |what| EngineError::State { node: node.clone(), what };
            let parameters = parameters.ok_or_else(|| fault("it keeps state, but its stage was opened without any"))?;
            if found.is_some() {
                return Err(fault("it keeps state, and so does a node before it in its stage"));
            }
            found = Some(Self {
                link,
                node: node.clone(),
                operator_id: format!("{}/{table}", parameters.operator_id),
                key_groups: parameters.key_groups,
                peak_bytes: 0,
            });
        }
        Ok(found)
    }

    /// Takes a snapshot of `state`.
    pub fn snapshot(&self, state: &mut dyn KeyedState) -> Result<StageSnapshot, EngineError> {
        let snapshot = catch(&self.node, || state.snapshot())?;
        Ok(StageSnapshot::new(self.node.clone(), self.operator_id.clone(), snapshot))
    }

    /// Reads the container of a key group into `state`. No byte of its payload is interpreted before all of its envelope is right.
    pub fn restore(
        &self,
        state: &mut dyn KeyedState,
        group: KeyGroup,
        header: &[u8],
        chunks: &[Vec<u8>],
    ) -> Result<(), EngineError> {
        if !self.key_groups.contains(group) {
            let KeyGroups { first, last, .. } = self.key_groups;
            return Err(EngineError::ForeignKeyGroup { node: self.node.clone(), group: group.0, first, last });
        }
        let refused =
            |source: CanonicalError| EngineError::Container { node: self.node.clone(), source: Box::new(source) };
        let changed = |source: RestoreError| EngineError::Restore {
            node: self.node.clone(),
            group: group.0,
            source: Box::new(source),
        };
        catch(&self.node, || {
            let chunk = |index: u32| usize::try_from(index).ok().and_then(|index| chunks.get(index));
            let (header, payload) = decode(header, chunk, Some(group), &self.operator_id).map_err(refused)?;
            let sections = Sections::decode(&payload, &header, Some(group)).map_err(refused)?;
            state.restore(&sections).map_err(changed)
        })?
    }

    /// Keeps `state` in a database from now on. False if it stays in memory.
    pub fn attach(
        &mut self,
        state: &mut dyn KeyedState,
        database: Database,
        resident: bool,
    ) -> Result<bool, EngineError> {
        let store = Store { database, operator_id: self.operator_id.clone(), resident };
        self.run(|| state.attach(&store))
    }

    /// Writes what has changed to the database, if the state is kept in one.
    pub fn write_back(&self, state: &mut dyn KeyedState) -> Result<(), EngineError> {
        self.run(|| state.write_back())
    }

    /// Lets part of the state leave memory, if it is kept in a database.
    pub fn evict(&self, state: &mut dyn KeyedState) -> Result<(), EngineError> {
        self.run(|| state.evict())
    }

    fn run<T>(&self, body: impl FnOnce() -> Result<T, StateError>) -> Result<T, EngineError> {
        let failed =
            |error: StateError| EngineError::Operator { node: self.node.clone(), source: OperatorError::from(error) };
        catch(&self.node, body)?.map_err(failed)
    }

    /// What `state` takes, and so many bytes of rows that wait in front of it.
    pub fn memory(&mut self, state: &dyn KeyedState, waiting_bytes: usize) -> Result<StageMemory, EngineError> {
        let used_bytes = catch(&self.node, || state.bytes())?.saturating_add(waiting_bytes);
        self.peak_bytes = self.peak_bytes.max(used_bytes);
        Ok(StageMemory { used_bytes, peak_bytes: self.peak_bytes })
    }
}
