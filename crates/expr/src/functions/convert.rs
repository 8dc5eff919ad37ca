//! Conversions among numbers and booleans: the arrays behind CAST, and behind operators whose operands differ in type.
//!
//! | from | to | rule |
//! | --- | --- | --- |
//! | integer | smaller integer | the low bits remain, as in Java |
//! | FLOAT, DOUBLE | integer | towards zero, NaN is 0, out of range is the nearest INT or BIGINT; TINYINT and SMALLINT are the low bits of that INT |
//! | integer, FLOAT, DOUBLE | FLOAT, DOUBLE | nearest |
//! | DECIMAL | integer | towards zero, the low bits remain |
//! | DECIMAL | FLOAT, DOUBLE | the nearest DOUBLE, then the nearest FLOAT |
//! | integer, DECIMAL | DECIMAL | HALF_UP; NULL if it has too many digits |
//! | number | BOOLEAN | whether it is not 0 |
//! | BOOLEAN | number | 1 or 0; NULL where 1 does not fit |
//!
//! FLOAT and DOUBLE to DECIMAL goes through Java's text of the number, which JDK 17 does not always make the shortest.
//!
//! Follows: the cast rules in org.apache.flink.table.planner.functions.casting, Flink 2.2. None of them can fail, so that
//! TRY_CAST is the same.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion_expr::ColumnarValue;
use streamfusion_plan::Reason;
use streamfusion_plan::types::TypeKind;

use crate::error::ExprError;
use crate::functions::decimal::{self, Digits};
use crate::names::type_name;
use crate::values::{map, over_arrays, try_map, typed};

/// Converts a whole array.
pub type Conversion = Arc<dyn Fn(&ArrayRef) -> Result<ArrayRef, ExprError> + Send + Sync>;

/// A Java primitive type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    /// `byte`
    Byte,
    /// `short`
    Short,
    /// `int`
    Int,
    /// `long`
    Long,
    /// `float`
    Float,
    /// `double`
    Double,
}

impl Primitive {
    /// The primitive that holds values of a type; `None` for other types than TINYINT to DOUBLE.
    pub fn of(kind: &TypeKind) -> Option<Self> {
        Some(match kind {
            TypeKind::TinyInt => Self::Byte,
            TypeKind::SmallInt => Self::Short,
            TypeKind::Integer => Self::Int,
            TypeKind::BigInt => Self::Long,
            TypeKind::Float => Self::Float,
            TypeKind::Double => Self::Double,
            _ => return None,
        })
    }

    /// Whether it is an integer.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::Float | Self::Double)
    }

    /// The type of an operation on two of them: Java's binary numeric promotion.
    pub fn promote(self, other: Self) -> Self {
        [Self::Double, Self::Float, Self::Long]
            .into_iter()
            .find(|wide| *wide == self || *wide == other)
            .unwrap_or(Self::Int)
    }
}

/// Digits of the DECIMAL that holds every value of an integer type, as Flink has them.
pub fn integer_digits(primitive: Primitive) -> Option<Digits> {
    let precision = match primitive {
        Primitive::Byte => 3,
        Primitive::Short => 5,
        Primitive::Int => 10,
        Primitive::Long => 19,
        Primitive::Float | Primitive::Double => return None,
    };
    Some(Digits { precision, scale: 0 })
}

/// Java's cast among primitive numbers. Rust's `as` is the same, except that Java casts a floating point number to `byte`
/// and `short` by way of `int`.
trait JavaCast<T> {
    fn java_cast(self) -> T;
}

macro_rules! java_cast {
    ($($from:ty as $($via:ty),* => $to:ty;)*) => {
        $(impl JavaCast<$to> for $from {
            #[allow(clippy::cast_lossless, clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::unnecessary_cast)]
            fn java_cast(self) -> $to {
                self $(as $via)* as $to
            }
        })*
    };
}

macro_rules! java_cast_all {
    ($($from:ty),*) => {
        $(java_cast! {
            $from as => i32; $from as => i64; $from as => f32; $from as => f64;
        })*
    };
}

