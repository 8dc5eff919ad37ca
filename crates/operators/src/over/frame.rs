//! Rows that leave the frame of later rows: kept until they do, as far as calls read them.
//!
//! For the rows of a batch, [`Frame::steps`] says in which order they are accumulated and which rows are taken back in between. A row that
//! enters and leaves within the batch is never stored; what is left of the batch is stored behind what is there already.
//!
//! Invariants: the rows of a slot stand in the order in which they entered, which is also that of their times; with a frame of rows there are
//! never more of them than it has.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use streamfusion_plan::node::OverFrame;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::codec::Required;
use streamfusion_state::{
    ColumnId, Identity, KeyedTable, PackedRows, RowEntries, RowEntriesId, RowLayout, Slots, StateError,
};

use super::chunk::Chunk;
use crate::OperatorError;
use crate::definition::describe;
use crate::group_agg::{Emit, Steps};

/// No row.
const NONE: u32 = u32::MAX;

/// When rows leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// When there are so many, at least 1.
    Rows(i64),
    /// When they are older by more milliseconds.
    Range(i64),
}

impl Extent {
    /// That of a bounded frame.
    pub(super) fn of(frame: OverFrame) -> Option<Self> {
        match frame {
            OverFrame::Rows { preceding } => Some(Self::Rows(preceding.wrapping_add(1))),
            OverFrame::Range { preceding_ms } => Some(Self::Range(preceding_ms)),
            OverFrame::UnboundedRows | OverFrame::UnboundedRange => None,
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Frame {
    extent: Extent,
    /// The columns that are kept, by number in the input.
    columns: Vec<usize>,
    rows: RowEntriesId<i64>,
    /// How many rows each slot has.
    counts: ColumnId<i64>,
    groups: Vec<Group>,
    /// Per row of the batch: the next one of its group.
    next: Vec<u32>,
    sources: Sources,
    /// Positions of rows that leave, and numbers of those that stay.
    gone: Vec<u32>,
    stay: Vec<u32>,
    packed: PackedRows,
}

/// Where the rows of the steps come from.
#[derive(Debug, Default)]
struct Sources {
    /// Per step: 0 and a row of the batch, or 1 and a row of state.
    steps: Vec<(usize, usize)>,
    /// Positions of the rows of state.
    stored: Vec<u32>,
}

/// The rows of a group: those of state from `stored` on, then those of the batch from `first` to `last`.
#[derive(Debug, Clone, Copy)]
struct Group {
    stored: u32,
    first: u32,
    last: u32,
    count: i64,
}

impl Frame {
    /// Without rows; registers with `table` what is kept: these columns of `input`, and the time.
    pub(super) fn try_new(
        extent: Extent,
        mut columns: Vec<usize>,
        input: &LogicalType,
        types: &[DataType],
        table: &mut KeyedTable,
    ) -> Result<Self, StateError> {
        // constants are not kept
        columns.retain(|column| *column < types.len());
        let fields = columns.iter().filter_map(|column| input.fields().get(*column));
        let definitions = fields.map(|field| describe(&field.ty)).collect();
        let kept: Vec<DataType> = columns.iter().filter_map(|column| types.get(*column).cloned()).collect();
        let codec = Required::new("time", DataType::Int64);
        let rows = table.add_row_entries("frame", definitions, RowLayout::try_new(&kept)?, Identity::None, codec, 0)?;
        let counts = table.add_column("frame_rows", None, Required::new("", DataType::Int64), 0);
        Ok(Self {
            extent,
            columns,
            rows,
            counts,
            groups: Vec::new(),
            next: Vec::new(),
            sources: Sources::default(),
            gone: Vec::new(),
            stay: Vec::new(),
            packed: PackedRows::default(),
        })
    }

    /// Makes the steps for the rows of a chunk, whose groups `steps` has got already. Rows of state that leave can be read until
    /// [`Frame::end`].
    pub(super) fn steps(
        &mut self,
        table: &mut KeyedTable,
        chunk: &Chunk<'_>,
        steps: &mut Steps,
    ) -> Result<(), OperatorError> {
        let counts = table.column(self.counts)?;
        self.groups.clear();
        self.groups.extend(steps.slots().iter().map(|slot| {
            let count = *counts.get(*slot);
            Group { stored: NONE, first: NONE, last: NONE, count }
        }));
        let (entries, _) = table.row_entries(self.rows)?;
        for (group, slot) in self.groups.iter_mut().zip(steps.slots()) {
            group.stored = entries.first(*slot).unwrap_or(NONE);
        }
        self.next.clear();
        self.next.resize(chunk.groups.len(), NONE);
        self.sources.steps.clear();
        self.sources.stored.clear();
        self.gone.clear();
        match self.extent {
            Extent::Rows(most) => {
                for (row, number) in (0_u32..).zip(chunk.groups) {
                    let Some(group) = self.groups.get_mut(*number as usize) else { continue };
                    if group.count >= most {
                        group.leave(entries, &self.next, &mut self.sources, &mut self.gone);
                        steps.retract(*number);
                    }
                    group.enter(row, &mut self.next);
                    self.sources.steps.push((0, row as usize));
                    steps.accumulate(*number, Emit::Values);
                }
            }
            Extent::Range(preceding) => {
                for run in chunk.runs() {
                    let Some((number, time)) = chunk.groups.get(run.start).zip(chunk.times.get(run.start)) else {
                        continue;
                    };
                    let Some(group) = self.groups.get_mut(*number as usize) else { continue };
                    let is_old = |first: i64| time.wrapping_sub(first) > preceding;
                    while group.first_time(entries, chunk.times).is_some_and(is_old) {
                        group.leave(entries, &self.next, &mut self.sources, &mut self.gone);
                        steps.retract(*number);
                    }
                    let last = run.end;
                    for row in run {
                        // a chunk has fewer than 2^32 rows
                        group.enter(row as u32, &mut self.next);
                        self.sources.steps.push((0, row));
                        steps.accumulate(*number, if row + 1 == last { Emit::Values } else { Emit::Nothing });
                    }
                }
            }
        }
        Ok(())
    }

    /// What the steps are about, step by step, in the columns of the input that are kept.
    pub(super) fn rows(&self, table: &mut KeyedTable, batch: &Batch) -> Result<Batch, OperatorError> {
        let (entries, _) = table.row_entries(self.rows)?;
        let stored = entries.gather(&self.sources.stored)?;
        let count = self.sources.steps.len();
        let nothing: ArrayRef = Arc::new(NullArray::new(count));
        let mut columns = vec![nothing; batch.columns().len()];
        for (column, stored) in self.columns.iter().zip(&stored) {
            let (Some(place), Some(input)) = (columns.get_mut(*column), batch.columns().get(*column)) else { continue };
            *place = interleave(&[input.as_ref(), stored.as_ref()], &self.sources.steps)?;
        }
        Ok(Batch::try_new(columns, count, None)?)
    }

    /// Stores what is left of the chunk, and forgets what has left.
    pub(super) fn end(
        &mut self,
        table: &mut KeyedTable,
        batch: &Batch,
        chunk: &Chunk<'_>,
        slots: &[u32],
    ) -> Result<(), OperatorError> {
        let Self { groups, next, gone, stay, packed, .. } = self;
        let (entries, of_table) = table.row_entries(self.rows)?;
        for position in gone.drain(..) {
            entries.remove(position);
        }
        stay.clear();
        for group in groups.iter() {
            stay.extend(std::iter::successors(row(group.first), |at| row(next.get(*at as usize).copied()?)));
        }
        let column = |column: &usize| batch.columns().get(*column).cloned();
        let columns: Vec<ArrayRef> = self.columns.iter().filter_map(column).collect();
        entries.pack(&columns, stay, packed)?;
        append(entries, of_table, packed, stay, chunk, slots)?;
        let counts = table.column(self.counts)?;
        for (group, slot) in groups.iter().zip(slots) {
            counts.set(*slot, group.count);
        }
        Ok(())
    }

    /// Whether rows of one time and key have one value.
    pub(super) fn shares_values(&self) -> bool {
        matches!(self.extent, Extent::Range(_))
    }

    /// Bytes taken beside the table.
    pub(super) fn bytes(&self) -> usize {
        let numbers =
            self.next.capacity() + self.gone.capacity() + self.stay.capacity() + self.sources.stored.capacity();
        numbers * size_of::<u32>()
            + self.groups.capacity() * size_of::<Group>()
            + self.sources.steps.capacity() * size_of::<(usize, usize)>()
            + self.packed.bytes()
    }
}

fn row(number: u32) -> Option<u32> {
    (number != NONE).then_some(number)
}

/// Appends the packed rows, which are these of the chunk.
fn append(
    entries: &mut RowEntries<i64>,
    of_table: &Slots,
    packed: &PackedRows,
    rows: &[u32],
    chunk: &Chunk<'_>,
    slots: &[u32],
) -> Result<(), OperatorError> {
    for (number, row) in rows.iter().enumerate() {
        let row = *row as usize;
        let slot = chunk.groups.get(row).and_then(|group| slots.get(*group as usize));
        let slot = slot.ok_or_else(|| OperatorError::Internal("a row without a key".to_owned()))?;
        let time = chunk.times.get(row).copied().unwrap_or_default();
        entries.append(of_table, *slot, packed, number, time)?;
    }
    Ok(())
}

impl Group {
    /// A row of the batch enters.
    #[inline]
    fn enter(&mut self, row: u32, next: &mut [u32]) {
        match next.get_mut(self.last as usize) {
            Some(next) if self.first != NONE => *next = row,
            _ => self.first = row,
        }
        self.last = row;
        self.count = self.count.wrapping_add(1);
    }

    /// The first row leaves. There is one.
    #[inline]
    fn leave(&mut self, entries: &RowEntries<i64>, next: &[u32], sources: &mut Sources, gone: &mut Vec<u32>) {
        if self.stored == NONE {
            sources.steps.push((0, self.first as usize));
            self.first = next.get(self.first as usize).copied().unwrap_or(NONE);
        } else {
            sources.steps.push((1, sources.stored.len()));
            sources.stored.push(self.stored);
            gone.push(self.stored);
            self.stored = entries.next(self.stored).unwrap_or(NONE);
        }
        self.count = self.count.wrapping_sub(1);
    }

    /// The time of the first row.
    #[inline]
    fn first_time(&self, entries: &RowEntries<i64>, times: &[i64]) -> Option<i64> {
        match row(self.stored) {
            Some(position) => Some(*entries.value(position)),
            None => times.get(row(self.first)? as usize).copied(),
        }
    }
}
