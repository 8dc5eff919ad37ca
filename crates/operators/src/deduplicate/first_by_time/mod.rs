//! The first row per key by row time, once, when no earlier one can come any more.
//!
//! The earliest row of a key waits until a watermark reaches its time; of rows of the same time the first that came. Then it goes out, and that it did is
//! all that is kept of the key. A row whose time is below the watermark is late; as in Flink, how far watermarks had come is no part of checkpoints.
//! A NULL row time is 0, as it is where Flink reads it, in the fixed part of a BinaryRow. With a state time-to-live a key is forgotten some time
//! after its row went out; rows that wait do not expire.
//!
//! Follows: RowTimeDeduplicateKeepFirstRowFunction, Flink 2.2. Differences: keys whose rows have the same time leave in the order in which they came, where
//! Flink's order is that of its timer queue, which differs by state backend.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use arrow::array::UInt32Array;
use arrow::datatypes::DataType;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::codec::{Mapped, Required};
use streamfusion_state::{ColumnId, KeyedTable, RowLayout, RowsId, StateContext, StateTtl, TablePair, Touched};

use super::TABLE;
use crate::definition::describe;
use crate::keys::Keys;
use crate::millis::millis_of;
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError, row_per_key};

/// Names of sections. Names never change.
const WAITING: &str = "deduplicate.waiting";
const EMITTED: &str = "deduplicate.emitted";

/// When the row of a slot is due. The number tells whether a timer is still the one of its slot: an earlier row may have come, or the
/// slot be another key's by now.
#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    time: i64,
    /// Of no timer if it is 0.
    number: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct FirstByTime {
    keys: Keys,
    /// The column of the row time.
    column: usize,
    types: Vec<DataType>,
    /// The rows that wait, and the keys whose row went out.
    pub(super) tables: TablePair,
    rows: RowsId,
    emitted: ColumnId<bool>,
    watermark: i64,
    pub(super) late_rows: u64,
    /// By row time: slots of keys whose row had this time once, each with the number of its timer, in the order in which they came.
    timers: BTreeMap<i64, Vec<(u32, u64)>>,
    /// The slots whose row goes out.
    due: VecDeque<u32>,
    /// By slot: the timer of its row.
    waiting: Vec<Timer>,
    /// How many timers there were.
    numbers: u64,
    /// Whether what follows from restored state was made.
    begun: bool,
    touched: Touched,
    found: Vec<Option<u32>>,
    /// Per key of the batch: the row that wins.
    winners: Vec<Option<u32>>,
}

impl FirstByTime {
    pub(super) fn try_new(
        spec: &node::Deduplicate,
        input: &LogicalType,
        column: usize,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let (keys, types) = row_per_key::resolve(&spec.unique_keys, input)
            .map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let mut waiting = KeyedTable::new(WAITING, keys.layout(), None, context);
        let definitions = input.fields().iter().map(|field| describe(&field.ty)).collect();
        let rows = waiting.add_rows("row", definitions, RowLayout::try_new(&types)?);
        let mut emitted = KeyedTable::new(EMITTED, keys.layout(), StateTtl::of_millis(spec.ttl_ms), context);
        let codec = Mapped::new(
            Required::new("", DataType::Boolean),
            |emitted: &bool| *emitted,
            |emitted| if emitted { Ok(emitted) } else { Err("a key whose row did not go out") },
        );
        let flag = emitted.add_column("emitted", None, codec, false);
        Ok(Self {
            keys,
            column,
            types,
            tables: TablePair::new(TABLE, waiting, emitted).with_resident_left(),
            rows,
            emitted: flag,
            watermark: i64::MIN,
            late_rows: 0,
            timers: BTreeMap::new(),
            due: VecDeque::new(),
            waiting: Vec::new(),
            numbers: 0,
            begun: false,
            touched: Touched::default(),
            found: Vec::new(),
            winners: Vec::new(),
        })
    }

