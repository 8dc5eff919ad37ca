//! The changelog of one batch, or of one frame of bundles, whose transitions then stand for rows: which versions go out, in which order, with which kinds.
//!
//! It is gathered piece by piece as it is pulled, so that text which stays through many rows exists once until it leaves: a
//! piece has at most [`OUTPUT_BATCH_ROWS`] rows and, unless it is a single row, [`OUTPUT_BATCH_BYTES`] of text and binary values.

use arrow::array::{ArrayRef, AsArray, UInt8Array, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use streamfusion_row::{Batch, RowKind};

use super::rows::{ACCUMULATE, EMPTY, FIRST, RETRACT};
use super::versions::Versions;
pub(super) use crate::changelog::UpdateBefore;
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError};

/// Output that was not pulled yet.
#[derive(Debug)]
pub(super) struct Changelog {
    keys: Vec<ArrayRef>,
    versions: Vec<Versions>,
    /// Per output row: `2 * row` for the value before an input row, `2 * row + 1` for the one after it.
    positions: ScalarBuffer<u32>,
    /// Absent if all are +I.
    kinds: Option<ScalarBuffer<u8>>,
    /// Whether all rows together may have more text and binary values than one batch.
    large: bool,
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
        // A key goes out twice at most for each of its rows.
        let key_bytes: usize = keys.iter().filter_map(offsets).map(|offsets| 2 * value_bytes(offsets)).sum();
        let large = key_bytes + versions.iter().map(Versions::bytes).sum::<usize>() > OUTPUT_BATCH_BYTES;
        Self { keys, versions, positions: ScalarBuffer::from(positions), kinds, large, pulled: 0 }
    }

    /// How many rows go out in all.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// How many changes they are: an update is one, with or without -U.
    pub(super) fn changes(&self) -> usize {
        let before =
            |kinds: &ScalarBuffer<u8>| kinds.iter().filter(|kind| **kind == RowKind::UpdateBefore as u8).count();
        self.len() - self.kinds.as_ref().map_or(0, before)
    }

    /// The next rows, or `None` at the end.
    pub(super) fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let rows = self.next_rows();
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

    /// How many rows the next piece has.
    fn next_rows(&self) -> usize {
        let rows = (self.positions.len() - self.pulled).min(OUTPUT_BATCH_ROWS);
        if !self.large {
            return rows;
        }
        let positions = &self.positions[self.pulled..self.pulled + rows];
        let mut sums = vec![0_usize; rows];
        for offsets in self.keys.iter().filter_map(offsets) {
            for (sum, position) in sums.iter_mut().zip(positions) {
                let row = *position as usize / 2;
                *sum += value_bytes(&offsets[row..=row + 1]);
            }
        }
        for versions in &self.versions {
            versions.add_bytes(positions, &mut sums);
        }
        let mut total = 0_usize;
        let fitting = sums.iter().take_while(|bytes| {
            total = total.saturating_add(**bytes);
            total <= OUTPUT_BATCH_BYTES
        });
        fitting.count().max(1).min(rows)
    }
}

/// The offsets of a column of text or binary values.
fn offsets(column: &ArrayRef) -> Option<&[i32]> {
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value_offsets()),
        DataType::Binary => Some(column.as_binary::<i32>().value_offsets()),
        _ => None,
    }
}

/// Bytes between the first and the last offset.
fn value_bytes(offsets: &[i32]) -> usize {
    match offsets {
        // offsets ascend
        [first, .., last] => usize::try_from(last - first).unwrap_or_default(),
        _ => 0,
    }
}
