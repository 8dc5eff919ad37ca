//! The phases as Flink has them, over maps: DistinctAggCodeGen, MinWithRetractAggFunction, MaxWithRetractAggFunction and the functions of the
//! three mini-batch operators, for COUNT, SUM, MIN and MAX of BIGINT and text.

use std::collections::BTreeMap;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Val {
    Number(i64),
    Text(String),
}

impl Val {
    fn number(&self) -> i64 {
        match self {
            Val::Number(number) => *number,
            Val::Text(_) => 0,
        }
    }

    fn show(&self) -> String {
        match self {
            Val::Number(number) => number.to_string(),
            Val::Text(text) => text.clone(),
        }
    }
}

/// MIN or MAX over rows that retract.
#[derive(Debug, Clone, Default)]
pub(super) struct Extreme {
    best: Option<Val>,
    size: i64,
    map: BTreeMap<Val, i64>,
}

impl Extreme {
    fn better(name: &str, a: &Val, b: &Option<Val>) -> bool {
        let b = b.as_ref().expect("Flink would fail");
        if name == "MIN" { a < b } else { a > b }
    }

    fn update(&mut self, name: &str) {
        let keys = self.map.keys();
        self.best = if name == "MIN" { keys.min() } else { keys.max() }.cloned();
        if self.best.is_none() {
            self.size = 0;
        }
    }

    fn accumulate(&mut self, name: &str, value: &Val) {
        if self.size == 0 || Self::better(name, value, &self.best) {
            self.best = Some(value.clone());
        }
        let count = self.map.remove(value).unwrap_or(0) + 1;
        if count != 0 {
            self.map.insert(value.clone(), count);
        }
        self.size += i64::from(count == 1);
    }

    fn retract(&mut self, name: &str, value: &Val) {
        let count = self.map.remove(value).unwrap_or(0) - 1;
        if count != 0 {
            self.map.insert(value.clone(), count);
            return;
        }
        self.size -= 1;
        if self.size == 0 {
            self.best = None;
        } else if self.best.as_ref() == Some(value) {
            self.update(name);
        }
    }

    fn merge(&mut self, name: &str, other: &Extreme) {
        let replaces = |other: &Val| Self::better(name, other, &self.best);
        if self.size == 0 || other.size > 0 && other.best.as_ref().is_some_and(replaces) {
            self.best = other.best.clone();
        }
        let mut gone = false;
        for (value, count) in &other.map {
            let before = self.map.remove(value).unwrap_or(0);
            let after = before + count;
            if after != 0 {
                self.map.insert(value.clone(), after);
            }
            if after <= 0 && before > 0 {
                self.size -= 1;
                gone |= self.best.as_ref() == Some(value);
            } else if after > 0 && before <= 0 {
                self.size += 1;
            }
        }
        if gone {
            self.update(name);
        }
    }
}

/// What Flink has of one call, but for its set.
#[derive(Debug, Clone, Default)]
pub(super) struct CallAcc {
    count: i64,
    sum: Option<i64>,
    extreme: Extreme,
}

/// The accumulators of one key.
#[derive(Debug, Clone, Default)]
pub(super) struct Acc {
    pub(super) records: i64,
    pub(super) calls: Vec<CallAcc>,
    /// By argument column; per value, a count or a flag for each call that shares the set.
    pub(super) sets: BTreeMap<usize, BTreeMap<Val, Vec<i64>>>,
}

