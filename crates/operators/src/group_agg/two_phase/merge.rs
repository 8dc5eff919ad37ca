//! From a call to the function whose accumulators can be merged.
//!
//! | function | accumulator columns, as Flink has them |
//! | --- | --- |
//! | COUNT | count BIGINT |
//! | SUM | sum; with retraction also count BIGINT |
//! | $SUM0 | sum0 |
//! | AVG | sum (BIGINT, DOUBLE or DECIMAL(38, s)), count BIGINT |
//! | MIN, MAX without retraction | the value |
//!
//! FIRST_VALUE and LAST_VALUE have no merge in Flink, which therefore never plans them in two phases.

use std::marker::PhantomData;

use arrow::datatypes::{DataType, TimeUnit};
use streamfusion_plan::Reason;

use crate::group_agg::avg::{Avg, DecimalAvg};
use crate::group_agg::count::Count;
use crate::group_agg::extremum::{AppendExtremum, Extremum};
use crate::group_agg::fold::Function;
use crate::group_agg::number::Number;
use crate::group_agg::sum::{Sum, Sum0, SumWithRetract};
use crate::group_agg::support::{Call, FunctionKind, Retraction};
use crate::group_agg::value::Value;
use crate::group_agg::versions::Bytes;

/// A function whose accumulators can be merged.
pub(in crate::group_agg) trait Merge: Function {
    /// Adds what another accumulator has seen.
    fn merge(&self, accumulator: &mut Self::Accumulator, other: &Self::Accumulator);
}

impl Merge for Count {
    #[inline]
    fn merge(&self, count: &mut i64, other: &i64) {
        *count = count.wrapping_add(*other);
    }
}

/// Something to be done with the function of a call.
pub(in crate::group_agg) trait Visitor {
    type Out;

    fn visit<F: Merge>(self, function: F, call: &Call) -> Self::Out;
}

/// Hands the function of a call to `visitor`, or says why its accumulators cannot be merged.
pub(in crate::group_agg) fn visit<V: Visitor>(call: &Call, visitor: V) -> Result<V::Out, Reason> {
    let Some(argument) = &call.argument else { return Ok(visitor.visit(Count, call)) };
    let ty = &argument.arrow;
    match (call.function, ty) {
        (FunctionKind::Count, _) => Ok(visitor.visit(Count, call)),
        (FunctionKind::Sum(_) | FunctionKind::Sum0, DataType::Int8) => Ok(sum::<i8, V>(call, visitor)),
        (FunctionKind::Sum(_) | FunctionKind::Sum0, DataType::Int16) => Ok(sum::<i16, V>(call, visitor)),
        (FunctionKind::Sum(_) | FunctionKind::Sum0, DataType::Int32) => Ok(sum::<i32, V>(call, visitor)),
        (FunctionKind::Sum(_) | FunctionKind::Sum0, DataType::Int64) => Ok(sum::<i64, V>(call, visitor)),
        (FunctionKind::Sum(_) | FunctionKind::Sum0, DataType::Float32) => Ok(sum::<f32, V>(call, visitor)),
        (FunctionKind::Sum(_) | FunctionKind::Sum0, DataType::Float64) => Ok(sum::<f64, V>(call, visitor)),
        (FunctionKind::Sum(_) | FunctionKind::Sum0, DataType::Decimal128(..)) => Ok(sum::<i128, V>(call, visitor)),
        (FunctionKind::Avg, DataType::Int8) => Ok(visitor.visit(Avg::<i8>(PhantomData), call)),
        (FunctionKind::Avg, DataType::Int16) => Ok(visitor.visit(Avg::<i16>(PhantomData), call)),
        (FunctionKind::Avg, DataType::Int32) => Ok(visitor.visit(Avg::<i32>(PhantomData), call)),
        (FunctionKind::Avg, DataType::Int64) => Ok(visitor.visit(Avg::<i64>(PhantomData), call)),
        (FunctionKind::Avg, DataType::Float32) => Ok(visitor.visit(Avg::<f32>(PhantomData), call)),
        (FunctionKind::Avg, DataType::Float64) => Ok(visitor.visit(Avg::<f64>(PhantomData), call)),
        (FunctionKind::Avg, DataType::Decimal128(_, scale)) => {
            let scale = u32::from(scale.unsigned_abs());
            Ok(visitor.visit(DecimalAvg { scale, result_scale: scale.max(6) }, call))
        }
        (FunctionKind::Extremum(extremum, Retraction::None), ty) => match ty {
            DataType::Boolean => Ok(kept::<bool, V>(extremum, call, visitor)),
            DataType::Int8 => Ok(kept::<i8, V>(extremum, call, visitor)),
            DataType::Int16 => Ok(kept::<i16, V>(extremum, call, visitor)),
            DataType::Int32 | DataType::Date32 | DataType::Time32(TimeUnit::Millisecond) => {
                Ok(kept::<i32, V>(extremum, call, visitor))
            }
            DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => {
                Ok(kept::<i64, V>(extremum, call, visitor))
            }
            DataType::Float32 => Ok(kept::<f32, V>(extremum, call, visitor)),
            DataType::Float64 => Ok(kept::<f64, V>(extremum, call, visitor)),
            DataType::Decimal128(..) => Ok(kept::<i128, V>(extremum, call, visitor)),
            DataType::Utf8 => Ok(kept::<Bytes, V>(extremum, call, visitor)),
            _ => Err(Reason::new("MIN or MAX over a value of this type is not supported natively in two phases")),
        },
        (FunctionKind::Extremum(_, Retraction::Applied), _) => {
            Err(Reason::new("MIN and MAX over input that retracts are not supported natively in two phases"))
        }
        (FunctionKind::Position(..), _) => {
            Err(Reason::new("FIRST_VALUE and LAST_VALUE are not supported natively in two phases"))
        }
        _ => Err(Reason::new("an aggregate over a value of this type is not supported natively in two phases")),
    }
}

fn sum<T: Number, V: Visitor>(call: &Call, visitor: V) -> V::Out {
    match call.function {
        FunctionKind::Sum(Retraction::Applied) => visitor.visit(SumWithRetract::<T>(PhantomData), call),
        FunctionKind::Sum0 => visitor.visit(Sum0::<T>(PhantomData), call),
        _ => visitor.visit(Sum::<T>(PhantomData), call),
    }
}

fn kept<T: Value, V: Visitor>(extremum: Extremum, call: &Call, visitor: V) -> V::Out {
    visitor.visit(AppendExtremum { extremum, value: PhantomData::<T> }, call)
}
