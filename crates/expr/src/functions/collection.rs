//! `array[i]`, `map[k]`, CARDINALITY and ELEMENT: elements are read where they lie.
//!
//! Follows: ScalarOperatorGens.generateArrayElementAt, generateMapGet, generateArrayElement, generateArrayCardinality and
//! generateMapCardinality, Flink 2.2. Differences: a NULL key of a map is equal to no value. In Flink a map that was written to bytes has a
//! zero or an empty text in its place, a map that was not has not.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, Int32Array, PrimitiveArray, StringArray,
};
use arrow::datatypes::{DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType};
use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::collection::{ArrayView, Cell, CollectionError, ElementType, MapView};

use crate::error::ExprError;
use crate::names::type_name;
use crate::registry::Kernel;
use crate::values::{mismatch, over_arrays, typed};

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    let kind = &operands.first()?.ty()?.kind;
    Some(match (name, operands, kind) {
        ("ITEM", [_, index], TypeKind::Array(element)) => array_item(element, index, ty),
        ("ITEM", [_, key], TypeKind::Map(keys, values)) => map_item(keys, values, key, ty),
        ("CARDINALITY", [_], TypeKind::Array(_)) => Ok(cardinality(|bytes| Ok(ArrayView::try_new(bytes)?.len()))),
        ("CARDINALITY", [_], TypeKind::Map(..)) => Ok(cardinality(|bytes| Ok(MapView::try_new(bytes)?.keys.len()))),
        ("ELEMENT", [_], TypeKind::Array(element)) => only_element(element, ty),
        _ => return None,
    })
}

/// What a call makes of elements, which may be NULL, and which Flink would write as a default under a NOT NULL type.
fn element_type(name: &str, element: &LogicalType, ty: &LogicalType) -> Result<ElementType, Reason> {
    if !ty.nullable || element.kind != ty.kind {
        return Err(Reason::new(format!("{name} with a result that is NOT NULL is not supported natively")));
    }
    ElementType::try_new(element)
}

fn malformed(error: CollectionError) -> ExprError {
    mismatch(error.to_string())
}

/// One element per row, or NULL.
fn gather<'a>(
    element: &ElementType,
    rows: usize,
    cell: impl FnMut(usize) -> Result<Option<Cell<'a>>, ExprError>,
) -> Result<ArrayRef, ExprError> {
    let cells = (0..rows).map(cell).collect::<Result<Vec<_>, _>>()?;
    element.column(&cells).map_err(malformed)
}

fn array_item(element: &LogicalType, index: &Rex, ty: &LogicalType) -> Result<Kernel, Reason> {
    if index.ty().is_none_or(|ty| ty.kind != TypeKind::Integer) {
        return Err(Reason::new("an index of an ARRAY that is no INT is not supported natively"));
    }
    // Flink refuses to plan it
    if matches!(index, Rex::Literal { value: Literal::Integer(index), .. } if *index < 1) {
        return Err(Reason::new("elements of an ARRAY are counted from 1"));
    }
    let element = element_type("ITEM", element, ty)?;
    Ok(Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, rows| {
            let [values, indices] = arrays else { return Err(mismatch("two operands are expected")) };
            let (values, indices) = (typed::<BinaryArray>(values)?, typed::<Int32Array>(indices)?);
            gather(&element, rows, |row| {
                if values.is_null(row) || indices.is_null(row) {
                    return Ok(None);
                }
                let array = ArrayView::try_new(values.value(row)).map_err(malformed)?;
                let index = usize::try_from(indices.value(row)).ok().and_then(|index| index.checked_sub(1));
                Ok(index.and_then(|index| array.get(index, element.width())))
            })
        })
    }))
}

fn only_element(element: &LogicalType, ty: &LogicalType) -> Result<Kernel, Reason> {
    let element = element_type("ELEMENT", element, ty)?;
    Ok(Kernel::fallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, rows| {
            let [values] = arrays else { return Err(mismatch("one operand is expected")) };
            let values = typed::<BinaryArray>(values)?;
            gather(&element, rows, |row| {
                if values.is_null(row) {
                    return Ok(None);
                }
                let array = ArrayView::try_new(values.value(row)).map_err(malformed)?;
                if array.len() > 1 {
                    return Err(ExprError::Java {
                        class: "org.apache.flink.table.api.TableRuntimeException",
                        message: "Array has more than one element.".to_owned(),
                    });
                }
                Ok(array.get(0, element.width()))
            })
        })
    }))
}

fn cardinality(len: fn(&[u8]) -> Result<usize, CollectionError>) -> Kernel {
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            let [values] = arrays else { return Err(mismatch("one operand is expected")) };
            let values = typed::<BinaryArray>(values)?;
            let len = |value: Option<&[u8]>| {
                let len = value.map(len).transpose().map_err(malformed)?;
                let len = len.map(i32::try_from).transpose();
                len.map_err(|_| mismatch("more elements than an INT counts"))
            };
            let lengths = values.iter().map(len).collect::<Result<Int32Array, ExprError>>()?;
            Ok(Arc::new(lengths))
        })
    })
}

