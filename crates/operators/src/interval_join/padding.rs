//! An interval that is empty: nothing matches, so that outer rows go out at once and others never.
//!
//! Follows: StreamExecIntervalJoin.createNegativeWindowSizeJoin, Flink 2.2. Differences: none.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, JoinType};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::types::arrow_type;

use crate::{Operator, OperatorError};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Padding {
    left: Vec<DataType>,
    right: Vec<DataType>,
    pads_left: bool,
    pads_right: bool,
    next: Option<Batch>,
}

fn types(row: &LogicalType) -> Result<Vec<DataType>, Reason> {
    row.fields().iter().map(|field| arrow_type(&field.ty)).collect()
}

/// Whether rows of these types can be handed on.
pub(super) fn supports(spec: &node::IntervalJoin, left: &LogicalType, right: &LogicalType) -> Result<(), Reason> {
    if matches!(spec.join.join_type, JoinType::Semi | JoinType::Anti) {
        return Err(Reason::new("Flink has no interval join of type SEMI or ANTI"));
    }
    types(left).and(types(right)).map(drop)
}

impl Padding {
    pub(super) fn try_new(join_type: JoinType, left: &LogicalType, right: &LogicalType) -> Result<Self, OperatorError> {
        let types = |row| types(row).map_err(|reason| OperatorError::Internal(reason.to_string()));
        Ok(Self {
            left: types(left)?,
            right: types(right)?,
            pads_left: matches!(join_type, JoinType::Left | JoinType::Full),
            pads_right: matches!(join_type, JoinType::Right | JoinType::Full),
            next: None,
        })
    }
}

fn nulls(types: &[DataType], rows: usize) -> impl Iterator<Item = ArrayRef> {
    types.iter().map(move |ty| new_null_array(ty, rows))
}

impl Operator for Padding {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let rows = batch.num_rows();
        if self.pads_left && rows > 0 {
            let columns = batch.columns().iter().cloned().chain(nulls(&self.right, rows)).collect();
            self.next = Some(Batch::try_new(columns, rows, None)?);
        }
        Ok(())
    }

    fn push_second(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let rows = batch.num_rows();
        if self.pads_right && rows > 0 {
            let columns = nulls(&self.left, rows).chain(batch.columns().iter().cloned()).collect();
            self.next = Some(Batch::try_new(columns, rows, None)?);
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(self.next.take())
    }
}
