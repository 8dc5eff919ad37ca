//! DATE_FORMAT over TIMESTAMP with a constant pattern.
//!
//! Only pattern letters whose output is digits, the same in every locale, are taken; everything else (names of months,
//! AM and PM, optional sections) stays with the JVM.
//!
//! Follows: `java.time.format.DateTimeFormatter.ofPattern` of JDK 17.

use streamfusion_plan::Reason;

use super::calendar::{MILLIS_PER_DAY, Ymd, java_int, proleptic};
use super::values::Timestamp;

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A number with at least `width` digits.
    Number {
        field: NumberField,
        width: usize,
    },
    /// A year with at least `width` digits; of 4 or more, a larger one has a plus sign.
    Year {
        era: Era,
        width: usize,
    },
    /// The last two digits of a year.
    ShortYear(Era),
    /// The first digits of the fraction of the second.
    Fraction(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberField {
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

/// Whether years before 1 count backwards (`y`) or are negative (`u`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    Year,
    Proleptic,
}

impl Pattern {
    /// Compiles a pattern. A reason if some part of it is not native.
    pub fn compile(pattern: &str) -> Result<Self, Reason> {
        let refuse = || Reason::new(format!("the format '{pattern}' of DATE_FORMAT is not supported natively"));
        let mut parts = Vec::new();
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                'a'..='z' | 'A'..='Z' => {
                    let mut width = 1;
                    while chars.next_if_eq(&c).is_some() {
                        width += 1;
                    }
                    parts.push(Part::of_letter(c, width).ok_or_else(refuse)?);
                }
                '\'' => text(&mut parts, &quoted(&mut chars).ok_or_else(refuse)?),
                '[' | ']' | '{' | '}' | '#' => return Err(refuse()),
                _ => text(&mut parts, c.encode_utf8(&mut [0; 4])),
            }
        }
        Ok(Self(parts))
    }

    /// Appends the timestamp in this format.
    pub fn format(&self, out: &mut String, value: Timestamp) {
        let date = proleptic(value.millis.div_euclid(MILLIS_PER_DAY));
        let millis = java_int(value.millis.rem_euclid(MILLIS_PER_DAY));
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Number { field, width } => padded(out, i64::from(field.of(date, millis)), *width),
                Part::Year { era, width } => {
                    let year = i64::from(era.year(date));
                    if year < 0 {
                        out.push('-');
                    } else if *width >= 4 && year >= 10_i64.saturating_pow(u32::try_from(*width).unwrap_or(19)) {
                        out.push('+');
                    }
                    padded(out, year.abs(), *width);
                }
                Part::ShortYear(era) => padded(out, (i64::from(era.year(date)) % 100).abs(), 2),
                Part::Fraction(digits) => {
                    let mut rest = millis % 1_000 * 1_000_000 + value.nanos;
                    for _ in 0..*digits {
                        padded(out, i64::from(rest / 100_000_000), 1);
                        rest = rest % 100_000_000 * 10;
                    }
                }
            }
        }
    }
}

impl Part {
    fn of_letter(letter: char, width: usize) -> Option<Self> {
        let number = |field| (width <= 2).then_some(Self::Number { field, width });
        match letter {
            'y' | 'u' => {
                let era = if letter == 'y' { Era::Year } else { Era::Proleptic };
                match width {
                    2 => Some(Self::ShortYear(era)),
                    1 | 3..=9 => Some(Self::Year { era, width }),
                    _ => None,
                }
            }
            'M' => number(NumberField::Month),
            'd' => number(NumberField::Day),
            'H' => number(NumberField::Hour),
            'm' => number(NumberField::Minute),
            's' => number(NumberField::Second),
            'S' => (width <= 9).then_some(Self::Fraction(width)),
            _ => None,
        }
    }
}

impl NumberField {
    fn of(self, date: Ymd, millis: i32) -> i32 {
        match self {
            Self::Month => date.month,
            Self::Day => date.day,
            Self::Hour => millis / 3_600_000,
            Self::Minute => millis % 3_600_000 / 60_000,
            Self::Second => millis % 60_000 / 1_000,
        }
    }
}

impl Era {
    fn year(self, date: Ymd) -> i32 {
        match self {
            Self::Year if date.year <= 0 => 1 - date.year,
            Self::Year | Self::Proleptic => date.year,
        }
    }
}

/// The text up to the closing quote; two quotes are one. `None` if there is no closing quote.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()? {
            '\'' if chars.next_if_eq(&'\'').is_some() => text.push('\''),
            '\'' => break,
            c => text.push(c),
        }
    }
    // Outside of quoted text, two quotes are one.
    Some(if text.is_empty() { "'".to_owned() } else { text })
}

fn text(parts: &mut Vec<Part>, more: &str) {
    if let Some(Part::Text(text)) = parts.last_mut() {
        text.push_str(more);
    } else {
        parts.push(Part::Text(more.to_owned()));
    }
}

/// A number that is not negative, with leading zeros.
fn padded(out: &mut String, value: i64, width: usize) {
    let digits = value.unsigned_abs().checked_ilog10().map_or(1, |log| log as usize + 1);
    for _ in digits..width {
        out.push('0');
    }
    let mut divisor = 10_u64.pow(u32::try_from(digits - 1).unwrap_or(0));
    let mut rest = value.unsigned_abs();
    while divisor > 0 {
        out.push(char::from(b'0' + u8::try_from(rest / divisor).unwrap_or(0)));
        rest %= divisor;
        divisor /= 10;
    }
}
