//! COUNT.
//!
//! Follows: CountAggFunction, Count1AggFunction, Flink 2.2. Differences: none.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::DataType;
use streamfusion_state::KeyedTable;
use streamfusion_state::codec::{Codec, Required};

use super::fold::{Aggregate, Function};
use super::frontier::Frontier;
use super::native::Presence;
use super::rows::{ACCUMULATE, EMPTY, FIRST, RETRACT, Rows};
use super::versions::Versions;
use crate::OperatorError;

/// COUNT(x): the values that are not NULL. COUNT(*) with a filter: the rows that pass it.
#[derive(Debug)]
pub(super) struct Count;

impl Function for Count {
    type Input = Presence;
    type Output = i64;
    type Accumulator = i64;

    fn codec(&self, _output: &DataType) -> impl Codec<i64> {
        Required::new("count", DataType::Int64)
    }

    fn create(&self) -> i64 {
        0
    }

    #[inline]
    fn accumulate(&self, count: &mut i64, (): ()) {
        *count = count.wrapping_add(1);
    }

    #[inline]
    fn retract(&self, count: &mut i64, (): ()) {
        *count = count.wrapping_sub(1);
    }

    #[inline]
    fn value(&self, count: &i64) -> Option<i64> {
        Some(*count)
    }
}

/// COUNT(*) over all rows: the record count of the group, which is kept anyway.
#[derive(Debug, Default)]
pub(super) struct CountStar {
    counts: Vec<i64>,
}

impl Aggregate for CountStar {
    fn fold(
        &mut self,
        _table: &mut KeyedTable,
        rows: &Rows,
        _argument: Option<&ArrayRef>,
        _actions: &[u8],
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        // Record counts are known after the batch: from there back to the first row.
        self.counts.clear();
        self.counts.extend_from_slice(&rows.counts);
        let mut versions = vec![0_i64; 2 * rows.len()];
        let steps = versions.rchunks_exact_mut(2).zip(rows.touched.groups.iter().rev()).zip(rows.actions.iter().rev());
        for ((version, group), action) in steps {
            let count = &mut self.counts[*group as usize];
            version[1] = *count;
            if action & ACCUMULATE != 0 {
                *count = count.wrapping_sub(1);
            } else if action & RETRACT != 0 {
                *count = count.wrapping_add(1);
            }
            version[0] = *count;
            debug_assert!(action & FIRST == 0 || version[0] == 0);
            debug_assert!(action & EMPTY == 0 || version[1] == 0);
        }
        for (changed, action) in changed.iter_mut().zip(&rows.actions) {
            *changed |= action & (ACCUMULATE | RETRACT) != 0;
        }
        Ok(Versions::Direct(Arc::new(Int64Array::new(ScalarBuffer::from(versions), None))))
    }

    fn fold_bundles(
        &mut self,
        _table: &mut KeyedTable,
        _rows: &Rows,
        _frontier: &Frontier,
        _argument: Option<&ArrayRef>,
        _actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        Ok(()) // the frontier counts
    }

    fn end_frame(
        &mut self,
        _table: &mut KeyedTable,
        _rows: &Rows,
        frontier: &Frontier,
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        let mut versions = Vec::with_capacity(2 * changed.len());
        for ((before, after), changed) in frontier.counts().zip(changed) {
            versions.extend([before, after]);
            *changed |= before != after;
        }
        Ok(Versions::Direct(Arc::new(Int64Array::new(ScalarBuffer::from(versions), None))))
    }

    fn bundle_bytes(&self) -> usize {
        0
    }

    fn run(
        &mut self,
        _table: &mut KeyedTable,
        _rows: &Rows,
        _argument: Option<&ArrayRef>,
        _actions: Option<&[u8]>,
        _emitted: usize,
    ) -> Result<ArrayRef, OperatorError> {
        Err(OperatorError::Internal("nobody counts records".to_owned()))
    }
}
