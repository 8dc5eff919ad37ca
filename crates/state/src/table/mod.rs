//! The keyed state of one operator: its keys, a slot for each, and what lies under the slots.
//!
//! An operator registers what it keeps per key when it is opened: columns (one value per key) and entries (any number of
//! values per key). Per batch it
//!
//! 1. loads the keys of the batch ([`KeyedTable::load`]): each row gets the number of its key in the batch, each key a slot;
//! 2. works on values by slot, in whatever order and as often as it likes;
//! 3. commits the slots that it changed and removes those whose keys are gone ([`KeyedTable::commit`],
//!    [`KeyedTable::remove`]).
//!
//! Between load and commit the values of the loaded slots are in memory; that is all an operator may assume about others.
//! A table in memory has all of them, so that load is a lookup and commit next to nothing. One that is kept in a database (see `store`) reads what it
//! lacks in load, and writes what was committed later: an operator that changes a slot which it did not load says so ([`KeyedTable::mark`]).
//!
//! In a table with namespaces ([`KeyedTable::namespaced`]) a slot belongs to a key in a namespace, such as the end of a window, and one key
//! may have many. The key group follows from the key alone.
//!
//! Snapshots, restore and the bytes taken are the table's: an operator has no code for them.

mod fixed_bits;
mod key_bytes;
mod key_index;
mod keys;
mod keys_snapshot;
mod pair;
mod restore;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::marker::PhantomData;

pub use fixed_bits::fixed_key_bits;
pub use keys::{BatchKeys, KeyLayout, SlotKeys};
pub use pair::TablePair;
pub use store::{Store, StoreError};

use self::keys::Keys;
use self::store::TableStore;
use crate::canonical::Sections;
use crate::codec::Codec;
use crate::column::{AnyColumn, Column, ColumnId, Stored};
use crate::entries::{AnyEntries, Entries, EntriesId, StoredEntries};
use crate::index::Found;
use crate::keyed::{KeyGroups, KeyedState, RestoreError, StateClock, StateContext, StateSnapshot};
use crate::paged::PAGE;
use crate::rows::{Identity, RowEntries, RowEntriesId, RowLayout, Rows, RowsId, StoredRowEntries, StoredRows};
use crate::slots::{Slots, bits};
use crate::ttl::{LastWrites, StateTtl};
use crate::{StateError, index};

/// Pages that come back from snapshots per batch and vector.
const MAINTAINED_PAGES: usize = 2048;

/// The keys of a batch: numbered in first-touch order.
#[derive(Debug, Default)]
pub struct Touched {
    /// Per row: the number of its key.
    pub groups: Vec<u32>,
    /// Per key: its slot.
    pub slots: Vec<u32>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct KeyedTable {
    name: &'static str,
    keys: Keys,
    slots: Slots,
    columns: Vec<Box<dyn AnyColumn>>,
    entries: Vec<Box<dyn AnyEntries>>,
    /// Per slot: the batch that touched it last and its number there.
    stamps: Vec<(u32, u32)>,
    batch: u32,
    clock: StateClock,
    ttl: Option<StateTtl>,
    /// With a time-to-live: when each slot was written last.
    writes: Option<LastWrites>,
    /// The database that it is kept in, if it is.
    store: Option<Box<TableStore>>,
}

impl KeyedTable {
    /// A table without keys. `name` is that of its main section; it never changes. Without `ttl` keys live for ever.
    pub fn new(name: &'static str, layout: KeyLayout, ttl: Option<StateTtl>, context: &StateContext) -> Self {
        Self::of(name, Keys::new(layout), ttl, context)
    }

    /// A table without keys, in which a key may have a slot in each of any number of namespaces. For the rest see [`KeyedTable::new`].
    pub fn namespaced(name: &'static str, layout: KeyLayout, ttl: Option<StateTtl>, context: &StateContext) -> Self {
        Self::of(name, Keys::namespaced(layout), ttl, context)
    }

    fn of(name: &'static str, keys: Keys, ttl: Option<StateTtl>, context: &StateContext) -> Self {
        Self {
            name,
            keys,
            slots: Slots::new(context.key_groups),
            columns: Vec::new(),
            entries: Vec::new(),
            stamps: Vec::new(),
            batch: 0,
            clock: context.clock.clone(),
            ttl,
            writes: ttl.map(LastWrites::new),
            store: None,
        }
    }

    /// The key groups of this subtask.
    pub fn key_groups(&self) -> KeyGroups {
        self.slots.groups()
    }

