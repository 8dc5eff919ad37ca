//! Values of literals, by type.
//!
//! Follows: RexNodeJsonDeserializer.deserializeLiteralValue, Flink 2.2.

use serde_json::Value;

use super::date;
use super::json::malformed;
use super::number::Decimal;
use crate::reason::Reason;
use crate::rex::Literal;
use crate::types::{LogicalType, TypeKind};

/// The value of a literal of type `ty`; `None` if values of that type are not modelled.
pub(crate) fn read_value(json: &Value, ty: &LogicalType) -> Result<Option<Literal>, Reason> {
    if json.is_null() {
        return Ok(Some(Literal::Null));
    }
    let value = match &ty.kind {
        TypeKind::Boolean => json.as_bool().map(Literal::Boolean),
        TypeKind::TinyInt => integer::<i8>(json),
        TypeKind::SmallInt => integer::<i16>(json),
        TypeKind::Integer | TypeKind::IntervalYearMonth => integer::<i32>(json),
        TypeKind::BigInt | TypeKind::IntervalDayTime => integer::<i64>(json),
        TypeKind::Decimal { precision, scale } => decimal(json)
            .and_then(|d| d.unscaled(*scale))
            .filter(|n| n.unsigned_abs() < 10_u128.pow(u32::from(*precision)))
            .map(Literal::Decimal),
        // Rounded once, to the width of the type.
        TypeKind::Float => number_text(json).and_then(|t| t.parse::<f32>().ok()).map(|f| Literal::Double(f64::from(f))),
        TypeKind::Double => number_text(json).and_then(|t| t.parse().ok()).map(Literal::Double),
        TypeKind::Char(_) | TypeKind::VarChar(_) => json.as_str().map(|s| Literal::String(s.to_owned())),
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => json.as_str().and_then(base64).map(Literal::Bytes),
        TypeKind::Date => json.as_str().and_then(date::date).map(Literal::Date),
        TypeKind::Time(_) => json.as_str().and_then(date::time).map(|(millis, _)| Literal::Time(millis)),
        TypeKind::Timestamp { .. } | TypeKind::TimestampLtz { .. } => {
            json.as_str().and_then(date::timestamp).map(|(millis, nanos)| Literal::Timestamp { millis, nanos })
        }
        TypeKind::Row(_)
        | TypeKind::Array(_)
        | TypeKind::Map(..)
        | TypeKind::Multiset(_)
        | TypeKind::Null
        | TypeKind::View
        | TypeKind::Other(_) => return Ok(None),
    };
    match value {
        Some(value) => Ok(Some(value)),
        None => Err(malformed(format_args!("{json} is not a literal of its type"))),
    }
}

/// A number that JSON may hold as a number or as a string.
fn scalar_text(json: &Value) -> Option<String> {
    match json {
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

fn decimal(json: &Value) -> Option<Decimal> {
    Decimal::parse(&scalar_text(json)?)
}

/// The text of a decimal number; excludes what only Rust or only Java parses.
fn number_text(json: &Value) -> Option<String> {
    scalar_text(json).filter(|text| Decimal::parse(text).is_some())
}

fn integer<T: TryFrom<i128> + Into<i64>>(json: &Value) -> Option<Literal> {
    let value: T = decimal(json)?.unscaled(0)?.try_into().ok()?;
    Some(Literal::Integer(value.into()))
}

/// RFC 4648 base64 with padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - body.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(body.len() * 3 / 4);
    let (mut buffer, mut bits) = (0_u32, 0_u32);
    for c in body.bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        buffer = (buffer << 6 | u32::from(value)) & 0xFFFF;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(buffer >> bits & 0xFF).ok()?);
        }
    }
    Some(bytes)
}
