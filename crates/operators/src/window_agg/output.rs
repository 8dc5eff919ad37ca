//! Rows of windows that fired.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, TimestampMillisecondArray};
use streamfusion_plan::node::WindowProperty;
use streamfusion_row::Batch;

use crate::window::{SliceAssigner, WindowZone};
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError};

/// Makes the columns behind the results, which are the same in all rows of a window.
#[derive(Debug)]
pub(super) struct Properties {
    pub(super) properties: Vec<WindowProperty>,
    pub(super) slices: SliceAssigner,
    pub(super) zone: WindowZone,
}

impl Properties {
    /// Appends them for so many rows of the window with this end.
    pub(super) fn append(&self, window_end: i64, rows: usize, columns: &mut Vec<ArrayRef>) {
        columns.extend(self.properties.iter().map(|property| {
            let value = match property {
                WindowProperty::Start => Some(self.slices.window_start(window_end)),
                WindowProperty::End => Some(window_end),
                WindowProperty::Rowtime => Some(self.zone.to_epoch_millis(window_end.wrapping_sub(1))),
                WindowProperty::Proctime => None,
            };
            let column = match value {
                Some(value) => TimestampMillisecondArray::from_value(value, rows),
                None => TimestampMillisecondArray::new_null(rows),
            };
            Arc::new(column) as ArrayRef
        }));
    }
}

/// Batches that wait to be pulled, none of them too large.
#[derive(Debug, Default)]
pub(super) struct Ready {
    batches: VecDeque<Batch>,
}

impl Ready {
    /// Adds rows, all of them +I.
    pub(super) fn push(&mut self, columns: Vec<ArrayRef>, rows: usize) -> Result<(), OperatorError> {
        if rows > 0 {
            self.push_parts(Batch::try_new(columns, rows, None)?)?;
        }
        Ok(())
    }

    fn push_parts(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let rows = batch.num_rows();
        if rows <= OUTPUT_BATCH_ROWS && (rows == 1 || text_bytes(&batch) <= OUTPUT_BATCH_BYTES) {
            self.batches.push_back(batch);
            return Ok(());
        }
        let first = if rows > OUTPUT_BATCH_ROWS { OUTPUT_BATCH_ROWS } else { rows / 2 };
        self.push_parts(batch.slice(0, first)?)?;
        self.push_parts(batch.slice(first, rows - first)?)
    }

    /// The next one.
    pub(super) fn pull(&mut self) -> Option<Batch> {
        self.batches.pop_front()
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.batches.iter().map(Batch::bytes).sum()
    }
}

/// Bytes of text and binary values.
fn text_bytes(batch: &Batch) -> usize {
    let texts = batch.columns().iter().filter(|column| column.data_type().primitive_width().is_none());
    texts.map(|column| column.to_data().get_slice_memory_size().unwrap_or_default()).sum()
}
