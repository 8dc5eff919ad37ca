//! `= <> < <= > >=` and IS [NOT] DISTINCT FROM.
//!
//! | operands | order |
//! | --- | --- |
//! | two of TINYINT to DOUBLE | as Java primitives after promotion: NaN equals nothing, -0.0 equals 0.0 |
//! | DECIMAL, integer | exact value |
//! | DECIMAL, FLOAT or DOUBLE | Double.compare: NaN equals itself and is the greatest, -0.0 is below 0.0 |
//! | BOOLEAN | FALSE is below TRUE |
//! | CHAR, VARCHAR | bytes of UTF-8; trailing blanks count |
//! | BINARY, VARBINARY | unsigned bytes |
//! | DATE, TIME, intervals | the number |
//! | TIMESTAMP, TIMESTAMP_LTZ | the instant, whatever the precisions |
//!
//! Flink itself orders two texts that both were never serialized by UTF-16 units, and all others by bytes; the two differ
//! only between characters above U+FFFF and those from U+E000 to U+FFFF.
//!
//! Follows: ScalarOperatorGens.generateEquals, generateComparison, generateIsDistinctFrom, Flink 2.2.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Datum, PrimitiveArray, Scalar};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::kernels::cmp;
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimestampMillisecondType,
};
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;
use streamfusion_plan::Reason;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::arrow_type;

use crate::error::ExprError;
use crate::functions::convert::{self, Conversion, Primitive, integer_digits};
use crate::functions::decimal::{self, Digits};
use crate::names::type_name;
use crate::registry::Kernel;
use crate::values::{mismatch, operand, typed};

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], _ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    let comparison = match name {
        "=" | "IS DISTINCT FROM" | "IS NOT DISTINCT FROM" => Comparison::Equal,
        "<>" | "!=" => Comparison::NotEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    };
    let [left, right] = operands else { return None };
    let (left, right) = (left.ty()?, right.ty()?);
    let comparator = match Comparator::new(comparison, left, right) {
        Ok(comparator) => comparator,
        Err(reason) => return Some(Err(reason)),
    };
    Some(Ok(match name {
        "IS DISTINCT FROM" => distinct(comparator, false),
        "IS NOT DISTINCT FROM" => distinct(comparator, true),
        _ => Kernel::infallible(move |operands, rows| {
            comparator.compare(operand(operands, 0)?, operand(operands, 1)?, rows)
        }),
    }))
}

/// IS NOT DISTINCT FROM where `equal`, else IS DISTINCT FROM.
fn distinct(comparator: Comparator, equal: bool) -> Kernel {
    Kernel::infallible(move |operands, rows| {
        let (left, right) = (operand(operands, 0)?.to_array(rows)?, operand(operands, 1)?.to_array(rows)?);
        let (left_nulls, right_nulls) = (left.nulls().cloned(), right.nulls().cloned());
        let equals = comparator
            .compare(&ColumnarValue::Array(left), &ColumnarValue::Array(right), rows)?
            .into_array_of_size(rows)?;
        let equals = typed::<BooleanArray>(&equals)?;
        let same = BooleanBuffer::collect_bool(rows, |row| {
            let is_null = |nulls: &Option<NullBuffer>| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            match (is_null(&left_nulls), is_null(&right_nulls)) {
                (true, true) => true,
                (false, false) => equals.is_valid(row) && equals.value(row),
                _ => false,
            }
        });
        let bits = if equal { same } else { !&same };
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(bits, None))))
    })
}

type Compare = dyn Fn(&Side, &Side) -> Result<BooleanArray, ExprError> + Send + Sync;

/// One side of a comparison: an array, or one value for all rows.
struct Side {
    values: ArrayRef,
    constant: bool,
}

/// Compares values of two types.
#[derive(Clone)]
pub struct Comparator {
    left: Option<Conversion>,
    right: Option<Conversion>,
    compare: Arc<Compare>,
}

