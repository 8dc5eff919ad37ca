//! Flink's interval join, row by row. What one row matches comes in order of time.

use std::collections::BTreeMap;

use streamfusion_plan::node::JoinType;
use streamfusion_plan::types::TimeDomain;

use super::Case;
use crate::join::Input;
use crate::timed_testing::{Event, Row, Trace, owners};

/// Values of the key columns.
type Key = Vec<Option<String>>;

/// The rows of an input of one key by time, each with whether a pair with it went out.
#[derive(Debug, Default)]
struct Cache {
    rows: BTreeMap<i64, Vec<(Row, bool)>>,
    timer: Option<i64>,
}

/// What the function object of a subtask has.
#[derive(Debug, Default, Clone)]
struct Subtask {
    expiration: [i64; 2],
}

#[derive(Debug)]
pub(super) struct Model<'a> {
    case: &'a Case,
    now: i64,
    subtasks: Vec<Subtask>,
    /// With a row of the key.
    keys: BTreeMap<Key, (Row, [Cache; 2])>,
    pub(super) out: Trace,
}

impl<'a> Model<'a> {
    pub(super) fn new(case: &'a Case) -> Self {
        let subtasks = vec![Subtask::default()];
        Self { case, now: 0, subtasks, keys: BTreeMap::new(), out: Trace::default() }
    }

    /// Another job goes on with the state of this one.
    pub(super) fn restore(&mut self, parallelism: u32) {
        self.subtasks = vec![Subtask::default(); parallelism as usize];
        self.now = 0;
    }

    /// The subtask that has the key of a row.
    fn owner(&self, row: &Row) -> usize {
        owners(std::slice::from_ref(row), &self.case.keys, self.subtasks.len() as u32)[0] as usize
    }

    pub(super) fn push(&mut self, event: &Event) {
        match event {
            Event::Row(side, row) => self.row(*side, row),
            Event::Watermark(watermark) => {
                if self.case.time == TimeDomain::Rowtime {
                    self.now = (*watermark).max(0);
                    self.fire(*watermark);
                    let delay = (-self.case.lower).max(self.case.upper);
                    self.out.watermarks.push(watermark.wrapping_sub(delay));
                } else {
                    self.out.watermarks.push(*watermark);
                }
            }
            Event::Clock(now) => {
                self.now = *now;
                self.fire(*now);
            }
        }
    }

    /// How much later than a row of this input a row of the other one may be.
    fn relative(&self, side: usize) -> i64 {
        if side == 0 { -self.case.lower } else { self.case.upper }
    }

    fn is_outer(&self, side: usize) -> bool {
        let outer = [JoinType::Left, JoinType::Right][side];
        self.case.join_type == outer || self.case.join_type == JoinType::Full
    }

    fn expires(&self, side: usize) -> i64 {
        if self.now == i64::MAX { i64::MAX } else { self.now - self.relative(side) - 1 }
    }

    fn row(&mut self, side: Input, row: &Row) {
        let (own, other) = if side == Input::Left { (0, 1) } else { (1, 0) };
        let key: Key = self
            .case
            .keys
            .iter()
            .map(|key| match key {
                0 => row.k.map(|k| k.to_string()),
                _ => row.v.clone(),
            })
            .collect();
        let matches_nothing = self.case.filter_nulls && key.contains(&None);
        let time = match self.case.time {
            TimeDomain::Rowtime => row.t.unwrap_or(0),
            TimeDomain::Proctime => self.now,
        };
        let (lower, upper) = (time - self.relative(other), time + self.relative(own));
        let (outer, other_is_outer, expires) = (self.is_outer(own), self.is_outer(other), self.expires(other));
        let owner = self.owner(row);
        let out = self.out.rows(false);
        let show = |own_row: Option<&Row>, other_row: Option<&Row>| {
            if own == 0 { Row::pair(0, own_row, other_row) } else { Row::pair(0, other_row, own_row) }
        };
        let passes = |other_row: &Row| {
            let (left, right) = if own == 0 { (row, other_row) } else { (other_row, row) };
            !matches_nothing && (!self.case.condition || left.u < right.u)
        };
        let (_, caches) = self.keys.entry(key).or_insert_with(|| (row.clone(), Default::default()));
        let expiration = &mut self.subtasks[owner].expiration[other];
        let mut emitted = false;
        if *expiration < upper {
            *expiration = expires;
            caches[other].rows.retain(|rows_time, rows| {
                if (lower..=upper).contains(rows_time) {
                    for (other_row, was_emitted) in rows.iter_mut() {
                        if passes(other_row) {
                            out.push(show(Some(row), Some(other_row)));
                            emitted = true;
                            *was_emitted = true;
                        }
                    }
                }
                if *rows_time > expires {
                    return true;
                }
                if other_is_outer {
                    for (other_row, _) in rows.iter().filter(|(_, emitted)| !emitted) {
                        out.push(show(None, Some(other_row)));
                    }
                }
                false
            });
        }
        if self.now < upper {
            caches[own].rows.entry(time).or_default().push((row.clone(), emitted));
            if caches[own].timer.is_none() {
                caches[own].timer = Some(upper + self.case.min_clean_up_interval + 1);
            }
        } else if !emitted && outer {
            out.push(show(Some(row), None));
        }
    }

    fn fire(&mut self, until: i64) {
        self.out.begin_event();
        loop {
            let due = self.keys.values().flat_map(|(_, caches)| caches).filter_map(|cache| cache.timer).min();
            let Some(due) = due.filter(|due| *due <= until) else { return };
            let keys: Vec<Key> = self.keys.keys().cloned().collect();
            for key in keys {
                // the right input's first
                for side in [1, 0] {
                    if self.keys[&key].1[side].timer == Some(due) {
                        self.clean_up(&key, side);
                    }
                }
            }
        }
    }

    fn clean_up(&mut self, key: &Key, side: usize) {
        let (expires, outer, relative) = (self.expires(side), self.is_outer(side), self.relative(side));
        let Some((row, _)) = self.keys.get(key) else { return };
        let owner = self.owner(row);
        self.subtasks[owner].expiration[side] = expires;
        let out = self.out.rows(true);
        let Some((_, caches)) = self.keys.get_mut(key) else { return };
        let cache = &mut caches[side];
        cache.rows.retain(|time, rows| {
            if *time > expires {
                return true;
            }
            for (row, _) in rows.iter().filter(|(_, emitted)| outer && !emitted) {
                out.push(if side == 0 { Row::pair(0, Some(row), None) } else { Row::pair(0, None, Some(row)) });
            }
            false
        });
        match cache.rows.keys().next() {
            Some(first) if *first > 0 => {
                cache.timer = Some(first + relative + self.case.min_clean_up_interval + 1);
            }
            _ => *cache = Cache::default(),
        }
    }
}
