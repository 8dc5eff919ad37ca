//! What a node takes from options: its own, which the plan keeps, before the session's; and the time to live of its state.
//!
//! Follows: ExecNodeConfig, StateMetadata and MinibatchUtil, Flink 2.2.

use serde_json::{Map, Value};

use super::Config;
use crate::reader::json::{array, integer, malformed, object, text, unknown_key};
use crate::reason::Reason;
use crate::zone::{RULES_OPTION_PREFIX, ZoneRules};

pub(super) const MINI_BATCH_ENABLED: &str = "table.exec.mini-batch.enabled";
pub(super) const MINI_BATCH_SIZE: &str = "table.exec.mini-batch.size";
pub(super) const LOCAL_TIME_ZONE: &str = "table.local-time-zone";
pub(super) const MINI_BATCH_LATENCY: &str = "table.exec.mini-batch.allow-latency";
const STATE_TTL: &str = "table.exec.state.ttl";

/// The options of a node.
pub(super) struct Options<'a> {
    own: Config,
    session: &'a Config,
}

impl<'a> Options<'a> {
    /// Reads `configuration`, in which only the options `known` may stand.
    pub(super) fn read(map: &Map<String, Value>, known: &[&str], session: &'a Config) -> Result<Self, Reason> {
        let Some(json) = map.get("configuration").filter(|json| !json.is_null()) else {
            return Ok(Self { own: Config::new(), session });
        };
        let options = object(json, "`configuration`")?;
        if let Some(key) = unknown_key(options, known) {
            return Err(Reason::new(format!("its option `{key}` is not known here")));
        }
        let own =
            options.keys().map(|key| Ok((key.clone(), text(options, key)?.to_owned()))).collect::<Result<_, _>>()?;
        Ok(Self { own, session })
    }

    /// The value of an option, as text.
    fn get(&self, key: &str) -> Option<&str> {
        self.own.get(key).or_else(|| self.session.get(key)).map(String::as_str)
    }

    /// The rules of the time zone that the node or else the session names, or why they are not known.
    pub(super) fn zone_rules(&self) -> Result<ZoneRules, Reason> {
        let name = self.get(LOCAL_TIME_ZONE).unwrap_or("default");
        match self.session.get(&format!("{RULES_OPTION_PREFIX}{name}")) {
            Some(rules) => ZoneRules::read(rules),
            // needs no JVM to be known
            None if name == "UTC" => Ok(ZoneRules::fixed(name, 0)),
            None => Err(Reason::new(format!("the rules of the time zone `{name}` are not known here"))),
        }
    }

    /// An option that is true or false.
    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, Reason> {
        match self.get(key).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(malformed(format_args!("`{key}` is {other}"))),
        }
    }

    /// An option that is a whole number.
    pub(super) fn number(&self, key: &str, default: i64) -> Result<i64, Reason> {
        let Some(text) = self.get(key) else { return Ok(default) };
        text.parse().map_err(|_| malformed(format_args!("`{key}` is not a number")))
    }

    /// An option that is a duration, in whole milliseconds.
    pub(super) fn duration_ms(&self, key: &str, default: i64) -> Result<i64, Reason> {
        let Some(text) = self.get(key) else { return Ok(default) };
        duration_ms(text).ok_or_else(|| malformed(format_args!("`{key}` is not a duration")))
    }

    /// Rows per bundle, at least 1; `None` where mini-batch is off.
    pub(super) fn mini_batch(&self) -> Result<Option<u64>, Reason> {
        self.flag(MINI_BATCH_ENABLED, false)?.then(|| self.mini_batch_size()).transpose()
    }

    /// Rows per bundle, at least 1, whether mini-batch is on or not.
    pub(super) fn mini_batch_size(&self) -> Result<u64, Reason> {
        let size = self.number(MINI_BATCH_SIZE, -1)?;
        u64::try_from(size)
            .ok()
            .filter(|size| *size > 0)
            .ok_or_else(|| Reason::new(format!("`{MINI_BATCH_SIZE}` is {size}, and Flink wants a positive number")))
    }

    /// Time to live in milliseconds of state that has none of its own in the plan.
    pub(super) fn session_ttl_ms(&self) -> Result<i64, Reason> {
        ttl_ms(self.get(STATE_TTL).unwrap_or("0 ms"))
    }

    /// Time to live in milliseconds of each of the `N` states of a node: of its property `state`, else the session's.
    pub(super) fn state_ttl_ms<const N: usize>(&self, map: &Map<String, Value>) -> Result<[i64; N], Reason> {
        let mut result = [0; N];
        result.copy_from_slice(&self.states_ttl_ms(map, N)?);
        Ok(result)
    }

    /// The same of a node whose number of states depends on its inputs.
    pub(super) fn states_ttl_ms(&self, map: &Map<String, Value>, count: usize) -> Result<Vec<i64>, Reason> {
        let states = match map.get("state") {
            None | Some(Value::Null) => &[],
            Some(_) => array(map, "state")?,
        };
        if states.is_empty() {
            return Ok(vec![self.session_ttl_ms()?; count]);
        }
        if states.len() != count {
            return Err(malformed(format_args!("`state` has {} elements, not {count}", states.len())));
        }
        let mut ttls = vec![None; count];
        for state in states {
            let state = object(state, "an element of `state`")?;
            if let Some(key) = unknown_key(state, &["index", "ttl", "name"]) {
                return Err(Reason::new(format!("the property `{key}` of its state is not known here")));
            }
            text(state, "name")?;
            let index = integer(state, "index")?;
            let place = usize::try_from(index).ok().and_then(|index| ttls.get_mut(index));
            match place {
                Some(place @ None) => *place = Some(ttl_ms(text(state, "ttl")?)?),
                Some(Some(_)) => return Err(malformed(format_args!("`state` has the index {index} twice"))),
                None => return Err(malformed(format_args!("`state` has the index {index}, which is out of range"))),
            }
        }
        ttls.into_iter().map(|ttl| ttl.ok_or_else(|| malformed("an index of `state` is missing"))).collect()
    }
}

fn ttl_ms(text: &str) -> Result<i64, Reason> {
    duration_ms(text).ok_or_else(|| malformed(format_args!("`{text}` is not a time to live")))
}

/// A duration such as `36 h` in whole milliseconds; follows TimeUtils.parseDuration but for the ISO form.
fn duration_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: i128 = number.parse().ok()?;
    let nanos: i128 = match unit.trim().to_lowercase().as_str() {
        "d" | "day" | "days" => 86_400_000_000_000,
        "h" | "hour" | "hours" => 3_600_000_000_000,
        "min" | "m" | "minute" | "minutes" => 60_000_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        _ => return None,
    };
    i64::try_from(number.checked_mul(nanos)? / 1_000_000).ok()
}
