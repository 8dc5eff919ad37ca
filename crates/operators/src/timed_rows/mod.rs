//! Rows that wait for their time, whatever operator they wait in.
//!
//! They leave in order of time, and those of one time in the order in which they came. Until the next checkpoint a row is a reference
//! into the batch that it came in, so that most rows are never stored; a checkpoint stores those that still wait, each once. What was
//! restored, or stored by a checkpoint, waits in state. Which rows are due is found in [`Runs`].
//!
//! Invariants: a row that waits is either in a batch or in state; in the list of its slot in state rows stand in the order in which
//! they came. A slot is not removed from the table while rows of it wait.

mod runs;

use arrow::array::{Array, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, TimestampMillisecondType};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::codec::Required;
use streamfusion_state::{Identity, KeyedTable, PackedRows, RowEntriesId, RowLayout, StateError};

use self::runs::Runs;
use crate::OperatorError;
use crate::changelog::{BatchNumber, BundleRows, RowRef};
use crate::definition::describe;

/// A row that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimedRow {
    /// Its time.
    pub(crate) time: i64,
    /// Greater than that of the rows that came before it.
    order: u64,
    /// The slot of its key.
    pub(crate) slot: u32,
    place: Place,
}

/// Where a row lies.
#[derive(Debug, Clone, Copy)]
enum Place {
    Batch(RowRef),
    /// Its position in state.
    State(u32),
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct TimedRows {
    stored: RowEntriesId<i64>,
    batches: BundleRows,
    /// Rows that wait in batches.
    in_batches: usize,
    waiting: Runs,
    /// Those whose time has come, in the order in which they leave, from `left` on.
    due: Vec<TimedRow>,
    left: usize,
    next_order: u64,
    packed: PackedRows,
}

impl TimedRows {
    /// No rows. They are of the type `input`, and registered with `table` under `name`.
    pub(crate) fn try_new(
        name: &'static str,
        input: &LogicalType,
        types: &[DataType],
        table: &mut KeyedTable,
    ) -> Result<Self, StateError> {
        let definitions = input.fields().iter().map(|field| describe(&field.ty)).collect();
        let codec = Required::new("time", DataType::Int64);
        let layout = RowLayout::try_new(types)?;
        let stored = table.add_row_entries(name, definitions, layout, Identity::None, codec, 0)?;
        Ok(Self {
            stored,
            batches: BundleRows::new(),
            in_batches: 0,
            waiting: Runs::default(),
            due: Vec::new(),
            left: 0,
            next_order: 0,
            packed: PackedRows::default(),
        })
    }

    /// Keeps a batch, of which rows are going to be [pushed](TimedRows::push).
    pub(crate) fn add(&mut self, batch: &Batch) -> Result<BatchNumber, OperatorError> {
        let number = self.batches.add(batch)?;
        // measures it, so that it is not measured over and over
        self.batches.bytes();
        Ok(number)
    }

    /// Lets a row of a batch wait.
    #[inline]
    pub(crate) fn push(&mut self, batch: BatchNumber, row: u32, time: i64, slot: u32) {
        let order = self.next_order;
        self.next_order += 1;
        self.in_batches += 1;
        self.waiting.push(TimedRow { time, order, slot, place: Place::Batch(RowRef::new(batch, row)) });
    }

    /// The earliest time that a row waits for.
    pub(crate) fn first_time(&self) -> Option<i64> {
        self.waiting.first_time()
    }

    /// Makes the rows of times up to `time` due. None may be due any more.
    pub(crate) fn advance(&mut self, time: i64) {
        self.due.clear();
        self.left = 0;
        self.waiting.take_until(time, &mut self.due);
    }

    /// The rows that are due, and have not left, in order.
    pub(crate) fn due(&self) -> &[TimedRow] {
        self.due.get(self.left..).unwrap_or_default()
    }

    /// The same; those of one time may be put into another order.
    pub(crate) fn due_mut(&mut self) -> &mut [TimedRow] {
        self.due.get_mut(self.left..).unwrap_or_default()
    }

    /// How many of the first rows that are due fit into one batch: about `most`, and all of the last one's time.
    pub(crate) fn fitting_times(&self, most: usize) -> Result<usize, OperatorError> {
        let first = self.due().iter().take(most);
        let count = if self.batches.fits() {
            first.len()
        } else {
            let refs: Option<Vec<RowRef>> = first.clone().map(TimedRow::in_batch).collect();
            refs.map_or(Ok(first.len()), |refs| self.batches.fitting(&refs))?
        };
        let Some(last) = count.checked_sub(1).and_then(|last| self.due().get(last)) else { return Ok(0) };
        let more = self.due().iter().skip(count).take_while(|row| row.time == last.time);
        Ok(count + more.count())
    }

