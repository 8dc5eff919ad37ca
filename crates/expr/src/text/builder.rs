//! Builds columns of text.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray, StringBuilder};
use arrow::buffer::NullBuffer;

use crate::error::ExprError;
use crate::values::mismatch;

/// Texts of so many characters fit into a column, however many rows are padded for nothing.
pub const SHORT: u8 = u8::MAX;

/// A column of text under construction. A column holds at most 2 GiB; more is an error, not a panic.
#[derive(Debug)]
pub struct TextBuilder(StringBuilder);

impl TextBuilder {
    /// An empty column for `rows` values of `bytes` bytes in total.
    pub fn new(rows: usize, bytes: usize) -> Self {
        Self(StringBuilder::with_capacity(rows, bytes))
    }

    /// Appends a value.
    pub fn push(&mut self, text: &str) -> Result<(), ExprError> {
        self.piece(text)?;
        self.end();
        Ok(())
    }

    /// Appends to a value that [`TextBuilder::end`] completes.
    pub fn piece(&mut self, text: &str) -> Result<(), ExprError> {
        self.reserve(text.len())?;
        self.0.write_str(text).map_err(|_| mismatch("text cannot be written"))
    }

    /// Fails if a value of so many bytes does not fit.
    pub fn reserve(&self, bytes: usize) -> Result<(), ExprError> {
        let total = self.0.values_slice().len().saturating_add(bytes);
        if i32::try_from(total).is_err() {
            return Err(ExprError::TooLarge);
        }
        Ok(())
    }

    /// Completes a value.
    pub fn end(&mut self) {
        self.0.append_value("");
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.0.append_null();
    }

    /// The column.
    pub fn finish(mut self) -> ArrayRef {
        Arc::new(self.0.finish())
    }
}

/// The number of bytes in a column: where it is a slice, only its own.
pub fn text_bytes(texts: &StringArray) -> usize {
    let offsets = texts.value_offsets();
    let length = offsets.first().zip(offsets.last()).map_or(0, |(first, last)| last - first);
    usize::try_from(length).unwrap_or(0)
}

/// The rows in which every column has a value; `None` is all of them.
pub fn all_valid(arrays: &[ArrayRef]) -> Option<NullBuffer> {
    arrays.iter().fold(None, |valid, array| NullBuffer::union(valid.as_ref(), array.nulls()))
}

/// A column of text: NULL where an operand is, otherwise what `value` writes for the row.
pub fn text_rows<F>(arrays: &[ArrayRef], rows: usize, bytes: usize, mut value: F) -> Result<ArrayRef, ExprError>
where
    F: FnMut(usize, &mut TextBuilder) -> Result<(), ExprError>,
{
    let valid = all_valid(arrays);
    let mut out = TextBuilder::new(rows, bytes);
    for row in 0..rows {
        if valid.as_ref().is_some_and(|valid| valid.is_null(row)) {
            out.push_null();
        } else {
            value(row, &mut out)?;
        }
    }
    Ok(out.finish())
}
