//! Window Top-N: the rows of each key and window whose row number in sort order is within a range.
//!
//! The rows of a key and window are kept in the order in which they came, about twice as many as have a rank ([`best`]); they are put in order when
//! the window is due. A bound says below which sort key a row comes too late in the order to get a rank, so that most
//! rows are left behind before anything else is done with them. It is no part of state: without one more rows are kept for a while.
//!
//! Follows: StreamExecWindowRank, SyncStateWindowRankProcessor, TopNRecordsCombiner, WindowAggOperator, Flink 2.2. Differences: none per key; see
//! [`window::open`](crate::window) for the order of keys.

mod best;
#[cfg(test)]
mod tests;

use streamfusion_plan::Reason;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::{
    Identity, KeyedState, KeyedTable, PackedRows, RowEntriesId, RowLayout, StateContext, Touched,
};

use self::best::{Best, Ranked};
use crate::rank::sort_key::{self, BytesKeys, FixedKeys, SortKeys};
use crate::window::WindowZone;
use crate::window::input::WindowInput;
use crate::window::open::OpenWindows;
use crate::{Operator, OperatorError, Residence, rank};

/// Name of the table, and of its section. Names never change.
const TABLE: &str = "window_rank";

/// Whether [`open`] does over rows of `input` exactly what Flink does.
pub fn supports(spec: &node::WindowRank, input: &LogicalType) -> Result<(), Reason> {
    WindowInput::try_new(&spec.partition, &spec.windowing, input)?;
    for field in &spec.order_by {
        let ty = input.fields().get(field.column).map(|field| &field.ty);
        sort_key::supports(ty.ok_or_else(|| Reason::new("a sort column does not exist"))?)?;
    }
    Ok(())
}

/// An operator without state for rows of the type `input`. The output has the columns of the input, and behind them the row
/// number if the plan says so. Errors if [`supports`] refuses it.
pub fn open(
    spec: &node::WindowRank,
    input: &LogicalType,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
    supports(spec, input).map_err(refused)?;
    if let Some(keys) = FixedKeys::try_new(&spec.order_by, input) {
        return Ok(Box::new(WindowRank::try_new(spec, input, keys, context)?));
    }
    let keys = BytesKeys::try_new(&spec.order_by, input).map_err(refused)?;
    Ok(Box::new(WindowRank::try_new(spec, input, keys, context)?))
}

/// See the [module](self).
#[derive(Debug)]
struct WindowRank<S: SortKeys> {
    input: WindowInput,
    table: KeyedTable,
    rows: RowEntriesId<()>,
    windows: OpenWindows,
    best: Best<S>,
    /// Whether what follows from restored state was made.
    begun: bool,
    touched: Touched,
    packed: PackedRows,
    ranked: Ranked,
}

impl<S: SortKeys> WindowRank<S> {
    fn try_new(
        spec: &node::WindowRank,
        input: &LogicalType,
        keys: S,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
        let rows = WindowInput::try_new(&spec.partition, &spec.windowing, input).map_err(refused)?;
        let mut table = KeyedTable::namespaced(TABLE, rows.layout(), None, context);
        let layout = RowLayout::try_new(&rows.types)?;
        let definitions = rank::definitions(&spec.order_by, input);
        let kept = table.add_row_entries("ranked_rows", definitions, layout, Identity::None, (), ())?;
        let order_by = spec.order_by.iter().map(|field| field.column).collect();
        Ok(Self {
            best: Best::new(keys, order_by, rows.types.len(), spec.start, spec.end),
            input: rows,
            table,
            rows: kept,
            windows: OpenWindows::new(WindowZone::new(&spec.windowing.zone)),
            begun: false,
            touched: Touched::default(),
            packed: PackedRows::default(),
            ranked: Ranked::new(spec.output_row_number),
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
        let (rows, _) = self.table.row_entries(self.rows)?;
        for slot in slots {
            self.best.restore(slot, rows.walk(slot).count());
        }
        Ok(())
    }

    /// Keeps the rows of a batch that may get a rank.
    fn keep(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let candidates = self.best.candidates(batch, &self.touched)?;
        let (rows, slots) = self.table.row_entries(self.rows)?;
        rows.pack(batch.columns(), &candidates, &mut self.packed)?;
        let mut new = Vec::new();
        for (number, row) in candidates.iter().enumerate() {
            let group = self.touched.groups.get(*row as usize).copied().unwrap_or_default();
            let slot = self.touched.slots.get(group as usize).copied();
            let slot = slot.ok_or_else(|| OperatorError::Internal("a row without a key".to_owned()))?;
            if self.best.add(slot) {
                new.push(slot);
            }
            rows.append(slots, slot, &self.packed, number, ())?;
        }
        self.best.prune(rows)?;
        self.table.commit(&self.touched.slots);
        for slot in new {
            self.windows.open(self.table.namespace(slot), slot);
        }
        Ok(())
    }
}

impl<S: SortKeys> Operator for WindowRank<S>
where
    S::Encoded: Send,
{
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.begin()?;
        let Self { input, windows, table, touched, .. } = self;
        match input.accept(batch, windows, table, touched)? {
            Some(batch) => self.keep(&batch),
            None => Ok(()),
        }
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            let (rows, _) = self.table.row_entries(self.rows)?;
            if let Some(batch) = self.ranked.pull(rows)? {
                return Ok(Some(batch));
            }
            self.ranked.take_slots().try_for_each(|slot| self.table.remove(slot))?;
            let (rows, _) = self.table.row_entries(self.rows)?;
            if !self.best.rank(&mut self.windows, rows, &mut self.ranked)? {
                return Ok(None);
            }
        }
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
        let Touched { groups, slots } = &self.touched;
        self.input.bytes()
            + self.windows.bytes()
            + self.best.bytes()
            + self.packed.bytes()
            + self.ranked.bytes()
            + (groups.capacity() + slots.capacity()) * size_of::<u32>()
    }
}
