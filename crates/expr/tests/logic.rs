//! Three-valued logic, conditional evaluation, SEARCH, rows and host calls.
#![allow(clippy::unwrap_used, clippy::panic)]

mod build;

use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, BooleanArray, Int32Array, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field as ArrowField};
use build::*;
use streamfusion_expr::{ExprError, HostFunction, compile, evaluate, host_calls, supports};
use streamfusion_plan::rex::{Literal, Rex, Sarg, SargBound, SargRange};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};

fn three_values() -> arrow::array::RecordBatch {
    let values = [Some(true), Some(false), None];
    let left = values.iter().flat_map(|v| [*v; 3]).collect();
    let right = values.iter().cycle().take(9).copied().collect();
    batch(vec![bools(left), bools(right)])
}

#[test]
fn logic_has_three_values() {
    let all = three_values();
    let operands = || vec![col(0, BOOLEAN), col(1, BOOLEAN)];
    let (t, f, n) = ("true", "false", "NULL");
    check(call("AND", operands(), BOOLEAN), &all, &[t, f, n, f, f, f, n, f, n]);
    check(call("OR", operands(), BOOLEAN), &all, &[t, t, t, t, f, n, t, n, n]);
    let few = all.slice(2, 3);
    let unary = |name: &str| call(name, vec![col(1, BOOLEAN)], BOOLEAN);
    check(unary("NOT"), &few, &[n, f, t]);
    check(unary("IS TRUE"), &few, &[f, t, f]);
    check(unary("IS NOT TRUE"), &few, &[t, f, t]);
    check(unary("IS FALSE"), &few, &[f, f, t]);
    check(unary("IS NOT FALSE"), &few, &[t, t, f]);
    check(unary("IS NULL"), &few, &[t, f, f]);
    check(unary("IS NOT NULL"), &few, &[f, t, t]);
    check(call("<", operands(), BOOLEAN), &all, &[f, f, n, t, f, n, n, n, n]);
}

#[test]
fn a_guarded_division_does_not_fail_for_excluded_rows() {
    let rows =
        batch(vec![i32s(vec![Some(6), Some(6), None, Some(-8)]), i32s(vec![Some(3), Some(0), Some(0), Some(2)])]);
    let quotient = || call("/", vec![col(0, INT), col(1, INT)], INT);
    let guard = || call("<>", vec![col(1, INT), int(0, INT)], BOOLEAN);
    let positive = || call(">", vec![quotient(), int(0, INT)], BOOLEAN);
    check(call("CASE", vec![guard(), quotient(), int(-1, INT)], INT), &rows, &["2", "-1", "-1", "-4"]);
    check(call("IF", vec![guard(), quotient(), int(-1, INT)], INT), &rows, &["2", "-1", "-1", "-4"]);
    check(call("AND", vec![guard(), positive()], BOOLEAN), &rows, &["true", "false", "false", "false"]);
    let zero = call("=", vec![col(1, INT), int(0, INT)], BOOLEAN);
    check(call("OR", vec![zero, positive()], BOOLEAN), &rows, &["true", "true", "true", "false"]);
    // The other order fails, as in Flink.
    check_fails(call("AND", vec![positive(), guard()], BOOLEAN), &rows, "java.lang.ArithmeticException", "/ by zero");
    let later_condition = call("CASE", vec![guard(), int(1, INT), positive(), int(2, INT), int(3, INT)], INT);
    check_fails(later_condition, &rows, "java.lang.ArithmeticException", "/ by zero");
}

