//! The rules of a time zone, as the JVM that plans the job knows them.
//!
//! Java's zones and those of a Rust library come from different releases of the time zone database, so the JVM hands over the
//! rules of the zones that a plan names, and nothing is looked up here. As in `java.time.zone.ZoneRules` there are
//! transitions that are listed one by one, and behind the last one rules by which each year has its own.
//!
//! The text is `id|daylight|offset|transitions|rules`: whether `TimeZone.useDaylightTime` says so (`1`, `0`), the
//! offset before the first transition, `;` between transitions (`instant,offset`) and between rules (`month,day,weekday,second,
//! base,before,after`). A transition has the instant in seconds since the epoch and the offset from then on. A rule has Java's month,
//! day of the month (negative: from its end) and day of the week (1 is Monday, 0 any); the second of that day; `base`, which makes the
//! instant of it when subtracted; and the offsets before and after. Offsets are in seconds east of UTC.

use std::sync::Arc;

use crate::reason::Reason;

/// Options under which the JVM hands over rules: this, and what stands in `table.local-time-zone` of the session or of a node, be it
/// the name of a zone or `default`.
pub const RULES_OPTION_PREFIX: &str = "streamfusion.time-zone.";

/// Days in 400 years of the Gregorian calendar: whole weeks, so that everything about years repeats.
const CYCLE_DAYS: i64 = 146_097;
const CYCLE_SECONDS: i64 = CYCLE_DAYS * SECONDS_PER_DAY;
const SECONDS_PER_DAY: i64 = 86_400;

/// A time zone with what `java.time` knows of its offsets.
///
/// Follows: java.time.zone.ZoneRules of JDK 17. Differences: none for zones of the time zone database and fixed offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneRules {
    id: Arc<str>,
    uses_daylight_time: bool,
    /// Ascending by instant.
    transitions: Arc<[Transition]>,
    /// The offset before the first transition.
    first_offset: i32,
    /// Whether the transitions go on as those of the last 400 years did; otherwise the last offset stays.
    repeats: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transition {
    /// In seconds since the epoch.
    instant: i64,
    before: i32,
    after: i32,
}

impl Transition {
    /// The local time, as if it were UTC, from which on the offset behind it counts: the end of a gap or of an overlap.
    fn local(self) -> i64 {
        self.instant + i64::from(self.before.max(self.after))
    }
}

/// An offset and the seconds for which it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetSpan {
    /// Seconds east of UTC.
    pub offset: i32,
    /// The first second.
    pub from: i64,
    /// The second behind the last one.
    pub until: i64,
}

impl OffsetSpan {
    /// Whether the offset counts at this second.
    #[inline]
    pub fn contains(&self, second: i64) -> bool {
        self.from <= second && second < self.until
    }
}

impl ZoneRules {
    /// Reads the text that the JVM hands over.
    pub fn read(text: &str) -> Result<Self, Reason> {
        read(text).ok_or_else(|| Reason::new("the rules of a time zone cannot be read"))
    }

    /// A zone that has always had this offset, in seconds east of UTC.
    pub fn fixed(id: &str, offset: i32) -> Self {
        Self {
            id: id.into(),
            uses_daylight_time: false,
            transitions: Arc::default(),
            first_offset: offset,
            repeats: false,
        }
    }

    /// `java.time.ZoneId.getId`
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `java.util.TimeZone.useDaylightTime`
    pub fn uses_daylight_time(&self) -> bool {
        self.uses_daylight_time
    }

    /// Whether its local time has always been UTC.
    pub fn is_utc(&self) -> bool {
        self.first_offset == 0 && self.transitions.is_empty()
    }

    /// The offset at an instant, in seconds since the epoch.
    pub fn offset_at(&self, instant: i64) -> OffsetSpan {
        self.find(instant, |transition| transition.instant)
    }

    /// The offset of a local time, in seconds as if it were UTC. A local time that does not exist, or exists twice, has the offset
    /// from before the transition, which is what `LocalDateTime.atZone` comes to in both cases.
    pub fn offset_of_local(&self, local: i64) -> OffsetSpan {
        self.find(local, Transition::local)
    }

