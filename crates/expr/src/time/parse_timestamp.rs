//! Text to TIMESTAMP, as Flink's CAST reads it.
//!
//! Flink parses with a `java.time` formatter of optional parts, `yyyy-[MM][M]-[dd][d][ [HH][H]:[mm][m]:[ss][s][fraction]]`, and
//! fills in what is missing. Its corners are part of the behaviour: a month can be written twice (`2020-011-1`), can be
//! missing altogether (`2020--`), the 31st of April is the 30th, and 24:00:00 is the next midnight. So the formatter is
//! followed element by element: a number, a literal, a part that may be absent.
//!
//! Follows: `DateTimeUtils.parseTimestampData(String, int)`, Flink 2.2, on `DateTimeFormatterBuilder` and `Parsed` of JDK 17.

use super::calendar::{MILLIS_PER_DAY, epoch_day, last_day};
use super::values::Timestamp;
use crate::cast::CastFailure;

const PARSE_EXCEPTION: &str = "java.time.format.DateTimeParseException";
const DATE_TIME_EXCEPTION: &str = "java.time.DateTimeException";

/// A timestamp, its fraction cut to `precision` digits. Fails where the formatter does, with its message.
pub fn timestamp(text: &str, precision: u8) -> Result<Timestamp, CastFailure> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut parser = Parser { text: &units, position: 0 };
    let fields = parser.date_time().map_err(|at| unparsed(text, &format!(" at index {at}")))?;
    if parser.position < units.len() {
        return Err(unparsed(text, &format!(", unparsed text found at index {}", parser.position)));
    }
    let resolved = fields.resolve().map_err(|cause| unparsed(text, &format!(": {cause}")))?;
    resolved.timestamp(precision)
}

fn unparsed(text: &str, cause: &str) -> CastFailure {
    let units: Vec<u16> = text.encode_utf16().collect();
    let shown = match units.get(..64) {
        Some(start) if units.len() > 64 => format!("{}...", String::from_utf16_lossy(start)),
        _ => text.to_owned(),
    };
    CastFailure::new(PARSE_EXCEPTION, format!("Text '{shown}' could not be parsed{cause}"))
}

/// Numbers as they stand in the text; a field that is absent is `None`.
#[derive(Debug, Default, Clone, Copy)]
struct Fields {
    year_of_era: i64,
    month: Option<i64>,
    day: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    nano: Option<i64>,
}

/// Index of the text, in UTF-16 units, at which parsing fails.
type At = usize;

struct Parser<'a> {
    text: &'a [u16],
    position: usize,
}

/// How many digits a number has, and whether it may have a sign.
#[derive(Clone, Copy)]
enum Width {
    /// Two digits.
    Two,
    /// 1 to 19 digits; a minus sign is read.
    Any,
    /// 4 to 19 digits; more than 4 need a sign, and a plus sign needs more than 4.
    Year,
}

