//! One batch of one input on its way through the rows of the other.
//!
//! While rows of one input come in, the rows of the other stay as they are, all but their degrees; and what the batch does to its own
//! side, its own rows do not see. So keys are looked up once per batch; the rows that they may match are fetched chunk by chunk,
//! once per chunk however many rows ask for them; the condition is evaluated for many pairs at once; and rows, degrees
//! and output go on by number, in the order of arrival. What the batch leaves of its own rows is written at its end.
//!
//! Invariants: a chunk has whole rows with all that they may match, or a part of what one row may match, so it never has more than
//! [`Limits::chunk_rows`] of them; output refers to the chunk, so it is pulled before the next one is fetched. Nothing grows with the
//! number of pairs.

use arrow::buffer::BooleanBuffer;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedTable, Touched};

use super::Input;
use super::condition::{Condition, Operand, Pairs};
use super::limits::{Limits, RowBytes};
use super::output::{Output, Shape, Source};
use super::records::{Records, Walk, WalkBody, Written};
use super::rules::{Incoming, Rule};
use crate::OperatorError;

/// A side with the table that its rows are in.
pub(super) struct SideOf<'a> {
    pub(super) records: &'a mut Records,
    pub(super) table: &'a mut KeyedTable,
}

/// Rows of one input that go through the join at once.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) side: Input,
    pub(super) batch: Batch,
    /// The rows of updates that a bundle made, if it made any.
    pub(super) suppressed: Option<Vec<bool>>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Probe {
    limits: Limits,
    side: Input,
    rule: Rule,
    batch: Option<Batch>,
    input: Source,
    /// How large its rows are to the condition.
    input_bytes: RowBytes,
    suppressed: Option<Vec<bool>>,
    touched: Touched,
    /// Per key of the batch: its first row.
    first_rows: Vec<u32>,
    /// Per key of the batch: where rows lie that it may match.
    other_slots: Vec<Option<u32>>,
    /// Per row: how many rows of the other input it matches.
    matches: Vec<i32>,
    chunk: Chunk,
    cursor: Cursor,
    output: Output,
}

/// Rows of the other input, and rows of the batch that may match them.
#[derive(Debug, Default)]
struct Chunk {
    number: u32,
    /// Behind the last row of the batch that is in it.
    end: usize,
    /// Where what its last row may match goes on behind it.
    resume: Option<u32>,
    positions: Vec<u32>,
    bytes: usize,
    /// Per key of the batch: what it may match here.
    ranges: Vec<Candidates>,
    /// Per row of the other input; empty where each is there once.
    copies: Vec<i32>,
    /// Per row of the other input, if they are kept.
    degrees: Vec<i32>,
    /// Which degrees were written.
    changed: Vec<bool>,
    rows: Source,
    pairs: Pairs,
    passes: Option<BooleanBuffer>,
}

/// The rows `start..end` of the other input in the chunk of this number.
#[derive(Debug, Clone, Copy, Default)]
struct Candidates {
    chunk: u32,
    start: u32,
    end: u32,
}

/// How far output has come.
#[derive(Debug, Default)]
struct Cursor {
    row: usize,
    /// The next row of the other input, if `row` is begun.
    candidate: Option<u32>,
    pair: usize,
    /// How many copies of the pair went out.
    copies: i32,
    /// What `row` has matched so far.
    matches: i32,
}