java_cast_all!(i8, i16, i32, i64, f32, f64);
java_cast! {
    i8 as => i8; i16 as => i8; i32 as => i8; i64 as => i8; f32 as i32 => i8; f64 as i32 => i8;
    i8 as => i16; i16 as => i16; i32 as => i16; i64 as => i16; f32 as i32 => i16; f64 as i32 => i16;
}

fn cast_values<F, T>(output: &DataType) -> Conversion
where
    F: ArrowPrimitiveType,
    T: ArrowPrimitiveType,
    F::Native: JavaCast<T::Native>,
{
    let output = output.clone();
    Arc::new(move |values| map::<F, T, _>(values, &output, JavaCast::java_cast))
}

/// Runs a generic function with the Arrow type of a primitive.
macro_rules! for_primitive {
    ($primitive:expr, $t:ident => $body:expr) => {
        match $primitive {
            Primitive::Byte => {
                type $t = Int8Type;
                $body
            }
            Primitive::Short => {
                type $t = Int16Type;
                $body
            }
            Primitive::Int => {
                type $t = Int32Type;
                $body
            }
            Primitive::Long => {
                type $t = Int64Type;
                $body
            }
            Primitive::Float => {
                type $t = Float32Type;
                $body
            }
            Primitive::Double => {
                type $t = Float64Type;
                $body
            }
        }
    };
}
/// The Arrow type of a primitive.
pub fn data_type(primitive: Primitive) -> DataType {
    for_primitive!(primitive, T => T::DATA_TYPE)
}

/// Java's cast from one primitive to another; `None` where they are the same.
pub fn primitive_cast(from: Primitive, to: Primitive) -> Option<Conversion> {
    if from == to {
        return None;
    }
    let output = data_type(to);
    Some(for_primitive!(from, F => for_primitive!(to, T => cast_values::<F, T>(&output))))
}

/// Converts between two of TINYINT to DOUBLE, DECIMAL and BOOLEAN; `None` where they are the same.
pub fn conversion(from: &TypeKind, to: &TypeKind) -> Result<Option<Conversion>, Reason> {
    if from == to {
        return Ok(None);
    }
    let refused =
        || Reason::new(format!("a cast from {} to {} is not supported natively", type_name(from), type_name(to)));
    Ok(Some(match (from, to) {
        (TypeKind::Decimal { precision, scale }, to) => {
            let from = Digits { precision: *precision, scale: *scale };
            from_decimal(from, to).ok_or_else(refused)?
        }
        (from, TypeKind::Decimal { precision, scale }) => {
            let to = Digits { precision: *precision, scale: *scale };
            if matches!(from, TypeKind::Float | TypeKind::Double) {
                return Err(Reason::new(
                    "a cast from FLOAT or DOUBLE to DECIMAL depends on how Java writes the number as text",
                ));
            }
            to_decimal(from, to).ok_or_else(refused)?
        }
        (TypeKind::Boolean, to) => {
            let to = Primitive::of(to).ok_or_else(refused)?;
            for_primitive!(to, T => from_boolean::<T>())
        }
        (from, TypeKind::Boolean) => {
            let from = Primitive::of(from).ok_or_else(refused)?;
            for_primitive!(from, T => to_boolean::<T>())
        }
        (from, to) => {
            let (from, to) = (Primitive::of(from).ok_or_else(refused)?, Primitive::of(to).ok_or_else(refused)?);
            primitive_cast(from, to).ok_or_else(refused)?
        }
    }))
}

/// The Arrow type of a DECIMAL.
pub fn decimal_type(digits: Digits) -> DataType {
    // A scale is at most 38.
    DataType::Decimal128(digits.precision, i8::try_from(digits.scale).unwrap_or(i8::MAX))
}

