//! The rows of one partition in sort order, and the work on them for one row of input.
//!
//! A [`Buffer`] is an index: the rows lie in state, in a list that has the order of the buffer. Rows with one sort key
//! are a *group*, in the order in which they came, one behind the other in the list. A buffer is made from the list when its
//! partition comes for the first time, so that it is no part of snapshots.
//!
//! Follows: TopNBuffer, and the sorted map of RetractableTopNFunction, Flink 2.2. Differences: none.

use streamfusion_row::RowKind;
use streamfusion_state::{PackedRows, RowEntries, Slots};

use super::groups::{Group, Groups, Place};
use super::output::Output;
use super::sort_key::SortKeys;
use crate::OperatorError;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Buffer<S: SortKeys> {
    pub(super) groups: Groups<S::Key>,
    /// All rows.
    pub(super) total: usize,
    key_bytes: usize,
    /// Bytes that were counted last.
    pub(super) measured: usize,
    /// See [`RowEntries::clearings`].
    pub(super) clearings: u32,
    /// With a time-to-live: the number of the group at which the next sweep goes on.
    pub(super) swept: usize,
}

impl<S: SortKeys> Buffer<S> {
    /// No rows, of a slot whose rows were cleared so often.
    pub(super) fn new(clearings: u32) -> Self {
        Self { groups: Groups::new(), total: 0, key_bytes: 0, measured: 0, clearings, swept: 0 }
    }

    /// Adds the row at `position`, which lies behind all others in the list. `unmatched` is how many rows of its group Flink
    /// counts less, if it is the first. Errors if it is out of order.
    pub(super) fn restore(&mut self, key: S::Key, position: u32, unmatched: u32) -> Result<(), OperatorError> {
        let disorder = || OperatorError::Internal("ranked rows in state are not in sort order".to_owned());
        match self.groups.last() {
            Some((last, _)) if *last > key => return Err(disorder()),
            Some((last, _)) if *last == key => {
                let group = self.groups.last_place().and_then(|place| self.groups.get_mut(place));
                let group = group.ok_or_else(disorder)?;
                group.len += 1;
                group.count = group.count.wrapping_add(1);
            }
            _ => {
                self.key_bytes += S::heap_bytes(&key);
                // rows are missing until the others came
                let group = Group { first: position, len: 1, count: 1_u32.wrapping_sub(unmatched) };
                let (Ok(place) | Err(place)) = self.groups.locate(&key);
                self.groups.insert(place, key, group);
            }
        }
        self.total += 1;
        Ok(())
    }

    /// Completes a restore where rows do not expire. Errors if Flink counts more rows than there are.
    pub(super) fn restored(&self) -> Result<(), OperatorError> {
        match self.groups.iter().all(|(_, group)| group.count <= group.len) {
            true => Ok(()),
            false => Err(OperatorError::Internal("ranked rows in state count less than none".to_owned())),
        }
    }

    /// Whether a row is put into the buffer: it is not full, or its last row comes behind.
    pub(super) fn takes(&self, key: &S::Key, size: usize) -> bool {
        self.total < size || self.groups.last().is_none_or(|(last, _)| key < last)
    }

    /// Bytes taken, about.
    pub(super) fn bytes(&self) -> usize {
        self.groups.bytes() + self.key_bytes
    }
}

/// One partition, for one row of input.
#[derive(Debug)]
pub(super) struct Partition<'a, S: SortKeys> {
    pub(super) slot: u32,
    /// The last rank that is emitted.
    pub(super) end: i64,
    pub(super) buffer: &'a mut Buffer<S>,
    pub(super) rows: &'a mut RowEntries<u32>,
    pub(super) slots: &'a Slots,
    pub(super) out: &'a mut Output,
}

/// A row of input: row `number` of `packed`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) packed: &'a PackedRows,
    pub(super) number: usize,
}

/// A row that was added to the end of its group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Added {
    /// The group.
    pub(super) place: Place,
    pub(super) position: u32,
}

