//! One key and its windows as Flink's operators keep them: a map from windows to accumulators, timers, and for sessions a sorted set of
//! windows with the window under which each has its accumulators. Row by row, and every aggregate by hand.

use std::collections::{BTreeMap, BTreeSet};

use super::{Output, Row, Setting, Windowing, shown};
use crate::window::{TimeWindow, WindowZone};

/// What the calls of the tests have accumulated: COUNT(*), SUM(v), SUM(d), MIN(d) or with retraction MAX(v), COUNT(DISTINCT v), and
/// SUM(DISTINCT v) where `flag`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acc {
    rows: i64,
    sum: (Option<i32>, i64),
    real: (Option<f64>, i64),
    least: Option<f64>,
    most: Most,
    /// Of the two calls over distinct values.
    distinct: BTreeMap<i32, [i64; 2]>,
    values: i64,
    flagged: (Option<i32>, i64),
    /// The rows themselves, by number.
    listed: BTreeMap<u64, String>,
}

/// Follows: MaxWithRetractAggFunction.
#[derive(Debug, Clone, Default)]
struct Most {
    max: Option<i32>,
    size: i64,
    map: BTreeMap<i32, i64>,
}

impl Most {
    fn accumulate(&mut self, value: i32) {
        if self.size == 0 || self.max.is_none_or(|max| max < value) {
            self.max = Some(value);
        }
        let count = self.map.get(&value).copied().unwrap_or(0) + 1;
        self.put(value, count);
        if count == 1 {
            self.size += 1;
        }
    }

    fn retract(&mut self, value: i32) {
        let count = self.map.get(&value).copied().unwrap_or(0) - 1;
        self.put(value, count);
        if count == 0 {
            self.size -= 1;
            if self.size == 0 {
                self.max = None;
            } else if self.max == Some(value) {
                self.update();
            }
        }
    }

    fn put(&mut self, value: i32, count: i64) {
        if count == 0 {
            self.map.remove(&value);
        } else {
            self.map.insert(value, count);
        }
    }

    fn update(&mut self) {
        self.max = self.map.keys().next_back().copied();
        if self.max.is_none() {
            self.size = 0;
        }
    }

    fn merge(&mut self, other: &Self) {
        let better = || other.size > 0 && matches!((self.max, other.max), (Some(max), Some(other)) if max < other);
        if self.size == 0 || better() {
            self.max = other.max;
        }
        let mut lost = false;
        for (value, count) in &other.map {
            let before = self.map.get(value).copied().unwrap_or(0);
            let after = before + count;
            self.put(*value, after);
            if after <= 0 && before > 0 {
                self.size -= 1;
                lost |= self.max == Some(*value);
            } else if after > 0 && before <= 0 {
                self.size += 1;
            }
        }
        if lost {
            self.update();
        }
    }
}

impl Acc {
    fn add(&mut self, row: &Row, retracts: bool) {
        let takes_back = matches!(row.kind, 1 | 3);
        let sign = if takes_back { -1 } else { 1 };
        self.rows += sign;
        if let Some(value) = row.value {
            let change = if takes_back { value.wrapping_neg() } else { value };
            self.sum = (Some(self.sum.0.unwrap_or(0).wrapping_add(change)), self.sum.1 + sign);
            if retracts {
                if takes_back { self.most.retract(value) } else { self.most.accumulate(value) }
            }
            let counts = self.distinct.entry(value).or_default();
            let passes = [true, row.flag == Some(true)];
            let mut changes = [0, 0];
            for ((count, passes), change) in counts.iter_mut().zip(passes).zip(&mut changes) {
                if !passes {
                    continue;
                }
                let before = *count;
                *count += sign;
                *change = match (retracts, takes_back) {
                    (false, _) => i64::from(before == 0),
                    (true, false) => i64::from(*count == 1),
                    (true, true) => -i64::from(*count == 0),
                };
            }
            self.distinct.retain(|_, counts| *counts != [0, 0]);
            self.take(value, changes);
        }
        if let Some(real) = row.real {
            let before = self.real.0;
            let after = if takes_back { before.unwrap_or(0.0) - real } else { before.map_or(real, |sum| sum + real) };
            self.real = (Some(after), self.real.1 + sign);
            if self.least.is_none_or(|least| real < least) {
                self.least = Some(real);
            }
        }
    }

    /// Takes a distinct value into the two calls: 1 accumulates, -1 takes back.
    fn take(&mut self, value: i32, changes: [i64; 2]) {
        self.values += changes[0];
        if changes[1] != 0 {
            let change = if changes[1] > 0 { value } else { value.wrapping_neg() };
            self.flagged = (Some(self.flagged.0.unwrap_or(0).wrapping_add(change)), self.flagged.1 + changes[1]);
        }
    }

