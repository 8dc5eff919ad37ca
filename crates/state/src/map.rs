//! Flink's MapState under the slot of a key: entries found by a key of their own.

use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

use crate::canonical::Fault;
use crate::codec::{Codec, SectionColumns};
use crate::entries::{Entries, EntryTable};
use crate::keyed::{KeyGroups, RestoreError};
use crate::paged::Value;
use crate::slots::Slots;
use crate::{StateError, mix};

/// What makes keys of entries the same.
pub trait MapHash<K>: Debug + Send + 'static {
    /// Hash of a key; equal for equal keys.
    fn hash(key: &K) -> u64;

    /// Whether both are the same key.
    fn same(a: &K, b: &K) -> bool;
}

/// One entry.
#[derive(Debug, Clone)]
pub struct MapEntry<K, V> {
    /// The hash in the table.
    hash: u32,
    /// Its key.
    pub key: K,
    /// Its value.
    pub value: V,
}

impl<K: Value, V: Value> Value for MapEntry<K, V> {
    #[inline]
    fn heap_bytes(&self) -> usize {
        self.key.heap_bytes() + self.value.heap_bytes()
    }
}

/// How entries lie in columns: those of the key, then those of the value.
#[derive(Debug)]
pub struct MapCodec<CK, CV> {
    /// Of the key.
    pub key: CK,
    /// Of the value.
    pub value: CV,
}

impl<K: Value, V: Value, CK: Codec<K>, CV: Codec<V>> Codec<MapEntry<K, V>> for MapCodec<CK, CV> {
    type Writer = (CK::Writer, CV::Writer);
    type Reader = (CK::Reader, CV::Reader);

    fn fields(&self, prefix: &str, out: &mut Vec<Field>) {
        self.key.fields(prefix, out);
        self.value.fields(prefix, out);
    }

    fn writer(&self, rows: usize) -> Self::Writer {
        (self.key.writer(rows), self.value.writer(rows))
    }

    #[inline]
    fn write(&self, writer: &mut Self::Writer, entry: &MapEntry<K, V>) {
        self.key.write(&mut writer.0, &entry.key);
        self.value.write(&mut writer.1, &entry.value);
    }

    fn finish(&self, writer: Self::Writer, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        self.key.finish(writer.0, out)?;
        self.value.finish(writer.1, out)
    }

    fn reader(&self, prefix: &str, columns: &mut SectionColumns<'_>) -> Result<Self::Reader, RestoreError> {
        Ok((self.key.reader(prefix, columns)?, self.value.reader(prefix, columns)?))
    }

    fn read(&self, reader: &Self::Reader, row: usize) -> Result<MapEntry<K, V>, &'static str> {
        // the slot enters the hash when the entry is indexed
        Ok(MapEntry { hash: 0, key: self.key.read(&reader.0, row)?, value: self.value.read(&reader.1, row)? })
    }
}

/// Entries `(slot, key) -> value`; keys are the same where `H` says so.
#[derive(Debug)]
pub struct MapTable<K, V, H> {
    /// A hash of slot and key, and the position of the entry: one hash table has the entries of all slots.
    index: HashTable<(u32, u32)>,
    entries: EntryTable<MapEntry<K, V>>,
    fresh: V,
    equality: PhantomData<fn() -> H>,
}

/// What an index over all slots hashes: the slot and the hash of what it has there.
#[inline]
pub(crate) fn combine(slot: u32, hash: u64) -> u32 {
    let mixed = mix(hash ^ (u64::from(slot) << 32 | u64::from(slot)));
    #[expect(clippy::cast_possible_truncation, reason = "32 of 64 hash bits")]
    let short = (mixed >> 16) as u32;
    short
}

/// Where an entry of such an index lies.
#[inline]
pub(crate) fn place(entry: &(u32, u32)) -> u64 {
    mix(u64::from(entry.0))
}

impl<K: Value, V: Value, H: MapHash<K>> MapTable<K, V, H> {
    /// An empty table. New entries have the value `fresh`; `nothing` stands where there is no entry, often: it should have
    /// nothing on the heap.
    pub fn new(groups: KeyGroups, nothing: (K, V), fresh: V) -> Self {
        let (key, value) = nothing;
        let empty = MapEntry { hash: 0, key, value };
        Self { index: HashTable::new(), entries: EntryTable::new(groups, empty), fresh, equality: PhantomData }
    }

