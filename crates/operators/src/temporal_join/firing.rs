//! Keys whose time has come: their left rows find their versions and go, and versions go that no row will ask for.
//!
//! Left rows of a key go out in the order in which they came, each beside the latest version that is not younger, if that one is no
//! retraction and the condition is TRUE. Of the versions that the watermark has passed the last one stays. What all keys come to is handed out
//! chunk by chunk, however many are due at once.
//!
//! Follows: TemporalRowTimeJoinOperator.onEventTime, emitResultAndCleanUpState, Flink 2.2.

use streamfusion_state::KeyedTable;

use super::timers::Timers;
use super::{Timed, TimedInput};
use crate::OperatorError;
use crate::join::condition::{Condition, Operand, Pairs};
use crate::join::limits::Limits;
use crate::join::output::{NO_ROW, Output, Source};
use crate::join::{Input, is_accumulate};
use crate::time_index::TimeIndex;

/// What rows are joined with.
pub(super) struct Sides<'a> {
    pub(super) left: &'a TimedInput<Timed>,
    pub(super) right: &'a TimedInput<Timed>,
    pub(super) versions: &'a mut TimeIndex,
    pub(super) table: &'a mut KeyedTable,
    pub(super) timers: &'a mut Timers,
    pub(super) condition: Option<&'a Condition>,
    pub(super) limits: &'a Limits,
    /// Whether left rows go out that match nothing.
    pub(super) is_outer: bool,
    /// The clock.
    pub(super) now: i64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Firing {
    /// Timers up to this time are to fire.
    until: Option<i64>,
    current: Option<Key>,
    chunk: Chunk,
}

/// The key under way.
#[derive(Debug, Clone, Copy)]
struct Key {
    slot: u32,
    /// The left row to go on with.
    next: Option<u32>,
    /// The time of the first left row that stays.
    first_left: Option<i64>,
}

/// Rows that go out.
#[derive(Debug, Default)]
struct Chunk {
    left: Vec<u32>,
    right: Vec<u32>,
    bytes: usize,
    /// Per left row: its kind, and the place of its version in `right`.
    rows: Vec<(u8, u32)>,
    /// Those that have a version, for the condition.
    pairs: Pairs,
    gone_left: Vec<u32>,
    gone_right: Vec<u32>,
    dead: Vec<u32>,
}

impl Firing {
    /// Lets all timers up to this time fire.
    pub(super) fn fire(&mut self, until: i64) {
        self.until = Some(until);
    }

    /// Whether timers are to fire.
    pub(super) fn is_busy(&self) -> bool {
        self.until.is_some()
    }

    /// Goes on: what comes of it is in `output`, with rows of the left input that are returned first and versions that are returned second.
    pub(super) fn advance(
        &mut self,
        sides: &mut Sides<'_>,
        output: &mut Output,
    ) -> Result<(Source, Source), OperatorError> {
        self.chunk.clear();
        while !self.chunk.is_full(sides.limits) {
            let Some(until) = self.until else { break };
            let key = match self.current.take() {
                Some(key) => key,
                None => match sides.timers.next_due(sides.table, until)? {
                    Some(slot) => {
                        let next = sides.left.entries(sides.table)?.first(slot);
                        Key { slot, next, first_left: None }
                    }
                    None => {
                        self.until = None;
                        break;
                    }
                },
            };
            let key = self.chunk.join(sides, key, until)?;
            match key.next {
                Some(_) => self.current = Some(key),
                None => self.chunk.settle(sides, key, until)?,
            }
        }
        self.chunk.emit(sides, output)
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        let Chunk { left, right, rows, pairs, gone_left, gone_right, dead, .. } = &self.chunk;
        let numbers = left.capacity()
            + right.capacity()
            + pairs.input.capacity()
            + pairs.other.capacity()
            + gone_left.capacity()
            + gone_right.capacity()
            + dead.capacity();
        numbers * size_of::<u32>() + rows.capacity() * size_of::<(u8, u32)>()
    }
}

