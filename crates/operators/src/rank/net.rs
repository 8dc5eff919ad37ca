//! What a bundle comes to: the ranks of the touched partitions before it against those after it.
//!
//! When a bundle touches a partition for the first time, the positions of its ranked rows are noted; at the end the two lists are
//! compared, and only what differs goes out. With the row number, and where only the first row counts, a rank is the key of a change,
//! its rows being the first preimage and the last postimage, as everywhere in [`crate::changelog`]. Without, it is which
//! rows are among them that counts: those that are gone go out as -D in front of those that are new as +I. Rows are compared by
//! what they contain, so that a row which is replaced by one that equals it leaves no change.
//!
//! Invariants: partitions go out in first-touch order; a row that left state in the bundle is still readable.

use std::collections::HashMap;
use std::ops::Range;

use hashbrown::HashSet;
use streamfusion_row::RowKind;
use streamfusion_state::RowEntries;

use super::output::Output;

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A rank: another row at it is an update.
    Rank,
    /// A row, wherever it ranks.
    Row,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Net {
    key: Key,
    /// Number of the bundle in its frame.
    bundle: u32,
    /// Per partition of the frame: the last bundle that had rows of it, and its number there.
    stamps: Vec<(u32, u32)>,
    /// The partitions of the bundle, in first-touch order.
    touched: Vec<Touched>,
    /// The positions of the ranked rows that were noted.
    before: Vec<u32>,
    after: Vec<u32>,
    lookup: HashSet<u32>,
    /// Changes of the frame, -U and +U being one.
    changes: usize,
}

#[derive(Debug, Clone)]
struct Touched {
    group: u32,
    /// Where its positions are, if its ranks were noted.
    before: Option<Range<usize>>,
}

/// Which ranks go out, from 0.
pub(super) type Ranks = Range<usize>;

/// The positions of the rows at these ranks.
fn ranked(rows: &RowEntries<u32>, slot: u32, ranks: &Ranks) -> impl Iterator<Item = u32> {
    let all = std::iter::successors(rows.first(slot), |position| rows.next(*position));
    all.take(ranks.end).skip(ranks.start)
}

impl Net {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            bundle: 0,
            stamps: Vec::new(),
            touched: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            lookup: HashSet::new(),
            changes: 0,
        }
    }

    /// Begins a frame with so many partitions.
    pub(super) fn begin(&mut self, partitions: usize) {
        self.stamps.clear();
        self.stamps.resize(partitions, (0, 0));
        (self.bundle, self.changes) = (0, 0);
    }

    /// Begins a bundle, whose rows are of these partitions, and returns how many of them there are.
    pub(super) fn begin_bundle(&mut self, groups: &[u32]) -> usize {
        // fewer bundles than rows, whose number fits into 32 bits
        self.bundle = self.bundle.wrapping_add(1);
        self.touched.clear();
        self.before.clear();
        for group in groups {
            if let Some(stamp) = self.stamps.get_mut(*group as usize)
                && stamp.0 != self.bundle
            {
                // no more partitions than slots
                *stamp = (self.bundle, self.touched.len() as u32);
                self.touched.push(Touched { group: *group, before: None });
            }
        }
        self.touched.len()
    }

    /// Notes the ranks of a partition, unless the bundle did already.
    #[inline]
    pub(super) fn touch(&mut self, group: u32, slot: u32, ranks: Ranks, rows: &RowEntries<u32>) {
        let number = self.stamps.get(group as usize).map_or(0, |stamp| stamp.1);
        if let Some(Touched { before: before @ None, .. }) = self.touched.get_mut(number as usize) {
            let start = self.before.len();
            self.before.extend(ranked(rows, slot, &ranks));
            *before = Some(start..self.before.len());
        }
    }

    /// Ends a bundle: emits what it comes to. `partition` says the slot of a partition, and which ranks go out of it.
    pub(super) fn end_bundle(
        &mut self,
        partition: impl Fn(u32) -> (u32, Ranks),
        rows: &RowEntries<u32>,
        out: &mut Output,
    ) {
        let Self { key, touched, before, after, lookup, changes, .. } = self;
        for Touched { group, before: range } in touched.drain(..) {
            let Some(before) = range.and_then(|range| before.get(range)) else { continue };
            let (slot, ranks) = partition(group);
            after.clear();
            after.extend(ranked(rows, slot, &ranks));
            if before == after.as_slice() {
                continue;
            }
            *changes += match key {
                Key::Rank => emit_ranks(before, after, ranks.start, rows, out),
                Key::Row => emit_rows(before, after, lookup, rows, out),
            };
        }
    }

    /// The changes that the bundles of the frame came to.
    pub(super) fn changes(&self) -> usize {
        self.changes
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.stamps.capacity() * size_of::<(u32, u32)>()
            + self.touched.capacity() * size_of::<Touched>()
            + (self.before.capacity() + self.after.capacity()) * size_of::<u32>()
    }
}

/// Emits what the ranks from `first` on, counted from 0, differ in. Returns how many do.
fn emit_ranks(before: &[u32], after: &[u32], first: usize, rows: &RowEntries<u32>, out: &mut Output) -> usize {
    let mut changes = 0;
    for (index, rank) in (0..before.len().max(after.len())).zip(i64::try_from(first).unwrap_or(i64::MAX - 1) + 1..) {
        match (before.get(index), after.get(index)) {
            (Some(old), Some(new)) if old == new || rows.row(*old) == rows.row(*new) => continue,
            (Some(old), Some(new)) => {
                out.update_before(*old, rank);
                out.emit(RowKind::UpdateAfter, *new, rank);
            }
            (None, Some(new)) => out.emit(RowKind::Insert, *new, rank),
            (Some(old), None) => out.emit(RowKind::Delete, *old, rank),
            (None, None) => continue,
        }
        changes += 1;
    }
    changes
}

/// Emits which rows are gone and which are new. Returns how many they are.
fn emit_rows(
    before: &[u32],
    after: &[u32],
    lookup: &mut HashSet<u32>,
    rows: &RowEntries<u32>,
    out: &mut Output,
) -> usize {
    lookup.clear();
    lookup.extend(after);
    let mut gone: Vec<u32> = before.iter().copied().filter(|position| !lookup.remove(position)).collect();
    let mut new: Vec<u32> = after.iter().copied().filter(|position| lookup.contains(position)).collect();
    if !gone.is_empty() && !new.is_empty() {
        cancel_equal(&mut gone, &mut new, rows);
    }
    gone.iter().for_each(|position| out.emit(RowKind::Delete, *position, 0));
    new.iter().for_each(|position| out.emit(RowKind::Insert, *position, 0));
    gone.len() + new.len()
}

/// Leaves out of both what they have in common.
fn cancel_equal(gone: &mut Vec<u32>, new: &mut Vec<u32>, rows: &RowEntries<u32>) {
    let mut counts: HashMap<&[u8], usize> = HashMap::new();
    new.iter().for_each(|position| *counts.entry(rows.row(*position)).or_default() += 1);
    let mut common: HashMap<&[u8], usize> = HashMap::new();
    gone.retain(|position| {
        let row = rows.row(*position);
        match counts.get_mut(row).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                *common.entry(row).or_default() += 1;
                false
            }
            None => true,
        }
    });
    new.retain(|position| match common.get_mut(rows.row(*position)).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    });
}
