//! Expressions from RexNode JSON.
//!
//! What is well-formed but not modelled is [`Rex::Unknown`]: Flink can still evaluate it. What Flink could not read either
//! is a [`Reason`].
//!
//! Follows: RexNodeJsonDeserializer, Flink 2.2.

use serde_json::{Map, Value};

use super::json::{array, index, malformed, object, required, text, unknown_key};
use super::literal::read_value;
use super::types::read_type;
use crate::reason::Reason;
use crate::rex::{Function, Literal, Rex, Sarg, SargBound, SargRange};
use crate::types::{LogicalType, TypeKind};

/// Expressions nested deeper than this are refused, so that no stack overflows.
const MAX_DEPTH: usize = 128;

/// Names of the members that say which function is called.
pub(crate) const FUNCTION_KEYS: [&str; 6] = ["syntax", "internalName", "systemName", "catalogName", "class", "sqlKind"];

/// What a correlation variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Correlation {
    /// A row that is not known here.
    Unknown,
    /// The input row.
    Input,
}

/// Reads one expression.
pub fn read_rex(json: &Value) -> Result<Rex, Reason> {
    read(json, MAX_DEPTH, Correlation::Unknown)
}

/// Reads an expression in which the correlation variable is the input row: a field of it is a column of the input.
pub(super) fn read_correlated_rex(json: &Value) -> Result<Rex, Reason> {
    read(json, MAX_DEPTH, Correlation::Input)
}

fn read(json: &Value, depth: usize, correlation: Correlation) -> Result<Rex, Reason> {
    let depth = depth.checked_sub(1).ok_or_else(|| Reason::new("an expression is nested too deeply"))?;
    let map = object(json, "an expression")?;
    match text(map, "kind")? {
        "INPUT_REF" => known(map, &["kind", "inputIndex", "type"], || {
            Ok(Rex::InputRef { index: index(map, "inputIndex")?, ty: read_type(required(map, "type")?)? })
        }),
        "LITERAL" => known(map, &["kind", "value", "symbol", "sarg", "type"], || literal(map)),
        "CALL" => {
            let keys: Vec<&str> = ["kind", "operands", "type"].into_iter().chain(FUNCTION_KEYS).collect();
            known(map, &keys, || call(map, depth, correlation))
        }
        "FIELD_ACCESS" => known(map, &["kind", "name", "expr"], || field_access(map, depth, correlation)),
        "CORREL_VARIABLE" => Ok(unknown("a correlation variable")),
        "PATTERN_INPUT_REF" => Ok(unknown("a reference to a row pattern")),
        "TABLE_ARG_CALL" => Ok(unknown("a table argument")),
        other => Ok(unknown(&format!("an expression of the unknown kind {other}"))),
    }
}

fn unknown(what: &str) -> Rex {
    Rex::Unknown { what: what.to_owned() }
}

fn known(map: &Map<String, Value>, keys: &[&str], read: impl FnOnce() -> Result<Rex, Reason>) -> Result<Rex, Reason> {
    match unknown_key(map, keys) {
        Some(key) => Ok(unknown(&format!("an expression with the unknown property `{key}`"))),
        None => read(),
    }
}

fn literal(map: &Map<String, Value>) -> Result<Rex, Reason> {
    let ty = read_type(required(map, "type")?)?;
    if map.contains_key("sarg") {
        return Ok(unknown("a set of ranges outside SEARCH"));
    }
    let json = required(map, "value")?;
    if map.contains_key("symbol") {
        let value = Literal::Symbol { kind: text(map, "symbol")?.to_owned(), value: text(map, "value")?.to_owned() };
        return Ok(Rex::Literal { value, ty });
    }
    match read_value(json, &ty)? {
        Some(value) => Ok(Rex::Literal { value, ty }),
        None => Ok(unknown("a literal of a type that is not known here")),
    }
}

fn call(map: &Map<String, Value>, depth: usize, correlation: Correlation) -> Result<Rex, Reason> {
    let function = read_function(map)?;
    let json = array(map, "operands")?;
    let Some(ty) = map.get("type") else {
        return Ok(unknown("a call without a type"));
    };
    let ty = read_type(ty)?;
    if let Function::BuiltIn { name, version: 1 } = &function
        && name == "SEARCH"
        && let [operand, set] = json
        && let Some(sarg) = set.get("sarg")
    {
        let Some(sarg) = read_sarg(sarg, read_type(required(object(set, "a literal")?, "type")?)?)? else {
            return Ok(unknown("a set of ranges of a form that is not known here"));
        };
        return Ok(Rex::Search { operand: Box::new(read(operand, depth, correlation)?), sarg, ty });
    }
    let operands = json.iter().map(|operand| read(operand, depth, correlation)).collect::<Result<_, Reason>>()?;
    Ok(Rex::Call { function, operands, ty })
}

