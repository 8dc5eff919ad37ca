//! Points in time plus and minus intervals, and their differences.
//!
//! A month that is too short for the day gives its last day. The time of a TIME wraps around midnight, the day's count around
//! nothing: intervals that do not fit Flink's 32 bits fail as in Java.
//!
//! Follows: `ScalarOperatorGens.generateTemporalPlusMinus`, Flink 2.2.

use super::calendar::{MILLIS_PER_DAY, add_months, add_months_to_date, java_int};
use super::values::Timestamp;
use crate::error::ExprError;

/// Plus or minus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// `+`
    Plus,
    /// `-`
    Minus,
}

impl Sign {
    fn of_long(self, value: i64) -> i64 {
        match self {
            Self::Plus => value,
            Self::Minus => value.wrapping_neg(),
        }
    }

    fn of_int(self, value: i32) -> i32 {
        match self {
            Self::Plus => value,
            Self::Minus => value.wrapping_neg(),
        }
    }
}

/// `Math.toIntExact`
fn to_int_exact(value: i64) -> Result<i32, ExprError> {
    i32::try_from(value)
        .map_err(|_| ExprError::Java { class: "java.lang.ArithmeticException", message: "integer overflow".to_owned() })
}

/// DATE and an interval of milliseconds, of which whole days count, to DATE.
pub fn date_and_millis(date: i32, sign: Sign, millis: i64) -> Result<i32, ExprError> {
    let days = to_int_exact(millis / MILLIS_PER_DAY)?;
    Ok(match sign {
        Sign::Plus => date.wrapping_add(days),
        Sign::Minus => date.wrapping_sub(days),
    })
}

/// DATE and an interval of milliseconds to TIMESTAMP.
pub fn date_and_millis_to_timestamp(date: i32, sign: Sign, millis: i64) -> Timestamp {
    Timestamp::from_millis((i64::from(date) * MILLIS_PER_DAY).wrapping_add(sign.of_long(millis)))
}

/// DATE and months.
pub fn date_and_months(date: i32, sign: Sign, months: i32) -> i32 {
    add_months_to_date(date, sign.of_int(months))
}

/// TIME and an interval of milliseconds.
pub fn time_and_millis(time: i32, sign: Sign, millis: i64) -> Result<i32, ExprError> {
    let rest = i64::from(to_int_exact(millis % MILLIS_PER_DAY)?);
    to_int_exact((i64::from(time) + MILLIS_PER_DAY + sign.of_long(rest)) % MILLIS_PER_DAY)
}

/// TIMESTAMP and an interval of milliseconds.
pub fn timestamp_and_millis(value: Timestamp, sign: Sign, millis: i64) -> Timestamp {
    Timestamp { millis: value.millis.wrapping_add(sign.of_long(millis)), nanos: value.nanos }
}

/// TIMESTAMP and months.
pub fn timestamp_and_months(value: Timestamp, sign: Sign, months: i32) -> Timestamp {
    Timestamp { millis: add_months(value.millis, sign.of_int(months)), nanos: value.nanos }
}

/// Days since the epoch in milliseconds.
pub fn date_millis(date: i32) -> i64 {
    i64::from(date) * MILLIS_PER_DAY
}

/// Java's `(int)` of a difference in whole units.
pub fn whole_units(difference: i64, unit_ms: i64) -> i32 {
    java_int(difference / unit_ms)
}
