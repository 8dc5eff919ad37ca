//! Flink's proleptic Gregorian calendar in integer arithmetic.
//!
//! Flink counts days by Julian day numbers with divisions that truncate, in 32 bits that wrap. Dates far outside the years
//! that SQL knows come out as Flink's arithmetic has them, so the formulas are kept step by step instead of being replaced
//! by a calendar library.
//!
//! Follows: `org.apache.flink.table.utils.DateTimeUtils`, Flink 2.2.

/// The Julian day number of 1970-01-01.
pub const EPOCH_JULIAN: i32 = 2_440_588;
/// Milliseconds of a day.
pub const MILLIS_PER_DAY: i64 = 86_400_000;

/// A date's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ymd {
    /// Astronomical year: 0 is 1 BC.
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
}

/// Java's narrowing `(int)`: the low 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "Java's narrowing conversion keeps the low bits, and so must this")]
pub fn java_int(value: i64) -> i32 {
    value as i32
}

/// The fields of the day with this number since 1970-01-01.
pub fn from_unix_date(date: i32) -> Ymd {
    from_julian(date.wrapping_add(EPOCH_JULIAN))
}

/// The fields of a Julian day number.
pub fn from_julian(julian: i32) -> Ymd {
    // Shifted to 1 March 4801 BC, so that a leap day ends its year.
    let j = julian.wrapping_add(32_044);
    let g = j / 146_097;
    let dg = j % 146_097;
    let c = (dg / 36_524 + 1) * 3 / 4;
    let dc = dg - c * 36_524;
    let b = dc / 1_461;
    let db = dc % 1_461;
    let a = (db / 365 + 1) * 3 / 4;
    let da = db - a * 365;
    let y = g * 400 + c * 100 + b * 4 + a;
    let m = (da * 5 + 308) / 153 - 2;
    let d = da - (m + 4) * 153 / 5 + 122;
    Ymd { year: y - 4_800 + (m + 2) / 12, month: (m + 2) % 12 + 1, day: d + 1 }
}

/// The number of this day since 1970-01-01. A month of 13 or more is one of the next year's.
pub fn to_unix_date(year: i32, month: i32, day: i32) -> i32 {
    to_julian(year, month, day).wrapping_sub(EPOCH_JULIAN)
}

/// The Julian day number of a date.
pub fn to_julian(year: i32, month: i32, day: i32) -> i32 {
    let a = (14 - month) / 12;
    let y = year.wrapping_add(4_800).wrapping_sub(a);
    let m = month + 12 * a - 3;
    day.wrapping_add((153 * m + 2) / 5)
        .wrapping_add(y.wrapping_mul(365))
        .wrapping_add(y / 4)
        .wrapping_sub(y / 100)
        .wrapping_add(y / 400)
        .wrapping_sub(32_045)
}

/// Adds months to a day number; a day that the month does not have becomes its last.
pub fn add_months_to_date(date: i32, months: i32) -> i32 {
    let Ymd { year, month, day } = from_unix_date(date);
    let sum = i64::from(month.wrapping_add(months));
    let mut year = year.wrapping_add(java_int(sum.div_euclid(12)));
    let mut month = java_int(sum.rem_euclid(12));
    if month == 0 {
        year = year.wrapping_sub(1);
        month = 12;
    }
    to_unix_date(year, month, day.min(last_day(year, month)))
}

/// Adds months to milliseconds since the epoch; the time of the day stays.
pub fn add_months(timestamp: i64, months: i32) -> i64 {
    let millis = timestamp.rem_euclid(MILLIS_PER_DAY);
    let date = java_int(timestamp.wrapping_sub(millis) / MILLIS_PER_DAY);
    i64::from(add_months_to_date(date, months)).wrapping_mul(MILLIS_PER_DAY).wrapping_add(millis)
}

/// Whole months from `date1` to `date0`.
fn subtract_months_of_dates(date0: i32, date1: i32) -> i32 {
    if date0 < date1 {
        return subtract_months_of_dates(date1, date0).wrapping_neg();
    }
    // No month has more than 31 days, so this is never too many.
    let mut months = date0.wrapping_sub(date1) / 31;
    loop {
        if add_months_to_date(date1, months) >= date0 {
            return months;
        }
        if add_months_to_date(date1, months.wrapping_add(1)) > date0 {
            return months;
        }
        months = months.wrapping_add(1);
    }
}

/// Whole months from `t1` to `t0`, both in milliseconds since the epoch.
pub fn subtract_months(t0: i64, t1: i64) -> i32 {
    let millis0 = t0.rem_euclid(MILLIS_PER_DAY);
    let date0 = java_int(t0.wrapping_sub(millis0).div_euclid(MILLIS_PER_DAY));
    let millis1 = t1.rem_euclid(MILLIS_PER_DAY);
    let date1 = java_int(t1.wrapping_sub(millis1).div_euclid(MILLIS_PER_DAY));
    let months = subtract_months_of_dates(date0, date1);
    // From the 31st of January to the 28th of February is a month, unless its last hours are missing.
    if add_months_to_date(date1, months) == date0 && millis0 < millis1 { months.wrapping_sub(1) } else { months }
}

/// Whether February of this year has 29 days.
pub fn is_leap_year(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The number of days of a month.
pub fn last_day(year: i32, month: i32) -> i32 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Midnight and time of the day of milliseconds since the epoch: a day number and milliseconds of the day.
///
/// A day number that does not fit 32 bits wraps, as `TimestampData.toLocalDateTime` does.
pub fn split_day(millis: i64) -> (i32, i64) {
    (java_int(millis.div_euclid(MILLIS_PER_DAY)), millis.rem_euclid(MILLIS_PER_DAY))
}

/// The day with this number since 1970-01-01 in the calendar of `java.time.LocalDate`, for any day number of a timestamp.
pub fn proleptic(date: i64) -> Ymd {
    // Days since 0000-03-01, in 400-year cycles.
    let shifted = date + 719_468;
    let cycle = shifted.div_euclid(146_097);
    let day_of_cycle = shifted.rem_euclid(146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
    Ymd { year: java_int(year), month: java_int(month), day: java_int(day) }
}

/// The number of a day since 1970-01-01 in the calendar of `java.time.LocalDate`, for any year of 32 bits.
pub fn epoch_day(year: i32, month: i32, day: i32) -> i64 {
    let (year, month, day) = (i64::from(year), i64::from(month), i64::from(day));
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let year_of_cycle = year.rem_euclid(400);
    let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    year.div_euclid(400) * 146_097 + day_of_cycle - 719_468
}