    fn merge(&mut self, other: &Self, retracts: bool) {
        self.rows += other.rows;
        self.listed.extend(other.listed.clone());
        let sum = |a: Option<i32>, b: Option<i32>| match (a, b) {
            (Some(a), Some(b)) => Some(a.wrapping_add(b)),
            (a, b) => a.or(b),
        };
        self.sum = (sum(self.sum.0, other.sum.0), self.sum.1 + other.sum.1);
        let real = match (self.real.0, other.real.0) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.real = (real, self.real.1 + other.real.1);
        if let Some(real) = other.least
            && self.least.is_none_or(|least| real < least)
        {
            self.least = Some(real);
        }
        self.most.merge(&other.most);
        for (value, others) in &other.distinct {
            let counts = self.distinct.entry(*value).or_default();
            let mut changes = [0, 0];
            for ((count, other), change) in counts.iter_mut().zip(others).zip(&mut changes) {
                let before = *count;
                *count += other;
                *change = i64::from(before <= 0 && *count > 0) - i64::from(before > 0 && *count <= 0 && retracts);
            }
            self.distinct.retain(|_, counts| *counts != [0, 0]);
            self.take(*value, changes);
        }
    }

    fn show(&self, retracts: bool) -> String {
        let text = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
        let int =
            |(value, count): (Option<i32>, i64)| text(value.filter(|_| !retracts || count != 0).map(|v| v.to_string()));
        let real = text(self.real.0.filter(|_| !retracts || self.real.1 != 0).map(|v| format!("{v:?}")));
        let extremum = if retracts {
            text(self.most.max.filter(|_| self.most.size > 0).map(|v| v.to_string()))
        } else {
            text(self.least.map(|v| format!("{v:?}")))
        };
        format!("{} {} {real} {extremum} {} {}", self.rows, int(self.sum), self.values, int(self.flagged))
    }
}

/// See the module.
pub(crate) struct Model<'a> {
    setting: &'a Setting,
    zone: WindowZone,
    windows: BTreeSet<TimeWindow>,
    mapping: BTreeMap<TimeWindow, TimeWindow>,
    accumulators: BTreeMap<TimeWindow, Acc>,
    timers: BTreeSet<(i64, TimeWindow)>,
    pub(crate) late: u64,
    /// That of the next row.
    number: u64,
}

/// The listing of a Java `HashSet` that these windows were added to in this order.
fn hash_set(windows: &[TimeWindow]) -> Vec<TimeWindow> {
    let mut buckets = vec![Vec::new(); 16];
    for window in windows {
        // TimeWindow.hashCode, with the inverse found bit by bit where the original has a formula
        let odd = (window.end as i32).wrapping_shl(1).wrapping_add(1);
        let mut inverse = 1_i32;
        for bit in 1..32 {
            if odd.wrapping_mul(inverse) & (1 << bit) != 0 {
                inverse |= 1 << bit;
            }
        }
        let hash = (window.start as i32).wrapping_add(inverse);
        let bucket: &mut Vec<TimeWindow> = &mut buckets[((hash ^ (hash as u32 >> 16) as i32) & 15) as usize];
        if !bucket.contains(window) {
            bucket.push(*window);
        }
    }
    buckets.concat()
}

fn start(time: i64, size: i64) -> i64 {
    time - time.rem_euclid(size)
}

impl<'a> Model<'a> {
    pub(crate) fn new(setting: &'a Setting) -> Self {
        Self {
            setting,
            zone: setting.zone(),
            windows: BTreeSet::new(),
            mapping: BTreeMap::new(),
            accumulators: BTreeMap::new(),
            timers: BTreeSet::new(),
            late: 0,
            number: 0,
        }
    }

    fn timer(&self, window: TimeWindow) -> i64 {
        self.zone.to_epoch_millis_for_timer(window.end - 1)
    }

    fn is_late(&self, window: TimeWindow, watermark: i64) -> bool {
        // the assigner of sessions of a window aggregate believes to be one of event time
        (self.setting.rowtime || !self.setting.legacy) && self.timer(window) <= watermark
    }

    /// Takes a row; an error where Flink fails.
    pub(crate) fn add(&mut self, row: &Row, watermark: i64, now: i64) -> Result<(), ()> {
        let time = if self.setting.rowtime { row.time } else { now };
        let time = self.zone.to_utc_timestamp_millis(time);
        let (state, actual) = match self.setting.windowing {
            Windowing::Session(gap) => {
                let own = TimeWindow { start: time, end: time + gap };
                let actual = self.add_window(own, watermark, now)?;
                self.merged(actual, watermark)?
            }
            Windowing::Attached => {
                let own = TimeWindow { start: row.window.0, end: row.window.1 };
                self.mapping.insert(own, own);
                self.windows.insert(own);
                self.merged(own, watermark)?
            }
            Windowing::Tumble(size) => {
                let own = TimeWindow { start: start(time, size), end: start(time, size) + size };
                let state = Some(own).filter(|own| !self.is_late(*own, watermark));
                (state, state.into_iter().collect())
            }
            Windowing::Hop(size, slide) => {
                let pane_size = pane_size(size, slide);
                let pane = TimeWindow { start: start(time, pane_size), end: start(time, pane_size) + pane_size };
                let last = TimeWindow { start: start(pane.start, slide), end: start(pane.start, slide) + size };
                let mut actual = Vec::new();
                let mut first = start(time, slide);
                while first > time - size {
                    actual.push(TimeWindow { start: first, end: first + size });
                    first -= slide;
                }
                actual.retain(|window| !self.is_late(*window, watermark));
                (Some(pane).filter(|_| !self.is_late(last, watermark)), actual)
            }
        };
        if state.is_none() && actual.is_empty() {
            self.late += 1;
        }
        if let Some(window) = state {
            let acc = self.accumulators.entry(window).or_default();
            acc.add(row, self.setting.retracts);
            acc.listed.insert(self.number, shown(row));
            self.number += 1;
        }
        for window in actual {
            self.timers.insert((self.timer(window), window));
            if self.setting.legacy {
                // the timer for the cleanup, which windows from before 1970 have besides
                let cleanup = self.zone.to_epoch_millis_for_timer((window.end - 1).max(0));
                self.timers.insert((cleanup, window));
            }
        }
        Ok(())
    }

