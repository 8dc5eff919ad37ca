//! A batch on the wire: what travels between the two ends of a native exchange.
//!
//! Both ends know the row type from the plan, so no schema travels. Version 1, integers little-endian:
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 4 | magic `SFRB` |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | flags: bit 0 row kinds present, bit 1 key group present; the others are 0 |
//! | 6 | 2 | key group, 0 without one |
//! | 8 | 4 | rows |
//! | 12 | 4 | t: bytes of the tree |
//! | 16 | 4 | m: bytes of the message |
//! | 20 | 4 | b: bytes of the body |
//! | 24 | t | tree: one bit per column, LSB first, depth first: 1 = the column is of Arrow type Null and has no children here |
//! | | | zeros up to a multiple of 8 |
//! | .. | m | Arrow IPC message (flatbuffer) with a RecordBatch header; m is a multiple of 8 |
//! | .. | b | the message's body, uncompressed; its buffers are aligned to 16 |
//!
//! The frame ends with the body. Row kinds are one more UInt8 column behind the others, without NULLs.
//!
//! A frame is refused before it is interpreted: lengths, the message's own structure (flatbuffer verifier), the places and
//! sizes of all buffers against the row type, then, by Arrow, offsets, UTF-8 and NULL counts. What passes is a valid
//! batch, though not necessarily the one that was sent: there is no checksum.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use decode::{decode, decode_shared, peek};
pub use encode::{encode, encode_parts};

use arrow::error::ArrowError;

use crate::batch::BatchError;
use crate::hash::KeyGroup;
use crate::ipc::MessageError;

const MAGIC: [u8; 4] = *b"SFRB";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 24;
const HAS_KINDS: u8 = 1;
const HAS_KEY_GROUP: u8 = 2;
/// Alignment of the parts of a frame.
const ALIGNMENT: usize = 8;
/// Alignment of buffers in the body: enough for 16-byte values.
const BODY_ALIGNMENT: usize = 16;

/// What a frame says about its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameInfo {
    /// Rows of the batch.
    pub rows: u32,
    /// Its representative key group.
    pub key_group: Option<KeyGroup>,
}

/// Bytes that are no frame of the expected row type, or a batch that fits none.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Not the start of a frame.
    #[error("the bytes do not begin like a batch")]
    Magic,
    /// Written by another version.
    #[error("version {found} of the batch format is not known")]
    Version {
        /// The version.
        found: u8,
    },
    /// Flags that mean nothing.
    #[error("unknown flags {found:#x}")]
    Flags {
        /// The flags.
        found: u8,
    },
    /// Lengths that do not add up to the bytes there are.
    #[error("{found} bytes where a batch takes {expected}")]
    Length {
        /// Bytes by the header.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// A tree of other columns than the row type's.
    #[error("the columns do not fit the row type")]
    Tree,
    /// A message that is no record batch of the row type.
    #[error("malformed record batch: {what}")]
    Message {
        /// What is wrong.
        what: &'static str,
    },
    /// A type that batches cannot carry.
    #[error("{reason}")]
    Type {
        /// Which and why.
        reason: streamfusion_plan::Reason,
    },
    /// A batch too large for a frame.
    #[error("a batch of {bytes} bytes and {rows} rows is too large to be sent")]
    TooLarge {
        /// Bytes of the part that is too large.
        bytes: usize,
        /// Rows of the batch.
        rows: usize,
    },
    /// Refused by Arrow.
    #[error("invalid columns")]
    Arrow(#[from] ArrowError),
    /// Columns that make no batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

impl From<MessageError> for FrameError {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Malformed { what } => Self::Message { what },
            MessageError::Arrow(error) => Self::Arrow(error),
        }
    }
}
