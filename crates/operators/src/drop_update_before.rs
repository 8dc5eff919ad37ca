//! Drops -U rows, for consumers that need only the latest value of a key.
//!
//! Follows: StreamExecDropUpdateBefore (DropUpdateBeforeFunction), Flink 2.2. Differences: none.

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use streamfusion_row::{Batch, RowKind};

use crate::{Operator, OperatorError};

/// Passes every row but -U, kinds and order unchanged. A batch without -U passes as it is.
#[derive(Debug, Default)]
pub struct DropUpdateBefore {
    pending: Option<Batch>,
}

impl DropUpdateBefore {
    /// An operator without state.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Operator for DropUpdateBefore {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let update_before = RowKind::UpdateBefore as u8;
        self.pending = match batch.kinds() {
            Some(kinds) if kinds.values().contains(&update_before) => {
                let values = kinds.values();
                let keep = BooleanBuffer::collect_bool(values.len(), |row| values[row] != update_before);
                Some(batch.filter(&BooleanArray::new(keep, None))?)
            }
            _ => Some(batch),
        }
        .filter(|batch| batch.num_rows() > 0);
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(self.pending.take())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, UInt8Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn ids(batch: &Batch) -> Vec<i64> {
        batch.columns()[0].as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn update_before_is_dropped_and_other_kinds_pass() -> Result<(), OperatorError> {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let batch = Batch::try_new(vec![column], 4, Some(UInt8Array::from(vec![0, 1, 2, 3])))?;
        let mut operator = DropUpdateBefore::new();
        operator.push(batch)?;
        let out = operator.pull()?.ok_or(OperatorError::Internal("no output".into()))?;
        assert_eq!(ids(&out), [1, 3, 4]);
        assert_eq!(out.kinds().map(|kinds| kinds.values().to_vec()), Some(vec![0, 2, 3]));
        assert!(operator.pull()?.is_none());
        Ok(())
    }

    #[test]
    fn batch_of_update_before_alone_yields_nothing() -> Result<(), OperatorError> {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let mut operator = DropUpdateBefore::new();
        operator.push(Batch::try_new(vec![column], 1, Some(UInt8Array::from(vec![1])))?)?;
        assert!(operator.pull()?.is_none());
        Ok(())
    }
}
