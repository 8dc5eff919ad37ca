//! Walks over a few small numbers, against Flink's rules as they are written there and against the query over what is left.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use streamfusion_row::RowKind;

use super::{ARRIVED, Inputs, Level, NO_ROW, Walk};
use crate::OperatorError;

/// A row is its only column.
type Value = i32;
/// A row that goes out: one column per input.
type Joined = Vec<Option<Value>>;

/// A level: how it joins, and the input before it that its condition reads.
#[derive(Debug, Clone, Copy)]
struct Join {
    level: Level,
    reads: usize,
}

#[derive(Debug, Clone)]
struct Query(Vec<Join>);

impl Query {
    /// Whether a row of an input matches those before it. NULL matches nothing.
    fn matches(&self, level: usize, path: &[Option<Value>], row: Value) -> bool {
        if level == 0 {
            return true;
        }
        path[self.0[level].reads % level].is_some_and(|other| (other + row) % 3 != (level % 3) as Value)
    }

    fn is_left(&self, level: usize) -> bool {
        level > 0 && self.0[level].level == Level::Left
    }

    /// What the query says of these rows.
    fn result(&self, state: &[Vec<Value>]) -> Vec<Joined> {
        let mut result = vec![Vec::new()];
        for (level, rows) in state.iter().enumerate() {
            let mut next: Vec<Joined> = Vec::new();
            for path in result {
                let matching: Vec<Value> =
                    rows.iter().copied().filter(|row| self.matches(level, &path, *row)).collect();
                let padding = (self.is_left(level) && matching.is_empty()).then_some(None);
                for row in matching.into_iter().map(Some).chain(padding) {
                    next.push([&path[..], &[row]].concat());
                }
            }
            result = next;
        }
        result
    }
}

/// The rows of the inputs as the walk asks for them.
struct Rows<'a> {
    query: &'a Query,
    state: &'a [Vec<Value>],
    input: usize,
    arrived: Value,
    out: Vec<(RowKind, Joined)>,
}

impl Rows<'_> {
    fn values(&self, path: &[u32]) -> Joined {
        let value = |(level, row): (usize, &u32)| match *row {
            NO_ROW => None,
            ARRIVED => {
                assert_eq!(level, self.input, "the row that came in is at its own level");
                Some(self.arrived)
            }
            row => Some(self.state[level][row as usize]),
        };
        path.iter().enumerate().map(value).collect()
    }
}

impl Inputs for Rows<'_> {
    fn matching(&mut self, level: usize, path: &[u32], rows: &mut Vec<u32>) -> Result<(), OperatorError> {
        assert_eq!(level, path.len());
        let path = self.values(path);
        let of_level = (0..).zip(&self.state[level]);
        rows.extend(of_level.filter(|(_, row)| self.query.matches(level, &path, **row)).map(|(number, _)| number));
        Ok(())
    }

    fn arrived_matches(&mut self, level: usize, path: &[u32]) -> Result<bool, OperatorError> {
        assert_eq!(level, self.input);
        Ok(self.query.matches(level, &self.values(path), self.arrived))
    }

    fn emit(&mut self, kind: RowKind, path: &[u32]) -> Result<(), OperatorError> {
        let values = self.values(path);
        self.out.push((kind, values));
        Ok(())
    }
}

/// StreamingMultiJoinOperator, method by method.
struct Flink<'a> {
    query: &'a Query,
    state: &'a [Vec<Value>],
    input: usize,
    arrived: Value,
    kind: RowKind,
    out: Vec<(RowKind, Joined)>,
}

