//! Several entries per key: what lies under a slot where one value is not enough.
//!
//! An [`EntryTable`] keeps entries by position, those of a key in a list, so that they can be cleared without a search.
//! Positions come from pages of the key's group, as slots do. What finds an entry by its content is an index of whoever
//! owns the table (a hash table, a sorted map): it is not part of snapshots but made anew when entries are restored.
//!
//! Invariants: an entry is in the pages, in the list of its slot and in the index, or in none of them; lists are doubly
//! linked, so that an entry leaves in constant time.

use std::any::Any;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::{DataType, Field};
use streamfusion_row::KeyGroup;

use crate::StateError;
use crate::canonical::Fault;
use crate::codec::{Codec, SectionColumns, with_definition};
use crate::column::{field_bytes, for_each_used};
use crate::keyed::{KeyGroups, RestoreError};
use crate::paged::{PagedSnapshot, PagedVec, Value};
use crate::slots::{NONE, Slots, SlotsSnapshot, UsedPage, for_each_piece};
use crate::ttl::{LastWrites, LastWritesSnapshot, StateTtl, last_write_column, last_write_field, last_writes};

/// Column of a section of entries: the number of the row of its key in the main section.
pub(crate) const ROW: &str = "row";

#[derive(Debug, Clone)]
struct Node<E> {
    slot: u32,
    previous: u32,
    next: u32,
    entry: E,
}

impl<E: Value> Value for Node<E> {
    #[inline]
    fn heap_bytes(&self) -> usize {
        self.entry.heap_bytes()
    }
}

/// Entries by position, and in lists by slot.
#[derive(Debug)]
pub struct EntryTable<E> {
    nodes: PagedVec<Node<E>>,
    positions: Slots,
    /// First entry of each slot.
    heads: Vec<u32>,
    heap: usize,
    /// With a time-to-live: when each entry was written last.
    writes: Option<LastWrites>,
}

impl<E: Value> EntryTable<E> {
    /// No entries. `empty` stands where there is none.
    pub fn new(groups: KeyGroups, empty: E) -> Self {
        Self {
            nodes: PagedVec::new(Node { slot: NONE, previous: NONE, next: NONE, entry: empty }),
            positions: Slots::new(groups),
            heads: Vec::new(),
            heap: 0,
            writes: None,
        }
    }

    /// Adds an entry to a slot of `slots` and returns its position, valid until it is removed.
    pub fn add(&mut self, slots: &Slots, slot: u32, entry: E) -> Result<u32, StateError> {
        let position = self.positions.acquire(slots.group(slot), "entries of keys")?;
        if slot as usize >= self.heads.len() {
            self.heads.resize(slot as usize + 1, NONE);
        }
        let head = std::mem::replace(&mut self.heads[slot as usize], position);
        if head != NONE {
            self.nodes.get_mut(head).previous = position;
        }
        self.heap += entry.heap_bytes();
        self.touch(position);
        *self.nodes.get_mut(position) = Node { slot, previous: NONE, next: head, entry };
        Ok(position)
    }

    /// The entry at `position`.
    #[inline]
    pub fn get(&self, position: u32) -> &E {
        &self.nodes.get(position).entry
    }

    /// The entry at `position`, for writing what is not on the heap.
    #[inline]
    pub fn get_mut(&mut self, position: u32) -> &mut E {
        &mut self.nodes.get_mut(position).entry
    }

    /// Whether the entry at `position` has expired: it counts as absent.
    #[inline]
    pub fn expired(&self, position: u32) -> bool {
        self.writes.as_ref().is_some_and(|writes| writes.expired(position))
    }

    /// Notes a write to the entry at `position`, which lives anew from now on.
    #[inline]
    pub fn touch(&mut self, position: u32) {
        if let Some(writes) = &mut self.writes {
            writes.touch(position);
        }
    }

    /// The entry at `position`, if it is one of `slot`.
    #[inline]
    pub fn get_of(&self, position: u32, slot: u32) -> Option<&E> {
        let node = self.nodes.get(position);
        (node.slot == slot).then_some(&node.entry)
    }

    /// The slot of the entry at `position`.
    #[inline]
    pub fn slot(&self, position: u32) -> u32 {
        self.nodes.get(position).slot
    }

    /// The first entry of a slot, in no order that means anything.
    #[inline]
    fn head(&self, slot: u32) -> Option<u32> {
        self.heads.get(slot as usize).copied().filter(|position| *position != NONE)
    }

    /// The positions of the entries of a slot, in no order that means anything.
    pub fn of_slot(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |position: &u32| Some(self.nodes.get(*position).next).filter(|next| *next != NONE);
        std::iter::successors(self.head(slot), next)
    }

    /// Whether a slot has entries, expired ones included.
    #[inline]
    pub fn has_entries(&self, slot: u32) -> bool {
        self.head(slot).is_some()
    }