impl Probe {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            side: Input::Left,
            rule: Rule::Pairs { input_is_outer: false, other_is_outer: false },
            batch: None,
            input: Source::default(),
            input_bytes: RowBytes::default(),
            suppressed: None,
            touched: Touched::default(),
            first_rows: Vec::new(),
            other_slots: Vec::new(),
            matches: Vec::new(),
            chunk: Chunk::default(),
            cursor: Cursor::default(),
            output: Output::new(limits),
        }
    }

    /// The side whose batch it was begun with.
    pub(super) fn side(&self) -> Input {
        self.side
    }

    /// Begins a batch.
    pub(super) fn begin(
        &mut self,
        rule: Rule,
        Arrived { side, batch, suppressed }: Arrived,
        condition: Option<&Condition>,
        own: &mut SideOf<'_>,
        other: &mut SideOf<'_>,
    ) -> Result<(), OperatorError> {
        own.records.check(&batch)?;
        let columns = own.records.keys.columns(&batch)?;
        let keys = own.records.keys.encode(&columns, batch.num_rows())?;
        own.table.load(keys, &mut self.touched)?;
        self.first_rows.clear();
        for (row, key) in (0_u32..).zip(&self.touched.groups) {
            if *key as usize == self.first_rows.len() {
                self.first_rows.push(row);
            }
        }
        other.table.find(keys, &self.first_rows, &mut self.other_slots)?;
        for (slot, row) in self.other_slots.iter_mut().zip(&self.first_rows) {
            if slot.is_some() && own.records.matches_nothing(&batch, *row) {
                *slot = None;
            }
        }
        let (columns, rows) = (batch.columns(), batch.num_rows());
        self.input = Source::new(columns.to_vec(), rows, &self.limits);
        self.input_bytes = condition
            .map_or_else(RowBytes::default, |condition| condition.row_bytes(side, columns, rows, &self.limits));
        (self.side, self.rule, self.suppressed) = (side, rule, suppressed);
        self.matches.clear();
        self.cursor = Cursor::default();
        (self.chunk.end, self.chunk.resume) = (0, None);
        self.batch = Some(batch);
        Ok(())
    }

    /// The next rows of output; `None` when the batch is done, and written.
    pub(super) fn pull(
        &mut self,
        shape: Shape,
        condition: Option<&Condition>,
        own: &mut SideOf<'_>,
        other: &mut SideOf<'_>,
    ) -> Result<Option<Batch>, OperatorError> {
        loop {
            let types: [&[_]; 2] = [&own.records.types, &other.records.types];
            if let Some(batch) = self.output.pull(shape, self.side, [&self.input, &self.chunk.rows], types)? {
                return Ok(Some(batch));
            }
            let Some(batch) = &self.batch else { return Ok(None) };
            if self.cursor.row < self.chunk.end {
                let kinds = batch.kinds().map(|kinds| &kinds.values()[..]);
                let emit = Emit {
                    rule: self.rule,
                    kinds,
                    suppressed: self.suppressed.as_deref(),
                    groups: &self.touched.groups,
                };
                emit.run(&mut self.chunk, &mut self.cursor, &mut self.matches, &mut self.output);
                continue;
            }
            self.chunk.settle(&self.other_slots, other)?;
            if self.chunk.end < batch.num_rows() || self.chunk.resume.is_some() {
                self.fetch(condition, other)?;
            } else {
                self.finish(own)?;
            }
        }
    }

    /// Fetches what the next rows of the batch may match.
    fn fetch(&mut self, condition: Option<&Condition>, other: &mut SideOf<'_>) -> Result<(), OperatorError> {
        let Some(batch) = &self.batch else { return Ok(()) };
        let chunk = &mut self.chunk;
        chunk.clear(self.touched.slots.len());
        let fill = Fill {
            limits: &self.limits,
            chunk,
            groups: &self.touched.groups,
            slots: &self.other_slots,
            row: self.cursor.row,
            resumed: self.cursor.candidate.is_some(),
            pairs: condition.is_some(),
        };
        other.records.walk(other.table, fill)?;
        // of a row that goes on in this chunk the first of what it may match is the first of the chunk
        self.cursor.candidate = self.cursor.candidate.map(|_| 0);
        self.cursor.pair = 0;
        let Chunk { positions, copies, degrees, changed, pairs, .. } = &mut self.chunk;
        other.records.read(other.table, positions, copies, degrees)?;
        changed.resize(if self.rule.changes_degrees() { positions.len() } else { 0 }, false);
        let wanted = |column| match (self.rule.sends_other_rows(), condition) {
            (true, _) => true,
            (false, Some(condition)) => condition.reads(self.side.other(), column),
            (false, None) => false,
        };
        let columns =
            if positions.is_empty() { Vec::new() } else { other.records.gather(other.table, positions, wanted)? };
        self.chunk.passes = match condition {
            Some(condition) if !positions.is_empty() => {
                let other_bytes = condition.row_bytes(self.side.other(), &columns, positions.len(), &self.limits);
                let input = Operand { columns: batch.columns(), row_bytes: &self.input_bytes };
                let other = Operand { columns: &columns, row_bytes: &other_bytes };
                Some(condition.passes(self.side, input, other, pairs, &self.limits)?)
            }
            _ => None,
        };
        self.chunk.rows = Source::new(columns, self.chunk.positions.len(), &self.limits);
        Ok(())
    }

    /// Writes what the batch leaves of its own rows.
    fn finish(&mut self, own: &mut SideOf<'_>) -> Result<(), OperatorError> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let written = Written { batch: &batch, matches: &self.matches, suppressed: self.suppressed.as_deref() };
        own.records.write(own.table, &self.touched, &written)?;
        self.input = Source::default();
        self.input_bytes = RowBytes::default();
        (self.chunk.rows, self.chunk.bytes, self.chunk.passes) = (Source::default(), 0, None);
        self.suppressed = None;
        Ok(())
    }

    /// Bytes of numbers and of rows of the other input. The batch is whoever's it was.
    pub(super) fn bytes(&self) -> usize {
        let Touched { groups, slots } = &self.touched;
        let numbers = groups.capacity() + slots.capacity() + self.first_rows.capacity() + self.matches.capacity();
        numbers * size_of::<u32>()
            + self.other_slots.capacity() * size_of::<Option<u32>>()
            + self.suppressed.as_ref().map_or(0, Vec::capacity)
            + self.input.bytes()
            + self.input_bytes.memory()
            + self.chunk.bytes()
            + self.output.bytes()
    }
}

