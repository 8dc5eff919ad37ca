//! SEARCH: membership in a set of ranges, which is what IN, NOT IN and BETWEEN with constants become.
//!
//! Flink looks single values up in a hash set (also the values that NOT IN excludes) and compares with every other range.
//! The two differ for FLOAT and DOUBLE: a hash set tells -0.0 from 0.0 and NaN is in no set, hence outside of every excluded
//! one, while a comparison with NaN is FALSE.
//!
//! Follows: SearchOperatorGen, Flink 2.2.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimestampMillisecondType,
};
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;
use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Literal, Rex, Sarg, SargBound, SargRange};
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::arrow_type;

use crate::error::ExprError;
use crate::functions::compare::{Comparator, Comparison};
use crate::functions::convert::{self, Conversion, Primitive};
use crate::functions::decimal;
use crate::literal;
use crate::registry::Kernel;
use crate::values::{mismatch, operand, over_arrays, typed};

/// Tells for each value that is not NULL whether it is in the set; what it says about a NULL is ignored.
type Members = Arc<dyn Fn(&ArrayRef) -> Result<BooleanBuffer, ExprError> + Send + Sync>;

/// The kernel of a SEARCH, or why it has none.
pub fn kernel(operand_rex: &Rex, sarg: &Sarg) -> Result<Kernel, Reason> {
    let Some(ty) = operand_rex.ty() else {
        return Err(Reason::new("a search for a value of an unknown type is not supported natively"));
    };
    arrow_type(ty)?;
    arrow_type(&sarg.ty)?;
    let members = match (points(&sarg.ranges), excluded(&sarg.ranges)) {
        (Some(points), _) => in_set(&points, ty, &sarg.ty, true)?,
        (None, Some(points)) => in_set(&points, ty, &sarg.ty, false)?,
        (None, None) => in_ranges(&sarg.ranges, ty, &sarg.ty)?,
    };
    let null_as = sarg.null_as;
    Ok(Kernel::infallible(move |operands, rows| {
        over_arrays(std::slice::from_ref(operand(operands, 0)?), rows, |arrays, _| {
            let [values] = arrays else { return Err(mismatch("one operand is expected")) };
            let bits = members(values)?;
            let result: ArrayRef = Arc::new(with_nulls(bits, values.nulls(), null_as));
            Ok(result)
        })
    }))
}

fn with_nulls(bits: BooleanBuffer, nulls: Option<&NullBuffer>, null_as: Option<bool>) -> BooleanArray {
    match (nulls, null_as) {
        (None, _) => BooleanArray::new(bits, None),
        (Some(nulls), None) => BooleanArray::new(bits, Some(nulls.clone())),
        (Some(nulls), Some(false)) => BooleanArray::new(&bits & nulls.inner(), None),
        (Some(nulls), Some(true)) => BooleanArray::new(&bits | &!nulls.inner(), None),
    }
}

/// The values of ranges that all are single values; of no range at all, too.
fn points(ranges: &[SargRange]) -> Option<Vec<Literal>> {
    ranges
        .iter()
        .map(|range| match (&range.lower, &range.upper) {
            (Some(lower), Some(upper)) if lower.inclusive && upper.inclusive && lower.value == upper.value => {
                Some(lower.value.clone())
            }
            _ => None,
        })
        .collect()
}

/// The values between ranges that leave out nothing but single values.
fn excluded(ranges: &[SargRange]) -> Option<Vec<Literal>> {
    let (first, last) = (ranges.first()?, ranges.last()?);
    if first.lower.is_some() || last.upper.is_some() {
        return None;
    }
    ranges
        .windows(2)
        .map(|pair| match pair {
            [SargRange { upper: Some(upper), .. }, SargRange { lower: Some(lower), .. }]
                if !upper.inclusive && !lower.inclusive && upper.value == lower.value =>
            {
                Some(upper.value.clone())
            }
            _ => None,
        })
        .collect()
}