/// A query, with the calls that share each set.
pub(super) struct Model<'a> {
    pub(super) query: &'a Query,
    sets: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Model<'a> {
    pub(super) fn new(query: &'a Query) -> Self {
        let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, call) in query.calls.iter().enumerate().filter(|(_, call)| call.distinct) {
            sets.entry(call.args[0]).or_default().push(number);
        }
        Self { query, sets }
    }

    fn name(&self, call: usize) -> &str {
        match &self.query.calls[call].function {
            Function::BuiltIn { name, .. } => name,
            Function::User(_) => "",
        }
    }

    pub(super) fn create(&self) -> Acc {
        let calls = vec![CallAcc::default(); self.query.calls.len()];
        Acc { records: 0, calls, sets: self.sets.keys().map(|column| (*column, BTreeMap::new())).collect() }
    }

    /// Accumulates or retracts one value; of COUNT(*), none.
    fn apply(&self, acc: &mut CallAcc, call: usize, value: Option<&Val>, change: i64) {
        acc.count += change;
        let Some(value) = value else { return };
        match (self.name(call), self.query.retracts) {
            ("SUM", _) => acc.sum = Some(acc.sum.unwrap_or(0).wrapping_add(value.number().wrapping_mul(change))),
            (name @ ("MIN" | "MAX"), true) if change > 0 => acc.extreme.accumulate(name, value),
            (name @ ("MIN" | "MAX"), true) => acc.extreme.retract(name, value),
            (name @ ("MIN" | "MAX"), false)
                if acc.extreme.best.is_none() || Extreme::better(name, value, &acc.extreme.best) =>
            {
                acc.extreme.best = Some(value.clone());
            }
            _ => {}
        }
    }

    /// One row of the local phase.
    pub(super) fn row(&self, acc: &mut Acc, row: &Row) {
        let change = if row.kind == 0 || row.kind == 2 { 1 } else { -1 };
        acc.records += change;
        for (number, call) in self.query.calls.iter().enumerate() {
            if call.filter.is_some() && row.filter != Some(true) {
                continue;
            }
            let value = match call.args.as_slice() {
                [] => None,
                [VALUE] => row.value.map(Val::Number),
                _ => row.text.clone().map(Val::Text),
            };
            if value.is_none() && !call.args.is_empty() {
                continue;
            }
            if !call.distinct {
                self.apply(&mut acc.calls[number], number, value.as_ref(), change);
                continue;
            }
            let (Some(sharing), Some(value)) = (self.sets.get(&call.args[0]), value) else { continue };
            let map = acc.sets.entry(call.args[0]).or_default();
            let marks = map.entry(value.clone()).or_insert_with(|| vec![0; sharing.len()]);
            let place = sharing.iter().position(|other| *other == number).unwrap();
            marks[place] = if self.query.retracts { marks[place] + change } else { 1 };
        }
        for map in acc.sets.values_mut() {
            map.retain(|_, marks| marks.iter().any(|mark| *mark != 0));
        }
    }

    /// What a merge does to an accumulator, in a bundle or in state.
    pub(super) fn merge(&self, acc: &mut Acc, other: &Acc) {
        acc.records += other.records;
        for (number, _) in self.query.calls.iter().enumerate().filter(|(_, call)| !call.distinct) {
            let (own, other) = (&mut acc.calls[number], &other.calls[number]);
            own.count += other.count;
            own.sum = match (own.sum, other.sum) {
                (Some(a), Some(b)) => Some(a.wrapping_add(b)),
                (a, b) => a.or(b),
            };
            let name = self.name(number);
            if self.query.retracts && ["MIN", "MAX"].contains(&name) {
                own.extreme.merge(name, &other.extreme);
            } else if let Some(value) = &other.extreme.best
                && (own.extreme.best.is_none() || Extreme::better(name, value, &own.extreme.best))
            {
                own.extreme.best = Some(value.clone());
            }
        }
        for (column, sharing) in &self.sets {
            for (value, marks) in &other.sets[column] {
                let map = acc.sets.entry(*column).or_default();
                let own = map.entry(value.clone()).or_insert_with(|| vec![0; sharing.len()]);
                for (place, call) in sharing.iter().enumerate() {
                    let before = own[place];
                    own[place] = if self.query.retracts { before + marks[place] } else { before.max(marks[place]) };
                    let change = i64::from(own[place] > 0) - i64::from(before > 0);
                    if change != 0 {
                        let calls = &mut acc.calls;
                        self.apply(&mut calls[*call], *call, Some(value), change);
                    }
                }
                if own.iter().all(|mark| *mark == 0) {
                    map.remove(value);
                }
            }
        }
    }

    fn show(&self, acc: &Acc) -> String {
        let word = |call: usize| {
            let acc = &acc.calls[call];
            let value = match self.name(call) {
                "COUNT" => return acc.count.to_string(),
                "SUM" => acc.sum.filter(|_| !self.query.retracts || acc.count != 0).map(|sum| sum.to_string()),
                _ if self.query.retracts && acc.extreme.size <= 0 => None,
                _ => acc.extreme.best.as_ref().map(Val::show),
            };
            value.unwrap_or_else(|| "NULL".to_owned())
        };
        (0..self.query.calls.len()).map(word).collect::<Vec<_>>().join(" ")
    }

    /// The local phase.
    pub(super) fn local<K: Ord + Clone>(&self, rows: &[Row], size: u64, key: impl Fn(&Row) -> K) -> Vec<(K, Acc)> {
        let mut out = Vec::new();
        for bundle in rows.chunks(usize::try_from(size).unwrap()) {
            let mut accs: Vec<(K, Acc)> = Vec::new();
            for row in bundle {
                self.row(find(&mut accs, &key(row), || self.create()), row);
            }
            out.extend(accs);
        }
        out
    }

    /// The global phase, keys in first-touch order.
    pub(super) fn global<K: Ord + Clone>(
        &self,
        input: &[(K, Acc)],
        size: u64,
        state: &mut BTreeMap<K, Acc>,
        show_key: impl Fn(&K) -> String,
        out: &mut Vec<String>,
    ) {
        for bundle in input.chunks(usize::try_from(size).unwrap()) {
            let mut accs: Vec<(K, Acc)> = Vec::new();
            for (key, acc) in bundle {
                self.merge(find(&mut accs, key, || self.create()), acc);
            }
            for (key, acc) in accs {
                let before = state.get(&key).cloned();
                let mut after = before.clone().unwrap_or_else(|| self.create());
                self.merge(&mut after, &acc);
                let line = |kind: &str, acc: &Acc| format!("{kind} {} {}", show_key(&key), self.show(acc));
                let gone = self.query.retracts && after.records == 0;
                match &before {
                    _ if gone => out.extend(before.iter().map(|before| line("-D", before))),
                    None => out.push(line("+I", &after)),
                    Some(before) if self.show(before) != self.show(&after) => {
                        if self.query.update_before {
                            out.push(line("-U", before));
                        }
                        out.push(line("+U", &after));
                    }
                    Some(_) => {}
                }
                if gone {
                    state.remove(&key);
                } else {
                    state.insert(key, after);
                }
            }
        }
    }

    /// The incremental phase: per bundle and final key what it hands on.
    pub(super) fn incremental<K: Ord + Clone, F: Ord + Clone>(
        &self,
        input: &[(K, Acc)],
        size: u64,
        state: &mut BTreeMap<K, Acc>,
        final_key: impl Fn(&K) -> F,
    ) -> Vec<(F, Acc)> {
        let mut out = Vec::new();
        for bundle in input.chunks(usize::try_from(size).unwrap()) {
            let mut accs: Vec<(K, Acc)> = Vec::new();
            for (key, acc) in bundle {
                self.merge(find(&mut accs, key, || self.create()), acc);
            }
            let mut finals: Vec<(F, Acc)> = Vec::new();
            for (key, acc) in accs {
                let into = find(&mut finals, &final_key(&key), || self.create());
                let stored = state.entry(key).or_insert_with(|| self.create());
                std::mem::swap(&mut into.sets, &mut stored.sets);
                self.merge(into, &acc);
                std::mem::swap(&mut into.sets, &mut stored.sets);
            }
            out.extend(finals);
        }
        out
    }
}

fn find<'a, K: Ord + Clone>(accs: &'a mut Vec<(K, Acc)>, key: &K, create: impl Fn() -> Acc) -> &'a mut Acc {
    let place = accs.iter().position(|(other, _)| other == key).unwrap_or_else(|| {
        accs.push((key.clone(), create()));
        accs.len() - 1
    });
    &mut accs[place].1
}
