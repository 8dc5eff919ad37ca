//! The index of keys that are one value of at most 8 bytes, or NULL.
//!
//! Flink's hash of such a key follows from its value, so it is computed when a key is added and not per row.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use streamfusion_row::KeyGroup;
use streamfusion_row::hash::hash_bytes_by_words;

use super::Found;
use crate::paged::{PagedSnapshot, PagedVec};
use crate::slots::Slots;
use crate::{StateError, mix};

/// Keys by their bits: those of the slot of the key's BinaryRow.
#[derive(Debug)]
pub struct FixedKeyIndex {
    table: HashTable<(u64, u32)>,
    null: Option<u32>,
    keys: PagedVec<u64>,
}

impl Default for FixedKeyIndex {
    fn default() -> Self {
        Self { table: HashTable::new(), null: None, keys: PagedVec::new(0) }
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

impl FixedKeyIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of `key`, which is added if it is new.
    #[inline]
    pub fn find_or_add(&mut self, slots: &mut Slots, key: u64) -> Result<Found, StateError> {
        match self.table.entry(mix(key), |entry| entry.0 == key, |entry| mix(entry.0)) {
            Entry::Occupied(entry) => Ok(Found { slot: entry.get().1, added: false }),
            Entry::Vacant(vacant) => {
                let slot = slots.acquire_for(key_hash(Some(key)))?;
                *self.keys.get_mut(slot) = key;
                vacant.insert((key, slot));
                Ok(Found { slot, added: true })
            }
        }
    }

    /// The slot of `key`, if it is there; NULL is `None`.
    #[inline]
    pub fn find(&self, key: Option<u64>) -> Option<u32> {
        let Some(key) = key else { return self.null };
        self.table.find(mix(key), |entry| entry.0 == key).map(|entry| entry.1)
    }

    /// The slot of the NULL key, which is added if it is new.
    pub fn find_or_add_null(&mut self, slots: &mut Slots) -> Result<Found, StateError> {
        if let Some(slot) = self.null {
            return Ok(Found { slot, added: false });
        }
        let slot = slots.acquire_for(key_hash(None))?;
        *self.keys.get_mut(slot) = 0;
        self.null = Some(slot);
        Ok(Found { slot, added: true })
    }

    /// The slot of a key of the key group `group` that is not there yet; `None` if it is. NULL is `None`.
    pub(crate) fn add(
        &mut self,
        slots: &mut Slots,
        group: KeyGroup,
        key: Option<u64>,
    ) -> Result<Option<u32>, StateError> {
        let Some(key) = key else {
            if self.null.is_some() {
                return Ok(None);
            }
            self.null = Some(slots.acquire(group, "keys")?);
            return Ok(self.null);
        };
        match self.table.entry(mix(key), |entry| entry.0 == key, |entry| mix(entry.0)) {
            Entry::Occupied(_) => Ok(None),
            Entry::Vacant(vacant) => {
                let slot = slots.acquire(group, "keys")?;
                *self.keys.get_mut(slot) = key;
                vacant.insert((key, slot));
                Ok(Some(slot))
            }
        }
    }

    /// Makes room for so many more keys.
    pub fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys, |entry| mix(entry.0));
    }

    /// Forgets the key of `slot`, which must be in use.
    pub fn remove(&mut self, slots: &mut Slots, slot: u32) {
        if self.null == Some(slot) {
            self.null = None;
        } else if let Ok(entry) = self.table.find_entry(mix(*self.keys.get(slot)), |entry| entry.1 == slot) {
            entry.remove();
        }
        slots.release(slot);
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.table.len() + usize::from(self.null.is_some())
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys as they are now.
    pub fn snapshot(&mut self) -> FixedKeys {
        FixedKeys { keys: self.keys.snapshot(), null: self.null }
    }

    /// See [`PagedVec::maintain`].
    pub fn maintain(&mut self, pages: usize) {
        self.keys.maintain(pages);
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.table.allocation_size() + self.keys.bytes()
    }
}

/// The keys of a [`FixedKeyIndex`] at one moment.
#[derive(Debug)]
pub struct FixedKeys {
    keys: PagedSnapshot<u64>,
    null: Option<u32>,
}

impl FixedKeys {
    /// The bits of the key of a slot that was in use, `None` for NULL.
    #[inline]
    pub fn key(&self, slot: u32) -> Option<u64> {
        (self.null != Some(slot)).then(|| *self.keys.get(slot))
    }

    /// The slot of the NULL key.
    pub fn null(&self) -> Option<u32> {
        self.null
    }

    /// The bits by page.
    pub fn pages(&self) -> &PagedSnapshot<u64> {
        &self.keys
    }
}
