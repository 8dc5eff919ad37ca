//! Flink's functions, row by row, over lists: as simple as they come.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use streamfusion_plan::node::{Rank, RankRange, RankStrategy, SortField};

use crate::row_per_key::testing::{Row, key_of};

fn compare_column(a: &Row, b: &Row, field: &SortField) -> Ordering {
    let nulls = |a: bool, b: bool| match (a, b) {
        (true, true) => Some(Ordering::Equal),
        (true, false) => Some(if field.nulls_last { Ordering::Greater } else { Ordering::Less }),
        (false, true) => Some(if field.nulls_last { Ordering::Less } else { Ordering::Greater }),
        (false, false) => None,
    };
    let (found, order) = match field.column {
        0 => (nulls(a.key.is_none(), b.key.is_none()), a.key.cmp(&b.key)),
        1 => {
            let bytes = |row: &Row| row.text.as_ref().map(|text| text.as_bytes().to_vec());
            (nulls(a.text.is_none(), b.text.is_none()), bytes(a).cmp(&bytes(b)))
        }
        2 => {
            // Java's < and >
            let order = a.double.partial_cmp(&b.double).unwrap_or(Ordering::Equal);
            (nulls(a.double.is_none(), b.double.is_none()), order)
        }
        _ => (nulls(a.time.is_none(), b.time.is_none()), a.time.cmp(&b.time)),
    };
    found.unwrap_or(if field.ascending { order } else { order.reverse() })
}

/// Rows of one sort key; what Flink counts, and its list.
#[derive(Debug, Clone)]
struct Entry {
    key: Row,
    count: i64,
    rows: Vec<Row>,
    /// When the list was written last.
    written: i64,
}

#[derive(Debug, Default)]
struct PartitionState {
    entries: Vec<Entry>,
    end: Option<i64>,
    seen: i64,
    /// When the counts were written last, and the last rank.
    counted_at: i64,
    end_at: i64,
}

/// See the [module](self).
pub(super) struct Model<'a> {
    spec: &'a Rank,
    partitions: BTreeMap<String, PartitionState>,
    out: Vec<String>,
    end: i64,
    now: i64,
    /// Sort keys, by place, whose count is without its list.
    missed: Vec<usize>,
}

impl<'a> Model<'a> {
    /// No rows so far.
    pub(super) fn new(spec: &'a Rank) -> Self {
        Model { spec, partitions: BTreeMap::new(), out: Vec::new(), end: 0, now: 0, missed: Vec::new() }
    }

    /// What the rows make a Top-N emit.
    pub(super) fn run(spec: &'a Rank, first_n: bool, rows: &[Row]) -> Vec<String> {
        let mut model = Self::new(spec);
        rows.iter().for_each(|row| model.push(row, first_n));
        model.out
    }

