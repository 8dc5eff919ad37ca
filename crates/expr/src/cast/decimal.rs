//! Text to DECIMAL.
//!
//! Flink has two readers. Up to 18 digits of precision and 18 bytes of text it reads the bytes itself, and takes more than
//! one would expect: one character of any kind may stand behind the digits. Everything else goes through
//! `java.math.BigDecimal`, which knows the digits of all scripts.
//!
//! Follows: `BinaryStringDataUtil.toDecimal`, Flink 2.2; `BigDecimal(char[], int, int)` of JDK 17.

use super::CastFailure;
use super::integer::number_format;

const NUMBER_FORMAT: &str = "java.lang.NumberFormatException";
const COMPACT_DIGITS: usize = 18;
/// From this power of ten on, `BigInteger` refuses to compute it.
const HUGE_POWER: i64 = 536_870_920;

/// The unscaled value at `scale`.
pub fn decimal(text: &str, precision: u8, scale: u8) -> Result<i128, CastFailure> {
    let value = if usize::from(precision) > COMPACT_DIGITS || text.len() > COMPACT_DIGITS {
        big(text, precision, scale)?
    } else {
        compact(text.as_bytes(), i64::from(precision), i64::from(scale))?.map(i128::from)
    };
    value.ok_or_else(|| number_format(text, "Overflow."))
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t')
}

/// Flink's own reader; `None` is its overflow, which is also its answer to invalid text.
fn compact(bytes: &[u8], precision: i64, scale: i64) -> Result<Option<i64>, CastFailure> {
    let Some(mut i) = bytes.iter().position(|b| !is_blank(*b)) else { return Ok(None) };
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let mut b = at(i);
    let negative = b == b'-';
    if negative || b == b'+' {
        i += 1;
        if i == bytes.len() {
            return Ok(None);
        }
    }
    let mut significand = 0_i64;
    let mut digits = 0_i64;
    let mut point = None;
    while i < bytes.len() {
        b = at(i);
        i += 1;
        match b {
            b'0'..=b'9' => {
                significand = significand * 10 + i64::from(b - b'0');
                digits += 1;
            }
            b'.' if point.is_some() => return Ok(None),
            b'.' => point = Some(digits),
            // This character is read, and not looked at again unless it is an exponent's mark.
            _ => break,
        }
    }
    let point = point.unwrap_or(digits);
    if negative {
        significand = -significand;
    }
    let mut exponent = 0_i64;
    if (b == b'e' || b == b'E') && i < bytes.len() {
        b = at(i);
        let negative_exponent = b == b'-';
        if negative_exponent || b == b'+' {
            i += 1;
            if i == bytes.len() {
                return Ok(None);
            }
        }
        let mut value = 0_i64;
        while i < bytes.len() {
            b = at(i);
            i += 1;
            if !b.is_ascii_digit() {
                break;
            }
            if value < 40 {
                value = value * 10 + i64::from(b - b'0');
            }
        }
        exponent = if negative_exponent { -value } else { value };
    }
    exponent -= digits - point;
    if !bytes.get(i..).unwrap_or_default().iter().all(|b| is_blank(*b)) {
        return Ok(None);
    }
    let change = exponent + scale;
    if digits + change > precision {
        return Ok(None);
    }
    if change >= 0 {
        return Ok(Some(significand * power_of_ten(change)?));
    }
    let half = if negative { -5 } else { 5 };
    let half = half * power_of_ten(-change - 1)?;
    Ok(Some((significand + half) / power_of_ten(-change)?))
}

/// Flink's table of powers has 19 entries, and nothing checks the index.
fn power_of_ten(exponent: i64) -> Result<i64, CastFailure> {
    u32::try_from(exponent).ok().filter(|e| *e < 19).map(|e| 10_i64.pow(e)).ok_or_else(|| {
        let message = format!("Index {exponent} out of bounds for length 19");
        CastFailure::new("java.lang.ArrayIndexOutOfBoundsException", message)
    })
}

/// A number as `BigDecimal` reads it: digits without leading zeros, and their scale.
struct Big {
    negative: bool,
    digits: Vec<u8>,
    scale: i64,
}

