//! Text to everything else.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
};
use streamfusion_plan::Reason;
use streamfusion_plan::types::TypeKind;

use super::decimal::decimal;
use super::integer::integer;
use super::{CastFailure, OnFailure};
use crate::error::ExprError;
use crate::registry::Kernel;
use crate::time::parse::{date, time, truncate_time};
use crate::time::parse_timestamp::timestamp;
use crate::time::values::TimestampBuilder;
use crate::values::{mismatch, over_arrays, typed};

/// The kernel of a cast from CHAR or VARCHAR.
pub fn kernel(to: &TypeKind, on_failure: OnFailure) -> Result<Kernel, Reason> {
    let int = |min, max| move |text: &str| integer(text, min, max, i64::from(i32::MAX));
    Ok(match *to {
        TypeKind::Boolean => fallible(move |texts| {
            collect(texts, on_failure, BooleanBuilder::new(), boolean, |out, v| out.append_option(v))
        }),
        TypeKind::TinyInt => {
            let parse = int(i8::MIN.into(), i8::MAX.into());
            primitive::<Int8Type, _>(DataType::Int8, on_failure, move |t| narrow(parse(t)?))
        }
        TypeKind::SmallInt => {
            let parse = int(i16::MIN.into(), i16::MAX.into());
            primitive::<Int16Type, _>(DataType::Int16, on_failure, move |t| narrow(parse(t)?))
        }
        TypeKind::Integer => {
            let parse = int(i32::MIN.into(), i32::MAX.into());
            primitive::<Int32Type, _>(DataType::Int32, on_failure, move |t| narrow(parse(t)?))
        }
        TypeKind::BigInt => {
            primitive::<Int64Type, _>(DataType::Int64, on_failure, |text| integer(text, i64::MIN, i64::MAX, i64::MAX))
        }
        TypeKind::Decimal { precision, scale } => {
            let arrow_scale = i8::try_from(scale).map_err(|_| Reason::new("a DECIMAL scale is out of range"))?;
            let ty = DataType::Decimal128(precision, arrow_scale);
            primitive::<Decimal128Type, _>(ty, on_failure, move |text| decimal(text, precision, scale))
        }
        TypeKind::Date => primitive::<Date32Type, _>(DataType::Date32, on_failure, |text| {
            date(text)?.ok_or_else(|| date_time(format!("For input string: '{text}'.")))
        }),
        TypeKind::Time(precision) => {
            let ty = DataType::Time32(arrow::datatypes::TimeUnit::Millisecond);
            primitive::<Time32MillisecondType, _>(ty, on_failure, move |text| {
                let millis = time(text)?.ok_or_else(|| date_time(invalid_time(text)))?;
                Ok(truncate_time(millis, precision))
            })
        }
        TypeKind::Timestamp { precision, .. } => fallible(move |texts| {
            let mut out = TimestampBuilder::new(precision, texts.len());
            for text in texts {
                out.push(match text {
                    Some(text) => on_failure.settle(timestamp(text, precision))?,
                    None => None,
                });
            }
            Ok(out.finish())
        }),
        TypeKind::VarBinary(length) => bytes(length, None),
        TypeKind::Binary(length) => bytes(length, Some(length)),
        TypeKind::Float | TypeKind::Double => {
            return Err(Reason::new("a CAST of text to FLOAT or DOUBLE follows Java's own parser"));
        }
        TypeKind::TimestampLtz { .. } => {
            return Err(Reason::new("a CAST of text to TIMESTAMP_LTZ needs the session time zone"));
        }
        _ => return Err(Reason::new("this CAST of text is not supported natively")),
    })
}

fn fallible<F>(run: F) -> Kernel
where
    F: Fn(&StringArray) -> Result<ArrayRef, ExprError> + Send + Sync + 'static,
{
    Kernel::fallible(move |operands, rows| over_arrays(operands, rows, |arrays, _| run(text_of(arrays)?)))
}

pub(super) fn text_of(arrays: &[ArrayRef]) -> Result<&StringArray, ExprError> {
    typed::<StringArray>(arrays.first().ok_or_else(|| mismatch("a CAST has one operand"))?)
}

fn collect<B, T, P, A>(
    texts: &StringArray,
    on_failure: OnFailure,
    mut out: B,
    parse: P,
    append: A,
) -> Result<ArrayRef, ExprError>
where
    B: arrow::array::ArrayBuilder,
    P: Fn(&str) -> Result<T, CastFailure>,
    A: Fn(&mut B, Option<T>),
{
    for text in texts {
        let value = match text {
            Some(text) => on_failure.settle(parse(text))?,
            None => None,
        };
        append(&mut out, value);
    }
    Ok(out.finish())
}

fn primitive<T, P>(ty: DataType, on_failure: OnFailure, parse: P) -> Kernel
where
    T: ArrowPrimitiveType,
    P: Fn(&str) -> Result<T::Native, CastFailure> + Send + Sync + 'static,
{
    fallible(move |texts| {
        let out = PrimitiveBuilder::<T>::with_capacity(texts.len()).with_data_type(ty.clone());
        collect(texts, on_failure, out, &parse, PrimitiveBuilder::append_option)
    })
}

/// A value that was checked to fit.
fn narrow<T: TryFrom<i64>>(value: i64) -> Result<T, CastFailure> {
    T::try_from(value).map_err(|_| CastFailure::new("java.lang.NumberFormatException", "Overflow."))
}

/// Flink lower-cases the text first. Outside of ASCII nothing becomes one of these letters that way, in any locale.
fn boolean(text: &str) -> Result<bool, CastFailure> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(&["t", "true", "y", "yes", "1"]) {
        Ok(true)
    } else if is(&["f", "false", "n", "no", "0"]) {
        Ok(false)
    } else {
        let message = format!("Cannot parse '{text}' as BOOLEAN.");
        Err(CastFailure::new("org.apache.flink.table.api.TableException", message))
    }
}

fn date_time(message: String) -> CastFailure {
    CastFailure::new("java.time.DateTimeException", message)
}

fn invalid_time(text: &str) -> String {
    format!(
        "Invalid time format: '{text}'. Expected format: HH:mm:ss[.fff] where HH is 00-23, mm is 00-59, ss is 00-59"
    )
}

/// The UTF-8 bytes, cut to `length` bytes, or filled with zeros up to `pad`.
fn bytes(length: u32, pad: Option<u32>) -> Kernel {
    // A BINARY of the greatest length is not filled.
    let pad = pad.filter(|pad| *pad < i32::MAX.unsigned_abs());
    let usize_of = |length: u32| usize::try_from(length).unwrap_or(usize::MAX);
    let (length, pad) = (usize_of(length), pad.map_or(0, usize_of));
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            let texts = text_of(arrays)?;
            let kept = |text: &str| text.len().min(length).max(pad);
            let total: usize = texts.iter().flatten().map(kept).sum();
            if i32::try_from(total).is_err() {
                return Err(ExprError::TooLarge);
            }
            let mut out = BinaryBuilder::with_capacity(texts.len(), total);
            let mut padded = Vec::new();
            for text in texts {
                match text.map(str::as_bytes) {
                    None => out.append_null(),
                    Some(bytes) if bytes.len() < pad => {
                        padded.clear();
                        padded.extend_from_slice(bytes);
                        padded.resize(pad, 0);
                        out.append_value(&padded);
                    }
                    Some(bytes) => out.append_value(bytes.get(..length).unwrap_or(bytes)),
                }
            }
            Ok(Arc::new(out.finish()) as ArrayRef)
        })
    })
}