    /// Makes what follows from restored state.
    fn begin(&mut self) -> Result<(), OperatorError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let mut slots = Vec::with_capacity(self.tables.left.len());
        self.tables.left.for_each_slot(|slot, _| slots.push(slot));
        for slots in slots.chunks(OUTPUT_BATCH_ROWS) {
            let columns = self.tables.left.rows(self.rows)?.gather_columns(slots, &[self.column])?;
            let times = millis_of(&columns, 0)?;
            slots.iter().zip(times.iter()).for_each(|(slot, time)| self.wait(*slot, *time));
        }
        Ok(())
    }

    /// Notes that the row of a slot has this time.
    fn wait(&mut self, slot: u32, time: i64) {
        let place = slot as usize;
        if place >= self.waiting.len() {
            self.waiting.resize(place + 1, Timer::default());
        }
        self.numbers += 1;
        self.waiting[place] = Timer { time, number: self.numbers };
        self.timers.entry(time).or_default().push((slot, self.numbers));
    }

    /// Takes rows, all +I.
    pub(super) fn push(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        self.begin()?;
        if !batch.columns().iter().map(|column| column.data_type()).eq(&self.types) {
            let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
            return Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))));
        }
        let times = millis_of(batch.columns(), self.column)?;
        // rows are counted in 31 bits
        let mut kept: Vec<u32> = (0..batch.num_rows() as u32).collect();
        let late = |row: &u32| times.get(*row as usize).is_some_and(|time| *time < self.watermark);
        kept.retain(|row| !late(row));
        self.late_rows += (batch.num_rows() - kept.len()) as u64;
        let columns = self.keys.columns(batch)?;
        let keys = self.keys.encode(&columns, batch.num_rows())?;
        self.tables.right.find(keys, &kept, &mut self.found)?;
        let mut found = self.found.iter();
        kept.retain(|_| found.next().is_some_and(Option::is_none));
        if kept.is_empty() {
            return Ok(());
        }
        if kept.len() == batch.num_rows() {
            return self.keep(batch, &times);
        }
        let batch = batch.take(&UInt32Array::from(kept))?;
        let times = millis_of(batch.columns(), self.column)?;
        self.keep(&batch, &times)
    }

    /// Takes rows that are in time and of keys whose row did not go out.
    fn keep(&mut self, batch: &Batch, times: &[i64]) -> Result<(), OperatorError> {
        let columns = self.keys.columns(batch)?;
        self.keys.load(&columns, batch.num_rows(), &mut self.tables.left, &mut self.touched)?;
        let rows = self.tables.left.rows(self.rows)?;
        let known =
            |slot: &u32| rows.has(*slot).then(|| self.waiting.get(*slot as usize).map(|timer| timer.time)).flatten();
        let mut best: Vec<Option<i64>> = self.touched.slots.iter().map(known).collect();
        self.winners.clear();
        self.winners.resize(best.len(), None);
        for (row, (group, time)) in (0_u32..).zip(self.touched.groups.iter().zip(times)) {
            if let (Some(best), Some(winner)) = (best.get_mut(*group as usize), self.winners.get_mut(*group as usize))
                && best.is_none_or(|best| *time < best)
            {
                (*best, *winner) = (Some(*time), Some(row));
            }
        }
        let won = self.winners.iter().zip(&self.touched.slots).filter_map(|(winner, slot)| Some(((*winner)?, *slot)));
        let mut won: Vec<(u32, u32)> = won.collect();
        // rows of the same time leave in this order
        won.sort_unstable();
        let (winners, slots): (Vec<u32>, Vec<u32>) = won.into_iter().unzip();
        rows.store(batch.columns(), &winners, &slots)?;
        self.tables.left.commit(&slots);
        for (row, slot) in winners.iter().zip(&slots) {
            self.wait(*slot, times.get(*row as usize).copied().unwrap_or_default());
        }
        Ok(())
    }

    /// Takes a watermark. A row whose time is that of the last one waits for the next, as Flink's timers do.
    pub(super) fn watermark(&mut self, watermark_ms: i64) -> Result<(), OperatorError> {
        self.watermark = watermark_ms;
        self.begin()?;
        while let Some(first) = self.timers.first_entry().filter(|first| *first.key() <= watermark_ms) {
            for (slot, number) in first.remove() {
                if let Some(timer) = self.waiting.get_mut(slot as usize).filter(|timer| timer.number == number) {
                    timer.number = 0;
                    self.due.push_back(slot);
                }
            }
        }
        Ok(())
    }

    /// The next rows that are due.
    pub(super) fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let (mut slots, mut bytes) = (Vec::new(), 0);
        while slots.len() < OUTPUT_BATCH_ROWS && bytes < OUTPUT_BATCH_BYTES {
            let Some(slot) = self.due.pop_front() else { break };
            let row = self.tables.left.rows(self.rows)?.get(slot);
            bytes += row.map_or(0, <[u8]>::len);
            slots.push(slot);
        }
        if slots.is_empty() {
            return Ok(None);
        }
        let batch = Batch::try_new(self.tables.left.rows(self.rows)?.gather(&slots)?, slots.len(), None)?;
        slots.into_iter().try_for_each(|slot| self.tables.left.remove(slot))?;
        let columns = self.keys.columns(&batch)?;
        self.keys.load(&columns, batch.num_rows(), &mut self.tables.right, &mut self.touched)?;
        let emitted = self.tables.right.column(self.emitted)?;
        self.touched.slots.iter().for_each(|slot| emitted.set(*slot, true));
        self.tables.right.commit(&self.touched.slots);
        Ok(Some(batch))
    }

    /// Bytes taken, without the tables.
    pub(super) fn bytes(&self) -> usize {
        let Touched { groups, slots } = &self.touched;
        // a row has a timer, and more only if it took the place of others
        let timers =
            self.timers.len() * size_of::<(i64, Vec<(u32, u64)>)>() + self.tables.left.len() * size_of::<(u32, u64)>();
        timers
            + self.waiting.capacity() * size_of::<Timer>()
            + (groups.capacity() + slots.capacity() + self.due.capacity()) * size_of::<u32>()
            + (self.found.capacity() + self.winners.capacity()) * size_of::<Option<u32>>()
    }
}
