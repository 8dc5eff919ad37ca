//! Finds the kernel of a function on dates, times, timestamps and intervals.

use datafusion_common::ScalarValue;
use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::arithmetic::Sign;
use super::extract::Field;
use super::kernels::{self, Source};
use super::pattern::Pattern;
use super::round::{Direction, Unit};
use crate::registry::Kernel;

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    match (name, operands) {
        ("EXTRACT", [symbol, operand]) => Some(extract(symbol, &operand.ty()?.kind)),
        ("FLOOR", [operand, symbol]) => Some(round(name, Direction::Floor, &operand.ty()?.kind, symbol, &ty.kind)),
        ("CEIL", [operand, symbol]) => Some(round(name, Direction::Ceil, &operand.ty()?.kind, symbol, &ty.kind)),
        ("DATE_FORMAT", [operand, pattern]) => Some(date_format(&operand.ty()?.kind, pattern)),
        ("+", [left, right]) => plus_minus(Sign::Plus, &left.ty()?.kind, &right.ty()?.kind, &ty.kind),
        ("-", [left, right]) => plus_minus(Sign::Minus, &left.ty()?.kind, &right.ty()?.kind, &ty.kind),
        ("*", [left, right]) => interval_times(&left.ty()?.kind, &right.ty()?.kind),
        ("PROCTIME", []) => proctime(&ty.kind),
        ("REINTERPRET" | "Reinterpret", [operand]) => reinterpret(&operand.ty()?.kind, &ty.kind),
        _ => None,
    }
}

/// A processing-time attribute is NULL until somebody asks the clock.
///
/// Follows: ExprCodeGenerator, Flink 2.2.
fn proctime(result: &TypeKind) -> Option<Result<Kernel, Reason>> {
    matches!(result, TypeKind::TimestampLtz { precision: 0..=3, .. })
        .then(|| Ok(Kernel::infallible(|_, _| Ok(ScalarValue::TimestampMillisecond(None, None).into()))))
}

fn symbol_of(operand: &Rex) -> Option<&str> {
    match operand {
        Rex::Literal { value: Literal::Symbol { value, .. }, .. } => Some(value),
        _ => None,
    }
}

fn extract(symbol: &Rex, kind: &TypeKind) -> Result<Kernel, Reason> {
    let source = match kind {
        TypeKind::Date => Source::Date,
        TypeKind::Time(_) => Source::Time,
        TypeKind::Timestamp { .. } => Source::Timestamp,
        TypeKind::TimestampLtz { .. } => {
            return Err(Reason::new("EXTRACT from TIMESTAMP_LTZ needs the session time zone"));
        }
        _ => return Err(Reason::new("EXTRACT from this type is not supported natively")),
    };
    let unit = symbol_of(symbol).unwrap_or_default();
    Field::of_symbol(unit)
        .and_then(|field| kernels::extract_kernel(field, source))
        .ok_or_else(|| Reason::new(format!("EXTRACT of {unit} from this type is not supported natively")))
}

fn round(name: &str, direction: Direction, kind: &TypeKind, symbol: &Rex, result: &TypeKind) -> Result<Kernel, Reason> {
    let unit_name = symbol_of(symbol).unwrap_or_default();
    let refuse = || Reason::new(format!("{name} of this type to {unit_name} is not supported natively"));
    let unit = Unit::of_symbol(unit_name).ok_or_else(refuse)?;
    match (kind, result) {
        (TypeKind::Date, TypeKind::Date) => Ok(kernels::round_date(unit, direction)),
        (TypeKind::Time(_), TypeKind::Time(_)) => kernels::round_time(unit, direction).ok_or_else(refuse),
        (TypeKind::Timestamp { .. }, TypeKind::Timestamp { precision, .. }) => {
            Ok(kernels::round_timestamp(unit, direction, *precision))
        }
        (TypeKind::TimestampLtz { .. }, _) => {
            Err(Reason::new(format!("{name} of TIMESTAMP_LTZ needs the session time zone")))
        }
        _ => Err(refuse()),
    }
}

fn date_format(kind: &TypeKind, pattern: &Rex) -> Result<Kernel, Reason> {
    match kind {
        TypeKind::Timestamp { .. } => {}
        TypeKind::TimestampLtz { .. } => {
            return Err(Reason::new("DATE_FORMAT of TIMESTAMP_LTZ needs the session time zone"));
        }
        _ => return Err(Reason::new("DATE_FORMAT of text parses with Java's SimpleDateFormat")),
    }
    match pattern {
        Rex::Literal { value: Literal::String(pattern), .. } => Ok(kernels::format_kernel(Pattern::compile(pattern)?)),
        _ => Err(Reason::new("DATE_FORMAT is supported natively with a constant format only")),
    }
}

/// Whether a timestamp of `from` digits keeps all of its digits in the layout of `to` digits.
fn keeps_digits(from: u8, to: u8) -> bool {
    from <= 3 || to > 3
}

