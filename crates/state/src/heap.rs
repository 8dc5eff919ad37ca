//! Byte strings in chunks, written one behind the other and never changed: packed rows, and keys.
//!
//! Full chunks are shared with snapshots; of the one that is being filled a snapshot takes a copy. A string that is replaced
//! stays where it is until its chunk is cleaned: a chunk of which more than half is not needed any more waits to be, and
//! then what is left of it is stored anew. That is done piece by piece, at most in proportion to what is stored, so that no batch
//! waits for long; as a chunk gives up at least as much as is copied, memory stays below about twice what the strings take.
//! To know whose a string is while its chunk is cleaned, the slot is written in front of it; how long it is, it says itself.
//!
//! Invariants: a span in use lies in a chunk that has bytes, or in the open one; a chunk without anything in use is free.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::StateError;
use crate::paged::{PagedVec, Value};

/// Bytes in front of a string: its slot.
pub(crate) const OWNER_BYTES: usize = size_of::<u32>();

/// Lingering chunks that are looked at per batch.
const LOOKED_AT: usize = 64;
const SMALLEST_CHUNK: usize = 4 << 10;
pub(crate) const LARGEST_CHUNK: usize = 256 << 10;

/// Where a string lies, with the slot in front of it. Empty: nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    chunk: u32,
    start: u32,
    len: u32,
}

impl Value for Span {}

impl Span {
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    #[inline]
    fn of(self, chunk: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &chunk[start..start + self.len as usize]
    }
}

/// What lies under a slot whose string is in a heap.
pub(crate) trait Owner: Value {
    fn span(&self) -> Span;

    fn move_to(&mut self, span: Span);
}

impl Owner for Span {
    fn span(&self) -> Span {
        *self
    }

    fn move_to(&mut self, span: Span) {
        *self = span;
    }
}

#[derive(Debug)]
struct Chunk {
    /// Empty in the open chunk, and in one that is free.
    bytes: Arc<[u8]>,
    /// Bytes in use.
    live: usize,
    /// Whether it waits to be cleaned.
    waits: bool,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct ByteHeap {
    chunks: Vec<Chunk>,
    /// Which chunk `buffer` is, if there is one.
    open: Option<u32>,
    buffer: Vec<u8>,
    free: Vec<u32>,
    waiting: Vec<u32>,
    /// Chunks that only snapshots may still have, from the oldest on.
    lingering: VecDeque<Arc<[u8]>>,
    /// Their bytes.
    lingering_bytes: usize,
    /// Bytes in use.
    live: usize,
    /// Bytes of full chunks.
    sealed: usize,
}

impl ByteHeap {
    /// Stores the string of a slot, which has these parts.
    pub(crate) fn push(&mut self, slot: u32, parts: [&[u8]; 2]) -> Result<Span, StateError> {
        let bytes = OWNER_BYTES + parts[0].len() + parts[1].len();
        let full = |_| StateError::Full { what: "bytes in one key or row", limit: u64::from(u32::MAX) };
        let len = u32::try_from(bytes).map_err(full)?;
        if self.buffer.capacity() - self.buffer.len() < bytes {
            self.seal();
            let room = (self.live / 16).clamp(SMALLEST_CHUNK, LARGEST_CHUNK).max(bytes);
            self.buffer.reserve_exact(room);
        }
        let chunk = match self.open {
            Some(open) => open,
            None => self.open_chunk()?,
        };
        let start = u32::try_from(self.buffer.len()).map_err(full)?;
        self.buffer.extend_from_slice(&slot.to_le_bytes());
        parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
        self.live += bytes;
        if let Some(chunk) = self.chunks.get_mut(chunk as usize) {
            chunk.live += bytes;
        }
        if bytes >= LARGEST_CHUNK {
            // every snapshot would copy it
            self.seal();
        }
        Ok(Span { chunk, start, len })
    }

    fn open_chunk(&mut self) -> Result<u32, StateError> {
        let number = match self.free.pop() {
            Some(free) => free,
            None => {
                let full = StateError::Full { what: "chunks of keys or rows", limit: u64::from(u32::MAX) };
                let number = u32::try_from(self.chunks.len()).map_err(|_| full)?;
                self.chunks.push(Chunk { bytes: Arc::from([]), live: 0, waits: false });
                number
            }
        };
        self.open = Some(number);
        Ok(number)
    }

    /// Makes the open chunk a full one.
    fn seal(&mut self) {
        if let Some(number) = self.open.take()
            && let Some(chunk) = self.chunks.get_mut(number as usize)
        {
            if chunk.live == 0 {
                self.free.push(number);
            } else {
                chunk.bytes = Arc::from(self.buffer.as_slice());
                self.sealed += self.buffer.len();
                if 2 * chunk.live < chunk.bytes.len() {
                    chunk.waits = true;
                    self.waiting.push(number);
                }
            }
        }
        self.buffer.clear();
        if self.buffer.capacity() != LARGEST_CHUNK {
            self.buffer = Vec::new();
        }
    }

    /// The string at a span in use, with its slot in front.
    #[inline]
    pub(crate) fn get(&self, span: Span) -> &[u8] {
        match self.chunks.get(span.chunk as usize) {
            Some(chunk) if !chunk.bytes.is_empty() => span.of(&chunk.bytes),
            _ => span.of(&self.buffer),
        }
    }

