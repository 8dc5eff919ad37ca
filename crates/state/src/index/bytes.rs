//! The index of keys by their BinaryRow bytes.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use streamfusion_row::binary::KeyRows;
use streamfusion_row::hash::hash_bytes_by_words;

use super::memo::{Known, Memo};
use super::{Found, Namespace};
use crate::StateError;
use crate::heap::{ByteHeap, HeapSnapshot, LARGEST_CHUNK, OWNER_BYTES, Owner, Span};
use crate::paged::{PagedSnapshot, PagedVec, Value};
use crate::slots::Slots;

/// A key with its Flink hash, from which its key group follows.
#[derive(Debug, Clone, Copy, Default)]
struct Key {
    hash: u32,
    span: Span,
}

impl Value for Key {}

impl Owner for Key {
    fn span(&self) -> Span {
        self.span
    }

    fn move_to(&mut self, span: Span) {
        self.span = span;
    }
}

/// Bytes in front of a key in the heap, behind its slot: how long it is.
const LENGTH_BYTES: usize = size_of::<u32>();

/// How long what is stored of a key is, by its first bytes.
fn stored_bytes(stored: &[u8]) -> usize {
    // a length beyond the chunk is refused
    stored.first_chunk().map_or(usize::MAX, |length| LENGTH_BYTES.saturating_add(u32::from_le_bytes(*length) as usize))
}

/// Keys by their bytes; the caller passes Flink's hash of them, computed once per row.
#[derive(Debug)]
pub struct BytesKeyIndex<N = ()> {
    /// Flink's hash, the slot and its namespace: most of what differs is told apart without looking at bytes.
    table: HashTable<(u32, u32, N)>,
    keys: PagedVec<Key>,
    heap: ByteHeap,
    /// Bytes of keys that were removed since chunks were cleaned.
    removed: usize,
    memo: Memo<N>,
}

impl<N> Default for BytesKeyIndex<N> {
    fn default() -> Self {
        let (keys, heap) = (PagedVec::new(Key::default()), ByteHeap::default());
        Self { table: HashTable::new(), keys, heap, removed: 0, memo: Memo::default() }
    }
}

/// The hash of an entry of the table.
#[inline]
fn entry_hash<N: Namespace>(entry: &(u32, u32, N)) -> u64 {
    entry.2.mix(u64::from(entry.0))
}

impl<N: Namespace> BytesKeyIndex<N> {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of the key `bytes` with Flink's hash `hash` in a namespace; the key is added if it is new.
    #[inline]
    pub fn find_or_add(
        &mut self,
        slots: &mut Slots,
        bytes: &[u8],
        hash: u32,
        namespace: N,
    ) -> Result<Found, StateError> {
        let (keys, heap) = (&mut self.keys, &mut self.heap);
        let same = |entry: &(u32, u32, N)| {
            entry.0 == hash && entry.2 == namespace && stored(heap, keys.get(entry.1).span) == bytes
        };
        match self.table.entry(namespace.mix(u64::from(hash)), same, entry_hash) {
            Entry::Occupied(entry) => Ok(Found { slot: entry.get().1, added: false }),
            Entry::Vacant(vacant) => {
                let slot = slots.acquire_for(hash.cast_signed())?;
                let full = StateError::Full { what: "bytes in one key", limit: u64::from(u32::MAX) };
                let length = u32::try_from(bytes.len()).map_err(|_| full)?;
                let span = heap.push(slot, [&length.to_le_bytes(), bytes])?;
                *keys.get_mut(slot) = Key { hash, span };
                vacant.insert((hash, slot, namespace));
                Ok(Found { slot, added: true })
            }
        }
    }

