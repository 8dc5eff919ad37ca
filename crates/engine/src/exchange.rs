//! The exchange behind a stage: in which parts a batch leaves.

use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::exchange::{FragmentSplitter, KeySplitter};

use crate::error::{EngineError, NodeName};
use crate::input::Sender;
use crate::link::catch;

/// The Flink edge behind a stage that ends in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Subtasks of the next stage.
    pub channels: u32,
    /// Number of key groups.
    pub max_parallelism: u32,
}

/// An exchange by the hash of some columns.
pub(crate) struct Exchange {
    pub node: NodeName,
    keys: Vec<usize>,
    key_types: Vec<LogicalType>,
    max_parallelism: u32,
    splitter: Splitter,
}

enum Splitter {
    Destinations(KeySplitter),
    Fragments(FragmentSplitter),
}

impl Exchange {
    /// Cuts batches by the subtask that rows go to.
    pub fn new(node: NodeName, keys: &[usize], key_types: Vec<LogicalType>, edge: Edge) -> Result<Self, EngineError> {
        let splitter = KeySplitter::try_new(keys, &key_types, edge.channels, edge.max_parallelism);
        let splitter = Splitter::Destinations(splitter.map_err(EngineError::Unsupported)?);
        Ok(Self { node, keys: keys.to_vec(), key_types, max_parallelism: edge.max_parallelism, splitter })
    }

    /// From now on cuts batches by key group.
    pub fn send_fragments(&mut self, sender: &Sender) -> Result<(), EngineError> {
        let Self { keys, key_types, max_parallelism, .. } = self;
        let splitter = FragmentSplitter::try_new(keys, key_types, *max_parallelism, sender.epoch());
        self.splitter = Splitter::Fragments(splitter.map_err(EngineError::Unsupported)?);
        Ok(())
    }

    /// The parts of a batch.
    pub fn split(&mut self, batch: &Batch) -> Result<Vec<Batch>, EngineError> {
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
