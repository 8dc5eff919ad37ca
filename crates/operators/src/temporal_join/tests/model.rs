//! Flink's temporal join, row by row.

use std::collections::{BTreeMap, BTreeSet};

use streamfusion_plan::node::JoinType;

use super::Case;
use crate::join::Input;
use crate::timed_testing::{Event, Row, Trace};

type Key = Vec<Option<String>>;

#[derive(Debug, Default)]
struct State {
    left: Vec<Row>,
    right: BTreeMap<i64, Row>,
    registered: Option<i64>,
    clean_up: Option<i64>,
    /// What the timer service has.
    timers: BTreeSet<i64>,
}

#[derive(Debug)]
pub(super) struct Model<'a> {
    case: &'a Case,
    now: i64,
    keys: BTreeMap<Key, State>,
    pub(super) out: Trace,
}

fn time(row: &Row) -> i64 {
    row.t.unwrap_or(0)
}

impl<'a> Model<'a> {
    pub(super) fn new(case: &'a Case) -> Self {
        Self { case, now: 0, keys: BTreeMap::new(), out: Trace::default() }
    }

    pub(super) fn push(&mut self, event: &Event) {
        match event {
            Event::Row(side, row) => self.row(*side, row),
            Event::Watermark(watermark) => {
                self.out.begin_event();
                self.fire(*watermark);
                self.out.watermarks.push(*watermark);
            }
            Event::Clock(now) => {
                self.out.begin_event();
                self.now = *now;
                for state in self.keys.values_mut().filter(|state| state.clean_up.is_some_and(|due| due <= *now)) {
                    // the timer service keeps its timer
                    *state = State { timers: std::mem::take(&mut state.timers), ..State::default() };
                }
            }
        }
    }

    fn row(&mut self, side: Input, row: &Row) {
        let column = |key: &usize| if *key == 0 { row.k.map(|k| k.to_string()) } else { row.v.clone() };
        let key: Key = self.case.keys.iter().map(column).collect();
        let state = self.keys.entry(key).or_default();
        match side {
            Input::Left => state.left.push(row.clone()),
            Input::Right => drop(state.right.insert(time(row), row.clone())),
        }
        if state.registered.is_none_or(|registered| registered > time(row)) {
            if let Some(registered) = state.registered {
                state.timers.remove(&registered);
            }
            state.registered = Some(time(row));
            state.timers.insert(time(row));
        }
        used(self.case, state, self.now);
    }

    fn fire(&mut self, until: i64) {
        loop {
            let due = self.keys.values().filter_map(|state| state.timers.first().copied()).min();
            let Some(due) = due.filter(|due| *due <= until) else { return };
            for state in self.keys.values_mut().filter(|state| state.timers.first() == Some(&due)) {
                state.timers.remove(&due);
                state.registered = None;
                let (passed, waiting): (Vec<Row>, Vec<Row>) =
                    std::mem::take(&mut state.left).into_iter().partition(|row| time(row) <= until);
                state.left = waiting;
                for row in passed {
                    let version = state.right.range(..=time(&row)).next_back().map(|(_, version)| version);
                    let version = version.filter(|version| version.kind == 0 || version.kind == 2);
                    let version = version.filter(|version| !self.case.condition || row.u < version.u);
                    if version.is_some() || self.case.join_type == JoinType::Left {
                        self.out.rows(true).push(Row::pair(row.kind, Some(&row), version));
                    }
                }
                if let Some((latest, _)) = state.right.range(..=until).next_back() {
                    state.right = state.right.split_off(&latest.clone());
                }
                if let Some(first) = state.left.iter().map(time).min() {
                    state.registered = Some(first);
                    state.timers.insert(first);
                }
                if !state.left.is_empty() || !state.right.is_empty() {
                    used(self.case, state, self.now);
                } else {
                    state.clean_up = None;
                }
            }
        }
    }
}

fn used(case: &Case, state: &mut State, now: i64) {
    if case.retention > 1 && state.clean_up.is_none_or(|due| now + case.retention > due) {
        state.clean_up = Some(now + case.retention * 3 / 2);
    }
}
