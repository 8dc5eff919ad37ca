//! Projection and condition over each batch.
//!
//! The condition comes first and the projection sees only the rows that pass, so that a projected division never fails
//! for a row that the condition excludes. Rows keep their order and their kinds. Without a condition, and where every row
//! passes, nothing is copied; otherwise only the columns that the projection reads are.
//!
//! Follows: StreamExecCalc (CalcCodeGenerator), Flink 2.2. Flink evaluates row by row: where two rows of a batch would
//! fail in different expressions, the message may be that of the later row. Other differences: none.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, NullArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, FilterPredicate};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::host::HostFunction;
use streamfusion_expr::{compile, evaluate};
use streamfusion_plan::node;
use streamfusion_plan::rex::Rex;
use streamfusion_row::Batch;

use crate::{Operator, OperatorError};

/// `SELECT projection WHERE condition`.
#[derive(Debug)]
pub struct Calc {
    condition: Option<Arc<dyn PhysicalExpr>>,
    projection: Vec<Projected>,
    /// Columns of the input that the projection reads; `None` if they are not known.
    read: Option<BTreeSet<usize>>,
    pending: Option<Batch>,
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
        Ok(Self { condition, projection, read: known.then_some(read), pending: None })
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

impl Operator for Calc {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let passed = match &self.condition {
            Some(condition) if batch.num_rows() > 0 => self.filter(batch, condition)?,
            _ => Some(batch).filter(|batch| batch.num_rows() > 0),
        };
        self.pending = passed.map(|batch| self.project(&batch)).transpose()?;
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(self.pending.take())
    }
}

fn filter_column(predicate: &FilterPredicate, column: &ArrayRef, rows: usize) -> Result<ArrayRef, OperatorError> {
    match column.data_type() {
        DataType::Null => Ok(Arc::new(NullArray::new(rows))),
        _ => Ok(predicate.filter(column)?),
    }
}

/// `result`, with the key group that `batch` has: a subset of its rows still belongs to the same destination.
fn like(batch: &Batch, result: Batch) -> Batch {
    match batch.key_group() {
        Some(key_group) => result.with_key_group(key_group),
        None => result,
    }
}

fn record_batch(columns: &[ArrayRef], rows: usize) -> Result<RecordBatch, OperatorError> {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(position, column)| Field::new(format!("${position}"), column.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns.to_vec(), &options)?)
}

/// Adds the columns that `rex` reads. Returns false where that is not known.
fn collect_inputs(rex: &Rex, read: &mut BTreeSet<usize>) -> bool {
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

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, Int64Array, UInt8Array};
    use arrow::datatypes::Int64Type;
    use streamfusion_plan::types::{LogicalType, TypeKind};

    use super::*;

    fn column(index: usize, kind: TypeKind) -> Rex {
        Rex::InputRef { index, ty: LogicalType { kind, nullable: true } }
    }

    fn calc(condition: Option<Rex>) -> Result<Calc, OperatorError> {
        let spec = node::Calc { projection: vec![column(1, TypeKind::BigInt)], condition };
        Calc::try_new(&spec, &|_| None)
    }

    fn batch() -> Result<Batch, OperatorError> {
        let passes: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]));
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let unread: ArrayRef = Arc::new(NullArray::new(4));
        Ok(Batch::try_new(vec![passes, ids, unread], 4, Some(UInt8Array::from(vec![0, 0, 3, 3])))?)
    }

    #[test]
    fn rows_and_kinds_are_filtered_alike_and_null_does_not_pass() -> Result<(), OperatorError> {
        let mut calc = calc(Some(column(0, TypeKind::Boolean)))?;
        calc.push(batch()?)?;
        let out = calc.pull()?.ok_or(OperatorError::Internal("no output".into()))?;
        assert_eq!(out.columns()[0].as_primitive::<Int64Type>().values(), &[1, 4]);
        assert_eq!(out.kinds().map(|kinds| kinds.values().to_vec()), Some(vec![0, 3]));
        assert!(calc.pull()?.is_none());
        Ok(())
    }

    #[test]
    fn column_without_condition_is_not_copied() -> Result<(), OperatorError> {
        let mut calc = calc(None)?;
        let batch = batch()?;
        calc.push(batch.clone())?;
        let out = calc.pull()?.ok_or(OperatorError::Internal("no output".into()))?;
        assert!(Arc::ptr_eq(&out.columns()[0], &batch.columns()[1]));
        Ok(())
    }

    #[test]
    fn no_row_passes_no_batch_leaves() -> Result<(), OperatorError> {
        let mut calc = calc(Some(column(0, TypeKind::Boolean)))?;
        let none: ArrayRef = Arc::new(BooleanArray::from(vec![false]));
        calc.push(Batch::try_new(vec![none, Arc::new(Int64Array::from(vec![1]))], 1, None)?)?;
        assert!(calc.pull()?.is_none());
        Ok(())
    }
}
