//! Reads vector files, evaluates their calls and compares.
#![allow(clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int8Array, Int16Array, Int32Array, Int64Array,
    StringArray, Time32MillisecondArray, TimestampMillisecondArray,
};
use datafusion_expr::ColumnarValue;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use streamfusion_expr::ExprError;
use streamfusion_expr::registry::{Kernel, lookup};
use streamfusion_plan::rex::{Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::NANO_TIMESTAMP;

pub type TestResult<T> = Result<T, Box<dyn Error>>;

/// The mark of NULL.
const NULL: &str = "\\N";

/// An argument of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A value of a column, as text.
    Column(TypeKind, String),
    /// A constant.
    Text(String),
    /// A symbol.
    Symbol(String),
}

/// One line's call.
#[derive(Debug, Clone)]
pub struct Call {
    pub name: String,
    pub args: Vec<Arg>,
    pub result: LogicalType,
}

impl Call {
    /// The call over columns.
    fn operands(&self) -> Vec<Rex> {
        let literal = |value, kind| Rex::Literal { value, ty: LogicalType { kind, nullable: false } };
        self.args
            .iter()
            .enumerate()
            .map(|(index, arg)| match arg {
                Arg::Column(kind, _) => Rex::InputRef { index, ty: LogicalType { kind: kind.clone(), nullable: true } },
                Arg::Text(value) => literal(Literal::String(value.clone()), TypeKind::VarChar(100)),
                Arg::Symbol(value) => literal(
                    Literal::Symbol { kind: "SYMBOL".to_owned(), value: value.clone() },
                    TypeKind::Other("SYMBOL".to_owned()),
                ),
            })
            .collect()
    }

    fn value(&self, arg: usize) -> Option<&str> {
        match &self.args[arg] {
            Arg::Column(_, value) | Arg::Text(value) | Arg::Symbol(value) => (value != NULL).then_some(value),
        }
    }
}

/// Calls that differ in column values only, with the line number and the expected result.
struct Group {
    kernel: Kernel,
    calls: Vec<(usize, Call, String)>,
}

/// Checks every line of a file. `call_of` gets the fields without the result.
pub fn check_file<F>(file: &str, call_of: F) -> TestResult<()>
where
    F: Fn(&[&str]) -> TestResult<Call>,
{
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let text = std::fs::read_to_string(path)?;
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let mut refused = 0;
    for (number, line) in text.lines().enumerate() {
        let fields: Vec<String> = line.split('\t').map(unescape).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let [arguments @ .., expected] = fields.as_slice() else {
            return Err(format!("line {number} is empty").into());
        };
        let call = call_of(arguments)?;
        let operands = call.operands();
        let key = format!("{} {operands:?} {:?}", call.name, call.result);
        if let Some(group) = groups.get_mut(&key) {
            group.calls.push((number + 1, call, (*expected).to_owned()));
            continue;
        }
        match lookup(&call.name, 1, &operands, &call.result) {
            Ok(kernel) => {
                groups.insert(key, Group { kernel, calls: vec![(number + 1, call, (*expected).to_owned())] });
            }
            // What Flink refuses is left to the JVM.
            Err(_) if expected.starts_with("\\!org.apache.flink.table.api.ValidationException") => refused += 1,
            Err(reason) => return Err(format!("line {}: {reason}", number + 1).into()),
        }
    }
    let checked: usize = groups.values().map(|group| group.calls.len()).sum();
    assert_eq!(checked + refused, text.lines().count());
    let mut differences = Vec::new();
    for group in groups.values() {
        check_group(group, &mut differences)?;
    }
    assert!(
        differences.is_empty(),
        "{} differences\n{}",
        differences.len(),
        differences[..differences.len().min(20)].join("\n")
    );
    Ok(())
}

/// Undoes the escapes of a field; the marks of NULL and of exceptions stay.
fn unescape(field: &str) -> String {
    let mut out = String::new();
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('\\') => out.push('\\'),
                Some(mark) => out.extend(['\\', mark]),
                None => out.push('\\'),
            },
            _ => out.push(c),
        }
    }
    out
}

fn check_group(group: &Group, differences: &mut Vec<String>) -> TestResult<()> {
    let (failing, succeeding): (Vec<_>, Vec<_>) =
        group.calls.iter().partition(|(_, _, expected)| expected.starts_with("\\!"));
    for (line, call, expected) in failing {
        let found = match evaluate(&group.kernel, &[call]) {
            Err(ExprError::Java { class, message }) => format!("\\!{class}: {message}"),
            other => format!("{other:?}"),
        };
        if found != *expected {
            differences.push(format!("line {line}: {:?}: expected {expected:?}, found {found:?}", call.args));
        }
    }
    let calls: Vec<&Call> = succeeding.iter().map(|(_, call, _)| call).collect();
    if calls.is_empty() {
        return Ok(());
    }
    let whole = match evaluate(&group.kernel, &calls) {
        Ok(whole) => whole,
        Err(_) => {
            // Find the lines that fail.
            for (line, call, expected) in succeeding {
                if let Err(error) = evaluate(&group.kernel, &[call]) {
                    differences.push(format!("line {line}: {:?}: expected {expected:?}, found {error}", call.args));
                }
            }
            return Ok(());
        }
    };
    assert_eq!(whole.len(), calls.len());
    for (row, (line, call, expected)) in succeeding.iter().enumerate() {
        let found = show(&whole, row)?;
        if found != *expected {
            differences.push(format!("line {line}: {:?}: expected {expected:?}, found {found:?}", call.args));
        }
    }
    batch_cuts_do_not_matter(&group.kernel, &calls, &whole)
}

