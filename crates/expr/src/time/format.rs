//! Dates, times, timestamps and intervals as text, as a CAST writes them.
//!
//! Flink writes years with four digits, whatever the year: 12345 becomes 2345, and a year before 1 BC has characters below
//! `0`. Text is appended to a caller's buffer.
//!
//! Follows: the `format*` methods of `org.apache.flink.table.utils.DateTimeUtils`, Flink 2.2.

use std::fmt::Write;

use super::calendar::{MILLIS_PER_DAY, Ymd, from_unix_date, java_int, proleptic, split_day};
use super::values::Timestamp;

/// Appends `yyyy-MM-dd`.
pub fn date(out: &mut String, date: i32) {
    let Ymd { year, month, day } = from_unix_date(date);
    ymd(out, year, month, day);
}

/// Appends `HH:mm:ss` and, with a precision, a point and up to that many digits: trailing zeros are left out, but for one.
pub fn time(out: &mut String, millis: i32, precision: u8) {
    let mut millis = millis;
    while millis < 0 {
        millis += java_int(MILLIS_PER_DAY);
    }
    hms(out, millis / 3_600_000, millis % 3_600_000 / 60_000, millis % 60_000 / 1_000);
    if precision > 0 {
        out.push('.');
        let mut rest = millis % 1_000;
        for _ in 0..precision {
            digit(out, rest / 100);
            rest = rest % 100 * 10;
            if rest == 0 {
                break;
            }
        }
    }
}

/// Appends `yyyy-MM-dd HH:mm:ss` and, with a precision, a point and exactly that many digits.
pub fn timestamp(out: &mut String, value: Timestamp, precision: u8) {
    let (date, millis_of_day) = split_day(value.millis);
    // The calendar of java.time, which is exact for every day number.
    let Ymd { year, month, day } = proleptic(i64::from(date));
    ymd(out, year, month, day);
    out.push(' ');
    let millis = java_int(millis_of_day);
    hms(out, millis / 3_600_000, millis % 3_600_000 / 60_000, millis % 60_000 / 1_000);
    if precision > 0 {
        out.push('.');
        let mut rest = millis % 1_000 * 1_000_000 + value.nanos;
        for _ in 0..precision.min(9) {
            digit(out, rest / 100_000_000);
            rest = rest % 100_000_000 * 10;
        }
    }
}

/// Appends an interval of months as `+years-months`.
pub fn interval_year_month(out: &mut String, months: i32) -> std::fmt::Result {
    out.push(if months >= 0 { '+' } else { '-' });
    let months = months.wrapping_abs();
    write!(out, "{}-", months / 12)?;
    number(out, months % 12, 2)
}

/// Appends an interval of milliseconds as `+days hours:minutes:seconds.millis`.
pub fn interval_day_time(out: &mut String, millis: i64) -> std::fmt::Result {
    out.push(if millis >= 0 { '+' } else { '-' });
    let v = millis.wrapping_abs();
    write!(out, "{} ", java_int(v / MILLIS_PER_DAY))?;
    number(out, java_int(v / 3_600_000 % 24), 2)?;
    out.push(':');
    number(out, java_int(v / 60_000 % 60), 2)?;
    out.push(':');
    number(out, java_int(v / 1_000 % 60), 2)?;
    out.push('.');
    number(out, java_int(v % 1_000), 3)
}

fn ymd(out: &mut String, year: i32, month: i32, day: i32) {
    digit(out, year / 1_000 % 10);
    digit(out, year / 100 % 10);
    digit(out, year / 10 % 10);
    digit(out, year % 10);
    out.push('-');
    int2(out, month);
    out.push('-');
    int2(out, day);
}

fn hms(out: &mut String, hours: i32, minutes: i32, seconds: i32) {
    int2(out, hours);
    out.push(':');
    int2(out, minutes);
    out.push(':');
    int2(out, seconds);
}

fn int2(out: &mut String, value: i32) {
    digit(out, value / 10 % 10);
    digit(out, value % 10);
}

/// Java's `(char) ('0' + value)` for values between -9 and 9.
fn digit(out: &mut String, value: i32) {
    out.push(u8::try_from(i32::from(b'0') + value).map_or('?', char::from));
}

/// The number with at least `width` digits; a sign counts as none.
fn number(out: &mut String, value: i32, width: usize) -> std::fmt::Result {
    let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    for _ in digits..width {
        out.push('0');
    }
    write!(out, "{value}")
}