    /// Finds the keys of a batch, adds those that are new, and appends the number of each row's key to `numbers`: what `number` says of it
    /// when it comes, which may be once per key or more often.
    pub(crate) fn find_or_add_all(
        &mut self,
        slots: &mut Slots,
        keys: &KeyRows,
        namespace: impl Fn(usize) -> N,
        numbers: &mut Vec<u32>,
        mut number: impl FnMut(Found, N) -> u32,
    ) -> Result<(), StateError> {
        numbers.reserve(keys.len());
        self.memo.begin();
        for (row, key) in keys.iter().enumerate() {
            let namespace = namespace(row);
            let hash = hash_bytes_by_words(key).cast_unsigned();
            let (short, is_useful) = (u64::from(hash), self.memo.is_useful());
            let mixed = if is_useful { namespace.mix(short) } else { 0 };
            if is_useful
                && let Some(known) = self.memo.find(mixed, short, namespace)
                && keys.row(known.row as usize) == key
            {
                numbers.push(known.number);
                continue;
            }
            let found = self.find_or_add(slots, key, hash, namespace)?;
            let number = number(found, namespace);
            numbers.push(number);
            if is_useful {
                // rows are counted in 31 bits
                self.memo.note(mixed, short, namespace, Known { number, row: row as u32 });
            }
        }
        Ok(())
    }

    /// The slot of the key `bytes` with Flink's hash `hash` in a namespace, if it is there.
    #[inline]
    pub fn find(&self, bytes: &[u8], hash: u32, namespace: N) -> Option<u32> {
        let same = |entry: &(u32, u32, N)| {
            entry.0 == hash && entry.2 == namespace && stored(&self.heap, self.keys.get(entry.1).span) == bytes
        };
        self.table.find(namespace.mix(u64::from(hash)), same).map(|entry| entry.1)
    }

    /// Gives back what it has taken for more keys than there are.
    pub fn shrink(&mut self) {
        self.table.shrink_to_fit(entry_hash);
    }

    /// Makes room for so many more keys.
    pub fn reserve(&mut self, keys: usize) {
        self.table.reserve(keys, entry_hash);
    }

    /// Forgets the key of `slot`, which must be in use, in its namespace.
    pub fn remove(&mut self, slots: &mut Slots, slot: u32, namespace: N) {
        let key = std::mem::take(self.keys.get_mut(slot));
        if let Ok(entry) = self.table.find_entry(namespace.mix(u64::from(key.hash)), |entry| entry.1 == slot) {
            entry.remove();
        }
        slots.release(slot);
        self.heap.discard(key.span);
        self.removed += key.span.string_bytes();
    }

    /// The bytes of the key of `slot`, which must be in use.
    pub fn key(&self, slot: u32) -> &[u8] {
        stored(&self.heap, self.keys.get(slot).span)
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
        BytesKeys { keys: self.keys.snapshot(), heap: self.heap.snapshot() }
    }

    /// Takes back what snapshots do not need any more, and cleans up behind keys that were removed.
    pub fn maintain(&mut self, pages: usize) {
        self.keys.maintain(pages);
        self.heap.maintain();
        // cleaning frees at least half of what it looks at
        let budget = LARGEST_CHUNK + 2 * std::mem::take(&mut self.removed);
        // if that fails, keys stay where they are
        let _ = self.heap.clean(&mut self.keys, stored_bytes, budget);
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.table.allocation_size() + self.keys.bytes() + self.heap.bytes() + self.memo.bytes()
    }
}

/// The key at a span in use.
#[inline]
fn stored(heap: &ByteHeap, span: Span) -> &[u8] {
    heap.get(span).get(OWNER_BYTES + LENGTH_BYTES..).unwrap_or_default()
}

/// The keys of a [`BytesKeyIndex`] at one moment.
#[derive(Debug)]
pub struct BytesKeys {
    keys: PagedSnapshot<Key>,
    heap: HeapSnapshot,
}

impl BytesKeys {
    /// The bytes of the key of a slot that was in use.
    #[inline]
    pub fn key(&self, slot: u32) -> &[u8] {
        self.heap.get(self.keys.get(slot).span).and_then(|stored| stored.get(LENGTH_BYTES..)).unwrap_or_default()
    }

    /// How many they are.
    #[inline]
    pub fn key_len(&self, slot: u32) -> usize {
        self.keys.get(slot).span.string_bytes().saturating_sub(LENGTH_BYTES)
    }
}
