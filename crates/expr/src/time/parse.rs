//! Text to DATE and TIME.
//!
//! Flink cuts the text at hyphens, colons and a blank and wants plain digits in between; what is not a date is NULL inside
//! Flink and an error of the CAST. A number that does not fit 32 bits fails by itself, with Java's own message.
//!
//! Follows: `DateTimeUtils.parseDate` and `parseTime`, Flink 2.2.

use super::calendar::{is_leap_year, java_int, to_unix_date};
use crate::cast::CastFailure;

const NUMBER_FORMAT: &str = "java.lang.NumberFormatException";

/// A day number since 1970-01-01; `None` if the text is not a date.
pub fn date(text: &str) -> Result<Option<i32>, CastFailure> {
    let text = match text.find(' ') {
        Some(blank) if blank > 0 => &text[..blank],
        _ => text,
    };
    let mut parts = text.splitn(3, '-');
    let mut fields = [0, 1, 1];
    for field in &mut fields {
        match parts.next() {
            Some(part) => match integer(part)? {
                Some(value) => *field = value,
                None => return Ok(None),
            },
            None => break,
        }
    }
    let [year, month, day] = fields;
    Ok(is_date(year, month, day).then(|| to_unix_date(year, month, day)))
}

fn is_date(year: i32, month: i32, day: i32) -> bool {
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return false;
    }
    if month == 2 && day > 28 {
        return day == 29 && is_leap_year(year);
    }
    day < 31 || matches!(month, 1 | 3 | 5 | 7 | 8 | 10 | 12)
}

/// Milliseconds of the day; `None` if the text is not a time. A zone offset is added, whatever its sign says of zones,
/// and may lead out of the day.
pub fn time(text: &str) -> Result<Option<i32>, CastFailure> {
    let mut sign = 1_i32;
    let (clock, zone) = match (text.find('-'), text.find('+')) {
        (Some(hyphen), _) => {
            sign = -1;
            (&text[..hyphen], Some(&text[hyphen + 1..]))
        }
        (None, Some(plus)) => (&text[..plus], Some(&text[plus + 1..])),
        (None, None) => (text, None),
    };
    let (mut zone_hour, mut zone_minute) = (0, 0);
    if let Some(zone) = zone {
        let (hour, minute) = match zone.split_once(':') {
            Some((hour, minute)) => (hour, Some(minute)),
            None => (zone, None),
        };
        match integer(hour)? {
            Some(value) => zone_hour = value,
            None => return Ok(None),
        }
        if let Some(minute) = minute {
            match integer(minute)? {
                Some(value) => zone_minute = value,
                None => return Ok(None),
            }
        }
    }
    let Some((hour, minute, second, milli)) = clock_fields(clock, zone)? else { return Ok(None) };
    if !(0..=23).contains(&hour) || !(0..=59).contains(&minute) || !(0..=59).contains(&second) {
        return Ok(None);
    }
    let hour = hour.wrapping_add(sign.wrapping_mul(zone_hour));
    let minute = minute.wrapping_add(sign.wrapping_mul(zone_minute));
    Ok(Some(
        hour.wrapping_mul(3_600_000)
            .wrapping_add(minute.wrapping_mul(60_000))
            .wrapping_add(second * 1_000)
            .wrapping_add(milli),
    ))
}

/// Hour, minute, second and millisecond of `HH[:mm[:ss[.fff]]]`.
///
/// Flink looks for the colons in the whole text: a colon of the zone that stands where one of the clock is missing takes its
/// place, and what lies before it is no number then.
fn clock_fields(clock: &str, zone: Option<&str>) -> Result<Option<(i32, i32, i32, i32)>, CastFailure> {
    let parts: Vec<&str> = clock.splitn(3, ':').collect();
    let zone_has_colon = zone.is_some_and(|zone| zone.contains(':'));
    if parts.len() < 3 && zone_has_colon {
        // The failure of an earlier number comes first.
        for part in parts.iter().take(parts.len() - 1) {
            if integer(part)?.is_none() {
                return Ok(None);
            }
        }
        return Ok(None);
    }
    let mut fields = [0; 3];
    let mut milli = 0;
    for (i, part) in parts.iter().enumerate() {
        let mut part = *part;
        let mut fraction = None;
        if i == 2 {
            // A point in the zone is no concern here: the zone's numbers were read before.
            if let Some((second, rest)) = part.split_once('.') {
                part = second;
                fraction = Some(rest);
            }
        }
        match (integer(part)?, fields.get_mut(i)) {
            (Some(value), Some(field)) => *field = value,
            _ => return Ok(None),
        }
        if let Some(fraction) = fraction {
            milli = parse_fraction(java_trim(fraction));
        }
    }
    let [hour, minute, second] = fields;
    Ok(Some((hour, minute, second, milli)))
}

/// The first three digits, rounded by the fourth; what is not a digit counts as 0.
fn parse_fraction(text: &str) -> i32 {
    let mut units = text.encode_utf16();
    let mut result = 0;
    for multiplier in [100, 10, 1] {
        let Some(unit) = units.next() else { return result };
        let zero = u16::from(b'0');
        if (zero..=zero + 9).contains(&unit) {
            result += multiplier * i32::from(unit - zero);
        }
    }
    if units.next().is_some_and(|unit| unit >= u16::from(b'5')) { result + 1 } else { result }
}

/// Java's `String.trim`: control characters and blanks at both ends.
pub fn java_trim(text: &str) -> &str {
    text.trim_matches(|c: char| c <= ' ')
}

/// A number of plain digits, trimmed; `None` for anything else. Fails if it does not fit 32 bits.
fn integer(text: &str) -> Result<Option<i32>, CastFailure> {
    let text = java_trim(text);
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(None);
    }
    match text.parse::<i32>() {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(CastFailure::new(NUMBER_FORMAT, format!("For input string: \"{text}\""))),
    }
}

/// Truncates milliseconds of the day to a TIME's precision.
pub fn truncate_time(millis: i32, precision: u8) -> i32 {
    let unit = match precision {
        0 => 1_000,
        1 => 100,
        2 => 10,
        _ => return millis,
    };
    millis / unit * unit
}

/// Milliseconds of the day of a timestamp, negative before 1970, truncated to a TIME's precision.
pub fn time_of_timestamp(millis: i64, precision: u8) -> i32 {
    truncate_time(java_int(millis % super::calendar::MILLIS_PER_DAY), precision)
}
