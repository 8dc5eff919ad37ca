//! Flink's join operators, record by record over linked lists.

use std::collections::BTreeMap;

use streamfusion_plan::node::JoinType;

use super::{Case, KINDS, Shape, Side, Step};

/// A row in state, without its kind.
#[derive(Debug, Clone)]
struct Record {
    row: Step,
    count: i64,
    degree: i64,
    written: i64,
}

/// (Outer)JoinRecordStateView.
#[derive(Debug)]
struct View {
    shape: Shape,
    ttl: i64,
    records: BTreeMap<String, Vec<Record>>,
}

impl View {
    /// The records of a join key that have not expired.
    fn of(&mut self, key: &str, now: i64) -> &mut Vec<Record> {
        let records = self.records.entry(key.to_owned()).or_default();
        let ttl = self.ttl;
        records.retain(|record| ttl == 0 || record.written + ttl > now);
        records
    }

    fn same(&self, a: &Step, b: &Step) -> bool {
        match self.shape {
            Shape::One => true,
            Shape::Unique => a.u == b.u,
            Shape::Several => (a.k, a.u, &a.v) == (b.k, b.u, &b.v),
        }
    }

    fn find(&mut self, key: &str, row: &Step, now: i64) -> Option<usize> {
        let records = self.of(key, now).clone();
        records.iter().position(|record| self.same(&record.row, row))
    }

    fn add(&mut self, key: &str, row: &Step, degree: i64, now: i64) {
        let (found, shape) = (self.find(key, row, now), self.shape);
        let records = self.of(key, now);
        match found.and_then(|at| records.get_mut(at)) {
            Some(record) => {
                record.row = row.clone();
                (record.degree, record.written) = (degree, now);
                record.count += i64::from(shape == Shape::Several);
            }
            None => records.push(Record { row: row.clone(), count: 1, degree, written: now }),
        }
    }

    fn retract(&mut self, key: &str, row: &Step, now: i64) {
        let Some(at) = self.find(key, row, now) else { return };
        let records = self.of(key, now);
        if records[at].count > 1 {
            records[at].count -= 1;
            records[at].written = now;
        } else {
            records.remove(at);
        }
    }
}

/// StreamingJoinOperator, StreamingSemiAntiJoinOperator, MiniBatchStreamingJoinOperator.
pub(super) struct Model<'a> {
    case: &'a Case,
    left: View,
    right: View,
    bundle: Vec<Step>,
    pub(super) out: Vec<String>,
}

