//! Arithmetic on unscaled decimals, with Flink's rounding: HALF_UP to the result's scale, NULL where the digits do not fit.
//!
//! A DECIMAL is an i128. What fits into one is computed in one; 256 bits are for products, quotients and changes of scale that
//! may exceed 38 digits. No value is ever turned into text or allocated, except by [`to_double`] beyond 18 digits.
//!
//! Follows: DecimalDataUtils, DecimalData and, for division and remainder, java.math.BigDecimal, Flink 2.2 on JDK 17.

use arrow::datatypes::i256;

use crate::error::ExprError;

/// Precision and scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digits {
    /// Total digits, 1 to 38.
    pub precision: u8,
    /// Digits behind the point, at most the precision.
    pub scale: u8,
}

const MAX_DIGITS: u32 = 38;

/// 10^n for n up to 38.
const POW10: [i128; 39] = {
    let mut powers = [1_i128; 39];
    let mut n = 1;
    while n < 39 {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// 10^n; `None` above 38.
pub fn pow10(n: u32) -> Option<i128> {
    POW10.get(usize::try_from(n).ok()?).copied()
}

/// 10^n; `None` above 76.
fn wide_pow10(n: u32) -> Option<i256> {
    if n <= MAX_DIGITS {
        return pow10(n).map(i256::from_i128);
    }
    let high = i256::from_i128(pow10(n - MAX_DIGITS)?);
    high.checked_mul(i256::from_i128(pow10(MAX_DIGITS)?))
}

/// The value if it has at most `precision` digits.
pub fn checked(value: i128, precision: u8) -> Option<i128> {
    let limit = pow10(u32::from(precision))?;
    (value > -limit && value < limit).then_some(value)
}

/// `value / divisor`, HALF_UP (ties away from zero). `divisor` must be positive.
fn divide_half_up(value: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (value / divisor, value % divisor);
    if remainder.unsigned_abs() >= divisor.unsigned_abs() - remainder.unsigned_abs() {
        quotient + value.signum()
    } else {
        quotient
    }
}

fn wide_divide_half_up(value: i256, divisor: i256) -> Option<i256> {
    let quotient = value.checked_div(divisor)?;
    let remainder = value.checked_rem(divisor)?;
    if remainder.wrapping_abs() >= divisor.checked_sub(remainder.wrapping_abs())? {
        let away = if value.is_negative() { i256::MINUS_ONE } else { i256::ONE };
        quotient.checked_add(away)
    } else {
        Some(quotient)
    }
}

/// `value` at scale `from` as one at scale `to` of `precision` digits: BigDecimal.setScale(to, HALF_UP), NULL on overflow.
pub fn rescale(value: i128, from: u8, to: Digits) -> Option<i128> {
    if to.scale >= from {
        let factor = pow10(u32::from(to.scale - from))?;
        return checked(value.checked_mul(factor)?, to.precision);
    }
    checked(divide_half_up(value, pow10(u32::from(from - to.scale))?), to.precision)
}

fn wide_rescale(value: i256, from: i64, to: Digits) -> Option<i128> {
    let shift = i64::from(to.scale) - from;
    let rounded = match u32::try_from(shift) {
        Ok(up) => {
            if value == i256::ZERO {
                return Some(0);
            }
            value.checked_mul(wide_pow10(up)?)?
        }
        Err(_) => {
            let down = u32::try_from(-shift).ok()?;
            match wide_pow10(down) {
                Some(divisor) => wide_divide_half_up(value, divisor)?,
                // More than 76 digits are dropped from a number that has fewer.
                None => i256::ZERO,
            }
        }
    };
    checked(rounded.to_i128()?, to.precision)
}

/// Sum of values at scales `left_scale` and `right_scale`. A difference is the sum with the negated right side.
pub fn add(left: i128, left_scale: u8, right: i128, right_scale: u8, to: Digits) -> Option<i128> {
    let scale = left_scale.max(right_scale);
    let exact = || {
        let left = left.checked_mul(pow10(u32::from(scale - left_scale))?)?;
        let right = right.checked_mul(pow10(u32::from(scale - right_scale))?)?;
        left.checked_add(right)
    };
    if let Some(sum) = exact() {
        return rescale(sum, scale, to);
    }
    let left = i256::from_i128(left).checked_mul(wide_pow10(u32::from(scale - left_scale))?)?;
    let right = i256::from_i128(right).checked_mul(wide_pow10(u32::from(scale - right_scale))?)?;
    wide_rescale(left.checked_add(right)?, i64::from(scale), to)
}

/// Product of values at scales `left_scale` and `right_scale`.
pub fn multiply(left: i128, left_scale: u8, right: i128, right_scale: u8, to: Digits) -> Option<i128> {
    let scale = left_scale + right_scale;
    if let Some(product) = left.checked_mul(right)
        && scale.saturating_sub(to.scale) <= 38
    {
        return rescale(product, scale, to);
    }
    wide_rescale(i256::from_i128(left).checked_mul(i256::from_i128(right))?, i64::from(scale), to)
}

fn arithmetic(message: &str) -> ExprError {
    ExprError::Java { class: "java.lang.ArithmeticException", message: message.to_owned() }
}

fn zero_divisor(dividend: i128) -> ExprError {
    arithmetic(if dividend == 0 { "Division undefined" } else { "Division by zero" })
}

/// Quotient of values at scales `left_scale` and `right_scale`: rounded HALF_UP to 38 significant digits, then again to the
/// result's scale, as Flink does.
///
/// Fails where the divisor is zero, with BigDecimal's message.
pub fn divide(left: i128, left_scale: u8, right: i128, right_scale: u8, to: Digits) -> Result<Option<i128>, ExprError> {
    if right == 0 {
        return Err(zero_divisor(left));
    }
    if left == 0 {
        return Ok(Some(0));
    }
    // A quotient of d digits over a divisor of e digits with d + e <= 38 lies further from every tie than the first rounding
    // moves it, so that the first rounding can be left out. Below 10^36 the numerator bounds d + e by 37.
    let shift = i16::from(to.scale) + i16::from(right_scale) - i16::from(left_scale);
    if let Some(factor) = u32::try_from(shift).ok().and_then(pow10)
        && let Some(numerator) = left.checked_mul(factor)
        && numerator.unsigned_abs() < POW10[36].unsigned_abs()
    {
        let quotient = divide_half_up(numerator.abs(), right.abs());
        let quotient = if (left < 0) == (right < 0) { quotient } else { -quotient };
        return Ok(checked(quotient, to.precision));
    }
    Ok(divide_wide(left, left_scale, right, right_scale, to))
}

fn divide_wide(left: i128, left_scale: u8, right: i128, right_scale: u8, to: Digits) -> Option<i128> {
    let (dividend, divisor) = (i256::from_i128(left.checked_abs()?), i256::from_i128(right.checked_abs()?));
    // With this shift the quotient has 38 or 39 digits.
    let mut shift = MAX_DIGITS + digits(right) - digits(left);
    let limit = wide_pow10(MAX_DIGITS)?;
    if dividend.checked_mul(wide_pow10(shift)?)?.checked_div(divisor)? >= limit {
        shift -= 1;
    }
    let quotient = wide_divide_half_up(dividend.checked_mul(wide_pow10(shift)?)?, divisor)?;
    let quotient = if (left < 0) == (right < 0) { quotient } else { quotient.wrapping_neg() };
    let scale = i64::from(left_scale) - i64::from(right_scale) + i64::from(shift);
    wide_rescale(quotient, scale, to)
}

/// Number of decimal digits; 1 for zero.
fn digits(value: i128) -> u32 {
    value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1
}

/// Remainder of the truncated quotient: the sign is the dividend's.
///
/// Fails where the divisor is zero, and where the quotient's integer part needs more than 38 digits.
pub fn remainder(
    left: i128,
    left_scale: u8,
    right: i128,
    right_scale: u8,
    to: Digits,
) -> Result<Option<i128>, ExprError> {
    if right == 0 {
        return Err(zero_divisor(left));
    }
    let scale = left_scale.max(right_scale);
    let widen = |value: i128, from: u8| {
        wide_pow10(u32::from(scale - from)).and_then(|factor| i256::from_i128(value).checked_mul(factor))
    };
    let (Some(dividend), Some(divisor)) = (widen(left, left_scale), widen(right, right_scale)) else {
        return Ok(None);
    };
    if let (Some(dividend), Some(divisor)) = (dividend.to_i128(), divisor.to_i128())
        && digits(dividend) <= MAX_DIGITS
    {
        return Ok(rescale(dividend % divisor, scale, to));
    }
    let quotient = dividend.wrapping_div(divisor).wrapping_abs();
    let mut unit = i256::ONE;
    let mut rest = quotient;
    let ten = i256::from_i128(10);
    while wide_pow10(MAX_DIGITS).is_some_and(|limit| rest >= limit) {
        rest = rest.wrapping_div(ten);
        unit = unit.wrapping_mul(ten);
    }
    if quotient.wrapping_rem(unit) != i256::ZERO {
        return Err(arithmetic("Division impossible"));
    }
    Ok(wide_rescale(dividend.wrapping_rem(divisor), i64::from(scale), to))
}

/// Order of two decimals by value.
pub fn compare(left: i128, left_scale: u8, right: i128, right_scale: u8) -> std::cmp::Ordering {
    let scale = left_scale.max(right_scale);
    let widen = |value: i128, from: u8| pow10(u32::from(scale - from)).and_then(|factor| value.checked_mul(factor));
    match (widen(left, left_scale), widen(right, right_scale)) {
        (Some(left), Some(right)) => left.cmp(&right),
        // Only one side is scaled up, and what does not fit is larger than everything that does.
        (None, _) => left.cmp(&0),
        (_, None) => 0.cmp(&right),
    }
}

/// The nearest double as Flink computes it.
pub fn to_double(value: i128, from: Digits) -> f64 {
    if from.precision <= 18 {
        // At most 18 digits: both sides of the division are what Java's `(double) long` gives.
        #[expect(clippy::cast_precision_loss, reason = "Java's conversion, rounded to nearest alike")]
        return value as f64 / POW10[usize::from(from.scale)] as f64;
    }
    // Correctly rounded, as BigDecimal.doubleValue.
    format!("{value}e-{}", from.scale).parse().unwrap_or(f64::NAN)
}

/// Integer part, rounded towards zero, as the low 64 bits: BigDecimal.longValue.
pub fn to_long(value: i128, scale: u8) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "BigDecimal.longValue keeps the low 64 bits")]
    let low = (value / POW10[usize::from(scale)]) as i64;
    low
}

/// Integer part, rounded down or up.
pub fn round_to_integer(value: i128, scale: u8, up: bool) -> i128 {
    let unit = POW10[usize::from(scale)];
    let floor = value.div_euclid(unit);
    if up && value.rem_euclid(unit) != 0 { floor + 1 } else { floor }
}

/// ROUND to `places` digits behind the point, HALF_UP; negative places round before the point. `to` must have scale
/// max(places, 0).
pub fn round(value: i128, scale: u8, places: i32, to: Digits) -> Option<i128> {
    let dropped = i32::from(scale) - places;
    let Ok(dropped) = u32::try_from(dropped) else { return Some(value) };
    let Some(unit) = pow10(dropped) else { return Some(0) };
    let rounded = divide_half_up(value, unit);
    let back = u32::try_from(-places).unwrap_or(0);
    if rounded == 0 {
        return Some(0);
    }
    checked(rounded.checked_mul(pow10(back)?)?, to.precision)
}