impl Flink<'_> {
    fn is_upsert(&self) -> bool {
        matches!(self.kind, RowKind::Insert | RowKind::UpdateAfter)
    }

    fn recursive_multi_join(&mut self, depth: usize, joined: &[Option<Value>], active: bool) {
        if depth == self.state.len() {
            self.out.push((self.kind, joined.to_vec()));
            return;
        }
        let is_left = self.query.is_left(depth);
        let associations = self.process_records(depth, joined, active, is_left);
        let any_matches = associations.is_some();
        let previous = associations.unwrap_or(0);
        if depth == self.input {
            self.process_input_record(depth, joined, previous, any_matches);
        } else if is_left && !any_matches && depth > 0 && previous == 0 {
            self.recursive_multi_join(depth + 1, &[joined, &[None]].concat(), active);
        }
    }

    fn process_records(&mut self, depth: usize, joined: &[Option<Value>], active: bool, is_left: bool) -> Option<i32> {
        let (mut any_match, mut associations) = (false, 0);
        if !is_left && depth == self.input {
            return None;
        }
        for record in self.state[depth].clone() {
            if !self.query.matches(depth, joined, record) {
                continue;
            }
            any_match = true;
            if is_left {
                associations += if !active || self.is_upsert() { 1 } else { -1 };
                let decided = if self.is_upsert() { associations > 0 } else { associations > 1 };
                if depth != 0 && self.input == depth && decided {
                    return Some(associations);
                }
            }
            if !active && depth == self.input {
                continue;
            }
            self.recursive_multi_join(depth + 1, &[joined, &[Some(record)]].concat(), active);
        }
        any_match.then_some(associations)
    }

    fn process_input_record(&mut self, depth: usize, joined: &[Option<Value>], previous: i32, any_match: bool) {
        let mut associations = previous;
        if !self.query.matches(depth, joined, self.arrived) {
            return;
        }
        let is_left = self.query.is_left(depth);
        if is_left {
            associations += if self.is_upsert() { 1 } else { -1 };
        }
        if self.is_upsert() && is_left && !any_match {
            self.with_kind(RowKind::Delete, depth, joined);
        }
        self.recursive_multi_join(depth + 1, &[joined, &[Some(self.arrived)]].concat(), true);
        if !self.is_upsert() && is_left && depth > 0 && associations == 0 {
            self.with_kind(RowKind::Insert, depth, joined);
        }
    }

    fn with_kind(&mut self, kind: RowKind, depth: usize, joined: &[Option<Value>]) {
        let original = std::mem::replace(&mut self.kind, kind);
        self.recursive_multi_join(depth + 1, &[joined, &[None]].concat(), true);
        self.kind = original;
    }
}

fn walk(query: &Query, state: &[Vec<Value>], input: usize, kind: RowKind, arrived: Value) -> Vec<(RowKind, Joined)> {
    let mut walk = Walk::new(query.0.iter().map(|join| join.level).collect());
    let mut rows = Rows { query, state, input, arrived, out: Vec::new() };
    walk.run(input, kind, &mut rows).unwrap();
    rows.out
}

fn flink(query: &Query, state: &[Vec<Value>], input: usize, kind: RowKind, arrived: Value) -> Vec<(RowKind, Joined)> {
    let mut flink = Flink { query, state, input, arrived, kind, out: Vec::new() };
    flink.recursive_multi_join(0, &[], false);
    flink.out
}

fn query(levels: &[Level]) -> Query {
    Query(levels.iter().map(|level| Join { level: *level, reads: 0 }).collect())
}

const LEFT_LEFT: [Level; 3] = [Level::Inner, Level::Left, Level::Left];

#[test]
fn the_first_match_takes_the_row_of_nulls_back() {
    let out = walk(&query(&LEFT_LEFT), &[vec![0], vec![], vec![]], 1, RowKind::UpdateAfter, 3);
    let expected = [(RowKind::Delete, vec![Some(0), None, None]), (RowKind::UpdateAfter, vec![Some(0), Some(3), None])];
    assert_eq!(out, expected);
}

#[test]
fn the_last_match_that_goes_leaves_a_row_of_nulls() {
    let out = walk(&query(&LEFT_LEFT), &[vec![0], vec![3], vec![]], 1, RowKind::UpdateBefore, 3);
    let expected =
        [(RowKind::UpdateBefore, vec![Some(0), Some(3), None]), (RowKind::Insert, vec![Some(0), None, None])];
    assert_eq!(out, expected);
}

#[test]
fn a_match_among_others_leaves_rows_of_nulls_alone() {
    let state = [vec![0], vec![3, 2], vec![]];
    let out = walk(&query(&LEFT_LEFT), &state, 1, RowKind::Delete, 2);
    assert_eq!(out, [(RowKind::Delete, vec![Some(0), Some(2), None])]);
    let out = walk(&query(&LEFT_LEFT), &state, 1, RowKind::Insert, 3);
    assert_eq!(out, [(RowKind::Insert, vec![Some(0), Some(3), None])]);
}

