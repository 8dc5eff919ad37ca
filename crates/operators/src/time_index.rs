//! Which rows of a key lie when: finds those near a moment without walking the others.
//!
//! Rows themselves lie elsewhere: a row of the index says where, which mostly is a position in a table. The index is made of them and not part of snapshots. What lies under a
//! slot is sorted by time, rows of one time in the order in which they came. Time mostly ascends, so that a row mostly goes to
//! the end, and what expires leaves in front.

use std::collections::VecDeque;
use std::collections::vec_deque::Drain;

/// A row with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimedRow<P = u32> {
    pub(crate) time: i64,
    pub(crate) position: P,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct TimeIndex<P = u32> {
    slots: Vec<VecDeque<TimedRow<P>>>,
    /// What slots have that were never used.
    empty: VecDeque<TimedRow<P>>,
    /// Rows that there is room for.
    room: usize,
}

impl<P> Default for TimeIndex<P> {
    fn default() -> Self {
        Self { slots: Vec::new(), empty: VecDeque::new(), room: 0 }
    }
}

impl<P: Copy> TimeIndex<P> {
    /// The rows of a slot, by time.
    #[inline]
    pub(crate) fn of(&self, slot: u32) -> &VecDeque<TimedRow<P>> {
        self.slots.get(slot as usize).unwrap_or(&self.empty)
    }

    /// The position of a row of exactly this time.
    pub(crate) fn find(&self, slot: u32, time: i64) -> Option<P> {
        let rows = self.of(slot);
        if rows.back().is_none_or(|last| last.time < time) {
            return None;
        }
        let row = rows.get(rows.partition_point(|row| row.time < time))?;
        (row.time == time).then_some(row.position)
    }

    /// Adds a row behind those of the same time.
    #[inline]
    pub(crate) fn insert(&mut self, slot: u32, row: TimedRow<P>) {
        self.insert_all(slot, &[row], |row| *row);
    }

    /// Adds rows, each behind those of the same time: what `row` makes of each item.
    #[inline]
    pub(crate) fn insert_all<T>(&mut self, slot: u32, items: &[T], row: impl Fn(&T) -> TimedRow<P>) {
        if slot as usize >= self.slots.len() {
            self.slots.resize_with(slot as usize + 1, VecDeque::new);
        }
        let Some(rows) = self.slots.get_mut(slot as usize) else { return };
        let before = rows.capacity();
        // a slot that comes anew has no room
        rows.reserve(items.len());
        let mut last = rows.back().map_or(i64::MIN, |last| last.time);
        for item in items {
            let row = row(item);
            if last <= row.time {
                last = row.time;
                rows.push_back(row);
            } else {
                rows.insert(rows.partition_point(|other| other.time <= row.time), row);
            }
        }
        self.room += rows.capacity() - before;
    }

    /// Takes out the first `count` rows of a slot.
    pub(crate) fn drain(&mut self, slot: u32, count: usize) -> Drain<'_, TimedRow<P>> {
        let rows = self.slots.get_mut(slot as usize).unwrap_or(&mut self.empty);
        rows.drain(..count.min(rows.len()))
    }

    /// All rows, with their slots. Where they lie may be changed, nothing else.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut TimedRow<P>)> {
        (0..).zip(&mut self.slots).flat_map(|(slot, rows)| rows.iter_mut().map(move |row| (slot, row)))
    }

    /// Forgets a slot, whose key is gone.
    pub(crate) fn forget(&mut self, slot: u32) {
        if let Some(rows) = self.slots.get_mut(slot as usize) {
            self.room -= std::mem::take(rows).capacity();
        }
    }

    /// Bytes taken.
    pub(crate) fn bytes(&self) -> usize {
        self.room * size_of::<TimedRow<P>>() + self.slots.capacity() * size_of::<VecDeque<TimedRow<P>>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(rows: &[(u32, i64)]) -> TimeIndex {
        let mut index = TimeIndex::default();
        rows.iter().zip(0..).for_each(|((slot, time), position)| {
            index.insert(*slot, TimedRow { time: *time, position });
        });
        index
    }

    fn positions(index: &TimeIndex, slot: u32) -> Vec<u32> {
        index.of(slot).iter().map(|row| row.position).collect()
    }

    #[test]
    fn rows_are_sorted_by_time_and_then_by_arrival() {
        let index = index(&[(3, 5), (3, 2), (0, 9), (3, 5), (3, 2), (3, 7)]);
        assert_eq!(positions(&index, 3), [1, 4, 0, 3, 5]);
        assert_eq!((positions(&index, 0), positions(&index, 9)), (vec![2], vec![]));
    }

    #[test]
    fn what_is_taken_out_is_gone_and_a_forgotten_slot_takes_nothing() {
        let mut index = index(&[(0, 3), (0, 1), (0, 2)]);
        assert_eq!(index.drain(0, 2).map(|row| row.time).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(positions(&index, 0), [0]);
        assert_eq!(index.drain(7, 2).count(), 0);
        index.forget(0);
        assert_eq!((positions(&index, 0), index.room), (vec![], 0));
    }
}
