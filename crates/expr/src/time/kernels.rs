//! Kernels over columns of dates, times, timestamps and intervals.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, PrimitiveBuilder};
use arrow::datatypes::{DataType, Date32Type, Int32Type, Int64Type, Time32MillisecondType, TimeUnit as ArrowTimeUnit};

use super::arithmetic::{self, Sign};
use super::calendar::subtract_months;
use super::extract::{self, Field};
use super::pattern::Pattern;
use super::round::{self, Direction, Unit};
use super::values::{Timestamp, TimestampBuilder, Timestamps};
use crate::error::ExprError;
use crate::registry::Kernel;
use crate::text::builder::{all_valid, text_rows};
use crate::values::{mismatch, over_arrays, typed};

/// A column whose values are read by row.
pub(super) enum Column<'a> {
    Date(&'a PrimitiveArray<Date32Type>),
    Time(&'a PrimitiveArray<Time32MillisecondType>),
    Timestamp(Timestamps<'a>),
    Int(&'a PrimitiveArray<Int32Type>),
    Long(&'a PrimitiveArray<Int64Type>),
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef) -> Result<Self, ExprError> {
        Ok(match array.data_type() {
            DataType::Date32 => Self::Date(typed(array)?),
            DataType::Time32(ArrowTimeUnit::Millisecond) => Self::Time(typed(array)?),
            DataType::Int32 => Self::Int(typed(array)?),
            DataType::Int64 => Self::Long(typed(array)?),
            _ => Self::Timestamp(Timestamps::new(array)?),
        })
    }

    /// The number that Flink has in a variable for this value: days, milliseconds of the day, milliseconds or months.
    fn long(&self, row: usize) -> Result<i64, ExprError> {
        Ok(match self {
            Self::Date(array) => i64::from(array.value(row)),
            Self::Time(array) => i64::from(array.value(row)),
            Self::Timestamp(array) => array.millis(row)?,
            Self::Int(array) => i64::from(array.value(row)),
            Self::Long(array) => array.value(row),
        })
    }

    fn int(&self, row: usize) -> Result<i32, ExprError> {
        match self {
            Self::Date(array) => Ok(array.value(row)),
            Self::Time(array) => Ok(array.value(row)),
            Self::Int(array) => Ok(array.value(row)),
            Self::Timestamp(_) | Self::Long(_) => Err(mismatch("a column of 32 bits is expected")),
        }
    }

    /// Milliseconds since the epoch of a DATE or TIMESTAMP.
    fn epoch_millis(&self, row: usize) -> Result<i64, ExprError> {
        match self {
            Self::Date(array) => Ok(arithmetic::date_millis(array.value(row))),
            _ => self.long(row),
        }
    }

    fn timestamp(&self, row: usize) -> Result<Timestamp, ExprError> {
        match self {
            Self::Timestamp(array) => array.value(row),
            _ => Err(mismatch("a column of timestamps is expected")),
        }
    }
}

/// Columns by position.
struct Columns<'a>(Vec<Column<'a>>);

impl<'a> Columns<'a> {
    fn get(&self, index: usize) -> Result<&Column<'a>, ExprError> {
        self.0.get(index).ok_or_else(|| mismatch(format!("operand {index} is missing")))
    }
}

type Value<T> = dyn Fn(&Columns<'_>, usize) -> Result<T, ExprError> + Send + Sync;

/// Computes `value` for the rows in which all of the operands between `from` and `to` have one; operands outside are symbols.
fn rows_of<T>(
    arrays: &[ArrayRef],
    rows: usize,
    value: &Value<T>,
    mut push: impl FnMut(Option<T>),
) -> Result<(), ExprError> {
    let columns = Columns(arrays.iter().map(Column::new).collect::<Result<_, _>>()?);
    let valid = all_valid(arrays);
    for row in 0..rows {
        push(match &valid {
            Some(valid) if valid.is_null(row) => None,
            _ => Some(value(&columns, row)?),
        });
    }
    Ok(())
}

/// Which operands are values; the others are symbols.
pub(super) type Operands = std::ops::Range<usize>;

/// A kernel to a primitive column.
fn primitive<T, F>(operands: Operands, fallible: bool, value: F) -> Kernel
where
    T: ArrowPrimitiveType,
    F: Fn(&Columns<'_>, usize) -> Result<T::Native, ExprError> + Send + Sync + 'static,
{
    kernel(operands, fallible, move |arrays, rows| {
        let mut out = PrimitiveBuilder::<T>::with_capacity(rows);
        rows_of(arrays, rows, &value, |value| out.append_option(value))?;
        Ok(Arc::new(out.finish()))
    })
}

/// A kernel to a column of timestamps.
fn timestamps<F>(operands: Operands, precision: u8, value: F) -> Kernel
where
    F: Fn(&Columns<'_>, usize) -> Result<Timestamp, ExprError> + Send + Sync + 'static,
{
    kernel(operands, false, move |arrays, rows| {
        let mut out = TimestampBuilder::new(precision, rows);
        rows_of(arrays, rows, &value, |value| out.push(value))?;
        Ok(out.finish())
    })
}

fn kernel<F>(operands: Operands, fallible: bool, run: F) -> Kernel
where
    F: Fn(&[ArrayRef], usize) -> Result<ArrayRef, ExprError> + Send + Sync + 'static,
{
    let run = move |values: &[datafusion_expr::ColumnarValue], rows: usize| {
        let values = values.get(operands.clone()).ok_or_else(|| mismatch("an operand is missing"))?;
        over_arrays(values, rows, |arrays, rows| run(arrays, rows))
    };
    if fallible { Kernel::fallible(run) } else { Kernel::infallible(run) }
}

/// What kind of value EXTRACT reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Date,
    Time,
    Timestamp,
}

/// EXTRACT(field FROM operand 1); `None` where Flink has no meaning for it.
pub(super) fn extract_kernel(field: Field, source: Source) -> Option<Kernel> {
    let known = match source {
        Source::Date => extract::from_date(field, 0).is_some(),
        Source::Time => extract::from_time(field, 0).is_some(),
        Source::Timestamp => true,
    };
    known.then(|| {
        primitive::<Int64Type, _>(1..2, false, move |columns, row| {
            let column = columns.get(0)?;
            let value = match source {
                Source::Date => extract::from_date(field, column.int(row)?),
                Source::Time => extract::from_time(field, column.int(row)?),
                Source::Timestamp => Some(extract::from_timestamp(field, column.timestamp(row)?)),
            };
            value.ok_or_else(|| mismatch("a field that this type does not have"))
        })
    })
}

pub(super) fn round_date(unit: Unit, direction: Direction) -> Kernel {
    primitive::<Date32Type, _>(0..1, false, move |columns, row| {
        Ok(round::date(unit, direction, columns.get(0)?.int(row)?))
    })
}

/// `None` for units longer than an hour.
pub(super) fn round_time(unit: Unit, direction: Direction) -> Option<Kernel> {
    round::time(unit, direction, 0)?;
    Some(primitive::<Time32MillisecondType, _>(0..1, false, move |columns, row| {
        let millis = columns.get(0)?.int(row)?;
        round::time(unit, direction, millis).ok_or_else(|| mismatch("a unit that TIME does not have"))
    }))
}

pub(super) fn round_timestamp(unit: Unit, direction: Direction, precision: u8) -> Kernel {
    timestamps(0..1, precision, move |columns, row| {
        Ok(round::timestamp(unit, direction, columns.get(0)?.timestamp(row)?))
    })
}

pub(super) fn format_kernel(pattern: Pattern) -> Kernel {
    kernel(0..1, false, move |arrays, rows| {
        let array = arrays.first().ok_or_else(|| mismatch("operand 0 is missing"))?;
        let values = Timestamps::new(array)?;
        let mut buffer = String::new();
        text_rows(arrays, rows, rows * 16, |row, out| {
            buffer.clear();
            pattern.format(&mut buffer, values.value(row)?);
            out.push(&buffer)
        })
    })
}

pub(super) fn date_and_millis(sign: Sign) -> Kernel {
    primitive::<Date32Type, _>(0..2, true, move |columns, row| {
        arithmetic::date_and_millis(columns.get(0)?.int(row)?, sign, columns.get(1)?.long(row)?)
    })
}

pub(super) fn date_and_millis_to_timestamp(sign: Sign, precision: u8) -> Kernel {
    timestamps(0..2, precision, move |columns, row| {
        let date = columns.get(0)?.int(row)?;
        Ok(arithmetic::date_and_millis_to_timestamp(date, sign, columns.get(1)?.long(row)?))
    })
}

pub(super) fn date_and_months(sign: Sign) -> Kernel {
    primitive::<Date32Type, _>(0..2, false, move |columns, row| {
        Ok(arithmetic::date_and_months(columns.get(0)?.int(row)?, sign, columns.get(1)?.int(row)?))
    })
}

pub(super) fn time_and_millis(sign: Sign) -> Kernel {
    primitive::<Time32MillisecondType, _>(0..2, true, move |columns, row| {
        arithmetic::time_and_millis(columns.get(0)?.int(row)?, sign, columns.get(1)?.long(row)?)
    })
}

pub(super) fn timestamp_and_millis(sign: Sign, precision: u8) -> Kernel {
    timestamps(0..2, precision, move |columns, row| {
        let value = columns.get(0)?.timestamp(row)?;
        Ok(arithmetic::timestamp_and_millis(value, sign, columns.get(1)?.long(row)?))
    })
}

pub(super) fn timestamp_and_months(sign: Sign, precision: u8) -> Kernel {
    timestamps(0..2, precision, move |columns, row| {
        let value = columns.get(0)?.timestamp(row)?;
        Ok(arithmetic::timestamp_and_months(value, sign, columns.get(1)?.int(row)?))
    })
}

/// The difference of two DATEs or TIMESTAMPs in milliseconds.
pub(super) fn difference_in_millis() -> Kernel {
    primitive::<Int64Type, _>(0..2, false, |columns, row| {
        Ok(columns.get(0)?.epoch_millis(row)?.wrapping_sub(columns.get(1)?.epoch_millis(row)?))
    })
}

/// The difference of two DATEs or TIMESTAMPs in whole months.
pub(super) fn difference_in_months() -> Kernel {
    primitive::<Int32Type, _>(0..2, false, |columns, row| {
        Ok(subtract_months(columns.get(0)?.epoch_millis(row)?, columns.get(1)?.epoch_millis(row)?))
    })
}

/// The sum or the difference of two intervals of months.
pub(super) fn month_intervals(sign: Sign) -> Kernel {
    primitive::<Int32Type, _>(0..2, false, move |columns, row| {
        let (left, right) = (columns.get(0)?.int(row)?, columns.get(1)?.int(row)?);
        Ok(match sign {
            Sign::Plus => left.wrapping_add(right),
            Sign::Minus => left.wrapping_sub(right),
        })
    })
}

/// The sum or the difference of two intervals of milliseconds.
pub(super) fn milli_intervals(sign: Sign) -> Kernel {
    primitive::<Int64Type, _>(0..2, false, move |columns, row| {
        let (left, right) = (columns.get(0)?.long(row)?, columns.get(1)?.long(row)?);
        Ok(match sign {
            Sign::Plus => left.wrapping_add(right),
            Sign::Minus => left.wrapping_sub(right),
        })
    })
}

/// An interval of milliseconds times an INT or BIGINT, in either order.
pub(super) fn milli_interval_times() -> Kernel {
    primitive::<Int64Type, _>(0..2, false, |columns, row| {
        Ok(columns.get(0)?.long(row)?.wrapping_mul(columns.get(1)?.long(row)?))
    })
}

/// An interval of months times an INT, in either order.
pub(super) fn month_interval_times() -> Kernel {
    primitive::<Int32Type, _>(0..2, false, |columns, row| {
        Ok(columns.get(0)?.int(row)?.wrapping_mul(columns.get(1)?.int(row)?))
    })
}

/// The number behind a value, as INT.
pub(super) fn as_int() -> Kernel {
    primitive::<Int32Type, _>(0..1, false, |columns, row| columns.get(0)?.int(row))
}

/// The number behind a value, as BIGINT: the milliseconds of a TIMESTAMP.
pub(super) fn as_long() -> Kernel {
    primitive::<Int64Type, _>(0..1, false, |columns, row| columns.get(0)?.long(row))
}

/// An INT as DATE.
pub(super) fn int_as_date() -> Kernel {
    primitive::<Date32Type, _>(0..1, false, |columns, row| columns.get(0)?.int(row))
}

/// An INT as TIME.
pub(super) fn int_as_time() -> Kernel {
    primitive::<Time32MillisecondType, _>(0..1, false, |columns, row| columns.get(0)?.int(row))
}

/// Milliseconds as TIMESTAMP.
pub(super) fn long_as_timestamp(precision: u8) -> Kernel {
    timestamps(0..1, precision, |columns, row| Ok(Timestamp::from_millis(columns.get(0)?.long(row)?)))
}
