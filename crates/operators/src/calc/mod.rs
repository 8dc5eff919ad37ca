//! Projection and condition over each batch.
//!
//! The condition comes first and the projection sees only the rows that pass, so that a projected division never fails
//! for a row that the condition excludes. Rows keep their order and their kinds. Without a condition, and where every row
//! passes, nothing is copied; otherwise only the columns that the projection reads are.
//!
//! REPEAT, LPAD or a long constant make much text of few rows. A batch is therefore evaluated in pieces, each when it is pulled:
//! as many rows as [`estimate`] takes to fit, usually all. Each row is evaluated once, because a JVM expression may
//! count its rows; only where there is none, a piece that did not fit after all is tried again by halves. How much a JVM
//! expression makes of a row only its results tell: such a Calc begins with few rows and doubles them while they fit.
//!
//! Follows: StreamExecCalc (CalcCodeGenerator), Flink 2.2. Flink evaluates row by row: where two rows of a batch would
//! fail in different expressions, the message may be that of the later row. Other differences: none.

mod estimate;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, NullArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::host::HostFunction;
use streamfusion_expr::{ExprError, compile, evaluate};
use streamfusion_plan::node;
use streamfusion_plan::rex::Rex;
use streamfusion_row::Batch;

use self::estimate::Estimate;
use crate::{OUTPUT_BATCH_BYTES, Operator, OperatorError};

/// `SELECT projection WHERE condition`.
#[derive(Debug)]
pub struct Calc {
    condition: Option<Arc<dyn PhysicalExpr>>,
    projection: Vec<Projected>,
    /// Columns of the input that the projection reads; `None` if they are not known.
    read: Option<BTreeSet<usize>>,
    estimate: Estimate,
    repeatable: Repeatable,
    /// What of the pushed batch is not evaluated yet.
    rest: Option<Batch>,
    /// Rows of the piece before, if it was not a whole batch; with JVM expressions the rows that are known to fit.
    piece_rows: usize,
}

/// Rows of the first piece of a Calc with JVM expressions.
const FIRST_PIECE_ROWS: usize = 64;

/// Whether rows may be evaluated a second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeatable {
    Yes,
    /// The JVM evaluates some expression.
    No,
}

#[derive(Debug)]
enum Projected {
    /// A column of the input as it is.
    Column(usize),
    Expression(Arc<dyn PhysicalExpr>),
}

impl Calc {
    /// Compiles the expressions. `hosts` finds the host function of a JSON pointer inside the node, for example
    /// `/projection/2` or `/condition`.
    ///
    /// Errors if an expression is neither native nor among `hosts`.
    pub fn try_new(
        spec: &node::Calc,
        hosts: &dyn Fn(&str) -> Option<Arc<dyn HostFunction>>,
    ) -> Result<Self, OperatorError> {
        let calls_host = Cell::new(false);
        let hosts = &|pointer: &str| {
            let host = hosts(pointer);
            calls_host.set(calls_host.get() || host.is_some());
            host
        };
        let condition = spec.condition.as_ref().map(|rex| compile(rex, "/condition", hosts)).transpose()?;
        let projection = spec
            .projection
            .iter()
            .enumerate()
            .map(|(position, rex)| match rex {
                Rex::InputRef { index, .. } => Ok(Projected::Column(*index)),
                _ => Ok(Projected::Expression(compile(rex, &format!("/projection/{position}"), hosts)?)),
            })
            .collect::<Result<Vec<_>, OperatorError>>()?;
        let mut read = BTreeSet::new();
        let known = spec.projection.iter().all(|rex| collect_inputs(rex, &mut read));
        let (repeatable, piece_rows) =
            if calls_host.get() { (Repeatable::No, FIRST_PIECE_ROWS / 2) } else { (Repeatable::Yes, usize::MAX) };
        Ok(Self {
            condition,
            projection,
            read: known.then_some(read),
            estimate: Estimate::of(spec),
            repeatable,
            rest: None,
            piece_rows,
        })
    }

