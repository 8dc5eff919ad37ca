//! Batches made of rows of other batches: slices, filters, and rows by index, with their row kinds.
//!
//! A slice shares its columns; everything else copies the rows that it keeps. What comes from one batch keeps that batch's
//! key group, for a group that stands for all rows stands for some of them; what comes from several has none. Columns of
//! Arrow type Null stay so.

mod permute;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, NullArray, UInt8Array, UInt32Array};
use arrow::compute::{FilterBuilder, concat, interleave, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

pub(crate) use permute::Permuter;

use crate::batch::{Batch, BatchError};

/// Rows that cannot be gathered.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// A slice or an index beyond the rows there are.
    #[error("row {row} of a batch of {rows} rows")]
    Row {
        /// The row asked for.
        row: usize,
        /// Rows there are.
        rows: usize,
    },
    /// A batch beyond those given.
    #[error("batch {batch} of {batches}")]
    Batch {
        /// The batch asked for.
        batch: usize,
        /// Batches there are.
        batches: usize,
    },
    /// Batches of different numbers of columns.
    #[error("a batch has {found} columns where {expected} were expected")]
    Columns {
        /// Columns of the first batch.
        expected: usize,
        /// Columns of another one.
        found: usize,
    },
    /// A filter of another length than the batch.
    #[error("a filter of {found} values for {expected} rows")]
    Filter {
        /// Rows of the batch.
        expected: usize,
        /// Values of the filter.
        found: usize,
    },
    /// Columns of one position differ in type, or text outgrows a column.
    #[error("cannot gather rows")]
    Arrow(#[from] ArrowError),
    /// The gathered columns make no batch.
    #[error(transparent)]
    Result(#[from] BatchError),
}

impl Batch {
    /// Rows `offset` to `offset + len` as a view of the same columns. Errors if the batch has fewer rows.
    pub fn slice(&self, offset: usize, len: usize) -> Result<Batch, GatherError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.num_rows() => {}
            end => return Err(GatherError::Row { row: end.unwrap_or(usize::MAX), rows: self.num_rows() }),
        }
        let columns = self.columns().iter().map(|c| c.slice(offset, len)).collect();
        self.same_group(columns, len, self.kinds().map(|k| k.slice(offset, len)))
    }

    /// The rows for which `mask` is true, not false and not NULL, in order. Errors if its length is not `num_rows()`.
    pub fn filter(&self, mask: &BooleanArray) -> Result<Batch, GatherError> {
        if mask.len() != self.num_rows() {
            return Err(GatherError::Filter { expected: self.num_rows(), found: mask.len() });
        }
        let builder = FilterBuilder::new(mask);
        let filter = if self.columns().len() > 1 { builder.optimize() } else { builder }.build();
        if filter.count() == self.num_rows() {
            return Ok(self.clone());
        }
        let columns = self.columns().iter().map(|c| filter.filter(c)).collect::<Result<Vec<_>, _>>()?;
        let kinds = self.kinds().map(|kinds| filter.filter(kinds)).transpose()?;
        self.same_group(columns, filter.count(), kinds.map(|k| k.as_primitive().clone()))
    }

    /// The rows of these indices, in their order; a row may come more than once. Errors for an index beyond the rows.
    pub fn take(&self, indices: &UInt32Array) -> Result<Batch, GatherError> {
        let rows = self.num_rows();
        if let Some(row) = indices.values().iter().map(|row| *row as usize).max().filter(|row| *row >= rows) {
            return Err(GatherError::Row { row, rows });
        }
        // an index is a row, even if somebody marked it as NULL
        let indices = UInt32Array::new(indices.values().clone(), None);
        self.take_unchecked(&indices)
    }

    /// [`Batch::take`] for indices without NULLs that are known to be rows.
    pub(crate) fn take_unchecked(&self, indices: &UInt32Array) -> Result<Batch, GatherError> {
        let columns = self.columns().iter().map(|c| take(c, indices, None)).collect::<Result<Vec<_>, _>>()?;
        let kinds = self.kinds().map(|kinds| take(kinds, indices, None)).transpose()?;
        self.same_group(columns, indices.len(), kinds.map(|k| k.as_primitive().clone()))
    }

    /// The rows of all batches, one batch after the other. No batches make a batch of no columns and no rows. Errors if
    /// their columns differ.
    pub fn concat(batches: &[Batch]) -> Result<Batch, GatherError> {
        match batches {
            [] => Ok(Batch::try_new(Vec::new(), 0, None)?),
            [batch] => Ok(batch.clone()),
            _ => {
                let rows = batches.iter().map(Batch::num_rows).sum();
                let columns = by_column(batches, |arrays| match arrays {
                    [array, ..] if array.data_type() == &DataType::Null => Ok(Arc::new(NullArray::new(rows))),
                    _ => concat(arrays),
                })?;
                let kinds = kind_columns(batches).map(|kinds| concat(&dyn_arrays(&kinds))).transpose()?;
                Ok(Batch::try_new(columns, rows, kinds.map(|k| k.as_primitive().clone()))?)
            }
        }
    }

    /// Rows of several batches, each index a batch and a row of it, in the order of the indices. Errors if the batches'
    /// columns differ or an index is beyond them.
    pub fn interleave(batches: &[Batch], indices: &[(usize, usize)]) -> Result<Batch, GatherError> {
        for (batch, row) in indices {
            match batches.get(*batch).map(Batch::num_rows) {
                None => return Err(GatherError::Batch { batch: *batch, batches: batches.len() }),
                Some(rows) if *row >= rows => return Err(GatherError::Row { row: *row, rows }),
                Some(_) => {}
            }
        }
        let columns = by_column(batches, |arrays| match arrays {
            [array, ..] if array.data_type() == &DataType::Null => Ok(Arc::new(NullArray::new(indices.len()))),
            _ => interleave(arrays, indices),
        })?;
        let kinds = kind_columns(batches).map(|kinds| interleave(&dyn_arrays(&kinds), indices)).transpose()?;
        Ok(Batch::try_new(columns, indices.len(), kinds.map(|k| k.as_primitive().clone()))?)
    }

    /// Bytes that the rows take, without what lies in the same buffers outside of a slice.
    pub fn bytes(&self) -> usize {
        let kinds = self.kinds().map_or(0, |kinds| kinds.len());
        kinds + self.columns().iter().map(|column| column_bytes(column)).sum::<usize>()
    }

    fn same_group(
        &self,
        columns: Vec<ArrayRef>,
        num_rows: usize,
        kinds: Option<UInt8Array>,
    ) -> Result<Batch, GatherError> {
        let batch = Batch::try_new(columns, num_rows, kinds)?;
        Ok(match self.key_group() {
            Some(group) => batch.with_key_group(group),
            None => batch,
        })
    }
}

