//! From columnar values to typed arrays and back: what every kernel needs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, BooleanBufferBuilder, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{binary, prep_null_mask_filter};
use arrow::datatypes::DataType;
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

/// Applies an infallible function to every pair of values; NULL where either is NULL. `output` is the Arrow type of the result,
/// whose values are `O`'s (a DECIMAL has its precision and scale there).
pub fn map_pairs<L, R, O, F>(
    operands: &[ColumnarValue],
    rows: usize,
    output: &DataType,
    function: F,
) -> Result<ColumnarValue, ExprError>
where
    L: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
    F: Fn(L::Native, R::Native) -> O::Native,
{
    let (left, right) = (operand(operands, 0)?, operand(operands, 1)?);
    let result: PrimitiveArray<O> = match (left, right) {
        (ColumnarValue::Array(left), ColumnarValue::Array(right)) => {
            binary(typed::<PrimitiveArray<L>>(left)?, typed::<PrimitiveArray<R>>(right)?, function)?
        }
        (ColumnarValue::Array(left), ColumnarValue::Scalar(_)) => match constant::<R>(right)? {
            None => return null_of(output),
            Some(right) => typed::<PrimitiveArray<L>>(left)?.unary(|left| function(left, right)),
        },
        (ColumnarValue::Scalar(_), ColumnarValue::Array(right)) => match constant::<L>(left)? {
            None => return null_of(output),
            Some(left) => typed::<PrimitiveArray<R>>(right)?.unary(|right| function(left, right)),
        },
        (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => {
            return over_arrays(operands, rows, |arrays, _| {
                let [left, right] = arrays else { return Err(mismatch("two operands are expected")) };
                let result: PrimitiveArray<O> =
                    binary(typed::<PrimitiveArray<L>>(left)?, typed::<PrimitiveArray<R>>(right)?, function)?;
                Ok(Arc::new(result.with_data_type(output.clone())))
            });
        }
    };
    Ok(ColumnarValue::Array(Arc::new(result.with_data_type(output.clone()))))
}

/// Applies a function to every pair of values of which neither is NULL; its result may be NULL or fail.
pub fn try_map_pairs<L, R, O, F>(
    operands: &[ColumnarValue],
    rows: usize,
    output: &DataType,
    function: F,
) -> Result<ColumnarValue, ExprError>
where
    L: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
    F: Fn(L::Native, R::Native) -> Result<Option<O::Native>, ExprError>,
{
    let (left, right) = (operand(operands, 0)?, operand(operands, 1)?);
    match (left, right) {
        (ColumnarValue::Array(left), ColumnarValue::Scalar(_)) => match constant::<R>(right)? {
            None => null_of(output),
            Some(right) => Ok(ColumnarValue::Array(try_map::<L, O, _>(left, output, |left| function(left, right))?)),
        },
        (ColumnarValue::Scalar(_), ColumnarValue::Array(right)) => match constant::<L>(left)? {
            None => null_of(output),
            Some(left) => Ok(ColumnarValue::Array(try_map::<R, O, _>(right, output, |right| function(left, right))?)),
        },
        _ => over_arrays(operands, rows, |arrays, rows| {
            let [left, right] = arrays else { return Err(mismatch("two operands are expected")) };
            let (left, right) = (typed::<PrimitiveArray<L>>(left)?, typed::<PrimitiveArray<R>>(right)?);
            let nulls = NullBuffer::union(left.nulls(), right.nulls());
            let pairs = left.values().iter().zip(right.values().iter());
            let results = Results::<O>::collect(rows, nulls, pairs, |(left, right)| function(*left, *right))?;
            Ok(Arc::new(results.with_data_type(output.clone())))
        }),
    }
}

/// Applies a function to every value that is not NULL; its result may be NULL or fail.
pub fn try_map<T, O, F>(values: &ArrayRef, output: &DataType, function: F) -> Result<ArrayRef, ExprError>
where
    T: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
    F: Fn(T::Native) -> Result<Option<O::Native>, ExprError>,
{
    let values = typed::<PrimitiveArray<T>>(values)?;
    let results =
        Results::<O>::collect(values.len(), values.nulls().cloned(), values.values().iter(), |value| function(*value))?;
    Ok(Arc::new(results.with_data_type(output.clone())))
}

/// Applies an infallible function to every value.
pub fn map<T, O, F>(values: &ArrayRef, output: &DataType, function: F) -> Result<ArrayRef, ExprError>
where
    T: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
    F: Fn(T::Native) -> O::Native,
{
    let result: PrimitiveArray<O> = typed::<PrimitiveArray<T>>(values)?.unary(function);
    Ok(Arc::new(result.with_data_type(output.clone())))
}

/// The value of a scalar; `None` is NULL.
pub fn constant<T: ArrowPrimitiveType>(value: &ColumnarValue) -> Result<Option<T::Native>, ExprError> {
    let array = to_array(value, 1)?;
    let array = typed::<PrimitiveArray<T>>(&array)?;
    Ok(array.is_valid(0).then(|| array.value(0)))
}

/// NULL of an Arrow type.
pub fn null_of(output: &DataType) -> Result<ColumnarValue, ExprError> {
    Ok(ColumnarValue::Scalar(ScalarValue::try_from(output)?))
}

/// Collects results that may be NULL.
struct Results<O>(std::marker::PhantomData<O>);

impl<O: ArrowPrimitiveType> Results<O> {
    fn collect<I, T>(
        rows: usize,
        nulls: Option<NullBuffer>,
        inputs: I,
        function: impl Fn(T) -> Result<Option<O::Native>, ExprError>,
    ) -> Result<PrimitiveArray<O>, ExprError>
    where
        I: Iterator<Item = T>,
    {
        let mut values = Vec::with_capacity(rows);
        let mut became_null = Vec::new();
        for (row, input) in inputs.enumerate() {
            let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let value = if valid { function(input)? } else { Some(O::default_value()) };
            match value {
                Some(value) => values.push(value),
                None => {
                    became_null.push(row);
                    values.push(O::default_value());
                }
            }
        }
        let nulls = if became_null.is_empty() {
            nulls
        } else {
            let mut valid = BooleanBufferBuilder::new(rows);
            match &nulls {
                Some(nulls) => valid.append_buffer(nulls.inner()),
                None => valid.append_n(rows, true),
            }
            for row in became_null {
                valid.set_bit(row, false);
            }
            Some(NullBuffer::new(valid.finish()))
        };
        Ok(PrimitiveArray::try_new(values.into(), nulls)?)
    }
}
