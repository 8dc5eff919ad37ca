//! Flink's GroupAggFunction, one row at a time, too simple to be wrong.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::*;

/// The changelog of `rows`.
pub(super) fn changelog(spec: &GroupAggregate, rows: &[Row]) -> Vec<String> {
    let mut groups: HashMap<String, Group> = HashMap::new();
    let mut out = Vec::new();
    for row in rows {
        let key: Vec<Datum> = spec.grouping.iter().map(|column| row.values[*column].clone()).collect();
        let id = describe(0, &key);
        let accumulate = row.kind == 0 || row.kind == 2;
        let first = !groups.contains_key(&id);
        if first && !accumulate {
            continue;
        }
        let group = groups.entry(id.clone()).or_insert_with(|| Group::new(spec));
        let before = group.value();
        group.process(row, accumulate);
        let after = group.value();
        let mut emit = |kind: u8, value: &[Datum]| out.push(describe(kind, &[&key[..], value].concat()));
        if group.records == 0 {
            if !first {
                emit(3, &before);
            }
            groups.remove(&id);
        } else if first {
            emit(0, &after);
        } else if !before.iter().zip(&after).all(|(before, after)| same(before, after)) {
            if spec.generate_update_before {
                emit(1, &before);
            }
            emit(2, &after);
        }
    }
    out
}

/// The generated equaliser: NaN differs from NaN, which is what `PartialEq` of f64 says.
fn same(before: &Datum, after: &Datum) -> bool {
    before == after
}

struct Group {
    records: i64,
    calls: Vec<Accumulator>,
}

struct Accumulator {
    name: String,
    call: AggCall,
    consume_retraction: bool,
    /// Distinct values with their counts.
    distinct: Vec<(Datum, i64)>,
    count: i64,
    sum: Datum,
    current: Datum,
    map_size: i64,
    /// Values with counts, or in arrival order.
    values: Vec<(Datum, i64)>,
}

impl Group {
    fn new(spec: &GroupAggregate) -> Self {
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
                    consume_retraction: spec.need_retraction,
                    distinct: Vec::new(),
                    count: 0,
                    sum,
                    current: Datum::Null,
                    map_size: 0,
                    values: Vec::new(),
                }
            })
            .collect();
        Self { records: 0, calls }
    }

    fn process(&mut self, row: &Row, accumulate: bool) {
        self.records += if accumulate { 1 } else { -1 };
        for accumulator in &mut self.calls {
            accumulator.process(row, accumulate);
        }
    }

    fn value(&self) -> Vec<Datum> {
        self.calls.iter().map(Accumulator::value).collect()
    }
}

impl Accumulator {
    fn process(&mut self, row: &Row, accumulate: bool) {
        if self.call.filter.is_some_and(|filter| row.values[filter] != Datum::Bool(true)) {
            return;
        }
        let Some(argument) = self.call.args.first() else {
            self.count += if accumulate { 1 } else { -1 };
            return;
        };
        let value = row.values[*argument].clone();
        if value == Datum::Null || self.call.distinct && !self.is_news(&value, accumulate) {
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
            ("MIN" | "MAX", _) => self.extremum_with_retract(value, accumulate),
            ("FIRST_VALUE", true) => {
                self.values.push((value.clone(), 0));
                if self.current == Datum::Null {
                    self.current = value;
                }
            }
            ("LAST_VALUE", true) => {
                self.values.push((value.clone(), 0));
                self.current = value;
            }
            (_, _) => self.take_back(&value),
        }
    }

    /// DISTINCT: whether the row reaches the function.
    fn is_news(&mut self, value: &Datum, accumulate: bool) -> bool {
        let count = entry(&mut self.distinct, value);
        if !self.consume_retraction {
            let news = *count == 0;
            *count = 1;
            return news;
        }
        *count += if accumulate { 1 } else { -1 };
        *count == i64::from(accumulate)
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

    fn extremum_with_retract(&mut self, value: Datum, accumulate: bool) {
        let wanted = if self.name == "MIN" { Ordering::Less } else { Ordering::Greater };
        if accumulate && (self.map_size == 0 || compare(&value, &self.current) == wanted) {
            self.current = value.clone();
        }
        let count = entry(&mut self.values, &value);
        *count += if accumulate { 1 } else { -1 };
        let count = *count;
        self.values.retain(|(_, count)| *count != 0);
        if accumulate {
            self.map_size += i64::from(count == 1);
        } else if count == 0 {
            self.map_size -= 1;
            if self.map_size == 0 {
                self.current = Datum::Null;
            } else if compare(&value, &self.current).is_eq() {
                self.current = self.values[0].0.clone();
                for (other, _) in &self.values {
                    if compare(other, &self.current) == wanted {
                        self.current = other.clone();
                    }
                }
            }
        }
    }

    fn take_back(&mut self, value: &Datum) {
        let Some(position) = self.values.iter().position(|(other, _)| compare(other, value).is_eq()) else { return };
        self.values.remove(position);
        if compare(value, &self.current).is_eq() {
            let next = if self.name == "FIRST_VALUE" { self.values.first() } else { self.values.last() };
            self.current = next.map_or(Datum::Null, |(value, _)| value.clone());
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

/// The count of a value, by Java's `equals`.
fn entry<'a>(values: &'a mut Vec<(Datum, i64)>, value: &Datum) -> &'a mut i64 {
    let position = values.iter().position(|(other, _)| compare(other, value).is_eq()).unwrap_or_else(|| {
        values.push((value.clone(), 0));
        values.len() - 1
    });
    &mut values[position].1
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