    /// Adds a column, before the first key. Its Arrow columns are called `name` or begin with it, which never changes;
    /// `definition` says in words what it holds, and a snapshot of another definition is refused.
    pub fn add_column<T: crate::paged::Value>(
        &mut self,
        name: impl Into<String>,
        definition: Option<String>,
        codec: impl Codec<T>,
        empty: T,
    ) -> ColumnId<T> {
        self.columns.push(Box::new(Stored::new(name.into(), definition, codec, empty)));
        ColumnId { place: self.columns.len() - 1, value: PhantomData }
    }

    /// Adds a row per key, before the first key. Its Arrow columns are called `name.0` and so on; `definitions` says in words
    /// what each of its fields holds. For the rest see [`KeyedTable::add_column`].
    pub fn add_rows(&mut self, name: impl Into<String>, definitions: Vec<String>, layout: RowLayout) -> RowsId {
        self.columns.push(Box::new(StoredRows::new(name.into(), definitions, layout)));
        RowsId { place: self.columns.len() - 1 }
    }

    /// Adds entries, before the first key. Their section is called `name`, and its first field has the definition; for the
    /// rest see [`KeyedTable::add_column`].
    pub fn add_entries<N: Entries>(
        &mut self,
        name: impl Into<String>,
        definition: Option<String>,
        codec: impl Codec<N::Entry>,
        entries: N,
    ) -> EntriesId<N> {
        self.entries.push(Box::new(StoredEntries::new(name.into(), definition, codec, entries, self.ttl)));
        EntriesId { place: self.entries.len() - 1, entries: PhantomData }
    }

    /// Adds any number of rows per key, before the first key. Their section is called `name`, the Arrow columns of a row
    /// `field.0` and so on; `definitions` says in words what each holds. What else there is of a row lies in the columns of
    /// `codec`, called `value` and so on, and `nothing` stands where there is no row. For the rest see [`KeyedTable::add_column`]. Errors if the
    /// identity has a column that rows do not have.
    pub fn add_row_entries<V: crate::paged::Value + Copy>(
        &mut self,
        name: impl Into<String>,
        definitions: Vec<String>,
        layout: RowLayout,
        identity: Identity,
        codec: impl Codec<V>,
        nothing: V,
    ) -> Result<RowEntriesId<V>, StateError> {
        let entries = RowEntries::new(self.key_groups(), layout, identity, nothing, self.ttl)?;
        self.entries.push(Box::new(StoredRowEntries::new(name.into(), definitions, codec, entries)));
        Ok(RowEntriesId { place: self.entries.len() - 1, value: PhantomData })
    }

    /// The slots of the keys of a batch; new keys are added. A key whose values have expired has empty ones. Errors if a key
    /// is of another subtask.
    pub fn load(&mut self, keys: BatchKeys<'_>, touched: &mut Touched) -> Result<(), StateError> {
        self.begin(keys.len(), touched)?;
        self.load_more(keys, touched)
    }

    /// [`KeyedTable::load`] where slots have a namespace: `namespaces` has that of each row.
    pub fn load_in(
        &mut self,
        keys: BatchKeys<'_>,
        namespaces: &[i64],
        touched: &mut Touched,
    ) -> Result<(), StateError> {
        self.begin(keys.len(), touched)?;
        self.load_more_in(keys, namespaces, touched)
    }

    /// Begins a batch of so many rows.
    fn begin(&mut self, rows: usize, touched: &mut Touched) -> Result<(), StateError> {
        self.expire(rows)?;
        touched.slots.clear();
        self.batch = match self.batch.checked_add(1) {
            Some(batch) => batch,
            None => {
                self.stamps.clear();
                1
            }
        };
        Ok(())
    }

    /// Goes on with what was loaded last, which `touched` has: further rows come at the same moment, and keys that it does
    /// not have are numbered behind those that it has.
    pub fn load_more(&mut self, keys: BatchKeys<'_>, touched: &mut Touched) -> Result<(), StateError> {
        self.add(keys, None, touched)
    }

    /// [`KeyedTable::load_more`] where slots have a namespace: `namespaces` has that of each row.
    pub fn load_more_in(
        &mut self,
        keys: BatchKeys<'_>,
        namespaces: &[i64],
        touched: &mut Touched,
    ) -> Result<(), StateError> {
        self.add(keys, Some(namespaces), touched)
    }