impl<'a> Model<'a> {
    pub(super) fn new(case: &'a Case) -> Self {
        let view = |shape, ttl| View { shape, ttl, records: BTreeMap::new() };
        Self {
            case,
            left: view(case.left, case.left_ttl),
            right: view(case.right, case.right_ttl),
            bundle: Vec::new(),
            out: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, step: &Step) {
        match self.case.bundle() {
            None => self.process(step, false),
            Some(size) => {
                self.bundle.push(step.clone());
                if self.bundle.len() as u64 >= size {
                    self.flush();
                }
            }
        }
    }

    /// Ends the bundle.
    pub(super) fn flush(&mut self) {
        let bundle = std::mem::take(&mut self.bundle);
        let order = match self.case.join_type {
            JoinType::Right => [Side::Left, Side::Right],
            _ => [Side::Right, Side::Left],
        };
        for side in order {
            // JoinKeyContainsUniqueKeyBundle, in first-touch order
            let mut lists: Vec<(String, Vec<Step>)> = Vec::new();
            for step in bundle.iter().filter(|step| step.side == side) {
                let key = self.case.key(step);
                let at = lists.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                    lists.push((key, Vec::new()));
                    lists.len() - 1
                });
                let list = &mut lists[at].1;
                match list.last().map(|last| (last.accumulates(), step.accumulates())) {
                    Some((true, false)) => drop(list.pop()),
                    Some((true, true) | (false, false)) => {
                        list.pop();
                        list.push(step.clone());
                    }
                    _ => list.push(step.clone()),
                }
            }
            for (_, list) in lists {
                let update = list.len() == 2;
                list.iter().for_each(|step| self.process(step, update));
            }
        }
    }

    fn process(&mut self, step: &Step, suppress: bool) {
        if matches!(self.case.join_type, JoinType::Semi | JoinType::Anti) {
            return self.process_semi_anti(step);
        }
        let left_outer = matches!(self.case.join_type, JoinType::Left | JoinType::Full);
        let right_outer = matches!(self.case.join_type, JoinType::Right | JoinType::Full);
        let (input_outer, other_outer) =
            if step.side == Side::Left { (left_outer, right_outer) } else { (right_outer, left_outer) };
        let (key, now) = (self.case.key(step), step.arrives);
        let kind = KINDS[usize::from(step.kind)];
        let accumulates = step.accumulates();
        if !accumulates && !suppress {
            self.own(step).retract(&key, step, now);
        }
        let matched = self.matched(step);
        let mut associations = 0;
        for (at, copies) in matched {
            let record = self.other(step).of(&key, now)[at].clone();
            for _ in 0..copies {
                if accumulates {
                    if other_outer && record.degree == 0 && !suppress {
                        self.pad("-D", &record.row);
                    }
                    let kind = if input_outer || other_outer { "+I" } else { kind };
                    self.pair(kind, step, &record.row);
                    associations += 1;
                } else {
                    self.pair(if input_outer { "-D" } else { kind }, step, &record.row);
                    associations += 1;
                    if other_outer && record.degree == 1 && !suppress {
                        self.pad("+I", &record.row);
                    }
                }
                if other_outer {
                    let stored = &mut self.other(step).of(&key, now)[at];
                    stored.degree = record.degree + if accumulates { 1 } else { -1 };
                    stored.written = now;
                }
            }
        }
        if associations == 0 && input_outer {
            self.pad(if accumulates { "+I" } else { "-D" }, step);
        }
        if accumulates {
            self.own(step).add(&key, step, associations, now);
        }
    }

    fn process_semi_anti(&mut self, step: &Step) {
        let anti = self.case.join_type == JoinType::Anti;
        let (key, now) = (self.case.key(step), step.arrives);
        let kind = KINDS[usize::from(step.kind)];
        let matched = self.matched(step);
        if step.side == Side::Left {
            let count: i64 = matched.iter().map(|(_, copies)| copies).sum();
            if (count == 0) == anti {
                self.out.push(format!("{kind} {}", step.show()));
            }
            if step.accumulates() {
                self.left.add(&key, step, count, now);
            } else {
                self.left.retract(&key, step, now);
            }
            return;
        }
        if step.accumulates() {
            self.right.add(&key, step, -1, now);
        } else {
            self.right.retract(&key, step, now);
        }
        for (at, copies) in matched {
            let record = self.left.of(&key, now)[at].clone();
            for _ in 0..copies {
                let kind = match (step.accumulates(), record.degree, anti) {
                    (true, 0, true) => Some("-D"),
                    (false, 1, true) => Some("+I"),
                    (true, 0, false) | (false, 1, false) => Some(kind),
                    _ => None,
                };
                self.out.extend(kind.map(|kind| format!("{kind} {}", record.row.show())));
                let stored = &mut self.left.of(&key, now)[at];
                stored.degree = record.degree + if step.accumulates() { 1 } else { -1 };
                stored.written = now;
            }
        }
    }

    /// The records of the other side that match, by place, with the number of copies.
    fn matched(&mut self, step: &Step) -> Vec<(usize, i64)> {
        let case = self.case;
        let key = case.key(step);
        let records = self.other(step).of(&key, step.arrives).clone();
        let matches = |record: &Record| match step.side {
            Side::Left => case.matches(step, &record.row),
            Side::Right => case.matches(&record.row, step),
        };
        let places = records.iter().enumerate().filter(|(_, record)| matches(record));
        places.map(|(at, record)| (at, record.count)).collect()
    }

    fn own(&mut self, step: &Step) -> &mut View {
        if step.side == Side::Left { &mut self.left } else { &mut self.right }
    }

    fn other(&mut self, step: &Step) -> &mut View {
        if step.side == Side::Left { &mut self.right } else { &mut self.left }
    }

    fn pair(&mut self, kind: &str, a: &Step, b: &Step) {
        let (left, right) = if a.side == Side::Left { (a, b) } else { (b, a) };
        self.out.push(format!("{kind} {} {}", left.show(), right.show()));
    }

    fn pad(&mut self, kind: &str, row: &Step) {
        let nulls = "NULL NULL NULL";
        self.out.push(match row.side {
            Side::Left => format!("{kind} {} {nulls}", row.show()),
            Side::Right => format!("{kind} {nulls} {}", row.show()),
        });
    }
}
