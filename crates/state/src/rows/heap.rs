//! Packed rows in chunks, written one behind the other and never changed.
//!
//! Full chunks are shared with snapshots; of the one that is being filled a snapshot takes a copy. A row that is replaced
//! stays where it is until its chunk is cleaned: a chunk of which more than half is not needed any more waits to be, and
//! then what is left of it is stored anew. That is done piece by piece, at most in proportion to what is stored, so that no batch
//! waits for long; as a chunk gives up at least as much as is copied, memory stays below about twice what the rows take.
//! To know whose a row is while its chunk is cleaned, the slot is written in front of it.
//!
//! Invariants: a span in use lies in a chunk that has bytes, or in the open one; a chunk without anything in use is free.

use std::sync::Arc;

use super::layout::RowLayout;
use crate::StateError;
use crate::paged::{PagedVec, Value};

/// Bytes in front of a row: its slot.
pub(super) const OWNER_BYTES: usize = size_of::<u32>();

const SMALLEST_CHUNK: usize = 4 << 10;
pub(super) const LARGEST_CHUNK: usize = 256 << 10;

/// Where a row lies, with the slot in front of it. Empty: nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    chunk: u32,
    start: u32,
    len: u32,
}

impl Value for Span {}

impl Span {
    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    #[inline]
    fn of(self, chunk: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &chunk[start..start + self.len as usize]
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
pub(super) struct RowHeap {
    chunks: Vec<Chunk>,
    /// Which chunk `buffer` is, if there is one.
    open: Option<u32>,
    buffer: Vec<u8>,
    free: Vec<u32>,
    waiting: Vec<u32>,
    /// Chunks that only snapshots may still have.
    lingering: Vec<Arc<[u8]>>,
    /// Bytes in use.
    live: usize,
    /// Bytes of full chunks.
    sealed: usize,
}

impl RowHeap {
    /// Stores the row of a slot.
    pub(super) fn push(&mut self, slot: u32, row: &[u8]) -> Result<Span, StateError> {
        let bytes = OWNER_BYTES + row.len();
        let full = StateError::Full { what: "bytes of text in one row", limit: u64::from(u32::MAX) };
        let len = u32::try_from(bytes).map_err(|_| full)?;
        if self.buffer.capacity() - self.buffer.len() < bytes {
            self.seal();
            let room = (self.live / 16).clamp(SMALLEST_CHUNK, LARGEST_CHUNK).max(bytes);
            self.buffer.reserve_exact(room);
        }
        let chunk = match self.open {
            Some(open) => open,
            None => self.open_chunk()?,
        };
        let start = u32::try_from(self.buffer.len()).map_err(|_| full)?;
        self.buffer.extend_from_slice(&slot.to_le_bytes());
        self.buffer.extend_from_slice(row);
        self.live += bytes;
        if let Some(chunk) = self.chunks.get_mut(chunk as usize) {
            chunk.live += bytes;
        }
        Ok(Span { chunk, start, len })
    }

    fn open_chunk(&mut self) -> Result<u32, StateError> {
        let number = match self.free.pop() {
            Some(free) => free,
            None => {
                let full = StateError::Full { what: "chunks of rows", limit: u64::from(u32::MAX) };
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

    /// The row at a span in use, with its slot in front.
    #[inline]
    pub(super) fn get(&self, span: Span) -> &[u8] {
        match self.chunks.get(span.chunk as usize) {
            Some(chunk) if !chunk.bytes.is_empty() => span.of(&chunk.bytes),
            _ => span.of(&self.buffer),
        }
    }

    /// Notes that the row at `span` is not needed any more.
    pub(super) fn discard(&mut self, span: Span) {
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
            self.lingering.push(bytes);
        }
    }

    /// Cleans chunks that wait for it, until that took more than `budget` bytes or none does. `spans` is where each slot's row lies.
    pub(super) fn clean(
        &mut self,
        layout: &RowLayout,
        spans: &mut PagedVec<Span>,
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
            let mut start = 0;
            while let Some((owner, row)) = bytes.get(start..).and_then(<[u8]>::split_first_chunk::<OWNER_BYTES>) {
                let row = row.get(..layout.row_bytes(row)).ok_or(StateError::RowColumns)?;
                let slot = u32::from_le_bytes(*owner);
                let span = *spans.get(slot);
                // what lies in a chunk was pushed there, so that it fits
                if span.chunk == number && span.start as usize == start && !span.is_empty() {
                    *spans.get_mut(slot) = self.push(slot, row)?;
                    self.discard(span);
                }
                start += OWNER_BYTES + row.len();
            }
            drop(bytes);
            // it was released while it was held here
            self.lingering.pop_if(|bytes| Arc::strong_count(bytes) == 1);
        }
        Ok(())
    }

    /// Lets go of chunks that no snapshot has any more. Called once per batch.
    pub(super) fn maintain(&mut self) {
        self.lingering.retain(|bytes| Arc::strong_count(bytes) > 1);
    }

    /// The chunks as they are now.
    pub(super) fn snapshot(&self) -> HeapSnapshot {
        let mut chunks: Vec<Arc<[u8]>> = self.chunks.iter().map(|chunk| Arc::clone(&chunk.bytes)).collect();
        if let Some(open) = self.open.and_then(|open| chunks.get_mut(open as usize)) {
            *open = Arc::from(self.buffer.as_slice());
        }
        HeapSnapshot { chunks }
    }

    /// Bytes of the rows in use.
    #[cfg(test)]
    pub(super) fn get_live(&self) -> usize {
        self.live
    }

    /// Bytes taken, with chunks that only snapshots have.
    pub(super) fn bytes(&self) -> usize {
        let lingering: usize = self.lingering.iter().map(|bytes| bytes.len()).sum();
        self.sealed + self.buffer.capacity() + lingering + self.chunks.capacity() * size_of::<Chunk>()
    }
}

/// The chunks at one moment.
#[derive(Debug)]
pub(super) struct HeapSnapshot {
    chunks: Vec<Arc<[u8]>>,
}

impl HeapSnapshot {
    /// The row at a span in use at that moment, without its slot.
    pub(super) fn get(&self, span: Span) -> Option<&[u8]> {
        let chunk = self.chunks.get(span.chunk as usize).filter(|_| !span.is_empty())?;
        span.of(chunk).get(OWNER_BYTES..)
    }
}

impl Span {
    /// Bytes of the row.
    pub(super) fn row_bytes(self) -> usize {
        (self.len as usize).saturating_sub(OWNER_BYTES)
    }
}