    /// The first `count` rows that are due leave: as a batch, in order.
    pub(crate) fn leave(&mut self, table: &mut KeyedTable, count: usize) -> Result<Batch, OperatorError> {
        let leaving = self.due.get(self.left..self.left + count).unwrap_or_default();
        let (entries, _) = table.row_entries(self.stored)?;
        let positions: Vec<u32> = leaving.iter().filter_map(TimedRow::in_state).collect();
        let batch = if positions.len() == leaving.len() {
            Batch::try_new(entries.gather(&positions)?, leaving.len(), None)?
        } else {
            let mut refs: Vec<RowRef> = Vec::with_capacity(leaving.len());
            if positions.is_empty() {
                refs.extend(leaving.iter().filter_map(TimedRow::in_batch));
            } else {
                let stored = Batch::try_new(entries.gather(&positions)?, positions.len(), None)?;
                let stored = self.batches.add(&stored)?;
                let mut stored = (0..).map(|row| RowRef::new(stored, row));
                refs.extend(leaving.iter().filter_map(|row| row.in_batch().or_else(|| stored.next())));
            }
            self.batches.gather_or_slice(&refs)?
        };
        for position in &positions {
            entries.remove(*position);
        }
        leaving.iter().filter(|row| row.in_state().is_some()).for_each(|row| table.mark(row.slot));
        self.in_batches -= leaving.len() - positions.len();
        self.left += leaving.len();
        Ok(batch)
    }

    /// Lets go of batches that few rows wait in. To be called when all rows that were due have left.
    pub(crate) fn settle(&mut self) -> Result<(), OperatorError> {
        if self.in_batches == 0 {
            self.batches.clear();
        } else if self.batches.wants_compaction(self.in_batches) {
            let mut rows: Vec<&mut TimedRow> = self.waiting.iter_mut().filter(|row| row.in_batch().is_some()).collect();
            rows.sort_unstable_by_key(|row| row.order);
            let refs = rows.into_iter().filter_map(|row| match &mut row.place {
                Place::Batch(row) => Some(row),
                Place::State(_) => None,
            });
            self.batches.compact(refs)?;
        }
        Ok(())
    }

    /// Moves all rows into state, in front of a checkpoint. None may be due.
    pub(crate) fn store(&mut self, table: &mut KeyedTable) -> Result<(), OperatorError> {
        let mut rows: Vec<&mut TimedRow> = self.waiting.iter_mut().filter(|row| row.in_batch().is_some()).collect();
        rows.sort_unstable_by_key(|row| row.order);
        let (entries, slots) = table.row_entries(self.stored)?;
        for rows in rows.chunk_by_mut(|a, b| a.in_batch().map(RowRef::batch) == b.in_batch().map(RowRef::batch)) {
            let Some(batch) = rows.first().and_then(|row| row.in_batch()) else { continue };
            let columns = self.batches.batch(batch)?.columns();
            let numbers: Vec<u32> = rows.iter().filter_map(|row| Some(row.in_batch()?.number())).collect();
            entries.pack(columns, &numbers, &mut self.packed)?;
            for (number, row) in rows.iter_mut().enumerate() {
                row.place = Place::State(entries.append(slots, row.slot, &self.packed, number, row.time)?);
            }
        }
        rows.iter().for_each(|row| table.mark(row.slot));
        self.in_batches = 0;
        self.batches.clear();
        Ok(())
    }

    /// Whether all rows lie in state.
    pub(crate) fn is_stored(&self) -> bool {
        self.in_batches == 0
    }

    /// Takes over the rows that were restored. To be called once, before the first row.
    pub(crate) fn restore(&mut self, table: &mut KeyedTable) -> Result<(), OperatorError> {
        let mut slots = Vec::new();
        table.for_each_slot(|slot, _| slots.push(slot));
        let (entries, _) = table.row_entries(self.stored)?;
        for slot in slots {
            for position in entries.walk(slot) {
                let (time, order) = (*entries.value(position), self.next_order);
                self.next_order += 1;
                self.waiting.push(TimedRow { time, order, slot, place: Place::State(position) });
            }
        }
        Ok(())
    }

    /// The rows that wait, in no order that means anything.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &TimedRow> {
        self.waiting.iter()
    }

    /// Bytes taken beside the table.
    pub(crate) fn bytes(&self) -> usize {
        self.batches.held_bytes()
            + self.waiting.bytes()
            + self.due.capacity() * size_of::<TimedRow>()
            + self.packed.bytes()
    }
}

impl TimedRow {
    #[inline]
    fn in_batch(&self) -> Option<RowRef> {
        match self.place {
            Place::Batch(row) => Some(row),
            Place::State(_) => None,
        }
    }

    #[inline]
    fn in_state(&self) -> Option<u32> {
        match self.place {
            Place::Batch(_) => None,
            Place::State(position) => Some(position),
        }
    }

    /// What rows are sorted by.
    #[inline]
    fn key(&self) -> (i64, u64) {
        (self.time, self.order)
    }
}

/// The row times of a batch; that of NULL is 0, as it is where Flink reads it, in the fixed part of a BinaryRow.
pub(crate) fn row_times(batch: &Batch, column: usize) -> Result<ScalarBuffer<i64>, OperatorError> {
    let array = batch.columns().get(column).and_then(|array| array.as_primitive_opt::<TimestampMillisecondType>());
    let array =
        array.ok_or_else(|| OperatorError::Input("a row time that is no timestamp of milliseconds".to_owned()))?;
    Ok(match array.nulls() {
        None => array.values().clone(),
        Some(_) => array.iter().map(Option::unwrap_or_default).collect(),
    })
}
