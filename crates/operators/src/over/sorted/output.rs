//! What goes out of changes, once the values are there.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, UInt8Array, UInt32Array};
use arrow::compute::take;
use arrow::row::{RowConverter, SortField};
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::RowEntries;

use super::list::{Change, Place, What};
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError, StateBackend};

/// A row that goes out.
#[derive(Debug, Clone, Copy)]
struct Row {
    place: Place,
    /// The step that has its value.
    value: u32,
    kind: u8,
}

/// Rows that go out, and the values of all steps.
#[derive(Debug)]
pub(super) struct Resolved {
    rows: Vec<Row>,
    /// Per call.
    values: Vec<ArrayRef>,
    pulled: usize,
}

impl Resolved {
    /// `values` has a column per call, and others behind those of the first `calls` that only tell whether accumulators changed. That
    /// they stay counts on the heap alone.
    pub(super) fn new(
        changes: &[Change],
        mut values: Vec<ArrayRef>,
        calls: usize,
        backend: StateBackend,
    ) -> Result<Self, OperatorError> {
        let mut rows = Vec::with_capacity(changes.len());
        if backend == StateBackend::Hashmap && changes.iter().any(|change| change.what == What::Update) {
            let fields = values.iter().map(|column| SortField::new(column.data_type().clone())).collect();
            let converter = RowConverter::new(fields)?;
            let encoded = converter.convert_columns(&values)?;
            let same = |change: &Change| encoded.row(change.old as usize) == encoded.row(change.new as usize);
            for changes in changes.chunk_by(|a, b| a.row == b.row) {
                collect(changes, same, &mut rows);
            }
        } else {
            collect(changes, |_| false, &mut rows);
        }
        values.truncate(calls);
        Ok(Self { rows, values, pulled: 0 })
    }

    /// The next rows, if there are any.
    pub(super) fn pull(&mut self, stored: &RowEntries<()>, batch: &Batch) -> Result<Option<Batch>, OperatorError> {
        let left = self.rows.get(self.pulled..).unwrap_or_default();
        let bytes_of_row = batch.bytes() / batch.num_rows().max(1);
        let mut bytes = 0_usize;
        let fitting = left.iter().take(OUTPUT_BATCH_ROWS).take_while(|row| {
            bytes = bytes.saturating_add(match row.place {
                Place::State(position) => stored.row(position).len(),
                Place::Batch(_) => bytes_of_row,
            });
            bytes <= OUTPUT_BATCH_BYTES
        });
        let count = fitting.count().max(1).min(left.len());
        let going = left.get(..count).unwrap_or_default();
        if going.is_empty() {
            return Ok(None);
        }
        let places: Vec<Place> = going.iter().map(|row| row.place).collect();
        let mut columns = rows_at(stored, batch, &places, &all(batch))?;
        let steps = UInt32Array::from_iter_values(going.iter().map(|row| row.value));
        for values in &self.values {
            columns.push(take(values, &steps, None)?);
        }
        let kinds = UInt8Array::from_iter_values(going.iter().map(|row| row.kind));
        let inserts = kinds.values().iter().all(|kind| *kind == RowKind::Insert as u8);
        self.pulled += count;
        Ok(Some(Batch::try_new(columns, count, (!inserts).then_some(kinds))?))
    }

    pub(super) fn bytes(&self) -> usize {
        let values: usize = self.values.iter().map(|values| values.get_array_memory_size()).sum();
        values + self.rows.capacity() * size_of::<Row>()
    }
}

/// The rows that go out because of one row, up to where values stay.
fn collect(changes: &[Change], same: impl Fn(&Change) -> bool, rows: &mut Vec<Row>) {
    for change in changes {
        let Change { place, old, new, .. } = *change;
        match change.what {
            What::Insert(kind) => rows.push(Row { place, value: new, kind }),
            What::Delete => rows.push(Row { place, value: old, kind: RowKind::Delete as u8 }),
            What::Update if same(change) => {
                if !change.beside {
                    return;
                }
            }
            What::Update => {
                rows.push(Row { place, value: old, kind: RowKind::UpdateBefore as u8 });
                rows.push(Row { place, value: new, kind: RowKind::UpdateAfter as u8 });
            }
        }
    }
}

fn all(batch: &Batch) -> Vec<usize> {
    Range { start: 0, end: batch.columns().len() }.collect()
}

/// Some columns, by number, of the rows at these places.
pub(super) fn rows_at(
    stored: &RowEntries<()>,
    batch: &Batch,
    places: &[Place],
    columns: &[usize],
) -> Result<Vec<ArrayRef>, OperatorError> {
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let column = |column: &usize| batch.columns().get(*column).cloned();
    let of_batch = columns.iter().map(column).collect::<Option<Vec<_>>>();
    let of_batch = of_batch.ok_or_else(|| OperatorError::Internal("a column does not exist".to_owned()))?;
    let of_batch = Batch::try_new(of_batch, batch.num_rows(), None)?;
    // a row that follows itself is gathered once
    let mut positions: Vec<u32> = Vec::new();
    let mut indices = Vec::with_capacity(places.len());
    for place in places {
        indices.push(match place {
            Place::Batch(row) => (0, *row as usize),
            Place::State(position) => {
                if positions.last() != Some(position) {
                    positions.push(*position);
                }
                (1, positions.len() - 1)
            }
        });
    }
    let of_state = Batch::try_new(stored.gather_columns(&positions, columns)?, positions.len(), None)?;
    Ok(Batch::interleave(&[of_batch, of_state], &indices)?.columns().to_vec())
}