fn in_ranges(ranges: &[SargRange], ty: &LogicalType, bound_ty: &LogicalType) -> Result<Members, Reason> {
    type Check = (Comparator, ColumnarValue);
    let check = |bound: &SargBound, strict: Comparison, inclusive: Comparison| -> Result<Check, Reason> {
        let comparison = if bound.inclusive { inclusive } else { strict };
        let value = literal::scalar(&bound.value, bound_ty)?;
        Ok((Comparator::new(comparison, ty, bound_ty)?, ColumnarValue::Scalar(value)))
    };
    let ranges = ranges
        .iter()
        .map(|range| {
            let mut checks = Vec::new();
            if let Some(lower) = &range.lower {
                checks.push(check(lower, Comparison::Greater, Comparison::GreaterOrEqual)?);
            }
            if let Some(upper) = &range.upper {
                checks.push(check(upper, Comparison::Less, Comparison::LessOrEqual)?);
            }
            Ok(checks)
        })
        .collect::<Result<Vec<Vec<Check>>, Reason>>()?;
    Ok(Arc::new(move |values| {
        let rows = values.len();
        let column = ColumnarValue::Array(Arc::clone(values));
        let mut result = BooleanBuffer::new_unset(rows);
        for checks in &ranges {
            let mut inside = BooleanBuffer::new_set(rows);
            for (comparator, bound) in checks {
                let compared = comparator.compare(&column, bound, rows)?.into_array_of_size(rows)?;
                inside = &inside & typed::<BooleanArray>(&compared)?.values();
            }
            result = &result | &inside;
        }
        Ok(result)
    }))
}

/// Membership in a set of single values, or (not `included`) in everything but them.
fn in_set(points: &[Literal], ty: &LogicalType, point_ty: &LogicalType, included: bool) -> Result<Members, Reason> {
    let (common, conversion) = common_type(ty, point_ty)?;
    let points =
        points.iter().map(|point| literal::scalar(point, point_ty)).collect::<Result<Vec<ScalarValue>, Reason>>()?;
    let point_conversion = convert_to(&point_ty.kind, &common)?;
    let failed = |error: ExprError| Reason::new(format!("a constant cannot be converted: {error}"));
    let points = points
        .into_iter()
        .map(|point| {
            let value = convert::apply(point_conversion.as_ref(), &ColumnarValue::Scalar(point), 1).map_err(failed)?;
            crate::values::to_array(&value, 1).map_err(failed)
        })
        .collect::<Result<Vec<ArrayRef>, Reason>>()?;
    let found = set_of(&common, &points)?.map_err(failed)?;
    Ok(Arc::new(move |values| {
        let bits = match &conversion {
            Some(conversion) => found(&conversion(values)?)?,
            None => found(values)?,
        };
        Ok(if included { bits } else { !&bits })
    }))
}

/// The type that Flink converts both sides to before it looks a value up, with the conversion of the operand.
fn common_type(ty: &LogicalType, point_ty: &LogicalType) -> Result<(TypeKind, Option<Conversion>), Reason> {
    let refused = || Reason::new("a search among constants of another type is not supported natively");
    let common = match (&ty.kind, &point_ty.kind) {
        (left, right) if left == right => left.clone(),
        // Text stays as it is: the common type is a VARCHAR that is long enough.
        (TypeKind::VarChar(_), TypeKind::Char(_) | TypeKind::VarChar(_))
        | (TypeKind::Char(_), TypeKind::VarChar(_)) => {
            return Ok((TypeKind::VarChar(u32::MAX), None));
        }
        (TypeKind::Timestamp { precision: p, .. }, TypeKind::Timestamp { precision: q, .. })
        | (TypeKind::TimestampLtz { precision: p, .. }, TypeKind::TimestampLtz { precision: q, .. })
            if p == q =>
        {
            return Ok((ty.kind.clone(), None));
        }
        (left, right) => {
            let integers = [left, right].map(|kind| Primitive::of(kind).filter(|p| p.is_integer()));
            match integers {
                [Some(left), Some(right)] => {
                    if left.promote(right) == Primitive::Long {
                        TypeKind::BigInt
                    } else {
                        TypeKind::Integer
                    }
                }
                _ => common_decimal(left, right).ok_or_else(refused)?,
            }
        }
    };
    let conversion = convert_to(&ty.kind, &common)?;
    Ok((common, conversion))
}

fn convert_to(from: &TypeKind, common: &TypeKind) -> Result<Option<Conversion>, Reason> {
    if from == common || !matches!(common, TypeKind::Integer | TypeKind::BigInt | TypeKind::Decimal { .. }) {
        return Ok(None);
    }
    convert::conversion(from, common)
}

/// The DECIMAL that holds all values of two exact types, if there is one.
fn common_decimal(left: &TypeKind, right: &TypeKind) -> Option<TypeKind> {
    let digits = |kind: &TypeKind| match kind {
        TypeKind::Decimal { precision, scale } => Some(decimal::Digits { precision: *precision, scale: *scale }),
        _ => Primitive::of(kind).and_then(convert::integer_digits),
    };
    let (left, right) = (digits(left)?, digits(right)?);
    let scale = left.scale.max(right.scale);
    let precision = (left.precision - left.scale).max(right.precision - right.scale) + scale;
    (precision <= 38).then_some(TypeKind::Decimal { precision, scale })
}

