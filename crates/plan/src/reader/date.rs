//! Dates and times as Calcite's `DateString`, `TimeString` and `TimestampString` write them: years 0001 to 9999.

const MILLIS_PER_DAY: i64 = 86_400_000;

/// `2020-01-02` to days since the epoch.
pub(crate) fn date(text: &str) -> Option<i32> {
    let mut parts = text.split('-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    };
    if parts.next().is_some() || year == 0 || day == 0 || day > length {
        return None;
    }
    // Days of the proleptic Gregorian calendar, with years that begin in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    Some(365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468)
}

/// `01:02:03.5` to milliseconds of the day and nanoseconds of the millisecond.
pub(crate) fn time(text: &str) -> Option<(i32, i32)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let (hour, minute, second) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 || fraction.len() > 9 {
        return None;
    }
    let nanos = digits(&format!("{fraction:0<9}"), 9).filter(|_| !fraction.is_empty())?;
    Some((((hour * 60 + minute) * 60 + second) * 1000 + nanos / 1_000_000, nanos % 1_000_000))
}

/// `2020-01-02 03:04:05.678` to milliseconds since the epoch and nanoseconds of the millisecond.
pub(crate) fn timestamp(text: &str) -> Option<(i64, i32)> {
    let (day, clock) = text.split_once(' ')?;
    let (millis, nanos) = time(clock)?;
    Some((i64::from(date(day)?) * MILLIS_PER_DAY + i64::from(millis), nanos))
}

fn digits(text: &str, count: usize) -> Option<i32> {
    if text.len() != count || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_the_epoch() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("1969-12-31"), Some(-1));
        assert_eq!(date("2000-02-29"), Some(11_016));
        assert_eq!(date("0001-01-01"), Some(-719_162));
        assert_eq!(date("9999-12-31"), Some(2_932_896));
        for text in ["1900-02-29", "2020-13-01", "2020-1-1", "2020-01-32", "0000-01-01", "2020-01-01-01", "+200-01-01"]
        {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn a_fraction_keeps_its_nanoseconds() {
        assert_eq!(time("01:02:03"), Some((3_723_000, 0)));
        assert_eq!(timestamp("1970-01-01 00:00:00.123456789"), Some((123, 456_789)));
        assert_eq!(timestamp("1969-12-31 23:59:59.9"), Some((-100, 0)));
        for text in ["24:00:00", "00:00:60", "00:00", "00:00:00.", "00:00:00.0000000001", "00:00:00.1x"] {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
