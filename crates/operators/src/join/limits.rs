//! How much a join works on at once, and how large rows are.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;

use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS};

/// All are at least one; a single row or pair may have more bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Rows of the other input in a chunk.
    pub(crate) chunk_rows: usize,
    /// Pairs after which a chunk ends, where there is a condition, and pairs that it sees at once.
    pub(crate) pairs: usize,
    /// Rows in a batch of output.
    pub(crate) output_rows: usize,
    /// Bytes of rows in a chunk; of text and binary values in pairs that a condition sees at once, and in a batch of output.
    pub(crate) bytes: usize,
    /// Rows of a bundle that are joined at once.
    pub(crate) replayed_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            chunk_rows: OUTPUT_BATCH_ROWS,
            pairs: OUTPUT_BATCH_ROWS,
            output_rows: OUTPUT_BATCH_ROWS,
            bytes: OUTPUT_BATCH_BYTES,
            replayed_rows: OUTPUT_BATCH_ROWS,
        }
    }
}

/// Bytes of text and binary values per row, where it is possible that pairs of rows have too many of them.
#[derive(Debug, Default)]
pub(crate) struct RowBytes(Option<Vec<usize>>);

impl RowBytes {
    /// Those of the rows of these columns.
    pub(crate) fn of<'a>(
        columns: impl IntoIterator<Item = &'a ArrayRef, IntoIter: Clone>,
        rows: usize,
        limits: &Limits,
    ) -> Self {
        let columns = columns.into_iter();
        // of as many pairs as go together, each of two rows
        let limit = limits.bytes / (2 * limits.output_rows.max(limits.pairs)).max(1);
        let total: usize = columns.clone().map(text_bytes).sum();
        if total <= limit {
            return Self(None);
        }
        let mut bytes = vec![0; rows];
        columns.for_each(|column| add_text_bytes(column, &mut bytes));
        Self(Some(bytes).filter(|bytes| bytes.iter().any(|bytes| *bytes > limit)))
    }

    /// Those of one row; 0 where they do not count.
    #[inline]
    pub(crate) fn get(&self, row: u32) -> usize {
        self.0.as_ref().and_then(|bytes| bytes.get(row as usize)).copied().unwrap_or_default()
    }

    /// How many of these pairs of rows, from the first one, have at most `limit` bytes together, at least one. `of` are
    /// the bytes of the rows; a pair may lack a row.
    pub(crate) fn fitting(of: [&Self; 2], pairs: [&[u32]; 2], limit: usize) -> usize {
        let [first, second] = pairs;
        if of.iter().all(|bytes| bytes.0.is_none()) {
            return first.len();
        }
        let mut total = 0_usize;
        let fitting = first.iter().zip(second).take_while(|(first, second)| {
            total = total.saturating_add(of[0].get(**first)).saturating_add(of[1].get(**second));
            total <= limit
        });
        fitting.count().max(1)
    }

    /// Bytes taken.
    pub(crate) fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::capacity) * size_of::<usize>()
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
