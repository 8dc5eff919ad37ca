//! Logical types from JSON: the compact string of `asSerializableString`, or an object.
//!
//! A type that Flink knows and this crate does not (RAW, structured types, `TIMESTAMP WITH TIME ZONE`, ...) is
//! [`TypeKind::Other`], so that a row with such a field can still be read.
//!
//! Follows: LogicalTypeJsonDeserializer and LogicalTypeParser, Flink 2.2. Difference: the suffix forms `t ARRAY` and
//! `t MULTISET` are not taken apart, since Flink never writes them.

use std::sync::Arc;

use serde_json::Value;

use super::json::{array, malformed, object, required, text};
use crate::reason::Reason;
use crate::types::{Field, LogicalType, TimeAttribute, TypeKind};

const MAX_LENGTH: u32 = i32::MAX as u32;
/// Flink's object for a map inside an accumulator.
const MAP_VIEW: &str = "org.apache.flink.table.api.dataview.MapView";
/// The accumulators that have one beside other fields.
const COUNTED_EXTREMA: [&str; 2] = [
    "org.apache.flink.table.runtime.functions.aggregate.MinWithRetractAggFunction$MinWithRetractAccumulator",
    "org.apache.flink.table.runtime.functions.aggregate.MaxWithRetractAggFunction$MaxWithRetractAccumulator",
];
/// Types nested deeper than this are refused, so that no stack overflows.
const MAX_DEPTH: usize = 64;

/// Reads a type in either form. Fails on a text that Flink does not write.
pub fn read_type(json: &Value) -> Result<LogicalType, Reason> {
    read(json, MAX_DEPTH)
}

fn read(json: &Value, depth: usize) -> Result<LogicalType, Reason> {
    match json {
        Value::String(text) => read_compact(text, depth),
        Value::Object(_) => read_object(json, depth.checked_sub(1).ok_or_else(too_deep)?),
        _ => Err(malformed("a type is neither a string nor an object")),
    }
}

fn too_deep() -> Reason {
    Reason::new("a type is nested too deeply")
}

fn read_object(json: &Value, depth: usize) -> Result<LogicalType, Reason> {
    let map = object(json, "a type")?;
    let nullable = match map.get("nullable") {
        None => true,
        Some(value) => value.as_bool().ok_or_else(|| malformed("`nullable` is not true or false"))?,
    };
    let child = |key: &str| read(required(map, key)?, depth).map(Arc::new);
    let kind = match text(map, "type")? {
        "CHAR" => zero_length(map, TypeKind::Char(0))?,
        "VARCHAR" => zero_length(map, TypeKind::VarChar(0))?,
        "BINARY" => zero_length(map, TypeKind::Binary(0))?,
        "VARBINARY" => zero_length(map, TypeKind::VarBinary(0))?,
        "TIMESTAMP_WITHOUT_TIME_ZONE" => {
            TypeKind::Timestamp { precision: fraction_digits(map)?, attribute: attribute(map)? }
        }
        "TIMESTAMP_WITH_LOCAL_TIME_ZONE" => {
            TypeKind::TimestampLtz { precision: fraction_digits(map)?, attribute: attribute(map)? }
        }
        "ARRAY" => TypeKind::Array(child("elementType")?),
        "MULTISET" => TypeKind::Multiset(child("elementType")?),
        "MAP" => TypeKind::Map(child("keyType")?, child("valueType")?),
        "ROW" => {
            let fields = array(map, "fields")?.iter().map(|field| {
                let field = object(field, "a field of a ROW")?;
                Ok(Field { name: text(field, "name")?.to_owned(), ty: read(required(field, "fieldType")?, depth)? })
            });
            TypeKind::Row(fields.collect::<Result<_, Reason>>()?)
        }
        "RAW" if map.get("class").and_then(Value::as_str) == Some(MAP_VIEW) => TypeKind::View,
        "STRUCTURED_TYPE" if is_counted_extremum(map) => TypeKind::View,
        root => TypeKind::Other(root.to_owned()),
    };
    Ok(LogicalType { kind, nullable })
}

/// Whether this is the accumulator of MIN or MAX over rows that retract.
fn is_counted_extremum(map: &serde_json::Map<String, Value>) -> bool {
    let class = map.get("implementationClass").and_then(Value::as_str);
    class.is_some_and(|class| COUNTED_EXTREMA.contains(&class))
}

fn zero_length(map: &serde_json::Map<String, Value>, kind: TypeKind) -> Result<TypeKind, Reason> {
    match required(map, "length")?.as_i64() {
        Some(0) => Ok(kind),
        _ => Err(malformed("a type in object form has a length other than 0")),
    }
}

fn fraction_digits(map: &serde_json::Map<String, Value>) -> Result<u8, Reason> {
    required(map, "precision")?
        .as_i64()
        .and_then(|n| u8::try_from(n).ok())
        .filter(|n| *n <= 9)
        .ok_or_else(|| malformed("the precision of a timestamp is not 0 to 9"))
}

