//! One batch of one input on its way through the rows of the other.
//!
//! While rows of one input come in, those of the other only leave, and of those that they do leave Flink asks no more: so keys are
//! looked up once per batch, and what a batch leaves of its own rows is written at its end. For each row that may still match
//! something the rows of its key are gone through in order of time: what is near enough is a pair, what has expired goes, padded
//! if it never matched. Rows of the other input are fetched chunk by chunk, and the condition is evaluated for all pairs of a chunk at once.
//!
//! Invariants: a chunk has at most [`Limits::chunk_rows`] rows of the other input, and output refers to it, so it is pulled before the
//! next one is fetched; rows leave the index when the row that made them leave is done, and the table when they were
//! fetched.
//!
//! Follows: TimeIntervalJoin.processElement1 and processElement2, Flink 2.2.

use std::collections::VecDeque;
use std::ops::Range;

use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedTable, Touched};

use super::cache::{Arrived, Cache};
use super::kept::{Kept, Place};
use super::look::{Look, Meets};
use crate::OperatorError;
use crate::join::Input;
use crate::join::condition::{Condition, Operand, Pairs};
use crate::join::limits::{Limits, RowBytes};
use crate::join::output::{NO_ROW, Output, Source};
use crate::time_index::TimedRow;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Probe {
    batch: Option<Batch>,
    touched: Touched,
    /// Per key of the batch whether a NULL keeps it from matching anything; empty if none does.
    matches_nothing: Vec<bool>,
    /// Per key of the batch.
    looks: Vec<Look>,
    times: ScalarBuffer<i64>,
    /// How large its rows are to the condition.
    input_bytes: RowBytes,
    /// Per row that is done: whether a pair with it went out. Only where its input is padded.
    emitted: Vec<bool>,
    /// The next row.
    row: usize,
    /// Where the next row goes on, if it is begun.
    resume: Option<Step>,
    /// Whether a pair with the row that is being emitted went out.
    row_emitted: bool,
    chunk: Chunk,
}

/// What rows of the batch come to.
#[derive(Debug, Default)]
struct Chunk {
    events: Vec<Event>,
    /// Rows of the other input.
    positions: Vec<Place>,
    bytes: usize,
    pairs: Pairs,
    /// Rows of the other input that leave.
    gone: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A row and a row of the chunk are near each other.
    Near { row: u32, place: u32 },
    /// A row of the chunk has expired.
    Expired { place: u32 },
    /// A row has met all that it may match.
    Done { row: u32 },
}

/// How far a row has come among the rows of its key.
#[derive(Debug, Clone, Copy, Default)]
struct Step {
    number: usize,
    /// Whether the rows of this time that are near it are joined, and only to be padded.
    pads: bool,
}

/// The inputs as they are to a batch.
pub(super) struct Sides<'a> {
    /// Where the batch came in.
    pub(super) side: Input,
    pub(super) own: &'a mut Cache,
    pub(super) other: &'a mut Cache,
    pub(super) table: &'a mut KeyedTable,
    pub(super) condition: Option<&'a Condition>,
    pub(super) limits: &'a Limits,
    pub(super) now: i64,
}

impl Probe {
    /// Begins a batch; returns its rows as output has them.
    pub(super) fn begin(&mut self, batch: Batch, sides: &mut Sides<'_>) -> Result<Source, OperatorError> {
        let Sides { side, own, other, table, condition, limits, now } = sides;
        own.input.load(&batch, table, &mut self.touched)?;
        self.matches_nothing.clear();
        if own.has_filtered_nulls(&batch) {
            for (row, key) in (0_u32..).zip(&self.touched.groups) {
                if *key as usize == self.matches_nothing.len() {
                    self.matches_nothing.push(own.matches_nothing(&batch, row));
                }
            }
        }
        self.times = own.input.times(&batch, *now)?;
        let meets = Meets::of_batch(&self.times, own, other, *now);
        let look = |slot: &u32| Look::new(meets.any(other.index.of(*slot)));
        self.looks.clear();
        self.looks.extend(self.touched.slots.iter().map(look));
        let (columns, rows) = (batch.columns(), batch.num_rows());
        self.input_bytes =
            condition.map_or_else(RowBytes::default, |condition| condition.row_bytes(*side, columns, rows, limits));
        self.emitted.clear();
        (self.row, self.resume, self.row_emitted) = (0, None, false);
        let source = Source::new(columns.to_vec(), rows, limits);
        self.batch = Some(batch);
        Ok(source)
    }

