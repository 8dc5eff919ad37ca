//! Rows of keys as entries of a table: snapshots, restore.
//!
//! A section has a row per row, key by key, in the order of the key's list: `row` (the number of the key's row in the main
//! section), the columns of the value beside it (`value` or `value.` and a name), `field.0` and so on, `last_write` with a time-to-live.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::{DataType, Field};
use streamfusion_row::KeyGroup;

use super::{Node, PackedRows, RowEntries};
use crate::canonical::Fault;
use crate::codec::{Codec, SectionColumns, with_definition};
use crate::column::{field_bytes, for_each_used};
use crate::entries::{AnyEntries, EntriesSnapshot, ROW, Sink};
use crate::heap::HeapSnapshot;
use crate::keyed::RestoreError;
use crate::paged::{PAGE, PagedSnapshot, Value};
use crate::rows::column::wide_decimal;
use crate::rows::gather;
use crate::rows::layout::RowLayout;
use crate::slots::{BATCH_ROWS, NONE, Slots, SlotsSnapshot, UsedPage, bits};
use crate::ttl::{LastWrites, LastWritesSnapshot, last_write_column, last_write_field, last_writes};

/// What the columns of the value beside a row begin with.
const VALUE: &str = "value";

/// Rows of keys with what makes them Arrow columns.
#[derive(Debug)]
pub(crate) struct StoredRowEntries<V, C> {
    entries: RowEntries<V>,
    format: Arc<Format<C>>,
}

#[derive(Debug)]
struct Format<C> {
    name: String,
    codec: C,
    /// Per field: what it holds, in words.
    definitions: Vec<String>,
}

impl<C> Format<C> {
    fn definition(&self, field: usize) -> Option<&str> {
        self.definitions.get(field).map(String::as_str)
    }
}

fn field_name(field: usize) -> String {
    format!("field.{field}")
}

impl<V: Value + Copy, C: Codec<V>> StoredRowEntries<V, C> {
    pub(crate) fn new(name: String, definitions: Vec<String>, codec: C, entries: RowEntries<V>) -> Self {
        Self { entries, format: Arc::new(Format { name, codec, definitions }) }
    }
}

/// The fields of a row of the section without the time of the last write.
fn fields<V, C: Codec<V>>(format: &Format<C>, layout: &RowLayout, out: &mut Vec<Field>) {
    out.push(Field::new(ROW, DataType::UInt32, false));
    format.codec.fields(VALUE, out);
    for (number, ty) in layout.types().enumerate() {
        out.push(with_definition(Field::new(field_name(number), ty.clone(), true), format.definition(number)));
    }
}

impl<V: Value + Copy, C: Codec<V>> AnyEntries for StoredRowEntries<V, C> {
    fn typed(&mut self) -> &mut dyn Any {
        &mut self.entries
    }

    fn name(&self) -> &str {
        &self.format.name
    }

    fn clear(&mut self, slot: u32) {
        self.entries.clear(slot);
    }

    fn maintain(&mut self, pages: usize) {
        self.entries.maintain(pages);
    }

    fn begin(&mut self, now: i64) {
        if let Some(writes) = &mut self.entries.writes {
            writes.begin(now);
        }
    }

    fn expire(&mut self, pages: u32) {
        let Some(writes) = self.entries.writes.as_mut().filter(|_| !self.entries.keeps_expired) else { return };
        let mut expired = Vec::new();
        writes.walk(&self.entries.positions, pages, &mut expired);
        for position in expired {
            self.entries.remove(position);
        }
    }

    fn bytes(&self) -> usize {
        self.entries.bytes()
    }

    fn fields(&self, out: &mut Vec<Field>) {
        fields(&self.format, &self.entries.layout, out);
        if self.entries.writes.is_some() {
            out.push(last_write_field());
        }
    }

    fn snapshot(&mut self) -> Box<dyn EntriesSnapshot> {
        let entries = &mut self.entries;
        Box::new(Snapshot {
            layout: Arc::clone(&entries.layout),
            nodes: entries.nodes.snapshot(),
            positions: entries.positions.snapshot(),
            heads: entries.heads.snapshot(),
            heap: entries.heap.snapshot(),
            writes: entries.writes.as_mut().map(LastWrites::snapshot),
            format: Arc::clone(&self.format),
        })
    }

    fn encode_slots(&self, slots: &[u32]) -> Result<(Vec<u32>, Vec<ArrayRef>), Fault> {
        let (entries, codec) = (&self.entries, &self.format.codec);
        let (mut counts, mut positions) = (Vec::with_capacity(slots.len()), Vec::new());
        for slot in slots {
            let before = positions.len();
            positions.extend(std::iter::successors(entries.first(*slot), |position| entries.next(*position)));
            counts
                .push(u32::try_from(positions.len() - before).map_err(|_| Fault::Unwritable { what: "so many rows" })?);
        }
        let mut writer = codec.writer(positions.len());
        positions.iter().for_each(|position| codec.write(&mut writer, entries.value(*position)));
        let mut columns = Vec::new();
        codec.finish(writer, &mut columns)?;
        let rows = entries.gather(&positions);
        columns.extend(rows.map_err(|_| Fault::Unwritable { what: "rows with so much text" })?);
        if let Some(writes) = &entries.writes {
            columns.push(last_write_column(positions.iter().map(|position| writes.get(*position)).collect()));
        }
        Ok((counts, columns))
    }

