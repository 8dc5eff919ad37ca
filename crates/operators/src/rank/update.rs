//! Top-N over rows that are inserted and updated, and never move back in the order.
//!
//! Follows: UpdatableTopNFunction, Flink 2.2. Differences: none without a state time-to-live, for then it does not show which
//! partitions Flink has on the heap.

use std::cmp::Ordering;

use streamfusion_row::RowKind;

use super::buffer::{Added, Arrival, Partition, walk};
use super::groups::Place;
use super::sort_key::SortKeys;
use crate::OperatorError;

/// The sort keys of rows by position.
#[derive(Debug)]
pub(super) struct KeysAt<K>(Vec<Option<K>>);

impl<K: Clone> KeysAt<K> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn set(&mut self, position: u32, key: &K) {
        let at = position as usize;
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(key.clone());
    }

    fn get(&self, position: u32) -> Result<K, OperatorError> {
        let key = self.0.get(position as usize).cloned().flatten();
        key.ok_or_else(|| OperatorError::Internal("a ranked row without its sort key".to_owned()))
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Option<K>>()
    }
}

/// Where a row was before it was updated.
#[derive(Debug)]
struct Old<K> {
    key: K,
    position: u32,
    rank: i64,
}

impl<S: SortKeys> Partition<'_, S> {
    /// Takes a row. `size` is how many rows the buffer takes whatever their sort key.
    pub(super) fn update(
        &mut self,
        key: &S::Key,
        arrival: Arrival<'_>,
        numbered: bool,
        size: usize,
        keys: &mut KeysAt<S::Key>,
    ) -> Result<(), OperatorError> {
        match self.rows.find(self.slot, arrival.packed, arrival.number) {
            Some(position) => {
                let old_key = keys.get(position)?;
                if numbered {
                    self.update_with_row_number(key, arrival, old_key, position, keys)
                } else {
                    let updated = self.move_row(key, arrival, &old_key, position, keys)?;
                    self.out.update_before(position, 0);
                    self.out.emit(RowKind::UpdateAfter, updated, 0);
                    Ok(())
                }
            }
            None if self.buffer.takes(key, size) => {
                let Added { place, position } = self.add(key, arrival)?;
                keys.set(position, key);
                if numbered {
                    return self.emit_with_row_number(place, position, None);
                }
                if i64::try_from(self.buffer.total).unwrap_or(i64::MAX) > self.end
                    && let Some(last) = self.remove_last()
                {
                    self.out.emit(RowKind::Delete, last, 0);
                }
                self.out.emit(RowKind::Insert, position, 0);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Puts the row in the place of its older version, or behind the rows of its new sort key.
    fn move_row(
        &mut self,
        key: &S::Key,
        arrival: Arrival<'_>,
        old_key: &S::Key,
        position: u32,
        keys: &mut KeysAt<S::Key>,
    ) -> Result<u32, OperatorError> {
        let moved = if key == old_key {
            self.replace(key, position, arrival)?
        } else {
            if let Ok(place) = self.buffer.groups.locate(old_key) {
                self.remove(place, position);
            }
            self.add(key, arrival)?.position
        };
        keys.set(moved, key);
        Ok(moved)
    }

    fn update_with_row_number(
        &mut self,
        key: &S::Key,
        arrival: Arrival<'_>,
        old_key: S::Key,
        position: u32,
        keys: &mut KeysAt<S::Key>,
    ) -> Result<(), OperatorError> {
        let old_rank = self.rank_of(&old_key, position);
        let updated = self.move_row(key, arrival, &old_key, position, keys)?;
        match key.cmp(&old_key) {
            Ordering::Equal => {
                self.out.update(old_rank, self.end, position, updated);
                Ok(())
            }
            Ordering::Less => {
                let (Ok(place) | Err(place)) = self.buffer.groups.locate(key);
                self.emit_with_row_number(place, updated, Some(Old { key: old_key, position, rank: old_rank }))
            }
            // it moved back after all, since an older version was lost in front of this operator
            Ordering::Greater => {
                let new_rank = self.rank_of(key, updated);
                self.emit_moved_back(updated, new_rank, position, old_rank);
                Ok(())
            }
        }
    }

    /// The rank of a row, from 1.
    fn rank_of(&self, key: &S::Key, position: u32) -> i64 {
        let (Ok(place) | Err(place)) = self.buffer.groups.locate(key);
        let before: i64 = self.buffer.groups.before(place).map(|group| i64::from(group.len)).sum();
        let group = self.buffer.groups.get(place);
        let inner = group.and_then(|group| walk(self.rows, group).position(|row| row == position));
        before + i64::try_from(inner.unwrap_or_default()).unwrap_or(i64::MAX) + 1
    }

    fn emit_moved_back(&mut self, updated: u32, new_rank: i64, old: u32, old_rank: i64) {
        let Self { end, buffer, rows, out, .. } = self;
        let end = *end;
        out.ranked_update_before(old, old_rank, end);
        let all = buffer.groups.iter().flat_map(|(_, group)| walk(rows, group));
        for (row, rank) in all.zip(1..new_rank) {
            if old_rank <= rank {
                out.ranked_update_before(row, rank + 1, end);
                out.ranked(RowKind::UpdateAfter, row, rank, end);
            }
        }
        out.ranked(RowKind::UpdateAfter, updated, new_rank, end);
    }

    /// Emits what a row changes that is new, or moved up, and is in the group at `place`. What is behind the last rank
    /// then is removed.
    fn emit_with_row_number(
        &mut self,
        place: Place,
        position: u32,
        old: Option<Old<S::Key>>,
    ) -> Result<(), OperatorError> {
        let Some(before) = self.counted_before(place) else {
            self.trim();
            return Ok(());
        };
        let Self { end, buffer, rows, out, .. } = self;
        let end = *end;
        let own = buffer.groups.get(place).map_or(0, |group| group.len);
        let (mut rank, mut row, mut old_retracted) = (before + i64::from(own), position, false);
        for (key, group) in buffer.groups.from(place).skip(1) {
            // the ranks behind the old one stay
            if rank > end || old.as_ref().is_some_and(|old| *key > old.key) {
                break;
            }
            for previous in walk(rows, group) {
                let goes_on = old.as_ref().map_or(rank <= end, |old| rank < old.rank);
                if !goes_on {
                    break;
                }
                out.ranked_update_before(previous, rank, end);
                if row == position
                    && !old_retracted
                    && let Some(old) = &old
                {
                    // of one row the older version goes first
                    out.ranked_update_before(old.position, old.rank, end);
                    old_retracted = true;
                }
                out.ranked(RowKind::UpdateAfter, row, rank, end);
                row = previous;
                rank += 1;
            }
        }
        if rank > end {
            self.trim();
            return Ok(());
        }
        let Some(old) = old else {
            out.ranked(RowKind::Insert, row, rank, end);
            return Ok(());
        };
        if rank != old.rank {
            return Err(OperatorError::Internal(format!("a row of rank {} is found at {rank}", old.rank)));
        }
        if !old_retracted {
            out.ranked_update_before(old.position, old.rank, end);
        }
        out.ranked(RowKind::UpdateAfter, row, rank, end);
        Ok(())
    }
}