fn from_decimal(from: Digits, to: &TypeKind) -> Option<Conversion> {
    Some(match to {
        TypeKind::Decimal { precision, scale } => {
            let to = Digits { precision: *precision, scale: *scale };
            let output = decimal_type(to);
            Arc::new(move |values| {
                try_map::<Decimal128Type, Decimal128Type, _>(values, &output, |v| {
                    Ok(decimal::rescale(v, from.scale, to))
                })
            })
        }
        TypeKind::Boolean => to_boolean::<Decimal128Type>(),
        _ => match Primitive::of(to)? {
            Primitive::Double => Arc::new(move |values| {
                map::<Decimal128Type, Float64Type, _>(values, &DataType::Float64, |v| decimal::to_double(v, from))
            }),
            Primitive::Float => Arc::new(move |values| {
                map::<Decimal128Type, Float32Type, _>(values, &DataType::Float32, |v| {
                    decimal::to_double(v, from).java_cast()
                })
            }),
            Primitive::Long => from_decimal_to_integer::<Int64Type>(from),
            Primitive::Int => from_decimal_to_integer::<Int32Type>(from),
            Primitive::Short => from_decimal_to_integer::<Int16Type>(from),
            Primitive::Byte => from_decimal_to_integer::<Int8Type>(from),
        },
    })
}

fn from_decimal_to_integer<T>(from: Digits) -> Conversion
where
    T: ArrowPrimitiveType,
    i64: JavaCast<T::Native>,
{
    Arc::new(move |values| {
        map::<Decimal128Type, T, _>(values, &T::DATA_TYPE, |v| decimal::to_long(v, from.scale).java_cast())
    })
}

fn to_decimal(from: &TypeKind, to: Digits) -> Option<Conversion> {
    let output = decimal_type(to);
    if *from == TypeKind::Boolean {
        let one = decimal::rescale(1, 0, to);
        return Some(Arc::new(move |values| {
            let values = typed::<BooleanArray>(values)?;
            let numbers: PrimitiveArray<Decimal128Type> =
                values.iter().map(|value| value.and_then(|value| if value { one } else { Some(0) })).collect();
            Ok(Arc::new(numbers.with_data_type(output.clone())))
        }));
    }
    Some(match Primitive::of(from)? {
        Primitive::Byte => integer_to_decimal::<Int8Type>(to),
        Primitive::Short => integer_to_decimal::<Int16Type>(to),
        Primitive::Int => integer_to_decimal::<Int32Type>(to),
        Primitive::Long => integer_to_decimal::<Int64Type>(to),
        Primitive::Float | Primitive::Double => return None,
    })
}

fn integer_to_decimal<F>(to: Digits) -> Conversion
where
    F: ArrowPrimitiveType,
    F::Native: Into<i128>,
{
    let output = decimal_type(to);
    Arc::new(move |values| {
        try_map::<F, Decimal128Type, _>(values, &output, |value| Ok(decimal::rescale(value.into(), 0, to)))
    })
}

fn from_boolean<T>() -> Conversion
where
    T: ArrowPrimitiveType,
    i32: JavaCast<T::Native>,
{
    Arc::new(|values| {
        let values = typed::<BooleanArray>(values)?;
        let numbers: PrimitiveArray<T> =
            values.iter().map(|value| value.map(|value| i32::from(value).java_cast())).collect();
        Ok(Arc::new(numbers))
    })
}

fn to_boolean<F: ArrowPrimitiveType>() -> Conversion {
    Arc::new(|values| {
        let values = typed::<PrimitiveArray<F>>(values)?;
        let zero = F::default_value();
        let numbers = values.values();
        // NaN is not 0, and -0.0 is: the comparison of primitives, not of total order.
        let bits = BooleanBuffer::collect_bool(values.len(), |row| numbers.get(row).is_some_and(|v| *v != zero));
        Ok(Arc::new(BooleanArray::new(bits, values.nulls().cloned())))
    })
}

/// Converts an operand; where there is nothing to convert it is passed on.
pub fn apply(conversion: Option<&Conversion>, value: &ColumnarValue, rows: usize) -> Result<ColumnarValue, ExprError> {
    let Some(conversion) = conversion else { return Ok(value.clone()) };
    over_arrays(std::slice::from_ref(value), rows, |arrays, _| {
        let [array] = arrays else { return Err(crate::values::mismatch("one operand is expected")) };
        conversion(array)
    })
}
