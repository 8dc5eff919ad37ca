//! Which rows of the other input rows of a batch look at: none, if what their key has is all too far away, or those near where the row
//! before them looked, since time mostly goes on.

use std::collections::VecDeque;
use std::ops::Range;

use super::cache::Cache;
use super::kept::Place;
use crate::time_index::TimedRow;

/// What rows of a batch may meet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meets {
    /// Up to which time rows have expired.
    expires: i64,
    /// The first and the last time that is near any of them; absent if there are no such numbers.
    near: Option<(i64, i64)>,
}

impl Meets {
    pub(super) fn of_batch(times: &[i64], own: &Cache, other: &Cache, now: i64) -> Self {
        let (first, last) =
            times.iter().fold((i64::MAX, i64::MIN), |(first, last), time| (first.min(*time), last.max(*time)));
        let near = first.checked_sub(other.relative_ms).zip(last.checked_add(own.relative_ms));
        Self { expires: other.expires(now), near }
    }

    /// Whether a row of the batch may be near one of these, or make one leave.
    pub(super) fn any(self, rows: &VecDeque<TimedRow<Place>>) -> bool {
        match (rows.front(), rows.back(), self.near) {
            (Some(first), Some(last), Some((lower, upper))) => {
                first.time <= self.expires || first.time <= upper && last.time >= lower
            }
            (None, ..) => false,
            _ => true,
        }
    }
}

/// What the rows of a key look for, row by row.
#[derive(Debug, Clone)]
pub(super) struct Look {
    /// Whether there may be anything.
    pub(super) meets: bool,
    /// What was near the last row that looked.
    near: Range<usize>,
}

/// How many rows are gone through before they are searched.
const STEPS: usize = 4;

impl Look {
    pub(super) fn new(meets: bool) -> Self {
        Self { meets, near: 0..0 }
    }

    /// Which rows have a time from `lower` to `upper`.
    #[inline]
    pub(super) fn near(&mut self, rows: &VecDeque<TimedRow<Place>>, lower: i64, upper: i64) -> Range<usize> {
        match (rows.front(), rows.back()) {
            (Some(first), Some(last)) if first.time <= upper && last.time >= lower => {
                let start = count(rows, self.near.start, |time| time < lower);
                let end = count(rows, self.near.end, |time| time <= upper).max(start);
                self.near = start..end;
                start..end
            }
            _ => 0..0,
        }
    }

    /// So many rows have left in front.
    pub(super) fn forget(&mut self, rows: usize) {
        self.near = self.near.start.saturating_sub(rows)..self.near.end.saturating_sub(rows);
    }
}

/// How many rows in front have such a time: as many as the last time, or, since time goes on, some more.
#[inline]
fn count(rows: &VecDeque<TimedRow<Place>>, last: usize, is_before: impl Fn(i64) -> bool) -> usize {
    let is = |place: usize| rows.get(place).is_some_and(|row| is_before(row.time));
    if last.checked_sub(1).is_none_or(is)
        && let Some(count) = (last..=last + STEPS).find(|place| !is(*place))
    {
        return count;
    }
    rows.partition_point(|row| is_before(row.time))
}
