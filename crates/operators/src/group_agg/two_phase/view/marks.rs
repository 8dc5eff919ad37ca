//! What a map says of a value: which calls have seen it, or how often each counts it.

use std::fmt::Debug;

use super::cell::{Cursor, Malformed, put_count};

/// What calls know of the values of a set in a frame, by entry.
pub(in crate::group_agg) trait Marks: Debug + Send {
    /// The kind of a cell with such entries.
    const KIND: u8;

    /// For so many calls.
    fn new(calls: usize) -> Self;

    fn calls(&self) -> usize;

    /// Adds an entry that no call knows.
    fn add(&mut self);

    /// A row with the value of an entry passes the filters of some calls, one bit each, and accumulates or retracts.
    fn fold(&mut self, entry: usize, passed: u64, retracts: bool);

    /// Whether no call knows the entry any more.
    fn is_empty(&self, entry: usize) -> bool;

    fn write(&self, entry: usize, out: &mut Vec<u8>);

    /// Adds to an entry what a cell says of it.
    fn merge(&mut self, entry: usize, cell: &mut Cursor<'_>) -> Result<(), Malformed>;

    fn clear(&mut self);

    fn bytes(&self) -> usize;
}

/// One bit per call, over rows that insert only.
#[derive(Debug)]
pub(in crate::group_agg) struct SeenMarks {
    calls: usize,
    pub(super) seen: Vec<u64>,
}

impl SeenMarks {
    /// Bytes of an entry's bits in a cell.
    #[inline]
    fn width(&self) -> usize {
        self.calls.div_ceil(8)
    }
}

impl Marks for SeenMarks {
    const KIND: u8 = 1;

    fn new(calls: usize) -> Self {
        Self { calls, seen: Vec::new() }
    }

    fn calls(&self) -> usize {
        self.calls
    }

    #[inline]
    fn add(&mut self) {
        self.seen.push(0);
    }

    #[inline]
    fn fold(&mut self, entry: usize, passed: u64, _retracts: bool) {
        self.seen[entry] |= passed;
    }

    fn is_empty(&self, entry: usize) -> bool {
        self.seen[entry] == 0
    }

    #[inline]
    fn write(&self, entry: usize, out: &mut Vec<u8>) {
        let bits = self.seen[entry].to_le_bytes();
        out.extend_from_slice(&bits[..self.width()]);
    }

    #[inline]
    fn merge(&mut self, entry: usize, cell: &mut Cursor<'_>) -> Result<(), Malformed> {
        let bits = if self.calls <= 8 {
            let [bits] = cell.array()?;
            u64::from(bits)
        } else {
            let mut word = [0; 8];
            word[..self.width()].copy_from_slice(cell.bytes(self.width())?);
            u64::from_le_bytes(word)
        };
        // at most 64 calls share a set
        let known = bits != 0 && bits.checked_shr(self.calls as u32).unwrap_or(0) == 0;
        if !known {
            return Err(Malformed::Unmarked);
        }
        self.seen[entry] |= bits;
        Ok(())
    }

    fn clear(&mut self) {
        self.seen.clear();
    }

    fn bytes(&self) -> usize {
        self.seen.capacity() * size_of::<u64>()
    }
}

/// One count per call, over rows that retract.
#[derive(Debug)]
pub(in crate::group_agg) struct CountMarks {
    calls: usize,
    counts: Vec<i64>,
}

impl CountMarks {
    #[inline]
    pub(super) fn of(&self, entry: usize) -> &[i64] {
        &self.counts[entry * self.calls..(entry + 1) * self.calls]
    }

    #[inline]
    pub(super) fn of_mut(&mut self, entry: usize) -> &mut [i64] {
        &mut self.counts[entry * self.calls..(entry + 1) * self.calls]
    }
}

impl Marks for CountMarks {
    const KIND: u8 = 2;

    fn new(calls: usize) -> Self {
        Self { calls, counts: Vec::new() }
    }

    fn calls(&self) -> usize {
        self.calls
    }

    fn add(&mut self) {
        self.counts.resize(self.counts.len() + self.calls, 0);
    }

    #[inline]
    fn fold(&mut self, entry: usize, passed: u64, retracts: bool) {
        let change = if retracts { -1 } else { 1 };
        for (call, count) in self.of_mut(entry).iter_mut().enumerate() {
            if passed >> call & 1 != 0 {
                *count = count.wrapping_add(change);
            }
        }
    }

    fn is_empty(&self, entry: usize) -> bool {
        self.of(entry).iter().all(|count| *count == 0)
    }

    fn write(&self, entry: usize, out: &mut Vec<u8>) {
        self.of(entry).iter().for_each(|count| put_count(*count, out));
    }

    fn merge(&mut self, entry: usize, cell: &mut Cursor<'_>) -> Result<(), Malformed> {
        let mut known = false;
        for count in self.of_mut(entry) {
            let other = cell.count()?;
            known |= other != 0;
            *count = count.wrapping_add(other);
        }
        if known { Ok(()) } else { Err(Malformed::Unmarked) }
    }

    fn clear(&mut self) {
        self.counts.clear();
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }
}
