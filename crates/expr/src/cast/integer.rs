//! Text to integers: blanks around it, a sign, digits, and a fraction that is cut off.
//!
//! Follows: `BinaryStringDataUtil.toLong`, `toInt`, `toShort`, `toByte`, Flink 2.2.

use super::CastFailure;

const NUMBER_FORMAT: &str = "java.lang.NumberFormatException";

/// A number between `min` and `max`.
///
/// `first_max` is the largest value of the type that Flink accumulates in (INT for the small types): its overflow is noticed
/// while digits are read, before an invalid character behind them.
pub fn integer(text: &str, min: i64, max: i64, first_max: i64) -> Result<i64, CastFailure> {
    let text = text.trim_matches(' ');
    let failure = |reason: &str| number_format(text, reason);
    let bytes = text.as_bytes();
    let Some(first) = bytes.first() else { return Err(failure("Input is empty.")) };
    let negative = *first == b'-';
    let digits = if negative || *first == b'+' { bytes.get(1..).unwrap_or_default() } else { bytes };
    if digits.is_empty() {
        return Err(failure("Input has only positive or negative symbol."));
    }
    // The absolute value; up to one more than `first_max`, which only a negative number may be.
    let limit = i128::from(first_max) + 1;
    let mut value = 0_i128;
    let mut rest = digits.iter();
    for byte in rest.by_ref() {
        match byte {
            b'.' => break,
            b'0'..=b'9' => value = value * 10 + i128::from(byte - b'0'),
            _ => return Err(failure("Invalid character found.")),
        }
        if value > limit {
            return Err(failure("Overflow."));
        }
    }
    if !rest.all(u8::is_ascii_digit) {
        return Err(failure("Invalid character found."));
    }
    let value = if negative { -value } else { value };
    i64::try_from(value).ok().filter(|value| (min..=max).contains(value)).ok_or_else(|| failure("Overflow."))
}

/// The exception for text that is not a number.
pub fn number_format(text: &str, reason: &str) -> CastFailure {
    CastFailure::new(NUMBER_FORMAT, format!("For input string: '{text}'. {reason}"))
}