#[test]
fn a_row_that_the_state_does_not_have_leaves_no_row_of_nulls() {
    let out = walk(&query(&LEFT_LEFT), &[vec![0], vec![], vec![]], 1, RowKind::Delete, 3);
    assert_eq!(out, [(RowKind::Delete, vec![Some(0), Some(3), None])]);
}

#[test]
fn a_row_that_goes_through_an_inner_level_needs_a_match_there() {
    let levels = [Level::Inner, Level::Left, Level::Inner];
    let out = walk(&query(&levels), &[vec![0], vec![], vec![2]], 1, RowKind::Insert, 3);
    assert_eq!(out, []);
    let out = walk(&query(&levels), &[vec![0], vec![], vec![0]], 1, RowKind::Insert, 3);
    let expected =
        [(RowKind::Delete, vec![Some(0), None, Some(0)]), (RowKind::Insert, vec![Some(0), Some(3), Some(0)])];
    assert_eq!(out, expected);
}

#[test]
fn rows_go_out_in_the_order_of_arrival_level_by_level() {
    let levels = [Level::Inner; 3];
    let out = walk(&query(&levels), &[vec![0, 3], vec![3], vec![4, 1]], 1, RowKind::Insert, 0);
    let rows: Vec<Joined> = out.into_iter().map(|(_, row)| row).collect();
    let expected = [[0, 0, 4], [0, 0, 1], [3, 0, 4], [3, 0, 1]].map(|row| row.map(Some).to_vec());
    assert_eq!(rows, expected);
}

fn queries() -> impl Strategy<Value = Query> {
    let join = (any::<bool>(), 0_usize..4).prop_map(|(left, reads)| {
        let level = if left { Level::Left } else { Level::Inner };
        Join { level, reads }
    });
    prop::collection::vec(join, 2..=4).prop_map(Query)
}

/// An input, whether the row is taken away, whether it is part of an update, and the row or which of those there are.
type Change = (usize, bool, bool, usize);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((0_usize..4, prop::bool::weighted(0.35), any::<bool>(), 0_usize..6), 1..24)
}

fn kind(retracts: bool, update: bool) -> RowKind {
    match (retracts, update) {
        (false, false) => RowKind::Insert,
        (false, true) => RowKind::UpdateAfter,
        (true, true) => RowKind::UpdateBefore,
        (true, false) => RowKind::Delete,
    }
}

fn sorted(mut rows: Vec<Joined>) -> Vec<Joined> {
    rows.sort();
    rows
}

proptest! {
    /// What goes out is row for row what Flink's methods say, and adds up to the result of the query.
    #[test]
    fn walks_do_what_flink_does_and_add_up_to_the_query(query in queries(), changes in changes()) {
        let mut state = vec![Vec::new(); query.0.len()];
        let mut result: Vec<Joined> = Vec::new();
        for (input, retracts, update, pick) in changes {
            let input = input % state.len();
            if retracts && state[input].is_empty() {
                continue;
            }
            let place = pick % state[input].len().max(1);
            let row = if retracts { state[input][place] } else { pick as Value };
            let kind = kind(retracts, update);
            let out = walk(&query, &state, input, kind, row);
            prop_assert_eq!(&out, &flink(&query, &state, input, kind, row));
            for (kind, row) in out {
                if matches!(kind, RowKind::Insert | RowKind::UpdateAfter) {
                    result.push(row);
                } else {
                    let place = result.iter().position(|known| *known == row);
                    prop_assert!(place.is_some(), "{:?} goes back, which never went out", row);
                    result.swap_remove(place.unwrap());
                }
            }
            if retracts {
                state[input].remove(place);
            } else {
                state[input].push(row);
            }
            prop_assert_eq!(sorted(result.clone()), sorted(query.result(&state)));
        }
    }

    /// Also where rows are taken away that the state has lost.
    #[test]
    fn walks_do_what_flink_does_where_the_state_has_lost_rows(
        query in queries(),
        state in prop::collection::vec(prop::collection::vec(0 as Value..6, 0..4), 4),
        (input, retracts, update, row) in (0_usize..4, any::<bool>(), any::<bool>(), 0 as Value..6),
    ) {
        let state = &state[..query.0.len()];
        let (input, kind) = (input % state.len(), kind(retracts, update));
        prop_assert_eq!(walk(&query, state, input, kind, row), flink(&query, state, input, kind, row));
    }
}
