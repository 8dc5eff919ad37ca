//! Values of fixed width as aggregates see them: read from a column, compared as Java compares, written to a column.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use streamfusion_state::codec::Leaf;
use streamfusion_state::mix;

use crate::OperatorError;

/// What an aggregate reads of its argument column.
pub(super) trait Input: Debug + Send + 'static {
    /// The column, readable by row.
    type Column: Debug;
    /// One value.
    type Item<'a>: Copy;

    /// Errors if `array` holds values of another width.
    fn column(array: &ArrayRef) -> Result<Self::Column, OperatorError>;

    /// The value of `row`, which is not [skipped](Input::skipped).
    fn get(column: &Self::Column, row: usize) -> Self::Item<'_>;

    /// The NULLs of an argument, if it has any: no function sees them, but for those that ask for [`WithNulls`].
    fn skipped(argument: Option<&ArrayRef>) -> Option<&NullBuffer> {
        argument.and_then(|array| array.nulls()).filter(|nulls| nulls.null_count() > 0)
    }
}

/// Input of an aggregate that takes NULLs as values.
#[derive(Debug)]
pub(super) struct WithNulls<I>(PhantomData<fn() -> I>);

impl<I: Input> Input for WithNulls<I> {
    type Column = (I::Column, Option<NullBuffer>);
    type Item<'a> = Option<I::Item<'a>>;

    fn column(array: &ArrayRef) -> Result<Self::Column, OperatorError> {
        Ok((I::column(array)?, I::skipped(Some(array)).cloned()))
    }

    #[inline]
    fn get((column, nulls): &Self::Column, row: usize) -> Option<I::Item<'_>> {
        nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)).then(|| I::get(column, row))
    }

    fn skipped(_argument: Option<&ArrayRef>) -> Option<&NullBuffer> {
        None
    }
}

/// Input of an aggregate that only asks whether a value is NULL.
#[derive(Debug)]
pub(super) struct Presence;

impl Input for Presence {
    type Column = ();
    type Item<'a> = ();

    fn column(_array: &ArrayRef) -> Result<(), OperatorError> {
        Ok(())
    }

    #[inline]
    fn get((): &(), _row: usize) {}
}

/// A value of fixed width.
pub(super) trait Native: Leaf + Copy + Default + PartialEq {
    /// A column's values, those of NULLs included.
    type Values: Deref<Target = [Self]> + Debug;

    fn values(array: &ArrayRef) -> Result<Self::Values, OperatorError>;

    /// A column of type `ty`.
    fn array(values: Vec<Self>, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, OperatorError>;

    /// Java's `<` on the primitive: false if either is NaN.
    fn less(self, other: Self) -> bool;

    /// Java's `compareTo` on the boxed value: NaN is greatest, -0.0 below 0.0. Equal exactly where `equals` is true.
    fn compare(self, other: Self) -> Ordering;

    /// Whether Flink's generated equaliser takes both for the same: Java's `==`, so NaN differs from itself and -0.0 does
    /// not differ from 0.0.
    #[inline]
    fn same(self, other: Self) -> bool {
        self == other
    }

    /// A hash that agrees with [`Native::compare`].
    fn hash(self) -> u64;
}

impl<T: Native> Input for T {
    type Column = T::Values;
    type Item<'a> = T;

    fn column(array: &ArrayRef) -> Result<T::Values, OperatorError> {
        T::values(array)
    }

