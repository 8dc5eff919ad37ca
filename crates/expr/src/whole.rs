//! Expressions that Flink's own code evaluates from the root, although parts of them have a native form.
//!
//! Flink's generated code holds a value in two variables, the result and whether it is NULL, and some of it looks at the result
//! alone. Under NULL the result is a default: FALSE, -1, the empty text. That shows
//!
//! - where a column or an operand is NOT NULL by its type but NULL by its value, as where a DECIMAL overflows or LPAD gets a
//!   negative length: the default is written, also into the result of a JVM expression;
//! - in a condition (of WHERE, CASE, IS TRUE) on `<>` of ROWs, which holds where a side is NULL.
//!
//! Either can show only at the end of a chain of calls, so that all of it stays in one piece.
//!
//! Follows: CodeGenUtils.rowSetField, ScalarOperatorGens.wrapExpressionIfNonEq, DecimalDataUtils, Flink 2.2.

use streamfusion_plan::Reason;
use streamfusion_plan::rex::{Function, Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};

use crate::functions::convert::{Primitive, integer_digits};
use crate::functions::decimal::Digits;
use crate::names::type_name;
use crate::native::{children, supports};

/// The pointer of a condition in its node.
const CONDITION: &str = "/condition";

/// Why all of `root` is one JVM expression; `None` if its calls may be taken one by one.
///
/// Errors with the reason if a JVM expression, too, would differ from Flink.
pub(crate) fn reason(root: &Rex, pointer: &str) -> Result<Option<Reason>, Reason> {
    if pointer == CONDITION
        && let Some(ty) = unequal_rows(without_casts(root))
    {
        let kind = type_name(&ty.kind);
        return Err(Reason::new(format!("a condition {kind} <> {kind} holds in Flink where a side is NULL")));
    }
    Ok(below(root, &|rex| unequal_rows(rex).map(null_is_unequal))
        .or_else(|| default_of_null(root))
        .or_else(|| below_native(root, root)))
}

fn null_is_unequal(ty: &LogicalType) -> Reason {
    let kind = type_name(&ty.kind);
    Reason::new(format!("as a condition {kind} <> {kind} holds in Flink where a side is NULL"))
}

/// What `find` answers first for an expression below `rex`.
fn below(rex: &Rex, find: &dyn Fn(&Rex) -> Option<Reason>) -> Option<Reason> {
    children(rex, "").into_iter().find_map(|(child, _)| find(child).or_else(|| below(child, find)))
}

fn without_casts(rex: &Rex) -> &Rex {
    match built_in(rex) {
        Some(("CAST" | "TRY_CAST" | "REINTERPRET" | "Reinterpret", [operand])) => without_casts(operand),
        _ => rex,
    }
}

fn built_in(rex: &Rex) -> Option<(&str, &[Rex])> {
    match rex {
        Rex::Call { function: Function::BuiltIn { name, .. }, operands, .. } => Some((name, operands)),
        _ => None,
    }
}

/// The type of an operand, if the expression is `<>` of composite values.
fn unequal_rows(rex: &Rex) -> Option<&LogicalType> {
    let Some(("<>" | "!=", operands)) = built_in(rex) else { return None };
    operands.iter().filter_map(Rex::ty).find(|ty| {
        matches!(
            ty.kind,
            TypeKind::Row(_)
                | TypeKind::Array(_)
                | TypeKind::Map(..)
                | TypeKind::Multiset(_)
                | TypeKind::View
                | TypeKind::Other(_)
        )
    })
}

/// Why a call that makes a NULL may become the default of a NOT NULL type above it.
fn default_of_null(rex: &Rex) -> Option<Reason> {
    let here = has_default(rex).then(|| below(rex, &becomes_null)).flatten();
    here.or_else(|| children(rex, "").into_iter().find_map(|(child, _)| default_of_null(child)))
}

/// Whether a NULL that comes from the operands of an expression is written as a default other than NULL.
pub(crate) fn writes_default(rex: &Rex) -> bool {
    // A function's own NULL is written as it is.
    has_default(rex) && !pads_to_null(rex)
}

/// Whether the expression computes a value of a NOT NULL type that has a default other than NULL.
fn has_default(rex: &Rex) -> bool {
    matches!(rex, Rex::Call { .. } | Rex::Search { .. }) && rex.ty().is_some_and(type_has_default)
}

