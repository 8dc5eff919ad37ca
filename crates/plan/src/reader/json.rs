//! Access to JSON whose every mismatch is a [`Reason`].

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::reason::Reason;

/// The members of the object in `text`, each parsed on its own, and a reason if one could not be (it is left out).
/// `None` if the text is no object.
pub(crate) fn parse_shallow(text: &str) -> Option<(Value, Option<Reason>)> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let mut json = Map::new();
    let mut unreadable = None;
    for (key, raw) in members {
        match serde_json::from_str(raw.get()) {
            Ok(value) => {
                json.insert(key, value);
            }
            Err(error) => unreadable = Some(Reason::new(format!("its property `{key}` cannot be read: {error}"))),
        }
    }
    Some((Value::Object(json), unreadable))
}

/// A reason for a plan that is not as Flink writes it.
pub(crate) fn malformed(what: impl std::fmt::Display) -> Reason {
    Reason::new(format!("the plan is malformed: {what}"))
}

pub(crate) fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Map<String, Value>, Reason> {
    value.as_object().ok_or_else(|| malformed(format_args!("{what} is not an object")))
}

/// An object that may have only these members.
pub(crate) fn closed<'a>(value: &'a Value, what: &str, known: &[&str]) -> Result<&'a Map<String, Value>, Reason> {
    let map = object(value, what)?;
    match unknown_key(map, known) {
        Some(key) => Err(Reason::new(format!("the property `{key}` of {what} is not known here"))),
        None => Ok(map),
    }
}

/// A member that is there and not null.
pub(crate) fn optional<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    map.get(key).filter(|value| !value.is_null())
}

pub(crate) fn required<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a Value, Reason> {
    map.get(key).ok_or_else(|| malformed(format_args!("the property `{key}` is missing")))
}

pub(crate) fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a str, Reason> {
    required(map, key)?.as_str().ok_or_else(|| malformed(format_args!("`{key}` is not a string")))
}

pub(crate) fn boolean(map: &Map<String, Value>, key: &str) -> Result<bool, Reason> {
    required(map, key)?.as_bool().ok_or_else(|| malformed(format_args!("`{key}` is not true or false")))
}

pub(crate) fn integer(map: &Map<String, Value>, key: &str) -> Result<i64, Reason> {
    required(map, key)?.as_i64().ok_or_else(|| malformed(format_args!("`{key}` is not an integer")))
}

pub(crate) fn index(map: &Map<String, Value>, key: &str) -> Result<usize, Reason> {
    as_index(required(map, key)?).ok_or_else(|| malformed(format_args!("`{key}` is not a column number")))
}

pub(crate) fn array<'a>(map: &'a Map<String, Value>, key: &str) -> Result<&'a [Value], Reason> {
    match required(map, key)? {
        Value::Array(values) => Ok(values),
        _ => Err(malformed(format_args!("`{key}` is not a list"))),
    }
}

pub(crate) fn indices(map: &Map<String, Value>, key: &str) -> Result<Vec<usize>, Reason> {
    as_indices(required(map, key)?, key)
}

/// A list of column numbers under `key`, or inside of what is there.
pub(crate) fn as_indices(value: &Value, key: &str) -> Result<Vec<usize>, Reason> {
    let wrong = || malformed(format_args!("`{key}` is not a list of column numbers"));
    let values = value.as_array().ok_or_else(wrong)?;
    values.iter().map(|value| as_index(value).ok_or_else(wrong)).collect()
}

/// The first member that is not among `known`.
pub(crate) fn unknown_key<'a>(map: &'a Map<String, Value>, known: &[&str]) -> Option<&'a str> {
    map.keys().map(String::as_str).find(|key| !known.contains(key))
}

pub(crate) fn as_index(value: &Value) -> Option<usize> {
    // Flink's column numbers are Java ints.
    value.as_i64().and_then(|n| i32::try_from(n).ok()).and_then(|n| usize::try_from(n).ok())
}