    fn merged(&mut self, actual: TimeWindow, watermark: i64) -> Result<(Option<TimeWindow>, Vec<TimeWindow>), ()> {
        if self.is_late(actual, watermark) {
            self.retire(actual);
            // the window is forgotten but not its timer, at which Flink fails
            let is_open = self.timers.contains(&(self.timer(actual), actual));
            return if is_open { Err(()) } else { Ok((None, Vec::new())) };
        }
        Ok((Some(self.mapping[&actual]), vec![actual]))
    }

    fn add_window(&mut self, own: TimeWindow, watermark: i64, now: i64) -> Result<TimeWindow, ()> {
        let touches = |a: TimeWindow, b: TimeWindow| a.start <= b.end && a.end >= b.start;
        let mut result = own;
        let mut set = Vec::new();
        let ceiling = self.windows.range(own..).next();
        let floor = self.windows.range(..=own).next_back();
        for other in [ceiling, floor].into_iter().flatten() {
            if touches(result, *other) {
                set.push(*other);
                result = TimeWindow { start: result.start.min(other.start), end: result.end.max(other.end) };
            }
        }
        if set.is_empty() {
            self.mapping.insert(own, own);
            self.windows.insert(own);
            return Ok(own);
        }
        set.push(own);
        let mut merged = hash_set(&set);
        merged.retain(|window| *window != own);
        let Some(first) = merged.first() else { return Ok(result) };
        let target = self.mapping[first];
        let mut sources = Vec::new();
        for window in &merged {
            if let Some(state) = self.mapping.remove(window) {
                self.windows.remove(window);
                if state != target {
                    sources.push(state);
                }
            }
        }
        self.mapping.insert(result, target);
        self.windows.insert(result);
        if merged != [result] {
            let progress = if self.setting.rowtime || !self.setting.legacy { watermark } else { now };
            if self.timer(result) <= progress {
                return Err(());
            }
            self.timers.insert((self.timer(result), result));
            for window in &merged {
                self.timers.remove(&(self.timer(*window), *window));
            }
            for source in sources {
                let other = self.accumulators.remove(&source).unwrap_or_default();
                self.accumulators.entry(target).or_default().merge(&other, self.setting.retracts);
            }
        }
        Ok(result)
    }

    fn retire(&mut self, window: TimeWindow) {
        self.mapping.remove(&window);
        assert!(self.windows.remove(&window));
    }

    /// What goes out when time has come so far, with the time at which it does.
    pub(crate) fn advance(&mut self, progress: i64) -> Vec<(i64, String)> {
        let retracts = self.setting.retracts;
        let mut out = Vec::new();
        while let Some((time, window)) = self.timers.first().copied().filter(|(time, _)| *time <= progress) {
            self.timers.remove(&(time, window));
            if time != self.timer(window) {
                continue;
            }
            let acc = match self.setting.windowing {
                Windowing::Session(_) | Windowing::Attached => {
                    let acc = self.accumulators.remove(&self.mapping[&window]);
                    self.retire(window);
                    acc.unwrap_or_default()
                }
                Windowing::Tumble(_) => self.accumulators.remove(&window).unwrap_or_default(),
                Windowing::Hop(size, slide) => {
                    let pane = pane_size(size, slide);
                    let mut acc = Acc::default();
                    for number in 0..size / pane {
                        let first = window.start + number * pane;
                        let pane = TimeWindow { start: first, end: first + pane };
                        if let Some(other) = self.accumulators.get(&pane) {
                            acc.merge(other, retracts);
                        }
                    }
                    for number in 0..size / pane {
                        let first = window.start + number * pane;
                        if start(first, slide) == window.start {
                            self.accumulators.remove(&TimeWindow { start: first, end: first + pane });
                        }
                    }
                    acc
                }
            };
            let TimeWindow { start, end } = window;
            let last = self.zone.to_epoch_millis(end - 1);
            if self.setting.output == Output::Rows {
                out.extend(acc.listed.values().map(|row| (time, format!("{row} {start} {end} {last}"))));
            } else if !retracts || acc.rows != 0 {
                out.push((time, format!("{} {start} {end} {last}", acc.show(retracts))));
            }
        }
        out
    }
}

fn pane_size(size: i64, slide: i64) -> i64 {
    (1..=size.min(slide)).rev().find(|length| size % length == 0 && slide % length == 0).unwrap_or(1)
}
