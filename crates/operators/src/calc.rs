//! Projection and condition.

use std::sync::Arc;

use streamfusion_expr::host::HostFunction;
use streamfusion_plan::node;
use streamfusion_row::Batch;

use crate::{Operator, OperatorError};

/// `SELECT projection WHERE condition` over each batch.
#[derive(Debug)]
pub struct Calc {}

impl Calc {
    /// Compiles the expressions. `hosts` finds the host function of a JSON pointer inside the node, for example
    /// `/projection/2` or `/condition`.
    pub fn try_new(
        spec: &node::Calc,
        hosts: &dyn Fn(&str) -> Option<Arc<dyn HostFunction>>,
    ) -> Result<Self, OperatorError> {
        let _ = (spec, hosts);
        Err(OperatorError::Internal("Calc is not built yet".to_owned()))
    }
}

impl Operator for Calc {
    fn push(&mut self, _batch: Batch) -> Result<(), OperatorError> {
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(None)
    }
}