#[test]
fn case_takes_the_first_true_condition_and_casts_its_results() {
    let rows = batch(vec![i32s(vec![Some(1), Some(2), Some(3), None])]);
    let is = |v: i64| call("=", vec![col(0, INT), int(v, INT)], BOOLEAN);
    let case = call("CASE", vec![is(1), int(10, INT), is(2), int(20, INT), is(1), int(30, INT), int(40, INT)], INT);
    check(case, &rows, &["10", "20", "40", "40"]);
    let null = lit(Literal::Null, TypeKind::Null);
    check(call("CASE", vec![is(1), null, col(0, INT)], INT), &rows, &["NULL", "2", "3", "NULL"]);
    check(call("CASE", vec![is(1), col(0, INT), int(7, BIGINT)], BIGINT), &rows, &["1", "7", "7", "7"]);
    let text = |s: &str, n| lit(Literal::String(s.to_owned()), TypeKind::Char(n));
    check(
        call("CASE", vec![is(1), text("one", 3), text("other", 5)], STRING),
        &rows,
        &["one", "other", "other", "other"],
    );
    check(call("COALESCE", vec![col(0, INT), int(9, INT)], INT), &rows, &["1", "2", "3", "9"]);
    check(call("IF", vec![is(1), col(0, INT), int(7, BIGINT)], BIGINT), &rows, &["1", "7", "7", "7"]);
    check(
        call("IF", vec![is(1), text("one", 3), text("other", 5)], STRING),
        &rows,
        &["one", "other", "other", "other"],
    );
    let overflowing = call("IF", vec![is(1), col(0, INT), lit(Literal::Decimal(7), dec(1, 0))], dec(1, 0));
    assert!(supports(&overflowing).is_err());
}

fn search(kind: TypeKind, ranges: Vec<SargRange>, null_as: Option<bool>) -> Rex {
    let sarg = Sarg { ranges, null_as, ty: LogicalType { kind: kind.clone(), nullable: false } };
    Rex::Search { operand: Box::new(col(0, kind)), sarg, ty: nullable(BOOLEAN) }
}

fn bound(value: &Literal, inclusive: bool) -> Option<SargBound> {
    Some(SargBound { value: value.clone(), inclusive })
}

fn point(value: Literal) -> SargRange {
    SargRange { lower: bound(&value, true), upper: bound(&value, true) }
}

fn between(lower: i64, lower_in: bool, upper: i64, upper_in: bool) -> SargRange {
    SargRange { lower: bound(&Literal::Integer(lower), lower_in), upper: bound(&Literal::Integer(upper), upper_in) }
}

#[test]
fn search_knows_points_ranges_and_nulls() {
    let ints = batch(vec![i32s(vec![Some(1), Some(5), Some(7), Some(10), None])]);
    let points = || vec![point(Literal::Integer(1)), point(Literal::Integer(7))];
    let (t, f, n) = ("true", "false", "NULL");
    check(search(INT, points(), None), &ints, &[t, f, t, f, n]);
    check(search(INT, points(), Some(true)), &ints, &[t, f, t, f, t]);
    check(search(INT, points(), Some(false)), &ints, &[t, f, t, f, f]);
    let many = (0..20).map(|v| point(Literal::Integer(v * 5))).collect();
    check(search(INT, many, None), &ints, &[f, t, f, t, n]);
    check(search(INT, vec![between(1, false, 7, true), between(9, true, 10, false)], None), &ints, &[f, t, t, f, n]);
    let not_5 = || {
        let five = Literal::Integer(5);
        vec![
            SargRange { lower: None, upper: bound(&five, false) },
            SargRange { lower: bound(&five, false), upper: None },
        ]
    };
    check(search(INT, not_5(), Some(false)), &ints, &[t, f, t, t, f]);
    let all = vec![SargRange { lower: None, upper: None }];
    check(search(INT, all, None), &ints, &[t, t, t, t, n]);
    check(search(INT, vec![], None), &ints, &[f, f, f, f, n]);
    let words = batch(vec![texts(vec![Some("a"), Some("b "), Some(""), None])]);
    let text = |s: &str| Literal::String(s.to_owned());
    check(search(STRING, vec![point(text("")), point(text("b"))], None), &words, &[f, f, t, n]);
}

#[test]
fn search_of_doubles_tells_sets_from_ranges() {
    let doubles = batch(vec![f64s(vec![Some(f64::NAN), Some(-0.0), Some(0.0)])]);
    let zero = Literal::Double(0.0);
    let (t, f) = ("true", "false");
    check(search(DOUBLE, vec![point(zero.clone())], None), &doubles, &[f, f, t]);
    let not_zero = vec![
        SargRange { lower: None, upper: bound(&zero, false) },
        SargRange { lower: bound(&zero, false), upper: None },
    ];
    check(search(DOUBLE, not_zero, None), &doubles, &[t, t, f]);
    let at_most = vec![SargRange { lower: None, upper: bound(&zero, true) }];
    check(search(DOUBLE, at_most, None), &doubles, &[f, t, t]);
}

