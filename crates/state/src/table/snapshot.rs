//! A table at one moment, as sections of columns.
//!
//! The main section has one row per key: the key, then the columns in the order in which they were registered. Each kind
//! of entries has a section of its own, with the number of the key's row in the main section. Rows go by page, which is
//! no order that means anything; those of row entries go key by key, in the order of their list.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use streamfusion_row::KeyGroup;

use super::KeyedTable;
use super::keys_snapshot::KeysSnapshot;
use super::store::FailedSnapshot;
use crate::canonical::{CanonicalError, Fault, Section};
use crate::column::ColumnSnapshot;
use crate::entries::{EntriesSnapshot, Sink};
use crate::keyed::StateSnapshot;
use crate::slots::{SlotsSnapshot, count, for_each_piece};
use crate::ttl::{LastWrites, LastWritesSnapshot, last_write_column, last_write_field};

/// Metadata of a section's schema: the version of its columns.
pub(super) const VERSION_KEY: &str = "streamfusion.version";
/// The version that is written.
pub(super) const VERSION: &str = "1";

/// See the [module](self).
#[derive(Debug)]
pub(super) struct TableSnapshot {
    name: &'static str,
    keys: KeysSnapshot,
    slots: SlotsSnapshot,
    writes: Option<LastWritesSnapshot>,
    schema: SchemaRef,
    columns: Vec<Box<dyn ColumnSnapshot>>,
    entries: Vec<(String, SchemaRef, Box<dyn EntriesSnapshot>)>,
}

fn schema(fields: Vec<Field>) -> SchemaRef {
    let metadata = HashMap::from([(VERSION_KEY.to_owned(), VERSION.to_owned())]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// The schema of a section that says its version.
pub(super) fn with_version(of: &SchemaRef) -> SchemaRef {
    schema(of.fields().iter().map(|field| Field::clone(field)).collect())
}

impl KeyedTable {
    /// The table as it is now.
    pub fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        match self.stored_snapshot() {
            Ok(None) => {}
            Ok(Some(stored)) => return Box::new(stored),
            Err(error) => return Box::new(FailedSnapshot { group: KeyGroup(self.key_groups().first), error }),
        }
        let keys = self.keys.snapshot();
        let mut fields = Vec::new();
        keys.fields(&mut fields);
        self.columns.iter().for_each(|column| column.fields(&mut fields));
        if self.writes.is_some() {
            fields.push(last_write_field());
        }
        let entries = self.entries.iter_mut().map(|entries| {
            let mut fields = Vec::new();
            entries.fields(&mut fields);
            (entries.name().to_owned(), schema(fields), entries.snapshot())
        });
        Box::new(TableSnapshot {
            name: self.name,
            keys,
            slots: self.slots.snapshot(),
            writes: self.writes.as_mut().map(LastWrites::snapshot),
            schema: schema(fields),
            columns: self.columns.iter_mut().map(|column| column.snapshot()).collect(),
            entries: entries.collect(),
        })
    }
}

/// Bytes of a field in a schema, and of what a record batch says about its column and pads it with, or more.
const FIELD_BYTES: usize = 768;

/// Bytes of a field, those of its children included, beside the values.
fn field_bytes(field: &Field) -> usize {
    let metadata: usize = field.metadata().iter().map(|(key, value)| key.len() + value.len()).sum();
    let children = match field.data_type() {
        DataType::Struct(children) => children.iter().map(|child| field_bytes(child)).sum(),
        _ => 0,
    };
    FIELD_BYTES + field.name().len() + metadata + children
}

/// Bytes of the fields of a schema, beside the values.
pub(super) fn schema_bytes(schema: &SchemaRef) -> usize {
    schema.fields().iter().map(|field| field_bytes(field)).sum()
}

/// A section that `encode` hands over batch by batch; one batch without rows if it hands over none.
fn section(
    name: &str,
    schema: &SchemaRef,
    encode: impl FnOnce(&mut Sink<'_>) -> Result<(), Fault>,
) -> Result<Section, Fault> {
    let mut batches = Vec::new();
    encode(&mut |rows, columns| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options);
        batches.push(batch.map_err(|error| Fault::Arrow { section: name.to_owned(), error })?);
        Ok(())
    })?;
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(SchemaRef::clone(schema)));
    }
    Section::try_new(name, batches)
}

impl TableSnapshot {
    fn encode(&self, group: KeyGroup) -> Result<Vec<Section>, Fault> {
        let mut sections = Vec::with_capacity(1 + self.entries.len());
        sections.push(section(self.name, &self.schema, |sink| {
            for_each_piece(self.slots.pages(group), |pages, rows| {
                let mut columns = Vec::with_capacity(self.schema.fields().len());
                self.keys.encode(pages, rows, &mut columns)?;
                for column in &self.columns {
                    column.encode(pages, rows, &mut columns)?;
                }
                if let Some(writes) = &self.writes {
                    columns.push(last_write_column(writes.values(pages, rows)));
                }
                sink(rows, columns)
            })
        })?);
        for (name, schema, entries) in &self.entries {
            sections.push(section(name, schema, |sink| entries.encode(&self.slots, group, sink))?);
        }
        Ok(sections)
    }
}

impl StateSnapshot for TableSnapshot {
    fn key_groups(&self) -> Vec<KeyGroup> {
        self.slots.groups()
    }

    fn deadline(&self, group: KeyGroup) -> Option<i64> {
        let keys = self.writes.as_ref().and_then(|writes| writes.deadline(self.slots.pages(group)));
        let of_entries = |entries: &dyn EntriesSnapshot| entries.deadline(entries.positions().pages(group));
        // an entry may be older than the last write to its key
        self.entries.iter().filter_map(|(_, _, entries)| of_entries(entries.as_ref())).chain(keys).min()
    }

    fn bytes_bound(&self, group: KeyGroup) -> usize {
        let pages = self.slots.pages(group);
        let rows = count(pages);
        let columns: usize = self.columns.iter().map(|column| column.bytes_bound(pages, rows)).sum();
        let entries: usize = self
            .entries
            .iter()
            .map(|(_, _, entries)| {
                let pages = entries.positions().pages(group);
                entries.bytes_bound(pages, count(pages))
            })
            .sum();
        let writes = self.writes.as_ref().map_or(0, |_| rows * size_of::<i64>());
        let schemas = self.entries.iter().map(|(_, schema, _)| schema).chain([&self.schema]);
        let schemas: usize = schemas.map(schema_bytes).sum();
        self.keys.bytes_bound(pages, rows) + columns + entries + writes + schemas
    }

    fn sections(&self, group: KeyGroup) -> Result<Vec<Section>, CanonicalError> {
        self.encode(group).map_err(|fault| CanonicalError { key_group: Some(group), fault })
    }
}
