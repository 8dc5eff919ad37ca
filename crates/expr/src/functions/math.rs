//! ABS, CEIL, FLOOR, ROUND, SQRT, GREATEST, LEAST and COALESCE.
//!
//! POWER, EXP, LN and their kin stay in the JVM: its Math functions may differ from every other library in the last bit. So
//! does ROUND of FLOAT and DOUBLE, which goes through Java's text of the number.
//!
//! Follows: SqlFunctionUtils, DecimalDataUtils.sround, ScalarOperatorGens.generateGreatestLeast, CoalesceFunction, Flink 2.2.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimestampMillisecondType,
};
use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::arrow_type;

use crate::error::ExprError;
use crate::functions::arithmetic::{is_numeric, unary_kernel};
use crate::functions::compare::java_double_compare;
use crate::functions::convert::decimal_type;
use crate::functions::decimal::{self, Digits};
use crate::registry::Kernel;
use crate::values::{map, mismatch, operand, over_arrays, try_map, typed};

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    match name {
        "GREATEST" => return Some(extreme(operands, ty, Ordering::Greater)),
        "LEAST" => return Some(extreme(operands, ty, Ordering::Less)),
        "COALESCE" => return Some(coalesce(operands, ty)),
        "POWER" | "EXP" | "LN" | "LOG" | "LOG2" | "LOG10" | "SIN" | "COS" | "TAN" | "COT" | "ASIN" | "ACOS"
        | "ATAN" | "ATAN2" | "SINH" | "COSH" | "TANH" => {
            return Some(Err(Reason::new(format!(
                "the last digit of {name} depends on the JVM's mathematical library"
            ))));
        }
        _ => {}
    }
    let first = operands.first()?.ty()?;
    if !is_numeric(&first.kind) {
        return None;
    }
    let same = first.kind == ty.kind;
    Some(match (name, operands) {
        ("ABS", [_]) if same => abs(&ty.kind),
        ("CEIL", [_]) => round_to_integer(&first.kind, ty, true),
        ("FLOOR", [_]) => round_to_integer(&first.kind, ty, false),
        ("ROUND", [_]) => round(&first.kind, 0, ty),
        ("ROUND", [_, Rex::Literal { value: Literal::Integer(places), .. }]) => round(&first.kind, *places, ty),
        ("ROUND", [_, _]) => {
            Err(Reason::new("ROUND to a number of digits that is not constant is not supported natively"))
        }
        ("SQRT", [_]) if same && ty.kind == TypeKind::Double => {
            Ok(unary_kernel::<Float64Type, _>(DataType::Float64, f64::sqrt))
        }
        ("ABS" | "SQRT", [_]) => Err(Reason::new(format!("{name} of this type is not supported natively"))),
        _ => return None,
    })
}

fn abs(kind: &TypeKind) -> Result<Kernel, Reason> {
    Ok(match kind {
        TypeKind::TinyInt => unary_kernel::<Int8Type, _>(DataType::Int8, i8::wrapping_abs),
        TypeKind::SmallInt => unary_kernel::<Int16Type, _>(DataType::Int16, i16::wrapping_abs),
        TypeKind::Integer => unary_kernel::<Int32Type, _>(DataType::Int32, i32::wrapping_abs),
        TypeKind::BigInt => unary_kernel::<Int64Type, _>(DataType::Int64, i64::wrapping_abs),
        TypeKind::Float => unary_kernel::<Float32Type, _>(DataType::Float32, f32::abs),
        TypeKind::Double => unary_kernel::<Float64Type, _>(DataType::Float64, f64::abs),
        TypeKind::Decimal { precision, scale } => {
            let output = decimal_type(Digits { precision: *precision, scale: *scale });
            unary_kernel::<Decimal128Type, _>(output, i128::wrapping_abs)
        }
        _ => return Err(Reason::new("ABS of this type is not supported natively")),
    })
}

/// A kernel that passes its first operand on.
fn identity() -> Kernel {
    Kernel::infallible(|operands, _| Ok(operand(operands, 0)?.clone()))
}

