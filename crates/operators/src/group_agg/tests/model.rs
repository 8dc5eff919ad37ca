//! Flink's GroupAggFunction, one row at a time, and MiniBatchGroupAggFunction, one key at a time, too simple to be wrong.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::*;

/// The changelog of `rows`, all of which come at one moment.
pub(super) fn changelog(spec: &GroupAggregate, rows: &[Row]) -> Vec<String> {
    changelog_over_time(spec, rows, &vec![0; rows.len()])
}

/// The changelog of `rows`, each of which comes at its time.
pub(super) fn changelog_over_time(spec: &GroupAggregate, rows: &[Row], times: &[i64]) -> Vec<String> {
    let mut groups: HashMap<String, (i64, Group)> = HashMap::new();
    let mut out = Vec::new();
    for (row, now) in rows.iter().zip(times) {
        let time = Time { now: *now, ttl: spec.ttl_ms };
        let key: Vec<Datum> = spec.grouping.iter().map(|column| row.values[*column].clone()).collect();
        let id = describe(0, &key);
        let accumulate = row.kind == 0 || row.kind == 2;
        // the accumulators expire; the entries of maps are as old or older
        groups.retain(|_, (written, _)| !time.expired(*written));
        let first = !groups.contains_key(&id);
        if first && !accumulate {
            continue;
        }
        let (written, group) = groups.entry(id.clone()).or_insert_with(|| (0, Group::new(spec)));
        *written = time.now;
        let before = group.value();
        group.process(row, accumulate, time);
        let after = group.value();
        let mut emit = |kind: u8, value: &[Datum]| out.push(describe(kind, &[&key[..], value].concat()));
        if group.records == 0 {
            if !first {
                emit(3, &before);
            }
            groups.remove(&id);
        } else if first {
            emit(0, &after);
        } else if spec.ttl_ms > 0 || !before.iter().zip(&after).all(|(before, after)| same(before, after)) {
            if spec.generate_update_before {
                emit(1, &before);
            }
            emit(2, &after);
        }
    }
    out
}

/// The changelog of bundles, each of which ends at its time.
pub(super) fn changelog_of_bundles(spec: &GroupAggregate, bundles: &[(Vec<Row>, i64)]) -> Vec<String> {
    let mut groups: HashMap<String, (i64, Group)> = HashMap::new();
    let mut out = Vec::new();
    for (rows, now) in bundles {
        let time = Time { now: *now, ttl: spec.ttl_ms };
        groups.retain(|_, (written, _)| !time.expired(*written));
        let mut buffer: Vec<(String, Vec<Datum>, Vec<Row>)> = Vec::new();
        for row in rows {
            let key: Vec<Datum> = spec.grouping.iter().map(|column| row.values[*column].clone()).collect();
            let id = describe(0, &key);
            match buffer.iter_mut().find(|(other, _, _)| *other == id) {
                Some((_, _, rows)) => rows.push(row.clone()),
                None => buffer.push((id, key, vec![row.clone()])),
            }
        }
        for (id, key, rows) in buffer {
            let accumulates = |row: &Row| row.kind == 0 || row.kind == 2;
            let first = !groups.contains_key(&id);
            let rows: Vec<Row> = rows.into_iter().skip_while(|row| first && !accumulates(row)).collect();
            if rows.is_empty() {
                continue;
            }
            let (written, group) = groups.entry(id.clone()).or_insert_with(|| (0, Group::new(spec)));
            *written = time.now;
            let before = group.value();
            rows.iter().for_each(|row| group.process(row, accumulates(row), time));
            let after = group.value();
            let mut emit = |kind: u8, value: &[Datum]| out.push(describe(kind, &[&key[..], value].concat()));
            if group.records == 0 {
                if !first {
                    emit(3, &before);
                }
                groups.remove(&id);
            } else if first {
                emit(0, &after);
            } else if spec.ttl_ms > 0 || !before.iter().zip(&after).all(|(before, after)| same(before, after)) {
                if spec.generate_update_before {
                    emit(1, &before);
                }
                emit(2, &after);
            }
        }
    }
    out
}

#[derive(Clone, Copy)]
struct Time {
    now: i64,
    ttl: i64,
}

impl Time {
    fn expired(self, written: i64) -> bool {
        self.ttl > 0 && written.saturating_add(self.ttl) <= self.now
    }
}

/// Flink's MapState: values by key, by Java's `equals`, each with the time of its last write.
struct MapState<V>(Vec<(Datum, V, i64)>);

impl<V: Clone> MapState<V> {
    fn get(&mut self, key: &Datum, time: Time) -> Option<V> {
        self.0.retain(|(_, _, written)| !time.expired(*written));
        self.0.iter().find(|(other, _, _)| compare(other, key).is_eq()).map(|(_, value, _)| value.clone())
    }

    fn remove(&mut self, key: &Datum) {
        self.0.retain(|(other, _, _)| !compare(other, key).is_eq());
    }

    fn put(&mut self, key: &Datum, value: V, time: Time) {
        match self.0.iter_mut().find(|(other, _, _)| compare(other, key).is_eq()) {
            Some(entry) => (entry.1, entry.2) = (value, time.now),
            None => self.0.push((key.clone(), value, time.now)),
        }
    }