    fn add(
        &mut self,
        keys: BatchKeys<'_>,
        namespaces: Option<&[i64]>,
        touched: &mut Touched,
    ) -> Result<(), StateError> {
        self.maintain();
        touched.groups.clear();
        let known = touched.slots.len();
        let Touched { groups, slots: touched_slots } = touched;
        let mut numbering = Numbering { stamps: &mut self.stamps, batch: self.batch, slots: touched_slots };
        match &mut self.store {
            None => {
                self.keys.find_or_add(&mut self.slots, keys, namespaces, groups, |found| numbering.number(found))?;
            }
            Some(store) => {
                self.keys.find_or_add(&mut self.slots, keys, namespaces, groups, |found| {
                    if found.added {
                        store.added.push(found.slot);
                    }
                    numbering.number(found)
                })?;
                self.fetch(&mut Vec::new())?;
            }
        }
        if let Some(writes) = &self.writes {
            let expired = touched.slots.iter().skip(known).copied().filter(|slot| writes.expired(*slot));
            for slot in expired.collect::<Vec<_>>() {
                // whether the key is written again is for the operator to say
                self.remove_stored(slot)?;
                clear(&mut self.columns, &mut self.entries, slot);
            }
        }
        Ok(())
    }

    /// The slots of the keys of some rows of a batch, where they are there and have not expired; no key is added. What was loaded
    /// before counts as another batch.
    pub fn find(&mut self, keys: BatchKeys<'_>, rows: &[u32], found: &mut Vec<Option<u32>>) -> Result<(), StateError> {
        self.look_up(keys, None, rows, found)
    }

    /// [`KeyedTable::find`] where slots have a namespace: `namespaces` has that of each row of the batch.
    pub fn find_in(
        &mut self,
        keys: BatchKeys<'_>,
        namespaces: &[i64],
        rows: &[u32],
        found: &mut Vec<Option<u32>>,
    ) -> Result<(), StateError> {
        self.look_up(keys, Some(namespaces), rows, found)
    }

    fn look_up(
        &mut self,
        keys: BatchKeys<'_>,
        namespaces: Option<&[i64]>,
        rows: &[u32],
        found: &mut Vec<Option<u32>>,
    ) -> Result<(), StateError> {
        self.maintain();
        self.expire(keys.len())?;
        found.clear();
        self.keys.find(keys, namespaces, rows, |slot| found.push(slot))?;
        if self.store.is_some() {
            self.fetch_missing(keys, namespaces, rows, found)?;
        }
        let Some(writes) = &self.writes else { return Ok(()) };
        found.iter_mut().for_each(|slot| *slot = slot.filter(|slot| !writes.expired(*slot)));
        Ok(())
    }

    /// The namespace of a slot in use; 0 in a table without namespaces.
    #[inline]
    pub fn namespace(&self, slot: u32) -> i64 {
        self.keys.namespace(slot).unwrap_or_default()
    }

    /// The keys of slots in use.
    pub fn slot_keys(&self, slots: &[u32]) -> Result<SlotKeys<'_>, StateError> {
        self.keys.of_slots(slots)
    }

    /// Calls `each` with every slot in use and its namespace, in no order that means anything: for what is made anew after a restore.
    pub fn for_each_slot(&self, mut each: impl FnMut(u32, i64)) {
        for page in 0..self.slots.num_pages() {
            // a slot is below 2^32
            bits(self.slots.used(page)).map(|bit| page * PAGE as u32 + bit as u32).for_each(|slot| {
                each(slot, self.namespace(slot));
            });
        }
    }

    /// Whether the table has a section of this name.
    pub(crate) fn has_section(&self, name: &str) -> bool {
        name == self.name || self.entries.iter().any(|entries| entries.name() == name)
    }

    /// Reads the clock and removes some of what has expired, enough for so many rows. [`KeyedTable::load`] does that for its own, so this
    /// is for those of [`KeyedTable::load_more`]. Nothing that was loaded may be used afterwards.
    pub fn expire(&mut self, rows: usize) -> Result<(), StateError> {
        let Some(writes) = &mut self.writes else { return Ok(()) };
        let now = self.clock.now();
        // faster than rows can add keys
        let pages = u32::try_from(2 * rows / PAGE + 1).unwrap_or(u32::MAX);
        writes.begin(now);
        let mut expired = Vec::new();
        writes.walk(&self.slots, pages, &mut expired);
        for slot in expired {
            self.remove(slot)?;
        }
        for entries in &mut self.entries {
            entries.begin(now);
            entries.expire(pages);
        }
        Ok(())
    }

    /// The values of a column. Errors if it is another table's.
    #[inline]
    pub fn column<T: crate::paged::Value>(&mut self, id: ColumnId<T>) -> Result<&mut Column<T>, StateError> {
        let column = self.columns.get_mut(id.place).and_then(|column| column.typed().downcast_mut());
        column.ok_or(StateError::Unregistered)
    }

    /// The rows of all keys. Errors if they are another table's.
    #[inline]
    pub fn rows(&mut self, id: RowsId) -> Result<&mut Rows, StateError> {
        let rows = self.columns.get_mut(id.place).and_then(|column| column.typed().downcast_mut());
        rows.ok_or(StateError::Unregistered)
    }

