//! Values that can be compared and kept: fixed width or bytes, behind one trait for MIN, MAX, FIRST_VALUE and LAST_VALUE.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::DataType;
use streamfusion_state::codec::Leaf;

use super::native::{Comparable, Input, Native};
use super::versions::{Bytes, Output};
use crate::OperatorError;

/// The argument of an aggregate over strings or binary values.
#[derive(Debug)]
pub(super) struct BytesInput;

/// A column of bytes.
#[derive(Debug)]
pub(super) struct BytesColumn {
    offsets: OffsetBuffer<i32>,
    data: Buffer,
}

impl Input for BytesInput {
    type Column = BytesColumn;
    type Item<'a> = &'a [u8];

    fn column(array: &ArrayRef) -> Result<BytesColumn, OperatorError> {
        let (offsets, data) = match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                (array.offsets(), array.values())
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                (array.offsets(), array.values())
            }
            other => {
                return Err(OperatorError::Input(format!("a column of type {other} where bytes were expected")));
            }
        };
        Ok(BytesColumn { offsets: offsets.clone(), data: data.clone() })
    }

    #[inline]
    fn get(column: &BytesColumn, row: usize) -> &[u8] {
        // offsets of a valid column are not negative
        &column.data[column.offsets[row] as usize..column.offsets[row + 1] as usize]
    }
}

/// A value that aggregates compare and keep.
pub(super) trait Value: Output + Leaf {
    type Input: Input;
    /// The value under Java's `compareTo`.
    type Key: Ord + Clone + Debug + Send + Sync + 'static;

    fn own(item: <Self::Input as Input>::Item<'_>) -> Self;

    /// What stands where there is no value.
    fn nothing() -> Self;

    /// Flink's generated comparison of the operand with a value: `item < than` or `item > than`.
    fn is(item: <Self::Input as Input>::Item<'_>, order: Ordering, than: &Self) -> bool;

    /// [`Value::is`] of two values.
    fn replaces(&self, order: Ordering, than: &Self) -> bool;

    fn key(&self) -> Self::Key;

    fn of_key(key: &Self::Key) -> Self;

    /// The entry of a value, without owning it.
    fn find<'m, E>(map: &'m mut BTreeMap<Self::Key, E>, item: <Self::Input as Input>::Item<'_>) -> Option<&'m mut E>;

    /// `compareTo` between the item and the value.
    fn compare(item: <Self::Input as Input>::Item<'_>, with: &Self) -> Ordering;
}

impl<T: Native> Value for T {
    type Input = T;
    type Key = Comparable<T>;

    #[inline]
    fn own(item: T) -> T {
        item
    }

    fn nothing() -> T {
        T::default()
    }

    #[inline]
    fn is(item: T, order: Ordering, than: &T) -> bool {
        match order {
            Ordering::Less => item.less(*than),
            _ => than.less(item),
        }
    }

    #[inline]
    fn replaces(&self, order: Ordering, than: &T) -> bool {
        Self::is(*self, order, than)
    }

    fn key(&self) -> Comparable<T> {
        Comparable(*self)
    }

    fn of_key(key: &Comparable<T>) -> T {
        key.0
    }

    fn find<E>(map: &mut BTreeMap<Comparable<T>, E>, item: T) -> Option<&mut E> {
        map.get_mut(&Comparable(item))
    }

    fn compare(item: T, with: &T) -> Ordering {
        Native::compare(item, *with)
    }
}

impl Value for Bytes {
    type Input = BytesInput;
    type Key = Bytes;

    fn own(item: &[u8]) -> Bytes {
        Arc::from(item)
    }

    fn nothing() -> Bytes {
        Arc::default()
    }

    #[inline]
    fn is(item: &[u8], order: Ordering, than: &Bytes) -> bool {
        item.cmp(than) == order
    }

    #[inline]
    fn replaces(&self, order: Ordering, than: &Bytes) -> bool {
        Self::is(self, order, than)
    }

    fn key(&self) -> Bytes {
        Arc::clone(self)
    }

    fn of_key(key: &Bytes) -> Bytes {
        Arc::clone(key)
    }

    fn find<'m, E>(map: &'m mut BTreeMap<Bytes, E>, item: &[u8]) -> Option<&'m mut E> {
        map.get_mut(item)
    }

    fn compare(item: &[u8], with: &Bytes) -> Ordering {
        item.cmp(with)
    }
}
