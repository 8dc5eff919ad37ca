//! Numbers: Java's arithmetic, comparisons and conversions, value by value.
#![allow(clippy::unwrap_used, clippy::panic)]

mod build;

use build::*;
use streamfusion_expr::supports;
use streamfusion_plan::rex::Literal;

const MIN: i32 = i32::MIN;
const MAX: i32 = i32::MAX;

#[test]
fn integers_wrap_around() {
    let ints =
        batch(vec![i32s(vec![Some(MAX), Some(MIN), Some(7), None]), i32s(vec![Some(1), Some(-1), None, Some(1)])]);
    let operands = || vec![col(0, INT), col(1, INT)];
    check(call("+", operands(), INT), &ints, &["-2147483648", "2147483647", "NULL", "NULL"]);
    check(call("-", operands(), INT), &ints, &["2147483646", "-2147483647", "NULL", "NULL"]);
    check(call("*", operands(), INT), &ints, &["2147483647", "-2147483648", "NULL", "NULL"]);
    check(call("/", operands(), INT), &ints, &["2147483647", "-2147483648", "NULL", "NULL"]);
    check(call("MOD", operands(), INT), &ints, &["0", "0", "NULL", "NULL"]);
    check(call("-", vec![col(0, INT)], INT), &ints, &["-2147483647", "-2147483648", "-7", "NULL"]);
    check(call("ABS", vec![col(0, INT)], INT), &ints, &["2147483647", "-2147483648", "7", "NULL"]);
    let bytes = batch(vec![i8s(vec![Some(127), Some(-128)]), i8s(vec![Some(1), Some(-1)])]);
    let operands = || vec![col(0, TINYINT), col(1, TINYINT)];
    check(call("+", operands(), TINYINT), &bytes, &["-128", "127"]);
    check(call("/", operands(), TINYINT), &bytes, &["127", "-128"]);
    check(call("MOD", operands(), TINYINT), &bytes, &["0", "0"]);
    let mixed = batch(vec![i64s(vec![Some(i64::MAX), Some(-7)]), i32s(vec![Some(1), Some(3)])]);
    check(call("+", vec![col(0, BIGINT), col(1, INT)], BIGINT), &mixed, &["-9223372036854775808", "-4"]);
    check(call("MOD", vec![col(0, BIGINT), col(1, INT)], INT), &mixed, &["0", "-1"]);
    check(call("*", vec![col(1, INT), int(3, INT)], INT), &mixed, &["3", "9"]);
    check(call("-", vec![int(3, INT), col(1, INT)], INT), &mixed, &["2", "0"]);
}

#[test]
fn integer_division_by_zero_fails_as_in_java() {
    let ints = batch(vec![i32s(vec![Some(1), None]), i32s(vec![Some(1), Some(0)])]);
    check(call("/", vec![col(0, INT), col(1, INT)], INT), &ints, &["1", "NULL"]);
    let zeros = batch(vec![i32s(vec![Some(1), Some(2)]), i32s(vec![Some(1), Some(0)])]);
    for name in ["/", "MOD"] {
        let fails = call(name, vec![col(0, INT), col(1, INT)], INT);
        check_fails(fails, &zeros, "java.lang.ArithmeticException", "/ by zero");
        let constant = call(name, vec![int(1, INT), int(0, INT)], INT);
        check_fails(constant.clone(), &zeros, "java.lang.ArithmeticException", "/ by zero");
        check(constant, &zeros.slice(0, 0), &[]);
    }
}

#[test]
fn floating_point_follows_ieee() {
    let doubles = batch(vec![
        f64s(vec![Some(1.0), Some(-1.0), Some(0.0), Some(5.5), None]),
        f64s(vec![Some(0.0), Some(-0.0), Some(0.0), Some(-2.0), Some(1.0)]),
    ]);
    let operands = || vec![col(0, DOUBLE), col(1, DOUBLE)];
    check(call("/", operands(), DOUBLE), &doubles, &["inf", "inf", "NaN", "-2.75", "NULL"]);
    check(call("MOD", operands(), DOUBLE), &doubles, &["NaN", "NaN", "NaN", "1.5", "NULL"]);
    check(call("-", vec![col(0, DOUBLE)], DOUBLE), &doubles, &["-1.0", "1.0", "-0.0", "-5.5", "NULL"]);
    check(call("*", vec![col(0, DOUBLE), int(-1, INT)], DOUBLE), &doubles, &["-1.0", "1.0", "-0.0", "-5.5", "NULL"]);
    let halves = batch(vec![f64s(vec![Some(-0.5), Some(0.5), Some(-0.0), Some(f64::NAN), Some(1e300)])]);
    check(call("CEIL", vec![col(0, DOUBLE)], DOUBLE), &halves, &["-0.0", "1.0", "-0.0", "NaN", "1e300"]);
    check(call("FLOOR", vec![col(0, DOUBLE)], DOUBLE), &halves, &["-1.0", "0.0", "-0.0", "NaN", "1e300"]);
    check(call("ABS", vec![col(0, DOUBLE)], DOUBLE), &halves, &["0.5", "0.5", "0.0", "NaN", "1e300"]);
}