fn attribute(map: &serde_json::Map<String, Value>) -> Result<TimeAttribute, Reason> {
    match text(map, "kind")? {
        "REGULAR" => Ok(TimeAttribute::Regular),
        "ROWTIME" => Ok(TimeAttribute::Rowtime),
        "PROCTIME" => Ok(TimeAttribute::Proctime),
        other => Err(malformed(format_args!("{other} is not a kind of timestamp"))),
    }
}

fn read_compact(source: &str, depth: usize) -> Result<LogicalType, Reason> {
    let mut parser = Parser { source, rest: source };
    let ty = parser.ty(depth)?;
    if parser.rest.trim_start().is_empty() { Ok(ty) } else { Err(parser.error()) }
}

/// A cursor over the compact form.
struct Parser<'a> {
    source: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn error(&self) -> Reason {
        malformed(format_args!("`{}` is not a type", self.source))
    }

    fn ty(&mut self, depth: usize) -> Result<LogicalType, Reason> {
        let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
        self.skip_space();
        let start = self.rest;
        let kind = match self.kind(depth)? {
            Some(kind) => kind,
            None => {
                self.rest = start;
                return self.other();
            }
        };
        let nullable = if self.words(&["NOT", "NULL"]) {
            false
        } else {
            let _ = self.words(&["NULL"]);
            true
        };
        Ok(LogicalType { kind, nullable })
    }

    /// `None` for a type that is not modelled.
    fn kind(&mut self, depth: usize) -> Result<Option<TypeKind>, Reason> {
        let name = self.word().to_ascii_uppercase();
        Ok(Some(match name.as_str() {
            "CHAR" => TypeKind::Char(self.length(1)?),
            "VARCHAR" => TypeKind::VarChar(self.length(1)?),
            "STRING" => TypeKind::VarChar(MAX_LENGTH),
            "BOOLEAN" => TypeKind::Boolean,
            "BINARY" => TypeKind::Binary(self.length(1)?),
            "VARBINARY" => TypeKind::VarBinary(self.length(1)?),
            "BYTES" => TypeKind::VarBinary(MAX_LENGTH),
            "DECIMAL" | "NUMERIC" | "DEC" => self.decimal()?,
            "TINYINT" => TypeKind::TinyInt,
            "SMALLINT" => TypeKind::SmallInt,
            "INT" | "INTEGER" => TypeKind::Integer,
            "BIGINT" => TypeKind::BigInt,
            "FLOAT" => TypeKind::Float,
            "DOUBLE" => {
                let _ = self.words(&["PRECISION"]);
                TypeKind::Double
            }
            "DATE" => TypeKind::Date,
            "TIME" => {
                let precision = self.fraction(0)?;
                let _ = self.words(&["WITHOUT", "TIME", "ZONE"]);
                TypeKind::Time(precision)
            }
            "TIMESTAMP" => {
                let precision = self.fraction(6)?;
                if self.words(&["WITH", "LOCAL", "TIME", "ZONE"]) {
                    TypeKind::TimestampLtz { precision, attribute: TimeAttribute::Regular }
                } else if self.words(&["WITH", "TIME", "ZONE"]) {
                    return Ok(None);
                } else {
                    let _ = self.words(&["WITHOUT", "TIME", "ZONE"]);
                    TypeKind::Timestamp { precision, attribute: TimeAttribute::Regular }
                }
            }
            "TIMESTAMP_LTZ" => {
                TypeKind::TimestampLtz { precision: self.fraction(6)?, attribute: TimeAttribute::Regular }
            }
            "INTERVAL" => self.interval()?,
            "ARRAY" => TypeKind::Array(self.children(depth, 1)?.swap_remove(0)),
            "MULTISET" => TypeKind::Multiset(self.children(depth, 1)?.swap_remove(0)),
            "MAP" => {
                let mut children = self.children(depth, 2)?;
                let value = children.swap_remove(1);
                TypeKind::Map(children.swap_remove(0), value)
            }
            "ROW" => TypeKind::Row(self.fields(depth)?.into()),
            "NULL" => TypeKind::Null,
            "" if !self.rest.starts_with('`') => return Err(self.error()),
            _ => return Ok(None),
        }))
    }

    /// The text of one type, up to the end of its surroundings.
    fn other(&mut self) -> Result<LogicalType, Reason> {
        let start = self.rest;
        let mut open = 0_usize;
        let mut quote = None;
        let mut end = start.len();
        for (at, c) in start.char_indices() {
            match (quote, c) {
                (Some(q), _) if c == q => quote = None,
                (Some(_), _) => {}
                (None, '`' | '\'') => quote = Some(c),
                (None, '<' | '(') => open += 1,
                (None, '>' | ')') if open > 0 => open -= 1,
                (None, '>' | ')' | ',') if open == 0 => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        if quote.is_some() || open > 0 {
            return Err(self.error());
        }
        let (whole, rest) = start.split_at(end);
        self.rest = rest;
        let whole = whole.trim();
        let text = whole.strip_suffix("NOT NULL").map_or(whole, str::trim_end);
        if text.is_empty() {
            return Err(self.error());
        }
        Ok(LogicalType { kind: TypeKind::Other(text.to_owned()), nullable: text.len() == whole.len() })
    }

    fn children(&mut self, depth: usize, count: usize) -> Result<Vec<Arc<LogicalType>>, Reason> {
        self.expect('<')?;
        let mut children = vec![Arc::new(self.ty(depth)?)];
        while children.len() < count {
            self.expect(',')?;
            children.push(Arc::new(self.ty(depth)?));
        }
        self.expect('>')?;
        Ok(children)
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<Field>, Reason> {
        let close = if self.eat('(') {
            ')'
        } else {
            self.expect('<')?;
            '>'
        };
        let mut fields = Vec::new();
        if self.eat(close) {
            return Ok(fields);
        }
        loop {
            let name = self.identifier()?;
            let ty = self.ty(depth)?;
            if self.peek() == Some('\'') {
                self.quoted('\'')?; // the field's description
            }
            fields.push(Field { name, ty });
            if self.eat(close) {
                return Ok(fields);
            }
            self.expect(',')?;
        }
    }

    fn decimal(&mut self) -> Result<TypeKind, Reason> {
        let (mut precision, mut scale) = (10, 0);
        if self.eat('(') {
            precision = self.number()?;
            if self.eat(',') {
                scale = self.number()?;
            }
            self.expect(')')?;
        }
        match (u8::try_from(precision), u8::try_from(scale)) {
            (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(TypeKind::Decimal { precision, scale }),
            _ => Err(self.error()),
        }
    }

    fn interval(&mut self) -> Result<TypeKind, Reason> {
        let first = self.word().to_ascii_uppercase();
        self.parameter()?;
        let last = if self.words(&["TO"]) {
            let last = self.word().to_ascii_uppercase();
            self.parameter()?;
            last
        } else {
            first.clone()
        };
        let unit = |name: &str| ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"].iter().position(|u| *u == name);
        match (unit(&first), unit(&last)) {
            (Some(from), Some(to)) if from <= to && to < 2 => Ok(TypeKind::IntervalYearMonth),
            (Some(from), Some(to)) if from <= to && from >= 2 => Ok(TypeKind::IntervalDayTime),
            _ => Err(self.error()),
        }
    }

    fn length(&mut self, default: u32) -> Result<u32, Reason> {
        match self.parameter()? {
            None => Ok(default),
            Some(n @ 1..=MAX_LENGTH) => Ok(n),
            Some(_) => Err(self.error()),
        }
    }

    fn fraction(&mut self, default: u8) -> Result<u8, Reason> {
        match self.parameter()?.map(u8::try_from) {
            None => Ok(default),
            Some(Ok(n @ 0..=9)) => Ok(n),
            Some(_) => Err(self.error()),
        }
    }

    fn parameter(&mut self) -> Result<Option<u32>, Reason> {
        if !self.eat('(') {
            return Ok(None);
        }
        let number = self.number()?;
        self.expect(')')?;
        Ok(Some(number))
    }

    fn number(&mut self) -> Result<u32, Reason> {
        self.skip_space();
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let number = digits.parse().map_err(|_| self.error())?;
        self.rest = rest;
        Ok(number)
    }

    fn identifier(&mut self) -> Result<String, Reason> {
        self.skip_space();
        if self.rest.starts_with('`') {
            return self.quoted('`');
        }
        let word = self.word();
        if word.is_empty() { Err(self.error()) } else { Ok(word.to_owned()) }
    }

    /// A quoted text, in which a doubled quote stands for one.
    fn quoted(&mut self, quote: char) -> Result<String, Reason> {
        self.expect(quote)?;
        let mut content = String::new();
        loop {
            let end = self.rest.find(quote).ok_or_else(|| self.error())?;
            let (before, after) = self.rest.split_at(end);
            content.push_str(before);
            self.rest = after.strip_prefix(quote).unwrap_or(after);
            match self.rest.strip_prefix(quote) {
                Some(rest) => {
                    content.push(quote);
                    self.rest = rest;
                }
                None => return Ok(content),
            }
        }
    }

    /// The letters, digits and underscores ahead; may be empty.
    fn word(&mut self) -> &'a str {
        self.skip_space();
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Consumes these words if all of them are ahead.
    fn words(&mut self, expected: &[&str]) -> bool {
        let start = self.rest;
        for word in expected {
            if !self.word().eq_ignore_ascii_case(word) {
                self.rest = start;
                return false;
            }
        }
        true
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest.chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Result<(), Reason> {
        if self.eat(c) { Ok(()) } else { Err(self.error()) }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }
}
