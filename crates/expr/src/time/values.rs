//! Columns of timestamps in either of their two layouts, seen as Flink's pair of milliseconds and nanoseconds.
//!
//! Flink's functions on timestamps work on the milliseconds since the epoch and, rarely, on the nanoseconds of that
//! millisecond. Up to 3 digits a column holds the former only; see [`streamfusion_row::types`].

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Decimal128Array, Decimal128Builder, TimestampMillisecondArray, TimestampMillisecondBuilder,
};
use streamfusion_plan::types::TypeKind;

use crate::error::ExprError;
use crate::values::{mismatch, typed};

const NANOS_PER_MILLI: i128 = 1_000_000;

/// One timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Milliseconds since the epoch.
    pub millis: i64,
    /// Nanoseconds of the millisecond, 0 to 999,999.
    pub nanos: i32,
}

impl Timestamp {
    /// A timestamp of whole milliseconds.
    pub fn from_millis(millis: i64) -> Self {
        Self { millis, nanos: 0 }
    }

    /// Nanoseconds since the epoch.
    pub fn to_nanos(self) -> i128 {
        i128::from(self.millis) * NANOS_PER_MILLI + i128::from(self.nanos)
    }

    /// From nanoseconds since the epoch; `None` outside of Flink's range.
    pub fn from_nanos(nanos: i128) -> Option<Self> {
        let millis = i64::try_from(nanos.div_euclid(NANOS_PER_MILLI)).ok()?;
        let nanos = i32::try_from(nanos.rem_euclid(NANOS_PER_MILLI)).ok()?;
        Some(Self { millis, nanos })
    }
}

/// A column of timestamps.
#[derive(Debug)]
pub enum Timestamps<'a> {
    /// Up to 3 digits.
    Millis(&'a TimestampMillisecondArray),
    /// More than 3 digits.
    Nanos(&'a Decimal128Array),
}

impl<'a> Timestamps<'a> {
    /// Reads a column. Errors if it does not hold timestamps.
    pub fn new(array: &'a ArrayRef) -> Result<Self, ExprError> {
        match typed::<TimestampMillisecondArray>(array) {
            Ok(millis) => Ok(Self::Millis(millis)),
            Err(_) => Ok(Self::Nanos(typed::<Decimal128Array>(array)?)),
        }
    }

    /// The value of a row that is not NULL.
    pub fn value(&self, row: usize) -> Result<Timestamp, ExprError> {
        match self {
            Self::Millis(array) => Ok(Timestamp::from_millis(array.value(row))),
            Self::Nanos(array) => Timestamp::from_nanos(array.value(row))
                .ok_or_else(|| mismatch("a timestamp is outside of the range of its type")),
        }
    }

    /// The milliseconds of a row that is not NULL.
    pub fn millis(&self, row: usize) -> Result<i64, ExprError> {
        self.value(row).map(|value| value.millis)
    }

    /// Whether the row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Millis(array) => array.is_null(row),
            Self::Nanos(array) => array.is_null(row),
        }
    }
}

/// The digits of a TIMESTAMP without time zone.
pub fn timestamp_precision(kind: &TypeKind) -> Option<u8> {
    match kind {
        TypeKind::Timestamp { precision, .. } => Some(*precision),
        _ => None,
    }
}

/// Builds a column of timestamps of a given precision.
pub enum TimestampBuilder {
    /// Up to 3 digits.
    Millis(TimestampMillisecondBuilder),
    /// More than 3 digits.
    Nanos(Decimal128Builder),
}

impl TimestampBuilder {
    /// An empty column for `rows` values.
    pub fn new(precision: u8, rows: usize) -> Self {
        if precision <= 3 {
            Self::Millis(TimestampMillisecondBuilder::with_capacity(rows))
        } else {
            let builder = Decimal128Builder::with_capacity(rows);
            Self::Nanos(builder.with_data_type(streamfusion_row::types::NANO_TIMESTAMP))
        }
    }

    /// Appends a value; a column of milliseconds keeps the milliseconds.
    pub fn push(&mut self, value: Option<Timestamp>) {
        match self {
            Self::Millis(builder) => builder.append_option(value.map(|value| value.millis)),
            Self::Nanos(builder) => builder.append_option(value.map(Timestamp::to_nanos)),
        }
    }

    /// The column.
    pub fn finish(self) -> ArrayRef {
        match self {
            Self::Millis(mut builder) => Arc::new(builder.finish()),
            Self::Nanos(mut builder) => Arc::new(builder.finish()),
        }
    }
}