    /// What was emitted since the last call.
    pub(super) fn take_emitted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.out)
    }

    /// The rows of a partition that go out, in order.
    pub(super) fn ranked(&self, partition: &str) -> Vec<Row> {
        let Some(state) = self.partitions.get(partition) else { return Vec::new() };
        let end = match self.spec.range {
            RankRange::Constant { end, .. } => end,
            RankRange::Variable { .. } => state.end.unwrap_or(0),
        };
        let all = state.entries.iter().flat_map(|entry| entry.rows.clone());
        all.take(end.max(0) as usize).skip((self.start() - 1).max(0) as usize).collect()
    }

    pub(super) fn push(&mut self, row: &Row, first_n: bool) {
        let partition = key_of(row, &self.spec.partition);
        let mut state = self.partitions.remove(&partition).unwrap_or_default();
        self.now = row.arrives;
        if state.end.is_none() || self.expired(state.end_at) {
            (state.end, state.end_at) = (None, self.now);
        }
        self.end = match self.spec.range {
            RankRange::Constant { end, .. } => end,
            RankRange::Variable { .. } => *state.end.get_or_insert(row.key.unwrap_or(0)),
        };
        let is_top1 = self.spec.range == RankRange::Constant { start: 1, end: 1 };
        match &self.spec.strategy {
            _ if first_n => self.first_n(&mut state, row),
            RankStrategy::AppendFast | RankStrategy::UpdateFast { .. } if is_top1 => self.top1(&mut state, row),
            RankStrategy::AppendFast => self.append(&mut state, row),
            RankStrategy::UpdateFast { primary_keys } => self.update(&mut state, row, primary_keys),
            RankStrategy::Retract => self.changelog(&mut state, row),
        }
        self.partitions.insert(partition, state);
    }

    fn expired(&self, written: i64) -> bool {
        self.spec.ttl_ms > 0 && written + self.spec.ttl_ms <= self.now
    }

    fn order(&self, a: &Row, b: &Row) -> Ordering {
        let fields = self.spec.order_by.iter();
        fields.map(|field| compare_column(a, b, field)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    pub(super) fn start(&self) -> i64 {
        match self.spec.range {
            RankRange::Constant { start, .. } => start,
            RankRange::Variable { .. } => -1,
        }
    }

    fn numbered(&self) -> bool {
        self.spec.output_row_number || self.start() > 1
    }

    fn collect(&mut self, kind: &str, row: &Row, rank: i64) {
        if kind == "-U" && !self.spec.generate_update_before {
            return;
        }
        let rank = if self.spec.output_row_number { format!(" {rank}") } else { String::new() };
        self.out.push(row.show(kind) + &rank);
    }

    fn collect_ranked(&mut self, kind: &str, row: &Row, rank: i64) {
        if rank <= self.end && rank >= self.start() {
            self.collect(kind, row, rank);
        }
    }

    fn place(&self, entries: &mut Vec<Entry>, row: &Row) -> usize {
        match entries.binary_search_by(|entry| self.order(&entry.key, row)) {
            Ok(place) => place,
            Err(place) => {
                entries.insert(place, Entry { key: row.clone(), count: 0, rows: Vec::new(), written: self.now });
                place
            }
        }
    }

    fn put(&self, entries: &mut Vec<Entry>, row: &Row) -> usize {
        let place = self.place(entries, row);
        entries[place].count += 1;
        entries[place].rows.push(row.clone());
        place
    }

    fn in_buffer_range(&self, entries: &[Entry], row: &Row) -> bool {
        let size = match self.spec.range {
            RankRange::Constant { end, .. } => end,
            RankRange::Variable { .. } => 100,
        };
        let total: usize = entries.iter().map(|entry| entry.rows.len()).sum();
        entries.last().is_none_or(|last| self.order(row, &last.key).is_lt() || (total as i64) < size)
    }

    fn first_n(&mut self, state: &mut PartitionState, row: &Row) {
        if state.seen >= self.end {
            return;
        }
        state.seen += 1;
        if self.numbered() {
            self.collect_ranked("+I", row, state.seen);
        } else {
            self.collect("+I", row, 0);
        }
    }

    fn top1(&mut self, state: &mut PartitionState, row: &Row) {
        let Some(previous) = state.entries.first().map(|entry| entry.key.clone()) else {
            self.put(&mut state.entries, row);
            return self.collect("+I", row, 1);
        };
        if self.order(row, &previous).is_lt() {
            state.entries.clear();
            self.put(&mut state.entries, row);
            self.collect("-U", &previous, 1);
            self.collect("+U", row, 1);
        }
    }

    fn append(&mut self, state: &mut PartitionState, row: &Row) {
        if !self.in_buffer_range(&state.entries, row) {
            return;
        }
        let place = self.put(&mut state.entries, row);
        if !self.numbered() {
            let total: usize = state.entries.iter().map(|entry| entry.rows.len()).sum();
            if total as i64 > self.end {
                let is_input = place + 1 == state.entries.len();
                let last = state.entries.last_mut().unwrap();
                let removed = last.rows.pop().unwrap();
                if last.rows.is_empty() {
                    state.entries.pop();
                }
                if is_input {
                    return;
                }
                self.collect("-D", &removed, 0);
            }
            return self.collect("+I", row, 0);
        }
        let (mut rank, mut current, mut next) = (0, None, 0);
        while next < state.entries.len() && rank <= self.end {
            let entry = state.entries[next].clone();
            match &mut current {
                None => {
                    rank += entry.rows.len() as i64;
                    current = (next == place).then(|| row.clone());
                }
                Some(current) => {
                    for previous in &entry.rows {
                        if rank > self.end {
                            break;
                        }
                        self.collect_ranked("-U", previous, rank);
                        self.collect_ranked("+U", current, rank);
                        *current = previous.clone();
                        rank += 1;
                    }
                }
            }
            next += 1;
        }
        if rank <= self.end {
            self.collect_ranked("+I", &current.unwrap(), rank);
        }
        state.entries.truncate(next);
    }

    fn changelog(&mut self, state: &mut PartitionState, row: &Row) {
        let accumulates = row.kind == 0 || row.kind == 2;
        let place = self.place(&mut state.entries, row);
        let counts_expired = self.expired(state.counted_at);
        state.counted_at = self.now;
        for entry in &mut state.entries {
            if counts_expired {
                entry.count = 0;
            }
            if self.expired(entry.written) {
                entry.rows.clear();
            }
        }
        self.missed.clear();
        if accumulates {
            state.entries[place].count += 1;
            let counted: Vec<(usize, Entry)> = counted(&state.entries);
            if self.numbered() {
                self.emit_with_row_number(&counted, place, row);
            } else {
                self.emit_without_row_number(&counted, place, row);
            }
            state.entries[place].rows.push(row.clone());
            state.entries[place].written = self.now;
        } else {
            let counted = counted(&state.entries);
            let removed = if self.numbered() {
                self.retract_with_row_number(&counted, place, row)
            } else {
                self.retract_without_row_number(&counted, place, row)
            };
            let entry = &mut state.entries[place];
            entry.count = (entry.count - 1).max(0);
            let removed = removed.or_else(|| entry.rows.iter().position(|other| other.same(row)));
            if let Some(removed) = removed {
                entry.rows.remove(removed);
            }
            entry.written = self.now;
        }
        self.missed.iter().for_each(|place| state.entries[*place].count = 0);
        state.entries.retain(|entry| entry.count > 0 || !entry.rows.is_empty());
    }

    fn emit_with_row_number(&mut self, entries: &[(usize, Entry)], place: usize, row: &Row) {
        let (mut rank, mut current) = (0, None);
        for (number, entry) in entries {
            if rank > self.end {
                break;
            }
            match &mut current {
                None => {
                    rank += entry.count;
                    current = (*number == place).then(|| row.clone());
                }
                Some(_) if entry.rows.is_empty() => self.missed.push(*number),
                Some(current) => {
                    for previous in &entry.rows {
                        if rank > self.end {
                            break;
                        }
                        self.collect_ranked("-U", previous, rank);
                        self.collect_ranked("+U", current, rank);
                        *current = previous.clone();
                        rank += 1;
                    }
                }
            }
        }
        if rank <= self.end {
            self.collect_ranked("+I", &current.unwrap(), rank);
        }
    }

    fn emit_without_row_number(&mut self, entries: &[(usize, Entry)], place: usize, row: &Row) {
        let (mut rank, mut found, mut insert, mut delete) = (0, false, false, None);
        for (number, entry) in entries {
            if rank > self.end {
                break;
            }
            if !found && *number == place {
                rank += entry.count;
                insert = rank <= self.end && rank >= self.start();
                found = true;
            } else if found && entry.rows.is_empty() {
                self.missed.push(*number);
            } else if found {
                if rank + entry.count <= self.end {
                    rank += entry.count;
                } else {
                    // where the list is shorter, Flink fails
                    delete = entry.rows.get((self.end - rank) as usize).cloned();
                    break;
                }
            } else {
                rank += entry.count;
            }
        }
        if let Some(delete) = delete {
            self.collect("-D", &delete, 0);
        }
        if insert {
            self.collect("+I", row, 0);
        }
    }

    fn retract_with_row_number(&mut self, entries: &[(usize, Entry)], place: usize, row: &Row) -> Option<usize> {
        let (mut rank, mut found, mut previous): (_, _, Option<Row>) = (0, None, None);
        for (number, entry) in entries {
            if rank > self.end {
                break;
            }
            if found.is_none() && *number == place {
                if entry.rows.is_empty() {
                    self.missed.push(*number);
                }
                for (at, current) in entry.rows.iter().enumerate() {
                    if rank > self.end {
                        break;
                    }
                    if found.is_none() && current.same(row) {
                        previous = Some(current.clone());
                        found = Some(at);
                    } else if found.is_some() {
                        self.collect_ranked("-U", previous.as_ref().unwrap(), rank);
                        self.collect_ranked("+U", current, rank);
                        previous = Some(current.clone());
                    }
                    rank += 1;
                }
            } else if found.is_some() {
                if entry.rows.is_empty() {
                    self.missed.push(*number);
                }
                for current in &entry.rows {
                    if rank > self.end {
                        break;
                    }
                    self.collect_ranked("-U", previous.as_ref().unwrap(), rank);
                    self.collect_ranked("+U", current, rank);
                    previous = Some(current.clone());
                    rank += 1;
                }
            } else {
                rank += entry.count;
            }
        }
        if rank <= self.end
            && let Some(previous) = previous
        {
            self.collect_ranked("-D", &previous, rank);
        }
        found
    }

    fn retract_without_row_number(&mut self, entries: &[(usize, Entry)], place: usize, row: &Row) -> Option<usize> {
        let (mut next, mut found) = (1, None);
        for (number, entry) in entries {
            if next > self.end {
                break;
            }
            if found.is_none() && *number == place {
                if entry.rows.is_empty() {
                    self.missed.push(*number);
                }
                for (at, previous) in entry.rows.iter().enumerate() {
                    if next > self.end {
                        break;
                    }
                    if found.is_none() && previous.same(row) {
                        self.collect_ranked("-D", previous, next);
                        next -= 1;
                        found = Some(at);
                    } else if found.is_some() && next == self.end {
                        self.collect_ranked("+I", previous, next);
                    }
                    next += 1;
                }
            } else if found.is_some() {
                let last = next + entry.count - 1;
                if last < self.end {
                    next = last + 1;
                } else if entry.rows.is_empty() {
                    self.missed.push(*number);
                } else {
                    // where the list is shorter, Flink fails
                    if let Some(row) = entry.rows.get((self.end - next) as usize) {
                        self.collect("+I", row, 0);
                    }
                    break;
                }
            } else {
                next += entry.count;
            }
        }
        found
    }

    fn rank_of(entries: &[Entry], place: usize, at: usize) -> i64 {
        let before: usize = entries[..place].iter().map(|entry| entry.rows.len()).sum();
        (before + at) as i64 + 1
    }

    fn update(&mut self, state: &mut PartitionState, row: &Row, primary_keys: &[usize]) {
        let entries = &mut state.entries;
        let key = key_of(row, primary_keys);
        let found = entries.iter().enumerate().find_map(|(place, entry)| {
            Some((place, entry.rows.iter().position(|other| key_of(other, primary_keys) == key)?))
        });
        let Some((old_place, at)) = found else {
            if !self.in_buffer_range(entries, row) {
                return;
            }
            let place = self.put(entries, row);
            if self.numbered() {
                return self.update_with_row_number(entries, place, row, None);
            }
            let total: usize = entries.iter().map(|entry| entry.rows.len()).sum();
            if total as i64 > self.end {
                let last = entries.last_mut().unwrap();
                let removed = last.rows.pop().unwrap();
                if last.rows.is_empty() {
                    entries.pop();
                }
                self.collect("-D", &removed, 0);
            }
            return self.collect("+I", row, 0);
        };
        let old = entries[old_place].rows[at].clone();
        let old_rank = Self::rank_of(entries, old_place, at);
        let order = self.order(row, &old);
        if order.is_eq() {
            entries[old_place].rows[at] = row.clone();
        } else {
            entries[old_place].rows.remove(at);
            if entries[old_place].rows.is_empty() {
                entries.remove(old_place);
            }
            self.put(entries, row);
        }
        if !self.numbered() {
            self.collect("-U", &old, 0);
            return self.collect("+U", row, 0);
        }
        let place = self.place(entries, row);
        match order {
            Ordering::Equal => {
                self.collect_ranked("-U", &old, old_rank);
                self.collect_ranked("+U", row, old_rank);
            }
            Ordering::Less => self.update_with_row_number(entries, place, row, Some((&old, old_rank))),
            Ordering::Greater => {
                let new_rank = Self::rank_of(entries, place, entries[place].rows.len() - 1);
                self.collect_ranked("-U", &old, old_rank);
                let all: Vec<Row> = entries.iter().flat_map(|entry| entry.rows.clone()).collect();
                for (current, rank) in all.iter().zip(1..new_rank) {
                    if old_rank <= rank {
                        self.collect_ranked("-U", current, rank + 1);
                        self.collect_ranked("+U", current, rank);
                    }
                }
                self.collect_ranked("+U", row, new_rank);
            }
        }
    }

    fn update_with_row_number(&mut self, entries: &mut Vec<Entry>, place: usize, row: &Row, old: Option<(&Row, i64)>) {
        let (mut rank, mut current, mut is_input, mut old_retracted, mut next) = (0, None, true, false, 0);
        while next < entries.len() && rank <= self.end {
            let entry = entries[next].clone();
            next += 1;
            let Some(row_at) = &mut current else {
                rank += entry.rows.len() as i64;
                current = (next - 1 == place).then(|| row.clone());
                continue;
            };
            if old.is_some_and(|(old, _)| self.order(&entry.key, old).is_gt()) {
                break;
            }
            for previous in &entry.rows {
                if old.map_or(rank > self.end, |(_, old_rank)| rank >= old_rank) {
                    break;
                }
                self.collect_ranked("-U", previous, rank);
                if let Some((old, old_rank)) = old
                    && is_input
                    && !old_retracted
                {
                    self.collect_ranked("-U", old, old_rank);
                    old_retracted = true;
                }
                self.collect_ranked("+U", row_at, rank);
                *row_at = previous.clone();
                is_input = false;
                rank += 1;
            }
        }
        if rank <= self.end {
            let current = current.unwrap();
            match old {
                None => self.collect_ranked("+I", &current, rank),
                Some((old, old_rank)) => {
                    assert_eq!(rank, old_rank);
                    if !old_retracted {
                        self.collect_ranked("-U", old, old_rank);
                    }
                    self.collect_ranked("+U", &current, rank);
                }
            }
            return;
        }
        entries.truncate(next);
    }
}

/// The entries that are in Flink's sorted map, with their places.
fn counted(entries: &[Entry]) -> Vec<(usize, Entry)> {
    entries.iter().cloned().enumerate().filter(|(_, entry)| entry.count > 0).collect()
}
