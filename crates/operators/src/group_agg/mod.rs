//! GROUP BY without a window, one changelog row after the other as Flink emits them.

use streamfusion_plan::Reason;
use streamfusion_plan::node::GroupAggregate;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;

use crate::{Operator, OperatorError};

/// Whether [`GroupAgg`] computes this aggregate over rows of `input` exactly as Flink does.
pub fn supports(spec: &GroupAggregate, input: &LogicalType) -> Result<(), Reason> {
    let _ = (spec, input);
    Err(Reason::new("GROUP BY is not supported natively yet"))
}

/// The immediate group aggregate. Output columns: the grouping columns, then one column per aggregate call.
#[derive(Debug)]
pub struct GroupAgg {}

impl GroupAgg {
    /// An aggregate with empty state for rows of the type `input`.
    ///
    /// Errors if [`supports`] refuses the aggregate.
    pub fn try_new(spec: &GroupAggregate, input: &LogicalType) -> Result<Self, OperatorError> {
        supports(spec, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        Ok(Self {})
    }

    /// Bytes that the state of this operator takes.
    pub fn state_bytes(&self) -> usize {
        0
    }
}

impl Operator for GroupAgg {
    fn push(&mut self, _batch: Batch) -> Result<(), OperatorError> {
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(None)
    }
}
