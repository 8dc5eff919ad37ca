//! The physical expressions behind calls: a kernel over its operands, a field of a row, a host call.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StructArray, new_empty_array};
use arrow::compute::nullif;
use arrow::datatypes::{DataType, Schema};
use datafusion_common::{DataFusionError, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use crate::error::ExprError;
use crate::host::HostFunction;
use crate::registry::Kernel;
use crate::values::{mismatch, typed};

type DfResult<T> = Result<T, DataFusionError>;

/// A kernel applied to operands.
#[derive(Debug, Clone)]
pub(crate) struct ScalarCall {
    name: Arc<str>,
    kernel: Kernel,
    operands: Vec<Arc<dyn PhysicalExpr>>,
    output: DataType,
}

impl ScalarCall {
    pub(crate) fn new(name: &str, kernel: Kernel, operands: Vec<Arc<dyn PhysicalExpr>>, output: DataType) -> Self {
        Self { name: name.into(), kernel, operands, output }
    }
}

impl PartialEq for ScalarCall {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.kernel.run, &other.kernel.run) && self.operands == other.operands
    }
}

impl Eq for ScalarCall {}

impl Hash for ScalarCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.operands.hash(state);
    }
}

impl fmt::Display for ScalarCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, &self.name, &self.operands)
    }
}

/// `NAME(a, b)`.
pub(crate) fn write_call(f: &mut fmt::Formatter<'_>, name: &str, operands: &[Arc<dyn PhysicalExpr>]) -> fmt::Result {
    write!(f, "{name}(")?;
    for (i, operand) in operands.iter().enumerate() {
        let separator = if i == 0 { "" } else { ", " };
        write!(f, "{separator}{operand}")?;
    }
    f.write_str(")")
}

impl PhysicalExpr for ScalarCall {
    fn data_type(&self, _input_schema: &Schema) -> DfResult<DataType> {
        Ok(self.output.clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> DfResult<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        // Constants have a value even where there is no row; they must not fail there.
        if batch.num_rows() == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.output)));
        }
        let values = self.operands.iter().map(|operand| operand.evaluate(batch)).collect::<DfResult<Vec<_>>>()?;
        let value = (self.kernel.run)(&values, batch.num_rows()).map_err(|error| named(error, self))?;
        if value.data_type() != self.output {
            let error = mismatch(format!("the result is {} instead of {}", value.data_type(), self.output));
            return Err(named(error, self).into());
        }
        Ok(value)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.operands.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { operands: children, ..self.as_ref().clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Names the expression in an internal error that does not yet name one.
fn named(error: ExprError, expression: &impl fmt::Display) -> ExprError {
    match error {
        ExprError::Internal { expression: name, message } if name.is_empty() => {
            ExprError::Internal { expression: expression.to_string(), message }
        }
        other => other,
    }
}

/// A field of a ROW: NULL where the row is.
#[derive(Debug, Clone)]
pub(crate) struct FieldOfRow {
    row: Arc<dyn PhysicalExpr>,
    index: usize,
    output: DataType,
}

impl FieldOfRow {
    pub(crate) fn new(row: Arc<dyn PhysicalExpr>, index: usize, output: DataType) -> Self {
        Self { row, index, output }
    }
}

// Derived, it would move the child out of its `Arc`.
impl PartialEq for FieldOfRow {
    fn eq(&self, other: &Self) -> bool {
        self.row.eq(&other.row) && self.index == other.index && self.output == other.output
    }
}

impl Eq for FieldOfRow {}

impl Hash for FieldOfRow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.row.hash(state);
        self.index.hash(state);
    }
}

impl fmt::Display for FieldOfRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.row, self.index)
    }
}

impl PhysicalExpr for FieldOfRow {
    fn data_type(&self, _input_schema: &Schema) -> DfResult<DataType> {
        Ok(self.output.clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> DfResult<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        let field = match self.row.evaluate(batch)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(field_of(&array, self.index)?),
            ColumnarValue::Scalar(row) => {
                let field = field_of(&row.to_array_of_size(1)?, self.index)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&field, 0)?)
            }
        };
        Ok(field)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.row]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        let row = children.pop().ok_or_else(|| mismatch("a field access has one child"))?;
        Ok(Arc::new(Self { row, index: self.index, output: self.output.clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A column that nobody reads has no values, and so have its fields.
fn field_of(rows: &ArrayRef, index: usize) -> Result<ArrayRef, ExprError> {
    if *rows.data_type() == DataType::Null {
        return Ok(Arc::clone(rows));
    }
    let rows = typed::<StructArray>(rows)?;
    let field = rows.columns().get(index).ok_or_else(|| mismatch(format!("the row has no field {index}")))?;
    match rows.nulls() {
        None => Ok(Arc::clone(field)),
        // Changes the mask alone: the values are neither copied nor checked again.
        Some(nulls) => Ok(nullif(field, &BooleanArray::new(!nulls.inner(), None))?),
    }
}

/// A sub-expression that the JVM evaluates.
#[derive(Debug, Clone)]
pub(crate) struct HostExpr {
    pointer: Arc<str>,
    function: Arc<dyn HostFunction>,
    output: DataType,
}

impl HostExpr {
    pub(crate) fn new(pointer: &str, function: Arc<dyn HostFunction>, output: DataType) -> Self {
        Self { pointer: pointer.into(), function, output }
    }

    /// See [`HostFunction::changes_ascii_case_plainly`].
    pub(crate) fn changes_ascii_case_plainly(&self) -> bool {
        self.function.changes_ascii_case_plainly()
    }
}

impl PartialEq for HostExpr {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.function, &other.function)
    }
}

impl Eq for HostExpr {}

impl Hash for HostExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pointer.hash(state);
    }
}

impl fmt::Display for HostExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JVM({})", self.pointer)
    }
}

impl PhysicalExpr for HostExpr {
    fn data_type(&self, _input_schema: &Schema) -> DfResult<DataType> {
        Ok(self.output.clone())
    }

    fn nullable(&self, _input_schema: &Schema) -> DfResult<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        if batch.num_rows() == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.output)));
        }
        let result = self.function.call(batch)?;
        if result.len() != batch.num_rows() || *result.data_type() != self.output {
            let message = format!(
                "the JVM returned {} values of {} instead of {} of {}",
                result.len(),
                result.data_type(),
                batch.num_rows(),
                self.output
            );
            return Err(ExprError::Internal { expression: self.to_string(), message }.into());
        }
        Ok(ColumnarValue::Array(result))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn PhysicalExpr>>) -> DfResult<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
