//! `+ - * / MOD` and the signs, on numbers.
//!
//! Integers wrap around as in Java, division by zero fails; FLOAT and DOUBLE follow IEEE 754; a DECIMAL that has no room for
//! its result is NULL.
//!
//! Follows: ScalarOperatorGens.generateBinaryArithmeticOperator and generateUnaryArithmeticOperator, Flink 2.2.

use arrow::array::ArrowPrimitiveType;
use arrow::datatypes::{Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion_expr::ColumnarValue;
use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};

use crate::error::ExprError;
use crate::functions::convert::{self, Conversion, Primitive, data_type, decimal_type, integer_digits, primitive_cast};
use crate::functions::decimal::{self, Digits};
use crate::registry::Kernel;
use crate::values::{map, map_pairs, mismatch, operand, over_arrays, try_map_pairs};

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// See [`crate::registry::Lookup`].
pub fn lookup(name: &str, operands: &[Rex], ty: &LogicalType) -> Option<Result<Kernel, Reason>> {
    if !is_numeric(&ty.kind) || !operands.iter().all(|rex| rex.ty().is_some_and(|ty| is_numeric(&ty.kind))) {
        return None;
    }
    let (left, right) = match (name, operands) {
        ("+", [value]) => return Some(sign(value, ty, Sign::Plus)),
        ("-", [value]) => return Some(sign(value, ty, Sign::Minus)),
        (_, [left, right]) => (left, right),
        _ => return None,
    };
    let operator = match name {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "/" | "/INT" => Operator::Divide,
        "MOD" => Operator::Modulo,
        _ => return None,
    };
    Some(binary(operator, left, right, ty))
}

/// Whether the type is one of TINYINT to DOUBLE or DECIMAL.
pub(crate) fn is_numeric(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Decimal { .. }) || Primitive::of(kind).is_some()
}

fn binary(operator: Operator, left: &Rex, right: &Rex, ty: &LogicalType) -> Result<Kernel, Reason> {
    let (Some(left_ty), Some(right_ty)) = (left.ty(), right.ty()) else {
        return Err(Reason::new("arithmetic on unknown types is not supported natively"));
    };
    if let TypeKind::Decimal { precision, scale } = ty.kind {
        let to = Digits { precision, scale };
        return decimal_binary(operator, &left_ty.kind, &right_ty.kind, is_nonzero_literal(right, &ty.kind), to);
    }
    let Some(result) = Primitive::of(&ty.kind) else {
        return Err(Reason::new("arithmetic on this type is not supported natively"));
    };
    // MOD computes with its left operand's own type, promoted; every other operator with the result's.
    let working = match (operator, Primitive::of(&left_ty.kind)) {
        (Operator::Modulo, Some(left)) => left.promote(result),
        (Operator::Modulo, None) => Primitive::Long.promote(result),
        _ => result,
    };
    if operator == Operator::Modulo && left_ty.kind == right_ty.kind && left_ty.kind != ty.kind {
        return Err(Reason::new("MOD with a result of another type than its operands is not supported natively"));
    }
    if operator == Operator::Modulo && working.is_integer() != result.is_integer() {
        return Err(Reason::new("MOD of FLOAT or DOUBLE with an integer result is not supported natively"));
    }
    let steps = Steps {
        left: if operator == Operator::Modulo && Primitive::of(&left_ty.kind).is_none() {
            Chain::of([
                convert::conversion(&left_ty.kind, &TypeKind::BigInt)?,
                primitive_cast(Primitive::Long, working),
            ])
        } else {
            Chain::of([convert::conversion(&left_ty.kind, &kind_of(working))?, None])
        },
        right: Chain::of([convert::conversion(&right_ty.kind, &ty.kind)?, primitive_cast(result, working)]),
        result: primitive_cast(working, result),
    };
    let nonzero = is_nonzero_literal(right, &ty.kind);
    Ok(match working {
        Primitive::Byte => integer_kernel::<Int8Type>(operator, steps, nonzero),
        Primitive::Short => integer_kernel::<Int16Type>(operator, steps, nonzero),
        Primitive::Int => integer_kernel::<Int32Type>(operator, steps, nonzero),
        Primitive::Long => integer_kernel::<Int64Type>(operator, steps, nonzero),
        Primitive::Float => float_kernel::<Float32Type>(operator, steps),
        Primitive::Double => float_kernel::<Float64Type>(operator, steps),
    })
}

