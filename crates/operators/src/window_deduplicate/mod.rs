//! The first or last row per key and window, by row time.
//!
//! Of rows of the same time the latest that arrived stays if the last is kept, the first if the first is; a NULL row time is 0, as it is
//! where Flink reads it, in the fixed part of a BinaryRow. The row goes out when its window is due, and the key is forgotten. Of a batch only
//! the winners are stored.
//!
//! Follows: StreamExecWindowDeduplicate, RowTimeSyncStateWindowDeduplicateProcessor, RowTimeDeduplicateRecordsCombiner,
//! WindowAggOperator, Flink 2.2. Differences: none per key; see [`window::open`](crate::window) for the order of keys.

#[cfg(test)]
mod tests;

use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, KeepRow};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::{KeyedState, KeyedTable, RowLayout, RowsId, StateContext, Touched};

use crate::millis::millis_of;
use crate::window::WindowZone;
use crate::window::input::WindowInput;
use crate::window::open::OpenWindows;
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, Operator, OperatorError, Residence};

/// Name of the table, and of its section. Names never change.
const TABLE: &str = "window_deduplicate";

/// Whether [`WindowDeduplicate`] does over rows of `input` exactly what Flink does.
pub fn supports(spec: &node::WindowDeduplicate, input: &LogicalType) -> Result<(), Reason> {
    WindowInput::try_new(&spec.partition, &spec.windowing, input).map(drop)
}

/// See the [module](self). The output has the columns of the input.
#[derive(Debug)]
pub struct WindowDeduplicate {
    input: WindowInput,
    /// The column of the row time.
    order: usize,
    keep: KeepRow,
    table: KeyedTable,
    rows: RowsId,
    windows: OpenWindows,
    /// By slot: the row time of its row.
    times: Vec<i64>,
    /// Whether what follows from restored state was made.
    begun: bool,
    touched: Touched,
    /// Per key and window of the batch: the row that wins.
    winners: Vec<Option<u32>>,
    /// The slots of the batch that went out last.
    fired: Vec<u32>,
}

impl WindowDeduplicate {
    /// An operator without state for rows of the type `input`. Errors if [`supports`] refuses it.
    pub fn try_new(
        spec: &node::WindowDeduplicate,
        input: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
        let rows = WindowInput::try_new(&spec.partition, &spec.windowing, input).map_err(refused)?;
        let mut table = KeyedTable::namespaced(TABLE, rows.layout(), None, context);
        let kept = table.add_rows("row", rows.definitions.clone(), RowLayout::try_new(&rows.types)?);
        Ok(Self {
            input: rows,
            order: spec.order_key,
            keep: spec.keep,
            table,
            rows: kept,
            windows: OpenWindows::new(WindowZone::new(&spec.windowing.zone)),
            times: Vec::new(),
            begun: false,
            touched: Touched::default(),
            winners: Vec::new(),
            fired: Vec::new(),
        })
    }

    /// Makes what follows from restored state.
    fn begin(&mut self) -> Result<(), OperatorError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let mut slots = Vec::with_capacity(self.table.len());
        let windows = &mut self.windows;
        self.table.for_each_slot(|slot, end| {
            windows.open(end, slot);
            slots.push(slot);
        });
        for slots in slots.chunks(OUTPUT_BATCH_ROWS) {
            let columns = self.table.rows(self.rows)?.gather_columns(slots, &[self.order])?;
            let times = millis_of(&columns, 0)?;
            slots.iter().zip(times.iter()).for_each(|(slot, time)| set_time(&mut self.times, *slot, *time));
        }
        Ok(())
    }

    /// Finds the winners of the batch.
    fn fold(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let times = millis_of(batch.columns(), self.order)?;
        self.winners.clear();
        self.winners.resize(self.touched.slots.len(), None);
        let rows = self.table.rows(self.rows)?;
        for slot in &self.touched.slots {
            if !rows.has(*slot) {
                // no row is worse
                set_time(&mut self.times, *slot, if self.keep == KeepRow::Last { i64::MIN } else { i64::MAX });
            }
        }
        for (row, (group, time)) in (0_u32..).zip(self.touched.groups.iter().zip(times.iter())) {
            let slot = self.touched.slots.get(*group as usize).copied().unwrap_or_default();
            let (Some(best), Some(winner)) = (self.times.get_mut(slot as usize), self.winners.get_mut(*group as usize))
            else {
                return Err(OperatorError::Internal("a row without a key".to_owned()));
            };
            let wins = match self.keep {
                KeepRow::Last => *best <= *time,
                // of the first row that there is the time may be as late as it gets
                KeepRow::First => *time < *best || (winner.is_none() && !rows.has(slot)),
            };
            if wins {
                (*best, *winner) = (*time, Some(row));
            }
        }
        Ok(())
    }

    /// Stores the winners.
    fn store(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let rows = self.table.rows(self.rows)?;
        let new: Vec<u32> = self.touched.slots.iter().copied().filter(|slot| !rows.has(*slot)).collect();
        let won = self.winners.iter().zip(&self.touched.slots).filter_map(|(winner, slot)| Some(((*winner)?, *slot)));
        let (winners, slots): (Vec<u32>, Vec<u32>) = won.unzip();
        rows.store(batch.columns(), &winners, &slots)?;
        self.table.commit(&slots);
        for slot in new {
            self.windows.open(self.table.namespace(slot), slot);
        }
        Ok(())
    }
}

fn set_time(times: &mut Vec<i64>, slot: u32, time: i64) {
    let place = slot as usize;
    if place >= times.len() {
        times.resize(place + 1, 0);
    }
    times[place] = time;
}

impl Operator for WindowDeduplicate {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.begin()?;
        let Self { input, windows, table, touched, .. } = self;
        let Some(batch) = input.accept(batch, windows, table, touched)? else { return Ok(()) };
        self.fold(&batch)?;
        self.store(&batch)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.fired.clear();
        let rows = self.table.rows(self.rows)?;
        let mut bytes = 0;
        while self.fired.len() < OUTPUT_BATCH_ROWS && bytes < OUTPUT_BATCH_BYTES {
            let Some(slot) = self.windows.next_due() else { break };
            bytes += rows.get(slot).map_or(0, <[u8]>::len);
            self.fired.push(slot);
        }
        if self.fired.is_empty() {
            return Ok(None);
        }
        let batch = Batch::try_new(rows.gather(&self.fired)?, self.fired.len(), None)?;
        self.fired.iter().try_for_each(|slot| self.table.remove(*slot))?;
        Ok(Some(batch))
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.begin()?;
        Ok(Some(self.windows.advance(watermark_ms)))
    }

    fn progress(&self) -> Option<i64> {
        Some(self.windows.progress())
    }

    fn restore_progress(&mut self, watermark_ms: i64) {
        self.windows.restore_progress(watermark_ms);
    }

    fn late_rows(&self) -> Option<u64> {
        Some(self.input.late_rows())
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.table)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }

    fn bundle_bytes(&self) -> usize {
        self.input.bytes()
            + self.windows.bytes()
            + self.times.capacity() * size_of::<i64>()
            + self.winners.capacity() * size_of::<Option<u32>>()
            + (self.touched.groups.capacity() + self.touched.slots.capacity() + self.fired.capacity())
                * size_of::<u32>()
    }
}
