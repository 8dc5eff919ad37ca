//! Keys of one column of at most 8 bytes, bit by bit, and back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, TimeUnit};

use crate::canonical::Fault;
use crate::codec::{fixed_array, fixed_values};

/// The values of a column of at most 8 bytes, bit by bit, as they lie in the slot of a BinaryRow. Values of NULLs are
/// arbitrary. False if the column is of another type.
pub fn fixed_key_bits(column: &ArrayRef, bits: &mut Vec<u64>) -> bool {
    bits.clear();
    let extended = match column.data_type() {
        DataType::Boolean => column.as_boolean_opt().map(|v| bits.extend(v.values().iter().map(u64::from))),
        DataType::Int8 => {
            fixed_values::<i8>(column).map(|v| bits.extend(v.iter().map(|v| u64::from(v.cast_unsigned()))))
        }
        DataType::Int16 => {
            fixed_values::<i16>(column).map(|v| bits.extend(v.iter().map(|v| u64::from(v.cast_unsigned()))))
        }
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
            fixed_values::<i32>(column).map(|v| bits.extend(v.iter().map(|v| u64::from(v.cast_unsigned()))))
        }
        DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => {
            fixed_values::<i64>(column).map(|v| bits.extend(v.iter().map(|v| v.cast_unsigned())))
        }
        DataType::Float32 => fixed_values::<f32>(column).map(|v| bits.extend(v.iter().map(|v| u64::from(v.to_bits())))),
        DataType::Float64 => fixed_values::<f64>(column).map(|v| bits.extend(v.iter().map(|v| v.to_bits()))),
        DataType::Decimal128(precision, _) if *precision <= 18 => {
            // at most 18 digits fit
            fixed_values::<i128>(column).map(|v| bits.extend(v.iter().map(|v| *v as u64)))
        }
        _ => None,
    };
    extended.is_some()
}

/// The first row with a decimal of more digits than its type has.
pub(super) fn wide_decimal(column: &ArrayRef) -> Option<usize> {
    let DataType::Decimal128(precision, _) = column.data_type() else { return None };
    let limit = 10_u128.checked_pow(u32::from(*precision))?;
    let values = fixed_values::<i128>(column)?;
    values.iter().enumerate().position(|(row, value)| column.is_valid(row) && value.unsigned_abs() >= limit)
}

/// The column of the Arrow type `ty` whose values have these bits.
#[expect(clippy::cast_possible_truncation, reason = "the bits of a narrower value are the low ones")]
pub(super) fn fixed_key_array(bits: Vec<u64>, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, Fault> {
    let bits = bits.into_iter();
    match ty {
        DataType::Boolean => Ok(Arc::new(BooleanArray::new(bits.map(|v| v != 0).collect::<BooleanBuffer>(), nulls))),
        DataType::Int8 => fixed_array(bits.map(|v| v as i8).collect(), nulls, ty),
        DataType::Int16 => fixed_array(bits.map(|v| v as i16).collect(), nulls, ty),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
            fixed_array(bits.map(|v| v as i32).collect(), nulls, ty)
        }
        DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => {
            fixed_array(bits.map(u64::cast_signed).collect(), nulls, ty)
        }
        DataType::Float32 => fixed_array(bits.map(|v| f32::from_bits(v as u32)).collect(), nulls, ty),
        DataType::Float64 => fixed_array(bits.map(f64::from_bits).collect(), nulls, ty),
        DataType::Decimal128(_, _) => fixed_array(bits.map(|v| i128::from(v.cast_signed())).collect(), nulls, ty),
        _ => Err(Fault::Unwritable { what: "a key of this type" }),
    }
}
