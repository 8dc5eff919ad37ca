//! Literals as DataFusion scalars.

use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use streamfusion_plan::Reason;
use streamfusion_plan::rex::Literal;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::{NANO_TIMESTAMP, arrow_type};

/// The scalar in the Arrow type of `ty`. A symbol and a NULL without a type are the untyped NULL.
pub(crate) fn scalar(value: &Literal, ty: &LogicalType) -> Result<ScalarValue, Reason> {
    if is_untyped(value, ty) {
        return Ok(ScalarValue::Null);
    }
    let target = arrow_type(ty)?;
    let unexpected = || Reason::new(format!("a literal {value:?} of type {target} is not supported natively"));
    Ok(match value {
        Literal::Null => ScalarValue::try_from(&target).map_err(|_| unexpected())?,
        Literal::Boolean(v) if target == DataType::Boolean => ScalarValue::Boolean(Some(*v)),
        Literal::Integer(v) => match target {
            DataType::Int8 => ScalarValue::Int8(Some(i8::try_from(*v).map_err(|_| unexpected())?)),
            DataType::Int16 => ScalarValue::Int16(Some(i16::try_from(*v).map_err(|_| unexpected())?)),
            DataType::Int32 => ScalarValue::Int32(Some(i32::try_from(*v).map_err(|_| unexpected())?)),
            DataType::Int64 => ScalarValue::Int64(Some(*v)),
            _ => return Err(unexpected()),
        },
        Literal::Decimal(v) => match target {
            DataType::Decimal128(precision, scale) if matches!(ty.kind, TypeKind::Decimal { .. }) => {
                ScalarValue::Decimal128(Some(*v), precision, scale)
            }
            _ => return Err(unexpected()),
        },
        Literal::Double(v) => match target {
            DataType::Float64 => ScalarValue::Float64(Some(*v)),
            // The value was a float when the plan was written; widening it there and narrowing it here is exact.
            #[expect(clippy::cast_possible_truncation, reason = "the literal's type is FLOAT")]
            DataType::Float32 => ScalarValue::Float32(Some(*v as f32)),
            _ => return Err(unexpected()),
        },
        Literal::String(v) if target == DataType::Utf8 => ScalarValue::Utf8(Some(v.clone())),
        Literal::Bytes(v) if target == DataType::Binary => ScalarValue::Binary(Some(v.clone())),
        Literal::Date(v) if target == DataType::Date32 => ScalarValue::Date32(Some(*v)),
        Literal::Time(v) if matches!(ty.kind, TypeKind::Time(_)) => ScalarValue::Time32Millisecond(Some(*v)),
        Literal::Timestamp { millis, nanos } => match target {
            DataType::Timestamp(..) if *nanos == 0 => ScalarValue::TimestampMillisecond(Some(*millis), None),
            NANO_TIMESTAMP => {
                ScalarValue::Decimal128(Some(i128::from(*millis) * 1_000_000 + i128::from(*nanos)), 38, 9)
            }
            _ => return Err(unexpected()),
        },
        _ => return Err(unexpected()),
    })
}

/// Whether the literal carries no typed value: a symbol, or NULL of type NULL.
pub(crate) fn is_untyped(value: &Literal, ty: &LogicalType) -> bool {
    match value {
        Literal::Symbol { .. } => true,
        Literal::Null => ty.kind == TypeKind::Null,
        _ => false,
    }
}
