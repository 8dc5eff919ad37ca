//! FLOOR and CEIL of dates, times and timestamps to a unit.
//!
//! Units up to a day are arithmetic on milliseconds. Weeks and longer go through the calendar, by way of Flink's truncating
//! division: a timestamp before 1970 is taken as its next midnight there. Before 15 October 1582 Flink's calendar of this
//! function is Julian while the rest of Flink is Gregorian. Both are kept.
//!
//! Follows: `FloorCeilCallGen` and `DateTimeUtils.julianDateFloor`, Flink 2.2.

use super::calendar::{EPOCH_JULIAN, MILLIS_PER_DAY, java_int, to_unix_date};
use super::values::Timestamp;

/// FLOOR or CEIL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// FLOOR
    Floor,
    /// CEIL
    Ceil,
}

/// A unit to round to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// MILLISECOND
    Millisecond,
    /// SECOND, MINUTE, HOUR: their length in milliseconds.
    Time(i64),
    /// DAY
    Day,
    /// WEEK and longer.
    Calendar(CalendarUnit),
}

/// Units that only the calendar knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarUnit {
    /// WEEK: begins on a Sunday
    Week,
    /// MONTH
    Month,
    /// QUARTER
    Quarter,
    /// YEAR
    Year,
    /// DECADE
    Decade,
    /// CENTURY
    Century,
    /// MILLENNIUM
    Millennium,
}

impl Unit {
    /// The unit of a `TIME_UNIT_RANGE` symbol.
    pub fn of_symbol(value: &str) -> Option<Self> {
        Some(match value {
            "MILLISECOND" => Self::Millisecond,
            "SECOND" => Self::Time(1_000),
            "MINUTE" => Self::Time(60_000),
            "HOUR" => Self::Time(3_600_000),
            "DAY" => Self::Day,
            "WEEK" => Self::Calendar(CalendarUnit::Week),
            "MONTH" => Self::Calendar(CalendarUnit::Month),
            "QUARTER" => Self::Calendar(CalendarUnit::Quarter),
            "YEAR" => Self::Calendar(CalendarUnit::Year),
            "DECADE" => Self::Calendar(CalendarUnit::Decade),
            "CENTURY" => Self::Calendar(CalendarUnit::Century),
            "MILLENNIUM" => Self::Calendar(CalendarUnit::Millennium),
            _ => return None,
        })
    }
}

/// A timestamp rounded to a unit.
pub fn timestamp(unit: Unit, direction: Direction, value: Timestamp) -> Timestamp {
    let millis = value.millis;
    Timestamp::from_millis(match unit {
        Unit::Millisecond => match direction {
            Direction::Floor => millis,
            Direction::Ceil => millis.wrapping_add(i64::from(value.nanos > 0)),
        },
        Unit::Time(length) => multiple(millis, length, direction),
        Unit::Day => multiple(millis, MILLIS_PER_DAY, direction),
        Unit::Calendar(unit) => {
            let date = java_int(millis / MILLIS_PER_DAY);
            let rounded = calendar(unit, direction, date.wrapping_add(EPOCH_JULIAN));
            i64::from(rounded).wrapping_mul(MILLIS_PER_DAY)
        }
    })
}

/// A date rounded to a unit.
pub fn date(unit: Unit, direction: Direction, date: i32) -> i32 {
    match unit {
        Unit::Millisecond | Unit::Time(_) => date,
        Unit::Day => day(direction, date.wrapping_add(EPOCH_JULIAN)),
        Unit::Calendar(unit) => calendar(unit, direction, date.wrapping_add(EPOCH_JULIAN)),
    }
}

/// A time rounded to a unit of at most an hour; `None` for longer ones.
pub fn time(unit: Unit, direction: Direction, millis: i32) -> Option<i32> {
    let length = match unit {
        Unit::Millisecond => 1,
        Unit::Time(length) => java_int(length),
        Unit::Day | Unit::Calendar(_) => return None,
    };
    let rest = millis % length;
    Some(match direction {
        Direction::Floor if rest < 0 => millis.wrapping_sub(rest + length),
        Direction::Ceil if rest > 0 => millis.wrapping_sub(rest - length),
        _ => millis - rest,
    })
}

fn multiple(value: i64, length: i64, direction: Direction) -> i64 {
    let floor = |value: i64| value.wrapping_sub(value.rem_euclid(length));
    match direction {
        Direction::Floor => floor(value),
        Direction::Ceil => floor(value.wrapping_add(length - 1)),
    }
}

/// Year, month and day as this function sees them: Julian up to day number 2299160.
fn meeus(julian: i32) -> (i32, i32, i32) {
    let (b, c) = if julian > 2_299_160 {
        let a = julian.wrapping_add(32_044);
        let b = a.wrapping_mul(4).wrapping_add(3) / 146_097;
        (b, a.wrapping_sub(b.wrapping_mul(146_097) / 4))
    } else {
        (0, julian.wrapping_add(32_082))
    };
    let d = c.wrapping_mul(4).wrapping_add(3) / 1_461;
    let e = c.wrapping_sub(d.wrapping_mul(1_461) / 4);
    let m = e.wrapping_mul(5).wrapping_add(2) / 153;
    let day = e.wrapping_sub(m.wrapping_mul(153).wrapping_add(2) / 5).wrapping_add(1);
    let month = m.wrapping_add(3).wrapping_sub((m / 10).wrapping_mul(12));
    let year = b.wrapping_mul(100).wrapping_add(d).wrapping_sub(4_800).wrapping_add(m / 10);
    (year, month, day)
}

fn day(direction: Direction, julian: i32) -> i32 {
    let (year, month, day) = meeus(julian);
    let date = to_unix_date(year, month, day);
    match direction {
        Direction::Floor => date,
        Direction::Ceil => date.wrapping_add(1),
    }
}

fn calendar(unit: CalendarUnit, direction: Direction, julian: i32) -> i32 {
    let (year, month, day) = meeus(julian);
    let ceil = direction == Direction::Ceil;
    let first_of_years = |years: i32| {
        let last = year.wrapping_add(years - 1) / years * years;
        to_unix_date(if ceil { last.wrapping_add(1) } else { last.wrapping_sub(years - 1) }, 1, 1)
    };
    let begun = month > 1 || day > 1;
    match unit {
        CalendarUnit::Millennium => first_of_years(1_000),
        CalendarUnit::Century => first_of_years(100),
        CalendarUnit::Decade => to_unix_date(10 * (if ceil { 1 + year / 10 } else { year / 10 }), 1, 1),
        CalendarUnit::Year => to_unix_date(if ceil && begun { year.wrapping_add(1) } else { year }, 1, 1),
        CalendarUnit::Month => to_unix_date(year, if ceil && day > 1 { month + 1 } else { month }, 1),
        CalendarUnit::Quarter => {
            // Flink asks whether the year has begun, not the quarter: the first of April goes to July.
            let quarter = (month + 2) / 3;
            to_unix_date(year, (if ceil && begun { quarter + 1 } else { quarter }) * 3 - 2, 1)
        }
        CalendarUnit::Week => {
            let day_of_week = java_int(i64::from(julian.wrapping_add(1)).rem_euclid(7));
            let offset = if ceil && day_of_week > 0 { day_of_week - 7 } else { day_of_week };
            to_unix_date(year, month, day).wrapping_sub(offset)
        }
    }
}
