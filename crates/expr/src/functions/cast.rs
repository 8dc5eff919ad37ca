//! CAST, TRY_CAST and REINTERPRET that keep the value, and those among numbers and booleans.

use streamfusion_plan::Reason;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::arrow_type;

use crate::functions::convert::{self, Primitive};
use crate::registry::Kernel;
use crate::values::operand;

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    let reinterpret = match name {
        "CAST" | "TRY_CAST" => false,
        "Reinterpret" | "REINTERPRET" => true,
        _ => return None,
    };
    let [from] = operands else { return None };
    let from = &from.ty()?.kind;
    let to = &ty.kind;
    if keeps_value(from, to) {
        // A type without an Arrow type is refused by the caller.
        return (arrow_type(ty).is_ok())
            .then(|| Ok(Kernel::infallible(|operands, _| Ok(operand(operands, 0)?.clone()))));
    }
    if reinterpret || !is_number_or_boolean(from) || !is_number_or_boolean(to) {
        return None;
    }
    Some(convert::conversion(from, to).map(|conversion| {
        Kernel::infallible(move |operands, rows| convert::apply(conversion.as_ref(), operand(operands, 0)?, rows))
    }))
}

/// Whether Flink passes the value on as it is.
fn keeps_value(from: &TypeKind, to: &TypeKind) -> bool {
    match (from, to) {
        (TypeKind::Char(n) | TypeKind::VarChar(n), TypeKind::VarChar(m))
        | (TypeKind::Binary(n) | TypeKind::VarBinary(n), TypeKind::VarBinary(m)) => n <= m,
        // Both sides are an int, or both a long.
        (TypeKind::Integer, TypeKind::IntervalYearMonth)
        | (TypeKind::IntervalYearMonth, TypeKind::Integer)
        | (TypeKind::BigInt, TypeKind::IntervalDayTime)
        | (TypeKind::IntervalDayTime, TypeKind::BigInt) => true,
        // A time attribute is an ordinary timestamp once it is a column.
        (TypeKind::Timestamp { precision: p, .. }, TypeKind::Timestamp { precision: q, .. })
        | (TypeKind::TimestampLtz { precision: p, .. }, TypeKind::TimestampLtz { precision: q, .. }) => p == q,
        _ => from == to,
    }
}

fn is_number_or_boolean(kind: &TypeKind) -> bool {
    *kind == TypeKind::Boolean || matches!(kind, TypeKind::Decimal { .. }) || Primitive::of(kind).is_some()
}
