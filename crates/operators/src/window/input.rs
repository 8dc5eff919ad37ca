//! Rows that come with their window, on their way into a table of keys and windows.
//!
//! The end of the window is a column of local time; of NULL Flink reads the zero that lies in its place in a BinaryRow. Rows whose window was
//! due are dropped and counted; of the others each gets the number of its key and window.

use arrow::array::UInt32Array;
use arrow::datatypes::{DataType, TimeUnit};
use streamfusion_plan::Reason;
use streamfusion_plan::node::{Windowing, WindowingStrategy};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::types::arrow_type;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyLayout, KeyedTable, RowLayout, Touched};

use super::open::OpenWindows;
use crate::OperatorError;
use crate::definition::describe;
use crate::keys::Keys;
use crate::millis::millis_of;

/// One input of an operator over rows that come with their window.
#[derive(Debug)]
pub(crate) struct WindowInput {
    keys: Keys,
    /// The column of the end.
    end: usize,
    pub(crate) types: Vec<DataType>,
    /// What each column holds, in words.
    pub(crate) definitions: Vec<String>,
    late_rows: u64,
    /// Of the rows of the batch.
    ends: Vec<i64>,
}

impl WindowInput {
    /// Rows of the type `input`, by these key columns. A reason if they cannot be kept, or have no window.
    pub(crate) fn try_new(keys: &[usize], windowing: &Windowing, input: &LogicalType) -> Result<Self, Reason> {
        let WindowingStrategy::WindowAttached { end, .. } = windowing.strategy else {
            return Err(Reason::new("Flink runs it only over rows that come with their window"));
        };
        if !windowing.is_rowtime {
            return Err(Reason::new("Flink runs it only over windows of event time"));
        }
        let fields = input.fields();
        let types = fields.iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
        if types.get(end) != Some(&DataType::Timestamp(TimeUnit::Millisecond, None)) {
            return Err(Reason::new("the end of its window is not a timestamp in milliseconds"));
        }
        let key_types: Option<(Vec<_>, Vec<_>)> =
            keys.iter().map(|key| Some((fields.get(*key)?.ty.clone(), types.get(*key)?.clone()))).collect();
        let (logical, arrow) = key_types.ok_or_else(|| Reason::new("a key column does not exist"))?;
        let keys = Keys::try_new(keys, &logical, &arrow)?;
        RowLayout::try_new(&types).map_err(|error| Reason::new(error.to_string()))?;
        let definitions = fields.iter().map(|field| describe(&field.ty)).collect();
        Ok(Self { keys, end, types, definitions, late_rows: 0, ends: Vec::new() })
    }

    /// How keys look in the table.
    pub(crate) fn layout(&self) -> KeyLayout {
        self.keys.layout()
    }

    /// Rows dropped because their window was due.
    pub(crate) fn late_rows(&self) -> u64 {
        self.late_rows
    }

    /// The rows of a batch whose window is not due, if there are any, and their keys and windows in `touched`.
    pub(crate) fn accept(
        &mut self,
        batch: Batch,
        windows: &mut OpenWindows,
        table: &mut KeyedTable,
        touched: &mut Touched,
    ) -> Result<Option<Batch>, OperatorError> {
        if !batch.columns().iter().map(|column| column.data_type()).eq(&self.types) {
            let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
            return Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))));
        }
        if batch.kinds().is_some_and(|kinds| kinds.values().iter().any(|kind| *kind != RowKind::Insert as u8)) {
            return Err(OperatorError::UnexpectedRetraction);
        }
        self.ends.clear();
        self.ends.extend_from_slice(&millis_of(batch.columns(), self.end)?);
        let batch = self.drop_late(batch, windows)?;
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let columns = self.keys.columns(&batch)?;
        self.keys.load_in(&columns, &self.ends, table, touched)?;
        Ok(Some(batch))
    }

    /// Keeps the rows whose window is not due, and their ends.
    fn drop_late(&mut self, batch: Batch, windows: &mut OpenWindows) -> Result<Batch, OperatorError> {
        if !self.ends.iter().any(|end| windows.is_fired(*end)) {
            return Ok(batch);
        }
        let (mut kept, mut row) = (Vec::new(), 0_u32);
        self.ends.retain(|end| {
            let in_time = !windows.is_fired(*end);
            if in_time {
                kept.push(row);
            }
            row += 1;
            in_time
        });
        self.late_rows += (batch.num_rows() - kept.len()) as u64;
        Ok(batch.take(&UInt32Array::from(kept))?)
    }

    /// Bytes taken.
    pub(crate) fn bytes(&self) -> usize {
        self.ends.capacity() * size_of::<i64>()
    }
}