/// Reads by `BigDecimal` and rounds half up; `None` if the result has too many digits.
fn big(text: &str, precision: u8, scale: u8) -> Result<Option<i128>, CastFailure> {
    let blank = |unit: &u16| u8::try_from(*unit).is_ok_and(is_blank);
    let units: Vec<u16> = text.encode_utf16().collect();
    let start = units.iter().position(|unit| !blank(unit)).unwrap_or(0);
    let end = units.iter().rposition(|unit| !blank(unit)).map_or(units.len(), |last| last + 1);
    let number = parse(units.get(start..end).unwrap_or_default())?;
    if number.digits.is_empty() {
        return Ok(Some(0));
    }
    let change = i64::from(scale) - number.scale;
    if i32::try_from(change).is_err() {
        let message = if change > 0 { "Underflow" } else { "Overflow" };
        return Err(CastFailure::new("java.lang.ArithmeticException", message));
    }
    if change.abs() >= HUGE_POWER {
        let message = "BigInteger would overflow supported range";
        return Err(CastFailure::new("java.lang.ArithmeticException", message));
    }
    let precision = i64::from(precision);
    let length = i64::try_from(number.digits.len()).unwrap_or(i64::MAX);
    if length.saturating_add(change) > precision {
        return Ok(None);
    }
    let mut value = 0_i128;
    // At most `precision` digits are taken, because the length was checked.
    let kept = usize::try_from(length + change.min(0)).unwrap_or(0);
    for digit in number.digits.iter().take(kept) {
        value = value * 10 + i128::from(*digit);
    }
    for _ in 0..change.max(0) {
        value *= 10;
    }
    if change < 0 && length + change >= 0 && number.digits.get(kept).is_some_and(|digit| *digit >= 5) {
        value += 1;
    }
    let limit = 10_i128.pow(u32::try_from(precision).unwrap_or(0));
    if value >= limit {
        return Ok(None);
    }
    Ok(Some(if number.negative { -value } else { value }))
}

fn failure(message: impl Into<String>) -> CastFailure {
    CastFailure::new(NUMBER_FORMAT, message)
}

fn parse(units: &[u16]) -> Result<Big, CastFailure> {
    let (negative, rest) = match units.split_first() {
        Some((sign, rest)) if *sign == u16::from(b'-') => (true, rest),
        Some((sign, rest)) if *sign == u16::from(b'+') => (false, rest),
        _ => (false, units),
    };
    let mut digits = Vec::new();
    let (mut any, mut point, mut scale) = (false, false, 0_i64);
    for (i, unit) in rest.iter().enumerate() {
        if let Some(digit) = digit(*unit) {
            any = true;
            scale += i64::from(point);
            if digit > 0 || !digits.is_empty() {
                digits.push(digit);
            }
        } else if *unit == u16::from(b'.') {
            if point {
                return Err(failure("Character array contains more than one decimal point."));
            }
            point = true;
        } else if *unit == u16::from(b'e') || *unit == u16::from(b'E') {
            let exponent = exponent(rest.get(i + 1..).unwrap_or_default())?;
            if i32::try_from(exponent).is_err() {
                return Err(failure("Exponent overflow."));
            }
            if !any {
                return Err(failure("No digits found."));
            }
            scale -= exponent;
            if i32::try_from(scale).is_err() {
                return Err(failure("Scale out of range."));
            }
            break;
        } else if rest.len() <= COMPACT_DIGITS {
            let shown = String::from_utf16_lossy(&[*unit]);
            return Err(failure(format!(
                "Character {shown} is neither a decimal digit number, decimal point, nor \"e\" notation exponential mark."
            )));
        } else {
            return Err(failure("Character array is missing \"e\" notation exponential mark."));
        }
    }
    if !any {
        return Err(failure("No digits found."));
    }
    Ok(Big { negative, digits, scale })
}

fn exponent(units: &[u16]) -> Result<i64, CastFailure> {
    let (negative, mut rest) = match units.split_first() {
        Some((sign, rest)) if *sign == u16::from(b'-') => (true, rest),
        Some((sign, rest)) if *sign == u16::from(b'+') => (false, rest),
        _ => (false, units),
    };
    if rest.is_empty() {
        return Err(failure("No exponent digits."));
    }
    while rest.len() > 10
        && let Some((first, more)) = rest.split_first()
        && digit(*first) == Some(0)
    {
        rest = more;
    }
    if rest.len() > 10 {
        return Err(failure("Too many nonzero exponent digits."));
    }
    let mut value = 0;
    for unit in rest {
        value = value * 10 + i64::from(digit(*unit).ok_or_else(|| failure("Not a digit."))?);
    }
    Ok(if negative { -value } else { value })
}

/// The zeros of the decimal digits in the Basic Multilingual Plane; nine more follow each (`Character.digit` of JDK 17).
const ZEROS: &[u16] = &[
    0x0030, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0DE6,
    0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40,
    0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
];

fn digit(unit: u16) -> Option<u8> {
    let zero = ZEROS.iter().rev().find(|zero| **zero <= unit)?;
    u8::try_from(unit - zero).ok().filter(|digit| *digit < 10)
}
