//! Byte strings in large chunks, for keys that live long and are never changed.
//!
//! Invariant: bytes of a chunk are written once. A removed string leaves its bytes behind until its owner moves the
//! remaining ones into a new arena (see [`ByteArena::wasteful`]).

use crate::StateError;

const CHUNK_BYTES: usize = 64 * 1024;

/// Where a string lies in its arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteSpan {
    chunk: u32,
    start: u32,
    len: u32,
}

/// The arena.
#[derive(Debug, Default)]
pub struct ByteArena {
    chunks: Vec<Vec<u8>>,
    live_bytes: usize,
    dead_bytes: usize,
}

impl ByteArena {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores a copy of `bytes`.
    pub fn push(&mut self, bytes: &[u8]) -> Result<ByteSpan, StateError> {
        let fits = self.chunks.last().is_some_and(|chunk| chunk.capacity() - chunk.len() >= bytes.len());
        if !fits {
            self.chunks.push(Vec::with_capacity(bytes.len().max(CHUNK_BYTES)));
        }
        let full = StateError::Full { what: "bytes in one key", limit: u64::from(u32::MAX) };
        let chunk = u32::try_from(self.chunks.len() - 1).map_err(|_| full)?;
        let len = u32::try_from(bytes.len()).map_err(|_| full)?;
        let last = self.chunks.last_mut().ok_or(full)?;
        let start = u32::try_from(last.len()).map_err(|_| full)?;
        last.extend_from_slice(bytes);
        self.live_bytes += bytes.len();
        Ok(ByteSpan { chunk, start, len })
    }

    /// The bytes at `span`, which must be of this arena.
    #[inline]
    pub fn get(&self, span: ByteSpan) -> &[u8] {
        let start = span.start as usize;
        &self.chunks[span.chunk as usize][start..start + span.len as usize]
    }

    /// Notes that the bytes at `span` are not needed any more.
    pub fn discard(&mut self, span: ByteSpan) {
        self.live_bytes -= span.len as usize;
        self.dead_bytes += span.len as usize;
    }

    /// Whether more than half of at least one megabyte is not needed any more.
    pub fn wasteful(&self) -> bool {
        self.dead_bytes > 1 << 20 && self.dead_bytes > self.live_bytes
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum()
    }
}
