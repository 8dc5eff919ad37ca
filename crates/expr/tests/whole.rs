//! NULL where the type says NOT NULL, and `<>` of ROWs: what Flink's own code must evaluate from the root.
#![allow(clippy::unwrap_used, clippy::panic)]

mod build;

use build::*;
use streamfusion_expr::{compile, evaluate, host_calls};
use streamfusion_plan::rex::{Function, Literal, Rex};
use streamfusion_plan::types::{Field, LogicalType, TypeKind};

fn not_null(rex: Rex) -> Rex {
    match rex {
        Rex::InputRef { index, ty } => Rex::InputRef { index, ty: LogicalType { nullable: false, ..ty } },
        Rex::Literal { value, ty } => Rex::Literal { value, ty: LogicalType { nullable: false, ..ty } },
        Rex::Call { function, operands, ty } => {
            Rex::Call { function, operands, ty: LogicalType { nullable: false, ..ty } }
        }
        other => other,
    }
}

fn column(index: usize, kind: TypeKind) -> Rex {
    not_null(col(index, kind))
}

fn f(name: &str, operands: Vec<Rex>, kind: TypeKind) -> Rex {
    not_null(call(name, operands, kind))
}

fn cast(rex: Rex, kind: TypeKind) -> Rex {
    f("CAST", vec![rex], kind)
}

/// Pointers of the JVM expressions.
fn hosts(rex: &Rex, pointer: &str) -> Vec<String> {
    host_calls(rex, pointer).unwrap().into_iter().map(|call| call.pointer).collect()
}

#[track_caller]
fn check_whole(rex: &Rex) {
    assert_eq!(hosts(rex, "/projection/0"), ["/projection/0"], "{rex:?}");
}

#[track_caller]
fn check_native(rex: &Rex) {
    assert_eq!(hosts(rex, "/projection/0"), [""; 0], "{rex:?}");
}

#[test]
fn an_overflow_below_another_not_null_type_is_left_to_flink() {
    let narrow = || cast(column(0, INT), dec(3, 0));
    check_whole(&f(">", vec![narrow(), int(5, INT)], BOOLEAN));
    check_whole(&cast(narrow(), INT));
    check_whole(&cast(f("*", vec![column(0, dec(38, 2)), column(0, dec(38, 2))], dec(38, 4)), DOUBLE));
    check_whole(&f("CHAR_LENGTH", vec![cast(cast(column(0, DOUBLE), dec(10, 2)), STRING)], INT));
    check_whole(&f("AND", vec![column(1, BOOLEAN), f("=", vec![narrow(), column(2, INT)], BOOLEAN)], BOOLEAN));
    let calls = host_calls(&cast(narrow(), INT), "/projection/0").unwrap();
    let reason = "CAST may exceed DECIMAL(3, 0) NOT NULL, and Flink computes on with a default";
    assert_eq!(calls[0].reason.to_string(), reason);
    // NULL stays NULL.
    check_native(&narrow());
    check_native(&f("+", vec![narrow(), column(1, dec(3, 0))], dec(4, 0)));
    check_native(&call("CAST", vec![narrow()], INT));
    check_native(&cast(call("CAST", vec![col(0, INT)], dec(3, 0)), INT));
}

#[test]
fn decimals_that_cannot_overflow_stay_native() {
    let price = || column(0, dec(15, 2));
    let discounted = || f("-", vec![not_null(int(1, INT)), column(1, dec(15, 2))], dec(16, 2));
    for number in [
        cast(column(0, INT), dec(10, 0)),
        cast(column(0, BIGINT), dec(21, 2)),
        cast(column(0, dec(10, 2)), dec(9, 0)),
        f("*", vec![price(), discounted()], dec(31, 4)),
        f("*", vec![column(0, dec(30, 4)), not_null(int(2, INT))], dec(38, 4)),
        f("*", vec![column(0, dec(20, 10)), column(1, dec(20, 10))], dec(38, 18)),
        f("/", vec![column(0, dec(10, 2)), column(1, dec(10, 2))], dec(23, 13)),
        f("MOD", vec![column(0, dec(10, 2)), column(1, dec(12, 2))], dec(10, 2)),
        f("ROUND", vec![price(), int(1, INT)], dec(15, 1)),
        f("FLOOR", vec![price()], dec(15, 0)),
        f("-", vec![price()], dec(15, 2)),
        f("CASE", vec![column(1, BOOLEAN), price(), column(0, dec(15, 2))], dec(15, 2)),
    ] {
        check_native(&f(">", vec![number, column(0, dec(15, 2))], BOOLEAN));
    }
    for number in [
        cast(column(0, INT), dec(10, 1)),
        cast(column(0, dec(10, 2)), dec(8, 0)),
        f("*", vec![column(0, dec(31, 4)), column(1, dec(16, 2))], dec(38, 6)),
        f("/", vec![column(0, dec(38, 2)), column(1, dec(38, 2))], dec(38, 6)),
        f("+", vec![column(0, dec(38, 0)), column(1, dec(38, 0))], dec(38, 0)),
    ] {
        check_whole(&f(">", vec![number, column(0, dec(15, 2))], BOOLEAN));
    }
}