fn batch_cuts_do_not_matter(kernel: &Kernel, calls: &[&Call], whole: &ArrayRef) -> TestResult<()> {
    let config = ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config).run(&prop::collection::vec(1..40_usize, 1..calls.len() + 1), |cuts| {
        let mut start = 0;
        for length in cuts.into_iter().cycle() {
            if start == calls.len() {
                break;
            }
            let end = calls.len().min(start + length);
            let part = evaluate(kernel, &calls[start..end]).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(&part, &whole.slice(start, end - start));
            start = end;
        }
        Ok(())
    })?;
    Ok(())
}

/// The results of calls that differ in column values only.
fn evaluate(kernel: &Kernel, calls: &[&Call]) -> Result<ArrayRef, ExprError> {
    let Some(first) = calls.first() else { return Ok(Arc::new(BooleanArray::new_null(0))) };
    let values: Vec<ColumnarValue> = first
        .args
        .iter()
        .enumerate()
        .map(|(index, arg)| match arg {
            Arg::Column(kind, _) => {
                let texts: Vec<Option<&str>> = calls.iter().map(|call| call.value(index)).collect();
                ColumnarValue::Array(column(kind, &texts))
            }
            Arg::Text(value) => ColumnarValue::Scalar(value.as_str().into()),
            Arg::Symbol(_) => ColumnarValue::Scalar(datafusion_common::ScalarValue::Null),
        })
        .collect();
    Ok((kernel.run)(&values, calls.len())?.into_array_of_size(calls.len())?)
}

fn parse<T: std::str::FromStr>(texts: &[Option<&str>]) -> Vec<Option<T>> {
    texts.iter().map(|text| text.map(|text| text.parse().ok().expect("a number"))).collect()
}

fn column(kind: &TypeKind, texts: &[Option<&str>]) -> ArrayRef {
    match kind {
        TypeKind::VarChar(_) => Arc::new(StringArray::from(texts.to_vec())),
        TypeKind::Integer | TypeKind::IntervalYearMonth => Arc::new(Int32Array::from(parse(texts))),
        TypeKind::IntervalDayTime => Arc::new(Int64Array::from(parse(texts))),
        TypeKind::Date => Arc::new(Date32Array::from(parse(texts))),
        TypeKind::Time(_) => Arc::new(Time32MillisecondArray::from(parse(texts))),
        TypeKind::Timestamp { precision, .. } => {
            let pairs = texts.iter().map(|text| {
                let (millis, nanos) = (*text)?.split_once('/')?;
                Some((millis.parse::<i64>().ok()?, nanos.parse::<i128>().ok()?))
            });
            if *precision <= 3 {
                Arc::new(pairs.map(|pair| pair.map(|(millis, _)| millis)).collect::<TimestampMillisecondArray>())
            } else {
                let nanos = pairs.map(|pair| pair.map(|(millis, nanos)| i128::from(millis) * 1_000_000 + nanos));
                Arc::new(nanos.collect::<Decimal128Array>().with_data_type(NANO_TIMESTAMP))
            }
        }
        other => panic!("no column of {other:?}"),
    }
}

/// A value as the vector files write it.
fn show(array: &ArrayRef, row: usize) -> TestResult<String> {
    if array.is_null(row) {
        return Ok(NULL.to_owned());
    }
    let any = array.as_any();
    macro_rules! shown {
        ($($ty:ty),*) => {
            $(if let Some(array) = any.downcast_ref::<$ty>() { return Ok(array.value(row).to_string()); })*
        };
    }
    if let Some(array) = any.downcast_ref::<Decimal128Array>() {
        let value = array.value(row);
        return Ok(match array.data_type() {
            ty if *ty == NANO_TIMESTAMP => format!("{}/{}", value.div_euclid(1_000_000), value.rem_euclid(1_000_000)),
            _ => value.to_string(),
        });
    }
    if let Some(array) = any.downcast_ref::<TimestampMillisecondArray>() {
        return Ok(format!("{}/0", array.value(row)));
    }
    shown!(
        StringArray,
        BooleanArray,
        Int8Array,
        Int16Array,
        Int32Array,
        Int64Array,
        Date32Array,
        Time32MillisecondArray
    );
    Err(format!("no text for {}", array.data_type()).into())
}
