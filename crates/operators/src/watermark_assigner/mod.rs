//! Makes watermarks of rows; rows pass unchanged.
//!
//! A row's watermark is an expression over it, of which the largest so far counts. It goes on behind the row with which it exceeds the
//! last one sent by more than the interval, and otherwise when the clock says so. A batch is cut there, without a copy.
//! Watermarks of the input count for nothing but the last one of all, which says that it is over.
//!
//! Follows: WatermarkAssignerOperator, Flink 2.2. Differences: the expression is evaluated for a batch at a time; where it fails for a row,
//! rows and watermarks of the batch before it have not gone.

mod emission;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use arrow::datatypes::TimestampMillisecondType;
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::host::HostFunction;
use streamfusion_expr::{ExprError, compile, evaluate};
use streamfusion_plan::node;
use streamfusion_row::Batch;

use self::emission::Emission;
use crate::calc::{record_batch, slice};
use crate::{Mark, Operator, OperatorError, WatermarkStatus};

/// `pipeline.auto-watermark-interval` unless the job says otherwise.
const DEFAULT_INTERVAL_MS: i64 = 200;

/// The JSON pointer of the expression inside the node.
pub const EXPRESSION: &str = "/watermarkExpr";

/// `WATERMARK FOR row_time AS watermark`.
#[derive(Debug)]
pub struct WatermarkAssigner {
    row_time: usize,
    watermark: Arc<dyn PhysicalExpr>,
    emission: Emission,
    rest: Option<Rest>,
    marks: VecDeque<Mark>,
}

/// What of the pushed batch has not gone yet.
#[derive(Debug)]
struct Rest {
    batch: Batch,
    /// Per row of the batch.
    watermarks: ArrayRef,
    /// The first row that is still there.
    from: usize,
    /// The first row without a row time; the number of rows if there is none.
    fails_at: usize,
}

impl WatermarkAssigner {
    /// For a node of a plan. `hosts` finds the host function of a JSON pointer inside the node. Errors if the expression is neither
    /// native nor among `hosts`.
    pub fn try_new(
        spec: &node::WatermarkAssigner,
        hosts: &dyn Fn(&str) -> Option<Arc<dyn HostFunction>>,
    ) -> Result<Self, OperatorError> {
        Ok(Self {
            row_time: spec.row_time,
            watermark: compile(&spec.watermark, EXPRESSION, hosts)?,
            emission: Emission::new(DEFAULT_INTERVAL_MS, spec.idle_timeout_ms),
            rest: None,
            marks: VecDeque::new(),
        })
    }

    /// The watermark of each row. Texts in between may be too large for all rows at once.
    fn watermarks(&self, batch: &Batch) -> Result<ArrayRef, OperatorError> {
        let rows = batch.num_rows();
        match evaluate(&self.watermark, &record_batch(batch.columns(), rows)?) {
            Err(ExprError::TooLarge) if rows > 1 => {
                let half = rows / 2;
                let first = self.watermarks(&slice(batch, 0, half)?)?;
                let second = self.watermarks(&slice(batch, half, rows - half)?)?;
                Ok(concat(&[first.as_ref(), second.as_ref()])?)
            }
            watermarks => Ok(watermarks?),
        }
    }
}

/// What Flink fails with.
pub(crate) fn null_row_time() -> OperatorError {
    OperatorError::Expr(ExprError::Java {
        class: "java.lang.RuntimeException",
        message: "RowTime field should not be null, please convert it to a non-null long value.".into(),
    })
}

/// The first row that is NULL, or the number of rows.
fn first_null(column: &ArrayRef) -> usize {
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => nulls.iter().position(|valid| !valid).unwrap_or(column.len()),
        None => column.len(),
    }
}

impl Operator for WatermarkAssigner {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.marks.extend(self.emission.rows_come(batch.num_rows()));
        let row_time = batch.columns().get(self.row_time);
        let fails_at = first_null(row_time.ok_or_else(|| OperatorError::Input("no row-time column".into()))?);
        let watermarks = self.watermarks(&batch)?;
        self.rest = Some(Rest { batch, watermarks, from: 0, fails_at });
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        if !self.marks.is_empty() {
            return Ok(None);
        }
        let Some(rest) = self.rest.take() else { return Ok(None) };
        if rest.from == rest.fails_at {
            return Err(null_row_time());
        }
        let watermarks = rest
            .watermarks
            .as_primitive_opt::<TimestampMillisecondType>()
            .ok_or_else(|| OperatorError::Internal(format!("a watermark of type {}", rest.watermarks.data_type())))?;
        let watermarks = watermarks.slice(rest.from, rest.fails_at - rest.from);
        let due = match watermarks.null_count() {
            0 => self.emission.rows_until_due(watermarks.values().iter().copied().map(Some)),
            _ => self.emission.rows_until_due(watermarks.iter()),
        };
        let rows = due.unwrap_or(watermarks.len());
        if due.is_some() {
            self.marks.extend(self.emission.advance());
        }
        let batch = slice(&rest.batch, rest.from, rows)?;
        let from = rest.from + rows;
        if from < rest.batch.num_rows() {
            self.rest = Some(Rest { from, ..rest });
        }
        Ok(Some(batch))
    }

    fn mark(&mut self) -> Option<Mark> {
        self.marks.pop_front()
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        let (status, goes_on) = self.emission.on_watermark(watermark_ms);
        self.marks.extend(status);
        Ok(goes_on.then_some(watermark_ms))
    }

    fn status(&mut self, status: WatermarkStatus) -> Result<Option<WatermarkStatus>, OperatorError> {
        self.emission.on_status(status);
        Ok(Some(status))
    }

    fn auto_watermark_interval(&mut self, interval_ms: i64) {
        self.emission.set_interval(interval_ms);
    }

    fn timer(&self) -> Option<i64> {
        self.emission.timer()
    }

    fn input_activity_time(&mut self, relative_ms: i64) {
        self.emission.set_activity_time(relative_ms);
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.marks.extend(self.emission.on_time(now_ms).into_iter().flatten());
        Ok(None)
    }

    fn finish(&mut self) -> Result<Option<i64>, OperatorError> {
        self.watermark(i64::MAX)
    }
}
