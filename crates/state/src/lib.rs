//! Keyed state: tables of typed values, addressed by slot.
//!
//! A keyed operator has a [`KeyedTable`]: it registers what it keeps per key, maps the keys of a batch to *slots* once, and
//! works on values by slot, never on bytes. One value per key lies in a [`Column`](column), a whole row in [`rows`], several
//! values in [`entries`], several rows in [`RowEntries`].
//!
//! Values lie in pages of 64, and a page belongs to one key group ([`Slots`]). A snapshot moves the page directories
//! ([`paged`]) and touches no page; it is encoded key group by key group, on another thread, by the [`codec`] of each
//! column. [`canonical`] is the form in which the state of a key group lies in a savepoint.
#![deny(unsafe_code)]

pub mod canonical;
pub mod codec;
pub mod column;
pub mod entries;
mod heap;
pub mod index;
pub mod keyed;
pub mod map;
pub mod paged;
pub mod rocksdb;
pub mod rows;
pub mod slots;
pub mod table;
pub mod ttl;

pub use column::{Column, ColumnId};
pub use entries::{Entries, EntriesId, EntryTable};
pub use keyed::{KeyGroups, KeyedState, RestoreError, StateClock, StateContext, StateSnapshot};
pub use map::{MapCodec, MapEntry, MapHash, MapTable};
pub use paged::Value;
pub use rows::{Identity, PackedRows, RowEntries, RowEntriesId, RowLayout, Rows, RowsId};
pub use slots::Slots;
pub use table::{BatchKeys, KeyLayout, KeyedTable, SlotKeys, TablePair, Touched};
pub use table::{Store, StoreError};
pub use ttl::StateTtl;

/// State that cannot take what it is given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// More keys, or more entries of keys, than a slot number can tell apart.
    #[error("one subtask holds more than {limit} {what}")]
    Full {
        /// What there are too many of.
        what: &'static str,
        /// How many there may be.
        limit: u64,
    },
    /// A key that another subtask owns.
    #[error("a key of key group {key_group} came to a subtask that owns the key groups {first} to {last}")]
    Foreign {
        /// The group of the key.
        key_group: u16,
        /// The first group of this subtask.
        first: u16,
        /// The last one.
        last: u16,
    },
    /// A fault of an operator.
    #[error("keys, a column or entries are not those of the table")]
    Unregistered,
    /// A fault of an operator.
    #[error("the columns of a batch are not those of the rows that the table keeps")]
    RowColumns,
    /// A fault of an operator.
    #[error("there is no row under a key that should have one")]
    NoRow,
    /// The database that the table is kept in fails, or has something else in it.
    #[error(transparent)]
    Store(Box<StoreError>),
}

impl From<StoreError> for StateError {
    fn from(error: StoreError) -> Self {
        Self::Store(Box::new(error))
    }
}

/// Spreads a value over 64 bits, high and low ones alike: the tables take both ends of a hash.
#[inline]
pub fn mix(value: u64) -> u64 {
    let product = u128::from(value ^ 0x9E37_79B9_7F4A_7C15) * u128::from(0xD6E8_FEB8_6659_FD93_u64);
    #[expect(clippy::cast_possible_truncation, reason = "folding: both halves are used")]
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded
}
