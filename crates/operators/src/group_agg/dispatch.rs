//! From a call and its argument type to the loop compiled for both.

use std::marker::PhantomData;

use arrow::datatypes::{DataType, TimeUnit};

use super::avg::{Avg, DecimalAvg};
use super::count::{Count, CountStar};
use super::distinct::{Counted, Distinct, Seen};
use super::extremum::{AppendExtremum, RetractExtremum};
use super::fold::{Aggregate, Folded};
use super::number::Number;
use super::position::{AppendPosition, RetractPosition};
use super::sum::{Sum, Sum0, SumWithRetract};
use super::support::{Call, FunctionKind, Retraction};
use super::value::Value;
use super::versions::Bytes;
use crate::OperatorError;

/// Calls `$function::<T>($args)` with the native type of the Arrow type `$ty`; evaluates `$other` for any other type.
macro_rules! with_native {
    ($ty:expr, $function:ident ( $($args:expr),* ), $other:expr) => {
        match $ty {
            DataType::Boolean => $function::<bool>($($args),*),
            DataType::Int8 => $function::<i8>($($args),*),
            DataType::Int16 => $function::<i16>($($args),*),
            DataType::Int32 | DataType::Date32 | DataType::Time32(TimeUnit::Millisecond) => $function::<i32>($($args),*),
            DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => $function::<i64>($($args),*),
            DataType::Float32 => $function::<f32>($($args),*),
            DataType::Float64 => $function::<f64>($($args),*),
            DataType::Decimal128(_, _) => $function::<i128>($($args),*),
            _ => $other,
        }
    };
}

/// The aggregate of a call, without state.
pub(super) fn aggregate(call: &Call) -> Result<Box<dyn Aggregate>, OperatorError> {
    let Some(argument) = &call.argument else {
        return Ok(match call.filter {
            None => Box::new(CountStar::default()),
            Some(_) => Folded::boxed(Count, &call.output),
        });
    };
    let ty = &argument.arrow;
    let aggregate = match call.function {
        FunctionKind::Count => Some(Folded::boxed(Count, &call.output)),
        FunctionKind::Sum(_) | FunctionKind::Sum0 => match ty {
            DataType::Int8 => Some(sum::<i8>(call)),
            DataType::Int16 => Some(sum::<i16>(call)),
            DataType::Int32 => Some(sum::<i32>(call)),
            DataType::Int64 => Some(sum::<i64>(call)),
            DataType::Float32 => Some(sum::<f32>(call)),
            DataType::Float64 => Some(sum::<f64>(call)),
            DataType::Decimal128(_, _) => Some(sum::<i128>(call)),
            _ => None,
        },
        FunctionKind::Avg => match ty {
            DataType::Int8 => Some(Folded::boxed(Avg::<i8>(PhantomData), &call.output)),
            DataType::Int16 => Some(Folded::boxed(Avg::<i16>(PhantomData), &call.output)),
            DataType::Int32 => Some(Folded::boxed(Avg::<i32>(PhantomData), &call.output)),
            DataType::Int64 => Some(Folded::boxed(Avg::<i64>(PhantomData), &call.output)),
            DataType::Float32 => Some(Folded::boxed(Avg::<f32>(PhantomData), &call.output)),
            DataType::Float64 => Some(Folded::boxed(Avg::<f64>(PhantomData), &call.output)),
            DataType::Decimal128(_, scale) => {
                let scale = u32::from(scale.unsigned_abs());
                Some(Folded::boxed(DecimalAvg { scale, result_scale: scale.max(6) }, &call.output))
            }
            _ => None,
        },
        FunctionKind::Extremum(..) | FunctionKind::Position(..) => match ty {
            DataType::Utf8 | DataType::Binary => kept::<Bytes>(call),
            _ => with_native!(ty, kept(call), None),
        },
    };
    aggregate.ok_or_else(|| OperatorError::Internal(format!("no aggregate for a column of type {ty}")))
}

fn sum<T: Number>(call: &Call) -> Box<dyn Aggregate> {
    match call.function {
        FunctionKind::Sum(Retraction::Applied) => Folded::boxed(SumWithRetract::<T>(PhantomData), &call.output),
        FunctionKind::Sum0 => Folded::boxed(Sum0::<T>(PhantomData), &call.output),
        _ => Folded::boxed(Sum::<T>(PhantomData), &call.output),
    }
}

fn kept<V: Value>(call: &Call) -> Option<Box<dyn Aggregate>> {
    let value = PhantomData::<V>;
    Some(match call.function {
        FunctionKind::Extremum(extremum, Retraction::None) => {
            Folded::boxed(AppendExtremum { extremum, value }, &call.output)
        }
        FunctionKind::Extremum(extremum, Retraction::Applied) => {
            Folded::boxed(RetractExtremum { extremum, value }, &call.output)
        }
        FunctionKind::Position(position, Retraction::None) => {
            Folded::boxed(AppendPosition { position, value }, &call.output)
        }
        FunctionKind::Position(position, Retraction::Applied) => {
            Folded::boxed(RetractPosition { position, value }, &call.output)
        }
        _ => return None,
    })
}

/// The distinct table over values of an Arrow type.
pub(super) fn distinct(ty: &DataType, retraction: Retraction) -> Result<Box<dyn Distinct>, OperatorError> {
    let unknown = || OperatorError::Internal(format!("no distinct table for a column of type {ty}"));
    let table = match (retraction, ty) {
        (Retraction::None, DataType::Utf8) => Some(Seen::<Box<[u8]>>::boxed()),
        (Retraction::Applied, DataType::Utf8) => Some(Counted::<Box<[u8]>>::boxed()),
        (Retraction::None, _) => with_native!(ty, seen(), None),
        (Retraction::Applied, _) => with_native!(ty, counted(), None),
    };
    table.ok_or_else(unknown)
}

fn seen<T: super::native::Native>() -> Option<Box<dyn Distinct>> {
    Some(Seen::<T>::boxed())
}

fn counted<T: super::native::Native>() -> Option<Box<dyn Distinct>> {
    Some(Counted::<T>::boxed())
}