impl Parser<'_> {
    fn date_time(&mut self) -> Result<Fields, At> {
        let mut fields = Fields { year_of_era: self.number(Width::Year)?, ..Fields::default() };
        self.literal(b'-')?;
        self.twice(&mut fields.month);
        self.literal(b'-')?;
        self.twice(&mut fields.day);
        let start = self.position;
        match self.time(fields) {
            Ok(with_time) => fields = with_time,
            // The time is optional as a whole.
            Err(_) => self.position = start,
        }
        Ok(fields)
    }

    fn time(&mut self, mut fields: Fields) -> Result<Fields, At> {
        self.literal(b' ')?;
        self.twice(&mut fields.hour);
        self.literal(b':')?;
        self.twice(&mut fields.minute);
        self.literal(b':')?;
        self.twice(&mut fields.second);
        fields.nano = self.fraction();
        Ok(fields)
    }

    /// `[NN][N]`: two digits if there are, then once more any number of digits if they say the same.
    fn twice(&mut self, field: &mut Option<i64>) {
        for width in [Width::Two, Width::Any] {
            let start = self.position;
            match self.number(width) {
                Ok(value) if field.is_none_or(|old| old == value) => *field = Some(value),
                _ => self.position = start,
            }
        }
    }

    fn literal(&mut self, expected: u8) -> Result<(), At> {
        if self.text.get(self.position) == Some(&u16::from(expected)) {
            self.position += 1;
            return Ok(());
        }
        Err(self.position)
    }

    fn digit(&self, position: usize) -> Option<i64> {
        let unit = *self.text.get(position)?;
        let digit = unit.checked_sub(u16::from(b'0'))?;
        (digit <= 9).then_some(i64::from(digit))
    }

    fn number(&mut self, width: Width) -> Result<i64, At> {
        let start = self.position;
        let mut position = start;
        let (min, max) = match width {
            Width::Two => (2, 2),
            Width::Any => (1, 19),
            Width::Year => (4, 19),
        };
        let first = self.text.get(position).copied().ok_or(start)?;
        let negative = first == u16::from(b'-');
        let positive = first == u16::from(b'+');
        match width {
            Width::Two if negative || positive => return Err(start),
            Width::Any if positive => return Err(start),
            _ if negative || positive => position += 1,
            _ => {}
        }
        let digits_start = position;
        let min_end = digits_start + min;
        if min_end > self.text.len() {
            return Err(digits_start);
        }
        let max_end = self.text.len().min(digits_start + max);
        let mut total = 0_i128;
        while position < max_end {
            let Some(digit) = self.digit(position) else {
                if position < min_end {
                    return Err(digits_start);
                }
                break;
            };
            total = total * 10 + i128::from(digit);
            position += 1;
        }
        // A number that does not fit 64 bits gives its last digit back.
        if total > i128::from(i64::MAX) {
            total /= 10;
            position -= 1;
        }
        let value = i64::try_from(total).map_err(|_| digits_start)?;
        if negative && value == 0 {
            return Err(digits_start - 1);
        }
        let digits = position - digits_start;
        if matches!(width, Width::Year) && !negative {
            if positive && digits <= min {
                return Err(digits_start - 1);
            }
            if !positive && digits > min {
                return Err(digits_start);
            }
        }
        self.position = position;
        Ok(if negative { -value } else { value })
    }

    /// A point and up to nine digits, as nanoseconds.
    fn fraction(&mut self) -> Option<i64> {
        if self.text.get(self.position) != Some(&u16::from(b'.')) {
            return None;
        }
        self.position += 1;
        let mut nanos = 0;
        let mut digits = 0;
        while digits < 9
            && let Some(digit) = self.digit(self.position)
        {
            nanos = nanos * 10 + digit;
            digits += 1;
            self.position += 1;
        }
        Some((digits..9).fold(nanos, |nanos, _| nanos * 10))
    }
}

/// What the formatter makes of the numbers: a full date and a full time, or loose fields.
#[derive(Debug, Default, Clone, Copy)]
struct Resolved {
    year: i32,
    month: Option<i64>,
    day: Option<i64>,
    hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    nano: Option<i64>,
    /// 24:00:00 of a full date.
    next_day: bool,
}

/// The message of `ChronoField.checkValidValue`.
fn check(field: &str, range: &str, value: i64, min: i64, max: i64) -> Result<i32, String> {
    i32::try_from(value)
        .ok()
        .filter(|_| (min..=max).contains(&value))
        .ok_or_else(|| format!("Invalid value for {field} (valid values {range}): {value}"))
}

fn check_hour(value: i64) -> Result<i32, String> {
    check("HourOfDay", "0 - 23", value, 0, 23)
}

fn check_minute(value: i64) -> Result<i32, String> {
    check("MinuteOfHour", "0 - 59", value, 0, 59)
}

fn check_second(value: i64) -> Result<i32, String> {
    check("SecondOfMinute", "0 - 59", value, 0, 59)
}

fn check_month(value: i64) -> Result<i32, String> {
    check("MonthOfYear", "1 - 12", value, 1, 12)
}

fn check_day(value: i64) -> Result<i32, String> {
    check("DayOfMonth", "1 - 28/31", value, 1, 31)
}