    /// The position of the entry of `slot` whose key hashes to `hash` and satisfies `same`. A missing entry is added with
    /// the key that `make` returns and a fresh value; an expired one gets a fresh value. The position is valid until the
    /// entry is removed. What has a fresh value must be written, see [`MapTable::value_mut`], or removed.
    #[inline]
    pub fn find_or_add(
        &mut self,
        slots: &Slots,
        slot: u32,
        hash: u64,
        same: impl Fn(&K) -> bool,
        make: impl FnOnce() -> K,
    ) -> Result<u32, StateError> {
        let short = combine(slot, hash);
        let entries = &mut self.entries;
        let is_entry = |candidate: &(u32, u32)| {
            candidate.0 == short && entries.get_of(candidate.1, slot).is_some_and(|entry| same(&entry.key))
        };
        match self.index.entry(place(&(short, 0)), is_entry, place) {
            TableEntry::Occupied(occupied) => {
                let position = occupied.get().1;
                if entries.expired(position) {
                    entries.get_mut(position).value = self.fresh.clone();
                }
                Ok(position)
            }
            TableEntry::Vacant(vacant) => {
                let entry = MapEntry { hash: short, key: make(), value: self.fresh.clone() };
                let position = entries.add(slots, slot, entry)?;
                vacant.insert((short, position));
                Ok(position)
            }
        }
    }

    /// The value at `position`.
    #[inline]
    pub fn value(&self, position: u32) -> &V {
        &self.entries.get(position).value
    }

    /// The value at `position`, for writing what is not on the heap. The entry lives anew from now on.
    #[inline]
    pub fn value_mut(&mut self, position: u32) -> &mut V {
        self.entries.touch(position);
        &mut self.entries.get_mut(position).value
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<K: Value, V: Value, H: MapHash<K>> Entries for MapTable<K, V, H> {
    type Entry = MapEntry<K, V>;

    fn table(&self) -> &EntryTable<Self::Entry> {
        &self.entries
    }

    fn table_mut(&mut self) -> &mut EntryTable<Self::Entry> {
        &mut self.entries
    }

    fn index(&mut self, position: u32) -> bool {
        let slot = self.entries.slot(position);
        let short = combine(slot, H::hash(&self.entries.get(position).key));
        self.entries.get_mut(position).hash = short;
        let entries = &self.entries;
        let key = &entries.get(position).key;
        let is_entry = |other: &(u32, u32)| {
            other.0 == short && entries.get_of(other.1, slot).is_some_and(|other| H::same(&other.key, key))
        };
        match self.index.entry(place(&(short, 0)), is_entry, place) {
            TableEntry::Occupied(_) => false,
            TableEntry::Vacant(vacant) => {
                vacant.insert((short, position));
                true
            }
        }
    }

    fn unindex(&mut self, position: u32) {
        let hash = self.entries.get(position).hash;
        if let Ok(found) = self.index.find_entry(place(&(hash, 0)), |entry| entry.1 == position) {
            found.remove();
        }
    }

    fn index_bytes(&self) -> usize {
        self.index.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::index::FixedKeyIndex;

    #[derive(Debug)]
    struct Colliding;

    impl MapHash<u64> for Colliding {
        fn hash(key: &u64) -> u64 {
            *key % 7
        }

        fn same(a: &u64, b: &u64) -> bool {
            a == b
        }
    }

    fn fail(error: StateError) -> TestCaseError {
        TestCaseError::fail(error.to_string())
    }

    proptest! {
        #[test]
        fn entries_follow_a_sorted_map(steps in prop::collection::vec((0_u64..5, 0_u64..20, 0_u8..8), 0..600)) {
            let mut slots = Slots::new(KeyGroups::all(2));
            let mut keys = FixedKeyIndex::new();
            let mut table: MapTable<u64, i64, Colliding> = MapTable::new(KeyGroups::all(2), (0, 0), 0);
            let mut model: BTreeMap<(u32, u64), i64> = BTreeMap::new();
            for (key, entry, step) in steps {
                let slot = keys.find_or_add(&mut slots, key, ()).map_err(fail)?.slot;
                let found = table.find_or_add(&slots, slot, Colliding::hash(&entry), |k| *k == entry, || entry);
                let position = found.map_err(fail)?;
                *table.value_mut(position) += 1;
                *model.entry((slot, entry)).or_default() += 1;
                prop_assert_eq!(Some(table.value(position)), model.get(&(slot, entry)));
                prop_assert!(!table.index(position), "there already");
                if step == 0 {
                    table.clear(slot);
                    model.retain(|(other, _), _| *other != slot);
                } else if step < 3 {
                    table.remove(position);
                    model.remove(&(slot, entry));
                }
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