    /// Removes the entry at `position`.
    pub fn remove(&mut self, position: u32) -> E {
        let empty = self.nodes.empty().clone();
        let Node { slot, previous, next, entry } = std::mem::replace(self.nodes.get_mut(position), empty);
        if previous != NONE {
            self.nodes.get_mut(previous).next = next;
        } else if let Some(head) = self.heads.get_mut(slot as usize) {
            *head = next;
        }
        if next != NONE {
            self.nodes.get_mut(next).previous = previous;
        }
        if let Some(writes) = &mut self.writes {
            writes.forget(position);
        }
        self.positions.release(position);
        self.heap -= entry.heap_bytes();
        entry
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.nodes.bytes()
            + self.positions.bytes()
            + self.heads.capacity() * size_of::<u32>()
            + self.heap
            + self.writes.as_ref().map_or(0, LastWrites::bytes)
    }
}

/// Entries with the index that finds them.
pub trait Entries: Debug + Send + 'static {
    /// One entry.
    type Entry: Value;

    /// The entries.
    fn table(&self) -> &EntryTable<Self::Entry>;

    /// The entries, for writing.
    fn table_mut(&mut self) -> &mut EntryTable<Self::Entry>;

    /// Adds the entry at `position` to the index. False if there is an equal one, or it cannot be an entry.
    fn index(&mut self, position: u32) -> bool;

    /// Completes the index when all entries that are restored were added to it, in any order.
    fn indexed(&mut self) {}

    /// Takes the entry at `position` out of the index.
    fn unindex(&mut self, position: u32);

    /// Bytes of the index.
    fn index_bytes(&self) -> usize;

    /// Removes the entry at `position`.
    fn remove(&mut self, position: u32) -> Self::Entry {
        self.unindex(position);
        self.table_mut().remove(position)
    }

    /// Removes all entries of `slot`.
    fn clear(&mut self, slot: u32) {
        while let Some(position) = self.table().head(slot) {
            self.remove(position);
        }
    }
}

/// Which entries of their table.
#[derive(Debug)]
pub struct EntriesId<N> {
    pub(crate) place: usize,
    pub(crate) entries: PhantomData<fn() -> N>,
}

impl<N> Clone for EntriesId<N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for EntriesId<N> {}

/// Entries of any kind.
pub(crate) trait AnyEntries: Debug + Send {
    /// The [`Entries`] themselves.
    fn typed(&mut self) -> &mut dyn Any;

    fn name(&self) -> &str;

    fn clear(&mut self, slot: u32);

    fn maintain(&mut self, pages: usize);

    /// Sets the time of writes.
    fn begin(&mut self, now: i64);

    /// Removes what has expired on the next `pages` pages.
    fn expire(&mut self, pages: u32);

    fn bytes(&self) -> usize;

    fn fields(&self, out: &mut Vec<Field>);

    fn snapshot(&mut self) -> Box<dyn EntriesSnapshot>;

    /// How many entries each of some slots has, and the columns of all of them, slot by slot: those of the section without the
    /// number of the key.
    fn encode_slots(&self, slots: &[u32]) -> Result<(Vec<u32>, Vec<ArrayRef>), Fault>;

    /// Completes a restore, see [`Entries::indexed`].
    fn restored(&mut self);

    /// Adds the entries of a batch. `rows` are the slots of the rows of the main section.
    fn restore(&mut self, columns: &mut SectionColumns<'_>, slots: &Slots, rows: &[u32]) -> Result<(), RestoreError>;
}

/// Takes the columns of a record batch and how many rows they have.
pub(crate) type Sink<'a> = dyn FnMut(usize, Vec<ArrayRef>) -> Result<(), Fault> + 'a;

/// Entries at one moment.
pub(crate) trait EntriesSnapshot: Debug + Send + Sync {
    fn positions(&self) -> &SlotsSnapshot;

    /// When the first of the entries at the positions in use expires.
    fn deadline(&self, pages: &[UsedPage]) -> Option<i64>;

    /// Hands the entries of a key group to `sink`, as Arrow columns and the number of their rows. `keys` are the slots of
    /// the table.
    fn encode(&self, keys: &SlotsSnapshot, group: KeyGroup, sink: &mut Sink<'_>) -> Result<(), Fault>;

    /// Bytes that the entries at the positions in use take at most, `rows` of them.
    fn bytes_bound(&self, pages: &[UsedPage], rows: usize) -> usize;
}

/// Entries with what makes them Arrow columns.
#[derive(Debug)]
pub(crate) struct StoredEntries<N, C> {
    entries: N,
    format: Arc<Format<C>>,
}

#[derive(Debug)]
struct Format<C> {
    name: String,
    codec: C,
    definition: Option<String>,
}

impl<N: Entries, C: Codec<N::Entry>> StoredEntries<N, C> {
    pub(crate) fn new(
        name: String,
        definition: Option<String>,
        codec: C,
        mut entries: N,
        ttl: Option<StateTtl>,
    ) -> Self {
        entries.table_mut().writes = ttl.map(LastWrites::new);
        Self { entries, format: Arc::new(Format { name, codec, definition }) }
    }
}

impl<N: Entries, C: Codec<N::Entry>> AnyEntries for StoredEntries<N, C> {
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
        let table = self.entries.table_mut();
        table.nodes.maintain(pages);
        table.positions.maintain(pages);
        if let Some(writes) = &mut table.writes {
            writes.maintain(pages);
        }
    }