impl Comparator {
    /// A comparator for two types, or why there is none.
    pub fn new(comparison: Comparison, left: &LogicalType, right: &LogicalType) -> Result<Self, Reason> {
        arrow_type(left)?;
        arrow_type(right)?;
        let refused = || {
            Reason::new(format!(
                "the comparison of {} with {} is not supported natively",
                type_name(&left.kind),
                type_name(&right.kind)
            ))
        };
        if let Some(comparator) = Self::numeric(comparison, &left.kind, &right.kind)? {
            return Ok(comparator);
        }
        let plain = |compare: Arc<Compare>| Self { left: None, right: None, compare };
        Ok(match (&left.kind, &right.kind) {
            (TypeKind::Boolean, TypeKind::Boolean)
            | (TypeKind::Char(_) | TypeKind::VarChar(_), TypeKind::Char(_) | TypeKind::VarChar(_))
            | (TypeKind::Binary(_) | TypeKind::VarBinary(_), TypeKind::Binary(_) | TypeKind::VarBinary(_)) => {
                plain(Arc::new(move |left, right| datums(comparison, left, right)))
            }
            (TypeKind::Date, TypeKind::Date) => plain(ordered::<Date32Type>(comparison)),
            (TypeKind::Time(_), TypeKind::Time(_)) => plain(ordered::<Time32MillisecondType>(comparison)),
            (TypeKind::IntervalYearMonth, TypeKind::IntervalYearMonth) => plain(ordered::<Int32Type>(comparison)),
            (TypeKind::IntervalDayTime, TypeKind::IntervalDayTime) => plain(ordered::<Int64Type>(comparison)),
            (TypeKind::Timestamp { precision: p, .. }, TypeKind::Timestamp { precision: q, .. })
            | (TypeKind::TimestampLtz { precision: p, .. }, TypeKind::TimestampLtz { precision: q, .. }) => {
                plain(timestamps(comparison, *p <= 3, *q <= 3))
            }
            _ => return Err(refused()),
        })
    }

    fn numeric(comparison: Comparison, left: &TypeKind, right: &TypeKind) -> Result<Option<Self>, Reason> {
        let digits = |kind: &TypeKind| match kind {
            TypeKind::Decimal { precision, scale } => Some(Digits { precision: *precision, scale: *scale }),
            _ => None,
        };
        Ok(Some(match (digits(left), digits(right), Primitive::of(left), Primitive::of(right)) {
            (Some(left), Some(right), _, _) => decimals(comparison, (left, None), (right, None)),
            (Some(a), None, _, Some(b)) => match integer_digits(b) {
                Some(digits) => decimals(comparison, (a, None), (digits, to_decimal(right, digits)?)),
                None => decimal_with_double(comparison, left, right)?,
            },
            (None, Some(b), Some(a), _) => match integer_digits(a) {
                Some(digits) => decimals(comparison, (digits, to_decimal(left, digits)?), (b, None)),
                None => decimal_with_double(comparison, left, right)?,
            },
            (None, None, Some(a), Some(b)) => {
                // Two bytes or two shorts compare alike before and after Java's promotion to int.
                let common = if a == b { a } else { a.promote(b) };
                Self {
                    left: convert::primitive_cast(a, common),
                    right: convert::primitive_cast(b, common),
                    compare: match common {
                        Primitive::Byte => ordered::<Int8Type>(comparison),
                        Primitive::Short => ordered::<Int16Type>(comparison),
                        Primitive::Int => ordered::<Int32Type>(comparison),
                        Primitive::Long => ordered::<Int64Type>(comparison),
                        Primitive::Float => ordered::<Float32Type>(comparison),
                        Primitive::Double => ordered::<Float64Type>(comparison),
                    },
                }
            }
            _ => return Ok(None),
        }))
    }

    /// TRUE, FALSE or NULL for each row; NULL where a side is.
    pub fn compare(
        &self,
        left: &ColumnarValue,
        right: &ColumnarValue,
        rows: usize,
    ) -> Result<ColumnarValue, ExprError> {
        let left = side(convert::apply(self.left.as_ref(), left, rows)?)?;
        let right = side(convert::apply(self.right.as_ref(), right, rows)?)?;
        if (left.constant && left.values.is_null(0)) || (right.constant && right.values.is_null(0)) {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
        }
        let result = (self.compare)(&left, &right)?;
        if left.constant && right.constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(result.is_valid(0).then(|| result.value(0)))));
        }
        Ok(ColumnarValue::Array(Arc::new(result)))
    }
}

fn side(value: ColumnarValue) -> Result<Side, ExprError> {
    Ok(match value {
        ColumnarValue::Array(values) => Side { values, constant: false },
        ColumnarValue::Scalar(value) => Side { values: value.to_array_of_size(1)?, constant: true },
    })
}