fn kind_of(primitive: Primitive) -> TypeKind {
    match primitive {
        Primitive::Byte => TypeKind::TinyInt,
        Primitive::Short => TypeKind::SmallInt,
        Primitive::Int => TypeKind::Integer,
        Primitive::Long => TypeKind::BigInt,
        Primitive::Float => TypeKind::Float,
        Primitive::Double => TypeKind::Double,
    }
}

/// Conversions around an operation.
struct Steps {
    left: Chain,
    right: Chain,
    result: Option<Conversion>,
}

impl Steps {
    fn operands(&self, operands: &[ColumnarValue], rows: usize) -> Result<[ColumnarValue; 2], ExprError> {
        Ok([self.left.apply(operand(operands, 0)?, rows)?, self.right.apply(operand(operands, 1)?, rows)?])
    }
}

/// Up to two conversions in turn.
struct Chain([Option<Conversion>; 2]);

impl Chain {
    fn of(conversions: [Option<Conversion>; 2]) -> Self {
        Self(conversions)
    }

    fn apply(&self, value: &ColumnarValue, rows: usize) -> Result<ColumnarValue, ExprError> {
        let [first, second] = &self.0;
        convert::apply(second.as_ref(), &convert::apply(first.as_ref(), value, rows)?, rows)
    }
}

/// Java's integer operations.
trait JavaInteger: Copy + PartialEq + Default {
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn divide(self, other: Self) -> Self;
    fn modulo(self, other: Self) -> Self;
    fn negate(self) -> Self;
}

