//! Several entries per key: Flink's MapState under the slot of a key.
//!
//! One hash table holds the entries of all keys; the entries of a key form a list, so that they can be cleared without a
//! search. Invariants: an entry is in the table and in the list of its slot, or in neither; lists are doubly linked, so
//! that an entry leaves in constant time.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

use crate::paged::PagedVec;
use crate::slots::{NONE, Slots};
use crate::{StateError, mix};

#[derive(Debug, Clone)]
struct Entry<K, V> {
    slot: u32,
    previous: u32,
    next: u32,
    /// The hash in the table.
    hash: u32,
    key: K,
    value: V,
}

/// Entries `(slot, key) -> value`.
#[derive(Debug)]
pub struct MapTable<K, V> {
    /// A hash of slot and key, and the position of the entry.
    table: HashTable<(u32, u32)>,
    entries: PagedVec<Entry<K, V>>,
    heads: PagedVec<u32>,
    positions: Slots,
}

impl<K: Clone + Default, V: Clone + Default> Default for MapTable<K, V> {
    fn default() -> Self {
        Self { table: HashTable::new(), entries: PagedVec::new(), heads: PagedVec::new(), positions: Slots::default() }
    }
}

#[inline]
fn combine(slot: u32, hash: u64) -> u32 {
    let mixed = mix(hash ^ (u64::from(slot) << 32 | u64::from(slot)));
    #[expect(clippy::cast_possible_truncation, reason = "32 of 64 hash bits")]
    let short = (mixed >> 16) as u32;
    short
}

impl<K: Clone + Default, V: Clone + Default> MapTable<K, V> {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The position of the entry of `slot` whose key hashes to `hash` and satisfies `same`. A missing entry is added with
    /// the key that `make` returns and a default value. The position is valid until the entry is removed.
    #[inline]
    pub fn find_or_add(
        &mut self,
        slot: u32,
        hash: u64,
        same: impl Fn(&K) -> bool,
        make: impl FnOnce() -> K,
    ) -> Result<u32, StateError> {
        let short = combine(slot, hash);
        let entries = &self.entries;
        let is_entry = |candidate: &(u32, u32)| {
            candidate.0 == short && {
                let entry = entries.get(candidate.1);
                entry.slot == slot && same(&entry.key)
            }
        };
        match self.table.entry(mix(u64::from(short)), is_entry, |entry| mix(u64::from(entry.0))) {
            TableEntry::Occupied(occupied) => Ok(occupied.get().1),
            TableEntry::Vacant(vacant) => {
                let (position, unused) = self.positions.acquire("entries of keys")?;
                self.heads.grow(slot as usize + 1, &NONE);
                let head = std::mem::replace(self.heads.get_mut(slot), position);
                let entry = Entry { slot, previous: NONE, next: head, hash: short, key: make(), value: V::default() };
                if unused {
                    self.entries.push(entry);
                } else {
                    *self.entries.get_mut(position) = entry;
                }
                if head != NONE {
                    self.entries.get_mut(head).previous = position;
                }
                vacant.insert((short, position));
                Ok(position)
            }
        }
    }

    /// The value at `position`, for writing.
    #[inline]
    pub fn value_mut(&mut self, position: u32) -> &mut V {
        &mut self.entries.get_mut(position).value
    }

    /// The value at `position`.
    #[inline]
    pub fn value(&self, position: u32) -> &V {
        &self.entries.get(position).value
    }

    /// Removes the entry at `position`.
    pub fn remove(&mut self, position: u32) {
        let entry = self.entries.get(position);
        let (slot, previous, next) = (entry.slot, entry.previous, entry.next);
        if previous == NONE {
            *self.heads.get_mut(slot) = next;
        } else {
            self.entries.get_mut(previous).next = next;
        }
        if next != NONE {
            self.entries.get_mut(next).previous = previous;
        }
        self.forget(position);
    }

    /// Removes all entries of `slot`.
    pub fn clear(&mut self, slot: u32) {
        if slot as usize >= self.heads.len() {
            return;
        }
        let mut position = std::mem::replace(self.heads.get_mut(slot), NONE);
        while position != NONE {
            let next = self.entries.get(position).next;
            self.forget(position);
            position = next;
        }
    }

    fn forget(&mut self, position: u32) {
        let entry = self.entries.get_mut(position);
        (entry.key, entry.value) = (K::default(), V::default());
        if let Ok(found) = self.table.find_entry(mix(u64::from(entry.hash)), |entry| entry.1 == position) {
            found.remove();
        }
        self.positions.release(position);
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Bytes taken, without what keys and values own on the heap.
    pub fn bytes(&self) -> usize {
        self.table.allocation_size() + self.entries.bytes() + self.heads.bytes() + self.positions.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_follow_a_sorted_map(steps in prop::collection::vec((0_u32..5, 0_u64..20, 0_u8..8), 0..600)) {
            let mut table: MapTable<u64, i64> = MapTable::new();
            let mut model: BTreeMap<(u32, u64), i64> = BTreeMap::new();
            let hash = |key: &u64| *key % 7;
            for (slot, key, step) in steps {
                let found = table.find_or_add(slot, hash(&key), |k| *k == key, || key);
                let position = found.map_err(|e| TestCaseError::fail(e.to_string()))?;
                *table.value_mut(position) += 1;
                *model.entry((slot, key)).or_default() += 1;
                prop_assert_eq!(Some(table.value(position)), model.get(&(slot, key)));
                if step == 0 {
                    table.clear(slot);
                    model.retain(|(other, _), _| *other != slot);
                } else if step < 3 {
                    table.remove(position);
                    model.remove(&(slot, key));
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