impl Chunk {
    fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
        self.bytes = 0;
        self.rows.clear();
        self.pairs.input.clear();
        self.pairs.other.clear();
        self.gone_left.clear();
        self.gone_right.clear();
        self.dead.clear();
    }

    fn is_full(&self, limits: &Limits) -> bool {
        self.left.len() >= limits.chunk_rows || self.bytes >= limits.bytes
    }

    /// Joins left rows of a key that are due, until the chunk is full or the rows are done; returns where to go on.
    fn join(&mut self, sides: &mut Sides<'_>, mut key: Key, until: i64) -> Result<Key, OperatorError> {
        let (has_text, right_has_text) = (sides.left.has_text, sides.right.has_text);
        let versions = sides.versions.of(key.slot);
        while let Some(position) = key.next {
            if self.is_full(sides.limits) {
                return Ok(key);
            }
            let entries = sides.left.entries(sides.table)?;
            let Timed { time, kind } = *entries.value(position);
            key.next = entries.next(position);
            if time > until {
                key.first_left = Some(key.first_left.map_or(time, |first| first.min(time)));
                continue;
            }
            // out of the list at once: a key may fire twice
            entries.detach(position);
            self.gone_left.push(position);
            let bytes = if has_text { entries.row(position).len() } else { 0 };
            let passed = versions.partition_point(|version| version.time <= time);
            let version = passed.checked_sub(1).and_then(|latest| versions.get(latest)).map(|version| version.position);
            let entries = sides.right.entries(sides.table)?;
            let version = version.filter(|version| is_accumulate(entries.value(*version).kind));
            if version.is_none() && !sides.is_outer {
                continue;
            }
            // counted in 31 bits
            let (row, last) = (self.left.len() as u32, self.right.len() as u32);
            self.left.push(position);
            self.bytes += bytes;
            let place = match version {
                None => NO_ROW,
                Some(version) => {
                    // rows of one time ask for one version
                    let place = if self.right.last() == Some(&version) {
                        last.wrapping_sub(1)
                    } else {
                        self.right.push(version);
                        self.bytes += if right_has_text { entries.row(version).len() } else { 0 };
                        last
                    };
                    if sides.condition.is_some() {
                        self.pairs.input.push(row);
                        self.pairs.other.push(place);
                    }
                    place
                }
            };
            self.rows.push((kind, place));
        }
        Ok(key)
    }

    /// The left rows of a key that are due are done: old versions go, and the key fires again when the next left row is due.
    fn settle(&mut self, sides: &mut Sides<'_>, key: Key, until: i64) -> Result<(), OperatorError> {
        let slot = key.slot;
        let versions = sides.versions.of(slot);
        let passed = versions.partition_point(|version| version.time <= until);
        let stay = versions.len() - passed.saturating_sub(1);
        let gone = sides.versions.drain(slot, passed.saturating_sub(1));
        self.gone_right.extend(gone.map(|version| version.position));
        let Sides { table, timers, now, .. } = sides;
        if let Some(time) = key.first_left {
            timers.register(table, slot, time)?;
        }
        if key.first_left.is_some() || stay > 0 {
            timers.used(table, slot, *now)?;
        } else {
            timers.unused(table, slot)?;
            if timers.are_none(table, slot)? {
                self.dead.push(slot);
            }
        }
        table.commit(&[slot]);
        Ok(())
    }

    /// Sends out the rows, and lets those go that are gone.
    fn emit(&mut self, sides: &mut Sides<'_>, output: &mut Output) -> Result<(Source, Source), OperatorError> {
        let Sides { left, right, versions, table, condition, limits, is_outer, .. } = sides;
        let of_left = left.gather(table, &self.left)?;
        let of_right = right.gather(table, &self.right)?;
        let passes = match condition {
            Some(condition) if !self.pairs.input.is_empty() => {
                let left_bytes = condition.row_bytes(Input::Left, &of_left, self.left.len(), limits);
                let right_bytes = condition.row_bytes(Input::Right, &of_right, self.right.len(), limits);
                let left = Operand { columns: &of_left, row_bytes: &left_bytes };
                let right = Operand { columns: &of_right, row_bytes: &right_bytes };
                Some(condition.passes(Input::Left, left, right, &mut self.pairs, limits)?)
            }
            _ => None,
        };
        let mut pair = 0;
        for (row, (kind, place)) in (0_u32..).zip(&self.rows) {
            let mut place = *place;
            if place != NO_ROW {
                if passes.as_ref().is_some_and(|passes| !passes.value(pair)) {
                    place = NO_ROW;
                }
                pair += 1;
            }
            if place != NO_ROW || *is_outer {
                output.push_kind(*kind, row, place);
            }
        }
        let entries = left.entries(table)?;
        self.gone_left.iter().for_each(|position| entries.release(*position));
        let entries = right.entries(table)?;
        for position in &self.gone_right {
            entries.remove(*position);
        }
        for slot in &self.dead {
            table.remove(*slot)?;
            versions.forget(*slot);
        }
        Ok((Source::new(of_left, self.left.len(), limits), Source::new(of_right, self.right.len(), limits)))
    }
}