/// Whether NULL of a NOT NULL type becomes a value other than NULL.
fn type_has_default(ty: &LogicalType) -> bool {
    !ty.nullable
        && (Primitive::of(&ty.kind).is_some()
            || matches!(
                ty.kind,
                TypeKind::Boolean
                    | TypeKind::Char(_)
                    | TypeKind::VarChar(_)
                    | TypeKind::Date
                    | TypeKind::Time(_)
                    | TypeKind::IntervalYearMonth
                    | TypeKind::IntervalDayTime
            ))
}

/// Why the expression may be NULL where its operands are not, although it is NOT NULL.
fn becomes_null(rex: &Rex) -> Option<Reason> {
    let Rex::Call { function, operands, ty } = rex else { return None };
    let Function::BuiltIn { name, .. } = function else { return None };
    if ty.nullable {
        return None;
    }
    if pads_to_null(rex) {
        return Some(Reason::new(format!("{name} may be NULL although its type is NOT NULL")));
    }
    let TypeKind::Decimal { precision, scale } = ty.kind else { return None };
    if fits(name, operands, Digits { precision, scale }) {
        return None;
    }
    Some(Reason::new(format!(
        "{name} may exceed DECIMAL({precision}, {scale}) NOT NULL, and Flink computes on with a default"
    )))
}

/// Whether this is LPAD or RPAD with a length that may be negative or a filler that may be empty.
fn pads_to_null(rex: &Rex) -> bool {
    let Some(("LPAD" | "RPAD", operands)) = built_in(rex) else { return false };
    let [_, Rex::Literal { value: Literal::Integer(length), .. }, Rex::Literal { value: Literal::String(filler), .. }] =
        operands
    else {
        return true;
    };
    *length < 0 || filler.is_empty()
}

/// Whether every result has few enough digits before the point.
fn fits(name: &str, operands: &[Rex], to: Digits) -> bool {
    let room = i16::from(to.precision) - i16::from(to.scale);
    let same_or_wider = |operand: &Rex| match operand.ty().map(|ty| &ty.kind) {
        // A text that does not fit fails.
        Some(TypeKind::Char(_) | TypeKind::VarChar(_) | TypeKind::Null) => true,
        Some(TypeKind::Boolean) => room >= 1,
        _ => Number::of(operand).is_some_and(|from| room >= from.integer + i16::from(from.scale > i16::from(to.scale))),
    };
    let numbers: Option<Vec<Number>> = operands.iter().map(Number::of).collect();
    match (name, numbers.as_deref()) {
        ("+" | "-", Some([a, b])) => room > a.integer.max(b.integer),
        ("*", Some([a, b])) => {
            // Rounding carries only where it drops more digits than the greatest product is short of a power of ten.
            let scale = i16::from(to.scale);
            let carries = scale < a.scale + b.scale && (a.integer - b.scale).max(b.integer - a.scale) < -scale;
            room >= a.integer + b.integer + i16::from(carries)
        }
        ("/", Some([a, b])) => room >= a.integer + b.scale + i16::from(i16::from(to.scale) < a.scale - b.scale),
        ("MOD", Some([a, b])) => room >= a.integer.min(b.integer) && i16::from(to.scale) >= a.scale.max(b.scale),
        ("ROUND", Some([a, ..])) => room > a.integer || a.scale <= i16::from(to.scale) && room >= a.integer,
        ("CEIL" | "FLOOR", Some([a, ..])) => room >= a.integer + i16::from(a.scale > 0),
        ("CAST" | "REINTERPRET" | "Reinterpret" | "ABS" | "+" | "-" | "GREATEST" | "LEAST" | "COALESCE", _) => {
            operands.iter().all(same_or_wider)
        }
        ("CASE" | "IF", _) => operands
            .iter()
            .filter(|operand| operand.ty().is_none_or(|ty| ty.kind != TypeKind::Boolean))
            .all(same_or_wider),
        _ => false,
    }
}

/// How many digits a number can have before and behind the point.
struct Number {
    integer: i16,
    scale: i16,
}

impl Number {
    fn of(rex: &Rex) -> Option<Self> {
        let digits = match rex.ty()?.kind {
            TypeKind::Decimal { precision, scale } => Digits { precision, scale },
            TypeKind::IntervalYearMonth => integer_digits(Primitive::Int)?,
            TypeKind::IntervalDayTime => integer_digits(Primitive::Long)?,
            ref kind => integer_digits(Primitive::of(kind)?)?,
        };
        let scale = i16::from(digits.scale);
        let precision = match rex {
            Rex::Literal { value: Literal::Integer(value), .. } => length((*value).into()),
            Rex::Literal { value: Literal::Decimal(value), .. } => length(*value),
            _ => i16::from(digits.precision),
        };
        Some(Self { integer: precision - scale, scale })
    }
}

