//! Window join: pairs of rows of two inputs with equal keys and the same window.
//!
//! The rows of both inputs are kept by key and window in the order in which they came. When a window is due, those of each key are
//! joined in a nested loop ([`flush`]) and forgotten. What goes out is handed out batch by batch.
//!
//! Follows: StreamExecWindowJoin, WindowJoinOperator, WindowJoinHelper, Flink 2.2. Differences: none per key; see
//! [`window::open`](crate::window) for the order of keys. As in Flink, which rows are late is forgotten with a restore: the first watermark says it
//! anew.

mod flush;
mod pairs;
#[cfg(test)]
mod tests;

use streamfusion_plan::Reason;
use streamfusion_plan::node;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::{
    Identity, KeyedState, KeyedTable, PackedRows, RowEntriesId, RowLayout, StateContext, Touched,
};

use self::flush::{Flush, Rows};
use crate::join::Input;
use crate::join::condition::{self, Condition};
use crate::join::keys_agree;
use crate::join::limits::Limits;
use crate::window::WindowZone;
use crate::window::input::WindowInput;
use crate::window::open::OpenWindows;
use crate::{DroppedRows, OUTPUT_BATCH_BYTES, Operator, OperatorError, Residence};

/// Name of the table. Names never change.
const TABLE: &str = "window_join";
const LEFT: &str = "left_records";
const RIGHT: &str = "right_records";

/// Whether [`WindowJoin`] does over rows of these types exactly what Flink does.
pub fn supports(spec: &node::WindowJoin, left: &LogicalType, right: &LogicalType) -> Result<(), Reason> {
    inputs(spec, left, right)?;
    keys_agree([&spec.join.left_keys, &spec.join.right_keys], &spec.join.filter_nulls, left, right)?;
    spec.join.condition.as_ref().map_or(Ok(()), condition::supports)
}

fn inputs(spec: &node::WindowJoin, left: &LogicalType, right: &LogicalType) -> Result<[WindowInput; 2], Reason> {
    Ok([
        WindowInput::try_new(&spec.join.left_keys, &spec.left, left)?,
        WindowInput::try_new(&spec.join.right_keys, &spec.right, right)?,
    ])
}

/// See the [module](self). The output has the columns of the left input and, but for SEMI and ANTI, those of the right one
/// behind them.
#[derive(Debug)]
pub struct WindowJoin {
    left: WindowInput,
    right: WindowInput,
    table: KeyedTable,
    rows: Rows,
    windows: OpenWindows,
    condition: Option<Condition>,
    flush: Flush,
    /// Whether what follows from restored state was made.
    begun: bool,
    touched: Touched,
    packed: PackedRows,
    /// From 0 on, as many as the largest batch had rows.
    numbers: Vec<u32>,
}

impl WindowJoin {
    /// An operator without state over rows of these types. Errors if [`supports`] refuses it.
    pub fn try_new(
        spec: &node::WindowJoin,
        left: &LogicalType,
        right: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        Self::with_limits(spec, left, right, context, Limits::default())
    }

    fn with_limits(
        spec: &node::WindowJoin,
        left: &LogicalType,
        right: &LogicalType,
        context: &StateContext,
        limits: Limits,
    ) -> Result<Self, OperatorError> {
        let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
        supports(spec, left, right).map_err(refused)?;
        let columns = left.fields().len();
        let [left, right] = inputs(spec, left, right).map_err(refused)?;
        let mut table = KeyedTable::namespaced(TABLE, left.layout(), None, context);
        let mut rows = |name: &str, input: &WindowInput| -> Result<RowEntriesId<()>, OperatorError> {
            let layout = RowLayout::try_new(&input.types)?;
            Ok(table.add_row_entries(name, input.definitions.clone(), layout, Identity::None, (), ())?)
        };
        let rows = Rows { left: rows(LEFT, &left)?, right: rows(RIGHT, &right)? };
        let filtered = spec.join.left_keys.iter().zip(&spec.join.filter_nulls).filter(|(_, filtered)| **filtered);
        let null_filtered = filtered.map(|(key, _)| *key).collect();
        let condition = spec.join.condition.as_ref().map(|rex| Condition::try_new(rex, columns)).transpose()?;
        Ok(Self {
            flush: Flush::new(spec.join.join_type, null_filtered, [left.types.clone(), right.types.clone()], limits),
            left,
            right,
            table,
            rows,
            windows: OpenWindows::new(WindowZone::new(&spec.left.zone)),
            condition,
            begun: false,
            touched: Touched::default(),
            packed: PackedRows::default(),
            numbers: Vec::new(),
        })
    }

    /// Makes what follows from restored state.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.begun, true) {
            let windows = &mut self.windows;
            self.table.for_each_slot(|slot, end| windows.open(end, slot));
        }
    }

    fn accept(&mut self, side: Input, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.begin();
        let Self { left, right, table, windows, touched, .. } = self;
        let input = if side == Input::Left { left } else { right };
        let Some(batch) = input.accept(batch, windows, table, touched)? else { return Ok(()) };
        let (own, other) = match side {
            Input::Left => (self.rows.left, self.rows.right),
            Input::Right => (self.rows.right, self.rows.left),
        };
        let mut new = self.touched.slots.clone();
        for rows in [own, other] {
            let (rows, _) = self.table.row_entries(rows)?;
            new.retain(|slot| rows.first(*slot).is_none());
        }
        let (rows, slots) = self.table.row_entries(own)?;
        let known = self.numbers.len();
        self.numbers.extend((0..).take(batch.num_rows()).skip(known));
        rows.pack(batch.columns(), &self.numbers[..batch.num_rows()], &mut self.packed)?;
        for (row, group) in self.touched.groups.iter().enumerate() {
            let slot = self.touched.slots.get(*group as usize).copied();
            let slot = slot.ok_or_else(|| OperatorError::Internal("a row without a key".to_owned()))?;
            rows.append(slots, slot, &self.packed, row, ())?;
        }
        if self.packed.bytes() > OUTPUT_BATCH_BYTES {
            // an outlier, whose memory is not kept
            self.packed = PackedRows::default();
        }
        self.table.commit(&self.touched.slots);
        for slot in new {
            self.windows.open(self.table.namespace(slot), slot);
        }
        Ok(())
    }
}

impl Operator for WindowJoin {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.accept(Input::Left, batch)
    }

    fn push_second(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.accept(Input::Right, batch)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        self.flush.pull(self.condition.as_ref(), &mut self.windows, &mut self.table, self.rows)
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.begin();
        self.windows.advance(watermark_ms);
        Ok(Some(watermark_ms))
    }

    fn dropped_rows(&self) -> DroppedRows {
        let (left_late, right_late) = (Some(self.left.late_rows()), Some(self.right.late_rows()));
        DroppedRows { left_late, right_late, ..DroppedRows::default() }
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.table)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }

    fn bundle_bytes(&self) -> usize {
        let Touched { groups, slots } = &self.touched;
        self.left.bytes()
            + self.right.bytes()
            + self.windows.bytes()
            + self.flush.bytes()
            + self.packed.bytes()
            + (groups.capacity() + slots.capacity() + self.numbers.capacity()) * size_of::<u32>()
    }
}