    fn find(&self, second: i64, at: impl Fn(Transition) -> i64) -> OffsetSpan {
        // the same second some cycles before, where transitions are listed
        let shift = match self.transitions.last() {
            Some(last) if self.repeats && second >= at(*last) => {
                (second - at(*last)).div_euclid(CYCLE_SECONDS).saturating_add(1).saturating_mul(CYCLE_SECONDS)
            }
            _ => 0,
        };
        let second = second.saturating_sub(shift);
        let behind = self.transitions.partition_point(|transition| at(*transition) <= second);
        let previous = behind.checked_sub(1).and_then(|previous| self.transitions.get(previous));
        let next = self.transitions.get(behind);
        OffsetSpan {
            offset: previous.map_or(self.first_offset, |previous| previous.after),
            from: previous.map_or(i64::MIN, |previous| at(*previous).saturating_add(shift)),
            until: next.map_or(i64::MAX, |next| at(*next).saturating_add(shift)),
        }
    }
}

/// A transition that every year has.
#[derive(Debug, Clone, Copy)]
struct Rule {
    month: i64,
    day: i64,
    weekday: i64,
    second: i64,
    base: i64,
    before: i32,
    after: i32,
}

impl Rule {
    fn of(self, year: i64) -> Transition {
        let date = if self.day < 0 {
            let (next_year, next_month) = if self.month == 12 { (year + 1, 1) } else { (year, self.month + 1) };
            let date = days(next_year, next_month, 1) + self.day;
            if self.weekday == 0 { date } else { date - (weekday(date) - self.weekday).rem_euclid(7) }
        } else {
            let date = days(year, self.month, self.day);
            if self.weekday == 0 { date } else { date + (self.weekday - weekday(date)).rem_euclid(7) }
        };
        let instant = date * SECONDS_PER_DAY + self.second - self.base;
        Transition { instant, before: self.before, after: self.after }
    }
}

/// Days since the epoch of a date of the proleptic Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // years that begin in March
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400) + (153 * m + 2) / 5 + day - 1 - 719_468
}

/// The year in which a second since the epoch lies.
fn year_of(second: i64) -> i64 {
    let day = second.div_euclid(SECONDS_PER_DAY);
    let mut year = 1970 + day.div_euclid(366);
    while days(year + 1, 1, 1) <= day {
        year += 1;
    }
    while days(year, 1, 1) > day {
        year -= 1;
    }
    year
}

/// 1 is Monday.
fn weekday(day: i64) -> i64 {
    (day + 3).rem_euclid(7) + 1
}

fn read(text: &str) -> Option<ZoneRules> {
    let mut parts = text.split('|');
    let (id, daylight, first_offset) = (parts.next()?, parts.next()?, offset(parts.next()?.parse().ok()?)?);
    let (listed, rules) = (parts.next()?, parts.next()?);
    if parts.next().is_some() || id.is_empty() {
        return None;
    }
    let uses_daylight_time = match daylight {
        "1" => true,
        "0" => false,
        _ => return None,
    };
    let mut transitions = Vec::new();
    let mut before = first_offset;
    for transition in listed.split(';').filter(|text| !text.is_empty()) {
        let (instant, after) = transition.split_once(',')?;
        let after = offset(after.parse().ok()?)?;
        transitions.push(Transition { instant: second(instant.parse().ok()?)?, before, after });
        before = after;
    }
    let rules = rules.split(';').filter(|text| !text.is_empty()).map(rule).collect::<Option<Vec<_>>>()?;
    let repeats = !rules.is_empty();
    if repeats {
        let last = transitions.last().map_or(i64::MIN, |last| last.instant);
        let first_year = transitions.last().map_or(1970, |last| year_of(last.instant + i64::from(last.after)));
        // one cycle, and the year behind it, so that the last transition has all of a cycle before it
        let mut by_rule: Vec<Transition> =
            (first_year..=first_year + 401).flat_map(|year| rules.iter().map(move |rule| rule.of(year))).collect();
        by_rule.sort_by_key(|transition| transition.instant);
        transitions.extend(by_rule.into_iter().filter(|transition| transition.instant > last));
    }
    let ascends = |pair: &[Transition]| match pair {
        [first, second] => {
            first.instant < second.instant && first.local() <= second.local() && first.after == second.before
        }
        _ => true,
    };
    if !transitions.windows(2).all(ascends) {
        return None;
    }
    Some(ZoneRules { id: id.into(), uses_daylight_time, transitions: transitions.into(), first_offset, repeats })
}