/// The function of a call or of an aggregate call.
pub(crate) fn read_function(map: &Map<String, Value>) -> Result<Function, Reason> {
    if map.contains_key("internalName") {
        let qualified = text(map, "internalName")?;
        let parsed = qualified.strip_prefix('$').and_then(|rest| {
            let (name, version) = rest.rsplit_once('$')?;
            Some(Function::BuiltIn { name: name.to_owned(), version: version.parse().ok()? })
        });
        return parsed.ok_or_else(|| malformed(format_args!("`{qualified}` is not the name of a built-in function")));
    }
    for key in ["catalogName", "class", "systemName", "sqlKind"] {
        if map.contains_key(key) {
            return Ok(Function::User(text(map, key)?.to_owned()));
        }
    }
    Err(malformed("a call names no function"))
}

fn field_access(map: &Map<String, Value>, depth: usize, correlation: Correlation) -> Result<Rex, Reason> {
    let name = text(map, "name")?;
    let json = required(map, "expr")?;
    if correlation == Correlation::Input && json.get("kind").and_then(Value::as_str) == Some("CORREL_VARIABLE") {
        let row = read_type(required(object(json, "a correlation variable")?, "type")?)?;
        let Some((index, ty)) = field_of(&row, name)? else {
            return Ok(unknown("a field of a value that is not a ROW"));
        };
        return Ok(Rex::InputRef { index, ty });
    }
    let expr = read(json, depth, correlation)?;
    let Some(row) = expr.ty() else {
        return Ok(expr);
    };
    match field_of(row, name)? {
        Some((index, ty)) => Ok(Rex::FieldAccess { expr: Box::new(expr), index, ty }),
        None => Ok(unknown("a field of a value that is not a ROW")),
    }
}

/// Position and type of a field of a ROW; `None` for every other type.
fn field_of(row: &LogicalType, name: &str) -> Result<Option<(usize, LogicalType)>, Reason> {
    let TypeKind::Row(fields) = &row.kind else {
        return Ok(None);
    };
    let Some((index, field)) = fields.iter().enumerate().find(|(_, field)| field.name == name) else {
        return Err(malformed(format_args!("a ROW has no field `{name}`")));
    };
    let ty = LogicalType { kind: field.ty.kind.clone(), nullable: field.ty.nullable || row.nullable };
    Ok(Some((index, ty)))
}

/// `None` for a set that is well-formed but not modelled.
fn read_sarg(json: &Value, ty: LogicalType) -> Result<Option<Sarg>, Reason> {
    let map = object(json, "`sarg`")?;
    // `containsNull` is what versions before 1.18 wrote.
    if unknown_key(map, &["ranges", "nullAs"]).is_some() {
        return Ok(None);
    }
    let null_as = match text(map, "nullAs")? {
        "UNKNOWN" => None,
        "TRUE" => Some(true),
        "FALSE" => Some(false),
        other => return Err(malformed(format_args!("{other} is no truth value"))),
    };
    let mut ranges = Vec::new();
    for json in array(map, "ranges")? {
        let range = object(json, "a range")?;
        if unknown_key(range, &["lower", "upper"]).is_some() {
            return Ok(None);
        }
        let mut ends = [None, None];
        for (end, key) in ends.iter_mut().zip(["lower", "upper"]) {
            if let Some(json) = range.get(key) {
                match bound(json, &ty)? {
                    Some(bound) => *end = Some(bound),
                    None => return Ok(None),
                }
            }
        }
        let [lower, upper] = ends;
        if lower.is_none() && upper.is_none() {
            // Flink drops a range without bounds when it reads a plan, and does not when it plans: left to Flink.
            return Ok(None);
        }
        ranges.push(SargRange { lower, upper });
    }
    Ok(Some(Sarg { ranges, null_as, ty }))
}

fn bound(json: &Value, ty: &LogicalType) -> Result<Option<SargBound>, Reason> {
    let map = object(json, "a bound")?;
    if unknown_key(map, &["value", "boundType"]).is_some() {
        return Ok(None);
    }
    let inclusive = match text(map, "boundType")? {
        "CLOSED" => true,
        "OPEN" => false,
        other => return Err(malformed(format_args!("{other} is no kind of bound"))),
    };
    match read_value(required(map, "value")?, ty)? {
        Some(Literal::Null) => Err(malformed("a bound is NULL")),
        Some(value) => Ok(Some(SargBound { value, inclusive })),
        None => Ok(None),
    }
}
