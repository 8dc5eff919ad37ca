//! The table as the cache of its store: attached, written back, made smaller.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use streamfusion_row::KeyGroup;

use super::sorted::SortedWrites;
use super::value::{SectionLayout, ValueLayout, too_large};
use super::{PENDING_BYTES, SlotSet, Store, StoreError, TableStore, prefix, record, without_keys};
use crate::StateError;
use crate::rocksdb::Keys as DatabaseKeys;
use crate::table::KeyedTable;

/// Slots that are encoded at once.
const WRITTEN_SLOTS: usize = 4096;

/// Bytes of keys and values that are put in order at once.
const SORTED_BYTES: usize = 8 << 20;

impl KeyedTable {
    /// Keeps the table, which has no keys yet, in a database from now on, as its table of number `number`. What the database has of the
    /// key groups of this subtask is the table's. Errors if that is not the state of this table.
    pub fn attach(&mut self, store: &Store, number: u8) -> Result<(), StateError> {
        let (key_schema, sections) = self.section_schemas();
        let names = std::iter::once(self.name).chain(self.entries.iter().map(|entries| entries.name()));
        let record = record::record(&store.operator_id, names.zip(&sections));
        let mut schemas = sections.iter();
        let main = schemas.next().map(|main| without_keys(main, key_schema));
        let main = SectionLayout::try_new(main.unwrap_or_else(|| Arc::new(Schema::empty())))?;
        // in front of the columns of entries is the number of their key
        let entries = schemas.map(|schema| SectionLayout::try_new(without_keys(schema, 1)));
        let layout = ValueLayout { main, entries: entries.collect::<Result<_, _>>()? };
        let key_groups = self.key_groups();
        let tag = number.checked_add(1).ok_or_else(|| StoreError::Unwritable("more than 255 tables".to_owned()))?;
        let mut attached = TableStore {
            database: store.database.clone(),
            key_groups,
            tag,
            record,
            recorded: vec![false; key_groups.range().len()],
            outside: vec![true; key_groups.range().len()],
            layout,
            pending: store.database.batch(),
            dirty: SlotSet::default(),
            stored: SlotSet::default(),
            resident: store.resident,
            added: Vec::new(),
            keys: DatabaseKeys::default(),
            key: Vec::new(),
        };
        attached.check_records()?;
        attached.outside.clone_from(&attached.recorded);
        self.store = Some(Box::new(attached));
        if store.resident { self.load_all() } else { Ok(()) }
    }

    /// The schemas of the sections, the main one first, and how many columns of that are the key's.
    pub(super) fn section_schemas(&self) -> (usize, Vec<SchemaRef>) {
        let mut fields = Vec::new();
        self.keys.fields(&mut fields);
        let keys = fields.len();
        self.columns.iter().for_each(|column| column.fields(&mut fields));
        if self.writes.is_some() {
            fields.push(crate::ttl::last_write_field());
        }
        let mut schemas = vec![Arc::new(Schema::new(fields))];
        schemas.extend(self.entries.iter().map(|entries| {
            let mut fields = Vec::new();
            entries.fields(&mut fields);
            Arc::new(Schema::new(fields))
        }));
        (keys, schemas)
    }

    /// Whether the table is kept in a database.
    pub fn is_stored(&self) -> bool {
        self.store.is_some()
    }

    /// Writes what may have changed to the database, if the table is kept in one.
    pub fn write_back(&mut self) -> Result<(), StateError> {
        let Some(mut store) = self.store.take() else { return Ok(()) };
        let written = self.write_dirty(&mut store);
        self.store = Some(store);
        written
    }

    fn write_dirty(&self, store: &mut TableStore) -> Result<(), StateError> {
        let dirty = store.dirty.slots();
        let unwritable = |fault: crate::canonical::Fault| StoreError::Unwritable(fault.to_string());
        let mut columns = Vec::new();
        let mut sorted = SortedWrites::default();
        for slots in dirty.chunks(WRITTEN_SLOTS) {
            columns.clear();
            for column in &self.columns {
                column.encode_slots(slots, &mut columns).map_err(unwritable)?;
            }
            if let Some(writes) = &self.writes {
                columns.push(writes.column(slots));
            }
            store.layout.main.pack(&columns, slots.len())?;
            let mut counts = Vec::with_capacity(self.entries.len());
            for (entries, section) in self.entries.iter().zip(&mut store.layout.entries) {
                let (of_slots, columns) = entries.encode_slots(slots).map_err(unwritable)?;
                section.pack(&columns, of_slots.iter().map(|count| *count as usize).sum())?;
                counts.push(of_slots);
            }
            let mut starts = vec![0; counts.len()];
            for (number, slot) in slots.iter().enumerate() {
                let group = self.slots.group(*slot);
                store.record(group);
                sorted.push(
                    |key| {
                        store.group_prefix(group, key);
                        self.keys.append_key(*slot, key);
                    },
                    |value| store.layout.append(number, &counts, &mut starts, value).ok_or_else(too_large),
                )?;
                store.stored.insert(*slot);
                if sorted.bytes() >= SORTED_BYTES {
                    store.write_sorted(&mut sorted)?;
                }
            }
        }
        store.write_sorted(&mut sorted)?;
        store.flush()?;
        store.dirty.clear();
        Ok(())
    }

