//! Top-N over rows that may be retracted: all of them are kept.
//!
//! Flink counts the rows of each sort key, and keeps them in a list. A retraction of a row that is not in the list of its sort key
//! is counted all the same, so that the two may differ from then on. What is emitted follows one or the other; both are
//! kept here too.
//!
//! Follows: RetractableTopNFunction, Flink 2.2. Differences: none.

use streamfusion_row::RowKind;

use super::buffer::{Arrival, Group, Partition};
use super::sort_key::SortKeys;
use crate::OperatorError;

impl<S: SortKeys> Partition<'_, S> {
    /// Takes +I or +U.
    pub(super) fn accumulate(
        &mut self,
        key: &S::Key,
        arrival: Arrival<'_>,
        numbered: bool,
    ) -> Result<(), OperatorError> {
        let position = self.add(key, arrival)?;
        if numbered {
            self.accumulate_with_row_number(key, position);
        } else {
            self.accumulate_without_row_number(key, position);
        }
        Ok(())
    }

    /// Takes -U or -D.
    pub(super) fn retract(&mut self, key: &S::Key, arrival: Arrival<'_>, numbered: bool) {
        let row = arrival.packed.row(arrival.number);
        let removed =
            if numbered { self.retract_with_row_number(key, row) } else { self.retract_without_row_number(key, row) };
        let Some(group) = self.buffer.groups.get_mut(key) else { return };
        group.count = group.count.saturating_sub(1);
        let group = *group;
        let removed = removed.or_else(|| self.find(group, row));
        if let Some(position) = removed {
            self.take(key, position);
        }
        if let Some(group) = self.buffer.groups.get(key) {
            let unmatched = group.len - group.count;
            if *self.rows.value(group.first) != unmatched {
                *self.rows.value_mut(group.first) = unmatched;
            }
        }
    }

    /// The first row of a group that equals this one.
    fn find(&self, group: Group, row: &[u8]) -> Option<u32> {
        Self::walk(self.rows, group).find(|position| self.rows.row(*position) == row)
    }

    fn accumulate_with_row_number(&mut self, key: &S::Key, position: u32) {
        let Self { end, buffer, rows, out, .. } = self;
        let end = *end;
        let (mut rank, mut current) = (0_i64, None);
        for (other, group) in buffer.groups.iter().filter(|(_, group)| group.count > 0) {
            if rank > end {
                break;
            }
            match current {
                None => {
                    rank += i64::from(group.count);
                    current = (other == key).then_some(position);
                }
                Some(mut row) => {
                    for previous in Self::walk(rows, *group) {
                        if rank > end {
                            break;
                        }
                        Self::shift(out, end, rank, previous, row);
                        row = previous;
                        rank += 1;
                    }
                    current = Some(row);
                }
            }
        }
        if rank <= end
            && let Some(row) = current
        {
            out.ranked(RowKind::Insert, row, rank, end);
        }
    }

    fn accumulate_without_row_number(&mut self, key: &S::Key, position: u32) {
        let Self { end, buffer, rows, out, .. } = self;
        let end = *end;
        let (mut rank, mut found, mut insert, mut delete) = (0_i64, false, false, None);
        for (other, group) in buffer.groups.iter().filter(|(_, group)| group.count > 0) {
            if rank > end {
                break;
            }
            let last = rank + i64::from(group.count);
            if !found {
                rank = last;
                found = other == key;
                insert = found && out.in_range(rank, end);
            } else if last <= end {
                rank = last;
            } else {
                // the row that is just behind the last rank now
                delete = usize::try_from(end - rank).ok().and_then(|index| Self::walk(rows, *group).nth(index));
                break;
            }
        }
        if let Some(delete) = delete {
            out.emit(RowKind::Delete, delete, 0);
        }
        if insert {
            out.emit(RowKind::Insert, position, 0);
        }
    }

    /// Emits what a retraction changes, and returns the row that it retracts if that is found up to the last rank.
    fn retract_with_row_number(&mut self, key: &S::Key, retracted: &[u8]) -> Option<u32> {
        let Self { end, buffer, rows, out, .. } = self;
        let end = *end;
        let (mut rank, mut found, mut previous) = (0_i64, None, None);
        for (other, group) in buffer.groups.iter().filter(|(_, group)| group.count > 0) {
            if rank > end {
                break;
            }
            if previous.is_none() && other != key {
                rank += i64::from(group.count);
                continue;
            }
            for row in Self::walk(rows, *group) {
                if rank > end {
                    break;
                }
                match previous {
                    Some(before) => {
                        Self::shift(out, end, rank, before, row);
                        previous = Some(row);
                    }
                    None if rows.row(row) == retracted => {
                        found = Some(row);
                        previous = found;
                    }
                    None => {}
                }
                rank += 1;
            }
        }
        if rank <= end
            && let Some(row) = previous
        {
            out.ranked(RowKind::Delete, row, rank, end);
        }
        found
    }

    fn retract_without_row_number(&mut self, key: &S::Key, retracted: &[u8]) -> Option<u32> {
        let Self { end, buffer, rows, out, .. } = self;
        let end = *end;
        let (mut next, mut found) = (1_i64, None);
        for (other, group) in buffer.groups.iter().filter(|(_, group)| group.count > 0) {
            if next > end {
                break;
            }
            if found.is_none() && other == key {
                for row in Self::walk(rows, *group) {
                    if next > end {
                        break;
                    }
                    if found.is_none() && rows.row(row) == retracted {
                        out.ranked(RowKind::Delete, row, next, end);
                        found = Some(row);
                        continue;
                    }
                    if found.is_some() && next == end {
                        out.ranked(RowKind::Insert, row, next, end);
                    }
                    next += 1;
                }
            } else if found.is_some() {
                let last = next + i64::from(group.count) - 1;
                if last < end {
                    next = last + 1;
                } else {
                    // the row that comes up to the last rank
                    let row = usize::try_from(end - next).ok().and_then(|index| Self::walk(rows, *group).nth(index));
                    if let Some(row) = row {
                        out.emit(RowKind::Insert, row, 0);
                    }
                    break;
                }
            } else {
                next += i64::from(group.count);
            }
        }
        found
    }
}
