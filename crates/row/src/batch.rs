//! A batch: rows as Arrow columns, with their row kinds.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt8Array};

use crate::fragment::Fragment;
use crate::hash::KeyGroup;

/// Kind of a change, in Flink's numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RowKind {
    /// +I
    Insert = 0,
    /// -U
    UpdateBefore = 1,
    /// +U
    UpdateAfter = 2,
    /// -D
    Delete = 3,
}

impl RowKind {
    /// From Flink's byte; `None` for a byte above 3.
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Insert),
            1 => Some(Self::UpdateBefore),
            2 => Some(Self::UpdateAfter),
            3 => Some(Self::Delete),
            _ => None,
        }
    }

    /// +I or +U.
    pub fn is_accumulate(self) -> bool {
        matches!(self, Self::Insert | Self::UpdateAfter)
    }
}

/// Rows of one type as columns. Cloning shares the columns.
#[derive(Debug, Clone)]
pub struct Batch {
    columns: Arc<[ArrayRef]>,
    num_rows: usize,
    kinds: Option<UInt8Array>,
    key_group: Option<u16>,
    fragment: Option<Fragment>,
}

/// A batch whose parts disagree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// A column (or the row kinds) has another length than the batch.
    #[error("column {column} has {found} rows, the batch has {expected}")]
    Length {
        /// Position of the column; `usize::MAX` for the row kinds.
        column: usize,
        /// Its rows.
        found: usize,
        /// The batch's rows.
        expected: usize,
    },
    /// A row kind byte above 3, or NULL.
    #[error("row {row} has no valid row kind")]
    Kind {
        /// The row.
        row: usize,
    },
}

impl Batch {
    /// A batch of `num_rows` rows; every column must have that length. `kinds` absent means all +I.
    ///
    /// Errors if a length differs or a kind byte is not one of 0 to 3.
    pub fn try_new(columns: Vec<ArrayRef>, num_rows: usize, kinds: Option<UInt8Array>) -> Result<Self, BatchError> {
        for (column, array) in columns.iter().enumerate() {
            if array.len() != num_rows {
                return Err(BatchError::Length { column, found: array.len(), expected: num_rows });
            }
        }
        check_kinds(kinds.as_ref(), num_rows)?;
        Ok(Self { columns: columns.into(), num_rows, kinds, key_group: None, fragment: None })
    }

    /// The columns.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// The number of rows.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Row kind bytes, `num_rows()` of them without NULLs, or `None` if every row is +I.
    pub fn kinds(&self) -> Option<&UInt8Array> {
        self.kinds.as_ref()
    }

    /// The same rows with other row kinds, `num_rows()` of them; absent means all +I. What an exchange noted about the batch
    /// is not kept. Errors as [`Batch::try_new`] does.
    pub fn with_kinds(self, kinds: Option<UInt8Array>) -> Result<Self, BatchError> {
        check_kinds(kinds.as_ref(), self.num_rows)?;
        Ok(Self { columns: self.columns, num_rows: self.num_rows, kinds, key_group: None, fragment: None })
    }

    /// The same rows, marked with a key group that stands for all of them (see the keyed exchange).
    pub fn with_key_group(mut self, key_group: u16) -> Self {
        self.key_group = Some(key_group);
        self
    }

    /// The representative key group, where a keyed exchange made this batch.
    pub fn key_group(&self) -> Option<u16> {
        self.key_group
    }

    /// The same rows as the fragment of their key group.
    pub fn with_fragment(mut self, group: KeyGroup, fragment: Fragment) -> Self {
        self.key_group = Some(group.0);
        self.fragment = Some(fragment);
        self
    }

    /// Which part of which batch this is, where it is a fragment on its way to the next stage.
    pub fn fragment(&self) -> Option<&Fragment> {
        self.fragment.as_ref()
    }

    /// The rows alone, without where they come from and go to.
    pub fn into_rows(mut self) -> Self {
        self.key_group = None;
        self.fragment = None;
        self
    }
}

fn check_kinds(kinds: Option<&UInt8Array>, num_rows: usize) -> Result<(), BatchError> {
    let Some(kinds) = kinds.map(UInt8Array::values) else { return Ok(()) };
    if kinds.len() != num_rows {
        return Err(BatchError::Length { column: usize::MAX, found: kinds.len(), expected: num_rows });
    }
    match kinds.iter().position(|kind| *kind > 3) {
        Some(row) => Err(BatchError::Kind { row }),
        None => Ok(()),
    }
}