    /// Notes that the string at `span` is not needed any more.
    pub(crate) fn discard(&mut self, span: Span) {
        let len = span.len as usize;
        let Some(chunk) = self.chunks.get_mut(span.chunk as usize).filter(|_| len > 0) else { return };
        self.live -= len;
        chunk.live -= len;
        if chunk.bytes.is_empty() {
            return; // the open chunk
        }
        if chunk.live == 0 {
            self.release(span.chunk);
        } else if !chunk.waits && 2 * chunk.live < chunk.bytes.len() {
            chunk.waits = true;
            self.waiting.push(span.chunk);
        }
    }

    /// Frees a full chunk of which nothing is in use.
    fn release(&mut self, number: u32) {
        let Some(chunk) = self.chunks.get_mut(number as usize) else { return };
        let bytes = std::mem::replace(&mut chunk.bytes, Arc::from([]));
        (chunk.live, chunk.waits) = (0, false);
        self.sealed -= bytes.len();
        self.free.push(number);
        if Arc::strong_count(&bytes) > 1 {
            self.lingering_bytes += bytes.len();
            self.lingering.push_back(bytes);
        }
    }

    /// Cleans chunks that wait for it, until that took more than `budget` bytes or none does. `owners` is where each slot's
    /// string lies, `length` how long the string is that bytes begin with.
    pub(crate) fn clean<T: Owner>(
        &mut self,
        owners: &mut PagedVec<T>,
        length: impl Fn(&[u8]) -> usize,
        budget: usize,
    ) -> Result<(), StateError> {
        let mut done = 0;
        while done <= budget
            && let Some(number) = self.waiting.pop()
        {
            // one that was released meanwhile waits no more
            let Some(chunk) = self.chunks.get(number as usize).filter(|chunk| chunk.waits) else { continue };
            let bytes = Arc::clone(&chunk.bytes);
            done += bytes.len();
            let moved = self.move_strings(number, &bytes, owners, &length);
            drop(bytes);
            if moved.is_err() {
                self.waiting.push(number);
                return moved;
            }
            // it was released while it was held here
            if let Some(last) = self.lingering.pop_back_if(|bytes| Arc::strong_count(bytes) == 1) {
                self.lingering_bytes -= last.len();
            }
        }
        Ok(())
    }

    /// Stores anew what is in use in the full chunk `number`, whose bytes these are.
    fn move_strings<T: Owner>(
        &mut self,
        number: u32,
        bytes: &[u8],
        owners: &mut PagedVec<T>,
        length: impl Fn(&[u8]) -> usize,
    ) -> Result<(), StateError> {
        let mut start = 0;
        while let Some((owner, string)) = bytes.get(start..).and_then(<[u8]>::split_first_chunk::<OWNER_BYTES>) {
            let string = string.get(..length(string)).ok_or(StateError::RowColumns)?;
            let slot = u32::from_le_bytes(*owner);
            let span = owners.get(slot).span();
            // what lies in a chunk was pushed there, so that it fits
            if span.chunk == number && span.start as usize == start && !span.is_empty() {
                let moved = self.push(slot, [string, &[]])?;
                owners.get_mut(slot).move_to(moved);
                self.discard(span);
            }
            start += OWNER_BYTES + string.len();
        }
        Ok(())
    }

    /// Lets go of some chunks that no snapshot has any more. Called once per batch.
    ///
    /// A snapshot has all chunks of its moment, so that those which came to linger first are mostly free first. The first few are
    /// looked at, and those that are not free go to the end, so that none is forgotten behind one that stays.
    pub(crate) fn maintain(&mut self) {
        for _ in 0..self.lingering.len().min(LOOKED_AT) {
            let Some(bytes) = self.lingering.pop_front() else { break };
            if Arc::strong_count(&bytes) > 1 {
                self.lingering.push_back(bytes);
            } else {
                self.lingering_bytes -= bytes.len();
            }
        }
    }

    /// The chunks as they are now.
    pub(crate) fn snapshot(&self) -> HeapSnapshot {
        let mut chunks: Vec<Arc<[u8]>> = self.chunks.iter().map(|chunk| Arc::clone(&chunk.bytes)).collect();
        if let Some(open) = self.open.and_then(|open| chunks.get_mut(open as usize)) {
            *open = Arc::from(self.buffer.as_slice());
        }
        HeapSnapshot { chunks }
    }

    /// Bytes of the strings in use.
    #[cfg(test)]
    pub(crate) fn get_live(&self) -> usize {
        self.live
    }

    /// Bytes taken, with chunks that only snapshots have.
    pub(crate) fn bytes(&self) -> usize {
        self.sealed + self.buffer.capacity() + self.lingering_bytes + self.chunks.capacity() * size_of::<Chunk>()
    }
}

/// The chunks at one moment.
#[derive(Debug)]
pub(crate) struct HeapSnapshot {
    chunks: Vec<Arc<[u8]>>,
}

impl HeapSnapshot {
    /// The string at a span in use at that moment, without its slot.
    pub(crate) fn get(&self, span: Span) -> Option<&[u8]> {
        let chunk = self.chunks.get(span.chunk as usize).filter(|_| !span.is_empty())?;
        span.of(chunk).get(OWNER_BYTES..)
    }
}

impl Span {
    /// Bytes of the string.
    pub(crate) fn string_bytes(self) -> usize {
        (self.len as usize).saturating_sub(OWNER_BYTES)
    }
}
