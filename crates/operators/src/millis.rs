//! The values of a time column as Flink reads them: milliseconds, and of NULL the zero that lies in its place in the fixed part of a
//! BinaryRow.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType};

use crate::OperatorError;

/// The milliseconds of a column. Errors if it is not a timestamp of at most that precision.
pub(crate) fn millis(column: &dyn Array) -> Result<ScalarBuffer<i64>, OperatorError> {
    let times = column.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(|| {
        let expected = DataType::Timestamp(TimeUnit::Millisecond, None);
        OperatorError::Input(format!("a time of type {}, not {expected}", column.data_type()))
    })?;
    Ok(match times.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => times.values().clone(),
        Some(_) => times.iter().map(Option::unwrap_or_default).collect(),
    })
}

/// Those of a column of a batch. Errors also if there is no such column.
pub(crate) fn millis_of(columns: &[ArrayRef], column: usize) -> Result<ScalarBuffer<i64>, OperatorError> {
    let array = columns.get(column);
    millis(array.ok_or_else(|| OperatorError::Input(format!("time column {column} of {}", columns.len())))?)
}
