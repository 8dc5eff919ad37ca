//! What happens to batches before the first operator of a stage: fragments are put together, small batches gathered.
//!
//! A batch is in one of three places: it misses siblings (a fragment), it waits for more rows, or it is ready. The caller
//! decides how long rows may wait, and lets them go before anything that must not overtake them; a fragment that misses
//! siblings cannot be let go, so what must not overtake it has to wait too, and a checkpoint has to store it.

mod coalescer;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use arrow::buffer::Buffer;
use serde::Deserialize;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::fragment::{Epoch, Reassembler, ReassemblyError, is_fragment};
use streamfusion_row::frame::{self, FrameError};
use streamfusion_row::gather::GatherError;
use streamfusion_row::{Batch, KeyGroup};

use crate::error::EngineError;
use coalescer::Coalescer;

/// How batches travel to and from a stage, where that is not as a batch each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "ShuffleJson")]
pub struct ShuffleParameters {
    /// The first input.
    pub first: InputParameters,
    /// The second input, where there is one.
    pub second: Option<InputParameters>,
    /// Who sends, where the output leaves as fragments.
    pub sender: Option<Sender>,
}

/// [`ShuffleParameters`] as text: what concerns the first input stands at the top.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ShuffleJson {
    #[serde(default)]
    gather_rows: usize,
    receiver: Option<Receiver>,
    second: Option<InputParameters>,
    sender: Option<Sender>,
}

impl From<ShuffleJson> for ShuffleParameters {
    fn from(json: ShuffleJson) -> Self {
        let ShuffleJson { gather_rows, receiver, second, sender } = json;
        Self { first: InputParameters { gather_rows, receiver }, second, sender }
    }
}

/// How the batches of an input travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InputParameters {
    /// Rows up to which small batches are gathered; 0: they are not.
    #[serde(default)]
    pub gather_rows: usize,
    /// Who receives, where they arrive as fragments.
    pub receiver: Option<Receiver>,
}

/// The owner of a range of key groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receiver {
    /// One more than the checkpoint that the task was restored from; 0 without one.
    pub epoch: u64,
    /// The first key group.
    pub first_key_group: u16,
    /// The last key group.
    pub last_key_group: u16,
}

/// One attempt of one subtask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sender {
    /// One more than the checkpoint that the task was restored from; 0 without one.
    pub epoch: u64,
    /// A random number.
    pub attempt: u64,
}

impl ShuffleParameters {
    /// Reads JSON, for example `{"gatherRows": 8192, "receiver": {"epoch": 0, "firstKeyGroup": 0, "lastKeyGroup": 63},
    /// "second": {"gatherRows": 8192}, "sender": {"epoch": 0, "attempt": 4711}}`. Errors if the text is something else.
    pub fn read(text: &str) -> Result<Self, EngineError> {
        serde_json::from_str(text).map_err(EngineError::ShuffleParameters)
    }
}

impl Sender {
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch { order: self.epoch, attempt: self.attempt }
    }
}

/// Batches in front of a stage.
#[derive(Debug)]
pub(crate) struct Input {
    /// Types of the columns.
    types: Vec<LogicalType>,
    reassembler: Option<Reassembler>,
    coalescer: Coalescer,
    ready: VecDeque<Batch>,
}

/// Input that is not the stage's.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Bytes that are no batch.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Fragments that do not fit together.
    #[error(transparent)]
    Reassembly(#[from] ReassemblyError),
    /// Batches that cannot be joined.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// A fragment for a stage that was not told its key groups.
    #[error("a fragment came where whole batches were expected")]
    UnexpectedFragment,
}

impl Input {
    /// Batches of these columns that are ready as they come.
    pub(crate) fn new(types: Vec<LogicalType>) -> Self {
        Self { types, reassembler: None, coalescer: Coalescer::default(), ready: VecDeque::new() }
    }

    /// From now on batches travel as `parameters` say. To be called before the first batch.
    pub(crate) fn configure(&mut self, parameters: &InputParameters) {
        self.coalescer = Coalescer::new(parameters.gather_rows);
        self.reassembler = parameters.receiver.map(|receiver| {
            let (first, last) = (KeyGroup(receiver.first_key_group), KeyGroup(receiver.last_key_group));
            Reassembler::new(self.types.clone(), first, last, receiver.epoch)
        });
    }

    /// Takes a batch, whole or a fragment.
    pub(crate) fn push(&mut self, batch: Batch) -> Result<(), InputError> {
        let whole = match batch.fragment() {
            None => Some(batch),
            Some(_) => self.reassembler()?.push(batch)?,
        };
        let bytes = whole.as_ref().filter(|batch| self.coalescer.is_small(batch)).map_or(0, Batch::bytes);
        self.gather(whole, bytes)
    }

    /// Takes a batch in its wire form, whole or a fragment.
    pub(crate) fn push_encoded(&mut self, bytes: &Buffer) -> Result<(), InputError> {
        let whole = if is_fragment(bytes) {
            self.reassembler()?.push_encoded(bytes)?
        } else {
            Some(frame::decode_shared(bytes, &self.types)?)
        };
        self.gather(whole, bytes.len())
    }

    fn reassembler(&mut self) -> Result<&mut Reassembler, InputError> {
        self.reassembler.as_mut().ok_or(InputError::UnexpectedFragment)
    }

    fn gather(&mut self, batch: Option<Batch>, bytes: usize) -> Result<(), InputError> {
        match batch {
            Some(batch) => Ok(self.coalescer.push(batch, bytes, &mut self.ready)?),
            None => Ok(()),
        }
    }

    /// Lets everything go that waits for more rows.
    pub(crate) fn flush(&mut self) -> Result<(), InputError> {
        Ok(self.coalescer.flush(&mut self.ready)?)
    }

    /// The next batch that is ready.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        self.ready.pop_front()
    }

    /// Rows that wait for more.
    pub(crate) fn waiting_rows(&self) -> usize {
        self.coalescer.rows()
    }

    /// The key groups of fragments that miss siblings, ascending.
    pub(crate) fn pending_key_groups(&self) -> Vec<KeyGroup> {
        self.reassembler.as_ref().map(Reassembler::pending_key_groups).unwrap_or_default()
    }

    /// Whether a fragment misses siblings.
    pub(crate) fn is_pending(&self) -> bool {
        self.reassembler.as_ref().is_some_and(Reassembler::is_pending)
    }

    /// The fragments of a key group that miss siblings, as a checkpoint stores them.
    pub(crate) fn snapshot_pending(&mut self, group: KeyGroup) -> Result<Vec<u8>, InputError> {
        Ok(self.reassembler()?.snapshot(group)?)
    }

    /// Takes fragments out of a checkpoint, before the first batch: they are ready, or wait for more rows.
    pub(crate) fn restore_pending(&mut self, group: KeyGroup, bytes: &[u8]) -> Result<(), InputError> {
        for batch in self.reassembler()?.restore(group, bytes)? {
            let bytes = batch.bytes();
            self.gather(Some(batch), bytes)?;
        }
        Ok(())
    }

    /// Bytes of what waits or misses siblings.
    pub(crate) fn bytes(&self) -> usize {
        self.coalescer.bytes() + self.reassembler.as_ref().map_or(0, Reassembler::bytes)
    }
}