impl Chunk {
    fn clear(&mut self, keys: usize) {
        self.number = match self.number.checked_add(1) {
            Some(number) => number,
            None => {
                self.ranges.clear();
                1
            }
        };
        self.ranges.resize(keys, Candidates::default());
        self.positions.clear();
        self.bytes = 0;
        self.changed.clear();
        self.pairs.input.clear();
        self.pairs.other.clear();
    }

    fn bytes(&self) -> usize {
        let Self { positions, bytes, ranges, copies, degrees, changed, rows, pairs, passes, .. } = self;
        let numbers = positions.capacity()
            + copies.capacity()
            + degrees.capacity()
            + pairs.input.capacity()
            + pairs.other.capacity();
        numbers * size_of::<u32>()
            + bytes
            + rows.bytes()
            + ranges.capacity() * size_of::<Candidates>()
            + changed.capacity()
            + passes.as_ref().map_or(0, |passes| passes.inner().capacity())
    }

    /// Writes the degrees that changed.
    fn settle(&mut self, slots: &[Option<u32>], other: &mut SideOf<'_>) -> Result<(), OperatorError> {
        if self.changed.contains(&true) {
            for (candidates, slot) in self.ranges.iter().zip(slots) {
                let changed = self.changed.get(candidates.start as usize..candidates.end as usize);
                if let Some(slot) = slot
                    && candidates.chunk == self.number
                    && changed.is_some_and(|changed| changed.contains(&true))
                {
                    other.table.mark(*slot);
                }
            }
            let rows = self.positions.iter().zip(&self.degrees).zip(&self.changed);
            let changed = rows.filter(|(_, changed)| **changed).map(|((position, degree), _)| (*position, *degree));
            other.records.set_degrees(other.table, changed)?;
        }
        self.changed.clear();
        Ok(())
    }
}

/// Adds rows of the batch to a chunk, with what they may match.
struct Fill<'a> {
    limits: &'a Limits,
    chunk: &'a mut Chunk,
    groups: &'a [u32],
    slots: &'a [Option<u32>],
    /// The first row.
    row: usize,
    /// Whether the first row goes on where the chunk before ended.
    resumed: bool,
    /// Whether pairs are asked for.
    pairs: bool,
}

