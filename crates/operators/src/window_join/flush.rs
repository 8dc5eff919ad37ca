//! Windows that are due on their way out: the rows of a few keys are read from state and joined, then those of the next ones.
//!
//! Invariants: a chunk has all rows of its keys of both inputs, and they have left state; output refers to the chunk, so it is pulled before the next
//! one is read. Nothing grows with the number of pairs.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray};
use arrow::datatypes::DataType;
use streamfusion_plan::node::JoinType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedTable, RowEntriesId};

use super::pairs::Evaluated;
use crate::OperatorError;
use crate::join::Input;
use crate::join::condition::{Condition, Operand};
use crate::join::limits::{Limits, RowBytes};
use crate::join::output::{NO_ROW, Output, Shape, Source};
use crate::window::open::OpenWindows;

/// Where the rows of both inputs are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) left: RowEntriesId<()>,
    pub(super) right: RowEntriesId<()>,
}

/// The rows of one key and window, by number in the chunk.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) left: Range<u32>,
    pub(super) right: Range<u32>,
    /// Whether rows of the two inputs may match: a NULL in the key may keep them from it.
    pub(super) matches: bool,
}

impl Group {
    /// The rows that are gone through once, and those that are gone through for each of them.
    pub(super) fn loops(&self, join_type: JoinType) -> (Range<u32>, Range<u32>) {
        let (outer, inner) = match join_type {
            JoinType::Right => (&self.right, &self.left),
            _ => (&self.left, &self.right),
        };
        (outer.clone(), if self.matches { inner.clone() } else { inner.start..inner.start })
    }
}

/// How far output has come.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    pub(super) group: usize,
    /// The number of the row in the outer loop, counted from the first one of the group.
    pub(super) outer: u32,
    /// The same of the inner loop.
    pub(super) inner: u32,
    /// Whether the row of the outer loop has matched.
    matched: bool,
    /// FULL: the next right row that may have matched nothing.
    rest: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Flush {
    join_type: JoinType,
    limits: Limits,
    /// Columns of the left input in which a NULL matches nothing.
    null_filtered: Vec<usize>,
    types: [Vec<DataType>; 2],
    groups: Vec<Group>,
    left: Source,
    right: Source,
    /// The same rows as the condition reads them.
    columns: [Vec<ArrayRef>; 2],
    row_bytes: [RowBytes; 2],
    evaluated: Evaluated,
    /// FULL: per right row whether it has matched.
    matched: Vec<bool>,
    cursor: Cursor,
    output: Output,
}

impl Flush {
    pub(super) fn new(
        join_type: JoinType,
        null_filtered: Vec<usize>,
        types: [Vec<DataType>; 2],
        limits: Limits,
    ) -> Self {
        Self {
            join_type,
            limits,
            null_filtered,
            types,
            groups: Vec::new(),
            left: Source::default(),
            right: Source::default(),
            columns: [Vec::new(), Vec::new()],
            row_bytes: [RowBytes::default(), RowBytes::default()],
            evaluated: Evaluated::default(),
            matched: Vec::new(),
            cursor: Cursor::default(),
            output: Output::new(limits),
        }
    }

    fn shape(&self) -> Shape {
        match self.join_type {
            JoinType::Semi | JoinType::Anti => Shape::Left,
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => Shape::Both,
        }
    }

    /// The next rows of output; `None` when nothing more is due.
    pub(super) fn pull(
        &mut self,
        condition: Option<&Condition>,
        windows: &mut OpenWindows,
        table: &mut KeyedTable,
        rows: Rows,
    ) -> Result<Option<Batch>, OperatorError> {
        loop {
            let types: [&[_]; 2] = [&self.types[0], &self.types[1]];
            let sources = [&self.left, &self.right];
            if let Some(batch) = self.output.pull(self.shape(), Input::Left, sources, types)? {
                return Ok(Some(batch));
            }
            if self.cursor.group < self.groups.len() {
                self.emit(condition)?;
            } else if !self.fetch(condition, windows, table, rows)? {
                return Ok(None);
            }
        }
    }