/// Bytes of the slot of a text.
const TEXT_WIDTH: usize = 8;

/// How keys are found.
#[derive(Debug, Clone, Copy)]
enum KeyForm {
    /// By their bytes.
    Text,
    /// By their value, in so many bytes.
    Integer(usize),
}

impl KeyForm {
    /// For keys of type `keys` and a value of type `key`, which compare by content alone.
    fn of(keys: &TypeKind, key: &TypeKind) -> Option<Self> {
        match (keys, key) {
            (TypeKind::Char(_) | TypeKind::VarChar(_), TypeKind::Char(_) | TypeKind::VarChar(_)) => Some(Self::Text),
            (TypeKind::Time(_), TypeKind::Time(_)) => Some(Self::Integer(4)),
            (keys, key) if keys != key => None,
            (TypeKind::Boolean | TypeKind::TinyInt, _) => Some(Self::Integer(1)),
            (TypeKind::SmallInt, _) => Some(Self::Integer(2)),
            (TypeKind::Integer | TypeKind::Date, _) => Some(Self::Integer(4)),
            (TypeKind::BigInt, _) => Some(Self::Integer(8)),
            _ => None,
        }
    }
}

fn map_item(keys: &LogicalType, values: &LogicalType, key: &Rex, ty: &LogicalType) -> Result<Kernel, Reason> {
    let wanted = key.ty().ok_or_else(|| Reason::new("a key of an unknown type is not supported natively"))?;
    let form = KeyForm::of(&keys.kind, &wanted.kind).ok_or_else(|| {
        let (keys, wanted) = (type_name(&keys.kind), type_name(&wanted.kind));
        Reason::new(format!("the key {wanted} of a MAP from {keys} is not supported natively"))
    })?;
    let values = element_type("ITEM", values, ty)?;
    Ok(Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, rows| {
            let [maps, keys] = arrays else { return Err(mismatch("two operands are expected")) };
            let maps = typed::<BinaryArray>(maps)?;
            let absent = |row: usize| maps.is_null(row) || keys.is_null(row);
            match form {
                KeyForm::Text => {
                    let keys = typed::<StringArray>(keys)?;
                    gather(&values, rows, |row| {
                        if absent(row) {
                            return Ok(None);
                        }
                        let wanted = keys.value(row).as_bytes();
                        find(maps.value(row), TEXT_WIDTH, values.width(), |key| Ok(key.bytes()? == wanted))
                    })
                }
                KeyForm::Integer(width) => {
                    let wanted = integers(keys)?;
                    gather(&values, rows, |row| {
                        let Some(wanted) = wanted.get(row).filter(|_| !absent(row)) else { return Ok(None) };
                        find(maps.value(row), width, values.width(), |key| Ok(key.integer(width)? == *wanted))
                    })
                }
            }
        })
    }))
}

/// The value of the first entry with a key that is the wanted one; `None` where there is none, or it is NULL.
#[inline]
fn find<'a>(
    map: &'a [u8],
    key_width: usize,
    value_width: usize,
    is_wanted: impl Fn(Cell<'a>) -> Result<bool, CollectionError>,
) -> Result<Option<Cell<'a>>, ExprError> {
    let map = MapView::try_new(map).map_err(malformed)?;
    for entry in 0..map.keys.len() {
        if let Some(key) = map.keys.get(entry, key_width)
            && is_wanted(key).map_err(malformed)?
        {
            return Ok(map.values.get(entry, value_width));
        }
    }
    Ok(None)
}

/// Keys of [`KeyForm::Integer`] as one type. What lies under a NULL means nothing.
fn integers(keys: &ArrayRef) -> Result<Vec<i64>, ExprError> {
    Ok(match keys.data_type() {
        DataType::Boolean => typed::<BooleanArray>(keys)?.values().iter().map(i64::from).collect(),
        DataType::Int8 => widened::<Int8Type>(keys)?,
        DataType::Int16 => widened::<Int16Type>(keys)?,
        DataType::Int32 => widened::<Int32Type>(keys)?,
        DataType::Date32 => widened::<Date32Type>(keys)?,
        DataType::Time32(_) => widened::<Time32MillisecondType>(keys)?,
        _ => widened::<Int64Type>(keys)?,
    })
}

fn widened<T: ArrowPrimitiveType<Native: Into<i64>>>(keys: &ArrayRef) -> Result<Vec<i64>, ExprError> {
    Ok(typed::<PrimitiveArray<T>>(keys)?.values().iter().map(|key| (*key).into()).collect())
}