impl WalkBody for Fill<'_> {
    type Output = ();

    fn run<W: Walk>(self, walk: &W) {
        let Self { limits, chunk, groups, slots, row: first_row, resumed, pairs } = self;
        let resume = chunk.resume.take();
        let number = chunk.number;
        chunk.end = first_row;
        for (row, key) in groups.iter().enumerate().skip(first_row) {
            let Some(range) = chunk.ranges.get(*key as usize).copied() else { return };
            let known = range.chunk == number;
            let range = if known {
                range
            } else {
                let first = match slots.get(*key as usize) {
                    _ if resumed && row == first_row => resume,
                    Some(Some(slot)) => walk.first(*slot),
                    _ => None,
                };
                // counted in 31 bits
                let start = chunk.positions.len() as u32;
                let rest = first.and_then(|first| collect(walk, first, limits, &mut chunk.positions, &mut chunk.bytes));
                if rest.is_some() && row > first_row {
                    // it begins the next chunk
                    chunk.positions.truncate(start as usize);
                    return;
                }
                chunk.resume = rest;
                Candidates { chunk: number, start, end: chunk.positions.len() as u32 }
            };
            if let Some(place) = chunk.ranges.get_mut(*key as usize) {
                *place = range;
            }
            if pairs {
                chunk.pairs.other.extend(range.start..range.end);
                chunk.pairs.input.resize(chunk.pairs.other.len(), row as u32);
            }
            chunk.end = row + 1;
            // of a row that came in two parts the next row of its key wants both
            if resumed || chunk.resume.is_some() || chunk.pairs.other.len() >= limits.pairs {
                return;
            }
        }
    }
}

/// Appends the positions of a list from `first` on while there is room; returns where it goes on.
#[inline]
fn collect<W: Walk>(walk: &W, first: u32, limits: &Limits, positions: &mut Vec<u32>, bytes: &mut usize) -> Option<u32> {
    let mut next = Some(first);
    while let Some(position) = next {
        if positions.len() >= limits.chunk_rows || *bytes >= limits.bytes {
            return next;
        }
        if !walk.expired(position) {
            positions.push(position);
            *bytes += walk.bytes(position);
        }
        next = walk.next(position);
    }
    None
}

/// Sends out what the rows of a chunk come to.
struct Emit<'a> {
    rule: Rule,
    kinds: Option<&'a [u8]>,
    suppressed: Option<&'a [bool]>,
    groups: &'a [u32],
}

impl Emit<'_> {
    /// Goes on until the output is full or the chunk is done.
    fn run(&self, chunk: &mut Chunk, cursor: &mut Cursor, matches: &mut Vec<i32>, output: &mut Output) {
        let (changes_degrees, sends_other_rows) = (self.rule.changes_degrees(), self.rule.sends_other_rows());
        while cursor.row < chunk.end {
            let row = cursor.row;
            let incoming = Incoming {
                row: row as u32,
                kind: self.kinds.map_or(RowKind::Insert as u8, |kinds| kinds[row]),
                suppressed: self.suppressed.is_some_and(|suppressed| suppressed[row]),
            };
            let range = chunk.ranges[self.groups[row] as usize];
            let mut candidate = cursor.candidate.unwrap_or(range.start);
            while candidate < range.end {
                let place = candidate as usize;
                if chunk.passes.as_ref().is_none_or(|passes| passes.value(cursor.pair)) {
                    let copies = chunk.copies.get(place).copied().unwrap_or(1);
                    let degree = chunk.degrees.get(place).copied().unwrap_or_default();
                    // of which nothing comes but a number where only the row itself goes out
                    while sends_other_rows && cursor.copies < copies {
                        if output.is_full() {
                            cursor.candidate = Some(candidate);
                            return;
                        }
                        self.rule.pair(incoming, candidate, degree, output);
                        cursor.copies += 1;
                    }
                    cursor.copies = 0;
                    cursor.matches = cursor.matches.saturating_add(copies);
                    if changes_degrees {
                        let accumulates = super::records::is_accumulate(incoming.kind);
                        chunk.degrees[place] = degree.wrapping_add(if accumulates { 1 } else { -1 });
                        chunk.changed[place] = true;
                    }
                }
                cursor.pair += 1;
                candidate += 1;
            }
            if chunk.resume.is_some() {
                // the rest of what the row may match is in the next chunk
                cursor.candidate = Some(candidate);
                chunk.end = row;
                return;
            }
            if output.is_full() {
                cursor.candidate = Some(candidate);
                return;
            }
            self.rule.paired(incoming, cursor.matches, output);
            matches.push(cursor.matches);
            cursor.row += 1;
            (cursor.candidate, cursor.matches) = (None, 0);
        }
    }
}
