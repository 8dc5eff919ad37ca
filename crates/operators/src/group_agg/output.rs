//! The changelog of one batch: which versions go out, in which order, with which kinds.

use arrow::array::{ArrayRef, UInt8Array, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::take;
use streamfusion_row::{Batch, RowKind};

use super::rows::{ACCUMULATE, EMPTY, FIRST, RETRACT};
use super::versions::Versions;
use crate::{OUTPUT_BATCH_ROWS, OperatorError};

/// Whether -U goes out before +U.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UpdateBefore {
    Emit,
    Omit,
}

/// Output that was not pulled yet.
#[derive(Debug)]
pub(super) struct Changelog {
    keys: Vec<ArrayRef>,
    versions: Vec<Versions>,
    /// Per output row: `2 * row` for the value before an input row, `2 * row + 1` for the one after it.
    positions: ScalarBuffer<u32>,
    /// Absent if all are +I.
    kinds: Option<ScalarBuffer<u8>>,
    pulled: usize,
}

impl Changelog {
    /// The changes that `actions` make. `changed` says for which rows the values after differ from those before. There are
    /// fewer than 2^31 rows.
    pub(super) fn new(
        keys: Vec<ArrayRef>,
        versions: Vec<Versions>,
        actions: &[u8],
        changed: &[bool],
        update_before: UpdateBefore,
    ) -> Self {
        let mut positions = Vec::with_capacity(2 * actions.len());
        let mut kinds = Vec::with_capacity(2 * actions.len());
        for ((before, action), changed) in (0_u32..).step_by(2).zip(actions).zip(changed) {
            let after = before + 1;
            if action & (FIRST | EMPTY) == 0 {
                if *changed && action & (ACCUMULATE | RETRACT) != 0 {
                    if update_before == UpdateBefore::Emit {
                        positions.extend([before, after]);
                        kinds.extend([RowKind::UpdateBefore as u8, RowKind::UpdateAfter as u8]);
                    } else {
                        positions.push(after);
                        kinds.push(RowKind::UpdateAfter as u8);
                    }
                }
            } else if action & EMPTY == 0 {
                positions.push(after);
                kinds.push(RowKind::Insert as u8);
            } else if action & FIRST == 0 {
                positions.push(before);
                kinds.push(RowKind::Delete as u8);
            }
        }
        let inserts_only = kinds.iter().all(|kind| *kind == RowKind::Insert as u8);
        let kinds = (!inserts_only).then(|| ScalarBuffer::from(kinds));
        Self { keys, versions, positions: ScalarBuffer::from(positions), kinds, pulled: 0 }
    }

    /// The next rows, or `None` at the end.
    pub(super) fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let rows = (self.positions.len() - self.pulled).min(OUTPUT_BATCH_ROWS);
        if rows == 0 {
            return Ok(None);
        }
        let positions = UInt32Array::new(self.positions.slice(self.pulled, rows), None);
        let input_rows = UInt32Array::from_iter_values(positions.values().iter().map(|position| position / 2));
        let keys = self.keys.iter().map(|key| Ok(take(key, &input_rows, None)?));
        let values = self.versions.iter().map(|versions| versions.gather(&positions));
        let columns = keys.chain(values).collect::<Result<Vec<_>, OperatorError>>()?;
        let kinds = self.kinds.as_ref().map(|kinds| UInt8Array::new(kinds.slice(self.pulled, rows), None));
        self.pulled += rows;
        Ok(Some(Batch::try_new(columns, rows, kinds)?))
    }
}
