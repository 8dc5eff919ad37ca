//! EXTRACT over dates, times, timestamps and intervals.
//!
//! Flink divides the milliseconds since the epoch with truncation, so before 1970 the time units are negative and a day that
//! has begun counts as the next one. That is kept.
//!
//! Follows: `ExtractCallGen` and `DateTimeUtils.extractFromDate`, Flink 2.2.

use super::calendar::{EPOCH_JULIAN, MILLIS_PER_DAY, Ymd, from_julian, java_int, to_julian};
use super::values::Timestamp;

/// What is extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A field of the calendar.
    Date(DateField),
    /// Seconds since the epoch.
    Epoch,
    /// A unit of the time of the day, by its length and the length of the next larger unit in milliseconds.
    Time {
        /// The unit.
        unit_ms: i64,
        /// The larger unit.
        factor_ms: i64,
    },
    /// Microseconds of the second.
    Microsecond,
    /// Nanoseconds of the second.
    Nanosecond,
}

/// A field of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateField {
    /// YEAR
    Year,
    /// ISOYEAR
    IsoYear,
    /// QUARTER
    Quarter,
    /// MONTH
    Month,
    /// WEEK: by ISO 8601
    Week,
    /// DAY of the month
    Day,
    /// DOW: 1 is Sunday
    DayOfWeek,
    /// ISODOW: 1 is Monday
    IsoDayOfWeek,
    /// DOY
    DayOfYear,
    /// DECADE
    Decade,
    /// CENTURY
    Century,
    /// MILLENNIUM
    Millennium,
}

impl Field {
    /// The field of a `TIME_UNIT_RANGE` symbol.
    pub fn of_symbol(value: &str) -> Option<Self> {
        let time = |unit_ms, factor_ms| Some(Self::Time { unit_ms, factor_ms });
        let date = |field| Some(Self::Date(field));
        match value {
            "YEAR" => date(DateField::Year),
            "ISOYEAR" => date(DateField::IsoYear),
            "QUARTER" => date(DateField::Quarter),
            "MONTH" => date(DateField::Month),
            "WEEK" => date(DateField::Week),
            "DAY" => date(DateField::Day),
            "DOW" => date(DateField::DayOfWeek),
            "ISODOW" => date(DateField::IsoDayOfWeek),
            "DOY" => date(DateField::DayOfYear),
            "DECADE" => date(DateField::Decade),
            "CENTURY" => date(DateField::Century),
            "MILLENNIUM" => date(DateField::Millennium),
            "EPOCH" => Some(Self::Epoch),
            "HOUR" => time(3_600_000, MILLIS_PER_DAY),
            "MINUTE" => time(60_000, 3_600_000),
            "SECOND" => time(1_000, 60_000),
            "MILLISECOND" => time(1, 1_000),
            "MICROSECOND" => Some(Self::Microsecond),
            "NANOSECOND" => Some(Self::Nanosecond),
            _ => None,
        }
    }
}

/// The field of a TIMESTAMP.
pub fn from_timestamp(field: Field, value: Timestamp) -> i64 {
    match field {
        Field::Date(field) => i64::from(date_field(field, java_int(value.millis / MILLIS_PER_DAY))),
        Field::Epoch => value.millis / 1_000,
        Field::Time { unit_ms, factor_ms } => value.millis % factor_ms / unit_ms,
        Field::Microsecond => value.millis % 1_000 * 1_000 + i64::from(value.nanos / 1_000),
        Field::Nanosecond => value.millis % 1_000 * 1_000_000 + i64::from(value.nanos),
    }
}

/// The field of a DATE; `None` where Flink has a meaning only for other types.
pub fn from_date(field: Field, date: i32) -> Option<i64> {
    match field {
        Field::Date(field) => Some(i64::from(date_field(field, date))),
        Field::Epoch => Some(i64::from(date) * 86_400),
        Field::Time { .. } | Field::Microsecond | Field::Nanosecond => None,
    }
}

/// The unit of a TIME; `None` where Flink has a meaning only for other types.
pub fn from_time(field: Field, millis: i32) -> Option<i64> {
    match field {
        Field::Time { unit_ms, factor_ms } => Some(i64::from(millis) % factor_ms / unit_ms),
        _ => None,
    }
}

/// A field of the calendar, of a day number since 1970-01-01.
pub fn date_field(field: DateField, date: i32) -> i32 {
    let julian = date.wrapping_add(EPOCH_JULIAN);
    let ymd = from_julian(julian);
    let Ymd { year, month, day } = ymd;
    match field {
        DateField::Year => year,
        DateField::Month => month,
        DateField::Day => day,
        DateField::Quarter => (month + 2) / 3,
        DateField::IsoYear => match iso_week(julian, ymd) {
            1 if month == 12 => year.wrapping_add(1),
            week if month == 1 && week > 50 => year.wrapping_sub(1),
            _ => year,
        },
        DateField::DayOfWeek => java_int(i64::from(julian.wrapping_add(1)).rem_euclid(7)) + 1,
        DateField::IsoDayOfWeek => iso_day_of_week(julian),
        DateField::Week => iso_week(julian, ymd),
        DateField::DayOfYear => java_int(i64::from(julian) - i64::from(to_julian(year, 1, 1))).wrapping_add(1),
        DateField::Decade => year / 10,
        DateField::Century => away_from_zero(year, 100),
        DateField::Millennium => away_from_zero(year, 1_000),
    }
}

/// Centuries and millennia count from the year 1, in both directions.
fn away_from_zero(year: i32, years: i32) -> i32 {
    let rest = years - 1;
    if year > 0 { year.wrapping_add(rest) / years } else { year.wrapping_sub(rest) / years }
}

/// 1 is Monday.
fn iso_day_of_week(julian: i32) -> i32 {
    java_int(i64::from(julian).rem_euclid(7)) + 1
}

fn first_monday_of_first_week(year: i32) -> i64 {
    let jan_first = i64::from(to_julian(year, 1, 1));
    let day_of_week = (jan_first + 1).rem_euclid(7);
    jan_first + (11 - day_of_week) % 7 - 3
}

fn iso_week(julian: i32, Ymd { year, month, day }: Ymd) -> i32 {
    let since = |monday: i64| java_int(i64::from(julian) - monday) / 7 + 1;
    let day_of_week = iso_day_of_week(julian);
    if month == 12 && day > 28 {
        if 31 - day + 4 > 7 - day_of_week && 31 - day + day_of_week >= 4 {
            since(first_monday_of_first_week(year))
        } else {
            1
        }
    } else if month == 1 && day < 5 {
        if 4 - day <= 7 - day_of_week && day - day_of_week >= -3 {
            1
        } else {
            since(first_monday_of_first_week(year.wrapping_sub(1)))
        }
    } else {
        since(first_monday_of_first_week(year))
    }
}
