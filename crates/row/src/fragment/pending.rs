//! Fragments in a checkpoint: those of one key group of which siblings are missing.
//!
//! Flink stores them as raw keyed state, whose streams have a position per key group but no length, so the reader must know where
//! one ends. Version 3, integers big-endian as in the rest of Flink's streams:
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 4 | magic `SFPF` |
//! | 4 | 4 | version, i32: 3 |
//! | 8 | 2 | key group, u16 |
//! | 10 | 2 | 0 |
//! | 12 | 4 | number of fragments, u32 |
//! | 16 | 4 | bytes behind the header, u32 |
//! | 20 | 4 | CRC32C of everything else, u32 |
//! | 24 | | per fragment its length, u32, and its [wire form](super) |
//!
//! The fragments stand in the order in which they arrived.

use crate::hash::KeyGroup;

const MAGIC: [u8; 4] = *b"SFPF";
/// Version of the form of pending fragments.
pub const PENDING_VERSION: u32 = 3;
const HEADER_BYTES: usize = 24;
/// Where the checksum stands, which is over what stands before and behind it.
const CHECKSUM: usize = 20;

/// Bytes that are not the pending fragments of a key group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PendingError {
    /// Not the start of pending fragments.
    #[error("the fragments in the checkpoint of key group {group} do not begin like some; the snapshot is damaged", group = .group.0)]
    Magic {
        /// The key group.
        group: KeyGroup,
    },
    /// Written by another version.
    #[error(
        "the fragments in the checkpoint of key group {group} have version {found}, this StreamFusion reads {PENDING_VERSION}; \
         restore with the version that took it",
        group = .group.0
    )]
    Version {
        /// The key group.
        group: KeyGroup,
        /// The version.
        found: u32,
    },
    /// Those of another key group.
    #[error("the fragments in the checkpoint of key group {group} are of key group {found}; the snapshot is damaged", group = .group.0)]
    KeyGroup {
        /// The key group.
        group: KeyGroup,
        /// The one they say.
        found: u16,
    },
    /// Lengths that do not add up.
    #[error("the fragments in the checkpoint of key group {group} have {found} bytes where {expected} are expected; the snapshot is damaged", group = .group.0)]
    Length {
        /// The key group.
        group: KeyGroup,
        /// Bytes there should be.
        expected: u64,
        /// Bytes there are.
        found: usize,
    },
    /// Other bytes than were written.
    #[error("the fragments in the checkpoint of key group {group} have the checksum {found:#010x} where {expected:#010x} is expected; the snapshot is damaged", group = .group.0)]
    Checksum {
        /// The key group.
        group: KeyGroup,
        /// As it was written.
        expected: u32,
        /// Of the bytes.
        found: u32,
    },
    /// A fragment of another key group among them.
    #[error("fragment {index} in the checkpoint of key group {group} is of another key group; the snapshot is damaged", group = .group.0)]
    Foreign {
        /// The key group.
        group: KeyGroup,
        /// Position of the fragment.
        index: usize,
    },
    /// More than fits.
    #[error("{fragments} fragments of {bytes} bytes of key group {group} are too large for a checkpoint", group = .group.0)]
    TooLarge {
        /// The key group.
        group: KeyGroup,
        /// Number of fragments.
        fragments: usize,
        /// Their bytes.
        bytes: usize,
    },
}

/// The stored form of fragments that are in their wire form.
pub(super) fn encode(group: KeyGroup, fragments: &[Vec<u8>]) -> Result<Vec<u8>, PendingError> {
    let payload = fragments.iter().map(|fragment| 4 + fragment.len()).sum::<usize>();
    let too_large = || PendingError::TooLarge { group, fragments: fragments.len(), bytes: payload };
    // an array in Java has less than 2^31 bytes
    if i32::try_from(HEADER_BYTES + payload).is_err() {
        return Err(too_large());
    }
    let size = |size: usize| u32::try_from(size).map_err(|_| too_large());
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload);
    bytes.extend(MAGIC);
    bytes.extend(PENDING_VERSION.to_be_bytes());
    bytes.extend(group.0.to_be_bytes());
    bytes.extend([0; 2]);
    bytes.extend(size(fragments.len())?.to_be_bytes());
    bytes.extend(size(payload)?.to_be_bytes());
    bytes.extend([0; 4]); // the checksum comes last
    for fragment in fragments {
        bytes.extend(size(fragment.len())?.to_be_bytes());
        bytes.extend(fragment);
    }
    let checksum = checksum(&bytes).to_be_bytes();
    if let Some(place) = bytes.get_mut(CHECKSUM..HEADER_BYTES) {
        place.copy_from_slice(&checksum);
    }
    Ok(bytes)
}

fn checksum(bytes: &[u8]) -> u32 {
    let before = crc32c::crc32c(bytes.get(..CHECKSUM).unwrap_or_default());
    crc32c::crc32c_append(before, bytes.get(HEADER_BYTES..).unwrap_or_default())
}

/// The fragments, each in its wire form and not yet read.
pub(super) fn decode(group: KeyGroup, bytes: &[u8]) -> Result<Vec<&[u8]>, PendingError> {
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(PendingError::Length { group, expected: HEADER_BYTES as u64, found: bytes.len() });
    };
    let words: Vec<u32> = header.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)).collect();
    let [_, version, key_group, count, length, expected] = words.as_slice() else {
        return Err(PendingError::Magic { group });
    };
    if !header.starts_with(&MAGIC) {
        return Err(PendingError::Magic { group });
    }
    if *version != PENDING_VERSION {
        return Err(PendingError::Version { group, found: *version });
    }
    if *length as usize != payload.len() {
        let expected = HEADER_BYTES as u64 + u64::from(*length);
        return Err(PendingError::Length { group, expected, found: bytes.len() });
    }
    let found = checksum(bytes);
    if found != *expected {
        return Err(PendingError::Checksum { group, expected: *expected, found });
    }
    if *key_group != u32::from(group.0) << 16 {
        return Err(PendingError::KeyGroup { group, found: (*key_group >> 16) as u16 });
    }
    let wrong_length = |expected: usize| PendingError::Length { group, expected: expected as u64, found: bytes.len() };
    let mut fragments = Vec::new();
    let mut rest = payload;
    for _ in 0..*count {
        let (length, behind) = rest.split_first_chunk::<4>().ok_or_else(|| wrong_length(bytes.len() + 4))?;
        let length = u32::from_be_bytes(*length) as usize;
        let (fragment, behind) = behind.split_at_checked(length).ok_or_else(|| wrong_length(bytes.len() + length))?;
        fragments.push(fragment);
        rest = behind;
    }
    if !rest.is_empty() {
        return Err(wrong_length(bytes.len() - rest.len()));
    }
    Ok(fragments)
}