macro_rules! java_integer {
    ($($t:ty),*) => {
        $(impl JavaInteger for $t {
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            fn subtract(self, other: Self) -> Self { self.wrapping_sub(other) }
            fn multiply(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn divide(self, other: Self) -> Self { self.wrapping_div(other) }
            fn modulo(self, other: Self) -> Self { self.wrapping_rem(other) }
            fn negate(self) -> Self { self.wrapping_neg() }
        })*
    };
}

java_integer!(i8, i16, i32, i64);

fn integer_kernel<T>(operator: Operator, steps: Steps, nonzero: bool) -> Kernel
where
    T: ArrowPrimitiveType,
    T::Native: JavaInteger,
{
    let total: fn(T::Native, T::Native) -> T::Native = match operator {
        Operator::Add => T::Native::add,
        Operator::Subtract => T::Native::subtract,
        Operator::Multiply => T::Native::multiply,
        Operator::Divide => T::Native::divide,
        Operator::Modulo => T::Native::modulo,
    };
    if matches!(operator, Operator::Divide | Operator::Modulo) {
        let run = move |operands: &[ColumnarValue], rows: usize| {
            let operands = steps.operands(operands, rows)?;
            let value = try_map_pairs::<T, T, T, _>(&operands, rows, &T::DATA_TYPE, |left, right| {
                if right == T::Native::default() {
                    return Err(division_by_zero());
                }
                Ok(Some(total(left, right)))
            })?;
            convert::apply(steps.result.as_ref(), &value, rows)
        };
        return if nonzero { Kernel::infallible(run) } else { Kernel::fallible(run) };
    }
    // One closure per operator, so that each is compiled to vector code.
    match operator {
        Operator::Add => wrapping_kernel::<T, _>(steps, T::Native::add),
        Operator::Subtract => wrapping_kernel::<T, _>(steps, T::Native::subtract),
        _ => wrapping_kernel::<T, _>(steps, T::Native::multiply),
    }
}

fn wrapping_kernel<T, F>(steps: Steps, function: F) -> Kernel
where
    T: ArrowPrimitiveType,
    F: Fn(T::Native, T::Native) -> T::Native + Copy + Send + Sync + 'static,
{
    Kernel::infallible(move |operands, rows| {
        let operands = steps.operands(operands, rows)?;
        let value = map_pairs::<T, T, T, _>(&operands, rows, &T::DATA_TYPE, function)?;
        convert::apply(steps.result.as_ref(), &value, rows)
    })
}

/// What Java throws for an integer divided by zero.
fn division_by_zero() -> ExprError {
    ExprError::Java { class: "java.lang.ArithmeticException", message: "/ by zero".to_owned() }
}

fn float_kernel<T>(operator: Operator, steps: Steps) -> Kernel
where
    T: ArrowPrimitiveType,
    T::Native: std::ops::Add<Output = T::Native>
        + std::ops::Sub<Output = T::Native>
        + std::ops::Mul<Output = T::Native>
        + std::ops::Div<Output = T::Native>
        + std::ops::Rem<Output = T::Native>,
{
    match operator {
        Operator::Add => wrapping_kernel::<T, _>(steps, |a, b| a + b),
        Operator::Subtract => wrapping_kernel::<T, _>(steps, |a, b| a - b),
        Operator::Multiply => wrapping_kernel::<T, _>(steps, |a, b| a * b),
        Operator::Divide => wrapping_kernel::<T, _>(steps, |a, b| a / b),
        Operator::Modulo => wrapping_kernel::<T, _>(steps, |a, b| a % b),
    }
}

/// Whether the operand is a literal other than zero, also when converted to the result's type: division by it cannot fail.
fn is_nonzero_literal(rex: &Rex, result: &TypeKind) -> bool {
    let exact = matches!(result, TypeKind::Decimal { .. }) || rex.ty().is_some_and(|ty| ty.kind == *result);
    match rex {
        Rex::Literal { value: Literal::Integer(value), .. } => *value != 0 && (exact || i8::try_from(*value).is_ok()),
        Rex::Literal { value: Literal::Decimal(value), .. } => *value != 0 && exact,
        _ => false,
    }
}

/// A DECIMAL operand as it enters the operation: an integer becomes the DECIMAL that holds all its values.
fn decimal_operand(kind: &TypeKind) -> Result<(Digits, Option<Conversion>), Reason> {
    if let TypeKind::Decimal { precision, scale } = kind {
        return Ok((Digits { precision: *precision, scale: *scale }, None));
    }
    let digits = Primitive::of(kind)
        .and_then(integer_digits)
        .ok_or_else(|| Reason::new("DECIMAL arithmetic with FLOAT or DOUBLE is not supported natively"))?;
    let wide = TypeKind::Decimal { precision: digits.precision, scale: 0 };
    Ok((digits, convert::conversion(kind, &wide)?))
}

fn decimal_binary(
    operator: Operator,
    left: &TypeKind,
    right: &TypeKind,
    nonzero: bool,
    to: Digits,
) -> Result<Kernel, Reason> {
    let ((a, left), (b, right)) = (decimal_operand(left)?, decimal_operand(right)?);
    let steps = Steps { left: Chain::of([left, None]), right: Chain::of([right, None]), result: None };
    // Digits that an exact sum or product can have.
    let sum = (a.precision - a.scale).max(b.precision - b.scale) + a.scale.max(b.scale) + 1;
    let roomy_sum = to.scale == a.scale.max(b.scale) && to.precision >= sum;
    let roomy_product = to.scale == a.scale + b.scale && to.precision >= a.precision + b.precision;
    if matches!(operator, Operator::Add | Operator::Subtract) && a.scale == b.scale {
        let compact = a.precision <= 18 && b.precision <= 18 && to.precision <= 18;
        if compact && !roomy_sum {
            return Err(Reason::new("a DECIMAL sum of an unusual type is not supported natively"));
        }
    }
    Ok(match operator {
        Operator::Add if roomy_sum && a.scale == b.scale => exact_kernel(steps, to, i128::wrapping_add),
        Operator::Subtract if roomy_sum && a.scale == b.scale => exact_kernel(steps, to, i128::wrapping_sub),
        Operator::Multiply if roomy_product => exact_kernel(steps, to, i128::wrapping_mul),
        Operator::Add => decimal_kernel(steps, to, false, move |x, y| Ok(decimal::add(x, a.scale, y, b.scale, to))),
        Operator::Subtract => {
            decimal_kernel(steps, to, false, move |x, y| Ok(decimal::add(x, a.scale, -y, b.scale, to)))
        }
        Operator::Multiply => {
            decimal_kernel(steps, to, false, move |x, y| Ok(decimal::multiply(x, a.scale, y, b.scale, to)))
        }
        Operator::Divide => {
            decimal_kernel(steps, to, !nonzero, move |x, y| decimal::divide(x, a.scale, y, b.scale, to))
        }
        // Also where the divisor is a literal, the quotient may have too many digits.
        Operator::Modulo => {
            let fallible = !nonzero || a.precision - a.scale + b.scale > 38;
            decimal_kernel(steps, to, fallible, move |x, y| decimal::remainder(x, a.scale, y, b.scale, to))
        }
    })
}

/// An operation whose result always fits. It wraps around only where an operand is NULL and its value arbitrary.
fn exact_kernel<F>(steps: Steps, to: Digits, function: F) -> Kernel
where
    F: Fn(i128, i128) -> i128 + Copy + Send + Sync + 'static,
{
    let output = decimal_type(to);
    Kernel::infallible(move |operands, rows| {
        let operands = steps.operands(operands, rows)?;
        map_pairs::<Decimal128Type, Decimal128Type, Decimal128Type, _>(&operands, rows, &output, function)
    })
}

fn decimal_kernel<F>(steps: Steps, to: Digits, fallible: bool, function: F) -> Kernel
where
    F: Fn(i128, i128) -> Result<Option<i128>, ExprError> + Send + Sync + 'static,
{
    let output = decimal_type(to);
    let run = move |operands: &[ColumnarValue], rows: usize| {
        let operands = steps.operands(operands, rows)?;
        try_map_pairs::<Decimal128Type, Decimal128Type, Decimal128Type, _>(&operands, rows, &output, &function)
    };
    if fallible { Kernel::fallible(run) } else { Kernel::infallible(run) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

fn sign(value: &Rex, ty: &LogicalType, sign: Sign) -> Result<Kernel, Reason> {
    if value.ty().is_none_or(|found| found.kind != ty.kind) {
        return Err(Reason::new("a sign that changes the type of its operand is not supported natively"));
    }
    if sign == Sign::Plus {
        return Ok(Kernel::infallible(|operands, _| Ok(operand(operands, 0)?.clone())));
    }
    if let TypeKind::Decimal { precision, scale } = ty.kind {
        let output = decimal_type(Digits { precision, scale });
        return Ok(unary_kernel::<Decimal128Type, _>(output, i128::wrapping_neg));
    }
    let Some(primitive) = Primitive::of(&ty.kind) else {
        return Err(Reason::new("the negation of this type is not supported natively"));
    };
    let output = data_type(primitive);
    Ok(match primitive {
        Primitive::Byte => unary_kernel::<Int8Type, _>(output, JavaInteger::negate),
        Primitive::Short => unary_kernel::<Int16Type, _>(output, JavaInteger::negate),
        Primitive::Int => unary_kernel::<Int32Type, _>(output, JavaInteger::negate),
        Primitive::Long => unary_kernel::<Int64Type, _>(output, JavaInteger::negate),
        Primitive::Float => unary_kernel::<Float32Type, _>(output, |value| -value),
        Primitive::Double => unary_kernel::<Float64Type, _>(output, |value| -value),
    })
}

/// A function of one value to one of the same type.
pub(crate) fn unary_kernel<T, F>(output: arrow::datatypes::DataType, function: F) -> Kernel
where
    T: ArrowPrimitiveType,
    F: Fn(T::Native) -> T::Native + Copy + Send + Sync + 'static,
{
    Kernel::infallible(move |operands, rows| {
        over_arrays(operands, rows, |arrays, _| {
            let [values] = arrays else { return Err(mismatch("one operand is expected")) };
            map::<T, T, _>(values, &output, function)
        })
    })
}