    /// Goes on with the batch: what comes of it is in `output`, with rows of the other input that are returned in `fetched`. When the batch
    /// is done it is written, and `timers` has the timers that were set.
    pub(super) fn advance(
        &mut self,
        sides: &mut Sides<'_>,
        output: &mut Output,
        fetched: &mut Source,
        timers: &mut Vec<(i64, u32)>,
    ) -> Result<(), OperatorError> {
        let Some(batch) = self.batch.clone() else { return Ok(()) };
        if self.row == self.times.len() {
            self.finish(&batch, sides, timers)?;
            *fetched = Source::default();
            return Ok(());
        }
        self.chunk.clear();
        self.fill(sides)?;
        let Sides { side, own, other, table, condition, limits, now } = sides;
        let (other_is_padded, mut kept) = (other.padded, other.kept(table)?);
        let columns = kept.gather(&self.chunk.positions)?;
        let passes = match condition {
            Some(condition) if !self.chunk.pairs.input.is_empty() => {
                let of_other = condition.row_bytes(side.other(), &columns, self.chunk.positions.len(), limits);
                let input = Operand { columns: batch.columns(), row_bytes: &self.input_bytes };
                let of_chunk = Operand { columns: &columns, row_bytes: &of_other };
                Some(condition.passes(*side, input, of_chunk, &mut self.chunk.pairs, limits)?)
            }
            _ => None,
        };
        *fetched = Source::new(columns, self.chunk.positions.len(), limits);
        let emit = Emit { own, other_is_padded, times: &self.times, now: *now, passes: passes.as_ref() };
        emit.run(&self.chunk, &mut kept, &mut self.row_emitted, &mut self.emitted, output);
        for place in &self.chunk.gone {
            kept.remove(*place);
        }
        Ok(())
    }