/// Number of decimal digits; 0 for zero.
fn length(value: i128) -> i16 {
    value.unsigned_abs().checked_ilog10().and_then(|log| i16::try_from(log + 1).ok()).unwrap_or(0)
}

/// Why a JVM expression below native calls may hide a NULL from them: its own result is NOT NULL, so that its default is
/// written. `root` itself may.
fn below_native(rex: &Rex, root: &Rex) -> Option<Reason> {
    if supports(rex).is_ok() {
        return children(rex, "").into_iter().find_map(|(child, _)| below_native(child, root));
    }
    let hides = !std::ptr::eq(rex, root) && has_default(rex);
    if hides { may_be_null(rex) } else { None }
}

/// Why an expression may be NULL although its type is NOT NULL.
fn may_be_null(rex: &Rex) -> Option<Reason> {
    let Rex::Call { function, ty, .. } = rex else { return None };
    let name = match function {
        _ if ty.nullable => None,
        Function::User(name) => matches!(ty.kind, TypeKind::Char(_) | TypeKind::VarChar(_)).then_some(name),
        Function::BuiltIn { name, .. } => (!is_total(name)).then_some(name),
    };
    if let Some(name) = name {
        return Some(Reason::new(format!("{name} may be NULL although its type is NOT NULL")));
    }
    children(rex, "").into_iter().find_map(|(child, _)| may_be_null(child))
}

/// Whether a built-in has a value wherever all its operands have one, DECIMALs aside.
fn is_total(name: &str) -> bool {
    matches!(
        name,
        "UPPER"
            | "LOWER"
            | "INITCAP"
            | "LIKE"
            | "NOT LIKE"
            | "SIMILAR TO"
            | "NOT SIMILAR TO"
            | "||"
            | "CONCAT"
            | "TRIM"
            | "LTRIM"
            | "RTRIM"
            | "CHAR_LENGTH"
            | "CHARACTER_LENGTH"
            | "REVERSE"
            | "REPLACE"
            | "POSITION"
            | "LOCATE"
            | "INSTR"
            | "ASCII"
            | "MD5"
            | "SHA1"
            | "SHA224"
            | "SHA256"
            | "SHA384"
            | "SHA512"
            | "TO_BASE64"
            | "UUID"
            | "CAST"
            | "REINTERPRET"
            | "Reinterpret"
            | "CASE"
            | "IF"
            | "COALESCE"
            | "AND"
            | "OR"
            | "NOT"
            | "="
            | "<>"
            | "!="
            | "<"
            | "<="
            | ">"
            | ">="
            | "IS DISTINCT FROM"
            | "IS NOT DISTINCT FROM"
            | "IS NULL"
            | "IS NOT NULL"
            | "IS TRUE"
            | "IS NOT TRUE"
            | "IS FALSE"
            | "IS NOT FALSE"
            | "BETWEEN"
            | "NOT BETWEEN"
            | "+"
            | "-"
            | "*"
            | "/"
            | "/INT"
            | "MOD"
            | "ABS"
            | "CEIL"
            | "FLOOR"
            | "ROUND"
            | "TRUNCATE"
            | "SIGN"
            | "SQRT"
            | "POWER"
            | "EXP"
            | "LN"
            | "LOG"
            | "LOG2"
            | "LOG10"
            | "SIN"
            | "COS"
            | "TAN"
            | "COT"
            | "ASIN"
            | "ACOS"
            | "ATAN"
            | "ATAN2"
            | "SINH"
            | "COSH"
            | "TANH"
            | "DEGREES"
            | "RADIANS"
            | "PI"
            | "E"
            | "RAND"
            | "RAND_INTEGER"
            | "GREATEST"
            | "LEAST"
            | "EXTRACT"
            | "YEAR"
            | "MONTH"
            | "TIMESTAMPDIFF"
            | "CURRENT_DATE"
            | "CURRENT_TIME"
            | "CURRENT_TIMESTAMP"
            | "CURRENT_ROW_TIMESTAMP"
            | "NOW"
            | "LOCALTIME"
            | "LOCALTIMESTAMP"
            | "UNIX_TIMESTAMP"
    )
}
