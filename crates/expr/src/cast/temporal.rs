//! Casts among DATE, TIME and TIMESTAMP.
//!
//! Flink divides by the length of a day with truncation: the last hours before 1970 belong to 1970-01-01. What it takes off
//! a fraction it takes off towards 1970, too. Both are kept.
//!
//! Follows: `TimestampToTimestampCastRule` and its neighbours, `DateTimeUtils.truncate`, Flink 2.2. Difference: a TIMESTAMP(7..9)
//! cast to TIMESTAMP(0..3) can keep nanoseconds in Flink until the row is written to bytes; here it loses them at once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Date32Array, Date32Builder, Time32MillisecondArray, Time32MillisecondBuilder};
use streamfusion_plan::Reason;
use streamfusion_plan::types::{TimeAttribute, TypeKind};

use super::to_text::identity;
use crate::error::ExprError;
use crate::registry::Kernel;
use crate::time::calendar::{MILLIS_PER_DAY, java_int};
use crate::time::parse::time_of_timestamp;
use crate::time::values::{Timestamp, TimestampBuilder, Timestamps};
use crate::values::{mismatch, over_arrays, typed};

/// The kernel of a cast between two temporal types; `None` if one of them is not.
pub fn kernel(from: &TypeKind, to: &TypeKind) -> Option<Result<Kernel, Reason>> {
    if !is_temporal(from) || !is_temporal(to) {
        return None;
    }
    let zone = || Err(Reason::new("a CAST between TIMESTAMP_LTZ and another type needs the session time zone"));
    Some(match (from, to) {
        (TypeKind::Date, TypeKind::Date) => Ok(identity()),
        (TypeKind::Time(from), TypeKind::Time(to)) if from == to => Ok(identity()),
        (
            TypeKind::Timestamp { precision: input, attribute: from },
            TypeKind::Timestamp { precision: target, attribute: to },
        ) => {
            let attribute = *from != TimeAttribute::Regular || *to != TimeAttribute::Regular;
            Ok(timestamp(*input, *target, if attribute { 3 } else { *target }))
        }
        (TypeKind::TimestampLtz { precision: input, .. }, TypeKind::TimestampLtz { precision: target, .. }) => {
            Ok(timestamp(*input, *target, *target))
        }
        (TypeKind::TimestampLtz { .. }, _) | (_, TypeKind::TimestampLtz { .. }) => zone(),
        (TypeKind::Date, TypeKind::Timestamp { precision, .. }) => {
            let precision = *precision;
            Ok(unary(move |array| {
                let dates = typed::<Date32Array>(array)?;
                let mut out = TimestampBuilder::new(precision, dates.len());
                for date in dates {
                    out.push(date.map(|date| Timestamp::from_millis(i64::from(date) * MILLIS_PER_DAY)));
                }
                Ok(out.finish())
            }))
        }
        (TypeKind::Time(_), TypeKind::Timestamp { precision, .. }) => {
            let precision = *precision;
            Ok(unary(move |array| {
                let times = typed::<Time32MillisecondArray>(array)?;
                let mut out = TimestampBuilder::new(precision, times.len());
                for time in times {
                    out.push(time.map(|time| Timestamp::from_millis(i64::from(time))));
                }
                Ok(out.finish())
            }))
        }
        (TypeKind::Timestamp { .. }, TypeKind::Date) => Ok(unary(|array| {
            let mut out = Date32Builder::with_capacity(array.len());
            for millis in millis(array)? {
                out.append_option(millis.map(|millis| java_int(millis / MILLIS_PER_DAY)));
            }
            Ok(Arc::new(out.finish()))
        })),
        (TypeKind::Timestamp { .. }, TypeKind::Time(precision)) => {
            let precision = *precision;
            Ok(unary(move |array| {
                let mut out = Time32MillisecondBuilder::with_capacity(array.len());
                for millis in millis(array)? {
                    out.append_option(millis.map(|millis| time_of_timestamp(millis, precision)));
                }
                Ok(Arc::new(out.finish()))
            }))
        }
        _ => Err(Reason::new("this CAST between temporal types is not supported natively")),
    })
}

fn is_temporal(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Date | TypeKind::Time(_) | TypeKind::Timestamp { .. } | TypeKind::TimestampLtz { .. })
}

fn unary<F>(run: F) -> Kernel
where
    F: Fn(&ArrayRef) -> Result<ArrayRef, ExprError> + Send + Sync + 'static,
{
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            run(arrays.first().ok_or_else(|| mismatch("a CAST has one operand"))?)
        })
    })
}

fn millis(array: &ArrayRef) -> Result<Vec<Option<i64>>, ExprError> {
    let timestamps = Timestamps::new(array)?;
    (0..array.len()).map(|row| if array.is_null(row) { Ok(None) } else { timestamps.millis(row).map(Some) }).collect()
}

/// From a column of `input` digits to one of `layout` digits, cut to `target` digits.
fn timestamp(input: u8, layout: u8, target: u8) -> Kernel {
    if input <= target && (input <= 3) == (layout <= 3) {
        return identity();
    }
    unary(move |array| {
        let timestamps = Timestamps::new(array)?;
        let mut out = TimestampBuilder::new(layout, array.len());
        for row in 0..array.len() {
            out.push(match array.is_null(row) {
                true => None,
                false if input <= target => Some(timestamps.value(row)?),
                false => Some(truncate(timestamps.value(row)?, target)),
            });
        }
        Ok(out.finish())
    })
}

/// Flink compares the precision with the digits of the nanoseconds as a number, without leading zeros: five nanoseconds have
/// one digit and stay.
pub fn truncate(value: Timestamp, precision: u8) -> Timestamp {
    let nano_of_second = value.millis.rem_euclid(1_000) * 1_000_000 + i64::from(value.nanos);
    let digits = nano_of_second.checked_ilog10().unwrap_or(0) + 1;
    if digits <= u32::from(precision) {
        return value;
    }
    let zero_last = |value: i64, digits: u8| {
        let unit = 10_i64.pow(u32::from(digits));
        value / unit * unit
    };
    if precision <= 3 {
        return Timestamp::from_millis(zero_last(value.millis, 3 - precision));
    }
    let nanos = java_int(zero_last(i64::from(value.nanos), 9_u8.saturating_sub(precision)));
    Timestamp { millis: value.millis, nanos }
}