    /// Lets rows meet what they may match, until the chunk is full.
    fn fill(&mut self, sides: &mut Sides<'_>) -> Result<(), OperatorError> {
        let Sides { own, other, table, condition, limits, now, .. } = sides;
        let expires = other.expires(*now);
        let (relative_ms, has_text, pads) = (other.relative_ms, other.input.has_text, other.padded);
        let Cache { input, recent, index, expiration, .. } = &mut **other;
        let kept = Kept { recent, entries: input.entries(table)? };
        let meeting = Meeting { kept, limits, has_condition: condition.is_some(), has_text, pads };
        if self.row == 0 && self.resume.is_none() && !own.padded && self.looks.iter().all(|look| !look.meets) {
            let latest = self.times.iter().copied().max().unwrap_or(i64::MIN);
            if *expiration < latest.wrapping_add(own.relative_ms) {
                *expiration = expires;
            }
            self.row = self.times.len();
            return Ok(());
        }
        while let Some(time) = self.times.get(self.row).copied() {
            // rows are counted in 31 bits
            let row = self.row as u32;
            let upper = time.wrapping_add(own.relative_ms);
            let resumed = self.resume.take();
            if resumed.is_some() || *expiration < upper {
                // whoever asks looks anew, for all keys
                *expiration = expires;
                let key = self.touched.groups.get(self.row).map_or(0, |key| *key as usize);
                let slot = self.touched.slots.get(key).copied().ok_or_else(no_key)?;
                let look = self.looks.get_mut(key).ok_or_else(no_key)?;
                if look.meets {
                    let rows = index.of(slot);
                    let gone = match rows.front() {
                        Some(first) if first.time <= expires => rows.partition_point(|row| row.time <= expires),
                        _ => 0,
                    };
                    let near = if self.matches_nothing.get(key).copied().unwrap_or_default() {
                        0..0
                    } else {
                        look.near(rows, time.wrapping_sub(relative_ms), upper)
                    };
                    if gone > 0 || !near.is_empty() {
                        self.resume = meeting.meet(&mut self.chunk, row, rows, resumed.unwrap_or_default(), gone, near);
                        if self.resume.is_some() {
                            return Ok(());
                        }
                        self.chunk.gone.extend(index.drain(slot, gone).map(|row| row.position));
                        look.forget(gone);
                    }
                }
            }
            if own.padded {
                self.chunk.events.push(Event::Done { row });
            }
            self.row += 1;
            if meeting.is_full(&self.chunk) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes what the batch leaves of its own rows.
    fn finish(
        &mut self,
        batch: &Batch,
        sides: &mut Sides<'_>,
        timers: &mut Vec<(i64, u32)>,
    ) -> Result<(), OperatorError> {
        let Sides { own, other, table, now, .. } = sides;
        let arrived = Arrived { times: &self.times, emitted: &self.emitted, now: *now };
        own.store(table, &self.touched, batch, &arrived, timers)?;
        table.commit(&self.touched.slots);
        for slot in &self.touched.slots {
            // a key without rows that are cleaned up was added in vain
            if own.timer(table, *slot)?.is_none() && other.timer(table, *slot)?.is_none() {
                table.remove(*slot)?;
                own.index.forget(*slot);
                other.index.forget(*slot);
            }
        }
        self.batch = None;
        self.times = ScalarBuffer::default();
        self.input_bytes = RowBytes::default();
        self.row = 0;
        self.chunk.clear();
        Ok(())
    }

    /// Whether a batch is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.batch.is_some()
    }

    /// Bytes of numbers. The batch is whoever's it was.
    pub(super) fn bytes(&self) -> usize {
        let Touched { groups, slots } = &self.touched;
        let Chunk { events, positions, pairs, gone, .. } = &self.chunk;
        let numbers = groups.capacity() + slots.capacity() + pairs.input.capacity() + pairs.other.capacity();
        numbers * size_of::<u32>()
            + (positions.capacity() + gone.capacity()) * size_of::<Place>()
            + events.capacity() * size_of::<Event>()
            + self.matches_nothing.capacity()
            + self.emitted.capacity()
            + self.input_bytes.memory()
    }
}

fn no_key() -> OperatorError {
    OperatorError::Internal("a row without a key".to_owned())
}

impl Chunk {
    fn clear(&mut self) {
        self.events.clear();
        self.positions.clear();
        self.bytes = 0;
        self.pairs.input.clear();
        self.pairs.other.clear();
        self.gone.clear();
    }
}

/// What rows are met with.
struct Meeting<'a> {
    /// The rows of the other input.
    kept: Kept<'a>,
    limits: &'a Limits,
    has_condition: bool,
    /// Whether rows of the other input are of different sizes ..
    has_text: bool,
    /// .. and go out padded when they have expired unmatched.
    pads: bool,
}