fn round_to_integer(kind: &TypeKind, ty: &LogicalType, up: bool) -> Result<Kernel, Reason> {
    Ok(match (kind, &ty.kind) {
        (TypeKind::Float, TypeKind::Float) if up => unary_kernel::<Float32Type, _>(DataType::Float32, f32::ceil),
        (TypeKind::Float, TypeKind::Float) => unary_kernel::<Float32Type, _>(DataType::Float32, f32::floor),
        (TypeKind::Double, TypeKind::Double) if up => unary_kernel::<Float64Type, _>(DataType::Float64, f64::ceil),
        (TypeKind::Double, TypeKind::Double) => unary_kernel::<Float64Type, _>(DataType::Float64, f64::floor),
        (TypeKind::Decimal { precision: p, scale: s }, TypeKind::Decimal { precision, scale: 0 })
            if *precision >= p - s + u8::from(*s > 0) =>
        {
            let (scale, output) = (*s, decimal_type(Digits { precision: *precision, scale: 0 }));
            Kernel::infallible(move |operands, rows| {
                over_arrays(operands, rows, |arrays, _| {
                    let [values] = arrays else { return Err(mismatch("one operand is expected")) };
                    map::<Decimal128Type, Decimal128Type, _>(values, &output, |v| {
                        decimal::round_to_integer(v, scale, up)
                    })
                })
            })
        }
        (from, to) if from == to && !matches!(from, TypeKind::Decimal { .. }) => identity(),
        _ => return Err(Reason::new("CEIL or FLOOR with a result of another type is not supported natively")),
    })
}

fn round(kind: &TypeKind, places: i64, ty: &LogicalType) -> Result<Kernel, Reason> {
    let places = i32::try_from(places)
        .ok()
        .filter(|places| (-1_000..=1_000).contains(places))
        .ok_or_else(|| Reason::new("ROUND to so many digits is not supported natively"))?;
    if matches!(kind, TypeKind::Float | TypeKind::Double) {
        return Err(Reason::new("ROUND of FLOAT or DOUBLE depends on how Java writes the number as text"));
    }
    if let TypeKind::Decimal { precision, scale } = kind {
        return round_decimal(Digits { precision: *precision, scale: *scale }, places, ty);
    }
    if *kind != ty.kind {
        return Err(Reason::new("ROUND with a result of another type is not supported natively"));
    }
    if places >= 0 {
        return Ok(identity());
    }
    Ok(match kind {
        TypeKind::TinyInt => round_integers::<Int8Type>(places, |v| v as i8),
        TypeKind::SmallInt => round_integers::<Int16Type>(places, |v| v as i16),
        TypeKind::Integer => round_integers::<Int32Type>(places, |v| v as i32),
        _ => round_integers::<Int64Type>(places, |v| v as i64),
    })
}

/// ROUND of an integer before the point. What no longer fits keeps its low bits, as in BigDecimal.intValue; hence `narrow`.
fn round_integers<T>(places: i32, narrow: fn(i128) -> T::Native) -> Kernel
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    let room = Digits { precision: 38, scale: 0 };
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands.get(..1).unwrap_or_default(), rows, |arrays, _| {
            let [values] = arrays else { return Err(mismatch("one operand is expected")) };
            map::<T, T, _>(values, &T::DATA_TYPE, |v| narrow(decimal::round(v.into(), 0, places, room).unwrap_or(0)))
        })
    })
}

fn round_decimal(from: Digits, places: i32, ty: &LogicalType) -> Result<Kernel, Reason> {
    let integer_digits = from.precision - from.scale;
    let expected = match u8::try_from(places) {
        Ok(places) if places >= from.scale => from,
        Ok(places) => Digits { precision: 1 + integer_digits + places, scale: places },
        Err(_) if places > 0 => from,
        Err(_) => Digits { precision: (1 + integer_digits).min(38), scale: 0 },
    };
    if ty.kind != (TypeKind::Decimal { precision: expected.precision, scale: expected.scale }) {
        return Err(Reason::new("ROUND of DECIMAL with an unusual result type is not supported natively"));
    }
    if expected == from && places >= i32::from(from.scale) {
        return Ok(identity());
    }
    let output = decimal_type(expected);
    Ok(Kernel::infallible(move |operands, rows| {
        over_arrays(operands.get(..1).unwrap_or_default(), rows, |arrays, _| {
            let [values] = arrays else { return Err(mismatch("one operand is expected")) };
            try_map::<Decimal128Type, Decimal128Type, _>(values, &output, |v| {
                Ok(decimal::round(v, from.scale, places, expected))
            })
        })
    }))
}

