//! From columnar values to typed arrays and back: what every kernel needs.

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::prep_null_mask_filter;
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;

use crate::error::ExprError;

/// An internal error about values that are not as the plan's types promise.
pub fn mismatch(message: impl Into<String>) -> ExprError {
    ExprError::Internal { expression: String::new(), message: message.into() }
}

/// Operand `index`.
pub fn operand(operands: &[ColumnarValue], index: usize) -> Result<&ColumnarValue, ExprError> {
    operands.get(index).ok_or_else(|| mismatch(format!("operand {index} is missing")))
}

/// The array as its concrete type.
pub fn typed<T: Array + 'static>(array: &dyn Array) -> Result<&T, ExprError> {
    array.as_any().downcast_ref::<T>().ok_or_else(|| mismatch(format!("unexpected column type {}", array.data_type())))
}

/// The value as an array of exactly `rows` values.
pub fn to_array(value: &ColumnarValue, rows: usize) -> Result<ArrayRef, ExprError> {
    Ok(value.to_array_of_size(rows)?)
}

/// Runs `function` over arrays of equal length. If every operand is a scalar it runs over one row, and the result is a scalar.
///
/// The arrays are `rows` long, or one where all operands are scalars; that length is passed on.
pub fn over_arrays<F>(operands: &[ColumnarValue], rows: usize, function: F) -> Result<ColumnarValue, ExprError>
where
    F: FnOnce(&[ArrayRef], usize) -> Result<ArrayRef, ExprError>,
{
    let constant = operands.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { rows };
    let arrays = operands.iter().map(|value| to_array(value, rows)).collect::<Result<Vec<_>, _>>()?;
    let result = function(&arrays, rows)?;
    if constant {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
    }
    Ok(ColumnarValue::Array(result))
}

/// The rows for which a condition holds: NULL is false.
pub fn holds(condition: &ArrayRef) -> Result<BooleanArray, ExprError> {
    let condition = typed::<BooleanArray>(condition)?;
    Ok(if condition.null_count() == 0 { condition.clone() } else { prep_null_mask_filter(condition) })
}
