//! SUM and $SUM0.
//!
//! Follows: SumAggFunction, SumWithRetractAggFunction, Sum0AggFunction, Flink 2.2. Differences: none.

use std::marker::PhantomData;

use arrow::datatypes::DataType;
use streamfusion_state::Value;
use streamfusion_state::codec::{Codec, Mapped, Nullable, Required};

use super::fold::Function;
use super::number::Number;
use super::two_phase::Merge;

/// SUM over rows that insert only. A decimal sum that outgrew 38 digits is NULL and starts anew with the next value.
#[derive(Debug)]
pub(super) struct Sum<T>(pub(super) PhantomData<T>);

impl<T: Number> Function for Sum<T> {
    type Input = T;
    type Output = T;
    type Accumulator = Option<T>;

    fn codec(&self, output: &DataType) -> impl Codec<Option<T>> {
        Nullable::new("sum", output.clone())
    }

    fn create(&self) -> Option<T> {
        None
    }

    #[inline]
    fn accumulate(&self, sum: &mut Option<T>, value: T) {
        *sum = match *sum {
            None => Some(value),
            Some(sum) => sum.plus(value),
        };
    }

    #[inline]
    fn retract(&self, sum: &mut Option<T>, value: T) {
        *sum = sum.unwrap_or_default().minus(value);
    }

    #[inline]
    fn value(&self, sum: &Option<T>) -> Option<T> {
        *sum
    }
}

/// SUM over rows that retract: NULL again when as many values were retracted as accumulated.
#[derive(Debug)]
pub(super) struct SumWithRetract<T>(pub(super) PhantomData<T>);

/// A sum, and the accumulated values less the retracted ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedSum<T> {
    sum: Option<T>,
    count: i64,
}

impl<T: Number> Value for CountedSum<T> {}

impl<T: Number> Function for SumWithRetract<T> {
    type Input = T;
    type Output = T;
    type Accumulator = CountedSum<T>;

    fn codec(&self, output: &DataType) -> impl Codec<CountedSum<T>> {
        let columns = (Nullable::new("sum", output.clone()), Required::new("count", DataType::Int64));
        Mapped::new(
            columns,
            |value: &CountedSum<T>| (value.sum, value.count),
            |(sum, count)| Ok(CountedSum { sum, count }),
        )
    }

    fn create(&self) -> CountedSum<T> {
        CountedSum { sum: None, count: 0 }
    }

    #[inline]
    fn accumulate(&self, accumulator: &mut CountedSum<T>, value: T) {
        accumulator.sum = match accumulator.sum {
            None => Some(value),
            Some(sum) => sum.plus(value),
        };
        accumulator.count = accumulator.count.wrapping_add(1);
    }

    #[inline]
    fn retract(&self, accumulator: &mut CountedSum<T>, value: T) {
        accumulator.sum = accumulator.sum.unwrap_or_default().minus(value);
        accumulator.count = accumulator.count.wrapping_sub(1);
    }

    #[inline]
    fn value(&self, accumulator: &CountedSum<T>) -> Option<T> {
        accumulator.sum.filter(|_| accumulator.count != 0)
    }
}

/// $SUM0: 0 without values. A decimal sum that outgrew 38 digits stays NULL.
#[derive(Debug)]
pub(super) struct Sum0<T>(pub(super) PhantomData<T>);

impl<T: Number> Function for Sum0<T> {
    type Input = T;
    type Output = T;
    type Accumulator = Option<T>;

    fn codec(&self, output: &DataType) -> impl Codec<Option<T>> {
        Nullable::new("sum", output.clone())
    }

    fn create(&self) -> Option<T> {
        Some(T::default())
    }

    #[inline]
    fn accumulate(&self, sum: &mut Option<T>, value: T) {
        *sum = sum.and_then(|sum| sum.plus(value));
    }

    #[inline]
    fn retract(&self, sum: &mut Option<T>, value: T) {
        *sum = sum.and_then(|sum| sum.minus(value));
    }

    #[inline]
    fn value(&self, sum: &Option<T>) -> Option<T> {
        *sum
    }
}

/// The sum of two sums, either of which may be NULL for want of values.
#[inline]
fn merged<T: Number>(sum: Option<T>, other: Option<T>) -> Option<T> {
    match (sum, other) {
        (sum, None) => sum,
        (None, other) => other,
        (Some(sum), Some(other)) => sum.plus(other),
    }
}

impl<T: Number> Merge for Sum<T> {
    #[inline]
    fn merge(&self, sum: &mut Option<T>, other: &Option<T>) {
        *sum = merged(*sum, *other);
    }
}

impl<T: Number> Merge for SumWithRetract<T> {
    #[inline]
    fn merge(&self, accumulator: &mut CountedSum<T>, other: &CountedSum<T>) {
        accumulator.sum = merged(accumulator.sum, other.sum);
        accumulator.count = accumulator.count.wrapping_add(other.count);
    }
}

impl<T: Number> Merge for Sum0<T> {
    #[inline]
    fn merge(&self, sum: &mut Option<T>, other: &Option<T>) {
        *sum = sum.zip(*other).and_then(|(sum, other)| sum.plus(other));
    }
}