#[test]
fn search_compares_across_exact_types() {
    let ints = batch(vec![i32s(vec![Some(1), Some(2), None])]);
    let sarg = Sarg {
        ranges: vec![point(Literal::Decimal(150)), point(Literal::Decimal(200))],
        null_as: None,
        ty: nullable(dec(3, 2)),
    };
    let rex = Rex::Search { operand: Box::new(col(0, INT)), sarg, ty: nullable(BOOLEAN) };
    check(rex, &ints, &["false", "true", "NULL"]);
    let sarg = Sarg {
        ranges: vec![SargRange { lower: bound(&Literal::Decimal(150), false), upper: None }],
        null_as: None,
        ty: nullable(dec(3, 2)),
    };
    let rex = Rex::Search { operand: Box::new(col(0, INT)), sarg, ty: nullable(BOOLEAN) };
    check(rex, &ints, &["false", "true", "NULL"]);
}

#[test]
fn a_field_is_null_where_its_row_is() {
    let inner: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let field = Arc::new(ArrowField::new("x", DataType::Int32, true));
    let nulls = NullBuffer::from(vec![true, true, false]);
    let rows: ArrayRef = Arc::new(StructArray::try_new(vec![field].into(), vec![inner], Some(nulls)).unwrap());
    let kind = TypeKind::Row(Arc::from([
        Field { name: "x".to_owned(), ty: nullable(INT) },
        Field { name: "y".to_owned(), ty: nullable(raw()) },
    ]));
    let access = Rex::FieldAccess { expr: Box::new(col(0, kind.clone())), index: 0, ty: nullable(INT) };
    check(access, &batch(vec![rows]), &["1", "NULL", "NULL"]);
    let refused = Rex::FieldAccess { expr: Box::new(col(0, kind)), index: 1, ty: nullable(raw()) };
    assert!(host_calls(&refused, "/p").is_err());
}

/// A type that no batch carries.
fn raw() -> TypeKind {
    TypeKind::Other("RAW('x')".to_owned())
}

#[test]
fn the_topmost_call_that_is_not_native_goes_to_the_jvm() {
    let call_f = user(vec![call("+", vec![col(3, INT), user(vec![col(1, INT)], INT)], INT)], INT);
    let rex = call("AND", vec![col(0, BOOLEAN), call(">", vec![call_f, int(0, INT)], BOOLEAN)], BOOLEAN);
    let calls = host_calls(&rex, "/condition").unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].pointer, "/condition/operands/1/operands/0");
    assert_eq!(calls[0].inputs, vec![1, 3]);
    assert_eq!(calls[0].output, nullable(INT));
    assert_eq!(calls[0].reason.to_string(), "F is a user-defined function");
    let unknown = user(vec![Rex::Unknown { what: "a pattern reference".to_owned() }], INT);
    assert_eq!(host_calls(&unknown, "/p").unwrap_err().to_string(), "a pattern reference is not supported natively");
    assert!(host_calls(&col(0, raw()), "/p").is_err());
    assert!(host_calls(&call("HASH_CODE", vec![col(0, raw())], INT), "/p").is_err());
    let raws = TypeKind::Array(Arc::new(nullable(raw())));
    assert!(host_calls(&call("CARDINALITY", vec![col(0, raws)], INT), "/p").is_err());
}

#[test]
fn a_call_that_needs_the_clock_of_its_operator_runs_nowhere_but_in_flink() {
    let ltz = TypeKind::TimestampLtz { precision: 3, attribute: TimeAttribute::Regular };
    for (name, shown) in [
        ("PROCTIME_MATERIALIZE", "PROCTIME"),
        ("CURRENT_WATERMARK", "CURRENT_WATERMARK"),
        ("STREAMRECORD_TIMESTAMP", "STREAMRECORD_TIMESTAMP"),
    ] {
        let clock = || call(name, vec![col(0, ltz.clone())], ltz.clone());
        let expected = format!("{shown} needs the operator's clock, which JVM expressions do not have");
        for rex in [clock(), user(vec![clock()], INT), call("IS NULL", vec![clock()], BOOLEAN)] {
            assert_eq!(host_calls(&rex, "/p").unwrap_err().to_string(), expected);
        }
    }
}