    /// Writes back, and lets the half of the keys that were not used for the longest time leave memory, if the table is kept in a
    /// database. What was loaded last stays, with all of the open bundle.
    pub fn evict(&mut self) -> Result<(), StateError> {
        if self.store.as_ref().is_none_or(|store| store.resident) {
            return Ok(());
        }
        self.write_back()?;
        let mut ages: Vec<(u32, u32)> = Vec::with_capacity(self.slots.len());
        self.for_each_slot(|slot, _| {
            let batch = self.stamps.get(slot as usize).map_or(0, |stamp| stamp.0);
            // also right when batches began to be counted anew
            let age = self.batch.wrapping_sub(batch);
            if age > 0 {
                ages.push((age, slot));
            }
        });
        let kept = ages.len().saturating_sub(self.slots.len().div_ceil(2));
        if kept < ages.len() {
            ages.select_nth_unstable(kept);
        }
        let Some(mut store) = self.store.take() else { return Ok(()) };
        for (_, slot) in ages.into_iter().skip(kept) {
            if store.stored.remove(slot) {
                store.leaves(self.slots.group(slot));
            }
            self.forget(slot);
        }
        self.keys.shrink();
        self.store = Some(store);
        Ok(())
    }

    /// Removes the key of a slot from the database, if the table is kept in one.
    pub(in crate::table) fn remove_stored(&mut self, slot: u32) -> Result<(), StateError> {
        let Some(store) = &mut self.store else { return Ok(()) };
        store.dirty.remove(slot);
        if store.stored.remove(slot) {
            let mut key = std::mem::take(&mut store.key);
            key.clear();
            store.group_prefix(self.slots.group(slot), &mut key);
            self.keys.append_key(slot, &mut key);
            store.pending.delete(&key);
            store.key = key;
            if store.pending.bytes() >= PENDING_BYTES {
                store.flush()?;
            }
        }
        Ok(())
    }
}

impl TableStore {
    fn write_sorted(&mut self, writes: &mut SortedWrites) -> Result<(), StateError> {
        for (key, value) in writes.sorted() {
            self.pending.put(key, value);
            if self.pending.bytes() >= PENDING_BYTES {
                self.database.write(&mut self.pending).map_err(StoreError::from)?;
            }
        }
        writes.clear();
        Ok(())
    }

    /// Notes that the database has a key of this group that memory has not.
    fn leaves(&mut self, group: KeyGroup) {
        if let Some(outside) = self.place(group).and_then(|place| self.outside.get_mut(place)) {
            *outside = true;
        }
    }

    /// Whether the database may have keys of this group that memory has not.
    pub(super) fn has_more(&self, group: KeyGroup) -> bool {
        self.place(group).and_then(|place| self.outside.get(place)).is_none_or(|outside| *outside)
    }

    /// Whether memory has all keys that the database has.
    pub(super) fn has_all(&self) -> bool {
        !self.outside.contains(&true)
    }

    fn place(&self, group: KeyGroup) -> Option<usize> {
        group.0.checked_sub(self.key_groups.first).map(usize::from)
    }

    /// Notes that a key group has entries from now on.
    fn record(&mut self, group: KeyGroup) {
        if let Some(recorded) = self.place(group).and_then(|place| self.recorded.get_mut(place))
            && !std::mem::replace(recorded, true)
        {
            let mut key = Vec::new();
            self.record_key(group, &mut key);
            self.pending.put(&key, &self.record);
        }
    }

    fn record_key(&self, group: KeyGroup, out: &mut Vec<u8>) {
        prefix(self.key_groups, group, out);
        // each table has a record of its own
        out.extend([0, self.tag]);
    }

    /// Errors if the database has entries of another operator or version.
    fn check_records(&mut self) -> Result<(), StateError> {
        let groups = self.key_groups.range();
        let mut keys = DatabaseKeys::default();
        for group in groups.clone() {
            keys.push(|out| self.record_key(KeyGroup(group), out));
        }
        let (database, expected) = (self.database.clone(), record::describe(&self.record));
        let mut recorded = Vec::with_capacity(keys.len());
        database.multi_get(&keys, true, |number, record| {
            let group = self.key_groups.first + u16::try_from(number).unwrap_or_default();
            let wrong = |found: String| StoreError::Version { group, found, expected: expected.clone() };
            match record {
                Some(record) if record == self.record => recorded.push(true),
                Some(record) => return Err(wrong(record::describe(record))),
                None => recorded.push(false),
            }
            Ok(())
        })?;
        for (group, recorded) in groups.zip(&recorded) {
            let mut prefix = Vec::new();
            self.group_prefix(KeyGroup(group), &mut prefix);
            if !recorded && database.cursor(&prefix).next().map_err(StoreError::from)?.is_some() {
                return Err(StoreError::Version { group, found: "of no version".to_owned(), expected }.into());
            }
        }
        self.recorded = recorded;
        Ok(())
    }
}
