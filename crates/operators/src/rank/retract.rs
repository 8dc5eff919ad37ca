//! Top-N over rows that may be retracted: all of them are kept.
//!
//! Flink counts the rows of each sort key, and keeps them in a list. A retraction of a row that is not in the list of its sort key
//! is counted all the same, so that the two may differ from then on. What is emitted follows one or the other; both are
//! kept here too.
//!
//! Follows: RetractableTopNFunction, Flink 2.2. Differences: none.

use streamfusion_row::RowKind;
use streamfusion_state::RowEntries;

use super::buffer::{Arrival, Partition, Shift, row_at, shift, walk};
use super::groups::{Group, Groups, Place};
use super::sort_key::SortKeys;
use crate::OperatorError;

/// A row that is retracted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) position: u32,
    /// How many rows of its group are in front of it.
    at: u32,
}

/// The first row of a group that equals this one.
#[inline]
pub(super) fn find(rows: &RowEntries<u32>, group: Group, row: &[u8]) -> Option<Found> {
    let mut walk = (0..).zip(walk(rows, group));
    walk.find(|(_, position)| rows.row(*position) == row).map(|(at, position)| Found { position, at })
}

impl<S: SortKeys> Partition<'_, S> {
    /// Takes +I or +U.
    pub(super) fn accumulate(
        &mut self,
        key: &S::Key,
        arrival: Arrival<'_>,
        numbered: bool,
    ) -> Result<(), OperatorError> {
        let added = self.add(key, arrival)?;
        if let (Some(before), Some(own)) = (self.counted_before(added.place), self.buffer.groups.get(added.place)) {
            let rank = before + i64::from(own.count);
            if numbered {
                let behind = self.buffer.groups.from(added.place).skip(1).map(|(_, group)| group);
                shift(self.out, self.end, rank, added.position, self.rows, behind, Shift::Back);
            } else if rank <= self.end {
                self.accumulate_without_row_number(added.place, added.position, rank);
            }
        }
        Ok(())
    }

    /// Emits for a row that came to the group at `place`, and which is counted up to `rank`, within the last one.
    pub(super) fn accumulate_without_row_number(&mut self, place: Place, position: u32, rank: i64) {
        let behind = self.buffer.groups.from(place).skip(1).map(|(_, group)| group);
        // the row that is just behind the last rank now
        if let Some(delete) = row_at(self.rows, behind, self.end - rank) {
            self.out.emit(RowKind::Delete, delete, 0);
        }
        if self.out.in_range(rank, self.end) {
            self.out.emit(RowKind::Insert, position, 0);
        }
    }

    /// Takes -U or -D.
    pub(super) fn retract(&mut self, key: &S::Key, arrival: Arrival<'_>, numbered: bool) {
        let Ok(place) = self.buffer.groups.locate(key) else { return };
        let Some(group) = self.buffer.groups.get(place) else { return };
        let found = find(self.rows, group, arrival.packed.row(arrival.number));
        if let Some(found) = found
            && group.count > 0
            && let Some(before) = self.counted_before(place)
        {
            if numbered {
                self.retract_with_row_number(place, group, found, before);
            } else {
                self.retract_without_row_number(place, group, found, before);
            }
        }
        self.forget(place, group, found);
    }

    /// Takes +I or +U, and leaves it to others to say what changed.
    pub(super) fn accumulate_silently(&mut self, key: &S::Key, arrival: Arrival<'_>) -> Result<(), OperatorError> {
        self.add(key, arrival).map(drop)
    }

    /// Takes -U or -D, and leaves it to others to say what changed.
    pub(super) fn retract_silently(&mut self, key: &S::Key, arrival: Arrival<'_>) {
        let Ok(place) = self.buffer.groups.locate(key) else { return };
        let Some(group) = self.buffer.groups.get(place) else { return };
        let found = find(self.rows, group, arrival.packed.row(arrival.number));
        self.forget(place, group, found);
    }

    /// Counts one row less of a group, and takes the one that was found out of it.
    #[inline]
    fn forget(&mut self, place: Place, group: Group, found: Option<Found>) {
        let count = group.count.saturating_sub(1);
        if let Some(group) = self.buffer.groups.get_mut(place) {
            group.count = count;
        }
        if let Some(Found { position, .. }) = found {
            self.take(place, position);
        }
        let len = group.len - u32::from(found.is_some());
        let unmatched = len - count;
        if len > 0
            && unmatched != group.len - group.count
            && let Some(group) = self.buffer.groups.get(place)
        {
            *self.rows.value_mut(group.first) = unmatched;
        }
    }

    /// Emits for a row of the group at `place`, before it goes.
    pub(super) fn retract_with_row_number(&mut self, place: Place, group: Group, found: Found, before: i64) {
        let rank = before + i64::from(found.at) + 1;
        let behind = behind(self.rows, &self.buffer.groups, place, group, found);
        shift(self.out, self.end, rank, found.position, self.rows, behind, Shift::Forward);
    }

    /// Emits for a row of the group at `place`, before it goes.
    pub(super) fn retract_without_row_number(&mut self, place: Place, group: Group, found: Found, before: i64) {
        let rank = before + i64::from(found.at) + 1;
        if rank > self.end {
            return;
        }
        self.out.emit(RowKind::Delete, found.position, 0);
        // the row that comes up to the last rank
        let behind = behind(self.rows, &self.buffer.groups, place, group, found);
        if let Some(row) = row_at(self.rows, behind, self.end - rank) {
            self.out.emit(RowKind::Insert, row, 0);
        }
    }
}

/// What is behind a row of the group at `place`: the rest of its group, and the other groups.
#[inline]
pub(super) fn behind<K: Ord + Clone>(
    rows: &RowEntries<u32>,
    groups: &Groups<K>,
    place: Place,
    group: Group,
    found: Found,
) -> impl Iterator<Item = Group> {
    let left = group.len - found.at - 1;
    let next = if left > 0 { rows.next(found.position) } else { None };
    let rest = next.map(|first| Group { first, len: left, count: left });
    rest.into_iter().chain(groups.from(place).skip(1).map(|(_, group)| group))
}