/// `None` where neither side is temporal.
fn plus_minus(sign: Sign, left: &TypeKind, right: &TypeKind, result: &TypeKind) -> Option<Result<Kernel, Reason>> {
    use TypeKind::{Date, IntervalDayTime, IntervalYearMonth, Time, Timestamp, TimestampLtz};
    let is_temporal = |kind: &TypeKind| {
        matches!(kind, Date | Time(_) | Timestamp { .. } | TimestampLtz { .. } | IntervalDayTime | IntervalYearMonth)
    };
    if !is_temporal(left) && !is_temporal(right) {
        return None;
    }
    let kernel = match (left, right, result) {
        (IntervalYearMonth, IntervalYearMonth, IntervalYearMonth) => kernels::month_intervals(sign),
        (IntervalDayTime, IntervalDayTime, IntervalDayTime) => kernels::milli_intervals(sign),
        (Date, IntervalDayTime, Date) => kernels::date_and_millis(sign),
        (Date, IntervalDayTime, Timestamp { precision, .. }) => kernels::date_and_millis_to_timestamp(sign, *precision),
        (Date, IntervalYearMonth, Date) => kernels::date_and_months(sign),
        (Time(_), IntervalDayTime, Time(_)) => kernels::time_and_millis(sign),
        (Timestamp { precision: from, .. }, IntervalDayTime, Timestamp { precision: to, .. })
        | (TimestampLtz { precision: from, .. }, IntervalDayTime, TimestampLtz { precision: to, .. })
            if keeps_digits(*from, *to) =>
        {
            kernels::timestamp_and_millis(sign, *to)
        }
        (Timestamp { precision: from, .. }, IntervalYearMonth, Timestamp { precision: to, .. })
        | (TimestampLtz { precision: from, .. }, IntervalYearMonth, TimestampLtz { precision: to, .. })
            if keeps_digits(*from, *to) =>
        {
            kernels::timestamp_and_months(sign, *to)
        }
        (Date | Timestamp { .. }, Date | Timestamp { .. }, IntervalDayTime)
        | (TimestampLtz { .. }, TimestampLtz { .. }, IntervalDayTime)
            if sign == Sign::Minus =>
        {
            kernels::difference_in_millis()
        }
        // Two dates are subtracted as dates in Flink, with the same result.
        (Date | Timestamp { .. }, Date | Timestamp { .. }, IntervalYearMonth)
        | (TimestampLtz { .. }, TimestampLtz { .. }, IntervalYearMonth)
            if sign == Sign::Minus =>
        {
            kernels::difference_in_months()
        }
        _ => return Some(Err(Reason::new("this arithmetic on points in time is not supported natively"))),
    };
    Some(Ok(kernel))
}

fn interval_times(left: &TypeKind, right: &TypeKind) -> Option<Result<Kernel, Reason>> {
    use TypeKind::{BigInt, Integer, IntervalDayTime, IntervalYearMonth};
    let is_interval = |kind: &TypeKind| matches!(kind, IntervalDayTime | IntervalYearMonth);
    match (left, right) {
        (IntervalDayTime, BigInt) | (BigInt, IntervalDayTime) => Some(Ok(kernels::milli_interval_times())),
        (IntervalYearMonth, Integer) | (Integer, IntervalYearMonth) => Some(Ok(kernels::month_interval_times())),
        _ if is_interval(left) || is_interval(right) => {
            Some(Err(Reason::new("an interval times a number of this type is not supported natively")))
        }
        _ => None,
    }
}

/// The number behind a temporal value and back. Kinds that share their Arrow type are left to the casts.
fn reinterpret(from: &TypeKind, to: &TypeKind) -> Option<Result<Kernel, Reason>> {
    use TypeKind::{BigInt, Date, Integer, IntervalDayTime, IntervalYearMonth, Time, Timestamp};
    let kernel = match (from, to) {
        (Date | Time(_) | IntervalYearMonth, Integer) => kernels::as_int(),
        (Date | Time(_) | IntervalYearMonth | IntervalDayTime | Timestamp { .. }, BigInt) => kernels::as_long(),
        (Integer, Date) => kernels::int_as_date(),
        (Integer, Time(_)) => kernels::int_as_time(),
        (BigInt, Timestamp { precision, .. }) => kernels::long_as_timestamp(*precision),
        _ => return None,
    };
    Some(Ok(kernel))
}

#[cfg(test)]
mod tests {
    use datafusion_expr::ColumnarValue;
    use streamfusion_plan::types::TimeAttribute;

    use super::*;
    use crate::error::ExprError;

    #[test]
    fn a_processing_time_attribute_is_null() -> Result<(), ExprError> {
        let kind = TypeKind::TimestampLtz { precision: 3, attribute: TimeAttribute::Proctime };
        let kernel = lookup("PROCTIME", &[], &LogicalType { kind, nullable: false });
        let kernel = kernel
            .and_then(Result::ok)
            .ok_or_else(|| ExprError::Internal { expression: "PROCTIME".into(), message: "not native".into() })?;
        assert!(matches!((kernel.run)(&[], 5)?, ColumnarValue::Scalar(ScalarValue::TimestampMillisecond(None, None))));
        Ok(())
    }
}