    /// The rows that pass, reduced to the columns that the projection reads; `None` if there are none.
    fn filter(&self, batch: Batch, condition: &Arc<dyn PhysicalExpr>) -> Result<Option<Batch>, OperatorError> {
        let passes = evaluate(condition, &record_batch(batch.columns(), batch.num_rows())?)?;
        let passes = passes.as_boolean_opt().ok_or_else(|| {
            OperatorError::Internal(format!("a condition of type {} instead of BOOLEAN", passes.data_type()))
        })?;
        if passes.true_count() == batch.num_rows() {
            return Ok(Some(batch));
        }
        let predicate = FilterBuilder::new(passes).optimize().build();
        let rows = predicate.count();
        if rows == 0 {
            return Ok(None);
        }
        let columns = batch
            .columns()
            .iter()
            .enumerate()
            .map(|(position, column)| match &self.read {
                Some(read) if !read.contains(&position) => Ok(Arc::new(NullArray::new(rows)) as ArrayRef),
                _ => filter_column(&predicate, column, rows),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let kinds = batch.kinds().map(|kinds| predicate.filter(kinds)).transpose()?;
        let kinds = kinds.and_then(|kinds| kinds.as_primitive_opt().cloned());
        Ok(Some(like(&batch, Batch::try_new(columns, rows, kinds)?)))
    }

    fn project(&self, batch: &Batch) -> Result<Batch, OperatorError> {
        let rows = batch.num_rows();
        let input = record_batch(batch.columns(), rows)?;
        let columns = self
            .projection
            .iter()
            .map(|projected| match projected {
                Projected::Column(index) => batch.columns().get(*index).cloned().ok_or_else(|| {
                    OperatorError::Input(format!("column {index} of {} columns", batch.columns().len()))
                }),
                Projected::Expression(expression) => Ok(evaluate(expression, &input)?),
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(like(batch, Batch::try_new(columns, rows, batch.kinds().cloned())?))
    }
}

impl Calc {
    /// Evaluates the rows, all at once; `None` if none passes.
    fn apply(&self, batch: &Batch) -> Result<Option<Batch>, OperatorError> {
        let passed = match &self.condition {
            Some(condition) => self.filter(batch.clone(), condition)?,
            None => Some(batch.clone()),
        };
        passed.map(|batch| self.project(&batch)).transpose()
    }

    /// How many of the first rows are expected to fit, at least one.
    fn fitting_rows(&mut self, batch: &Batch) -> Result<usize, OperatorError> {
        let mut rows = batch.num_rows().min(self.piece_rows.saturating_mul(2));
        if self.estimate.is_nothing() {
            return Ok(rows);
        }
        while rows > 1 && self.estimate.bytes(slice(batch, 0, rows)?.columns(), rows) > OUTPUT_BATCH_BYTES {
            rows = rows.div_ceil(2);
        }
        if self.repeatable == Repeatable::Yes {
            self.piece_rows = if rows < batch.num_rows() { rows } else { usize::MAX };
        }
        Ok(rows)
    }

    /// Learns from the result of `rows` rows how many fit.
    fn observe(&mut self, rows: usize, result: Option<&Batch>) {
        let columns = result.map(Batch::columns).unwrap_or_default();
        let sizes = columns.iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or_default());
        let fitting = OUTPUT_BATCH_BYTES.saturating_mul(rows) / sizes.sum::<usize>().max(1);
        self.piece_rows = self.piece_rows.max(rows).min(fitting).max(1);
    }
}

impl Operator for Calc {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.rest = Some(batch);
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        while let Some(batch) = self.rest.take().filter(|batch| batch.num_rows() > 0) {
            let mut rows = self.fitting_rows(&batch)?;
            let result = loop {
                match self.apply(&slice(&batch, 0, rows)?) {
                    Err(OperatorError::Expr(ExprError::TooLarge)) if rows > 1 && self.repeatable == Repeatable::Yes => {
                        rows = rows.div_ceil(2);
                        self.piece_rows = rows;
                    }
                    result => break result?,
                }
            };
            if self.repeatable == Repeatable::No {
                self.observe(rows, result.as_ref());
            }
            self.rest = Some(slice(&batch, rows, batch.num_rows() - rows)?);
            if result.is_some() {
                return Ok(result);
            }
        }
        Ok(None)
    }
}

/// `rows` rows from `start`.
pub(crate) fn slice(batch: &Batch, start: usize, rows: usize) -> Result<Batch, OperatorError> {
    if rows == batch.num_rows() {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(|column| column.slice(start, rows)).collect();
    let kinds = batch.kinds().map(|kinds| kinds.slice(start, rows));
    Ok(like(batch, Batch::try_new(columns, rows, kinds)?))
}

fn filter_column(predicate: &FilterPredicate, column: &ArrayRef, rows: usize) -> Result<ArrayRef, OperatorError> {
    match column.data_type() {
        DataType::Null => Ok(Arc::new(NullArray::new(rows))),
        _ => Ok(predicate.filter(column)?),
    }
}

/// `result`, with the key group that `batch` has: a subset of its rows still belongs to the same destination.
pub(crate) fn like(batch: &Batch, result: Batch) -> Batch {
    match batch.key_group() {
        Some(key_group) => result.with_key_group(key_group),
        None => result,
    }
}

/// The columns as expressions take them.
pub(crate) fn record_batch(columns: &[ArrayRef], rows: usize) -> Result<RecordBatch, OperatorError> {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(position, column)| Field::new(format!("${position}"), column.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns.to_vec(), &options)?)
}

/// Adds the columns that `rex` reads. Returns false where that is not known.
pub(crate) fn collect_inputs(rex: &Rex, read: &mut BTreeSet<usize>) -> bool {
    match rex {
        Rex::InputRef { index, .. } => {
            read.insert(*index);
            true
        }
        Rex::Literal { .. } => true,
        Rex::Call { operands, .. } => operands.iter().all(|operand| collect_inputs(operand, read)),
        Rex::Search { operand, .. } => collect_inputs(operand, read),
        Rex::FieldAccess { expr, .. } => collect_inputs(expr, read),
        Rex::Unknown { .. } => false,
    }
}