fn all_of_type(operands: &[Rex], ty: &LogicalType, name: &str) -> Result<(), Reason> {
    arrow_type(ty)?;
    if operands.is_empty() || !operands.iter().all(|rex| rex.ty().is_some_and(|found| found.kind == ty.kind)) {
        return Err(Reason::new(format!("{name} of different types is not supported natively")));
    }
    Ok(())
}

/// GREATEST or LEAST: NULL if an operand is; of equal values the first.
fn extreme(operands: &[Rex], ty: &LogicalType, wanted: Ordering) -> Result<Kernel, Reason> {
    let name = if wanted == Ordering::Greater { "GREATEST" } else { "LEAST" };
    all_of_type(operands, ty, name)?;
    Ok(match &ty.kind {
        TypeKind::TinyInt => extreme_of::<Int8Type>(wanted, |a, b| a.cmp(&b)),
        TypeKind::SmallInt => extreme_of::<Int16Type>(wanted, |a, b| a.cmp(&b)),
        TypeKind::Integer => extreme_of::<Int32Type>(wanted, |a, b| a.cmp(&b)),
        TypeKind::BigInt => extreme_of::<Int64Type>(wanted, |a, b| a.cmp(&b)),
        // The boxed types' compareTo: NaN is the greatest, -0.0 is below 0.0.
        TypeKind::Float => extreme_of::<Float32Type>(wanted, |a, b| java_double_compare(f64::from(a), f64::from(b))),
        TypeKind::Double => extreme_of::<Float64Type>(wanted, java_double_compare),
        TypeKind::Decimal { .. } => extreme_of::<Decimal128Type>(wanted, |a, b| a.cmp(&b)),
        TypeKind::Date => extreme_of::<Date32Type>(wanted, |a, b| a.cmp(&b)),
        TypeKind::Time(_) => extreme_of::<Time32MillisecondType>(wanted, |a, b| a.cmp(&b)),
        TypeKind::Timestamp { precision, .. } | TypeKind::TimestampLtz { precision, .. } => {
            if *precision <= 3 {
                extreme_of::<TimestampMillisecondType>(wanted, |a, b| a.cmp(&b))
            } else {
                extreme_of::<Decimal128Type>(wanted, |a, b| a.cmp(&b))
            }
        }
        _ => return Err(Reason::new(format!("{name} of this type is not supported natively"))),
    })
}

fn extreme_of<T: ArrowPrimitiveType>(wanted: Ordering, compare: fn(T::Native, T::Native) -> Ordering) -> Kernel {
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            let (first, rest) = arrays.split_first().ok_or_else(|| mismatch("an operand is expected"))?;
            let mut best = typed::<PrimitiveArray<T>>(first)?.clone();
            for values in rest {
                let values = typed::<PrimitiveArray<T>>(values)?;
                let chosen: PrimitiveArray<T> =
                    arrow::compute::binary(&best, values, |a, b| if compare(b, a) == wanted { b } else { a })?;
                best = chosen.with_data_type(first.data_type().clone());
            }
            let result: ArrayRef = Arc::new(best);
            Ok(result)
        })
    })
}

/// COALESCE evaluates all operands, as Flink's does, and takes the first that is not NULL.
fn coalesce(operands: &[Rex], ty: &LogicalType) -> Result<Kernel, Reason> {
    all_of_type(operands, ty, "COALESCE")?;
    Ok(Kernel::infallible(|operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            let (last, rest) = arrays.split_last().ok_or_else(|| mismatch("an operand is expected"))?;
            rest.iter().rev().try_fold(Arc::clone(last), |result, values| first_valid(values, &result))
        })
    }))
}

fn first_valid(values: &ArrayRef, otherwise: &ArrayRef) -> Result<ArrayRef, ExprError> {
    let valid = match values.nulls() {
        None => return Ok(Arc::clone(values)),
        Some(nulls) => BooleanArray::new(nulls.inner().clone(), None),
    };
    Ok(zip(&valid, values, otherwise)?)
}