    #[inline]
    fn get(column: &T::Values, row: usize) -> T {
        column[row]
    }
}

fn scalar_values<T: ArrowNativeType>(array: &ArrayRef) -> Result<ScalarBuffer<T>, OperatorError> {
    if array.data_type().primitive_width() != Some(size_of::<T>()) {
        return Err(OperatorError::Input(format!(
            "a column of type {} where values of {} bytes were expected",
            array.data_type(),
            size_of::<T>()
        )));
    }
    let data = array.to_data();
    let buffer = data.buffers().first().cloned().unwrap_or_else(|| Buffer::from(Vec::<T>::new()));
    Ok(ScalarBuffer::new(buffer, data.offset(), data.len()))
}

fn scalar_array<T: ArrowNativeType>(
    values: Vec<T>,
    nulls: Option<NullBuffer>,
    ty: &DataType,
) -> Result<ArrayRef, OperatorError> {
    let data =
        ArrayData::builder(ty.clone()).len(values.len()).nulls(nulls).add_buffer(Buffer::from_vec(values)).build()?;
    Ok(make_array(data))
}

macro_rules! native_integer {
    ($($ty:ty => $hash:expr),*) => {$(
        impl Native for $ty {
            type Values = ScalarBuffer<Self>;

            fn values(array: &ArrayRef) -> Result<Self::Values, OperatorError> {
                scalar_values(array)
            }

            fn array(values: Vec<Self>, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, OperatorError> {
                scalar_array(values, nulls, ty)
            }

            #[inline]
            fn less(self, other: Self) -> bool {
                self < other
            }

            #[inline]
            fn compare(self, other: Self) -> Ordering {
                self.cmp(&other)
            }

            #[inline]
            fn hash(self) -> u64 {
                let hash: fn(Self) -> u64 = $hash;
                hash(self)
            }
        }
    )*};
}

native_integer!(
    i8 => |v| mix(i64::from(v).cast_unsigned()),
    i16 => |v| mix(i64::from(v).cast_unsigned()),
    i32 => |v| mix(i64::from(v).cast_unsigned()),
    i64 => |v| mix(v.cast_unsigned()),
    i128 => |v| {
        let (low, high) = (v.cast_unsigned() & u128::from(u64::MAX), v.cast_unsigned() >> 64);
        // both halves fit
        mix(low as u64 ^ mix(high as u64))
    }
);

macro_rules! native_float {
    ($($ty:ty, $bits:ty),*) => {$(
        impl Native for $ty {
            type Values = ScalarBuffer<Self>;

            fn values(array: &ArrayRef) -> Result<Self::Values, OperatorError> {
                scalar_values(array)
            }

            fn array(values: Vec<Self>, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, OperatorError> {
                scalar_array(values, nulls, ty)
            }

            #[inline]
            fn less(self, other: Self) -> bool {
                self < other
            }

            #[inline]
            fn compare(self, other: Self) -> Ordering {
                match (self.is_nan(), other.is_nan()) {
                    (true, true) => Ordering::Equal,
                    (true, false) => Ordering::Greater,
                    (false, true) => Ordering::Less,
                    (false, false) => self.total_cmp(&other),
                }
            }

            #[inline]
            fn hash(self) -> u64 {
                let canonical = if self.is_nan() { <$ty>::NAN } else { self };
                mix(u64::from(canonical.to_bits()))
            }
        }
    )*};
}

native_float!(f32, u32, f64, u64);

impl Native for bool {
    type Values = Vec<bool>;

    fn values(array: &ArrayRef) -> Result<Vec<bool>, OperatorError> {
        let array = array.as_boolean_opt().ok_or_else(|| {
            OperatorError::Input(format!("a column of type {} where BOOLEAN was expected", array.data_type()))
        })?;
        Ok(array.values().iter().collect())
    }

    fn array(values: Vec<bool>, nulls: Option<NullBuffer>, _ty: &DataType) -> Result<ArrayRef, OperatorError> {
        Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)))
    }

    #[inline]
    fn less(self, other: bool) -> bool {
        !self & other
    }

    #[inline]
    fn compare(self, other: bool) -> Ordering {
        self.cmp(&other)
    }

    #[inline]
    fn hash(self) -> u64 {
        mix(u64::from(self))
    }
}

/// A native value under Java's `compareTo`, as a key of ordered maps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparable<T>(pub(super) T);

impl<T: Native> PartialEq for Comparable<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.compare(other.0).is_eq()
    }
}

impl<T: Native> Eq for Comparable<T> {}

impl<T: Native> PartialOrd for Comparable<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Native> Ord for Comparable<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.compare(other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_compare_as_java_does() {
        let quiet_nan_with_payload = f64::from_bits(0xfff8_0000_0000_0001);
        // (a, b, a < b, a == b, compareTo)
        let cases = [
            (1.0, 2.0, true, false, Ordering::Less),
            (-0.0, 0.0, false, true, Ordering::Less),
            (f64::NAN, f64::NAN, false, false, Ordering::Equal),
            (f64::NAN, quiet_nan_with_payload, false, false, Ordering::Equal),
            (f64::INFINITY, f64::NAN, false, false, Ordering::Less),
            (quiet_nan_with_payload, f64::NEG_INFINITY, false, false, Ordering::Greater),
        ];
        for (a, b, less, same, order) in cases {
            assert_eq!((Native::less(a, b), a.same(b), Native::compare(a, b)), (less, same, order), "{a} {b}");
            if order.is_eq() {
                assert_eq!(Native::hash(a), Native::hash(b));
            }
        }
    }
}
