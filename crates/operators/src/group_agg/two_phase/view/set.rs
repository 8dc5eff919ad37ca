//! The values of one DISTINCT set in the bundles of a frame: each once per key and bundle.
//!
//! Values lie one behind the other, in first-touch order, with the number of their key and what calls know of them. A table finds them; it is
//! emptied by a stamp, since a frame may have no more than one row. When the frame ends, entries go out by number.

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef};

use super::cell::{Cells, Cursor, binary};
use super::marks::Marks;
use super::value::Carried;
use crate::OperatorError;
use crate::group_agg::distinct::DistinctKey;
use crate::group_agg::rows::RETRACT;
use crate::group_agg::two_phase::partial::Numbered;

/// A set in the bundles of a frame, whatever the type of its values.
pub(in crate::group_agg::two_phase) trait Set: Debug + Send {
    /// Takes rows. `passed` says of each row of the batch which calls it passes the filter of, one bit each, absent if all pass all;
    /// `actions` says what each row does, absent if all accumulate.
    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        argument: &ArrayRef,
        passed: Option<&[u64]>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError>;

    /// Hands out a cell per number, of which there are `count`, and forgets them.
    fn take_column(&mut self, count: usize) -> Result<ArrayRef, OperatorError>;

    /// Bytes taken.
    fn bytes(&self) -> usize;
}

/// A place of the table. It is empty unless it has the stamp of the open frame.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    hash: u32,
    stamp: u32,
    entry: u32,
}

const SMALLEST: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::group_agg::two_phase) struct FrameSet<I: Carried, M> {
    /// As many as a power of two, at most half of them taken.
    places: Vec<Place>,
    /// The open frame, from 1.
    stamp: u32,
    /// Per entry: the number of its key.
    numbers: Vec<u32>,
    values: I::Store,
    pub(super) marks: M,
}

impl<I: Carried, M: Marks> FrameSet<I, M> {
    /// No values, for so many calls.
    pub(in crate::group_agg::two_phase) fn new(calls: usize) -> Self {
        Self {
            places: vec![Place::default(); SMALLEST],
            stamp: 1,
            numbers: Vec::new(),
            values: I::Store::default(),
            marks: M::new(calls),
        }
    }

    /// The value of an entry.
    #[inline]
    pub(super) fn value(&self, entry: u32) -> I::Item<'_> {
        I::at(&self.values, entry as usize)
    }

    pub(super) fn values(&self) -> &I::Store {
        &self.values
    }

    /// The entry of a value under a number.
    #[inline]
    fn find_or_add(&mut self, number: u32, item: I::Item<'_>) -> Result<usize, OperatorError> {
        let spread = u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (I::Key::hash_item(item) ^ spread ^ spread >> 32) as u32; // the low bits
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let place = self.places[at];
            if place.stamp != self.stamp {
                break;
            }
            let entry = place.entry as usize;
            if place.hash == hash && self.numbers[entry] == number && I::same(I::at(&self.values, entry), item) {
                return Ok(entry);
            }
            at = (at + 1) & mask;
        }
        let entry = self.numbers.len();
        let short = u32::try_from(entry).ok().filter(|entry| *entry < u32::MAX >> 1).ok_or(OperatorError::TooLarge)?;
        self.places[at] = Place { hash, stamp: self.stamp, entry: short };
        self.numbers.push(number);
        I::push(&mut self.values, item);
        self.marks.add();
        if self.numbers.len() * 2 > self.places.len() {
            self.grow();
        }
        Ok(entry)
    }

    fn grow(&mut self) {
        let places = vec![Place::default(); self.places.len() * 2];
        let mask = places.len() - 1;
        for place in std::mem::replace(&mut self.places, places) {
            if place.stamp == self.stamp {
                let mut at = place.hash as usize & mask;
                while self.places[at].stamp == self.stamp {
                    at = (at + 1) & mask;
                }
                self.places[at] = place;
            }
        }
    }

    /// Takes cells.
    pub(super) fn merge(&mut self, rows: &Numbered<'_>, cells: &ArrayRef) -> Result<(), OperatorError> {
        let cells = binary(cells)?;
        for (row, number) in rows.rows.clone().zip(rows.numbers) {
            let mut cell = Cursor::open_set::<M>(cells.value(row), self.marks.calls())?;
            for _ in 0..cell.entries()? {
                let entry = self.find_or_add(*number, I::read(&mut cell)?)?;
                self.marks.merge(entry, &mut cell)?;
            }
            cell.close()?;
        }
        Ok(())
    }

    /// The entries by number, those alone that `keep` is true for, and where the entries of each number end.
    pub(super) fn by_number(&self, count: usize, keep: impl Fn(&M, usize) -> bool) -> (Vec<u32>, Vec<usize>) {
        let mut ends = vec![0_usize; count];
        let kept = || self.numbers.iter().enumerate().filter(|(entry, _)| keep(&self.marks, *entry));
        kept().for_each(|(_, number)| ends[*number as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            let len = std::mem::replace(end, sum);
            sum += len;
        }
        let mut order = vec![0_u32; sum];
        for (entry, number) in kept() {
            let end = &mut ends[*number as usize];
            order[*end] = entry as u32; // no more entries than fit
            *end += 1;
        }
        (order, ends)
    }

    /// Forgets all values.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        I::clear(&mut self.values);
        self.marks.clear();
        self.stamp = match self.stamp.checked_add(1) {
            Some(stamp) => stamp,
            None => {
                self.places.fill(Place::default());
                1
            }
        };
    }

    /// Bytes taken.
    pub(super) fn frame_bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>()
            + self.numbers.capacity() * size_of::<u32>()
            + I::store_bytes(&self.values)
            + self.marks.bytes()
    }
}

impl<I: Carried, M: Marks> Set for FrameSet<I, M> {
    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        argument: &ArrayRef,
        passed: Option<&[u64]>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        let column = I::column(argument)?;
        let nulls = argument.nulls().filter(|nulls| nulls.null_count() > 0);
        // at most 64 calls share a set
        let all = u64::MAX >> (64 - self.marks.calls());
        for (row, number) in rows.rows.clone().zip(rows.numbers) {
            let passed = passed.map_or(all, |passed| passed[row]);
            if passed == 0 || nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let retracts = actions.is_some_and(|actions| actions[row] & RETRACT != 0);
            let entry = self.find_or_add(*number, I::get(&column, row))?;
            self.marks.fold(entry, passed, retracts);
        }
        Ok(())
    }

    fn take_column(&mut self, count: usize) -> Result<ArrayRef, OperatorError> {
        let (order, ends) = self.by_number(count, |marks, entry| !marks.is_empty(entry));
        let mut cells = Cells::with_capacity(count);
        let mut start = 0;
        for end in ends {
            cells.open::<M>(self.marks.calls(), end - start);
            for entry in &order[start..end] {
                I::write(self.value(*entry), cells.bytes());
                self.marks.write(*entry as usize, cells.bytes());
            }
            cells.close()?;
            start = end;
        }
        self.clear();
        cells.finish()
    }

    fn bytes(&self) -> usize {
        self.frame_bytes()
    }
}