    fn begin(&mut self, now: i64) {
        if let Some(writes) = &mut self.entries.table_mut().writes {
            writes.begin(now);
        }
    }

    fn expire(&mut self, pages: u32) {
        let table = self.entries.table_mut();
        let Some(writes) = &mut table.writes else { return };
        let mut expired = Vec::new();
        writes.walk(&table.positions, pages, &mut expired);
        for position in expired {
            self.entries.remove(position);
        }
    }

    fn bytes(&self) -> usize {
        self.entries.table().bytes() + self.entries.index_bytes()
    }

    fn fields(&self, out: &mut Vec<Field>) {
        let Format { codec, definition, .. } = &*self.format;
        out.push(with_definition(Field::new(ROW, DataType::UInt32, false), definition.as_deref()));
        codec.fields("", out);
        if self.entries.table().writes.is_some() {
            out.push(last_write_field());
        }
    }

    fn snapshot(&mut self) -> Box<dyn EntriesSnapshot> {
        let table = self.entries.table_mut();
        Box::new(Snapshot {
            nodes: table.nodes.snapshot(),
            positions: table.positions.snapshot(),
            writes: table.writes.as_mut().map(LastWrites::snapshot),
            format: Arc::clone(&self.format),
        })
    }

    fn encode_slots(&self, slots: &[u32]) -> Result<(Vec<u32>, Vec<ArrayRef>), Fault> {
        let (table, codec) = (self.entries.table(), &self.format.codec);
        let (mut counts, mut written) = (Vec::with_capacity(slots.len()), Vec::new());
        let mut writer = codec.writer(slots.len());
        for slot in slots {
            let mut count = 0;
            let mut at = table.head(*slot);
            while let Some(position) = at {
                let node = table.nodes.get(position);
                codec.write(&mut writer, &node.entry);
                if let Some(writes) = &table.writes {
                    written.push(writes.get(position));
                }
                count += 1;
                at = Some(node.next).filter(|next| *next != NONE);
            }
            counts.push(count);
        }
        let mut columns = Vec::new();
        codec.finish(writer, &mut columns)?;
        if table.writes.is_some() {
            columns.push(last_write_column(written));
        }
        Ok((counts, columns))
    }

    fn restored(&mut self) {
        self.entries.indexed();
    }

    fn restore(&mut self, columns: &mut SectionColumns<'_>, slots: &Slots, rows: &[u32]) -> Result<(), RestoreError> {
        let Format { codec, definition, .. } = &*self.format;
        columns.define(definition.as_deref());
        let keys = columns.required::<u32>(ROW, &DataType::UInt32)?;
        columns.define(None);
        let reader = codec.reader("", columns)?;
        let written = last_writes(columns)?;
        for (row, key) in keys.iter().enumerate() {
            let slot = rows.get(*key as usize).ok_or_else(|| columns.value_error(row, "no key has this number"))?;
            let entry = codec.read(&reader, row).map_err(|what| columns.value_error(row, what))?;
            let position = self.entries.table_mut().add(slots, *slot, entry)?;
            if !self.entries.index(position) {
                return Err(columns.value_error(row, "a second entry like another one"));
            }
            if let (Some(writes), Some(written)) = (&mut self.entries.table_mut().writes, &written) {
                writes.set(position, written[row]);
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Snapshot<E, C> {
    nodes: PagedSnapshot<Node<E>>,
    positions: SlotsSnapshot,
    writes: Option<LastWritesSnapshot>,
    format: Arc<Format<C>>,
}

impl<E: Value, C: Codec<E>> EntriesSnapshot for Snapshot<E, C> {
    fn positions(&self) -> &SlotsSnapshot {
        &self.positions
    }

    fn deadline(&self, pages: &[UsedPage]) -> Option<i64> {
        self.writes.as_ref().and_then(|writes| writes.deadline(pages))
    }

    fn encode(&self, keys: &SlotsSnapshot, group: KeyGroup, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let codec = &self.format.codec;
        for_each_piece(self.positions.pages(group), |pages, rows| {
            let (mut numbers, mut writer) = (Vec::with_capacity(rows), codec.writer(rows));
            for_each_used(&self.nodes, pages, |node| {
                numbers.push(keys.rank(node.slot));
                codec.write(&mut writer, &node.entry);
            });
            let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(numbers))];
            codec.finish(writer, &mut columns)?;
            if let Some(writes) = &self.writes {
                columns.push(last_write_column(writes.values(pages, rows)));
            }
            sink(rows, columns)
        })
    }

    fn bytes_bound(&self, pages: &[UsedPage], rows: usize) -> usize {
        let mut fields = vec![Field::new(ROW, DataType::UInt32, false), last_write_field()];
        self.format.codec.fields("", &mut fields);
        let fixed = fields.iter().map(|field| field_bytes(field.data_type())).sum::<usize>() * rows;
        let mut heap = 0;
        if fields.iter().any(|field| field.data_type().primitive_width().is_none()) {
            for_each_used(&self.nodes, pages, |node| heap += node.heap_bytes());
        }
        fixed + heap
    }
}