#[test]
fn numbers_compare_as_java_primitives() {
    let nan = f64::NAN;
    let doubles = batch(vec![
        f64s(vec![Some(nan), Some(nan), Some(-0.0), Some(1.0), None]),
        f64s(vec![Some(nan), Some(1.0), Some(0.0), Some(2.0), Some(1.0)]),
    ]);
    let operands = || vec![col(0, DOUBLE), col(1, DOUBLE)];
    check(call("=", operands(), BOOLEAN), &doubles, &["false", "false", "true", "false", "NULL"]);
    check(call("<>", operands(), BOOLEAN), &doubles, &["true", "true", "false", "true", "NULL"]);
    check(call("<", operands(), BOOLEAN), &doubles, &["false", "false", "false", "true", "NULL"]);
    check(call(">=", operands(), BOOLEAN), &doubles, &["false", "false", "true", "false", "NULL"]);
    check(call("IS DISTINCT FROM", operands(), BOOLEAN), &doubles, &["true", "true", "false", "true", "true"]);
    check(call("IS NOT DISTINCT FROM", operands(), BOOLEAN), &doubles, &["false", "false", "true", "false", "false"]);
    check(call("GREATEST", operands(), DOUBLE), &doubles, &["NaN", "NaN", "0.0", "2.0", "NULL"]);
    check(call("LEAST", operands(), DOUBLE), &doubles, &["NaN", "1.0", "-0.0", "1.0", "NULL"]);
    // A long compared with a float becomes a float, with a double a double.
    let large =
        batch(vec![i64s(vec![Some(16_777_217)]), f32s(vec![Some(16_777_216.0)]), f64s(vec![Some(16_777_216.0)])]);
    check(call("=", vec![col(0, BIGINT), col(1, FLOAT)], BOOLEAN), &large, &["true"]);
    check(call("=", vec![col(0, BIGINT), col(2, DOUBLE)], BOOLEAN), &large, &["false"]);
    let ints = batch(vec![i32s(vec![Some(-1), Some(5)]), i64s(vec![Some(4_294_967_295), Some(5)])]);
    check(call("=", vec![col(0, INT), col(1, BIGINT)], BOOLEAN), &ints, &["false", "true"]);
    check(call("<", vec![col(0, INT), int(5, INT)], BOOLEAN), &ints, &["true", "false"]);
    check(call("<", vec![int(0, INT), col(0, INT)], BOOLEAN), &ints, &["false", "true"]);
    check(call("=", vec![col(0, INT), lit(Literal::Null, INT)], BOOLEAN), &ints, &["NULL", "NULL"]);
}

#[test]
fn decimals_compare_by_value() {
    let values = batch(vec![
        decs(vec![Some(150), Some(-100), Some(0), None], 5, 2),
        decs(vec![Some(15), Some(-11), Some(0), Some(1)], 20, 1),
        i64s(vec![Some(1), Some(-1), Some(i64::MIN), Some(1)]),
        f64s(vec![Some(1.5), Some(f64::NAN), Some(-0.0), Some(1.0)]),
    ]);
    check(call("=", vec![col(0, dec(5, 2)), col(1, dec(20, 1))], BOOLEAN), &values, &["true", "false", "true", "NULL"]);
    check(
        call("<", vec![col(1, dec(20, 1)), col(0, dec(5, 2))], BOOLEAN),
        &values,
        &["false", "true", "false", "NULL"],
    );
    check(call(">", vec![col(0, dec(5, 2)), col(2, BIGINT)], BOOLEAN), &values, &["true", "false", "true", "NULL"]);
    // Double.compare: -0.0 is below 0.0, NaN is the greatest.
    check(call("=", vec![col(0, dec(5, 2)), col(3, DOUBLE)], BOOLEAN), &values, &["true", "false", "false", "NULL"]);
    check(call("<", vec![col(0, dec(5, 2)), col(3, DOUBLE)], BOOLEAN), &values, &["false", "true", "false", "NULL"]);
}

#[test]
fn decimal_arithmetic_takes_the_types_of_the_plan() {
    let values = batch(vec![
        decs(vec![Some(1050), Some(-333), None], 10, 2),
        decs(vec![Some(200), Some(300), Some(100)], 10, 2),
        i32s(vec![Some(3), Some(-3), Some(0)]),
    ]);
    let operands = || vec![col(0, dec(10, 2)), col(1, dec(10, 2))];
    check(call("+", operands(), dec(11, 2)), &values, &["12.50", "-0.33", "NULL"]);
    check(call("-", operands(), dec(11, 2)), &values, &["8.50", "-6.33", "NULL"]);
    check(call("*", operands(), dec(20, 4)), &values, &["21.0000", "-9.9900", "NULL"]);
    check(call("/", operands(), dec(23, 13)), &values, &["5.2500000000000", "-1.1100000000000", "NULL"]);
    check(call("MOD", operands(), dec(10, 2)), &values, &["0.50", "-0.33", "NULL"]);
    check(call("*", vec![col(0, dec(10, 2)), col(2, INT)], dec(20, 2)), &values, &["31.50", "9.99", "NULL"]);
    check(call("-", vec![col(0, dec(10, 2))], dec(10, 2)), &values, &["-10.50", "3.33", "NULL"]);
    let nines = i128::pow(10, 38) - 1;
    let large = batch(vec![decs(vec![Some(nines), Some(-nines), Some(1)], 38, 0)]);
    check(
        call("+", vec![col(0, dec(38, 0)), int(1, INT)], dec(38, 0)),
        &large,
        &["NULL", &(1 - nines).to_string(), "2"],
    );
    check(call("*", vec![col(0, dec(38, 0)), col(0, dec(38, 0))], dec(38, 0)), &large, &["NULL", "NULL", "1"]);
    let zero = call("/", vec![col(0, dec(38, 0)), int(0, INT)], dec(38, 6));
    check_fails(zero, &large, "java.lang.ArithmeticException", "Division by zero");
}

