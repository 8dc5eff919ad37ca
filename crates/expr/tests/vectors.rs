//! Native functions against results that Flink 2.2.1's own classes computed, on JDK 17.
//!
//! A line of `data/*.tsv` is a function, its arguments and the result, separated by tabs; `\N` is NULL, `\!` starts an exception.
//! Rows are evaluated in one batch per constant arguments and again in random cuts: the result must not depend on them.

mod support;

use streamfusion_plan::types::{LogicalType, TypeKind};
use support::{Arg, Call, TestResult, check_file};

const TEXT: TypeKind = TypeKind::VarChar(2_147_483_647);

fn timestamp(precision: &str) -> TestResult<TypeKind> {
    Ok(TypeKind::Timestamp { precision: precision.parse()?, attribute: Default::default() })
}

fn ty(kind: TypeKind) -> LogicalType {
    LogicalType { kind, nullable: true }
}

fn text(value: &str) -> Arg {
    Arg::Column(TEXT, value.to_owned())
}

fn int(value: &str) -> Arg {
    Arg::Column(TypeKind::Integer, value.to_owned())
}

fn date(value: &str) -> Arg {
    Arg::Column(TypeKind::Date, value.to_owned())
}

fn symbol(value: &str) -> Arg {
    Arg::Symbol(value.to_owned())
}

fn constant(value: &str) -> Arg {
    Arg::Text(value.to_owned())
}

fn call(name: &str, args: Vec<Arg>, result: TypeKind) -> TestResult<Call> {
    Ok(Call { name: name.to_owned(), args, result: ty(result) })
}

fn cast_text(value: &str, to: TypeKind) -> TestResult<Call> {
    call("CAST", vec![text(value)], to)
}

#[test]
fn text_is_cast_to_numbers_as_in_flink() -> TestResult<()> {
    check_file("cast_numbers.tsv", |fields| match fields {
        ["byte", value] => cast_text(value, TypeKind::TinyInt),
        ["short", value] => cast_text(value, TypeKind::SmallInt),
        ["int", value] => cast_text(value, TypeKind::Integer),
        ["long", value] => cast_text(value, TypeKind::BigInt),
        ["boolean", value] => cast_text(value, TypeKind::Boolean),
        ["decimal", value, precision, scale] => {
            cast_text(value, TypeKind::Decimal { precision: precision.parse()?, scale: scale.parse()? })
        }
        _ => Err(format!("unknown line {fields:?}").into()),
    })
}

#[test]
fn text_is_cast_to_points_in_time_as_in_flink() -> TestResult<()> {
    check_file("cast_times.tsv", |fields| match fields {
        ["date", value] => cast_text(value, TypeKind::Date),
        ["time", value, precision] => cast_text(value, TypeKind::Time(precision.parse()?)),
        ["timestamp", value, precision] => cast_text(value, timestamp(precision)?),
        _ => Err(format!("unknown line {fields:?}").into()),
    })
}

#[test]
fn points_in_time_become_text_as_in_flink() -> TestResult<()> {
    check_file("format_times.tsv", |fields| match fields {
        ["date", value] => call("CAST", vec![date(value)], TEXT),
        ["time", value, precision] => {
            call("CAST", vec![Arg::Column(TypeKind::Time(precision.parse()?), (*value).to_owned())], TEXT)
        }
        ["timestamp", millis, nanos, precision] => {
            call("CAST", vec![Arg::Column(timestamp(precision)?, format!("{millis}/{nanos}"))], TEXT)
        }
        ["months", value] => call("CAST", vec![Arg::Column(TypeKind::IntervalYearMonth, (*value).to_owned())], TEXT),
        ["millis", value] => call("CAST", vec![Arg::Column(TypeKind::IntervalDayTime, (*value).to_owned())], TEXT),
        ["pattern", pattern, millis, nanos] => {
            let value = Arg::Column(timestamp("9")?, format!("{millis}/{nanos}"));
            call("DATE_FORMAT", vec![value, constant(pattern)], TEXT)
        }
        _ => Err(format!("unknown line {fields:?}").into()),
    })
}

