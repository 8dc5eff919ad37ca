//! Byte strings in large chunks, for keys that live long and are never changed.
//!
//! Invariant: bytes of a chunk are written once. Full chunks are shared with snapshots; of the one that is being filled a
//! snapshot takes a copy. A removed string leaves its bytes behind until its owner moves the remaining ones into a new
//! arena (see [`ByteArena::wasteful`]).

use std::sync::Arc;

use crate::StateError;

const CHUNK_BYTES: usize = 64 * 1024;

/// Where a string lies in its arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ByteSpan {
    chunk: u32,
    start: u32,
    len: u32,
}

impl ByteSpan {
    /// Bytes of the string.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the string has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn of(self, chunk: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &chunk[start..start + self.len as usize]
    }
}

/// The arena.
#[derive(Debug, Default)]
pub struct ByteArena {
    sealed: Vec<Arc<[u8]>>,
    open: Vec<u8>,
    sealed_bytes: usize,
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
        if self.open.capacity() - self.open.len() < bytes.len() {
            if !self.open.is_empty() {
                self.sealed_bytes += self.open.len();
                self.sealed.push(Arc::from(self.open.as_slice()));
            }
            self.open.clear();
            self.open.reserve_exact(bytes.len().max(CHUNK_BYTES));
        }
        let full = StateError::Full { what: "bytes in one key", limit: u64::from(u32::MAX) };
        let chunk = u32::try_from(self.sealed.len()).map_err(|_| full)?;
        let len = u32::try_from(bytes.len()).map_err(|_| full)?;
        let start = u32::try_from(self.open.len()).map_err(|_| full)?;
        self.open.extend_from_slice(bytes);
        self.live_bytes += bytes.len();
        Ok(ByteSpan { chunk, start, len })
    }

    /// The bytes at `span`, which must be of this arena.
    #[inline]
    pub fn get(&self, span: ByteSpan) -> &[u8] {
        span.of(self.sealed.get(span.chunk as usize).map_or(self.open.as_slice(), |chunk| chunk))
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

    /// The strings as they are now.
    pub fn snapshot(&self) -> ArenaSnapshot {
        let open = (!self.open.is_empty()).then(|| Arc::from(self.open.as_slice()));
        ArenaSnapshot { chunks: self.sealed.iter().cloned().chain(open).collect() }
    }

    /// Bytes taken, without chunks that only snapshots have.
    pub fn bytes(&self) -> usize {
        self.sealed_bytes + self.open.capacity() + self.sealed.capacity() * size_of::<Arc<[u8]>>()
    }
}

/// The strings of an arena at one moment.
#[derive(Debug)]
pub struct ArenaSnapshot {
    chunks: Vec<Arc<[u8]>>,
}

impl ArenaSnapshot {
    /// The bytes at `span`, which must be of the arena at that moment.
    #[inline]
    pub fn get(&self, span: ByteSpan) -> &[u8] {
        self.chunks.get(span.chunk as usize).map_or(&[], |chunk| span.of(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_has_the_strings_of_its_moment() -> Result<(), StateError> {
        let mut arena = ByteArena::new();
        let text = |i: u32| vec![i.to_le_bytes()[0]; (i % 3000) as usize];
        let mut spans = Vec::new();
        for i in 0..100 {
            spans.push(arena.push(&text(i))?);
        }
        let snapshot = arena.snapshot();
        for i in 100..400 {
            spans.push(arena.push(&text(i))?);
        }
        spans.push(arena.push(&[7; 3 * CHUNK_BYTES])?);
        for (i, span) in (0..100).zip(&spans) {
            assert_eq!(snapshot.get(*span), text(i));
        }
        for (i, span) in (0..400).zip(&spans) {
            assert_eq!(arena.get(*span), text(i));
        }
        assert_eq!(arena.get(spans[400]), [7; 3 * CHUNK_BYTES]);
        Ok(())
    }
}
