//! From a call and its argument type to the loop compiled for both.

use std::marker::PhantomData;

use arrow::datatypes::{DataType, TimeUnit};
use streamfusion_state::KeyedTable;

use super::avg::{Avg, DecimalAvg};
use super::count::{Count, CountStar};
use super::distinct::{Counted, Distinct, DistinctKey, ManyCounts, Seen, Shared};
use super::extremum::{AppendExtremum, RetractExtremum};
use super::fold::{Aggregate, Folded, FoldedEntries};
use super::number::Number;
use super::position::{AppendPosition, RetractPosition};
use super::sum::{Sum, Sum0, SumWithRetract};
use super::support::{Call, FunctionKind, Retraction};
use super::two_phase::{Carried, Fixed};
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

pub(super) use with_native;

/// The aggregate of a call. Its state is registered with `table`, under `name`.
pub(super) fn aggregate(
    call: &Call,
    table: &mut KeyedTable,
    name: String,
) -> Result<Box<dyn Aggregate>, OperatorError> {
    let Some(argument) = &call.argument else {
        return Ok(match call.filter {
            None => Box::new(CountStar::default()),
            Some(_) => Folded::boxed(Count, call, table, name),
        });
    };
    let ty = &argument.arrow;
    let aggregate = match call.function {
        FunctionKind::Count => Some(Folded::boxed(Count, call, table, name)),
        FunctionKind::Sum(_) | FunctionKind::Sum0 => match ty {
            DataType::Int8 => Some(sum::<i8>(call, table, name)),
            DataType::Int16 => Some(sum::<i16>(call, table, name)),
            DataType::Int32 => Some(sum::<i32>(call, table, name)),
            DataType::Int64 => Some(sum::<i64>(call, table, name)),
            DataType::Float32 => Some(sum::<f32>(call, table, name)),
            DataType::Float64 => Some(sum::<f64>(call, table, name)),
            DataType::Decimal128(_, _) => Some(sum::<i128>(call, table, name)),
            _ => None,
        },
        FunctionKind::Avg => match ty {
            DataType::Int8 => Some(Folded::boxed(Avg::<i8>(PhantomData), call, table, name)),
            DataType::Int16 => Some(Folded::boxed(Avg::<i16>(PhantomData), call, table, name)),
            DataType::Int32 => Some(Folded::boxed(Avg::<i32>(PhantomData), call, table, name)),
            DataType::Int64 => Some(Folded::boxed(Avg::<i64>(PhantomData), call, table, name)),
            DataType::Float32 => Some(Folded::boxed(Avg::<f32>(PhantomData), call, table, name)),
            DataType::Float64 => Some(Folded::boxed(Avg::<f64>(PhantomData), call, table, name)),
            DataType::Decimal128(_, scale) => {
                let scale = u32::from(scale.unsigned_abs());
                Some(Folded::boxed(DecimalAvg { scale, result_scale: scale.max(6) }, call, table, name))
            }
            _ => None,
        },
        FunctionKind::Extremum(..) | FunctionKind::Position(..) => match ty {
            DataType::Utf8 | DataType::Binary => kept::<Bytes>(call, table, name),
            _ => with_native!(ty, kept(call, table, name), None),
        },
        // it has constants, which the call alone does not
        FunctionKind::Lag { .. } => None,
    };
    aggregate.ok_or_else(|| OperatorError::Internal(format!("no aggregate for a column of type {ty}")))
}

/// [`aggregate`] where nobody counts the records of a group.
pub(super) fn running(call: &Call, table: &mut KeyedTable, name: String) -> Result<Box<dyn Aggregate>, OperatorError> {
    match call.argument {
        None => Ok(Folded::boxed(Count, call, table, name)),
        Some(_) => aggregate(call, table, name),
    }
}

fn sum<T: Number>(call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn Aggregate> {
    match call.function {
        FunctionKind::Sum(Retraction::Applied) => Folded::boxed(SumWithRetract::<T>(PhantomData), call, table, name),
        FunctionKind::Sum0 => Folded::boxed(Sum0::<T>(PhantomData), call, table, name),
        _ => Folded::boxed(Sum::<T>(PhantomData), call, table, name),
    }
}

fn kept<V: Value>(call: &Call, table: &mut KeyedTable, name: String) -> Option<Box<dyn Aggregate>> {
    let value = PhantomData::<V>;
    Some(match call.function {
        FunctionKind::Extremum(extremum, Retraction::None) => {
            Folded::boxed(AppendExtremum { extremum, value }, call, table, name)
        }
        FunctionKind::Extremum(extremum, Retraction::Applied) => {
            FoldedEntries::boxed(RetractExtremum { extremum, value }, call, table, name)
        }
        FunctionKind::Position(position, Retraction::None) => {
            Folded::boxed(AppendPosition { position, value }, call, table, name)
        }
        FunctionKind::Position(position, Retraction::Applied) => {
            FoldedEntries::boxed(RetractPosition { position, value }, call, table, name)
        }
        _ => return None,
    })
}

/// The distinct table over values of one type that calls share. Its state is registered with `table`.
pub(super) fn distinct(
    shared: &Shared,
    retraction: Retraction,
    table: &mut KeyedTable,
) -> Result<Box<dyn Distinct>, OperatorError> {
    let ty = &shared.ty;
    let distinct = match (retraction, ty) {
        (Retraction::None, DataType::Utf8) => Some(Seen::<Bytes>::boxed(shared, table)),
        (Retraction::Applied, DataType::Utf8) => Some(counted_keys::<Bytes>(shared, table)),
        (Retraction::None, _) => with_native!(ty, seen(shared, table), None),
        (Retraction::Applied, _) => with_native!(ty, counted(shared, table), None),
    };
    distinct.ok_or_else(|| OperatorError::Internal(format!("no distinct table for a column of type {ty}")))
}

fn seen<T: Fixed>(shared: &Shared, table: &mut KeyedTable) -> Option<Box<dyn Distinct>> {
    Some(Seen::<T>::boxed(shared, table))
}

fn counted<T: Fixed>(shared: &Shared, table: &mut KeyedTable) -> Option<Box<dyn Distinct>> {
    Some(counted_keys::<T>(shared, table))
}

fn counted_keys<K: DistinctKey<Input: Carried<Key = K>>>(shared: &Shared, table: &mut KeyedTable) -> Box<dyn Distinct> {
    match shared.calls {
        1 => Counted::<K, i64>::boxed(shared, table),
        _ => Counted::<K, ManyCounts>::boxed(shared, table),
    }
}