fn rule(text: &str) -> Option<Rule> {
    let numbers = text.split(',').map(|number| number.parse().ok()).collect::<Option<Vec<i64>>>()?;
    let [month, day, weekday, second, base, before, after] = <[i64; 7]>::try_from(numbers).ok()?;
    let fits = (1..=12).contains(&month)
        && (-28..=31).contains(&day)
        && day != 0
        && (0..=7).contains(&weekday)
        && (0..=SECONDS_PER_DAY).contains(&second);
    let base = i64::from(offset(base)?);
    fits.then_some(Rule { month, day, weekday, second, base, before: offset(before)?, after: offset(after)? })
}

/// An offset as Java allows them: up to 18 hours.
fn offset(seconds: i64) -> Option<i32> {
    i32::try_from(seconds).ok().filter(|offset| (-64_800..=64_800).contains(offset))
}

/// A second between the years -9999 and 9999.
fn second(second: i64) -> Option<i64> {
    (-377_705_116_800..=253_402_300_799).contains(&second).then_some(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISBON_LIKE: &str = "X|1|-100|-1000,0;1000,3600|3,-1,7,3600,0,0,3600;10,-1,7,3600,0,3600,0";

    #[test]
    fn transitions_end_and_rules_begin() -> Result<(), Reason> {
        let zone = ZoneRules::read(LISBON_LIKE.replace("1000,3600|", "1000,0|").as_str())?;
        assert_eq!((zone.id(), zone.uses_daylight_time()), ("X", true));
        assert_eq!([-1001, -1000, 0].map(|second| zone.offset_at(second).offset), [-100, 0, 0]);
        // the last Sunday of March 1970 is the 29th, of October the 25th
        let (spring, autumn) = (87 * 86_400 + 3_600, 297 * 86_400 + 3_600);
        assert_eq!(zone.offset_at(spring - 1), OffsetSpan { offset: 0, from: 1000, until: spring });
        assert_eq!(zone.offset_at(spring), OffsetSpan { offset: 3600, from: spring, until: autumn });
        // local time that does not exist has the offset from before, and so has what exists twice
        assert_eq!(zone.offset_of_local(spring + 3_599).offset, 0);
        assert_eq!(zone.offset_of_local(spring + 3_600).offset, 3600);
        assert_eq!(zone.offset_of_local(autumn + 3_599).offset, 3600);
        assert_eq!(zone.offset_of_local(autumn + 3_600).offset, 0);
        // 400 years make a cycle
        for cycle in [1, 2, 20, 1_000] {
            let later = spring + cycle * CYCLE_SECONDS;
            assert_eq!(zone.offset_at(later).from, later);
            assert_eq!([later - 1, later].map(|second| zone.offset_at(second).offset), [0, 3600]);
        }
        Ok(())
    }

    #[test]
    fn what_java_would_not_write_is_refused() {
        let wrong = [
            "",
            "X|1|0|",
            "X|2|0||",
            "|0|0||",
            "X|0|64801||",
            "X|0|0|1,0;1,3600|",
            "X|0|0|1|",
            "X|0|0|253402300800,1|",
            // the rules go on from another offset than the transitions came to
            LISBON_LIKE,
            "X|0|0||13,1,0,0,0,0,3600",
            "X|0|0||3,0,0,0,0,0,3600",
            "X|0|0||3,1,8,0,0,0,3600",
            "X|0|0||3,1,0,0,0,0",
            "X|0|0|||",
        ];
        for text in wrong {
            assert!(ZoneRules::read(text).is_err(), "{text}");
        }
        assert!(ZoneRules::read("UTC|0|0||").is_ok_and(|zone| zone.is_utc()));
    }
}