#[test]
fn time_units_are_as_in_flink() -> TestResult<()> {
    check_file("time_units.tsv", |fields| {
        let millis = |value: &str| -> TestResult<Arg> { Ok(Arg::Column(timestamp("3")?, format!("{value}/0"))) };
        let time = |value: &str| Arg::Column(TypeKind::Time(3), value.to_owned());
        match fields {
            ["extract", unit, value] => call("EXTRACT", vec![symbol(unit), date(value)], TypeKind::BigInt),
            ["floor_date", unit, value] => call("FLOOR", vec![date(value), symbol(unit)], TypeKind::Date),
            ["ceil_date", unit, value] => call("CEIL", vec![date(value), symbol(unit)], TypeKind::Date),
            ["floor_ts", unit, value] => call("FLOOR", vec![millis(value)?, symbol(unit)], timestamp("3")?),
            ["ceil_ts", unit, value] => call("CEIL", vec![millis(value)?, symbol(unit)], timestamp("3")?),
            ["floor_time", unit, value] => call("FLOOR", vec![time(value), symbol(unit)], TypeKind::Time(3)),
            ["ceil_time", unit, value] => call("CEIL", vec![time(value), symbol(unit)], TypeKind::Time(3)),
            ["add_months", value, months] => {
                let months = Arg::Column(TypeKind::IntervalYearMonth, (*months).to_owned());
                call("+", vec![millis(value)?, months], timestamp("3")?)
            }
            ["subtract_months", left, right] => {
                call("-", vec![millis(left)?, millis(right)?], TypeKind::IntervalYearMonth)
            }
            ["truncate", millis, nanos, precision] => {
                let value = Arg::Column(timestamp("9")?, format!("{millis}/{nanos}"));
                call("CAST", vec![value], timestamp(precision)?)
            }
            _ => Err(format!("unknown line {fields:?}").into()),
        }
    })
}

#[test]
fn text_functions_are_as_in_flink() -> TestResult<()> {
    check_file("text.tsv", |fields| match fields {
        ["like", value, pattern, "\\N"] => call("LIKE", vec![text(value), constant(pattern)], TypeKind::Boolean),
        ["like", value, pattern, escape] => {
            call("LIKE", vec![text(value), constant(pattern), constant(escape)], TypeKind::Boolean)
        }
        ["trim", end, characters, value] => call("TRIM", vec![symbol(end), constant(characters), text(value)], TEXT),
        ["substring", value, from] => call("SUBSTRING", vec![text(value), int(from)], TEXT),
        ["substring3", value, from, length] => call("SUBSTR", vec![text(value), int(from), int(length)], TEXT),
        ["left", value, length] => call("LEFT", vec![text(value), int(length)], TEXT),
        ["right", value, length] => call("RIGHT", vec![text(value), int(length)], TEXT),
        ["char_length", value] => call("CHAR_LENGTH", vec![text(value)], TypeKind::Integer),
        ["ascii", value] => call("ASCII", vec![text(value)], TypeKind::Integer),
        ["reverse", value] => call("REVERSE", vec![text(value)], TEXT),
        ["position", seek, value] => call("POSITION", vec![text(seek), text(value)], TypeKind::Integer),
        ["position3", seek, value, from] => call("LOCATE", vec![text(seek), text(value), int(from)], TypeKind::Integer),
        ["instr", value, seek] => call("INSTR", vec![text(value), text(seek)], TypeKind::Integer),
        ["lpad", value, length, pad] => call("LPAD", vec![text(value), int(length), text(pad)], TEXT),
        ["rpad", value, length, pad] => call("RPAD", vec![text(value), int(length), text(pad)], TEXT),
        ["repeat", value, times] => call("REPEAT", vec![text(value), int(times)], TEXT),
        ["replace", value, old, new] => call("REPLACE", vec![text(value), text(old), text(new)], TEXT),
        ["split_index", value, separator, index] => {
            call("SPLIT_INDEX", vec![text(value), text(separator), int(index)], TEXT)
        }
        ["split_index_char", value, separator, index] => {
            call("SPLIT_INDEX", vec![text(value), int(separator), int(index)], TEXT)
        }
        ["concat", a, b, c] => call("CONCAT", vec![text(a), text(b), text(c)], TEXT),
        ["concat_ws", a, b, c] => call("CONCAT_WS", vec![text(a), text(b), text(c)], TEXT),
        _ => Err(format!("unknown line {fields:?}").into()),
    })
}
