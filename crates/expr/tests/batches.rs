//! How rows are cut into batches never changes a result, and neither does a host call below a native function.
#![allow(clippy::unwrap_used, clippy::panic)]

mod build;

use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use build::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use streamfusion_expr::{HostFunction, compile, evaluate, host_calls};
use streamfusion_plan::rex::{Literal, Rex, Sarg, SargBound, SargRange};
use streamfusion_plan::types::TypeKind;

/// One native expression per function family over the columns of [`rows`].
fn expressions() -> Vec<Rex> {
    let (a, b) = (|| col(0, INT), || col(1, INT));
    let (x, y) = (|| col(2, DOUBLE), || col(3, DOUBLE));
    let (d, e) = (|| col(4, dec(12, 3)), || col(5, dec(10, 2)));
    let (p, s) = (|| col(6, BOOLEAN), || col(7, STRING));
    let compare = |name: &str, l: Rex, r: Rex| call(name, vec![l, r], BOOLEAN);
    let nonzero = || compare("<>", b(), int(0, INT));
    let quotient = || call("/", vec![a(), b()], INT);
    let sarg = Sarg {
        ranges: vec![SargRange {
            lower: Some(SargBound { value: Literal::Integer(-3), inclusive: true }),
            upper: Some(SargBound { value: Literal::Integer(3), inclusive: false }),
        }],
        null_as: Some(false),
        ty: nullable(INT),
    };
    vec![
        call("+", vec![a(), b()], INT),
        call("-", vec![x(), y()], DOUBLE),
        call("*", vec![a(), int(3, INT)], INT),
        call("*", vec![d(), e()], dec(22, 5)),
        call("+", vec![d(), e()], dec(13, 3)),
        call("/", vec![d(), lit(Literal::Decimal(300), dec(3, 2))], dec(16, 6)),
        call("MOD", vec![a(), int(7, INT)], INT),
        call("-", vec![d()], dec(12, 3)),
        call("ABS", vec![x()], DOUBLE),
        call("ROUND", vec![d(), int(1, INT)], dec(11, 1)),
        call("FLOOR", vec![d()], dec(12, 0)),
        call("CEIL", vec![x()], DOUBLE),
        call("GREATEST", vec![a(), b(), int(0, INT)], INT),
        call("LEAST", vec![x(), y()], DOUBLE),
        call("COALESCE", vec![a(), b()], INT),
        call("CAST", vec![x()], INT),
        call("TRY_CAST", vec![d()], dec(5, 1)),
        compare("=", s(), lit(Literal::String("b".to_owned()), STRING)),
        compare("<", d(), x()),
        compare(">=", e(), d()),
        compare("IS DISTINCT FROM", x(), y()),
        call("IS NULL", vec![s()], BOOLEAN),
        call("NOT", vec![p()], BOOLEAN),
        call("IS NOT TRUE", vec![p()], BOOLEAN),
        call("AND", vec![p(), nonzero(), compare(">", quotient(), int(1, INT))], BOOLEAN),
        call("OR", vec![call("NOT", vec![nonzero()], BOOLEAN), compare(">", quotient(), a())], BOOLEAN),
        call("CASE", vec![nonzero(), quotient(), p(), a(), lit(Literal::Null, TypeKind::Null)], INT),
        call("IF", vec![nonzero(), quotient(), b()], INT),
        Rex::Search { operand: Box::new(a()), sarg, ty: nullable(BOOLEAN) },
    ]
}

fn rows() -> impl Strategy<Value = RecordBatch> {
    let small = prop_oneof![Just(i32::MIN), Just(i32::MAX), -4..5_i32];
    let double = prop_oneof![Just(f64::NAN), Just(-0.0), Just(f64::INFINITY), -9.0..9.0_f64];
    let row = (
        option::of(small.clone()),
        option::of(small),
        option::of(double.clone()),
        option::of(double),
        option::of(-999_999_999_999..=999_999_999_999_i128),
        option::of(-9_999_999_999..=9_999_999_999_i128),
        option::of(any::<bool>()),
        option::of("[ab]{0,2}"),
    );
    vec(row, 0..40).prop_map(|rows| {
        batch(vec![
            i32s(rows.iter().map(|r| r.0).collect()),
            i32s(rows.iter().map(|r| r.1).collect()),
            f64s(rows.iter().map(|r| r.2).collect()),
            f64s(rows.iter().map(|r| r.3).collect()),
            decs(rows.iter().map(|r| r.4).collect(), 12, 3),
            decs(rows.iter().map(|r| r.5).collect(), 10, 2),
            bools(rows.iter().map(|r| r.6).collect()),
            texts(rows.iter().map(|r| r.7.as_deref()).collect()),
        ])
    })
}

/// The expression with its operands of `column` replaced by calls that only the JVM knows; how many there were.
fn with_host_calls(rex: &Rex, column: usize) -> Rex {
    match rex {
        Rex::InputRef { index, ty } if *index == column => user(vec![rex.clone()], ty.kind.clone()),
        Rex::Call { function, operands, ty } => Rex::Call {
            function: function.clone(),
            operands: operands.iter().map(|operand| with_host_calls(operand, column)).collect(),
            ty: ty.clone(),
        },
        Rex::Search { operand, sarg, ty } => {
            Rex::Search { operand: Box::new(with_host_calls(operand, column)), sarg: sarg.clone(), ty: ty.clone() }
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batch_cuts_do_not_matter(rows in rows(), cut in 0..40_usize) {
        let cut = cut.min(rows.num_rows());
        for rex in expressions() {
            let compiled = native(&rex);
            let whole = shown(&evaluate(&compiled, &rows).unwrap());
            let mut parts = shown(&evaluate(&compiled, &rows.slice(0, cut)).unwrap());
            parts.extend(shown(&evaluate(&compiled, &rows.slice(cut, rows.num_rows() - cut)).unwrap()));
            prop_assert_eq!(&whole, &parts, "{:?}", rex);
            for (row, expected) in whole.iter().enumerate() {
                let alone = shown(&evaluate(&compiled, &rows.slice(row, 1)).unwrap());
                prop_assert_eq!(&alone[0], expected, "{:?}", rex);
            }
        }
    }

    #[test]
    fn a_host_call_in_any_operand_gives_the_same_result(rows in rows()) {
        for rex in expressions() {
            let expected = shown(&evaluate(&native(&rex), &rows).unwrap());
            for column in 0..rows.num_columns() {
                let mixed = with_host_calls(&rex, column);
                let calls = host_calls(&mixed, "/condition").unwrap();
                prop_assert_eq!(calls.is_empty(), mixed == rex);
                prop_assert!(calls.iter().all(|call| call.inputs == [column]));
                let host: Arc<dyn HostFunction> = Arc::new(Passes { column, rows: Arc::new(Mutex::new(Vec::new())) });
                let hosts = |pointer: &str| {
                    calls.iter().any(|call| call.pointer == pointer).then(|| Arc::clone(&host))
                };
                let compiled = compile(&mixed, "/condition", &hosts).unwrap();
                prop_assert_eq!(&shown(&evaluate(&compiled, &rows).unwrap()), &expected, "{:?}", mixed);
            }
        }
    }
}
