//! Accumulators of a frame that were not pulled yet.

use arrow::array::ArrayRef;
use streamfusion_row::{Batch, RowKind};

use crate::OperatorError;
use crate::bundle::Boundary;
use crate::changelog::{BundleRows, Changes, RowRef};

/// Rows to hand on, all +I.
#[derive(Debug, Default)]
pub(super) struct Ready {
    rows: BundleRows,
    changes: Changes,
}

impl Ready {
    /// Takes the columns of `count` rows, when the last ones were pulled.
    pub(super) fn take(
        &mut self,
        columns: Vec<ArrayRef>,
        count: usize,
        boundary: &mut Boundary,
    ) -> Result<(), OperatorError> {
        self.rows.clear();
        let batch = self.rows.add(&Batch::try_new(columns, count, None)?)?;
        // numbers have 32 bits
        (0..count).for_each(|row| self.changes.push(RowKind::Insert, RowRef::new(batch, row as u32)));
        boundary.emitted(count, count);
        Ok(())
    }

    /// The next rows, or `None` at the end.
    pub(super) fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let batch = self.changes.pull(&self.rows)?;
        if batch.is_none() {
            self.rows.clear();
        }
        Ok(batch)
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.changes.bytes()
    }
}
