//! Decimal texts as Java's `BigDecimal` writes them.

/// `digits * 10^-scale`, from a text such as `-12.50`, `1E+3` or `.5`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    digits: String,
    scale: i64,
}

impl Decimal {
    /// `None` for a text that is no decimal number.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => {
                let exponent = unsigned.get(at + 1..)?;
                (unsigned.get(..at)?, i64::from(exponent.strip_prefix('+').unwrap_or(exponent).parse::<i32>().ok()?))
            }
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let scale = i64::try_from(fraction.len()).ok()? - exponent;
        Some(Self { negative, digits, scale })
    }

    /// The value times `10^scale`; `None` if that is no integer or does not fit.
    pub(crate) fn unscaled(&self, scale: u8) -> Option<i128> {
        let trimmed = self.digits.trim_start_matches('0');
        if trimmed.is_empty() {
            return Some(0);
        }
        let shift = i64::from(scale) - self.scale;
        let significant = if shift >= 0 {
            if shift > 38 {
                return None;
            }
            let zeros = usize::try_from(shift).ok()?;
            format!("{trimmed}{}", "0".repeat(zeros))
        } else {
            let cut = usize::try_from(-shift).ok()?;
            let keep = trimmed.len().checked_sub(cut)?;
            let (kept, lost) = trimmed.split_at_checked(keep)?;
            if lost.bytes().any(|b| b != b'0') {
                return None;
            }
            kept.to_owned()
        };
        let magnitude: i128 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
        Some(if self.negative { -magnitude } else { magnitude })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_is_scaled_exactly_or_refused() {
        let unscaled = |text: &str, scale| Decimal::parse(text).and_then(|d| d.unscaled(scale));
        assert_eq!(unscaled("0.908", 3), Some(908));
        assert_eq!(unscaled("-12.5", 3), Some(-12_500));
        assert_eq!(unscaled("1E+3", 0), Some(1000));
        assert_eq!(unscaled("1.20", 1), Some(12));
        assert_eq!(unscaled("1.25", 1), None);
        assert_eq!(unscaled("0E-18", 2), Some(0));
        assert_eq!(unscaled("1E+999999999", 0), None);
        assert_eq!(unscaled("1E-999999999", 0), None);
        assert_eq!(unscaled(&"9".repeat(400), 0), None);
        for text in ["", ".", "NaN", "1e", "1.2.3", "--1", "1 "] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }
}
