//! Timers that are due: rows that have expired leave, those that never matched padded with NULLs.
//!
//! Timers fire in order of time, the one of the right input's rows first if a key has two at once, and keys of one time in a fixed order.
//! What they come to is handed out chunk by chunk, however many are due at once.
//!
//! Follows: TimeIntervalJoin.onTimer and removeExpiredRows, Flink 2.2: the quirk included that rows from 1970 and before, of which there
//! can be some only while event time is no further than the interval behind the epoch, leave with their key's clean-up
//! without being padded.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use streamfusion_row::RowKind;
use streamfusion_state::KeyedTable;

use super::cache::Cache;
use super::kept::{Kept, Place};
use crate::OperatorError;
use crate::join::Input;
use crate::join::limits::Limits;
use crate::join::output::{NO_ROW, Output, Source};

/// A timer: when, of which slot, for the rows of which input. In the order in which they fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    due: i64,
    slot: u32,
    rows: Rows,
}

/// Whose rows a timer cleans up. In the order in which Flink looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rows {
    Right,
    Left,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct CleanUp {
    timers: BinaryHeap<Reverse<Timer>>,
    /// Timers up to this time are to fire.
    until: Option<i64>,
    /// The timer under way.
    current: Option<Timer>,
}

/// What there is to clean up.
pub(super) struct Caches<'a> {
    pub(super) left: &'a mut Cache,
    pub(super) right: &'a mut Cache,
    pub(super) table: &'a mut KeyedTable,
    pub(super) limits: &'a Limits,
    pub(super) now: i64,
}

/// Rows that leave, of either input.
#[derive(Debug, Default)]
struct Leaving {
    /// Those that go out.
    padded: Vec<Place>,
    gone: Vec<Place>,
}

impl CleanUp {
    /// Adds a timer for the rows of an input.
    pub(super) fn add(&mut self, side: Input, due: i64, slot: u32) {
        let rows = if side == Input::Left { Rows::Left } else { Rows::Right };
        self.timers.push(Reverse(Timer { due, slot, rows }));
    }

    /// When the first timer is due.
    pub(super) fn first(&self) -> Option<i64> {
        self.timers.peek().map(|timer| timer.0.due)
    }

    /// Lets all timers up to this time fire.
    pub(super) fn fire(&mut self, until: i64) {
        if self.first().is_some_and(|due| due <= until) {
            self.until = Some(until);
        }
    }

    /// Whether timers are to fire.
    pub(super) fn is_busy(&self) -> bool {
        self.until.is_some()
    }

    /// Goes on: what comes of it is in `output`, with rows of the left input that are returned first and rows of the right one that are
    /// returned second.
    pub(super) fn advance(
        &mut self,
        caches: &mut Caches<'_>,
        output: &mut Output,
    ) -> Result<(Source, Source), OperatorError> {
        let (mut left, mut right, mut dead) = (Leaving::default(), Leaving::default(), Vec::new());
        let mut room = Room { rows: caches.limits.chunk_rows, bytes: caches.limits.bytes };
        while !room.is_empty() {
            let Some(timer) = self.next(caches) else { break };
            let side = match timer.rows {
                Rows::Left => &mut left,
                Rows::Right => &mut right,
            };
            let known = side.padded.len();
            let done = clean(caches, timer, &mut room, side)?;
            // counted in 31 bits
            for place in known as u32..side.padded.len() as u32 {
                match timer.rows {
                    Rows::Left => output.push(RowKind::Insert, place, NO_ROW),
                    Rows::Right => output.push(RowKind::Insert, NO_ROW, place),
                }
            }
            caches.table.commit(&[timer.slot]);
            if done {
                self.settle(caches, timer, side, &mut dead)?;
            } else {
                self.current = Some(timer);
            }
        }
        let Caches { left: left_cache, right: right_cache, table, limits, .. } = caches;
        let mut sources = [Source::default(), Source::default()];
        for ((source, cache), leaving) in
            sources.iter_mut().zip([&mut **left_cache, &mut **right_cache]).zip([left, right])
        {
            let mut kept = cache.kept(table)?;
            *source = Source::new(kept.gather(&leaving.padded)?, leaving.padded.len(), limits);
            for place in &leaving.gone {
                kept.remove(*place);
            }
        }
        for slot in dead {
            table.remove(slot)?;
            left_cache.index.forget(slot);
            right_cache.index.forget(slot);
        }
        let [left, right] = sources;
        Ok((left, right))
    }

