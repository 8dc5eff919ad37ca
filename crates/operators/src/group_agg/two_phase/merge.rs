//! From a call to the function whose accumulators can be merged.
//!
//! | function | accumulator columns, as Flink has them |
//! | --- | --- |
//! | COUNT | count BIGINT |
//! | SUM | sum; with retraction also count BIGINT |
//! | $SUM0 | sum0 |
//! | AVG | sum (BIGINT, DOUBLE or DECIMAL(38, s)), count BIGINT |
//! | MIN, MAX without retraction | the value |
//! | MIN, MAX with retraction | a map of values: not as Flink has it, see [`view`](super::view) |
//!
//! FIRST_VALUE and LAST_VALUE have no merge in Flink, which therefore never plans them in two phases.

use std::marker::PhantomData;

use arrow::datatypes::{DataType, TimeUnit};
use streamfusion_plan::Reason;

use super::view::Carried;
use crate::group_agg::avg::{Avg, DecimalAvg};
use crate::group_agg::count::Count;
use crate::group_agg::distinct::DistinctKey;
use crate::group_agg::extremum::{AppendExtremum, Extremum};
use crate::group_agg::fold::Function;
use crate::group_agg::number::Number;
use crate::group_agg::sum::{Sum, Sum0, SumWithRetract};
use crate::group_agg::support::{Call, FunctionKind, Retraction};
use crate::group_agg::value::{BytesInput, Value};
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
        (FunctionKind::Extremum(extremum, Retraction::None), ty) => visit_value(ty, Append { extremum, call, visitor }),
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

/// Something to be done with the type of a value.
pub(in crate::group_agg) trait ValueVisitor {
    type Out;

    fn visit<I, V>(self) -> Self::Out
    where
        I: Carried<Key = V>,
        V: DistinctKey<Input = I> + Value<Input = I>;
}

/// Hands the type of the values of a column to `visitor`, or says why there is none.
pub(in crate::group_agg) fn visit_value<W: ValueVisitor>(ty: &DataType, visitor: W) -> Result<W::Out, Reason> {
    match ty {
        DataType::Boolean => Ok(visitor.visit::<bool, bool>()),
        DataType::Int8 => Ok(visitor.visit::<i8, i8>()),
        DataType::Int16 => Ok(visitor.visit::<i16, i16>()),
        DataType::Int32 | DataType::Date32 | DataType::Time32(TimeUnit::Millisecond) => Ok(visitor.visit::<i32, i32>()),
        DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => Ok(visitor.visit::<i64, i64>()),
        DataType::Float32 => Ok(visitor.visit::<f32, f32>()),
        DataType::Float64 => Ok(visitor.visit::<f64, f64>()),
        DataType::Decimal128(..) => Ok(visitor.visit::<i128, i128>()),
        DataType::Utf8 => Ok(visitor.visit::<BytesInput, Bytes>()),
        _ => Err(Reason::new("an aggregate over a value of this type is not supported natively in two phases")),
    }
}

/// MIN or MAX that ignores retractions.
struct Append<'a, V> {
    extremum: Extremum,
    call: &'a Call,
    visitor: V,
}

impl<W: Visitor> ValueVisitor for Append<'_, W> {
    type Out = W::Out;

    fn visit<I, V>(self) -> W::Out
    where
        I: Carried<Key = V>,
        V: DistinctKey<Input = I> + Value<Input = I>,
    {
        let Self { extremum, call, visitor } = self;
        visitor.visit(AppendExtremum { extremum, value: PhantomData::<V> }, call)
    }
}

/// The call's extremum and the type of its values, if it is MIN or MAX over rows that retract.
pub(in crate::group_agg) fn counted_extremum(call: &Call) -> Option<(Extremum, &DataType)> {
    match (call.function, &call.argument) {
        (FunctionKind::Extremum(extremum, Retraction::Applied), Some(argument)) => Some((extremum, &argument.arrow)),
        _ => None,
    }
}
