//! Keys that the cache lacks, read from the database.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::value::Found;
use super::{StoreError, TableStore};
use crate::StateError;
use crate::codec::SectionColumns;
use crate::entries::ROW;
use crate::keyed::RestoreError;
use crate::table::{BatchKeys, KeyedTable};
use crate::ttl::last_writes;

/// A batch of columns.
pub(super) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, StateError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options);
    batch.map_err(|error| StoreError::Unwritable(error.to_string()).into())
}

/// The schema of entries with the number of their key in front.
pub(super) fn with_row(schema: &SchemaRef, definition: &Field) -> SchemaRef {
    let fields = std::iter::once(Arc::new(definition.clone())).chain(schema.fields().iter().cloned());
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

impl KeyedTable {
    /// Reads the keys that were added to the cache just now. Those that the database does not have are added to `absent`.
    pub(in crate::table) fn fetch(&mut self, absent: &mut Vec<u32>) -> Result<(), StateError> {
        let Some(mut store) = self.store.take() else { return Ok(()) };
        let added = std::mem::take(&mut store.added);
        let fetched = if added.is_empty() { Ok(()) } else { self.fetch_slots(&mut store, &added, absent) };
        store.added = added;
        store.added.clear();
        self.store = Some(store);
        fetched
    }

    fn fetch_slots(&mut self, store: &mut TableStore, added: &[u32], absent: &mut Vec<u32>) -> Result<(), StateError> {
        if store.resident {
            // what the cache does not have is nowhere
            absent.extend_from_slice(added);
            return Ok(());
        }
        let asked: Vec<u32> = added.iter().copied().filter(|slot| store.has_more(self.slots.group(*slot))).collect();
        if asked.len() < added.len() {
            absent.extend(added.iter().filter(|slot| !store.has_more(self.slots.group(**slot))));
        }
        if asked.is_empty() {
            return Ok(());
        }
        // a key that was removed a moment ago must not come back
        store.flush()?;
        let mut keys = std::mem::take(&mut store.keys);
        keys.clear();
        for slot in &asked {
            keys.push(|out| {
                store.group_prefix(self.slots.group(*slot), out);
                self.keys.append_key(*slot, out);
            });
        }
        let (mut bytes, mut values, mut present) = (Vec::new(), Vec::<Range<usize>>::new(), Vec::new());
        store.database.multi_get(&keys, false, |number, value| {
            match (value, asked.get(number)) {
                (Some(value), Some(slot)) => {
                    let start = bytes.len();
                    bytes.extend_from_slice(value);
                    values.push(start..bytes.len());
                    present.push(*slot);
                }
                (None, Some(slot)) => absent.push(*slot),
                _ => {}
            }
            Ok::<(), StoreError>(())
        })?;
        store.keys = keys;
        present.iter().for_each(|slot| store.stored.insert(*slot));
        if present.is_empty() {
            return Ok(());
        }
        let mut found = store.layout.found();
        for (value, slot) in values.into_iter().zip(&present) {
            let split = bytes.get(value).map_or(Ok(()), |value| store.layout.split(value, &mut found));
            split.map_err(|what| self.damaged(*slot, what))?;
        }
        self.put_found(store, &found, &present)
    }

    /// Looks in the database for the keys of some rows of a batch that were not found in the cache.
    pub(in crate::table) fn fetch_missing(
        &mut self,
        keys: BatchKeys<'_>,
        namespaces: Option<&[i64]>,
        rows: &[u32],
        found: &mut [Option<u32>],
    ) -> Result<(), StateError> {
        let missing = |found: &[Option<u32>]| {
            let missing = rows.iter().zip(found).filter(|(_, slot)| slot.is_none());
            missing.map(|(row, _)| *row).collect::<Vec<u32>>()
        };
        let asked = missing(found);
        if asked.is_empty() || self.store.as_ref().is_none_or(|store| store.resident || store.has_all()) {
            return Ok(());
        }
        if let Some(store) = &mut self.store {
            self.keys.add_rows(&mut self.slots, keys, namespaces, &asked, |found| {
                if found.added {
                    store.added.push(found.slot);
                }
            })?;
        }
        let mut absent = Vec::new();
        self.fetch(&mut absent)?;
        absent.into_iter().for_each(|slot| self.forget(slot));
        let mut slots = Vec::with_capacity(asked.len());
        self.keys.find(keys, namespaces, &asked, |slot| slots.push(slot))?;
        found.iter_mut().filter(|slot| slot.is_none()).zip(slots).for_each(|(found, slot)| *found = slot);
        Ok(())
    }

    fn damaged(&self, slot: u32, what: impl ToString) -> StateError {
        StoreError::Entry { group: self.slots.group(slot).0, what: what.to_string() }.into()
    }

    /// Puts values that were read under their slots.
    fn put_found(&mut self, store: &TableStore, found: &Found<'_>, slots: &[u32]) -> Result<(), StateError> {
        let group = slots.first().map_or(0, |slot| self.slots.group(*slot).0);
        let damaged = |error: RestoreError| StateError::from(StoreError::Entry { group, what: error.to_string() });
        let main = batch(&store.layout.main.schema, store.layout.main.columns(&found.main)?, found.main.len())?;
        let mut columns = SectionColumns::new(self.name, &main, 0);
        for column in &mut self.columns {
            column.restore(&mut columns, slots).map_err(damaged)?;
        }
        let written = last_writes(&mut columns).map_err(damaged)?;
        if let (Some(writes), Some(written)) = (&mut self.writes, written) {
            slots.iter().zip(&written).for_each(|(slot, written)| writes.set(*slot, *written));
        }
        for ((entries, section), (numbers, rows)) in
            self.entries.iter_mut().zip(&store.layout.entries).zip(&found.entries)
        {
            if rows.is_empty() {
                continue;
            }
            let mut fields = Vec::new();
            entries.fields(&mut fields);
            let row = fields.into_iter().next().unwrap_or_else(|| Field::new(ROW, DataType::UInt32, false));
            let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(numbers.clone()))];
            columns.extend(section.columns(rows)?);
            let batch = batch(&with_row(&section.schema, &row), columns, rows.len())?;
            let name = entries.name().to_owned();
            let mut columns = SectionColumns::new(&name, &batch, 0);
            entries.restore(&mut columns, &self.slots, slots).map_err(damaged)?;
            entries.restored();
        }
        Ok(())
    }
}
