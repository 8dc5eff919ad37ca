//! Decimal arithmetic against java.math.BigDecimal.
//!
//! Each line of `decimal_vectors.csv` was computed by a JDK 17 with BigDecimal in the way that Flink's DecimalDataUtils calls
//! it: operation; left unscaled, precision, scale; right unscaled, precision, scale; precision and scale of the result;
//! places of ROUND; result (an unscaled value, NULL, an exception's message, or the bits of a double).
#![allow(clippy::unwrap_used, clippy::panic)]

use streamfusion_expr::ExprError;
use streamfusion_expr::functions::decimal::{self, Digits};

fn shown(value: Option<i128>) -> String {
    value.map_or("NULL".to_owned(), |value| value.to_string())
}

fn outcome(value: Result<Option<i128>, ExprError>) -> String {
    match value {
        Ok(value) => shown(value),
        Err(ExprError::Java { class: "java.lang.ArithmeticException", message }) => message,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn decimals_equal_big_decimal() {
    let mut lines = 0;
    for line in include_str!("decimal_vectors.csv").lines() {
        let fields: Vec<&str> = line.split(';').collect();
        let [op, u1, p1, s1, u2, _, s2, p, s, places, expected] = fields[..] else { panic!("{line}") };
        let (left, right): (i128, i128) = (u1.parse().unwrap(), u2.parse().unwrap());
        let (a, b): (u8, u8) = (s1.parse().unwrap(), s2.parse().unwrap());
        let from = Digits { precision: p1.parse().unwrap(), scale: a };
        let to = Digits { precision: p.parse().unwrap(), scale: s.parse().unwrap() };
        let found = match op {
            "add" => shown(decimal::add(left, a, right, b, to)),
            "multiply" => shown(decimal::multiply(left, a, right, b, to)),
            "divide" => outcome(decimal::divide(left, a, right, b, to)),
            "remainder" => outcome(decimal::remainder(left, a, right, b, to)),
            "compare" => (decimal::compare(left, a, right, b) as i8).to_string(),
            "rescale" => shown(decimal::rescale(left, a, to)),
            "round" => shown(decimal::round(left, a, places.parse().unwrap(), to)),
            "to_double" => (decimal::to_double(left, from).to_bits() as i64).to_string(),
            "to_long" => decimal::to_long(left, a).to_string(),
            "floor" => decimal::round_to_integer(left, a, false).to_string(),
            "ceil" => decimal::round_to_integer(left, a, true).to_string(),
            _ => panic!("{line}"),
        };
        assert_eq!(found, expected, "{line}");
        lines += 1;
    }
    assert_eq!(lines, 440);
}
