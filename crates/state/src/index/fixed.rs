//! The index of keys that are one value of at most 8 bytes, or NULL.
//!
//! Flink's hash of such a key follows from its value, so it is computed when a key is added and not per row.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use streamfusion_row::hash::hash_bytes_by_words;

use super::memo::{Known, Memo};
use super::{Found, Namespace};
use crate::StateError;
use crate::paged::{PagedSnapshot, PagedVec};
use crate::slots::Slots;

/// Keys by their bits: those of the slot of the key's BinaryRow.
#[derive(Debug)]
pub struct FixedKeyIndex<N = ()> {
    table: HashTable<(u64, u32, N)>,
    nulls: BTreeMap<N, u32>,
    keys: PagedVec<u64>,
    memo: Memo<N>,
}

impl<N> Default for FixedKeyIndex<N> {
    fn default() -> Self {
        Self { table: HashTable::new(), nulls: BTreeMap::new(), keys: PagedVec::new(0), memo: Memo::default() }
    }
}

/// Flink's hash of a key; NULL is `None`.
#[inline]
pub(crate) fn key_hash(key: Option<u64>) -> i32 {
    // bit 8: field 0 is NULL
    key.map_or_else(|| row_hash(1 << 8, 0), |key| row_hash(0, key))
}

/// Flink's hash of a row of one field: the null word, then the slot.
#[inline]
fn row_hash(null_word: u64, slot: u64) -> i32 {
    let mut row = [0; 16];
    row[..8].copy_from_slice(&null_word.to_le_bytes());
    row[8..].copy_from_slice(&slot.to_le_bytes());
    hash_bytes_by_words(&row)
}

/// The hash of an entry of the table.
#[inline]
fn entry_hash<N: Namespace>(entry: &(u64, u32, N)) -> u64 {
    entry.2.mix(entry.0)
}

impl<N: Namespace> FixedKeyIndex<N> {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of `key` in a namespace, which is added if it is new.
    #[inline]
    pub fn find_or_add(&mut self, slots: &mut Slots, key: u64, namespace: N) -> Result<Found, StateError> {
        self.find_or_add_hashed(slots, namespace.mix(key), key, namespace)
    }

    #[inline]
    fn find_or_add_hashed(
        &mut self,
        slots: &mut Slots,
        hash: u64,
        key: u64,
        namespace: N,
    ) -> Result<Found, StateError> {
        match self.table.entry(hash, |entry| entry.0 == key && entry.2 == namespace, entry_hash) {
            Entry::Occupied(entry) => Ok(Found { slot: entry.get().1, added: false }),
            Entry::Vacant(vacant) => {
                let slot = slots.acquire_for(key_hash(Some(key)))?;
                *self.keys.get_mut(slot) = key;
                vacant.insert((key, slot, namespace));
                Ok(Found { slot, added: true })
            }
        }
    }

    /// Finds the keys of a batch, adds those that are new, and appends the number of each row's key to `numbers`: what `number` says of it
    /// when it comes, which may be once per key or more often.
    pub(crate) fn find_or_add_all(
        &mut self,
        slots: &mut Slots,
        keys: &[u64],
        namespace: impl Fn(usize) -> N,
        numbers: &mut Vec<u32>,
        mut number: impl FnMut(Found, N) -> u32,
    ) -> Result<(), StateError> {
        numbers.reserve(keys.len());
        self.memo.begin();
        for (row, key) in keys.iter().enumerate() {
            let namespace = namespace(row);
            let hash = namespace.mix(*key);
            if !self.memo.is_useful() {
                let found = self.find_or_add_hashed(slots, hash, *key, namespace)?;
                numbers.push(number(found, namespace));
                continue;
            }
            numbers.push(match self.memo.find(hash, *key, namespace) {
                Some(known) => known.number,
                None => {
                    let found = self.find_or_add_hashed(slots, hash, *key, namespace)?;
                    let number = number(found, namespace);
                    self.memo.note(hash, *key, namespace, Known { number, row: 0 });
                    number
                }
            });
        }
        Ok(())
    }

