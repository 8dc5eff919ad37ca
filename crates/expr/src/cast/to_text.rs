//! Everything else, and text itself, to text of a given length.
//!
//! The length is counted in code points: longer text is cut, and a CHAR is filled with blanks. Text whose declared length
//! already fits a VARCHAR is passed on unseen.
//!
//! Follows: `CharVarCharTrimPadCastRule` and the rules it calls, Flink 2.2.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Int32Array, Int64Array, Time32MillisecondArray,
};
use arrow::datatypes::{ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion_expr::ColumnarValue;
use streamfusion_plan::Reason;
use streamfusion_plan::types::TypeKind;

use super::from_text::text_of;
use crate::error::ExprError;
use crate::registry::Kernel;
use crate::text::builder::{SHORT, TextBuilder, text_bytes, text_rows};
use crate::time::format;
use crate::time::values::Timestamps;
use crate::values::{mismatch, over_arrays, typed};

/// The length of the target type in code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Any,
    AtMost(usize),
    Exactly(usize),
}

impl Length {
    fn of(to: &TypeKind) -> Option<Self> {
        // The greatest length is no limit, for CHAR neither.
        let limit = |length: u32| usize::try_from(length).ok().filter(|_| length < i32::MAX.unsigned_abs());
        match *to {
            TypeKind::VarChar(length) => Some(limit(length).map_or(Self::Any, Self::AtMost)),
            TypeKind::Char(length) => Some(limit(length).map_or(Self::Any, Self::Exactly)),
            _ => None,
        }
    }

    /// Whether a column may be too short for values of this length, so that only rows that need one are cast.
    fn is_long(self) -> bool {
        matches!(self, Self::Exactly(length) if length > usize::from(SHORT))
    }

    fn push(self, text: &str, out: &mut TextBuilder) -> Result<(), ExprError> {
        let (limit, pad) = match self {
            Self::Any => return out.push(text),
            Self::AtMost(limit) => (limit, false),
            Self::Exactly(limit) => (limit, true),
        };
        // As many bytes as the limit has code points: no need to count.
        if text.len() <= limit && !pad {
            return out.push(text);
        }
        let mut starts = text.char_indices().map(|(start, _)| start);
        if let Some(end) = starts.by_ref().nth(limit) {
            return out.push(text.get(..end).unwrap_or(text));
        }
        out.piece(text)?;
        if pad {
            for _ in text.chars().count()..limit {
                out.piece(" ")?;
            }
        }
        out.end();
        Ok(())
    }
}

/// The kernel of a cast to CHAR or VARCHAR; `None` if the target is another type.
pub fn kernel(from: &TypeKind, to: &TypeKind) -> Option<Result<Kernel, Reason>> {
    let length = Length::of(to)?;
    Some(Ok(match *from {
        TypeKind::Char(input) | TypeKind::VarChar(input) => return Some(Ok(text(input, from, to, length))),
        TypeKind::Boolean => written(length, |array, row, out| {
            out.push_str(if typed::<BooleanArray>(array)?.value(row) { "TRUE" } else { "FALSE" });
            Ok(())
        }),
        TypeKind::TinyInt => integer::<Int8Type>(length),
        TypeKind::SmallInt => integer::<Int16Type>(length),
        TypeKind::Integer => integer::<Int32Type>(length),
        TypeKind::BigInt => integer::<Int64Type>(length),
        TypeKind::Decimal { scale, .. } => {
            written(length, move |array, row, out| decimal(out, typed::<Decimal128Array>(array)?.value(row), scale))
        }
        TypeKind::Date => written(length, |array, row, out| {
            format::date(out, typed::<Date32Array>(array)?.value(row));
            Ok(())
        }),
        TypeKind::Time(precision) => written(length, move |array, row, out| {
            format::time(out, typed::<Time32MillisecondArray>(array)?.value(row), precision);
            Ok(())
        }),
        TypeKind::Timestamp { precision, .. } => written(length, move |array, row, out| {
            format::timestamp(out, Timestamps::new(array)?.value(row)?, precision);
            Ok(())
        }),
        TypeKind::IntervalYearMonth => written(length, |array, row, out| {
            format::interval_year_month(out, typed::<Int32Array>(array)?.value(row)).map_err(|_| unwritten())
        }),
        TypeKind::IntervalDayTime => written(length, |array, row, out| {
            format::interval_day_time(out, typed::<Int64Array>(array)?.value(row)).map_err(|_| unwritten())
        }),
        TypeKind::Float | TypeKind::Double => {
            return Some(Err(Reason::new("FLOAT and DOUBLE become text by Java's own rules")));
        }
        TypeKind::TimestampLtz { .. } => {
            return Some(Err(Reason::new("a CAST of TIMESTAMP_LTZ to text needs the session time zone")));
        }
        _ => return Some(Err(Reason::new("this CAST to text is not supported natively"))),
    }))
}

fn unwritten() -> ExprError {
    mismatch("text cannot be written")
}

fn text(input: u32, from: &TypeKind, to: &TypeKind, length: Length) -> Kernel {
    let fits = match (to, length) {
        _ if from == to => true,
        (_, Length::Any) => true,
        (TypeKind::VarChar(target), _) => input <= *target,
        _ => false,
    };
    let run = move |operands: &[ColumnarValue], rows: usize| {
        if fits {
            return operands.first().cloned().ok_or_else(|| mismatch("a CAST has one operand"));
        }
        over_arrays(operands, rows, |arrays, rows| {
            let texts = text_of(arrays)?;
            text_rows(arrays, rows, text_bytes(texts), |row, out| length.push(texts.value(row), out))
        })
    };
    Kernel { run: Arc::new(run), fallible: length.is_long() && !fits }
}

/// A kernel that writes each value to a buffer and then fits it to the length.
fn written<F>(length: Length, write: F) -> Kernel
where
    F: Fn(&ArrayRef, usize, &mut String) -> Result<(), ExprError> + Send + Sync + 'static,
{
    let run = move |operands: &[ColumnarValue], rows: usize| {
        over_arrays(operands, rows, |arrays, rows| {
            let array = arrays.first().ok_or_else(|| mismatch("a CAST has one operand"))?;
            let mut buffer = String::new();
            text_rows(arrays, rows, rows * 8, |row, out| {
                buffer.clear();
                write(array, row, &mut buffer)?;
                length.push(&buffer, out)
            })
        })
    };
    Kernel { run: Arc::new(run), fallible: length.is_long() }
}

fn integer<T: ArrowPrimitiveType>(length: Length) -> Kernel
where
    T::Native: std::fmt::Display,
{
    written(length, |array, row, out| {
        let array = array.as_primitive_opt::<T>().ok_or_else(|| mismatch("an integer column is of another type"))?;
        write!(out, "{}", array.value(row)).map_err(|_| unwritten())
    })
}

/// `BigDecimal.toPlainString` with exactly `scale` digits behind the point.
fn decimal(out: &mut String, unscaled: i128, scale: u8) -> Result<(), ExprError> {
    if unscaled < 0 {
        out.push('-');
    }
    let digits = unscaled.unsigned_abs();
    if scale == 0 {
        return write!(out, "{digits}").map_err(|_| unwritten());
    }
    let unit = 10_u128.pow(u32::from(scale));
    let width = usize::from(scale);
    write!(out, "{}.{:0width$}", digits / unit, digits % unit).map_err(|_| unwritten())
}

/// A column that is cast to the type it has.
pub fn identity() -> Kernel {
    Kernel::infallible(|operands, _| operands.first().cloned().ok_or_else(|| mismatch("a CAST has one operand")))
}
