//! What a database has of a table, key group by key group, as sections of the canonical form.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::SchemaRef;
use streamfusion_row::KeyGroup;

use super::fetch::batch;
use super::value::{SectionLayout, ValueLayout};
use super::{StoreError, TableStore, prefix};
use crate::StateError;
use crate::canonical::{CanonicalError, Fault, FormatVersion, Section, Sections};
use crate::codec::SectionColumns;
use crate::keyed::{KeyGroups, StateSnapshot};
use crate::rocksdb::{Cursor, DatabaseError, DatabaseSnapshot, Entry, SnapshotCursor};
use crate::table::KeyedTable;
use crate::table::key_bytes::KeyBytes;
use crate::table::snapshot::with_version;
use crate::ttl::{StateTtl, last_writes};

/// Bytes of keys and values that make a record batch, and how many of them.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_KEYS: usize = 1 << 16;

/// Walks over entries.
trait Walk {
    fn next(&mut self) -> Result<Option<Entry<'_>>, DatabaseError>;
}

impl Walk for Cursor {
    fn next(&mut self) -> Result<Option<Entry<'_>>, DatabaseError> {
        Self::next(self)
    }
}

impl Walk for SnapshotCursor<'_> {
    fn next(&mut self) -> Result<Option<Entry<'_>>, DatabaseError> {
        Self::next(self)
    }
}

/// Reads the entries of a table.
#[derive(Debug)]
struct Reader {
    /// Of the sections, the main one first.
    names: Vec<String>,
    schemas: Vec<SchemaRef>,
    keys: KeyBytes,
    layout: ValueLayout,
    key_groups: KeyGroups,
    tag: u8,
}

impl Reader {
    fn prefix(&self, group: KeyGroup) -> Vec<u8> {
        let mut bytes = Vec::new();
        prefix(self.key_groups, group, &mut bytes);
        bytes.push(self.tag);
        bytes
    }

    /// The sections of a key group, whose entries `walk` has, behind so many bytes of prefix each.
    fn sections(&self, group: KeyGroup, mut walk: impl Walk, prefix: usize) -> Result<Vec<Section>, StateError> {
        let mut batches: Vec<_> = self.schemas.iter().map(|_| Vec::new()).collect();
        let mut first_row = 0;
        let mut more = true;
        while more {
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            while ends.len() < BATCH_KEYS && bytes.len() < BATCH_BYTES {
                let Some((key, value)) = walk.next().map_err(StoreError::from)? else {
                    more = false;
                    break;
                };
                bytes.extend_from_slice(key.get(prefix..).unwrap_or_default());
                let key_end = bytes.len();
                bytes.extend_from_slice(value);
                ends.push((key_end, bytes.len()));
            }
            if ends.is_empty() && first_row > 0 {
                break;
            }
            let damaged = |what: &str| StoreError::Entry { group: group.0, what: what.to_owned() };
            let (mut keys, mut found, mut start) = (Vec::with_capacity(ends.len()), self.layout.found(), 0);
            for (key_end, end) in &ends {
                keys.push(&bytes[start..*key_end]);
                self.layout.split(&bytes[*key_end..*end], &mut found).map_err(damaged)?;
                start = *end;
            }
            let mut columns = self.keys.columns(&keys).map_err(damaged)?;
            columns.extend(self.layout.main.columns(&found.main)?);
            let sections = self.layout.entries.iter().zip(&found.entries).map(|(section, (numbers, rows))| {
                let numbers = numbers.iter().map(|number| number + first_row);
                let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from_iter_values(numbers))];
                columns.extend(section.columns(rows)?);
                Ok((columns, rows.len()))
            });
            let sections: Vec<_> = sections.collect::<Result<_, StateError>>()?;
            let all = std::iter::once((columns, keys.len())).chain(sections);
            for ((batches, schema), (columns, rows)) in batches.iter_mut().zip(&self.schemas).zip(all) {
                batches.push(batch(schema, columns, rows)?);
            }
            // a key group has fewer keys than slots
            first_row += ends.len() as u32;
        }
        let section = |(name, batches): (&String, _)| Section::try_new(name.as_str(), batches);
        let sections = self.names.iter().zip(batches).map(section).collect::<Result<Vec<_>, _>>();
        sections.map_err(|fault| StoreError::Unwritable(fault.to_string()).into())
    }
}

impl KeyedTable {
    fn reader(&self, store: &TableStore) -> Result<Reader, StateError> {
        let (keys, schemas) = self.section_schemas();
        let skipped = |section: usize| if section == 0 { keys } else { 1 };
        let layouts = schemas
            .iter()
            .enumerate()
            .map(|(section, schema)| SectionLayout::try_new(super::without_keys(schema, skipped(section))));
        let mut layouts = layouts.collect::<Result<Vec<_>, _>>()?.into_iter();
        let main = layouts.next().ok_or(StateError::Unregistered)?;
        let names = std::iter::once(self.name).chain(self.entries.iter().map(|entries| entries.name()));
        Ok(Reader {
            names: names.map(str::to_owned).collect(),
            schemas: schemas.iter().map(with_version).collect(),
            keys: self.keys.key_bytes(),
            layout: ValueLayout { main, entries: layouts.collect() },
            key_groups: store.key_groups,
            tag: store.tag,
        })
    }

