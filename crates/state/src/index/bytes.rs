//! The index of keys by their BinaryRow bytes.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Found;
use crate::arena::{ByteArena, ByteSpan};
use crate::paged::PagedVec;
use crate::slots::Slots;
use crate::{StateError, mix};

/// A key with its Flink hash, from which its key group follows.
#[derive(Debug, Clone, Copy)]
struct Key {
    hash: u32,
    bytes: ByteSpan,
}

/// Keys by their bytes; the caller passes Flink's hash of them, computed once per row.
#[derive(Debug, Default)]
pub struct BytesKeyIndex {
    /// Flink's hash and the slot: most of what differs is told apart without looking at bytes.
    table: HashTable<(u32, u32)>,
    keys: PagedVec<Key>,
    arena: ByteArena,
    slots: Slots,
}

impl BytesKeyIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of the key `bytes` with Flink's hash `hash`; the key is added if it is new.
    #[inline]
    pub fn find_or_add(&mut self, bytes: &[u8], hash: u32) -> Result<Found, StateError> {
        let (keys, arena) = (&mut self.keys, &mut self.arena);
        let same = |entry: &(u32, u32)| entry.0 == hash && arena.get(keys.get(entry.1).bytes) == bytes;
        match self.table.entry(mix(u64::from(hash)), same, |entry| mix(u64::from(entry.0))) {
            Entry::Occupied(entry) => Ok(Found { slot: entry.get().1, added: false }),
            Entry::Vacant(vacant) => {
                let key = Key { hash, bytes: arena.push(bytes)? };
                let (slot, unused) = self.slots.acquire("keys")?;
                if unused {
                    keys.push(key);
                } else {
                    *keys.get_mut(slot) = key;
                }
                vacant.insert((hash, slot));
                Ok(Found { slot, added: true })
            }
        }
    }

    /// Forgets the key of `slot`, which must be in use.
    pub fn remove(&mut self, slot: u32) -> Result<(), StateError> {
        let key = *self.keys.get(slot);
        if let Ok(entry) = self.table.find_entry(mix(u64::from(key.hash)), |entry| entry.1 == slot) {
            entry.remove();
        }
        self.slots.release(slot);
        self.arena.discard(key.bytes);
        if self.arena.wasteful() {
            self.compact()?;
        }
        Ok(())
    }

    /// The bytes of the key of `slot`, which must be in use.
    pub fn key(&self, slot: u32) -> &[u8] {
        self.arena.get(self.keys.get(slot).bytes)
    }

    /// Flink's hash of the key of `slot`, which must be in use.
    pub fn hash(&self, slot: u32) -> u32 {
        self.keys.get(slot).hash
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// One more than the highest slot ever in use.
    pub fn bound(&self) -> usize {
        self.slots.bound()
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.table.allocation_size() + self.keys.bytes() + self.arena.bytes() + self.slots.bytes()
    }

    fn compact(&mut self) -> Result<(), StateError> {
        let mut arena = ByteArena::new();
        for (_, slot) in &self.table {
            let key = self.keys.get_mut(*slot);
            key.bytes = arena.push(self.arena.get(key.bytes))?;
        }
        self.arena = arena;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn colliding_hashes_do_not_mix_keys(steps in prop::collection::vec((0_u8..60, any::<bool>()), 0..400)) {
            let mut index = BytesKeyIndex::new();
            let mut model: HashMap<Vec<u8>, u32> = HashMap::new();
            for (seed, remove) in steps {
                let key = vec![seed; usize::from(seed)];
                let found = index
                    .find_or_add(&key, u32::from(seed % 3))
                    .map_err(|e| TestCaseError::fail(e.to_string()))?;
                prop_assert_eq!(found.added, !model.contains_key(&key));
                if found.added {
                    prop_assert!(model.values().all(|slot| *slot != found.slot));
                    model.insert(key.clone(), found.slot);
                }
                prop_assert_eq!(model.get(&key), Some(&found.slot));
                prop_assert_eq!(index.key(found.slot), &key[..]);
                if remove {
                    index.remove(found.slot).map_err(|e| TestCaseError::fail(e.to_string()))?;
                    model.remove(&key);
                }
            }
        }
    }

    #[test]
    fn bytes_of_removed_keys_are_given_back() -> Result<(), StateError> {
        let mut index = BytesKeyIndex::new();
        for round in 0..200_u32 {
            for i in 0..100_u32 {
                let mut key = vec![0; 1000];
                key[..4].copy_from_slice(&i.to_le_bytes());
                let found = index.find_or_add(&key, i)?;
                if round > 0 || i % 10 != 0 {
                    index.remove(found.slot)?;
                }
            }
        }
        assert!(index.is_empty());
        assert!(index.bytes() < 4 << 20, "{} bytes", index.bytes());
        Ok(())
    }
}
