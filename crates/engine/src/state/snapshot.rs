//! The state of a stage at one moment, on its way into a checkpoint.
//!
//! Taken on the task thread, encoded on another one. It outlives its stage.

use streamfusion_row::KeyGroup;
use streamfusion_state::StateSnapshot;
use streamfusion_state::canonical::{CHUNK_BYTES, CanonicalError, FormatVersion, Header, Sections};

use crate::error::{EngineError, NodeName};
use crate::link::catch;

/// What the payload may have beyond the values themselves: framing, names, schemas, padding.
const FRAMING_BYTES: usize = 1 << 20;

/// Bytes that a payload can have.
const MAX_PAYLOAD_BYTES: usize = i32::MAX.unsigned_abs() as usize;

/// The keyed state of a stage as it was when the snapshot was taken.
pub struct StageSnapshot {
    node: NodeName,
    operator_id: String,
    state: Box<dyn StateSnapshot>,
}

/// The canonical form of one key group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedGroup {
    /// The header.
    pub header: Vec<u8>,
    payload: Vec<u8>,
}

impl EncodedGroup {
    /// The chunks, in order.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.payload.chunks(CHUNK_BYTES)
    }
}

impl StageSnapshot {
    pub(super) fn new(node: NodeName, operator_id: String, state: Box<dyn StateSnapshot>) -> Self {
        Self { node, operator_id, state }
    }

    /// The key groups that have keys, ascending.
    pub fn key_groups(&self) -> Result<Vec<KeyGroup>, EngineError> {
        catch(&self.node, || self.state.key_groups())
    }

    /// No group has more chunks than this.
    pub fn chunk_bound(&self) -> Result<usize, EngineError> {
        catch(&self.node, || {
            let bytes = self.state.key_groups().into_iter().map(|group| self.state.bytes_bound(group)).max();
            bytes.map_or(0, |bytes| payload_bound(bytes).div_ceil(CHUNK_BYTES))
        })
    }

    /// Header and chunks of a key group. Errors, before anything is cut off, if its payload would have 2 GiB or more.
    pub fn encode(&self, group: KeyGroup) -> Result<EncodedGroup, EngineError> {
        let refused =
            |source: CanonicalError| EngineError::Container { node: self.node.clone(), source: Box::new(source) };
        catch(&self.node, || {
            let processing_time_deadline = self.state.deadline(group);
            let sections = Sections {
                key_group: group,
                format_version: FormatVersion::Asynchronous,
                processing_time_deadline,
                sections: self.state.sections(group).map_err(refused)?,
            };
            let payload = sections.encode().map_err(refused)?;
            let header = Header::of(&self.operator_id, FormatVersion::Asynchronous, processing_time_deadline, &payload)
                .and_then(|header| header.encode())
                .map_err(|fault| refused(CanonicalError { key_group: Some(group), fault }))?;
            Ok(EncodedGroup { header, payload })
        })?
    }
}

/// Bytes of a payload of values that take `bytes` in Arrow columns, or more. What a record batch adds per buffer is less than an
/// eighth of a batch of the usual size.
fn payload_bound(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 8).saturating_add(FRAMING_BYTES).min(MAX_PAYLOAD_BYTES)
}