#[test]
fn a_negative_length_makes_null_and_whatever_is_computed_from_it_is_left_to_flink() {
    let filler = |text: &str| not_null(lit(Literal::String(text.to_owned()), TypeKind::Char(1)));
    let pad = |length: Rex, text: &str| f("LPAD", vec![column(0, STRING), length, filler(text)], STRING);
    let rows = batch(vec![texts(vec![Some("a"), Some("b")]), i32s(vec![Some(-1), Some(2)])]);
    check(pad(column(1, INT), "x"), &rows, &["NULL", "xb"]);
    check(f("CHAR_LENGTH", vec![pad(not_null(int(3, INT)), "x")], INT), &rows, &["3", "3"]);
    for null in [pad(column(1, INT), "x"), pad(not_null(int(3, INT)), ""), pad(not_null(int(-3, INT)), "x")] {
        check_whole(&f("CHAR_LENGTH", vec![null], INT));
    }
}

#[test]
fn a_null_of_a_not_null_column_becomes_the_default() {
    let rows = batch(vec![decs(vec![Some(700), None], 10, 2)]);
    let d = || column(0, dec(10, 2));
    let seven = || not_null(lit(Literal::Decimal(700), dec(3, 2)));
    let check = |rex: Rex, expected: [&str; 2]| {
        let compiled = compile(&rex, "/p", &|_| None).unwrap();
        assert_eq!(shown(&evaluate(&compiled, &rows).unwrap()), expected, "{rex:?}");
    };
    check(cast(d(), INT), ["7", "-1"]);
    check(cast(d(), DOUBLE), ["7.0", "-1.0"]);
    check(cast(d(), STRING), ["7.00", ""]);
    check(f("=", vec![d(), seven()], BOOLEAN), ["true", "false"]);
    check(f("NOT", vec![f("=", vec![d(), seven()], BOOLEAN)], BOOLEAN), ["false", "false"]);
    check(call("CAST", vec![d()], INT), ["7", "NULL"]);
    check(f("+", vec![d(), seven()], dec(11, 2)), ["14.00", "NULL"]);
}

#[test]
fn a_jvm_expression_that_may_be_null_hides_that_from_no_native_call() {
    let time = || f("FROM_UNIXTIME", vec![column(0, BIGINT), column(1, STRING)], STRING);
    check_whole(&f("CHAR_LENGTH", vec![time()], INT));
    check_whole(&f("CHAR_LENGTH", vec![f("UPPER", vec![time()], STRING)], INT));
    let text = not_null(user(vec![column(1, STRING)], STRING));
    check_whole(&f("CHAR_LENGTH", vec![text], INT));
    let upper = f("UPPER", vec![column(1, STRING)], STRING);
    assert_eq!(hosts(&f("CHAR_LENGTH", vec![upper], INT), "/p"), ["/p/operands/0"]);
    let number = Rex::Call {
        function: Function::User("F".to_owned()),
        operands: vec![column(0, INT)],
        ty: LogicalType { kind: INT, nullable: false },
    };
    assert_eq!(hosts(&f("+", vec![number, column(0, INT)], INT), "/p"), ["/p/operands/0"]);
}

#[test]
fn unequal_rows_are_left_to_flink_together_with_what_looks_at_them() {
    let row = TypeKind::Row([Field { name: "x".to_owned(), ty: nullable(INT) }].into());
    let unequal = || call("<>", vec![col(0, row.clone()), col(1, row.clone())], BOOLEAN);
    let positive = || call(">", vec![col(2, INT), int(0, INT)], BOOLEAN);
    check_whole(&unequal());
    check_whole(&f("IS TRUE", vec![unequal()], BOOLEAN));
    check_whole(&call("CASE", vec![unequal(), col(2, INT), int(0, INT)], INT));
    check_whole(&call("AND", vec![positive(), call("NOT", vec![unequal()], BOOLEAN)], BOOLEAN));
    let both = call("AND", vec![positive(), unequal()], BOOLEAN);
    assert_eq!(hosts(&both, "/condition"), ["/condition"]);
    let reason = "a condition ROW <> ROW holds in Flink where a side is NULL";
    assert_eq!(host_calls(&unequal(), "/condition").unwrap_err().to_string(), reason);
    let equal = call("=", vec![col(0, row.clone()), col(1, row)], BOOLEAN);
    assert_eq!(hosts(&call("AND", vec![positive(), equal], BOOLEAN), "/condition"), ["/condition/operands/1"]);
}
