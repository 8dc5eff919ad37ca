//! Rows to emit, by reference until they are pulled.

use arrow::array::UInt8Array;
use streamfusion_row::{Batch, RowKind};

use super::rows::{BundleRows, RowRef};
use crate::OperatorError;

/// Whether -U goes out before +U.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateBefore {
    /// The input of the consumer retracts.
    Emit,
    /// The consumer needs only the latest value of a key.
    Omit,
}

/// A changelog whose rows lie in [`BundleRows`], which must not be cleared or compacted until all are pulled.
#[derive(Debug, Default)]
pub struct Changes {
    rows: Vec<RowRef>,
    kinds: Vec<u8>,
    pulled: usize,
}

impl Changes {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a row.
    #[inline]
    pub fn push(&mut self, kind: RowKind, row: RowRef) {
        self.rows.push(row);
        self.kinds.push(kind as u8);
    }

    /// The rows that were not pulled yet.
    pub fn len(&self) -> usize {
        self.rows.len() - self.pulled
    }

    /// Whether all rows were pulled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next rows as a batch of at least one row, which fits [`BundleRows::fitting`]; `None` at the end. Without row
    /// kinds if all of them are +I.
    pub fn pull(&mut self, rows: &BundleRows) -> Result<Option<Batch>, OperatorError> {
        if self.is_empty() {
            self.rows.clear();
            self.kinds.clear();
            self.pulled = 0;
            return Ok(None);
        }
        let end = self.pulled + rows.fitting(&self.rows[self.pulled..])?;
        let gathered = rows.gather(&self.rows[self.pulled..end])?;
        let kinds = &self.kinds[self.pulled..end];
        self.pulled = end;
        if kinds.iter().all(|kind| *kind == RowKind::Insert as u8) {
            return Ok(Some(gathered));
        }
        Ok(Some(gathered.with_kinds(Some(UInt8Array::from(kinds.to_vec())))?))
    }

    /// Bytes that the references take.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() * size_of::<RowRef>() + self.kinds.capacity()
    }
}