    /// Entries, and the slots that they belong to. Errors if they are another table's.
    #[inline]
    pub fn entries<N: Entries>(&mut self, id: EntriesId<N>) -> Result<(&mut N, &Slots), StateError> {
        let entries = self.entries.get_mut(id.place).and_then(|entries| entries.typed().downcast_mut());
        Ok((entries.ok_or(StateError::Unregistered)?, &self.slots))
    }

    /// The rows of all keys, and the slots that they belong to. Errors if they are another table's.
    #[inline]
    pub fn row_entries<V: crate::paged::Value + Copy>(
        &mut self,
        id: RowEntriesId<V>,
    ) -> Result<(&mut RowEntries<V>, &Slots), StateError> {
        let entries = self.entries.get_mut(id.place).and_then(|entries| entries.typed().downcast_mut());
        Ok((entries.ok_or(StateError::Unregistered)?, &self.slots))
    }

    /// Keeps the values of these slots, which were loaded for the batch and written.
    pub fn commit(&mut self, slots: &[u32]) {
        if let Some(store) = &mut self.store {
            slots.iter().for_each(|slot| store.mark(*slot));
        }
        if let Some(writes) = &mut self.writes {
            slots.iter().for_each(|slot| writes.touch(*slot));
        }
    }

    /// Keeps what was changed under a slot that was only [found](KeyedTable::find), which is no write of its key: it lives no longer.
    pub fn mark(&mut self, slot: u32) {
        if let Some(store) = &mut self.store {
            store.mark(slot);
        }
    }

    /// Forgets the key of a loaded slot and what lies under it.
    pub fn remove(&mut self, slot: u32) -> Result<(), StateError> {
        self.remove_stored(slot)?;
        self.forget(slot);
        Ok(())
    }

    /// Forgets the key of a slot and what lies under it, in memory.
    fn forget(&mut self, slot: u32) {
        clear(&mut self.columns, &mut self.entries, slot);
        if let Some(writes) = &mut self.writes {
            writes.forget(slot);
        }
        self.keys.remove(&mut self.slots, slot);
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes back pages that snapshots do not need any more.
    fn maintain(&mut self) {
        self.slots.maintain(MAINTAINED_PAGES);
        self.keys.maintain(MAINTAINED_PAGES);
        if let Some(writes) = &mut self.writes {
            writes.maintain(MAINTAINED_PAGES);
        }
        self.columns.iter_mut().for_each(|column| column.maintain(MAINTAINED_PAGES));
        self.entries.iter_mut().for_each(|entries| entries.maintain(MAINTAINED_PAGES));
    }

    /// Bytes taken, snapshots in flight included.
    pub fn bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.bytes()).sum();
        let entries: usize = self.entries.iter().map(|entries| entries.bytes()).sum();
        let stamps = self.stamps.capacity() * size_of::<(u32, u32)>();
        self.keys.bytes()
            + self.slots.bytes()
            + columns
            + entries
            + stamps
            + self.writes.as_ref().map_or(0, LastWrites::bytes)
            + self.store.as_ref().map_or(0, |store| store.bytes())
    }
}

impl KeyedState for KeyedTable {
    fn table(&self) -> &'static str {
        self.name
    }

    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        self.snapshot()
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.restore(sections)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        self.attach(store, 0).map(|()| true)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.write_back()
    }

    fn evict(&mut self) -> Result<(), StateError> {
        self.evict()
    }
}

/// Leaves empty values under a slot.
fn clear(columns: &mut [Box<dyn AnyColumn>], entries: &mut [Box<dyn AnyEntries>], slot: u32) {
    columns.iter_mut().for_each(|column| column.reset(slot));
    entries.iter_mut().for_each(|entries| entries.clear(slot));
}

/// Numbers slots in first-touch order.
struct Numbering<'a> {
    stamps: &'a mut Vec<(u32, u32)>,
    batch: u32,
    /// By number.
    slots: &'a mut Vec<u32>,
}

impl Numbering<'_> {
    #[inline]
    fn number(&mut self, found: index::Found) -> u32 {
        let Found { slot, .. } = found;
        if slot as usize >= self.stamps.len() {
            self.stamps.resize(slot as usize + 1, (0, 0));
        }
        let stamp = &mut self.stamps[slot as usize];
        if stamp.0 != self.batch {
            // no more keys than slots, which are counted in 32 bits
            *stamp = (self.batch, self.slots.len() as u32);
            self.slots.push(slot);
        }
        stamp.1
    }
}
