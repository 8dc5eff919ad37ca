//! State time-to-live as Flink SQL has it.
//!
//! A value is as old as its last write; reads do not refresh it. It has expired when `last write + ttl <= now`, and what has
//! expired is absent. The clock is read once per batch, so that all rows of a batch see one moment. What has expired is
//! removed when it is touched, and by a walk that checks some places per batch.
//!
//! Follows: StateConfigUtil, TtlUtils, TtlValueState, TtlMapState, Flink 2.2. Differences: Flink reads its clock anew for
//! every access. If the clock goes back, what had expired is there again if it was not removed yet, in both; but which values were
//! removed by then is another matter in each.

use std::sync::Arc;

use arrow::array::{ArrayRef, TimestampMillisecondArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::codec::SectionColumns;
use crate::keyed::RestoreError;
use crate::paged::{PAGE, PagedSnapshot, PagedVec};
use crate::slots::{Slots, UsedPage, bits};

/// How long values live after their last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateTtl(i64);

impl StateTtl {
    /// A time in milliseconds; `None`, for ever, if it is not positive.
    pub fn of_millis(millis: i64) -> Option<Self> {
        (millis > 0).then_some(Self(millis))
    }

    /// When a value last written at `written` expires, in milliseconds since the epoch.
    #[inline]
    pub fn deadline(self, written: i64) -> i64 {
        written.saturating_add(self.0)
    }
}

/// The time at which nothing was written yet: never expires.
const NEVER: i64 = i64::MAX;

/// When each place was written last.
#[derive(Debug)]
pub(crate) struct LastWrites {
    ttl: StateTtl,
    now: i64,
    written: PagedVec<i64>,
    /// The page at which the walk goes on.
    next_page: u32,
}

impl LastWrites {
    pub(crate) fn new(ttl: StateTtl) -> Self {
        Self { ttl, now: i64::MIN, written: PagedVec::new(NEVER), next_page: 0 }
    }

    /// Begins a batch.
    pub(crate) fn begin(&mut self, now: i64) {
        self.now = now;
    }

    #[inline]
    pub(crate) fn expired(&self, place: u32) -> bool {
        self.ttl.deadline(*self.written.get(place)) <= self.now
    }

    /// When a place in use was written last.
    #[inline]
    pub(crate) fn get(&self, place: u32) -> i64 {
        *self.written.get(place)
    }

    /// The times of some places, as the column of a section.
    pub(crate) fn column(&self, places: &[u32]) -> ArrayRef {
        last_write_column(places.iter().map(|place| self.get(*place)).collect())
    }

    /// Notes a write.
    #[inline]
    pub(crate) fn touch(&mut self, place: u32) {
        *self.written.get_mut(place) = self.now;
    }

    /// Notes that nothing is there any more.
    #[inline]
    pub(crate) fn forget(&mut self, place: u32) {
        *self.written.get_mut(place) = NEVER;
    }

    /// Sets the time of a write in the past. [`NEVER`] cannot be one.
    pub(crate) fn set(&mut self, place: u32, written: i64) {
        *self.written.get_mut(place) = written.min(NEVER - 1);
    }

    /// Adds to `expired` the expired places among the next `pages` pages, and begins anew behind the last one.
    pub(crate) fn walk(&mut self, places: &Slots, pages: u32, expired: &mut Vec<u32>) {
        for _ in 0..pages.min(places.num_pages()) {
            let page = if self.next_page < places.num_pages() { self.next_page } else { 0 };
            let first = page * PAGE as u32;
            // a bit is below 64
            let found = bits(places.used(page)).map(|bit| first + bit as u32).filter(|place| self.expired(*place));
            expired.extend(found);
            self.next_page = page + 1;
        }
    }

    pub(crate) fn maintain(&mut self, pages: usize) {
        self.written.maintain(pages);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.written.bytes()
    }

    pub(crate) fn snapshot(&mut self) -> LastWritesSnapshot {
        LastWritesSnapshot { ttl: self.ttl, written: self.written.snapshot() }
    }
}

/// Column of a section: when the row was written last. Only with a time-to-live.
const LAST_WRITE: &str = "last_write";
const MILLIS: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

pub(crate) fn last_write_field() -> Field {
    Field::new(LAST_WRITE, MILLIS, false)
}

pub(crate) fn last_write_column(written: Vec<i64>) -> ArrayRef {
    Arc::new(TimestampMillisecondArray::from(written))
}

/// The times in a section; none if it was written without a time-to-live.
pub(crate) fn last_writes(columns: &mut SectionColumns<'_>) -> Result<Option<ScalarBuffer<i64>>, RestoreError> {
    if columns.has(LAST_WRITE) { columns.required(LAST_WRITE, &MILLIS).map(Some) } else { Ok(None) }
}

/// When each place had been written last.
#[derive(Debug)]
pub(crate) struct LastWritesSnapshot {
    ttl: StateTtl,
    written: PagedSnapshot<i64>,
}

impl LastWritesSnapshot {
    /// The times of the places in use.
    pub(crate) fn values(&self, pages: &[UsedPage], rows: usize) -> Vec<i64> {
        let mut values = Vec::with_capacity(rows);
        crate::column::for_each_used(&self.written, pages, |written| values.push(*written));
        values
    }

    /// The time of one place.
    pub(crate) fn value(&self, place: u32) -> i64 {
        *self.written.get(place)
    }

    /// When the first of the places in use expires.
    pub(crate) fn deadline(&self, pages: &[UsedPage]) -> Option<i64> {
        let mut earliest: Option<i64> = None;
        crate::column::for_each_used(&self.written, pages, |written| {
            earliest = Some(earliest.map_or(*written, |earliest| earliest.min(*written)));
        });
        earliest.map(|written| self.ttl.deadline(written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expires_when_the_time_is_over_and_never_by_overflow() {
        let ttl = |millis| StateTtl::of_millis(millis).map(|ttl| ttl.deadline(1000));
        assert_eq!((ttl(0), ttl(-5), ttl(1), ttl(i64::MAX)), (None, None, Some(1001), Some(i64::MAX)));
        assert_eq!(StateTtl(i64::MAX).deadline(-1), i64::MAX - 1);
        let mut writes = LastWrites::new(StateTtl(10));
        writes.begin(100);
        writes.touch(3);
        for (now, expired) in [(100, false), (109, false), (110, true), (99, false)] {
            writes.begin(now);
            assert_eq!((writes.expired(3), writes.expired(4)), (expired, false), "at {now}");
        }
    }
}