    /// The slot of `key` in a namespace, if it is there; NULL is `None`.
    #[inline]
    pub fn find(&self, key: Option<u64>, namespace: N) -> Option<u32> {
        let Some(key) = key else { return self.nulls.get(&namespace).copied() };
        let same = |entry: &(u64, u32, N)| entry.0 == key && entry.2 == namespace;
        self.table.find(namespace.mix(key), same).map(|entry| entry.1)
    }

    /// The slot of the NULL key in a namespace, which is added if it is new.
    pub fn find_or_add_null(&mut self, slots: &mut Slots, namespace: N) -> Result<Found, StateError> {
        if let Some(slot) = self.nulls.get(&namespace) {
            return Ok(Found { slot: *slot, added: false });
        }
        let slot = slots.acquire_for(key_hash(None))?;
        self.add_null(slot, namespace);
        Ok(Found { slot, added: true })
    }

    fn add_null(&mut self, slot: u32, namespace: N) {
        *self.keys.get_mut(slot) = 0;
        self.nulls.insert(namespace, slot);
    }

    /// Gives a key that is not in the namespace yet this slot, which is one of its key group. False if it is there already. NULL is `None`.
    pub(crate) fn add(&mut self, slot: u32, key: Option<u64>, namespace: N) -> bool {
        let Some(key) = key else {
            if self.nulls.contains_key(&namespace) {
                return false;
            }
            self.add_null(slot, namespace);
            return true;
        };
        match self.table.entry(namespace.mix(key), |entry| entry.0 == key && entry.2 == namespace, entry_hash) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                *self.keys.get_mut(slot) = key;
                vacant.insert((key, slot, namespace));
                true
            }
        }
    }

    /// The bits of the key of a slot in use; NULL is `None`.
    #[inline]
    pub fn key(&self, slot: u32, namespace: N) -> Option<u64> {
        let null = !self.nulls.is_empty() && self.nulls.get(&namespace) == Some(&slot);
        (!null).then(|| *self.keys.get(slot))
    }

    /// Gives back what it has taken for more keys than there are.
    pub fn shrink(&mut self) {
        self.table.shrink_to_fit(entry_hash);
    }

    /// Makes room for so many more keys.
    pub fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys, entry_hash);
    }

    /// Forgets the key of `slot`, which must be in use, in its namespace.
    pub fn remove(&mut self, slots: &mut Slots, slot: u32, namespace: N) {
        if !self.nulls.is_empty() && self.nulls.get(&namespace) == Some(&slot) {
            self.nulls.remove(&namespace);
        } else if let Ok(entry) = self.table.find_entry(namespace.mix(*self.keys.get(slot)), |entry| entry.1 == slot) {
            entry.remove();
        }
        slots.release(slot);
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.table.len() + self.nulls.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys as they are now.
    pub fn snapshot(&mut self) -> FixedKeys {
        FixedKeys { keys: self.keys.snapshot(), nulls: self.nulls.values().copied().collect() }
    }

    /// See [`PagedVec::maintain`].
    pub fn maintain(&mut self, pages: usize) {
        self.keys.maintain(pages);
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.table.allocation_size() + self.keys.bytes() + self.memo.bytes()
    }
}

/// The keys of a [`FixedKeyIndex`] at one moment.
#[derive(Debug)]
pub struct FixedKeys {
    keys: PagedSnapshot<u64>,
    nulls: BTreeSet<u32>,
}

impl FixedKeys {
    /// The bits of the key of a slot that was in use, `None` for NULL.
    #[inline]
    pub fn key(&self, slot: u32) -> Option<u64> {
        (!self.nulls.contains(&slot)).then(|| *self.keys.get(slot))
    }

    /// The slots of the NULL key.
    pub fn nulls(&self) -> &BTreeSet<u32> {
        &self.nulls
    }

    /// The bits by page.
    pub fn pages(&self) -> &PagedSnapshot<u64> {
        &self.keys
    }
}
