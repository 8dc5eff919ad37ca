//! Top-N over rows that may be retracted, with a state time-to-live.
//!
//! Flink has two states per partition, which age apart. The rows of a sort key are one value, as old as the last change among
//! them. How many rows each sort key has is one value for all of the partition, as old as its last row. So rows expire and go on to
//! be counted: they shift ranks until a change passes by that misses them, or until the partition expires. A row that
//! comes with their sort key is counted in addition to them.
//!
//! A group is as old as its first row, which every change of the group touches. An expired group stays in the list with at least
//! one row, which only says that it is there; what it is counted for is beside that row as ever. The partition expires with its slot.
//!
//! Follows: RetractableTopNFunction, Flink 2.2. Differences: where more rows are counted than are there, Flink may look for a row
//! behind the end of a list and fail; here there is no such row.

use super::buffer::{Arrival, Partition, Shift, shift};
use super::groups::{Group, Place};
use super::retract::find;
use super::sort_key::SortKeys;
use crate::OperatorError;

/// What a walk along the ranks does behind a group.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Goes on at a rank.
    On(i64),
    /// Misses its rows, and goes on where it was.
    Missed,
    Ends,
}

impl<S: SortKeys> Partition<'_, S> {
    /// Takes +I or +U.
    pub(super) fn accumulate_expiring(
        &mut self,
        key: &S::Key,
        arrival: Arrival<'_>,
        numbered: bool,
    ) -> Result<(), OperatorError> {
        let mut counted = 0;
        if let Ok(place) = self.buffer.groups.locate(key)
            && let Some(group) = self.buffer.groups.get(place).filter(|group| self.has_expired(*group))
        {
            counted = group.count;
            self.remove_group(place);
        }
        let added = self.add(key, arrival)?;
        if let Some(group) = self.buffer.groups.get_mut(added.place) {
            group.count = group.count.saturating_add(counted);
        }
        self.renew(added.place);
        let (Some(before), Some(own)) = (self.counted_before(added.place), self.buffer.groups.get(added.place)) else {
            return Ok(());
        };
        let (rank, end) = (before + i64::from(own.count), self.end);
        self.remove_missed(added.place, rank, |rank, group, expired| match i64::from(group.count) {
            _ if expired => Step::Missed,
            _ if numbered => Step::On(rank + i64::from(group.len)),
            count if rank + count <= end => Step::On(rank + count),
            _ => Step::Ends,
        });
        let Ok(place) = self.buffer.groups.locate(key) else { return Ok(()) };
        if numbered {
            let behind = self.buffer.groups.from(place).skip(1).map(|(_, group)| group);
            shift(self.out, end, rank, added.position, self.rows, behind, Shift::Back);
        } else if rank <= end {
            self.accumulate_without_row_number(place, added.position, rank);
        }
        Ok(())
    }

    /// Takes -U or -D.
    pub(super) fn retract_expiring(&mut self, key: &S::Key, arrival: Arrival<'_>, numbered: bool) {
        let Ok(place) = self.buffer.groups.locate(key) else { return };
        let Some(group) = self.buffer.groups.get(place) else { return };
        let end = self.end;
        let passed = Some(place).filter(|_| group.count > 0).and_then(|place| self.counted_before(place));
        let passed = passed.filter(|before| numbered || *before < end);
        if self.has_expired(group) {
            match group.count {
                count @ 2.. if passed.is_none() => self.set_expired(place, count - 1),
                _ => self.remove_group(place),
            }
            return;
        }
        let found = find(self.rows, group, arrival.packed.row(arrival.number));
        if let (Some(found), Some(before)) = (found, passed) {
            let behind_own = before + i64::from(group.len);
            self.remove_missed(place, behind_own, |rank, group, expired| match i64::from(group.count) {
                _ if numbered && expired => Step::Missed,
                _ if numbered => Step::On(rank + i64::from(group.len)),
                count if rank + count - 1 < end => Step::On(rank + count),
                _ if expired => Step::Missed,
                _ => Step::Ends,
            });
            let Ok(place) = self.buffer.groups.locate(key) else { return };
            if numbered {
                self.retract_with_row_number(place, group, found, before);
            } else {
                self.retract_without_row_number(place, group, found, before);
            }
        }
        let Ok(place) = self.buffer.groups.locate(key) else { return };
        let count = group.count.saturating_sub(1);
        if group.len == 1 && count > 0 && found.is_some() {
            // there is no list any more, but something to count
            return self.set_expired(place, count);
        }
        if let Some(group) = self.buffer.groups.get_mut(place) {
            group.count = count;
        }
        if let Some(found) = found {
            self.take(place, found.position);
        }
        if group.len > 1 || found.is_none() {
            self.renew(place);
        }
    }

    fn has_expired(&self, group: Group) -> bool {
        self.rows.expired(group.first)
    }

    /// Keeps what the group at `place` is counted for; it lives anew.
    fn renew(&mut self, place: Place) {
        if let Some(group) = self.buffer.groups.get(place) {
            *self.rows.value_mut(group.first) = group.len.wrapping_sub(group.count);
        }
    }

    /// Leaves of the group at `place` that so many rows are counted.
    fn set_expired(&mut self, place: Place, count: u32) {
        let Some(group) = self.buffer.groups.get_mut(place) else { return };
        group.count = count;
        self.rows.set_value_of_expired(group.first, group.len.wrapping_sub(count));
    }

    /// Walks along the groups behind `place` from `rank` to the last rank, and removes those whose rows it misses.
    fn remove_missed(&mut self, place: Place, rank: i64, step: impl Fn(i64, Group, bool) -> Step) {
        let mut rank = rank;
        let mut missed = Vec::new();
        // what Flink does not count is not in its map
        for (key, group) in self.buffer.groups.from(place).skip(1).filter(|(_, group)| group.count > 0) {
            if rank > self.end {
                break;
            }
            match step(rank, group, self.has_expired(group)) {
                Step::On(next) => rank = next,
                Step::Missed => missed.push(key.clone()),
                Step::Ends => break,
            }
        }
        for key in missed {
            if let Ok(place) = self.buffer.groups.locate(&key) {
                self.remove_group(place);
            }
        }
    }

    /// Frees what rows have left that expired, in some of the groups, one after the other from time to time.
    pub(super) fn sweep(&mut self, groups: usize) {
        for _ in 0..groups.min(self.buffer.groups.len()) {
            let number = self.buffer.swept;
            let Some(place) = self.buffer.groups.place_of(number) else {
                self.buffer.swept = 0;
                continue;
            };
            self.buffer.swept = number + 1;
            let Some(group) = self.buffer.groups.get(place).filter(|group| self.has_expired(*group)) else { continue };
            if group.count == 0 {
                self.remove_group(place);
                self.buffer.swept = number;
            } else if group.len > 1 {
                self.shorten(place, group);
            }
        }
    }

    /// Leaves the first row of an expired group alone.
    fn shorten(&mut self, place: Place, group: Group) {
        let mut next = self.rows.next(group.first);
        for _ in 1..group.len {
            let Some(position) = next else { break };
            next = self.rows.next(position);
            self.rows.detach(position);
            self.out.detached(position);
        }
        self.buffer.total -= group.len as usize - 1;
        if let Some(group) = self.buffer.groups.get_mut(place) {
            group.len = 1;
        }
        self.set_expired(place, group.count);
    }
}