impl<S: SortKeys> Partition<'_, S> {
    /// Adds a row to the end of the group of its sort key.
    #[inline]
    pub(super) fn add(&mut self, key: &S::Key, arrival: Arrival<'_>) -> Result<Added, OperatorError> {
        let groups = &mut self.buffer.groups;
        let added = match groups.locate(key) {
            Ok(place) => {
                let before = groups.behind(place).map(|group| group.first);
                let position = insert(self.rows, self.slots, self.slot, before, arrival)?;
                if let Some(group) = groups.get_mut(place) {
                    group.len += 1;
                    group.count += 1;
                }
                Added { place, position }
            }
            Err(place) => {
                let before = groups.at_or_behind(place).map(|group| group.first);
                let position = insert(self.rows, self.slots, self.slot, before, arrival)?;
                self.buffer.key_bytes += S::heap_bytes(key);
                let group = Group { first: position, len: 1, count: 1 };
                Added { place: groups.insert(place, key.clone(), group), position }
            }
        };
        self.buffer.total += 1;
        Ok(added)
    }

    /// Takes the row at `position` out of the group at `place`. Flink's count is left to the caller.
    #[inline]
    pub(super) fn take(&mut self, place: Place, position: u32) {
        let groups = &mut self.buffer.groups;
        let Some(group) = groups.get_mut(place) else { return };
        let behind = if group.first == position && group.len > 1 { self.rows.next(position) } else { None };
        let unmatched = self.rows.detach(position);
        self.out.detached(position);
        self.buffer.total -= 1;
        group.len -= 1;
        if let Some(behind) = behind {
            group.first = behind;
            if unmatched > 0 {
                *self.rows.value_mut(behind) = unmatched;
            }
        }
        if group.len == 0
            && let Some(key) = groups.remove(place)
        {
            self.buffer.key_bytes -= S::heap_bytes(&key);
        }
    }

    /// Takes the row at `position` out of the group at `place`, where Flink counts one less.
    pub(super) fn remove(&mut self, place: Place, position: u32) {
        if let Some(group) = self.buffer.groups.get_mut(place) {
            group.count = group.count.saturating_sub(1);
        }
        self.take(place, position);
    }

    /// Puts a row in the place of the one at `position`, which has the same sort key.
    pub(super) fn replace(&mut self, key: &S::Key, position: u32, arrival: Arrival<'_>) -> Result<u32, OperatorError> {
        let behind = self.rows.next(position);
        // first out of the index, where both are the same
        let unmatched = self.rows.detach(position);
        self.out.detached(position);
        let replaced = insert(self.rows, self.slots, self.slot, behind, arrival)?;
        *self.rows.value_mut(replaced) = unmatched;
        let groups = &mut self.buffer.groups;
        if let Ok(place) = groups.locate(key)
            && let Some(group) = groups.get_mut(place)
            && group.first == position
        {
            group.first = replaced;
        }
        Ok(replaced)
    }

    /// Removes the last row, and returns where it was.
    pub(super) fn remove_last(&mut self) -> Option<u32> {
        let (last, place) = (self.rows.last(self.slot)?, self.buffer.groups.last_place()?);
        self.remove(place, last);
        Some(last)
    }

    /// Removes the groups that begin behind the last rank: more rows than that one are in front of them.
    pub(super) fn trim(&mut self) {
        while let (Some(place), Some((_, group))) = (self.buffer.groups.last_place(), self.buffer.groups.last()) {
            let before = self.buffer.total.saturating_sub(group.len as usize);
            if i64::try_from(before).unwrap_or(i64::MAX) <= self.end {
                return;
            }
            self.remove_group(place);
        }
    }

    /// Removes the group at `place` with its rows.
    pub(super) fn remove_group(&mut self, place: Place) {
        let Some(group) = self.buffer.groups.get(place) else { return };
        if let Some(key) = self.buffer.groups.remove(place) {
            self.buffer.key_bytes -= S::heap_bytes(&key);
        }
        self.buffer.total -= group.len as usize;
        let mut next = Some(group.first);
        for _ in 0..group.len {
            let Some(position) = next else { break };
            next = self.rows.next(position);
            self.rows.detach(position);
            self.out.detached(position);
        }
    }

    /// How many rows Flink counts in front of the group at `place`; `None` if they are more than the last rank.
    #[inline]
    pub(super) fn counted_before(&self, place: Place) -> Option<i64> {
        let mut rank = 0;
        for group in self.buffer.groups.before(place) {
            rank += i64::from(group.count);
            if rank > self.end {
                return None;
            }
        }
        (rank <= self.end).then_some(rank)
    }
}

/// Stores a row in front of another one, or at the end.
#[inline]
fn insert(
    rows: &mut RowEntries<u32>,
    slots: &Slots,
    slot: u32,
    before: Option<u32>,
    arrival: Arrival<'_>,
) -> Result<u32, OperatorError> {
    Ok(rows.insert(slots, slot, before, arrival.packed, arrival.number, 0)?)
}

/// The positions of a group in order.
#[inline]
pub(super) fn walk(rows: &RowEntries<u32>, group: Group) -> impl Iterator<Item = u32> {
    let (mut next, mut left) = (Some(group.first), group.len);
    std::iter::from_fn(move || {
        let position = next.filter(|_| left > 0)?;
        left -= 1;
        // most groups have one row, whose successor nobody asks for
        next = if left > 0 { rows.next(position) } else { None };
        Some(position)
    })
}

/// Which way rows go along the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shift {
    /// A row came in: each other one goes one rank back.
    Back,
    /// A row left: each other one comes one rank forward.
    Forward,
}

/// Emits what becomes of the ranks from `rank` on, where `carried` came in, or which it left: each row of these groups takes
/// over the rank of its neighbour, down to the last rank.
#[inline]
pub(super) fn shift(
    out: &mut Output,
    end: i64,
    rank: i64,
    carried: u32,
    rows: &RowEntries<u32>,
    groups: impl Iterator<Item = Group>,
    direction: Shift,
) {
    let (mut rank, mut carried) = (rank, carried);
    if rank > end {
        return;
    }
    // what Flink does not count is not in its map
    for group in groups.filter(|group| group.count > 0) {
        for row in walk(rows, group) {
            match direction {
                Shift::Back => out.update(rank, end, row, carried),
                Shift::Forward => out.update(rank, end, carried, row),
            }
            carried = row;
            rank += 1;
            if rank > end {
                return;
            }
        }
    }
    let kind = match direction {
        Shift::Back => RowKind::Insert,
        Shift::Forward => RowKind::Delete,
    };
    out.ranked(kind, carried, rank, end);
}

/// The row that as many rows as Flink counts are in front of in these groups.
#[inline]
pub(super) fn row_at(rows: &RowEntries<u32>, groups: impl Iterator<Item = Group>, at: i64) -> Option<u32> {
    let mut left = at;
    for group in groups.filter(|group| group.count > 0) {
        if left < i64::from(group.count) {
            return walk(rows, group).nth(usize::try_from(left).ok()?);
        }
        left -= i64::from(group.count);
    }
    None
}
