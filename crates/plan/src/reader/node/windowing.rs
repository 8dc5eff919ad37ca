//! Windowing from JSON: the property `windowing` of all nodes that have one.

use serde_json::{Map, Value};

use super::NodeJson;
use super::options::Options;
use crate::node::{ShiftZone, WindowSpec, Windowing, WindowingStrategy};
use crate::reader::json::{
    as_indices, boolean, closed, index, integer, malformed, object, optional, required, text, unknown_key,
};
use crate::reader::types::read_type;
use crate::reason::Reason;
use crate::types::{LogicalType, TimeAttribute, TypeKind};

/// Reads the property `windowing`.
pub(super) fn windowing(node: &NodeJson<'_>) -> Result<Windowing, Reason> {
    windowing_at(node, "windowing")
}

/// Reads the windowing that is the property `key`.
pub(super) fn windowing_at(node: &NodeJson<'_>, key: &str) -> Result<Windowing, Reason> {
    let map = object(required(node.map, key)?, &format!("`{key}`"))?;
    let (strategy, own) = read_strategy(map)?;
    let common = ["strategy", "window", "timeAttributeType", "isRowtime"];
    let known: Vec<&str> = common.iter().chain(own).copied().collect();
    if let Some(key) = unknown_key(map, &known) {
        return Err(Reason::new(format!("the property `{key}` of `windowing` is not known here")));
    }
    let time_attribute = read_type(required(map, "timeAttributeType")?)?;
    let attribute = match &time_attribute.kind {
        TypeKind::Timestamp { attribute, .. } | TypeKind::TimestampLtz { attribute, .. } => *attribute,
        _ => TimeAttribute::Regular,
    };
    let is_rowtime = attribute == TimeAttribute::Rowtime;
    if attribute == TimeAttribute::Regular {
        return Err(malformed("the windows go by a column that is no time attribute"));
    }
    if optional(map, "isRowtime").is_some() && boolean(map, "isRowtime")? != is_rowtime {
        return Err(malformed("`isRowtime` of `windowing` is not what its time attribute says"));
    }
    let zone = shift_zone(&time_attribute, &node.options)?;
    Ok(Windowing { strategy, window: read_window(required(map, "window")?)?, time_attribute, is_rowtime, zone })
}

/// In whose local time the windows of a time attribute begin and end.
pub(super) fn shift_zone(time_attribute: &LogicalType, options: &Options<'_>) -> Result<ShiftZone, Reason> {
    if !matches!(time_attribute.kind, TypeKind::TimestampLtz { .. }) {
        return Ok(ShiftZone::Utc);
    }
    options.zone_rules().map(ShiftZone::Zone)
}

/// The strategy and the properties that only it has.
fn read_strategy(map: &Map<String, Value>) -> Result<(WindowingStrategy, &'static [&'static str]), Reason> {
    match text(map, "strategy")? {
        "TimeAttribute" => {
            let column = index(map, "timeAttributeIndex")?;
            Ok((WindowingStrategy::TimeAttribute { column }, &["timeAttributeIndex"]))
        }
        "WindowAttached" => {
            let start = match integer(map, "windowStart")? {
                -1 => None,
                _ => Some(index(map, "windowStart")?),
            };
            Ok((
                WindowingStrategy::WindowAttached { start, end: index(map, "windowEnd")? },
                &["windowStart", "windowEnd"],
            ))
        }
        "SliceAttached" => Ok((WindowingStrategy::SliceAttached { end: index(map, "sliceEnd")? }, &["sliceEnd"])),
        other => Err(Reason::new(format!("the windowing strategy {other} is not known here"))),
    }
}

