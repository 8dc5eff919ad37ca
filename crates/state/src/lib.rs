//! Keyed state: tables of typed values, addressed by slot.
//!
//! A keyed operator maps a key to a *slot* once per batch ([`index`]) and keeps its values in tables by slot: one value
//! per key in a [`PagedVec`], several values per key in a [`MapTable`]. Operators work on values, never on bytes.
//!
//! Values lie in pages behind shared pointers. A snapshot clones the page directory; the first write to a page that a
//! snapshot still holds copies that page, so that no checkpoint ever stops the task for longer than that. Keys keep
//! their Flink hash or the value it follows from, and with it their key group; a snapshot is ordered by key group when it
//! is encoded, not while rows are processed.
//!
//! [`canonical`] is the form in which the state of a key group lies in a savepoint.
#![forbid(unsafe_code)]

pub mod arena;
pub mod canonical;
pub mod index;
pub mod keyed;
pub mod map;
pub mod paged;
mod slots;

pub use arena::ByteArena;
pub use index::{BytesKeyIndex, FixedKeyIndex};
pub use keyed::{KeyGroups, KeyedState, RestoreError, StateClock, StateContext, StateSnapshot};
pub use map::MapTable;
pub use paged::{PagedSnapshot, PagedVec};

/// State that cannot grow further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// More keys, or more entries of keys, than a slot number can tell apart.
    #[error("one subtask holds more than {limit} {what}")]
    Full {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        limit: u64,
    },
}

/// Spreads a value over 64 bits, high and low ones alike: the tables take both ends of a hash.
#[inline]
pub fn mix(value: u64) -> u64 {
    let product = u128::from(value ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0xD6E8_FEB8_6659_FD93_u64);
    #[expect(clippy::cast_possible_truncation, reason = "folding: both halves are used")]
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded
}