    /// Reads the next keys that are due; whether there are any.
    fn fetch(
        &mut self,
        condition: Option<&Condition>,
        windows: &mut OpenWindows,
        table: &mut KeyedTable,
        rows: Rows,
    ) -> Result<bool, OperatorError> {
        self.clear();
        let (mut left, mut right, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut slots = Vec::new();
        while left.len() + right.len() < self.limits.chunk_rows && bytes < self.limits.bytes {
            let Some(slot) = windows.next_due() else { break };
            slots.push(slot);
            let (of_left, _) = table.row_entries(rows.left)?;
            let has_left = of_left.first(slot).is_some();
            let (of_right, _) = table.row_entries(rows.right)?;
            let has_right = of_right.first(slot).is_some();
            let goes_out = match self.join_type {
                JoinType::Inner | JoinType::Semi => has_left && has_right,
                JoinType::Left | JoinType::Anti => has_left,
                JoinType::Right => has_right,
                JoinType::Full => true,
            };
            if !goes_out {
                continue;
            }
            let mut range = |id, positions: &mut Vec<u32>| -> Result<Range<u32>, OperatorError> {
                let (rows, _) = table.row_entries(id)?;
                let start = positions.len();
                let walk = rows.walk(slot).inspect(|position| bytes += rows.row(*position).len());
                positions.extend(walk);
                // rows are counted in 31 bits
                Ok(start as u32..positions.len() as u32)
            };
            let (left, right) = (range(rows.left, &mut left)?, range(rows.right, &mut right)?);
            self.groups.push(Group { left, right, matches: has_left && has_right });
        }
        if slots.is_empty() {
            return Ok(false);
        }
        if !self.groups.is_empty() {
            self.read(condition, table, rows, [&left, &right])?;
        }
        slots.into_iter().try_for_each(|slot| table.remove(slot))?;
        Ok(true)
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.cursor = Cursor::default();
        self.matched.clear();
        self.evaluated.clear();
        (self.left, self.right) = (Source::default(), Source::default());
        (self.columns, self.row_bytes) = Default::default();
    }

    /// Reads the rows at these positions as columns.
    fn read(
        &mut self,
        condition: Option<&Condition>,
        table: &mut KeyedTable,
        rows: Rows,
        [left, right]: [&[u32]; 2],
    ) -> Result<(), OperatorError> {
        let (of_left, _) = table.row_entries(rows.left)?;
        let left_columns = of_left.gather(left)?;
        let (of_right, _) = table.row_entries(rows.right)?;
        let wanted = |column: &usize| match (self.shape(), condition) {
            (Shape::Both, _) => true,
            (Shape::Left, condition) => condition.is_some_and(|condition| condition.reads(Input::Right, *column)),
        };
        let numbers: Vec<usize> = (0..self.types[1].len()).filter(wanted).collect();
        let without_values: ArrayRef = Arc::new(NullArray::new(right.len()));
        let mut right_columns = vec![without_values; self.types[1].len()];
        for (number, column) in numbers.iter().zip(of_right.gather_columns(right, &numbers)?) {
            right_columns[*number] = column;
        }
        for group in &mut self.groups {
            let null = |column: &usize| {
                left_columns.get(*column).is_some_and(|column| column.is_null(group.left.start as usize))
            };
            group.matches = group.matches && !self.null_filtered.iter().any(null);
        }
        if let Some(condition) = condition {
            let limits = &self.limits;
            self.row_bytes = [
                condition.row_bytes(Input::Left, &left_columns, left.len(), limits),
                condition.row_bytes(Input::Right, &right_columns, right.len(), limits),
            ];
            self.columns = [left_columns.clone(), right_columns.clone()];
        }
        if self.join_type == JoinType::Full {
            self.matched.resize(right.len(), false);
        }
        self.left = Source::new(left_columns, left.len(), &self.limits);
        self.right = Source::new(right_columns, right.len(), &self.limits);
        Ok(())
    }

    /// Goes on until the output is full or the chunk is done.
    fn emit(&mut self, condition: Option<&Condition>) -> Result<(), OperatorError> {
        while let Some(group) = self.groups.get(self.cursor.group) {
            let (outer, inner) = group.loops(self.join_type);
            let right = group.right.clone();
            while self.cursor.outer < outer.len() as u32 {
                let row = outer.start + self.cursor.outer;
                if !self.emit_pairs(condition, row, inner.clone())? || self.output.is_full() {
                    return Ok(());
                }
                self.emit_row(row);
                (self.cursor.inner, self.cursor.matched) = (0, false);
                self.cursor.outer += 1;
            }
            if self.join_type == JoinType::Full {
                while self.cursor.rest < right.len() as u32 {
                    if self.output.is_full() {
                        return Ok(());
                    }
                    let row = right.start + self.cursor.rest;
                    if !self.matched.get(row as usize).copied().unwrap_or_default() {
                        self.output.push(RowKind::Insert, NO_ROW, row);
                    }
                    self.cursor.rest += 1;
                }
            }
            self.cursor = Cursor { group: self.cursor.group + 1, ..Cursor::default() };
        }
        Ok(())
    }

    /// Sends out what pairs of a row of the outer loop come to; whether all of them did before the output was full.
    fn emit_pairs(
        &mut self,
        condition: Option<&Condition>,
        row: u32,
        inner: Range<u32>,
    ) -> Result<bool, OperatorError> {
        let stops_at_match = matches!(self.join_type, JoinType::Semi | JoinType::Anti);
        while self.cursor.inner < inner.len() as u32 && !(stops_at_match && self.cursor.matched) {
            let Some(condition) = condition else {
                if stops_at_match {
                    self.cursor.matched = true;
                    break;
                }
                let room = u32::try_from(self.output.room()).unwrap_or(u32::MAX);
                if room == 0 {
                    return Ok(false);
                }
                let start = inner.start + self.cursor.inner;
                let run = start..inner.end.min(start.saturating_add(room));
                self.cursor.inner += run.len() as u32;
                self.cursor.matched = true;
                self.pair_run(row, run);
                continue;
            };
            if self.output.is_full() {
                return Ok(false);
            }
            if self.evaluated.is_empty() {
                let [left, right] =
                    [0, 1].map(|side| Operand { columns: &self.columns[side], row_bytes: &self.row_bytes[side] });
                self.evaluated.fill(
                    condition,
                    self.join_type,
                    &self.groups,
                    &self.cursor,
                    [left, right],
                    &self.limits,
                )?;
            }
            if self.evaluated.next() {
                self.cursor.matched = true;
                if !stops_at_match {
                    let other = inner.start + self.cursor.inner;
                    self.pair_run(row, other..other + 1);
                }
            }
            self.cursor.inner += 1;
        }
        // pairs behind a match are not looked at
        self.evaluated.skip(inner.len().saturating_sub(self.cursor.inner as usize));
        self.cursor.inner = inner.len() as u32;
        Ok(true)
    }

    /// Sends out the pairs of a row of the outer loop with some of the inner one.
    fn pair_run(&mut self, row: u32, run: Range<u32>) {
        match self.join_type {
            JoinType::Right => self.output.insert_pairs(run.clone(), std::iter::repeat_n(row, run.len())),
            _ => {
                if let Some(matched) = self.matched.get_mut(run.start as usize..run.end as usize) {
                    matched.fill(true);
                }
                self.output.insert_pairs(std::iter::repeat_n(row, run.len()), run);
            }
        }
    }

    /// Sends out what a row of the outer loop comes to when all of its pairs are known.
    fn emit_row(&mut self, row: u32) {
        match (self.join_type, self.cursor.matched) {
            (JoinType::Inner, _) => {}
            (JoinType::Left | JoinType::Full, false) | (JoinType::Semi, true) | (JoinType::Anti, false) => {
                self.output.push(RowKind::Insert, row, NO_ROW);
            }
            (JoinType::Right, false) => self.output.push(RowKind::Insert, NO_ROW, row),
            (JoinType::Left | JoinType::Full | JoinType::Right | JoinType::Anti, true) | (JoinType::Semi, false) => {}
        }
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        let columns = self.left.columns().iter().chain(self.right.columns());
        columns.map(|column| column.get_buffer_memory_size()).sum::<usize>()
            + self.groups.capacity() * size_of::<Group>()
            + self.left.bytes()
            + self.right.bytes()
            + self.row_bytes.iter().map(RowBytes::memory).sum::<usize>()
            + self.evaluated.bytes()
            + self.matched.capacity()
            + self.output.bytes()
    }
}