    /// The timer to go on with.
    fn next(&mut self, caches: &mut Caches<'_>) -> Option<Timer> {
        if let Some(timer) = self.current.take() {
            return Some(timer);
        }
        let until = self.until?;
        if self.first().is_none_or(|due| due > until) {
            self.until = None;
            return None;
        }
        let Reverse(timer) = self.timers.pop()?;
        let now = caches.now;
        let cache = caches.of(timer.rows);
        cache.expiration = cache.expires(now);
        Some(timer)
    }

    /// All that had expired is gone: the rest gets another timer, or goes too.
    fn settle(
        &mut self,
        caches: &mut Caches<'_>,
        timer: Timer,
        leaving: &mut Leaving,
        dead: &mut Vec<u32>,
    ) -> Result<(), OperatorError> {
        let Timer { slot, rows, .. } = timer;
        let (cache, table) = caches.of_with_table(rows);
        if let Some(first) = cache.index.of(slot).front().filter(|first| first.time > 0) {
            let due = cache.register(table, slot, first.time)?;
            self.timers.push(Reverse(Timer { due, slot, rows }));
            return Ok(());
        }
        leaving.gone.extend(cache.index.drain(slot, usize::MAX).map(|row| row.position));
        cache.clear_timer(table, slot)?;
        let other = match rows {
            Rows::Left => Rows::Right,
            Rows::Right => Rows::Left,
        };
        let (other, table) = caches.of_with_table(other);
        if other.timer(table, slot)?.is_none() {
            dead.push(slot);
        }
        Ok(())
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.timers.capacity() * size_of::<Timer>()
    }
}

impl Caches<'_> {
    fn of(&mut self, rows: Rows) -> &mut Cache {
        self.of_with_table(rows).0
    }

    fn of_with_table(&mut self, rows: Rows) -> (&mut Cache, &mut KeyedTable) {
        match rows {
            Rows::Left => (&mut *self.left, &mut *self.table),
            Rows::Right => (&mut *self.right, &mut *self.table),
        }
    }
}

/// What goes into a chunk.
#[derive(Debug)]
struct Room {
    rows: usize,
    bytes: usize,
}

impl Room {
    fn is_empty(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }
}

/// Takes rows that have expired out of the index, while there is room; whether all have left.
fn clean(caches: &mut Caches<'_>, timer: Timer, room: &mut Room, leaving: &mut Leaving) -> Result<bool, OperatorError> {
    let (cache, table) = caches.of_with_table(timer.rows);
    let Cache { input, recent, index, expiration, padded, .. } = cache;
    let mut kept = Kept { recent, entries: input.entries(table)? };
    let rows = index.of(timer.slot);
    let expired = rows.partition_point(|row| row.time <= *expiration);
    if !*padded {
        // nothing goes out
        let taken = expired.min(room.rows);
        room.rows -= taken;
        index.drain(timer.slot, taken).for_each(|row| kept.remove(row.position));
        return Ok(taken == expired);
    }
    let mut taken = 0;
    for row in rows.iter().take(expired) {
        if room.is_empty() {
            break;
        }
        taken += 1;
        room.rows -= 1;
        if !kept.emitted(row.position) {
            leaving.padded.push(row.position);
            if input.has_text {
                room.bytes = room.bytes.saturating_sub(kept.row_bytes(row.position));
            }
        }
    }
    leaving.gone.extend(index.drain(timer.slot, taken).map(|row| row.position));
    Ok(taken == expired)
}
