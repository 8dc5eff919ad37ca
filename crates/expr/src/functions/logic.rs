//! NOT, IS [NOT] NULL and IS [NOT] TRUE / FALSE.
//!
//! Follows: ScalarOperatorGens.generateNot, generateIsNull and their siblings, Flink 2.2. A value whose type is NOT NULL is
//! never NULL for Flink's generated code, except in an object (text, bytes, DECIMAL, timestamp, ROW), which is checked.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::not;
use streamfusion_plan::Reason;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::arrow_type;

use crate::error::ExprError;
use crate::registry::Kernel;
use crate::values::{mismatch, over_arrays, typed};

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], _ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    let [operand] = operands else { return None };
    let unary: fn(&BooleanArray) -> Result<BooleanArray, ExprError> = match name {
        "NOT" => |values| Ok(not(values)?),
        "IS TRUE" => |values| Ok(without_nulls(is(values, true))),
        "IS NOT TRUE" => |values| Ok(without_nulls(!&is(values, true))),
        "IS FALSE" => |values| Ok(without_nulls(is(values, false))),
        "IS NOT FALSE" => |values| Ok(without_nulls(!&is(values, false))),
        "IS NULL" => return Some(null_test(operand, NullTest::IsNull)),
        "IS NOT NULL" => return Some(null_test(operand, NullTest::IsNotNull)),
        _ => return None,
    };
    if operand.ty().is_none_or(|ty| ty.kind != TypeKind::Boolean) {
        return Some(Err(Reason::new(format!("{name} of an operand other than BOOLEAN is not supported natively"))));
    }
    Some(Ok(Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            let [values] = arrays else { return Err(mismatch("one operand is expected")) };
            let result: ArrayRef = Arc::new(unary(typed(values)?)?);
            Ok(result)
        })
    })))
}

/// The rows whose value is `value`, and not NULL.
fn is(values: &BooleanArray, value: bool) -> BooleanBuffer {
    let bits = if value { values.values().clone() } else { !values.values() };
    match values.nulls() {
        Some(nulls) => &bits & nulls.inner(),
        None => bits,
    }
}

fn without_nulls(bits: BooleanBuffer) -> BooleanArray {
    BooleanArray::new(bits, None)
}

#[derive(Clone, Copy, PartialEq)]
enum NullTest {
    IsNull,
    IsNotNull,
}

fn null_test(operand: &Rex, test: NullTest) -> Result<Kernel, Reason> {
    let ty = operand.ty().ok_or_else(|| Reason::new("a NULL test of an unknown type is not supported natively"))?;
    arrow_type(ty)?;
    let never_null = !ty.nullable && is_primitive(&ty.kind);
    Ok(Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, rows| {
            let [values] = arrays else { return Err(mismatch("one operand is expected")) };
            let valid = match values.nulls() {
                Some(nulls) if !never_null => nulls.inner().clone(),
                _ => BooleanBuffer::new_set(rows),
            };
            let bits = if test == NullTest::IsNull { !&valid } else { valid };
            let result: ArrayRef = Arc::new(without_nulls(bits));
            Ok(result)
        })
    }))
}

/// Whether Flink's generated code holds such values in a Java primitive.
fn is_primitive(kind: &TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::Boolean
            | TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::Integer
            | TypeKind::BigInt
            | TypeKind::Float
            | TypeKind::Double
            | TypeKind::Date
            | TypeKind::Time(_)
            | TypeKind::IntervalYearMonth
            | TypeKind::IntervalDayTime
    )
}