fn set_of(common: &TypeKind, points: &[ArrayRef]) -> Result<Result<Members, ExprError>, Reason> {
    Ok(match common {
        TypeKind::Boolean => booleans(points),
        TypeKind::TinyInt => primitives::<Int8Type, _>(points, i64::from),
        TypeKind::SmallInt => primitives::<Int16Type, _>(points, i64::from),
        TypeKind::Integer | TypeKind::IntervalYearMonth => primitives::<Int32Type, _>(points, i64::from),
        TypeKind::BigInt | TypeKind::IntervalDayTime => primitives::<Int64Type, _>(points, |v| v),
        // Java's doubleToLongBits: NaN is one value, and no literal.
        TypeKind::Float => primitives::<Float32Type, _>(points, |v| i64::from(v.to_bits())),
        TypeKind::Double => primitives::<Float64Type, _>(points, f64::to_bits),
        TypeKind::Decimal { .. } => primitives::<Decimal128Type, _>(points, |v| v),
        TypeKind::Date => primitives::<Date32Type, _>(points, i64::from),
        TypeKind::Time(_) => primitives::<Time32MillisecondType, _>(points, i64::from),
        TypeKind::Timestamp { precision, .. } | TypeKind::TimestampLtz { precision, .. } => {
            if *precision <= 3 {
                primitives::<TimestampMillisecondType, _>(points, |v| v)
            } else {
                primitives::<Decimal128Type, _>(points, |v| v)
            }
        }
        TypeKind::Char(_) | TypeKind::VarChar(_) => texts(points),
        _ => return Err(Reason::new("a search among constants of this type is not supported natively")),
    })
}

/// Up to so many values are compared one by one.
const SMALL: usize = 8;

fn primitives<T, K>(points: &[ArrayRef], key: fn(T::Native) -> K) -> Result<Members, ExprError>
where
    T: ArrowPrimitiveType,
    K: std::hash::Hash + Eq + Copy + Send + Sync + 'static,
{
    let mut set = HashSet::with_capacity(points.len());
    for point in points {
        let point = typed::<PrimitiveArray<T>>(point)?;
        // A constant that does not fit the common type is equal to no value.
        if point.is_valid(0) {
            set.insert(key(point.value(0)));
        }
    }
    let few: Vec<K> = if set.len() <= SMALL { set.iter().copied().collect() } else { Vec::new() };
    Ok(Arc::new(move |values| {
        let values = typed::<PrimitiveArray<T>>(values)?;
        let natives = values.values();
        let at = |row: usize| natives.get(row).copied().map(key);
        Ok(if set.len() <= SMALL {
            BooleanBuffer::collect_bool(values.len(), |row| at(row).is_some_and(|v| few.contains(&v)))
        } else {
            BooleanBuffer::collect_bool(values.len(), |row| at(row).is_some_and(|v| set.contains(&v)))
        })
    }))
}

fn texts(points: &[ArrayRef]) -> Result<Members, ExprError> {
    let mut set = HashSet::with_capacity(points.len());
    for point in points {
        let point = typed::<StringArray>(point)?;
        if point.is_valid(0) {
            set.insert(point.value(0).to_owned());
        }
    }
    let few: Vec<String> = if set.len() <= SMALL { set.iter().cloned().collect() } else { Vec::new() };
    Ok(Arc::new(move |values| {
        let values = typed::<StringArray>(values)?;
        Ok(if set.len() <= SMALL {
            BooleanBuffer::collect_bool(values.len(), |row| few.iter().any(|v| v == values.value(row)))
        } else {
            BooleanBuffer::collect_bool(values.len(), |row| set.contains(values.value(row)))
        })
    }))
}

fn booleans(points: &[ArrayRef]) -> Result<Members, ExprError> {
    let (mut has_true, mut has_false) = (false, false);
    for point in points {
        let point = typed::<BooleanArray>(point)?;
        has_true |= point.is_valid(0) && point.value(0);
        has_false |= point.is_valid(0) && !point.value(0);
    }
    Ok(Arc::new(move |values| {
        let values = typed::<BooleanArray>(values)?;
        Ok(BooleanBuffer::collect_bool(values.len(), |row| if values.value(row) { has_true } else { has_false }))
    }))
}