    /// Takes over all keys that the database has.
    pub(super) fn load_all(&mut self) -> Result<(), StateError> {
        let Some(store) = self.store.take() else { return Ok(()) };
        let loaded = self.load_groups(&store);
        self.store = Some(store);
        loaded?;
        let mut slots = Vec::with_capacity(self.slots.len());
        self.for_each_slot(|slot, _| slots.push(slot));
        if let Some(store) = &mut self.store {
            slots.into_iter().for_each(|slot| store.stored.insert(slot));
        }
        Ok(())
    }

    fn load_groups(&mut self, store: &TableStore) -> Result<(), StateError> {
        let reader = self.reader(store)?;
        for group in store.key_groups.range().map(KeyGroup) {
            let prefix = reader.prefix(group);
            if store.database.cursor(&prefix).next().map_err(StoreError::from)?.is_none() {
                continue;
            }
            let sections = Sections {
                key_group: group,
                format_version: FormatVersion::Asynchronous,
                processing_time_deadline: None,
                sections: reader.sections(group, store.database.cursor(&prefix), prefix.len())?,
            };
            let damaged = |error: crate::RestoreError| StoreError::Entry { group: group.0, what: error.to_string() };
            self.restore(&sections).map_err(damaged)?;
        }
        Ok(())
    }

    /// What the database has of the table, with all that was written so far.
    pub(in crate::table) fn stored_snapshot(&mut self) -> Result<Option<StoredSnapshot>, StateError> {
        if self.store.as_ref().is_none_or(|store| store.resident) {
            return Ok(None);
        }
        self.write_back()?;
        let Some(store) = &self.store else { return Ok(None) };
        let reader = self.reader(store)?;
        let database = store.database.snapshot();
        Ok(Some(StoredSnapshot { reader, ttl: self.ttl, database, bounds: Mutex::default() }))
    }
}

/// A table in a database at one moment.
#[derive(Debug)]
pub(in crate::table) struct StoredSnapshot {
    reader: Reader,
    ttl: Option<StateTtl>,
    database: DatabaseSnapshot,
    /// What key groups were found to take, and when their first key expires.
    bounds: Mutex<BTreeMap<u16, usize>>,
}

impl StoredSnapshot {
    fn read(&self, group: KeyGroup) -> Result<Vec<Section>, StateError> {
        let prefix = self.reader.prefix(group);
        self.reader.sections(group, self.database.cursor(&prefix), prefix.len())
    }

    fn has(&self, group: KeyGroup) -> bool {
        // what cannot be read is found when the group is encoded
        !matches!(self.database.cursor(&self.reader.prefix(group)).next(), Ok(None))
    }

    fn first_write(&self, group: KeyGroup) -> Option<i64> {
        let mut first: Option<i64> = None;
        for section in self.read(group).ok()? {
            for batch in section.batches() {
                let written = last_writes(&mut SectionColumns::new(section.name(), batch, 0)).ok().flatten();
                let earliest = written.and_then(|written| written.iter().copied().min());
                first = first.into_iter().chain(earliest).min();
            }
        }
        first
    }
}

impl StateSnapshot for StoredSnapshot {
    fn key_groups(&self) -> Vec<KeyGroup> {
        self.reader.key_groups.range().map(KeyGroup).filter(|group| self.has(*group)).collect()
    }

    fn deadline(&self, group: KeyGroup) -> Option<i64> {
        let ttl = self.ttl?;
        self.first_write(group).map(|written| ttl.deadline(written))
    }

    fn bytes_bound(&self, group: KeyGroup) -> usize {
        if let Some(bytes) = self.bounds.lock().ok().and_then(|bounds| bounds.get(&group.0).copied()) {
            return bytes;
        }
        let mut cursor = self.database.cursor(&self.reader.prefix(group));
        let columns: usize = self.reader.schemas.iter().map(|schema| schema.fields().len()).sum();
        let mut bytes = 0;
        while let Ok(Some((key, value))) = cursor.next() {
            // packed values take as much as in columns, but for the ends of texts and the bits of NULLs
            bytes += key.len() + 2 * value.len() + 5 * columns + size_of::<u32>();
        }
        bytes += self.reader.schemas.iter().map(crate::table::snapshot::schema_bytes).sum::<usize>();
        if let Ok(mut bounds) = self.bounds.lock() {
            bounds.insert(group.0, bytes);
        }
        bytes
    }

    fn sections(&self, group: KeyGroup) -> Result<Vec<Section>, CanonicalError> {
        self.read(group).map_err(|error| failed(group, error))
    }
}

fn failed(group: KeyGroup, error: StateError) -> CanonicalError {
    let error = match error {
        StateError::Store(error) => error,
        other => Box::new(StoreError::Unwritable(other.to_string())),
    };
    CanonicalError { key_group: Some(group), fault: Fault::Store(error) }
}

/// The snapshot of a table that could not be written to its database: says so when it is encoded.
#[derive(Debug)]
pub(in crate::table) struct FailedSnapshot {
    pub(in crate::table) group: KeyGroup,
    pub(in crate::table) error: StateError,
}

impl StateSnapshot for FailedSnapshot {
    fn key_groups(&self) -> Vec<KeyGroup> {
        vec![self.group]
    }

    fn deadline(&self, _: KeyGroup) -> Option<i64> {
        None
    }

    fn bytes_bound(&self, _: KeyGroup) -> usize {
        0
    }

    fn sections(&self, group: KeyGroup) -> Result<Vec<Section>, CanonicalError> {
        Err(failed(group, self.error.clone()))
    }
}
