//! The keys of a frame of bundles: their numbers, and their columns, of which the first row of each key is kept.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::{concat, take};
use streamfusion_state::BatchKeys;

use super::numbers::Numbers;
use super::partial::Numbered;
use crate::OperatorError;
use crate::bundle::{Boundary, FlushReason, Split};

/// The keys of the open frame.
#[derive(Debug)]
pub(super) struct Frame {
    numbers: Numbers,
    /// The key columns of the first row of each key, in the order of the numbers, piece by piece.
    pieces: Vec<Vec<ArrayRef>>,
    /// Scratch: the number of each row, and the rows that came first.
    of_rows: Vec<u32>,
    first_rows: Vec<u32>,
    /// Whether the last bundle that ends in the batch has ended.
    ended: bool,
    /// How many numbers there were when each bundle ended.
    bundles: Vec<usize>,
}

impl Frame {
    pub(super) fn new() -> Self {
        Self {
            numbers: Numbers::new(),
            pieces: Vec::new(),
            of_rows: Vec::new(),
            first_rows: Vec::new(),
            ended: false,
            bundles: Vec::new(),
        }
    }

    /// Takes the rows of a batch that belong to the open frame, with their keys and key columns, or `None` if all rows were
    /// taken. Where [`Frame::has_ended`] is true then, the frame must be ended before the next call.
    pub(super) fn take<'a>(
        &'a mut self,
        split: &mut Split,
        boundary: &mut Boundary,
        keys: &BatchKeys<'_>,
        key_columns: &[ArrayRef],
    ) -> Result<Option<Numbered<'a>>, OperatorError> {
        self.of_rows.clear();
        self.first_rows.clear();
        let mut rows: Option<std::ops::Range<usize>> = None;
        while let Some(part) = split.next_part(boundary) {
            rows = Some(rows.map_or(part.rows.start, |rows| rows.start)..part.rows.end);
            self.numbers.number(keys, part.rows, &mut self.of_rows, &mut self.first_rows)?;
            if part.ends_bundle {
                boundary.end(FlushReason::Count, self.numbers.bundle_keys());
                self.numbers.end_bundle();
                self.bundles.push(self.numbers.count());
            }
            if part.ends_frame {
                self.ended = true;
                break;
            }
        }
        let Some(rows) = rows else { return Ok(None) };
        if !self.first_rows.is_empty() && !key_columns.is_empty() {
            let first_rows = UInt32Array::from(self.first_rows.clone());
            let piece = key_columns.iter().map(|column| take(column, &first_rows, None));
            self.pieces.push(piece.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Some(Numbered { rows, numbers: &self.of_rows, count: self.numbers.count() }))
    }

    /// Whether the last bundle that ends in the batch has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends the open bundle for another reason than its count, and with it the frame. Whether there was one.
    pub(super) fn flush(&mut self, boundary: &mut Boundary, reason: FlushReason) -> bool {
        if !boundary.is_open() {
            return false;
        }
        boundary.end(reason, self.numbers.bundle_keys());
        self.bundles.push(self.numbers.count());
        self.ended = true;
        true
    }

    /// Keys of the frame's bundles.
    pub(super) fn count(&self) -> usize {
        self.numbers.count()
    }

    /// Hands out how many numbers there were when each bundle ended.
    pub(super) fn take_bundles(&mut self, bundles: &mut Vec<usize>) {
        bundles.clear();
        bundles.append(&mut self.bundles);
    }

    /// Hands out the key columns, one row per number, and begins the next frame.
    pub(super) fn end(&mut self) -> Result<Vec<ArrayRef>, OperatorError> {
        self.numbers.end_frame();
        self.bundles.clear();
        self.ended = false;
        let pieces = std::mem::take(&mut self.pieces);
        if pieces.len() <= 1 {
            return Ok(pieces.into_iter().next().unwrap_or_default());
        }
        let columns = pieces.first().map_or(0, Vec::len);
        let column = |column: usize| {
            let pieces: Vec<&dyn Array> =
                pieces.iter().filter_map(|piece| piece.get(column).map(|array| array.as_ref())).collect();
            Ok(concat(&pieces)?)
        };
        (0..columns).map(column).collect()
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        let pieces: usize = self.pieces.iter().flatten().map(|array| array.get_array_memory_size()).sum();
        let scratch = (self.of_rows.capacity() + self.first_rows.capacity()) * size_of::<u32>();
        self.numbers.bytes() + pieces + scratch
    }
}