    fn restored(&mut self) {}

    fn restore(&mut self, columns: &mut SectionColumns<'_>, slots: &Slots, rows: &[u32]) -> Result<(), RestoreError> {
        let keys = columns.required::<u32>(ROW, &DataType::UInt32)?;
        let reader = self.format.codec.reader(VALUE, columns)?;
        let mut arrays = Vec::new();
        for (number, ty) in self.entries.layout.types().enumerate() {
            columns.define(self.format.definition(number));
            let array = columns.column(&field_name(number), ty)?;
            if let Some(row) = wide_decimal(&array, &|_| true) {
                return Err(columns.value_error(row, "a decimal with too many digits"));
            }
            arrays.push(array);
        }
        columns.define(None);
        let written = last_writes(columns)?;
        let mut batch = PackedRows::default();
        let numbers: Vec<u32> = (0..).take(keys.len()).collect();
        self.entries.pack(&arrays, &numbers, &mut batch)?;
        for (row, key) in keys.iter().enumerate() {
            let slot = rows.get(*key as usize).ok_or_else(|| columns.value_error(row, "no key has this number"))?;
            let value = self.format.codec.read(&reader, row).map_err(|what| columns.value_error(row, what))?;
            let position = self.entries.restore(slots, *slot, &batch, row, value)?;
            let position = position.ok_or_else(|| columns.value_error(row, "a second row like another one"))?;
            if let (Some(writes), Some(written)) = (&mut self.entries.writes, &written) {
                writes.set(position, written[row]);
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Snapshot<V, C> {
    layout: Arc<RowLayout>,
    nodes: PagedSnapshot<Node<V>>,
    positions: SlotsSnapshot,
    heads: PagedSnapshot<u32>,
    heap: HeapSnapshot,
    writes: Option<LastWritesSnapshot>,
    format: Arc<Format<C>>,
}

impl<V: Value + Copy, C: Codec<V>> Snapshot<V, C> {
    /// The positions of the rows of a key group, key by key, each with the number of its key.
    fn walk(&self, keys: &SlotsSnapshot, group: KeyGroup) -> impl Iterator<Item = (u32, u32)> {
        let slots = keys.pages(group).iter().flat_map(|UsedPage { page, used }| {
            // a bit is below 64
            bits(*used).map(move |bit| page * PAGE as u32 + bit as u32)
        });
        let position = |position: u32| (position != NONE).then_some(position);
        slots.zip(0..).flat_map(move |(slot, number)| {
            std::iter::successors(position(*self.heads.get(slot)), move |at| position(self.nodes.get(*at).next))
                .map(move |position| (number, position))
        })
    }

    fn batch(&self, rows: &[(u32, u32)]) -> Result<Vec<ArrayRef>, Fault> {
        let codec = &self.format.codec;
        let (mut packed, mut writer) = (Vec::with_capacity(rows.len()), codec.writer(rows.len()));
        for (_, position) in rows {
            let node = self.nodes.get(*position);
            codec.write(&mut writer, &node.value);
            packed.push(self.heap.get(node.span).ok_or(Fault::Unwritable { what: "a row that is not there" })?);
        }
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)))];
        codec.finish(writer, &mut columns)?;
        let fields = gather::columns(&self.layout, &packed);
        columns.extend(fields.map_err(|_| Fault::Unwritable { what: "rows with so much text" })?);
        if let Some(writes) = &self.writes {
            columns.push(last_write_column(rows.iter().map(|row| writes.value(row.1)).collect()));
        }
        Ok(columns)
    }
}

impl<V: Value + Copy, C: Codec<V>> EntriesSnapshot for Snapshot<V, C> {
    fn positions(&self) -> &SlotsSnapshot {
        &self.positions
    }

    fn deadline(&self, pages: &[UsedPage]) -> Option<i64> {
        self.writes.as_ref().and_then(|writes| writes.deadline(pages))
    }

    fn encode(&self, keys: &SlotsSnapshot, group: KeyGroup, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let mut walk = self.walk(keys, group);
        loop {
            let rows: Vec<(u32, u32)> = walk.by_ref().take(BATCH_ROWS).collect();
            if rows.is_empty() {
                return Ok(());
            }
            sink(rows.len(), self.batch(&rows)?)?;
        }
    }

    fn bytes_bound(&self, pages: &[UsedPage], rows: usize) -> usize {
        let mut all = vec![last_write_field()];
        fields(&self.format, &self.layout, &mut all);
        let mut bytes = all.iter().map(|field| field_bytes(field.data_type())).sum::<usize>() * rows;
        for_each_used(&self.nodes, pages, |node| bytes += node.span.string_bytes());
        bytes
    }
}