    fn keys(&mut self, time: Time) -> Vec<Datum> {
        self.0.retain(|(_, _, written)| !time.expired(*written));
        self.0.iter().map(|(key, _, _)| key.clone()).collect()
    }
}

/// The generated equaliser: NaN differs from NaN, which is what `PartialEq` of f64 says.
fn same(before: &Datum, after: &Datum) -> bool {
    before == after
}

struct Group {
    records: i64,
    consume_retraction: bool,
    calls: Vec<Accumulator>,
    /// Per argument of DISTINCT calls: the calls, and per value what each has seen.
    distincts: Vec<(usize, Vec<usize>, MapState<Vec<i64>>)>,
}

struct Accumulator {
    name: String,
    call: AggCall,
    count: i64,
    sum: Datum,
    current: Datum,
    map_size: i64,
    map: MapState<i64>,
    /// Values in arrival order.
    values: Vec<Datum>,
}

impl Group {
    fn new(spec: &GroupAggregate) -> Self {
        let mut distincts: Vec<(usize, Vec<usize>, MapState<Vec<i64>>)> = Vec::new();
        for (number, call) in spec.calls.iter().enumerate().filter(|(_, call)| call.distinct) {
            match distincts.iter_mut().find(|(argument, _, _)| *argument == call.args[0]) {
                Some((_, calls, _)) => calls.push(number),
                None => distincts.push((call.args[0], vec![number], MapState(Vec::new()))),
            }
        }
        let calls = spec
            .calls
            .iter()
            .map(|call| {
                let name = call.name.clone();
                let zero = name == "$SUM0" || name == "AVG";
                let sum = match (call.args.first(), name.as_str()) {
                    (Some(&INT), "$SUM0") if zero => Datum::Int(0),
                    (Some(&DOUBLE), _) if zero => Datum::Double(0.0),
                    (Some(&DECIMAL), _) if zero => Datum::Decimal(0),
                    _ if zero => Datum::Long(0),
                    _ => Datum::Null,
                };
                Accumulator {
                    name,
                    call: call.clone(),
                    count: 0,
                    sum,
                    current: Datum::Null,
                    map_size: 0,
                    map: MapState(Vec::new()),
                    values: Vec::new(),
                }
            })
            .collect();
        Self { records: 0, consume_retraction: spec.need_retraction, calls, distincts }
    }

    fn process(&mut self, row: &Row, accumulate: bool, time: Time) {
        self.records += if accumulate { 1 } else { -1 };
        let mut reached: Vec<bool> = self.calls.iter().map(|accumulator| accumulator.passes(row)).collect();
        for (argument, calls, map) in &mut self.distincts {
            let passed: Vec<bool> = calls.iter().map(|call| reached[*call]).collect();
            calls.iter().for_each(|call| reached[*call] = false);
            let key = &row.values[*argument];
            if *key == Datum::Null || !passed.contains(&true) {
                continue; // no aggregate takes a NULL
            }
            let mut counts = map.get(key, time).unwrap_or_else(|| vec![0; calls.len()]);
            let before = counts.clone();
            for ((call, count), _) in calls.iter().zip(&mut counts).zip(&passed).filter(|(_, passed)| **passed) {
                reached[*call] = if !self.consume_retraction {
                    std::mem::replace(count, 1) == 0
                } else {
                    *count += if accumulate { 1 } else { -1 };
                    *count == i64::from(accumulate)
                };
            }
            if counts.iter().all(|count| *count == 0) {
                map.remove(key);
            } else if self.consume_retraction || counts != before {
                map.put(key, counts, time);
            }
        }
        for (accumulator, reached) in self.calls.iter_mut().zip(reached) {
            if reached {
                accumulator.process(row, accumulate, time);
            }
        }
    }

    fn value(&self) -> Vec<Datum> {
        self.calls.iter().map(Accumulator::value).collect()
    }
}

impl Accumulator {
    fn passes(&self, row: &Row) -> bool {
        self.call.filter.is_none_or(|filter| row.values[filter] == Datum::Bool(true))
    }

    fn process(&mut self, row: &Row, accumulate: bool, time: Time) {
        let Some(argument) = self.call.args.first() else {
            self.count += if accumulate { 1 } else { -1 };
            return;
        };
        let value = row.values[*argument].clone();
        if value == Datum::Null {
            return;
        }
        match (self.name.as_str(), accumulate) {
            ("COUNT", true) => self.count += 1,
            ("COUNT", false) => self.count -= 1,
            ("SUM" | "$SUM0" | "AVG", _) => self.add(&value, accumulate),
            ("MIN" | "MAX", true) if !self.call.need_retraction => {
                let wanted = if self.name == "MIN" { Ordering::Less } else { Ordering::Greater };
                // the generated comparison: false for NaN, and -0.0 equals 0.0
                if self.current == Datum::Null || generated_order(&value, &self.current) == Some(wanted) {
                    self.current = value;
                }
            }
            ("MIN" | "MAX", false) if !self.call.need_retraction => {}
            ("MIN" | "MAX", _) => self.extremum_with_retract(value, accumulate, time),
            ("FIRST_VALUE", true) => {
                self.values.push(value.clone());
                if self.current == Datum::Null {
                    self.current = value;
                }
            }
            ("LAST_VALUE", true) => {
                self.values.push(value.clone());
                self.current = value;
            }
            (_, _) => self.take_back(&value),
        }
    }