impl Fields {
    fn resolve(self) -> Result<Resolved, String> {
        let year = check("YearOfEra", "1 - 999999999/1000000000", self.year_of_era, 1, 1_000_000_000)?;
        let mut resolved = Resolved { year, month: self.month, day: self.day, ..Resolved::default() };
        let mut full_date = false;
        if let (Some(month), Some(day)) = (self.month, self.day) {
            let year = check("Year", "-999999999 - 999999999", i64::from(year), -999_999_999, 999_999_999)?;
            let month = check_month(month)?;
            let day = check_day(day)?;
            // A day that its month does not have is its last.
            resolved.day = Some(i64::from(day.min(last_day(year, month))));
            full_date = true;
        }
        self.resolve_time(&mut resolved, full_date)?;
        Ok(resolved)
    }

    fn resolve_time(self, resolved: &mut Resolved, full_date: bool) -> Result<(), String> {
        let Self { hour, minute, second, nano, .. } = self;
        (resolved.hour, resolved.minute, resolved.second, resolved.nano) = (hour, minute, second, nano);
        let whole = match (hour, minute, second, nano) {
            (None, ..) => false,
            (_, None, second, nano) => second.is_none() && nano.is_none(),
            (_, _, None, nano) => nano.is_none(),
            _ => true,
        };
        if whole {
            let value = |field: Option<i64>| field.unwrap_or(0);
            check_minute(value(minute))?;
            if value(hour) == 24 && value(minute) == 0 && value(second) == 0 && value(nano) == 0 {
                resolved.next_day = full_date;
                resolved.hour = Some(0);
            } else {
                check_hour(value(hour))?;
                check_second(value(second))?;
            }
            return Ok(());
        }
        // Loose fields are checked one by one; with an hour that cannot be completed, only when they are read.
        if hour.is_some() {
            return Ok(());
        }
        minute.map_or(Ok(0), check_minute)?;
        second.map_or(Ok(0), check_second)?;
        Ok(())
    }
}

impl Resolved {
    /// Fills in what is missing, as Flink does.
    fn timestamp(self, precision: u8) -> Result<Timestamp, CastFailure> {
        let failure = |message| CastFailure::new(DATE_TIME_EXCEPTION, message);
        let year = check("Year", "-999999999 - 999999999", i64::from(self.year), -999_999_999, 999_999_999)
            .map_err(failure)?;
        let month = self.month.map_or(Ok(1), check_month).map_err(failure)?;
        let day = self.day.map_or(Ok(1), check_day).map_err(failure)?;
        self.hour.map_or(Ok(0), check_hour).map_err(failure)?;
        self.minute.map_or(Ok(0), check_minute).map_err(failure)?;
        self.second.map_or(Ok(0), check_second).map_err(failure)?;
        if day > last_day(year, month) {
            return Err(failure(no_such_day(year, month, day)));
        }
        let part = |field: Option<i64>| field.unwrap_or(0);
        let cut = match precision {
            9.. => 1,
            digits => 10_i64.pow(u32::from(9 - digits)),
        };
        let nano = part(self.nano) / cut * cut;
        let date = epoch_day(year, month, day) + i64::from(self.next_day);
        let seconds = part(self.hour) * 3_600 + part(self.minute) * 60 + part(self.second);
        let millis = date.wrapping_mul(MILLIS_PER_DAY).wrapping_add(seconds * 1_000 + nano / 1_000_000);
        let nanos = i32::try_from(nano % 1_000_000).map_err(|_| failure(String::new()))?;
        Ok(Timestamp { millis, nanos })
    }
}

fn no_such_day(year: i32, month: i32, day: i32) -> String {
    if day == 29 {
        return format!("Invalid date 'February 29' as '{year}' is not a leap year");
    }
    let name = match month {
        2 => "FEBRUARY",
        4 => "APRIL",
        6 => "JUNE",
        9 => "SEPTEMBER",
        _ => "NOVEMBER",
    };
    format!("Invalid date '{name} {day}'")
}