fn read_window(json: &Value) -> Result<WindowSpec, Reason> {
    let kind = text(object(json, "`window`")?, "type")?;
    let map = |known| closed(json, "`window`", known);
    match kind {
        "TumblingWindow" => {
            let map = map(&["type", "size", "offset"])?;
            let (size_ms, offset_ms) = (length(map, "size")?, offset(map)?);
            if offset_ms.unsigned_abs() >= size_ms.unsigned_abs() {
                return Err(Reason::new(
                    "Flink does not support a tumbling window with an offset as large as its size",
                ));
            }
            Ok(WindowSpec::Tumbling { size_ms, offset_ms })
        }
        "HoppingWindow" => {
            let map = map(&["type", "size", "slide", "offset"])?;
            let (size_ms, slide_ms) = (length(map, "size")?, length(map, "slide")?);
            Ok(WindowSpec::Hopping { size_ms, slide_ms, offset_ms: offset(map)? })
        }
        "CumulativeWindow" => {
            let map = map(&["type", "maxSize", "step", "offset"])?;
            let (max_size_ms, step_ms) = (length(map, "maxSize")?, length(map, "step")?);
            if max_size_ms % step_ms != 0 {
                return Err(Reason::new(
                    "Flink does not support a cumulative window whose size is not a multiple of its step",
                ));
            }
            Ok(WindowSpec::Cumulative { max_size_ms, step_ms, offset_ms: offset(map)? })
        }
        "SessionWindow" => {
            let map = map(&["type", "gap", "partition_key_indices"])?;
            let partition = as_indices(required(map, "partition_key_indices")?, "partition_key_indices")?;
            Ok(WindowSpec::Session { gap_ms: length(map, "gap")?, partition })
        }
        other => Err(Reason::new(format!("the window {other} is not known here"))),
    }
}

/// A duration of at least a millisecond.
pub(super) fn length(map: &Map<String, Value>, key: &str) -> Result<i64, Reason> {
    let millis = duration(map, key)?;
    if millis > 0 { Ok(millis) } else { Err(malformed(format_args!("`{key}` of a window is not positive"))) }
}

fn offset(map: &Map<String, Value>) -> Result<i64, Reason> {
    optional(map, "offset").map_or(Ok(0), |_| duration(map, "offset"))
}

fn duration(map: &Map<String, Value>, key: &str) -> Result<i64, Reason> {
    let text = text(map, key)?;
    duration_ms(text).ok_or_else(|| malformed(format_args!("`{text}` is not a duration in whole milliseconds")))
}

/// Whole milliseconds of a duration as `java.time.Duration.toString` writes it, at most about 30,000 years, which leaves room
/// for sums.
fn duration_ms(text: &str) -> Option<i64> {
    const LONGEST_MS: i64 = 1_000_000_000_000_000;
    let mut rest = text.strip_prefix("PT").filter(|rest| !rest.is_empty())?;
    let mut units = [('H', 3_600_000_i64), ('M', 60_000), ('S', 1_000)].into_iter();
    let mut millis = 0_i64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_uppercase())?;
        let (number, behind) = rest.split_at(end);
        let letter = behind.chars().next()?;
        let (_, unit) = units.by_ref().find(|(unit, _)| *unit == letter)?;
        let part = match number.split_once('.') {
            None => number.parse::<i64>().ok()?.checked_mul(unit)?,
            Some((whole, fraction))
                if letter == 'S'
                    && (1..=3).contains(&fraction.len())
                    && fraction.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                let fraction_ms: i64 = format!("{fraction:0<3}").parse().ok()?;
                let whole_ms = whole.parse::<i64>().ok()?.checked_mul(unit)?;
                if whole.starts_with('-') {
                    whole_ms.checked_sub(fraction_ms)?
                } else {
                    whole_ms.checked_add(fraction_ms)?
                }
            }
            Some(_) => return None,
        };
        millis = millis.checked_add(part)?;
        rest = behind.get(1..)?;
    }
    (-LONGEST_MS..=LONGEST_MS).contains(&millis).then_some(millis)
}

#[cfg(test)]
mod tests {
    use super::duration_ms;

    #[test]
    fn durations_are_read_as_java_writes_them() {
        let cases = [
            ("PT10S", Some(10_000)),
            ("PT24H", Some(86_400_000)),
            ("PT-1M", Some(-60_000)),
            ("PT1H30M", Some(5_400_000)),
            ("PT-1M-30S", Some(-90_000)),
            ("PT0S", Some(0)),
            ("PT0.001S", Some(1)),
            ("PT-0.5S", Some(-500)),
            ("PT-1.25S", Some(-1_250)),
            ("PT1M0.5S", Some(60_500)),
            ("PT0.0001S", None),
            ("PT1.5M", None),
            ("PT", None),
            ("P1D", None),
            ("PT1S1M", None),
            ("PT1S1S", None),
            ("PT1.S", None),
            ("PT1.+1S", None),
            ("PT9223372036854775807H", None),
            ("10 s", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(duration_ms(text), expected, "{text}");
        }
    }
}
