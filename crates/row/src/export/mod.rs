//! Addresses of a batch's columns, for a reader that copies them out.
//!
//! The layout is the one of the boundary document, section Exit: four values per column of the tree (validity, values,
//! data, first bit of validity), depth first, and the row kinds at the end. Slices are normalised: bit positions are below
//! 8, and the offsets of text and bytes start at 0. The children of a NULL row may hold anything; who reads looks at the
//! parent first.
//!
//! A column of Arrow type Null has one place in the tree, in which every row is NULL, with 16 readable zero bytes per row.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;

use crate::batch::Batch;

/// Addresses into columns that it keeps alive.
#[derive(Debug)]
pub struct Export {
    addresses: Vec<i64>,
    /// Shares the columns that the addresses point into.
    batch: Batch,
    /// Buffers that were rewritten.
    rewritten: Vec<Buffer>,
}

/// A column that cannot be exported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// No Flink type is held in such a column.
    #[error("columns of Arrow type {found} cannot leave a stage")]
    Type {
        /// Its type.
        found: DataType,
    },
}

impl Export {
    /// The addresses of `batch`, whose columns are shared.
    pub fn try_new(batch: &Batch) -> Result<Self, ExportError> {
        let mut export = Self { addresses: Vec::new(), batch: batch.clone(), rewritten: Vec::new() };
        for column in batch.columns() {
            export.column(column)?;
        }
        let kinds = batch.kinds().map_or(0, |kinds| address(kinds.values().inner()));
        export.addresses.push(kinds);
        Ok(export)
    }

    /// Four per column of the tree, and that of the row kinds, which is 0 if all rows are +I. They are valid as long as
    /// `self` is.
    pub fn addresses(&self) -> &[i64] {
        &self.addresses
    }

    /// The rows that are exported.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    fn column(&mut self, column: &ArrayRef) -> Result<(), ExportError> {
        let (values, data) = match column.data_type() {
            DataType::Null => {
                self.nothing(column.len());
                return Ok(());
            }
            DataType::Boolean => {
                let values = column.as_boolean().values();
                (address(values.inner()) + (values.offset() / 8) as i64, (values.offset() % 8) as i64)
            }
            DataType::Utf8 => {
                let array = column.as_string::<i32>();
                self.bytes(array.offsets().inner(), array.values())
            }
            DataType::Binary => {
                let array = column.as_binary::<i32>();
                self.bytes(array.offsets().inner(), array.values())
            }
            DataType::Struct(_) => {
                self.push(column.nulls(), 0, 0);
                for child in column.as_struct().columns() {
                    self.column(child)?;
                }
                return Ok(());
            }
            found if found.is_primitive() => match column.to_data().buffers() {
                [values] => (address(values) + (column.offset() * found.primitive_width().unwrap_or(0)) as i64, 0),
                _ => return Err(ExportError::Type { found: found.clone() }),
            },
            found => return Err(ExportError::Type { found: found.clone() }),
        };
        self.push(column.nulls(), values, data);
        Ok(())
    }

    fn push(&mut self, nulls: Option<&NullBuffer>, values: i64, data: i64) {
        let (validity, first_bit) = match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => (0, 0),
            Some(nulls) => (address(nulls.buffer()) + (nulls.offset() / 8) as i64, (nulls.offset() % 8) as i64),
        };
        self.addresses.extend([validity, values, data, first_bit]);
    }

    /// Addresses of offsets from 0 and of the bytes they mean.
    fn bytes(&mut self, offsets: &ScalarBuffer<i32>, data: &Buffer) -> (i64, i64) {
        match offsets.first() {
            None | Some(0) => (address(offsets.inner()), address(data)),
            Some(first) => {
                let rewritten: Buffer = offsets.iter().map(|offset| offset - first).collect::<Vec<_>>().into();
                let addresses = (address(&rewritten), address(data) + i64::from(*first));
                self.rewritten.push(rewritten);
                addresses
            }
        }
    }

    /// A column in which every row is NULL.
    fn nothing(&mut self, rows: usize) {
        let zeros = Buffer::from(MutableBuffer::from_len_zeroed(16 * (rows + 1)));
        let at = address(&zeros);
        self.addresses.extend([at, at, at, 0]);
        self.rewritten.push(zeros);
    }
}

/// Where a buffer starts.
fn address(buffer: &Buffer) -> i64 {
    buffer.as_ptr().expose_provenance() as i64
}

#[cfg(test)]
mod tests;
