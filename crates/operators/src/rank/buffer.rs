//! The rows of one partition in sort order, and the work on them for one row of input.
//!
//! A [`Buffer`] is an index: the rows lie in state, in a list that has the order of the buffer. Rows with one sort key
//! are a *group*, in the order in which they came, one behind the other in the list. A buffer is made from the list when its
//! partition comes for the first time, so that it is no part of snapshots.
//!
//! Follows: TopNBuffer, and the sorted map of RetractableTopNFunction, Flink 2.2. Differences: none.

use std::collections::BTreeMap;
use std::ops::Bound;

use streamfusion_row::RowKind;
use streamfusion_state::{PackedRows, RowEntries, Slots};

use super::output::Output;
use super::sort_key::SortKeys;
use crate::OperatorError;

/// The rows of one sort key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// Position of the first one.
    pub(super) first: u32,
    /// How many there are.
    pub(super) len: u32,
    /// How many Flink counts: less than there are, if rows were retracted that it does not have.
    pub(super) count: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Buffer<S: SortKeys> {
    pub(super) groups: BTreeMap<S::Key, Group>,
    /// All rows.
    pub(super) total: usize,
    key_bytes: usize,
}

impl<S: SortKeys> Buffer<S> {
    pub(super) fn new() -> Self {
        Self { groups: BTreeMap::new(), total: 0, key_bytes: 0 }
    }

    /// Adds the row at `position`, which lies behind all others in the list. `unmatched` is how many rows of its group Flink
    /// counts less, if it is the first. Errors if it is out of order.
    pub(super) fn restore(&mut self, key: S::Key, position: u32, unmatched: u32) -> Result<(), OperatorError> {
        let disorder = || OperatorError::Internal("ranked rows in state are not in sort order".to_owned());
        match self.groups.last_entry() {
            Some(last) if *last.key() > key => return Err(disorder()),
            Some(mut last) if *last.key() == key => {
                let group = last.get_mut();
                group.len += 1;
                group.count = group.count.wrapping_add(1);
            }
            _ => {
                self.key_bytes += S::heap_bytes(&key);
                // rows are missing until the others came
                let group = Group { first: position, len: 1, count: 1_u32.wrapping_sub(unmatched) };
                self.groups.insert(key, group);
            }
        }
        self.total += 1;
        Ok(())
    }

    /// Completes a restore. Errors if more rows are missing than there are.
    pub(super) fn restored(&self) -> Result<(), OperatorError> {
        match self.groups.values().all(|group| group.count <= group.len) {
            true => Ok(()),
            false => Err(OperatorError::Internal("ranked rows in state count less than none".to_owned())),
        }
    }

    /// Whether a row is put into the buffer: it is not full, or its last row comes behind.
    pub(super) fn takes(&self, key: &S::Key, size: usize) -> bool {
        self.groups.last_key_value().is_none_or(|(last, _)| key < last || self.total < size)
    }

    /// Bytes taken, about.
    pub(super) fn bytes(&self) -> usize {
        self.groups.len() * (size_of::<(S::Key, Group)>() * 3 / 2) + self.key_bytes
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

/// A row of input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) packed: &'a PackedRows,
    /// Its number among the packed rows.
    pub(super) number: usize,
    /// Its number in the batch.
    pub(super) row: u32,
}

impl<S: SortKeys> Partition<'_, S> {
    /// Adds a row to the end of the group of its sort key and returns its position.
    pub(super) fn add(&mut self, key: &S::Key, arrival: Arrival<'_>) -> Result<u32, OperatorError> {
        let behind = (Bound::Excluded(key), Bound::Unbounded);
        let before = self.buffer.groups.range::<S::Key, _>(behind).next().map(|(_, group)| group.first);
        let position = self.insert(before, arrival)?;
        match self.buffer.groups.get_mut(key) {
            Some(group) => {
                group.len += 1;
                group.count += 1;
            }
            None => {
                self.buffer.key_bytes += S::heap_bytes(key);
                self.buffer.groups.insert(key.clone(), Group { first: position, len: 1, count: 1 });
            }
        }
        self.buffer.total += 1;
        Ok(position)
    }

    /// Stores a row in front of another one, or at the end.
    fn insert(&mut self, before: Option<u32>, arrival: Arrival<'_>) -> Result<u32, OperatorError> {
        let Arrival { packed, number, row } = arrival;
        let position = self.rows.insert(self.slots, self.slot, before, packed, number, 0)?;
        self.out.arrived(position, row);
        Ok(position)
    }

    /// Takes the row at `position` out of the group of `key`. Flink's count is left to the caller.
    pub(super) fn take(&mut self, key: &S::Key, position: u32) {
        let behind = self.rows.next(position);
        let unmatched = self.rows.detach(position);
        self.out.detached(position);
        self.buffer.total -= 1;
        let Some(group) = self.buffer.groups.get_mut(key) else { return };
        group.len -= 1;
        if group.len == 0 {
            self.buffer.groups.remove(key);
            self.buffer.key_bytes -= S::heap_bytes(key);
        } else if group.first == position
            && let Some(behind) = behind
        {
            group.first = behind;
            *self.rows.value_mut(behind) = unmatched;
        }
    }

    /// Takes the row at `position` out of the group of `key`, where Flink counts one less.
    pub(super) fn remove(&mut self, key: &S::Key, position: u32) {
        if let Some(group) = self.buffer.groups.get_mut(key) {
            group.count = group.count.saturating_sub(1);
        }
        self.take(key, position);
    }

    /// Puts a row in the place of the one at `position`, which has the same sort key.
    pub(super) fn replace(&mut self, key: &S::Key, position: u32, arrival: Arrival<'_>) -> Result<u32, OperatorError> {
        let behind = self.rows.next(position);
        // first out of the index, where both are the same
        let unmatched = self.rows.detach(position);
        self.out.detached(position);
        let replaced = self.insert(behind, arrival)?;
        *self.rows.value_mut(replaced) = unmatched;
        if let Some(group) = self.buffer.groups.get_mut(key)
            && group.first == position
        {
            group.first = replaced;
        }
        Ok(replaced)
    }

    /// Removes the groups behind that of `key`; all of them without `key`.
    pub(super) fn remove_behind(&mut self, key: Option<&S::Key>) {
        while let Some(last) = self.buffer.groups.last_entry() {
            if key.is_some_and(|key| last.key() <= key) {
                return;
            }
            let (key, group) = last.remove_entry();
            self.buffer.key_bytes -= S::heap_bytes(&key);
            self.buffer.total -= group.len as usize;
            let mut next = Some(group.first);
            for _ in 0..group.len {
                let Some(position) = next else { break };
                next = self.rows.next(position);
                self.rows.detach(position);
                self.out.detached(position);
            }
        }
    }

    /// The positions of a group in order.
    pub(super) fn walk(rows: &RowEntries<u32>, group: Group) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(group.first), |position| rows.next(*position)).take(group.len as usize)
    }

    /// Emits a row at a rank as -U, and another one in its place as +U.
    #[inline]
    pub(super) fn shift(out: &mut Output, end: i64, rank: i64, before: u32, after: u32) {
        out.ranked_update_before(before, rank, end);
        out.ranked(RowKind::UpdateAfter, after, rank, end);
    }
}