#[test]
fn casts_narrow_as_java_does() {
    let wide = batch(vec![
        i64s(vec![Some(4_294_967_297), Some(-129), None]),
        f64s(vec![Some(f64::NAN), Some(3e9), Some(-1e30)]),
        decs(vec![Some(12_345), Some(-99_999), None], 5, 2),
    ]);
    let cast = |column, to| call("CAST", vec![column], to);
    check(cast(col(0, BIGINT), INT), &wide, &["1", "-129", "NULL"]);
    check(cast(col(0, BIGINT), TINYINT), &wide, &["1", "127", "NULL"]);
    check(cast(col(1, DOUBLE), INT), &wide, &["0", "2147483647", "-2147483648"]);
    check(cast(col(1, DOUBLE), TINYINT), &wide, &["0", "-1", "0"]);
    check(cast(col(1, DOUBLE), BIGINT), &wide, &["0", "3000000000", "-9223372036854775808"]);
    check(cast(col(1, DOUBLE), BOOLEAN), &wide, &["true", "true", "true"]);
    check(cast(col(2, dec(5, 2)), INT), &wide, &["123", "-999", "NULL"]);
    check(cast(col(2, dec(5, 2)), TINYINT), &wide, &["123", "25", "NULL"]);
    check(cast(col(2, dec(5, 2)), DOUBLE), &wide, &["123.45", "-999.99", "NULL"]);
    check(cast(col(2, dec(5, 2)), dec(4, 1)), &wide, &["123.5", "NULL", "NULL"]);
    check(call("TRY_CAST", vec![col(0, BIGINT)], dec(12, 2)), &wide, &["4294967297.00", "-129.00", "NULL"]);
    check(cast(col(0, BIGINT), dec(5, 2)), &wide, &["NULL", "-129.00", "NULL"]);
    let flags = batch(vec![bools(vec![Some(true), Some(false), None])]);
    check(cast(col(0, BOOLEAN), INT), &flags, &["1", "0", "NULL"]);
    check(cast(col(0, BOOLEAN), dec(2, 2)), &flags, &["NULL", "0.00", "NULL"]);
    check(cast(col(0, BOOLEAN), BOOLEAN), &flags, &["true", "false", "NULL"]);
    assert!(supports(&cast(col(1, DOUBLE), dec(5, 2))).is_err());
}

#[test]
fn rounding_is_half_up() {
    let values = batch(vec![
        decs(vec![Some(12_345), Some(-12_345), Some(-99_995), None], 5, 3),
        i32s(vec![Some(15), Some(-25), Some(MAX), None]),
        i8s(vec![Some(127), Some(-125), Some(4), None]),
    ]);
    let round = |column, places: i64, to| call("ROUND", vec![column, int(places, INT)], to);
    check(round(col(0, dec(5, 3)), 2, dec(5, 2)), &values, &["12.35", "-12.35", "-100.00", "NULL"]);
    check(round(col(0, dec(5, 3)), -1, dec(3, 0)), &values, &["10", "-10", "-100", "NULL"]);
    check(round(col(0, dec(5, 3)), 7, dec(5, 3)), &values, &["12.345", "-12.345", "-99.995", "NULL"]);
    check(call("ROUND", vec![col(0, dec(5, 3))], dec(3, 0)), &values, &["12", "-12", "-100", "NULL"]);
    check(call("CEIL", vec![col(0, dec(5, 3))], dec(5, 0)), &values, &["13", "-12", "-99", "NULL"]);
    check(call("FLOOR", vec![col(0, dec(5, 3))], dec(5, 0)), &values, &["12", "-13", "-100", "NULL"]);
    check(round(col(1, INT), -1, INT), &values, &["20", "-30", "-2147483646", "NULL"]);
    check(round(col(1, INT), 3, INT), &values, &["15", "-25", "2147483647", "NULL"]);
    check(round(col(2, TINYINT), -1, TINYINT), &values, &["-126", "126", "0", "NULL"]);
    assert!(supports(&call("ROUND", vec![col(0, DOUBLE)], DOUBLE)).is_err());
    assert!(supports(&round(col(1, INT), i64::from(i32::MIN), INT)).is_err());
    assert!(supports(&call("POWER", vec![col(0, DOUBLE), int(2, INT)], DOUBLE)).is_err());
}