impl Meeting<'_> {
    #[inline]
    fn is_full(&self, chunk: &Chunk) -> bool {
        chunk.positions.len() >= self.limits.chunk_rows
            || chunk.bytes >= self.limits.bytes
            || self.has_condition && chunk.pairs.input.len() >= self.limits.pairs
    }

    /// Row `row` meets `rows` from a step on: the first `gone` have expired, those in `near` are near it. Returns where to go on if the
    /// chunk is full before the end.
    #[inline]
    fn meet(
        &self,
        chunk: &mut Chunk,
        row: u32,
        rows: &VecDeque<TimedRow<Place>>,
        from: Step,
        gone: usize,
        near: Range<usize>,
    ) -> Option<Step> {
        let expired = if self.pads { gone } else { 0 };
        let Step { mut number, mut pads } = from;
        while number < expired {
            let time = rows.get(number)?.time;
            let is_near = near.contains(&number);
            if is_near && !pads {
                // rows of one time are all joined before one of them is padded
                let end = rows.partition_point(|row| row.time <= time);
                while number < end {
                    if self.is_full(chunk) {
                        return Some(Step { number, pads });
                    }
                    self.join(chunk, row, rows.get(number)?.position);
                    number += 1;
                }
                (number, pads) = (rows.partition_point(|row| row.time < time), true);
                continue;
            }
            let position = rows.get(number)?.position;
            if !self.kept.emitted(position) {
                if self.is_full(chunk) {
                    return Some(Step { number, pads });
                }
                let place = self.fetch(chunk, position);
                chunk.events.push(Event::Expired { place });
            }
            number += 1;
            pads = pads && rows.get(number).is_some_and(|row| row.time == time);
        }
        number = number.max(near.start);
        while number < near.end {
            if self.is_full(chunk) {
                return Some(Step { number, pads });
            }
            self.join(chunk, row, rows.get(number)?.position);
            number += 1;
        }
        None
    }

    /// Adds a row of the other input to the chunk; returns its place.
    #[inline]
    fn fetch(&self, chunk: &mut Chunk, position: Place) -> u32 {
        // counted in 31 bits
        let place = chunk.positions.len() as u32;
        chunk.positions.push(position);
        if self.has_text {
            chunk.bytes += self.kept.row_bytes(position);
        }
        place
    }

    #[inline]
    fn join(&self, chunk: &mut Chunk, row: u32, position: Place) {
        let place = self.fetch(chunk, position);
        chunk.events.push(Event::Near { row, place });
        if self.has_condition {
            chunk.pairs.input.push(row);
            chunk.pairs.other.push(place);
        }
    }
}

/// Sends out what a chunk comes to.
struct Emit<'a> {
    own: &'a Cache,
    other_is_padded: bool,
    times: &'a [i64],
    now: i64,
    /// Per pair whether the condition is TRUE.
    passes: Option<&'a BooleanBuffer>,
}

impl Emit<'_> {
    /// `row_emitted` is whether a pair with the row under way went out; `emitted` gets that of rows that are done.
    fn run(
        &self,
        chunk: &Chunk,
        kept: &mut Kept<'_>,
        row_emitted: &mut bool,
        emitted: &mut Vec<bool>,
        output: &mut Output,
    ) {
        if self.passes.is_none() && !self.other_is_padded && !self.own.padded {
            // nothing but pairs, one for each row of the chunk
            let input = chunk.events.iter().map(|event| match event {
                Event::Near { row, .. } | Event::Done { row } => *row,
                Event::Expired { .. } => NO_ROW,
            });
            // counted in 31 bits
            output.insert_pairs(input, 0..chunk.events.len() as u32);
            return;
        }
        let position = |place: u32| chunk.positions.get(place as usize).copied();
        let mut pair = 0;
        for event in &chunk.events {
            match *event {
                Event::Near { row, place } => {
                    let passes = self.passes.is_none_or(|passes| passes.value(pair));
                    pair += 1;
                    if !passes {
                        continue;
                    }
                    output.push(RowKind::Insert, row, place);
                    *row_emitted = true;
                    if self.other_is_padded
                        && let Some(position) = position(place)
                    {
                        kept.set_emitted(position);
                    }
                }
                Event::Expired { place } => {
                    if position(place).is_some_and(|position| !kept.emitted(position)) {
                        output.push(RowKind::Insert, NO_ROW, place);
                    }
                }
                Event::Done { row } => {
                    let was_emitted = std::mem::take(row_emitted);
                    emitted.push(was_emitted);
                    let keeps = self.times.get(row as usize).is_some_and(|time| self.own.keeps(*time, self.now));
                    if !keeps && !was_emitted {
                        output.push(RowKind::Insert, row, NO_ROW);
                    }
                }
            }
        }
    }
}