#[test]
fn a_function_that_is_not_deterministic_is_never_native() {
    let ltz = TypeKind::TimestampLtz { precision: 3, attribute: TimeAttribute::Regular };
    for (name, operands, ty) in [
        ("CURRENT_DATE", vec![], TypeKind::Date),
        ("CURRENT_TIME", vec![], TypeKind::Time(0)),
        ("CURRENT_TIMESTAMP", vec![], ltz.clone()),
        ("CURRENT_ROW_TIMESTAMP", vec![], ltz.clone()),
        ("NOW", vec![], ltz),
        ("LOCALTIME", vec![], TypeKind::Time(0)),
        ("LOCALTIMESTAMP", vec![], TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Regular }),
        ("UNIX_TIMESTAMP", vec![], BIGINT),
        ("RAND", vec![], DOUBLE),
        ("RAND", vec![int(1, INT)], DOUBLE),
        ("RAND_INTEGER", vec![int(1, INT)], INT),
        ("RAND_INTEGER", vec![int(1, INT), int(2, INT)], INT),
        ("UUID", vec![], TypeKind::Char(36)),
    ] {
        assert_eq!(host_calls(&call(name, operands, ty), "/p").unwrap().len(), 1, "{name}");
    }
}

#[test]
fn a_host_call_sees_only_the_rows_that_need_it() {
    let rows = batch(vec![
        bools(vec![Some(true), Some(false), None, Some(true)]),
        i32s(vec![Some(1), Some(2), Some(3), Some(4)]),
    ]);
    let case = call("CASE", vec![col(0, BOOLEAN), user(vec![col(1, INT)], INT), int(0, INT)], INT);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let host: Arc<dyn HostFunction> = Arc::new(Passes { column: 1, rows: Arc::clone(&seen) });
    let compiled = compile(&case, "/p", &|pointer| (pointer == "/p/operands/1").then(|| Arc::clone(&host))).unwrap();
    assert_eq!(shown(&evaluate(&compiled, &rows).unwrap()), ["1", "0", "0", "4"]);
    assert_eq!(*seen.lock().unwrap(), [2]);
    let none = rows.slice(1, 2);
    assert_eq!(shown(&evaluate(&compiled, &none).unwrap()), ["0", "0"]);
    assert_eq!(*seen.lock().unwrap(), [2]);
    assert!(matches!(compile(&case, "/p", &|_| None), Err(ExprError::Internal { .. })));
}

#[test]
fn a_value_of_a_not_null_type_is_never_null() {
    let values: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None]));
    let operand = Rex::InputRef { index: 0, ty: LogicalType { kind: BOOLEAN, nullable: false } };
    assert!(values.is_null(1));
    check(call("IS NULL", vec![operand], BOOLEAN), &batch(vec![values]), &["false", "false"]);
}

#[test]
fn padding_for_excluded_rows_does_not_happen() {
    let rows = batch(vec![texts(vec![Some("a"), Some("b")]), i32s(vec![Some(2), Some(2_000_000_000)])]);
    let few = || call("<", vec![col(1, INT), int(100, INT)], BOOLEAN);
    let filler = || lit(Literal::String("x".to_owned()), TypeKind::Char(1));
    for (name, padded) in [("LPAD", "xa"), ("RPAD", "ax")] {
        let pad = |length| call(name, vec![col(0, STRING), length, filler()], STRING);
        check(call("CASE", vec![few(), pad(col(1, INT)), col(0, STRING)], STRING), &rows, &[padded, "b"]);
        check(call("CASE", vec![few(), pad(int(2, INT)), col(0, STRING)], STRING), &rows, &[padded, "b"]);
    }
    let never = || call("<", vec![col(1, INT), int(0, INT)], BOOLEAN);
    for value in [col(0, STRING), col(1, INT)] {
        let long = call("CAST", vec![value], TypeKind::Char(2_000_000_000));
        let length = call("CHAR_LENGTH", vec![long], INT);
        check(call("CASE", vec![never(), length, col(1, INT)], INT), &rows, &["2", "2000000000"]);
    }
}
