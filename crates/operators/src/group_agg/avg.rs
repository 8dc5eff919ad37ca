//! AVG.
//!
//! Follows: AvgAggFunction, Flink 2.2. Differences: none.

use std::marker::PhantomData;

use arrow::datatypes::DataType;
use streamfusion_state::Value;
use streamfusion_state::codec::{Codec, Mapped, Nullable, Required};

use super::fold::Function;
use super::native::Native;
use super::number::{Number, decimal_average};
use super::two_phase::Merge;

/// A type with its sum type and the way back.
pub(super) trait Average: Native {
    /// BIGINT for integers, DOUBLE for floats.
    type Sum: Number;
    /// The Arrow type of a sum.
    const SUM: DataType;

    fn widen(self) -> Self::Sum;

    /// `sum / count`, where `count` is not 0.
    fn divide(sum: Self::Sum, count: i64) -> Self;
}

macro_rules! integer_average {
    ($($ty:ty),*) => {$(
        impl Average for $ty {
            type Sum = i64;
            const SUM: DataType = DataType::Int64;

            #[inline]
            fn widen(self) -> i64 {
                i64::from(self)
            }

            #[inline]
            fn divide(sum: i64, count: i64) -> Self {
                sum.wrapping_div(count) as Self // Java's narrowing cast keeps the low bits
            }
        }
    )*};
}

integer_average!(i8, i16, i32, i64);

macro_rules! float_average {
    ($($ty:ty),*) => {$(
        impl Average for $ty {
            type Sum = f64;
            const SUM: DataType = DataType::Float64;

            #[inline]
            fn widen(self) -> f64 {
                f64::from(self)
            }

            #[inline]
            fn divide(sum: f64, count: i64) -> Self {
                (sum / count as f64) as Self // Java rounds to nearest in both casts
            }
        }
    )*};
}

float_average!(f32, f64);

/// AVG over integers, which truncates, and floats.
#[derive(Debug)]
pub(super) struct Avg<T>(pub(super) PhantomData<T>);

/// A sum and the accumulated values less the retracted ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct SumAndCount<S> {
    sum: S,
    count: i64,
}

impl<S: Number> Value for SumAndCount<S> {}

impl<T: Average> Function for Avg<T> {
    type Input = T;
    type Output = T;
    type Accumulator = SumAndCount<T::Sum>;

    fn codec(&self, _output: &DataType) -> impl Codec<SumAndCount<T::Sum>> {
        let columns = (Required::new("sum", T::SUM), Required::new("count", DataType::Int64));
        let parts = |value: &SumAndCount<T::Sum>| (value.sum, value.count);
        Mapped::new(columns, parts, |(sum, count)| Ok(SumAndCount { sum, count }))
    }

    fn create(&self) -> SumAndCount<T::Sum> {
        SumAndCount { sum: T::Sum::default(), count: 0 }
    }

    #[inline]
    fn accumulate(&self, accumulator: &mut SumAndCount<T::Sum>, value: T) {
        accumulator.sum = accumulator.sum.plus(value.widen()).unwrap_or_default();
        accumulator.count = accumulator.count.wrapping_add(1);
    }

    #[inline]
    fn retract(&self, accumulator: &mut SumAndCount<T::Sum>, value: T) {
        accumulator.sum = accumulator.sum.minus(value.widen()).unwrap_or_default();
        accumulator.count = accumulator.count.wrapping_sub(1);
    }

    #[inline]
    fn value(&self, accumulator: &SumAndCount<T::Sum>) -> Option<T> {
        (accumulator.count != 0).then(|| T::divide(accumulator.sum, accumulator.count))
    }
}

/// AVG over decimals. A sum that outgrew 38 digits makes the average NULL for good.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecimalAvg {
    pub(super) scale: u32,
    pub(super) result_scale: u32,
}

/// The sum and count, and the average that follows from them, since it is asked for twice per row.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecimalAverage {
    sum: Option<i128>,
    count: i64,
    average: Option<i128>,
}

impl Value for DecimalAverage {}

impl DecimalAvg {
    #[inline]
    fn of(self, sum: Option<i128>, count: i64) -> DecimalAverage {
        let average = match sum {
            Some(sum) if count != 0 => decimal_average(sum, count, self.scale, self.result_scale),
            _ => None,
        };
        DecimalAverage { sum, count, average }
    }
}

impl Function for DecimalAvg {
    type Input = i128;
    type Output = i128;
    type Accumulator = DecimalAverage;

    fn codec(&self, _output: &DataType) -> impl Codec<DecimalAverage> {
        // a scale is at most 38
        let sum = DataType::Decimal128(38, self.scale as i8);
        let columns = (Nullable::new("sum", sum), Required::new("count", DataType::Int64));
        let function = *self;
        let parts = |value: &DecimalAverage| (value.sum, value.count);
        Mapped::new(columns, parts, move |(sum, count)| Ok(function.of(sum, count)))
    }

    fn create(&self) -> DecimalAverage {
        DecimalAverage { sum: Some(0), count: 0, average: None }
    }

    #[inline]
    fn accumulate(&self, accumulator: &mut DecimalAverage, value: i128) {
        let sum = accumulator.sum.and_then(|sum| sum.plus(value));
        *accumulator = self.of(sum, accumulator.count.wrapping_add(1));
    }

    #[inline]
    fn retract(&self, accumulator: &mut DecimalAverage, value: i128) {
        let sum = accumulator.sum.and_then(|sum| sum.minus(value));
        *accumulator = self.of(sum, accumulator.count.wrapping_sub(1));
    }

    #[inline]
    fn value(&self, accumulator: &DecimalAverage) -> Option<i128> {
        accumulator.average
    }
}

impl<T: Average> Merge for Avg<T> {
    #[inline]
    fn merge(&self, accumulator: &mut SumAndCount<T::Sum>, other: &SumAndCount<T::Sum>) {
        accumulator.sum = accumulator.sum.plus(other.sum).unwrap_or_default();
        accumulator.count = accumulator.count.wrapping_add(other.count);
    }
}

impl Merge for DecimalAvg {
    #[inline]
    fn merge(&self, accumulator: &mut DecimalAverage, other: &DecimalAverage) {
        let sum = accumulator.sum.zip(other.sum).and_then(|(sum, other)| sum.plus(other));
        *accumulator = self.of(sum, accumulator.count.wrapping_add(other.count));
    }
}
