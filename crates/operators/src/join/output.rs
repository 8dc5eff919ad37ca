//! Rows that go out, by number until they are gathered.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray, UInt8Array, UInt32Array, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use streamfusion_row::{Batch, RowKind};

use super::Input;
use super::limits::{Limits, RowBytes};
use crate::OperatorError;

/// No row: its columns are NULL.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// What rows of the output have of the two inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The columns of the left input, then those of the right one.
    Both,
    /// Those of the left input alone.
    Left,
}

/// Rows of one side: columns, and how large a row of them can be.
#[derive(Debug, Default)]
pub(crate) struct Source {
    columns: Vec<ArrayRef>,
    row_bytes: RowBytes,
}

impl Source {
    pub(crate) fn new(columns: Vec<ArrayRef>, rows: usize, limits: &Limits) -> Self {
        let row_bytes = RowBytes::of(&columns, rows, limits);
        Self { columns, row_bytes }
    }

    /// Its columns.
    pub(crate) fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// Bytes taken, without those of the columns.
    pub(crate) fn bytes(&self) -> usize {
        self.row_bytes.memory()
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
pub(crate) struct Output {
    kinds: Vec<u8>,
    /// Per row: that of the input.
    input: Vec<u32>,
    /// Per row: that of the other input.
    other: Vec<u32>,
    pulled: usize,
    limits: Limits,
}

impl Output {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    #[inline]
    pub(crate) fn push(&mut self, kind: RowKind, input: u32, other: u32) {
        self.push_kind(kind as u8, input, other);
    }

    #[inline]
    pub(crate) fn push_kind(&mut self, kind: u8, input: u32, other: u32) {
        self.kinds.push(kind);
        self.input.push(input);
        self.other.push(other);
    }

    /// Adds pairs of rows, all +I. Both sides have as many.
    #[inline]
    pub(crate) fn insert_pairs(
        &mut self,
        input: impl ExactSizeIterator<Item = u32>,
        other: impl ExactSizeIterator<Item = u32>,
    ) {
        self.kinds.resize(self.kinds.len() + input.len(), RowKind::Insert as u8);
        self.input.extend(input);
        self.other.extend(other);
    }

    /// How many more rows make a batch.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.limits.output_rows.saturating_sub(self.kinds.len())
    }

    /// Whether there is a batch of rows.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.kinds.len() >= self.limits.output_rows
    }

    /// The next rows as a batch; `None` when all were pulled. `input` is the side that came in, as `types` say.
    pub(crate) fn pull(
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
        let end = self.kinds.len().min(self.pulled + self.limits.output_rows);
        let rows = self.pulled..end;
        let pairs = [&self.input[rows.clone()], &self.other[rows]];
        RowBytes::fitting([&input.row_bytes, &other.row_bytes], pairs, self.limits.bytes)
    }

    /// Bytes that the numbers take.
    pub(crate) fn bytes(&self) -> usize {
        self.kinds.capacity() + (self.input.capacity() + self.other.capacity()) * size_of::<u32>()
    }
}
