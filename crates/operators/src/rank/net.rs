//! What a bundle comes to: the ranks of the touched partitions before it against those after it.
//!
//! When a bundle touches a partition for the first time, the positions of its ranked rows are noted; at the end the two lists are
//! compared, and only what differs goes out. With the row number a rank is the key of a change, its rows being the first
//! preimage and the last postimage, as everywhere in [`crate::changelog`]. Without, it is which rows are among them
//! that counts: those that are gone go out as -D in front of those that are new as +I. Rows are compared by what they
//! contain, so that a row which is replaced by one that equals it leaves no change.
//!
//! Invariants: partitions go out in first-touch order; a row that left state in the bundle is still readable.

use std::collections::HashMap;
use std::ops::Range;

use hashbrown::HashSet;
use streamfusion_row::RowKind;
use streamfusion_state::RowEntries;

use super::Emission;
use super::output::Output;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Net {
    /// Number of the bundle in its frame.
    bundle: u32,
    /// Per partition of the frame: the bundles that had rows of it, and that noted its ranks, last.
    stamps: Vec<Stamp>,
    /// The partitions whose ranks were noted, in first-touch order.
    touched: Vec<Touched>,
    /// The positions of the ranked rows that were noted.
    before: Vec<u32>,
    after: Vec<u32>,
    lookup: HashSet<u32>,
    /// Changes of the frame, -U and +U being one.
    changes: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stamp {
    touched: u32,
    noted: u32,
}

#[derive(Debug, Clone)]
struct Touched {
    group: u32,
    slot: u32,
    /// Where its positions are.
    before: Range<usize>,
}

/// Which ranks go out, from 0.
pub(super) type Ranks = Range<usize>;

/// The positions of the rows at these ranks.
fn ranked(rows: &RowEntries<u32>, slot: u32, ranks: &Ranks) -> impl Iterator<Item = u32> {
    let all = std::iter::successors(rows.first(slot), |position| rows.next(*position));
    all.take(ranks.end).skip(ranks.start)
}

impl Net {
    pub(super) fn new() -> Self {
        Self {
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
        self.stamps.resize(partitions, Stamp::default());
        (self.bundle, self.changes) = (0, 0);
    }

    /// Begins a bundle, whose rows are of these partitions, and returns how many of them there are.
    pub(super) fn begin_bundle(&mut self, groups: &[u32]) -> usize {
        // fewer bundles than rows, whose number fits into 32 bits
        self.bundle = self.bundle.wrapping_add(1);
        self.touched.clear();
        self.before.clear();
        let mut touched = 0;
        for group in groups {
            if let Some(stamp) = self.stamps.get_mut(*group as usize)
                && stamp.touched != self.bundle
            {
                stamp.touched = self.bundle;
                touched += 1;
            }
        }
        touched
    }

    /// Notes the ranks of a partition, unless the bundle did already.
    #[inline]
    pub(super) fn touch(&mut self, group: u32, slot: u32, ranks: Ranks, rows: &RowEntries<u32>) {
        let Some(stamp) = self.stamps.get_mut(group as usize) else { return };
        if stamp.noted != self.bundle {
            stamp.noted = self.bundle;
            let start = self.before.len();
            self.before.extend(ranked(rows, slot, &ranks));
            self.touched.push(Touched { group, slot, before: start..self.before.len() });
        }
    }

    /// Ends a bundle: emits what it comes to. `ranks` says which ranks of a partition go out.
    pub(super) fn end_bundle(
        &mut self,
        ranks: impl Fn(u32) -> Ranks,
        emission: Emission,
        rows: &RowEntries<u32>,
        out: &mut Output,
    ) {
        let Self { touched, before, after, lookup, changes, .. } = self;
        for Touched { group, slot, before: range } in touched.drain(..) {
            let ranks = ranks(group);
            after.clear();
            after.extend(ranked(rows, slot, &ranks));
            let before = before.get(range).unwrap_or_default();
            if before == after.as_slice() {
                continue;
            }
            *changes += if emission.numbered() || ranks == (0..1) {
                emit_ranks(before, after, ranks.start, rows, out)
            } else {
                emit_rows(before, after, lookup, rows, out)
            };
        }
    }

    /// The changes that the bundles of the frame came to.
    pub(super) fn changes(&self) -> usize {
        self.changes
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.stamps.capacity() * size_of::<Stamp>()
            + self.touched.capacity() * size_of::<Touched>()
            + (self.before.capacity() + self.after.capacity()) * size_of::<u32>()
    }
}

/// Emits what the ranks from `first` on, counted from 0, differ in. Returns how many do.
fn emit_ranks(before: &[u32], after: &[u32], first: usize, rows: &RowEntries<u32>, out: &mut Output) -> usize {
    let emitted = out.len();
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
    debug_assert!(out.len() >= emitted + changes);
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
