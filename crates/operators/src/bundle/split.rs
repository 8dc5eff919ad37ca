//! Cuts a batch where bundles end.
//!
//! Most operators want ranges: they look up the keys of many rows at once and fold range by range. An operator that wants
//! batches gets views of the same columns.
//!
//! Bundles smaller than a batch share what they can: all bundles that end in a batch are one *frame*, for which rows are
//! kept, keys looked up and state loaded once. The rows behind the last of these ends belong to a bundle that spans
//! batches, and with it to the next frame. So a frame never grows beyond one bundle and one batch.

use std::ops::Range;

use streamfusion_row::Batch;
use streamfusion_row::gather::GatherError;

use super::Boundary;

/// A batch on its way into bundles.
#[derive(Debug)]
pub struct Split {
    batch: Batch,
    taken: usize,
}

/// Rows of a batch that belong to one bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The rows, at least one.
    pub rows: Range<usize>,
    /// Whether the bundle is full with them and must be flushed before the next part is asked for.
    pub ends_bundle: bool,
    /// Whether no bundle ends in the rows of the batch behind these: the frame ends as well.
    pub ends_frame: bool,
}

impl Split {
    /// A batch of which no bundle has seen a row.
    pub fn new(batch: Batch) -> Self {
        Self { batch, taken: 0 }
    }

    /// The whole batch.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The rows of the batch that belong to the open frame: those in front of the last end of a bundle in it, or all that
    /// are left if none ends. Counts nothing.
    pub fn frame(&self, boundary: &Boundary) -> Range<usize> {
        let left = self.batch.num_rows() - self.taken;
        match boundary.complete(left) {
            0 => self.taken..self.batch.num_rows(),
            complete => self.taken..self.taken + complete,
        }
    }

    /// The rows that belong to the open bundle, or `None` when all rows have been handed out. Counts them.
    pub fn next_part(&mut self, boundary: &mut Boundary) -> Option<Part> {
        let left = self.batch.num_rows() - self.taken;
        if left == 0 {
            return None;
        }
        let rows = self.taken..self.taken + boundary.take(left);
        self.taken = rows.end;
        let ends_bundle = boundary.is_full();
        let behind = self.batch.num_rows() - rows.end;
        if ends_bundle && behind > 0 {
            boundary.split();
        }
        let ends_frame = ends_bundle && !boundary.fills(behind);
        Some(Part { rows, ends_bundle, ends_frame })
    }

    /// The rows of a part as a view of the batch's columns.
    pub fn view(&self, part: &Part) -> Result<Batch, GatherError> {
        self.view_rows(&part.rows)
    }

    /// These rows as a view of the batch's columns.
    pub(crate) fn view_rows(&self, rows: &Range<usize>) -> Result<Batch, GatherError> {
        if *rows == (0..self.batch.num_rows()) {
            return Ok(self.batch.clone());
        }
        self.batch.slice(rows.start, rows.len())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt8Array};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::super::FlushReason;
    use super::*;
    use crate::OperatorError;

    fn batch(first: i64, rows: usize) -> Result<Batch, OperatorError> {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values((first..).take(rows)));
        let kinds = UInt8Array::from_iter_values((0..rows).map(|row| if row % 2 == 0 { 0 } else { 3 }));
        Ok(Batch::try_new(vec![values], rows, Some(kinds))?)
    }

    /// The numbers of each bundle, cut from consecutive numbers in batches of these sizes.
    fn bundles(size: u64, batches: &[usize]) -> Result<(Vec<Vec<i64>>, Boundary), OperatorError> {
        let mut boundary = Boundary::new(NonZeroU64::new(size).unwrap_or(NonZeroU64::MIN));
        let mut bundles = vec![Vec::new()];
        let mut first = 0;
        for rows in batches {
            let mut split = Split::new(batch(first, *rows)?);
            first += *rows as i64;
            while let Some(part) = split.next_part(&mut boundary) {
                let view = split.view(&part)?;
                assert_eq!(view.kinds().map(Array::len), Some(view.num_rows()));
                if let Some(bundle) = bundles.last_mut() {
                    bundle.extend(view.columns()[0].as_primitive::<Int64Type>().values());
                }
                if part.ends_bundle {
                    boundary.end(FlushReason::Count, 1);
                    bundles.push(Vec::new());
                }
            }
        }
        bundles.retain(|bundle| !bundle.is_empty());
        Ok((bundles, boundary))
    }

    #[test]
    fn batch_is_cut_exactly_at_the_count() -> Result<(), OperatorError> {
        let (found, boundary) = bundles(4, &[3, 9])?;
        assert_eq!(found, [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9, 10, 11]]);
        // after rows 3 and 7; the end of the third bundle is the end of its batch
        assert_eq!(boundary.metrics().physical_splits, 2);
        Ok(())
    }

    #[test]
    fn bundles_that_end_in_a_batch_are_one_frame() -> Result<(), OperatorError> {
        let mut boundary = Boundary::new(NonZeroU64::new(4).unwrap_or(NonZeroU64::MIN));
        let mut found = Vec::new();
        // one bundle is open behind each batch but the last
        for (first, rows) in [(0, 3), (3, 10), (13, 3)] {
            let mut split = Split::new(batch(first, rows)?);
            let mut frame = split.frame(&boundary);
            while let Some(part) = split.next_part(&mut boundary) {
                assert!(frame.contains(&part.rows.start) && part.rows.end <= frame.end);
                found.push((part.rows, part.ends_bundle, part.ends_frame));
                if part.ends_bundle {
                    boundary.end(FlushReason::Count, 1);
                }
                if part.ends_frame {
                    frame = split.frame(&boundary);
                }
            }
        }
        let expected = [
            (0..3, false, false),
            (0..1, true, false),
            (1..5, true, false),
            (5..9, true, true),
            (9..10, false, false),
            (0..3, true, true),
        ];
        assert_eq!(found, expected);
        Ok(())
    }

    #[test]
    fn view_shares_the_columns() -> Result<(), OperatorError> {
        let mut boundary = Boundary::new(NonZeroU64::MIN);
        let mut split = Split::new(batch(0, 3)?);
        split.next_part(&mut boundary);
        boundary.end(FlushReason::Count, 1);
        let part = split.next_part(&mut boundary).ok_or(OperatorError::Internal("no part".into()))?;
        let (view, whole) = (split.view(&part)?, split.batch().clone());
        let address = |batch: &Batch| batch.columns()[0].as_primitive::<Int64Type>().values().as_ptr();
        assert_eq!(address(&view), address(&whole).wrapping_add(1));
        Ok(())
    }

    proptest! {
        #[test]
        fn batch_cuts_do_not_matter(size in 1u64..12, batches in prop::collection::vec(0usize..20, 0..12)) {
            let rows = batches.iter().sum::<usize>() as i64;
            let (found, boundary) = bundles(size, &batches)?;
            let all: Vec<i64> = (0..rows).collect();
            let expected: Vec<Vec<i64>> = all.chunks(size as usize).map(<[i64]>::to_vec).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(boundary.metrics().bundles, rows as u64 / size);
            prop_assert_eq!(boundary.rows(), rows as u64 % size);
        }
    }
}
