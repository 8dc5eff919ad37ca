//! The index of keys by their BinaryRow bytes.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Found;
use crate::arena::{ArenaSnapshot, ByteArena, ByteSpan};
use crate::paged::{PagedSnapshot, PagedVec, Value};
use crate::slots::Slots;
use crate::{StateError, mix};

/// A key with its Flink hash, from which its key group follows.
#[derive(Debug, Clone, Copy, Default)]
struct Key {
    hash: u32,
    bytes: ByteSpan,
}

impl Value for Key {}

/// Keys by their bytes; the caller passes Flink's hash of them, computed once per row.
#[derive(Debug)]
pub struct BytesKeyIndex {
    /// Flink's hash and the slot: most of what differs is told apart without looking at bytes.
    table: HashTable<(u32, u32)>,
    keys: PagedVec<Key>,
    arena: ByteArena,
}

impl Default for BytesKeyIndex {
    fn default() -> Self {
        Self { table: HashTable::new(), keys: PagedVec::new(Key::default()), arena: ByteArena::new() }
    }
}

impl BytesKeyIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of the key `bytes` with Flink's hash `hash`; the key is added if it is new.
    #[inline]
    pub fn find_or_add(&mut self, slots: &mut Slots, bytes: &[u8], hash: u32) -> Result<Found, StateError> {
        let (keys, arena) = (&mut self.keys, &mut self.arena);
        let same = |entry: &(u32, u32)| entry.0 == hash && arena.get(keys.get(entry.1).bytes) == bytes;
        match self.table.entry(mix(u64::from(hash)), same, |entry| mix(u64::from(entry.0))) {
            Entry::Occupied(entry) => Ok(Found { slot: entry.get().1, added: false }),
            Entry::Vacant(vacant) => {
                let slot = slots.acquire_for(hash.cast_signed())?;
                *keys.get_mut(slot) = Key { hash, bytes: arena.push(bytes)? };
                vacant.insert((hash, slot));
                Ok(Found { slot, added: true })
            }
        }
    }

    /// Makes room for so many more keys.
    pub fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys, |entry| mix(u64::from(entry.0)));
    }

    /// Forgets the key of `slot`, which must be in use.
    pub fn remove(&mut self, slots: &mut Slots, slot: u32) -> Result<(), StateError> {
        let key = *self.keys.get(slot);
        if let Ok(entry) = self.table.find_entry(mix(u64::from(key.hash)), |entry| entry.1 == slot) {
            entry.remove();
        }
        slots.release(slot);
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

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The keys as they are now.
    pub fn snapshot(&mut self) -> BytesKeys {
        BytesKeys { keys: self.keys.snapshot(), arena: self.arena.snapshot() }
    }

    /// See [`PagedVec::maintain`].
    pub fn maintain(&mut self, pages: usize) {
        self.keys.maintain(pages);
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.table.allocation_size() + self.keys.bytes() + self.arena.bytes()
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

/// The keys of a [`BytesKeyIndex`] at one moment.
#[derive(Debug)]
pub struct BytesKeys {
    keys: PagedSnapshot<Key>,
    arena: ArenaSnapshot,
}

impl BytesKeys {
    /// The bytes of the key of a slot that was in use.
    #[inline]
    pub fn key(&self, slot: u32) -> &[u8] {
        self.arena.get(self.keys.get(slot).bytes)
    }

    /// How many they are.
    #[inline]
    pub fn key_len(&self, slot: u32) -> usize {
        self.keys.get(slot).bytes.len()
    }
}
