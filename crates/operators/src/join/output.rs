//! Rows that go out, by number until they are gathered.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, NullArray, UInt8Array, UInt32Array, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use streamfusion_row::{Batch, RowKind};

use super::Input;
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError};

/// No row: its columns are NULL.
pub(super) const NO_ROW: u32 = u32::MAX;

/// What rows of the output have of the two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The columns of the left input, then those of the right one.
    Both,
    /// Those of the left input alone.
    Left,
}

/// Rows of one side: columns, and how large a row of them can be.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) columns: Vec<ArrayRef>,
    /// Bytes of text and binary values per row, where it is possible that a batch of output has too many of them.
    row_bytes: Option<Vec<usize>>,
}

impl Source {
    pub(super) fn new(columns: Vec<ArrayRef>, rows: usize) -> Self {
        let total: usize = columns.iter().map(text_bytes).sum();
        // even if every row of a batch of output were the largest one here
        let small = total.saturating_mul(2 * OUTPUT_BATCH_ROWS) <= OUTPUT_BATCH_BYTES;
        let row_bytes = (!small && total > 0).then(|| {
            let mut bytes = vec![0; rows];
            columns.iter().for_each(|column| add_text_bytes(column, &mut bytes));
            bytes
        });
        let limit = OUTPUT_BATCH_BYTES / (2 * OUTPUT_BATCH_ROWS);
        Self { columns, row_bytes: row_bytes.filter(|bytes| bytes.iter().any(|bytes| *bytes > limit)) }
    }

    fn bytes(&self, row: u32) -> usize {
        self.row_bytes.as_ref().and_then(|bytes| bytes.get(row as usize)).copied().unwrap_or_default()
    }

    /// The rows of these numbers as columns.
    fn gather(&self, numbers: &[u32], types: &[DataType]) -> Result<Vec<ArrayRef>, OperatorError> {
        let rows = numbers.len();
        let nulls = numbers.iter().filter(|number| **number == NO_ROW).count();
        if nulls == rows {
            return Ok(types.iter().map(|ty| new_null_array(ty, rows)).collect());
        }
        let length = self.columns.first().map_or(0, |column| column.len());
        if nulls == 0
            && let Some(first) = numbers.first()
            && (*first..).zip(numbers).all(|(expected, number)| expected == *number)
            && *first as usize + rows <= length
        {
            return Ok(self.columns.iter().map(|column| column.slice(*first as usize, rows)).collect());
        }
        let indices = if nulls == 0 {
            UInt32Array::from(numbers.to_vec())
        } else {
            let valid = BooleanBuffer::collect_bool(rows, |row| numbers[row] != NO_ROW);
            UInt32Array::new(numbers.to_vec().into(), Some(NullBuffer::new(valid)))
        };
        let column = |column: &ArrayRef| match column.data_type() {
            DataType::Null => Ok(Arc::new(NullArray::new(rows)) as ArrayRef),
            _ => Ok(take(column, &indices, None)?),
        };
        self.columns.iter().map(column).collect()
    }
}

/// A changelog whose rows are pairs of rows, or rows of one input beside NULLs.
#[derive(Debug, Default)]
pub(super) struct Output {
    kinds: Vec<u8>,
    /// Per row: that of the input.
    input: Vec<u32>,
    /// Per row: that of the other input.
    other: Vec<u32>,
    pulled: usize,
}

impl Output {
    #[inline]
    pub(super) fn push(&mut self, kind: RowKind, input: u32, other: u32) {
        self.push_kind(kind as u8, input, other);
    }

    #[inline]
    pub(super) fn push_kind(&mut self, kind: u8, input: u32, other: u32) {
        self.kinds.push(kind);
        self.input.push(input);
        self.other.push(other);
    }

    /// Whether there is a batch of rows.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.kinds.len() >= OUTPUT_BATCH_ROWS
    }

    /// The next rows as a batch; `None` when all were pulled. `input` is the side that came in, as `types` say.
    pub(super) fn pull(
        &mut self,
        shape: Shape,
        side: Input,
        [input, other]: [&Source; 2],
        [input_types, other_types]: [&[DataType]; 2],
    ) -> Result<Option<Batch>, OperatorError> {
        if self.pulled == self.kinds.len() {
            self.kinds.clear();
            self.input.clear();
            self.other.clear();
            self.pulled = 0;
            return Ok(None);
        }
        let rows = self.pulled..self.pulled + self.fitting(input, other);
        self.pulled = rows.end;
        let (kinds, of_input, of_other) =
            (&self.kinds[rows.clone()], &self.input[rows.clone()], &self.other[rows.clone()]);
        let columns = match (shape, side) {
            (Shape::Left, Input::Left) => input.gather(of_input, input_types)?,
            (Shape::Left, Input::Right) => other.gather(of_other, other_types)?,
            (Shape::Both, Input::Left) => {
                let mut columns = input.gather(of_input, input_types)?;
                columns.extend(other.gather(of_other, other_types)?);
                columns
            }
            (Shape::Both, Input::Right) => {
                let mut columns = other.gather(of_other, other_types)?;
                columns.extend(input.gather(of_input, input_types)?);
                columns
            }
        };
        let inserts = kinds.iter().all(|kind| *kind == RowKind::Insert as u8);
        let kinds = (!inserts).then(|| UInt8Array::from(kinds.to_vec()));
        Ok(Some(Batch::try_new(columns, rows.len(), kinds)?))
    }

    /// How many of the next rows make a batch, at least one.
    fn fitting(&self, input: &Source, other: &Source) -> usize {
        let left = (self.kinds.len() - self.pulled).min(OUTPUT_BATCH_ROWS);
        if input.row_bytes.is_none() && other.row_bytes.is_none() {
            return left;
        }
        let mut total = 0_usize;
        let rows = self.input[self.pulled..].iter().zip(&self.other[self.pulled..]).take(left);
        let fitting = rows.take_while(|(of_input, of_other)| {
            total = total.saturating_add(input.bytes(**of_input) + other.bytes(**of_other));
            total <= OUTPUT_BATCH_BYTES
        });
        fitting.count().max(1)
    }

    /// Bytes that the numbers take.
    pub(super) fn bytes(&self) -> usize {
        self.kinds.capacity() + (self.input.capacity() + self.other.capacity()) * size_of::<u32>()
    }
}

/// Offsets of the texts of a column.
fn offsets(column: &dyn Array) -> Option<&[i32]> {
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value_offsets()),
        DataType::Binary => Some(column.as_binary::<i32>().value_offsets()),
        _ => None,
    }
}

/// Bytes of the text and binary values in a column.
fn text_bytes(column: &ArrayRef) -> usize {
    if let DataType::Struct(_) = column.data_type() {
        return column.as_struct().columns().iter().map(text_bytes).sum();
    }
    match offsets(column) {
        // offsets ascend
        Some([first, .., last]) => usize::try_from(last - first).unwrap_or_default(),
        _ => 0,
    }
}

fn add_text_bytes(column: &ArrayRef, rows: &mut [usize]) {
    if let DataType::Struct(_) = column.data_type() {
        column.as_struct().columns().iter().for_each(|child| add_text_bytes(child, rows));
    }
    if let Some(offsets) = offsets(column) {
        for (bytes, ends) in rows.iter_mut().zip(offsets.windows(2)) {
            *bytes += usize::try_from(ends[1] - ends[0]).unwrap_or_default();
        }
    }
}
