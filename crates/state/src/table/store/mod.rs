//! A table that is kept in the column family of a database: what is in memory is its cache.
//!
//! One loop per batch, as in memory: *load* reads the keys that the cache does not have, all at once; the operator works on values by slot;
//! what it may have changed is *written back* before a snapshot, or when memory is short, and then the keys that were not used for the
//! longest time leave the cache. A key that is not in the database is cached like any other, with empty values. As long as no key of a key group
//! has left memory, and none was there from the start, the database is not asked for keys of that group at all.
//!
//! Layout, beside Flink's prefix (the key group, big-endian, 1 byte up to 128 key groups, else 2):
//!
//! | key | value |
//! | --- | --- |
//! | prefix, 0 | the version record, see [`record`] |
//! | prefix, number of the table + 1, key, namespace | see [`value`] |
//!
//! A key of at most 8 bytes is 1 and its bits, big-endian, or 0 if it is NULL; any other one its BinaryRow; a namespace is 8 bytes, big-endian, with
//! the sign bit turned. So Flink restores, clips and rescales the entries like those of its own states, and the keys of a namespace need no separator.
//! Each entry of the database is a key of the table with everything under it.

mod cache;
mod fetch;
mod read;
mod record;
mod sorted;
mod value;

pub(super) use self::read::FailedSnapshot;

use arrow::datatypes::SchemaRef;
use streamfusion_row::KeyGroup;

use self::value::ValueLayout;
use crate::StateError;
use crate::keyed::KeyGroups;
use crate::rocksdb::{Database, DatabaseError, Keys as DatabaseKeys, WriteBatch};
use crate::slots::bits;

/// A column family that an operator keeps its state in.
#[derive(Debug, Clone)]
pub struct Store {
    /// Where it is.
    pub database: Database,
    /// Whose state it is, as in the canonical form.
    pub operator_id: String,
    /// Whether every key stays in memory, for an operator that finds keys by itself, such as those of a window that is due.
    pub resident: bool,
}

/// What can be wrong with a table in a database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database fails.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// There are entries without a version record, or with another one.
    #[error(
        "the database has state of key group {group} that is {found}, where it should be {expected}; restore it with the version and the statement that wrote it"
    )]
    Version {
        /// The key group.
        group: u16,
        /// What the record says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// An entry that this table cannot have written.
    #[error("an entry of key group {group} in the database is damaged: {what}")]
    Entry {
        /// The key group.
        group: u16,
        /// What is wrong.
        what: String,
    },
    /// A value that cannot be written.
    #[error("a value cannot be written to the database: {0}")]
    Unwritable(String),
}

/// What a table needs to be kept in a database.
#[derive(Debug)]
pub(super) struct TableStore {
    database: Database,
    key_groups: KeyGroups,
    /// What stands behind the prefix in keys of this table.
    tag: u8,
    /// What the version record of each key group must be.
    record: Vec<u8>,
    /// Per key group of this subtask: whether its record is there.
    recorded: Vec<bool>,
    /// Per key group of this subtask: whether the database may have keys that memory has not. Of the others none is asked for.
    outside: Vec<bool>,
    layout: ValueLayout,
    /// Writes on their way: read keys must not miss them.
    pending: WriteBatch,
    /// Slots that may differ from the database.
    dirty: SlotSet,
    /// Slots whose key the database has.
    stored: SlotSet,
    pub(super) resident: bool,
    /// Slots whose keys are new in the cache.
    pub(super) added: Vec<u32>,
    keys: DatabaseKeys,
    key: Vec<u8>,
}

/// Bytes of pending writes at which they are written.
const PENDING_BYTES: usize = 4 << 20;

/// The prefix of the keys of a key group.
fn prefix(key_groups: KeyGroups, group: KeyGroup, out: &mut Vec<u8>) {
    match u8::try_from(group.0) {
        Ok(group) if key_groups.max_parallelism <= 128 => out.push(group),
        _ => out.extend(group.0.to_be_bytes()),
    }
}

impl TableStore {
    fn group_prefix(&self, group: KeyGroup, out: &mut Vec<u8>) {
        prefix(self.key_groups, group, out);
        out.push(self.tag);
    }

    /// Notes that a slot may differ from the database.
    pub(super) fn mark(&mut self, slot: u32) {
        self.dirty.insert(slot);
    }

    fn flush(&mut self) -> Result<(), StateError> {
        if !self.pending.is_empty() {
            self.database.write(&mut self.pending).map_err(StoreError::from)?;
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.pending.bytes()
            + self.keys.capacity()
            + self.dirty.bytes()
            + self.stored.bytes()
            + self.added.capacity() * size_of::<u32>()
    }
}

/// Some slots, bit by bit.
#[derive(Debug, Default)]
struct SlotSet(Vec<u64>);

impl SlotSet {
    fn insert(&mut self, slot: u32) {
        let word = slot as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (slot % 64);
    }

    /// Whether it was there.
    fn remove(&mut self, slot: u32) -> bool {
        let bit = 1 << (slot % 64);
        self.0.get_mut(slot as usize / 64).is_some_and(|word| std::mem::replace(word, *word & !bit) & bit != 0)
    }

    /// Ascending.
    fn slots(&self) -> Vec<u32> {
        let words = (0_u32..).zip(&self.0);
        words.flat_map(|(word, mask)| bits(*mask).map(move |bit| word * 64 + bit as u32)).collect()
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}

/// A schema of a section without the columns of the key.
fn without_keys(schema: &SchemaRef, keys: usize) -> SchemaRef {
    let fields: Vec<_> = schema.fields().iter().skip(keys).cloned().collect();
    std::sync::Arc::new(arrow::datatypes::Schema::new(fields))
}
