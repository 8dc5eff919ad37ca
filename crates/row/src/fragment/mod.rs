//! Fragments: the rows of one key group of a batch, so that a checkpoint may store them on their way.
//!
//! A batch that is split by key group (the *parent*) arrives as several records. Each says which parent it belongs to (epoch
//! and sequence), which rows of it these are (ordinals), and which key groups the parent has rows of (manifest). From that its
//! receiver knows which siblings come to itself, waits for them and puts the rows back into the order they had
//! ([`Reassembler`]). A record never mixes key groups, so it may go to another subtask after a rescaling; what was on its
//! way then is of an older epoch and is delivered alone, because its siblings may have been processed before the checkpoint.
//!
//! The wire form, version 1, integers little-endian:
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 4 | magic `SFFG` |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | 0 |
//! | 6 | 2 | key group |
//! | 8 | 8 | epoch: its order |
//! | 16 | 8 | epoch: its attempt |
//! | 24 | 8 | sequence |
//! | 32 | 4 | rows of the parent |
//! | 36 | 4 | n: rows of the fragment, at least 1 |
//! | 40 | 2 | first byte of the manifest |
//! | 42 | 2 | m: bytes of the manifest |
//! | 44 | 4 | f: bytes of the frame |
//! | 48 | 4 | CRC32C of everything else |
//! | 52 | 4 | 0 |
//! | 56 | 4 n | ordinals: row numbers in the parent, ascending |
//! | .. | m | manifest: bit i of byte j is set if the parent has rows of key group 8 (first + j) + i; the first and the last byte are not 0 |
//! | | | zeros up to a multiple of 8 |
//! | .. | f | the rows as a [frame](crate::frame) of the same key group |
//!
//! The record ends with the frame. Nothing of it is used before all of it has been checked.

mod manifest;
mod pending;
mod reassembler;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use arrow::buffer::ScalarBuffer;

pub use manifest::Manifest;
pub use pending::PENDING_VERSION;
pub use reassembler::{Reassembler, ReassemblyError};
pub use wire::{decode, encode, is_fragment};

use crate::frame::FrameError;
use crate::hash::KeyGroup;

/// One attempt of one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch {
    /// One more than the checkpoint that the attempt was restored from; 0 without one. An epoch of a lower order ended before.
    pub order: u64,
    /// Which attempt of which producer: a random number.
    pub attempt: u64,
}

/// A batch that was split into fragments.
#[derive(Debug, PartialEq, Eq)]
pub struct Parent {
    /// Who made it.
    pub epoch: Epoch,
    /// Its number among the batches of its producer, which count up.
    pub sequence: u64,
    /// Its rows.
    pub rows: u32,
    /// The key groups that it has rows of.
    pub manifest: Manifest,
}

/// Which part of which batch something is.
#[derive(Debug, Clone)]
pub struct Fragment {
    /// The whole.
    pub parent: Arc<Parent>,
    /// For each row its number in the parent, ascending.
    pub ordinals: ScalarBuffer<u32>,
}

/// Bytes that are no fragment of the expected row type, or a batch that makes none.
#[derive(Debug, thiserror::Error)]
pub enum FragmentError {
    /// Not the start of a fragment.
    #[error("the bytes do not begin like a fragment")]
    Magic,
    /// Written by another version.
    #[error("version {found} of the fragment format is not known")]
    Version {
        /// The version.
        found: u8,
    },
    /// Lengths that do not add up to the bytes there are.
    #[error("{found} bytes where a fragment takes {expected}")]
    Length {
        /// Bytes by the header.
        expected: u64,
        /// Bytes there are.
        found: usize,
    },
    /// Damaged on the way.
    #[error("a fragment's checksum is {found:#010x} where {expected:#010x} is expected")]
    Checksum {
        /// By the header.
        expected: u32,
        /// Of the bytes.
        found: u32,
    },
    /// Parts that contradict each other.
    #[error("malformed fragment: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Its rows cannot be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Rows that are no fragment.
    #[error("a batch without key group and parent is no fragment")]
    NoFragment,
}

/// Whether `group` is one of `first..=last`.
fn owns((first, last): (KeyGroup, KeyGroup), group: KeyGroup) -> bool {
    (first..=last).contains(&group)
}