    fn add(&mut self, value: &Datum, accumulate: bool) {
        self.count += if accumulate { 1 } else { -1 };
        let sign = if accumulate { 1 } else { -1 };
        let absent = self.sum == Datum::Null;
        self.sum = match (&self.sum, value) {
            (Datum::Null, value) if accumulate => value.clone(),
            (Datum::Null | Datum::Int(_), Datum::Int(v)) => {
                let sum = if let Datum::Int(sum) = self.sum { sum } else { 0 };
                Datum::Int(sum.wrapping_add(v.wrapping_mul(sign)))
            }
            (Datum::Long(sum), Datum::Int(v)) => Datum::Long(sum + i64::from(*v) * i64::from(sign)),
            (Datum::Double(sum), Datum::Double(v)) => Datum::Double(if accumulate { sum + v } else { sum - v }),
            (Datum::Null, Datum::Double(v)) if absent => Datum::Double(0.0 - v),
            (Datum::Decimal(sum), Datum::Decimal(v)) => Datum::Decimal(sum + v * i128::from(sign)),
            (Datum::Null, Datum::Decimal(v)) if absent => Datum::Decimal(-v),
            (sum, value) => panic!("{sum:?} and {value:?}"),
        };
    }

    fn extremum_with_retract(&mut self, value: Datum, accumulate: bool, time: Time) {
        let wanted = if self.name == "MIN" { Ordering::Less } else { Ordering::Greater };
        if accumulate && (self.map_size == 0 || compare(&value, &self.current) == wanted) {
            self.current = value.clone();
        }
        let count = self.map.get(&value, time).unwrap_or(0) + if accumulate { 1 } else { -1 };
        if count == 0 {
            self.map.remove(&value);
        } else {
            self.map.put(&value, count, time);
        }
        if accumulate {
            self.map_size += i64::from(count == 1);
        } else if count == 0 {
            self.map_size -= 1;
            if self.map_size == 0 {
                self.current = Datum::Null;
            } else if compare(&value, &self.current).is_eq() {
                let mut best: Option<Datum> = None;
                for key in self.map.keys(time) {
                    if best.as_ref().is_none_or(|best| compare(&key, best) == wanted) {
                        best = Some(key);
                    }
                }
                if best.is_none() {
                    self.map_size = 0;
                }
                self.current = best.unwrap_or(Datum::Null);
            }
        }
    }

    fn take_back(&mut self, value: &Datum) {
        let Some(position) = self.values.iter().position(|other| compare(other, value).is_eq()) else { return };
        self.values.remove(position);
        if compare(value, &self.current).is_eq() {
            let next = if self.name == "FIRST_VALUE" { self.values.first() } else { self.values.last() };
            self.current = next.cloned().unwrap_or(Datum::Null);
        }
    }

    fn value(&self) -> Datum {
        match self.name.as_str() {
            "COUNT" => Datum::Long(self.count),
            "SUM" if self.call.need_retraction && self.count == 0 => Datum::Null,
            "SUM" | "$SUM0" => self.sum.clone(),
            "AVG" if self.count == 0 => Datum::Null,
            "AVG" => match (&self.sum, self.call.args[0]) {
                (Datum::Long(sum), _) => Datum::Int((sum / self.count) as i32),
                (Datum::Double(sum), _) => Datum::Double(sum / self.count as f64),
                (Datum::Decimal(sum), _) => {
                    let (n, d) = (sum.abs() * 10_000, i128::from(self.count.abs()));
                    let magnitude = (2 * n + d) / (2 * d);
                    Datum::Decimal(if (*sum < 0) == (self.count < 0) { magnitude } else { -magnitude })
                }
                (sum, _) => panic!("{sum:?}"),
            },
            "MIN" | "MAX" if self.call.need_retraction && self.map_size <= 0 => Datum::Null,
            _ => self.current.clone(),
        }
    }
}

fn generated_order(a: &Datum, b: &Datum) -> Option<Ordering> {
    match (a, b) {
        (Datum::Double(a), Datum::Double(b)) => a.partial_cmp(b),
        _ => Some(compare(a, b)),
    }
}

/// `Comparable.compareTo`.
fn compare(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Int(a), Datum::Int(b)) => a.cmp(b),
        (Datum::Long(a), Datum::Long(b)) => a.cmp(b),
        (Datum::Decimal(a), Datum::Decimal(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Double(a), Datum::Double(b)) if a.is_nan() || b.is_nan() => a.is_nan().cmp(&b.is_nan()),
        (Datum::Double(a), Datum::Double(b)) => a.total_cmp(b),
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) | (_, Datum::Null) => Ordering::Less,
        _ => panic!("{a:?} and {b:?} are not of one type"),
    }
}
