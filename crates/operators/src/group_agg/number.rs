//! Arithmetic of sums, as Java and Flink's decimals have it.

use super::native::Native;

/// 10^38: what an unscaled DECIMAL(38, s) stays below.
const DECIMAL_LIMIT: u128 = 10_u128.pow(38);

/// A number that SUM and AVG take.
pub(super) trait Number: Native {
    /// The sum; `None` where a decimal outgrows 38 digits. Integers wrap.
    fn plus(self, other: Self) -> Option<Self>;

    /// The difference, alike.
    fn minus(self, other: Self) -> Option<Self>;
}

macro_rules! wrapping_number {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            #[inline]
            fn plus(self, other: Self) -> Option<Self> {
                Some(self.wrapping_add(other))
            }

            #[inline]
            fn minus(self, other: Self) -> Option<Self> {
                Some(self.wrapping_sub(other))
            }
        }
    )*};
}

wrapping_number!(i8, i16, i32, i64);

macro_rules! float_number {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            #[inline]
            fn plus(self, other: Self) -> Option<Self> {
                Some(self + other)
            }

            #[inline]
            fn minus(self, other: Self) -> Option<Self> {
                Some(self - other)
            }
        }
    )*};
}

float_number!(f32, f64);

/// Unscaled decimals of one scale; no other type of 16 bytes is ever summed.
impl Number for i128 {
    #[inline]
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other).filter(fits)
    }

    #[inline]
    fn minus(self, other: Self) -> Option<Self> {
        self.checked_sub(other).filter(fits)
    }
}

#[inline]
fn fits(value: &i128) -> bool {
    value.unsigned_abs() < DECIMAL_LIMIT
}

/// `sum / count` of an unscaled `sum` at `scale`, as an unscaled decimal at `result_scale`, which is `scale` or at most 6
/// more. `None` if it has more than 38 digits. `count` must not be 0.
///
/// Flink divides to 38 significant digits, half up, and then rounds to the scale of the result, half up again.
pub(super) fn decimal_average(sum: i128, count: i64, scale: u32, result_scale: u32) -> Option<i128> {
    let (dividend, divisor) = (sum.unsigned_abs(), u128::from(count.unsigned_abs()));
    let (whole, rest) = (dividend / divisor, dividend % divisor);
    let shift = result_scale - scale;
    let magnitude = match 38_u32.checked_sub(digits(whole)) {
        // The divisor has at most 19 digits, so no quotient lies within 10^-20 of a half without being one: rounding to
        // 38 digits first changes nothing.
        Some(room) if rest == 0 || room >= shift + 20 => {
            let scaled = rest * 10_u128.pow(shift);
            let up = u128::from(scaled % divisor * 2 >= divisor);
            whole.checked_mul(10_u128.pow(shift))?.checked_add(scaled / divisor)?.checked_add(up)?
        }
        Some(room) => round_twice(whole, rest, divisor, room, shift)?,
        None => return None,
    };
    let magnitude = i128::try_from(magnitude).ok().filter(fits)?;
    Some(if (sum < 0) == (count < 0) { magnitude } else { -magnitude })
}

/// `whole + rest / divisor`, first rounded to `room` decimals, then to `shift` decimals, and scaled by 10^`shift`.
fn round_twice(whole: u128, rest: u128, divisor: u128, room: u32, shift: u32) -> Option<u128> {
    let mut coefficient = whole;
    let mut rest = rest;
    let mut left = room;
    while left > 0 {
        // rest < divisor < 2^63, so that the product fits
        let step = left.min(19);
        let scaled = rest * 10_u128.pow(step);
        coefficient = coefficient * 10_u128.pow(step) + scaled / divisor;
        rest = scaled % divisor;
        left -= step;
    }
    coefficient += u128::from(rest * 2 >= divisor);
    match room.checked_sub(shift) {
        Some(surplus) => {
            let unit = 10_u128.pow(surplus);
            Some(coefficient / unit + u128::from(coefficient % unit * 2 >= unit && surplus > 0))
        }
        None => coefficient.checked_mul(10_u128.pow(shift - room)),
    }
}

fn digits(value: u128) -> u32 {
    value.checked_ilog10().map_or(0, |log| log + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_rounds_half_up_at_the_scale_of_the_result() {
        // (sum, count, scale, result scale, average)
        let cases = [
            (100, 3, 2, 6, Some(333_333)),   // 1.00 / 3 = 0.333333
            (200, 3, 2, 6, Some(666_667)),   // 2.00 / 3 = 0.666667
            (-200, 3, 2, 6, Some(-666_667)), // away from zero
            (5, 2, 0, 6, Some(2_500_000)),   // exact
            (1, 2_000_000, 0, 6, Some(1)),   // 0.0000005 is a half
            (1, 2_000_001, 0, 6, Some(0)),   // just below
            (0, 7, 3, 6, Some(0)),           // zero
            (7, -2, 0, 6, Some(-3_500_000)), // a negative count, after stray retractions
            (i128::from(i64::MAX), 1, 10, 10, Some(i128::from(i64::MAX))),
        ];
        for (sum, count, scale, result_scale, average) in cases {
            assert_eq!(decimal_average(sum, count, scale, result_scale), average, "{sum} / {count}");
        }
    }

    #[test]
    fn average_of_too_many_digits_is_null() {
        let sum = 10_i128.pow(37);
        assert_eq!(decimal_average(sum, 1, 0, 6), None);
        assert_eq!(decimal_average(sum, 3, 0, 6), None);
        assert_eq!(decimal_average(10_i128.pow(31), 1, 0, 6), Some(10_i128.pow(37)));
    }

    #[test]
    fn average_is_rounded_to_38_digits_first() {
        // 37 digits before the point leave one behind it: ...2.46 becomes ...2.5 and then ...3
        let whole = 10_i128.pow(36) + 2;
        let sum = whole * 50 + 23; // 23 / 50 = 0.46
        assert_eq!(decimal_average(sum, 50, 10, 10), Some(whole + 1));
    }

    #[test]
    fn decimal_sum_overflows_at_38_digits() {
        let largest = 10_i128.pow(38) - 1;
        assert_eq!(largest.plus(1), None);
        assert_eq!((-largest).minus(1), None);
        assert_eq!(largest.minus(1), Some(largest - 1));
    }
}