fn column_bytes(column: &dyn Array) -> usize {
    let data = column.to_data();
    data.get_slice_memory_size().unwrap_or_else(|_| data.get_buffer_memory_size())
}

/// Joins the columns of each position.
fn by_column(
    batches: &[Batch],
    join: impl Fn(&[&dyn Array]) -> Result<ArrayRef, ArrowError>,
) -> Result<Vec<ArrayRef>, GatherError> {
    let expected = batches.first().map_or(0, |batch| batch.columns().len());
    if let Some(batch) = batches.iter().find(|batch| batch.columns().len() != expected) {
        return Err(GatherError::Columns { expected, found: batch.columns().len() });
    }
    let column = |position| batches.iter().filter_map(|b| b.columns().get(position)).map(AsRef::as_ref).collect();
    (0..expected)
        .map(|position| {
            let arrays: Vec<&dyn Array> = column(position);
            Ok(join(&arrays)?)
        })
        .collect()
}

/// The row kinds of every batch, or `None` if all rows are +I.
fn kind_columns(batches: &[Batch]) -> Option<Vec<UInt8Array>> {
    batches.iter().any(|batch| batch.kinds().is_some()).then(|| {
        let all_insert = |rows| UInt8Array::from_value(0, rows);
        batches.iter().map(|batch| batch.kinds().cloned().unwrap_or_else(|| all_insert(batch.num_rows()))).collect()
    })
}

fn dyn_arrays(arrays: &[UInt8Array]) -> Vec<&dyn Array> {
    arrays.iter().map(|array| array as &dyn Array).collect()
}

#[cfg(test)]
mod tests;
