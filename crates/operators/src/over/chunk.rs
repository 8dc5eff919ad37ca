//! Rows that are aggregated at once: by key, in the order in which they go out.

use std::ops::Range;

use crate::group_agg::Steps;
use crate::timed_rows::TimedRow;

/// Rows in the order in which they go out. Rows of one key and one time stand side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk<'a> {
    /// Per row: the number of its key among those of the chunk.
    pub(super) groups: &'a [u32],
    /// Per row: its time. Empty where that makes no difference.
    pub(super) times: &'a [i64],
}

impl Chunk<'_> {
    /// The rows of one key and one time, each time and key by itself.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let (groups, times) = (self.groups, self.times);
        let same = move |a: usize, b: usize| groups.get(a) == groups.get(b) && times.get(a) == times.get(b);
        let mut start = 0;
        std::iter::from_fn(move || {
            if start >= groups.len() {
                return None;
            }
            let mut end = start + 1;
            while end < groups.len() && same(start, end) {
                end += 1;
            }
            Some(std::mem::replace(&mut start, end)..end)
        })
    }
}

/// Numbers the keys of rows by their slots.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// Per slot: the list of rows that had it last, and its number there.
    stamps: Vec<(u32, u32)>,
    list: u32,
    /// Of the rows of a time: the number of their key, where the rows of a key go, and the rows as they go there.
    numbers: Vec<u32>,
    places: Vec<usize>,
    sorted: Vec<TimedRow>,
}

impl Numbering {
    /// Begins a list of rows.
    fn begin(&mut self) {
        self.list = match self.list.checked_add(1) {
            Some(list) => list,
            None => {
                self.stamps.clear();
                1
            }
        };
    }

    /// The number of a slot; `new` gives it one if it has none.
    #[inline]
    fn number(&mut self, slot: u32, new: impl FnOnce() -> u32) -> u32 {
        let at = slot as usize;
        if at >= self.stamps.len() {
            self.stamps.resize(at + 1, (0, 0));
        }
        match self.stamps.get_mut(at) {
            Some((list, number)) if *list == self.list => *number,
            Some(stamp) => {
                let number = new();
                *stamp = (self.list, number);
                number
            }
            None => 0,
        }
    }

    /// Puts the rows of one key and one time side by side, keys in first-touch order. Rows are in order of time.
    pub(super) fn regroup(&mut self, rows: &mut [TimedRow]) {
        for run in rows.chunk_by_mut(|a, b| a.time == b.time) {
            if run.len() > 1 {
                self.regroup_time(run);
            }
        }
    }

    /// The rows of one time: sorts them by the number of their key, counting.
    fn regroup_time(&mut self, run: &mut [TimedRow]) {
        self.begin();
        self.numbers.clear();
        self.places.clear();
        let mut in_place = true;
        for row in run.iter() {
            // there are no more keys than slots, which are counted in 32 bits
            let next = self.places.len() as u32;
            let number = self.number(row.slot, || next);
            if number == next {
                self.places.push(0);
            }
            in_place &= number as usize + 1 == self.places.len();
            if let Some(rows) = self.places.get_mut(number as usize) {
                *rows += 1;
            }
            self.numbers.push(number);
        }
        if in_place {
            return;
        }
        let mut end = 0;
        for place in &mut self.places {
            end += std::mem::replace(place, end);
        }
        self.sorted.clear();
        self.sorted.extend_from_slice(run);
        for (row, number) in run.iter().zip(&self.numbers) {
            if let Some(place) = self.places.get_mut(*number as usize)
                && let Some(sorted) = self.sorted.get_mut(*place)
            {
                *sorted = *row;
                *place += 1;
            }
        }
        run.copy_from_slice(&self.sorted);
    }

    /// Adds the keys of rows to `steps` and says which one each row has.
    pub(super) fn group(&mut self, rows: &[TimedRow], steps: &mut Steps, groups: &mut Vec<u32>) {
        self.begin();
        steps.clear();
        groups.clear();
        for row in rows {
            groups.push(self.number(row.slot, || steps.add_group(row.slot)));
        }
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.stamps.capacity() * size_of::<(u32, u32)>()
            + self.numbers.capacity() * size_of::<u32>()
            + self.places.capacity() * size_of::<usize>()
            + self.sorted.capacity() * size_of::<TimedRow>()
    }
}