fn datums(comparison: Comparison, left: &Side, right: &Side) -> Result<BooleanArray, ExprError> {
    fn datum(side: &Side) -> Box<dyn Datum> {
        let values = Arc::clone(&side.values);
        if side.constant { Box::new(Scalar::new(values)) } else { Box::new(values) }
    }
    let (left, right) = (datum(left), datum(right));
    Ok(match comparison {
        Comparison::Equal => cmp::eq(left.as_ref(), right.as_ref()),
        Comparison::NotEqual => cmp::neq(left.as_ref(), right.as_ref()),
        Comparison::Less => cmp::lt(left.as_ref(), right.as_ref()),
        Comparison::LessOrEqual => cmp::lt_eq(left.as_ref(), right.as_ref()),
        Comparison::Greater => cmp::gt(left.as_ref(), right.as_ref()),
        Comparison::GreaterOrEqual => cmp::gt_eq(left.as_ref(), right.as_ref()),
    }?)
}

/// Compares primitives with the operators of their type, which are Java's.
fn ordered<T: ArrowPrimitiveType>(comparison: Comparison) -> Arc<Compare>
where
    T::Native: PartialOrd,
{
    match comparison {
        Comparison::Equal => by::<T, T, _>(|a, b| a == b),
        Comparison::NotEqual => by::<T, T, _>(|a, b| a != b),
        Comparison::Less => by::<T, T, _>(|a, b| a < b),
        Comparison::LessOrEqual => by::<T, T, _>(|a, b| a <= b),
        Comparison::Greater => by::<T, T, _>(|a, b| a > b),
        Comparison::GreaterOrEqual => by::<T, T, _>(|a, b| a >= b),
    }
}

/// Compares by a function of two values.
fn by<L, R, F>(function: F) -> Arc<Compare>
where
    L: ArrowPrimitiveType,
    R: ArrowPrimitiveType,
    F: Fn(L::Native, R::Native) -> bool + Send + Sync + 'static,
{
    Arc::new(move |left, right| {
        let (a, b) = (typed::<PrimitiveArray<L>>(&left.values)?, typed::<PrimitiveArray<R>>(&right.values)?);
        match (left.constant, right.constant) {
            (false, true) => {
                let b = b.value(0);
                Ok(BooleanArray::from_unary(a, |a| function(a, b)))
            }
            (true, false) => {
                let a = a.value(0);
                Ok(BooleanArray::from_unary(b, |b| function(a, b)))
            }
            _ if a.len() == b.len() => Ok(BooleanArray::from_binary(a, b, &function)),
            _ => Err(mismatch("the compared columns differ in length")),
        }
    })
}

fn decimals(
    comparison: Comparison,
    (left, left_conversion): (Digits, Option<Conversion>),
    (right, right_conversion): (Digits, Option<Conversion>),
) -> Comparator {
    let compare = if left.scale == right.scale {
        ordered::<Decimal128Type>(comparison)
    } else {
        by::<Decimal128Type, Decimal128Type, _>(move |a, b| {
            comparison.accepts(decimal::compare(a, left.scale, b, right.scale))
        })
    };
    Comparator { left: left_conversion, right: right_conversion, compare }
}

fn to_decimal(kind: &TypeKind, digits: Digits) -> Result<Option<Conversion>, Reason> {
    convert::conversion(kind, &TypeKind::Decimal { precision: digits.precision, scale: digits.scale })
}

/// DECIMAL with FLOAT or DOUBLE: both as doubles, in the total order of Double.compare.
fn decimal_with_double(comparison: Comparison, left: &TypeKind, right: &TypeKind) -> Result<Comparator, Reason> {
    Ok(Comparator {
        left: convert::conversion(left, &TypeKind::Double)?,
        right: convert::conversion(right, &TypeKind::Double)?,
        compare: by::<Float64Type, Float64Type, _>(move |a, b| comparison.accepts(java_double_compare(a, b))),
    })
}

/// Double.compare.
pub(crate) fn java_double_compare(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.total_cmp(&b),
    }
}

fn timestamps(comparison: Comparison, left_in_millis: bool, right_in_millis: bool) -> Arc<Compare> {
    const NANOS: i128 = 1_000_000;
    match (left_in_millis, right_in_millis) {
        (true, true) => ordered::<TimestampMillisecondType>(comparison),
        (false, false) => ordered::<Decimal128Type>(comparison),
        (true, false) => by::<TimestampMillisecondType, Decimal128Type, _>(move |a, b| {
            comparison.accepts((i128::from(a) * NANOS).cmp(&b))
        }),
        (false, true) => by::<Decimal128Type, TimestampMillisecondType, _>(move |a, b| {
            comparison.accepts(a.cmp(&(i128::from(b) * NANOS)))
        }),
    }
}
