//! Rows that come and go in any order against a model that computes every value from scratch.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_plan::node::{self, AggCall, OverFrame};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_row::{Batch, KeyGroup};
use streamfusion_state::{KeyGroups, StateClock, StateContext};

use streamfusion_state::rocksdb::testing::TestDatabase;

use super::{open, supports};
use crate::window::testing::sections;
use crate::{OUTPUT_BATCH_ROWS, Operator, StateBackend, stored_testing};

const KEY: usize = 0;
const SORT: usize = 1;
const VALUE: usize = 2;
const MAX_PARALLELISM: u32 = 16;

/// Key, sort key, value.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    kind: u8,
    key: Option<i64>,
    sort: Option<i64>,
    value: Option<i64>,
}

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sort {
    Number,
    /// The number as text, which sorts otherwise.
    Text,
}

fn input(sort: Sort) -> LogicalType {
    let by = if sort == Sort::Text { TypeKind::VarChar(i32::MAX as u32) } else { TypeKind::BigInt };
    let kinds = [TypeKind::BigInt, by, TypeKind::BigInt];
    let fields = kinds.map(|kind| Field { name: String::new(), ty: LogicalType { kind, nullable: true } });
    LogicalType { kind: TypeKind::Row(fields.into()), nullable: false }
}

fn call(name: &str, args: &[usize]) -> AggCall {
    AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter: None,
        distinct: false,
        approximate: false,
        ignore_nulls: false,
        need_retraction: false,
        ty: LogicalType { kind: TypeKind::BigInt, nullable: true },
    }
}

fn spec(frame: OverFrame, nulls_last: bool, calls: Vec<AggCall>) -> node::OverAggregate {
    node::OverAggregate {
        input_columns: 3,
        partition: vec![KEY],
        order: SORT,
        nulls_last,
        frame,
        calls,
        constants: Vec::new(),
        ttl_ms: 0,
        unbounded_version: 2,
    }
}

fn text(sort: Option<i64>) -> Option<String> {
    sort.map(|sort| sort.to_string())
}

fn batch(rows: &[Row], sort: Sort) -> Batch {
    let numbers = |of: fn(&Row) -> Option<i64>| Arc::new(rows.iter().map(of).collect::<Int64Array>()) as ArrayRef;
    let sort_column: ArrayRef = match sort {
        Sort::Number => numbers(|row| row.sort),
        Sort::Text => Arc::new(rows.iter().map(|row| text(row.sort)).collect::<StringArray>()),
    };
    let columns = vec![numbers(|row| row.key), sort_column, numbers(|row| row.value)];
    let kinds = rows.iter().any(|row| row.kind != 0);
    let kinds = kinds.then(|| UInt8Array::from_iter_values(rows.iter().map(|row| row.kind)));
    Batch::try_new(columns, rows.len(), kinds).unwrap()
}

fn show(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        "NULL".to_owned()
    } else if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
        numbers.value(row).to_string()
    } else {
        array.as_string::<i32>().value(row).to_owned()
    }
}

type Output = BTreeMap<String, Vec<String>>;

fn drain(operator: &mut dyn Operator, out: &mut Output) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!((1..=OUTPUT_BATCH_ROWS).contains(&batch.num_rows()));
        for row in 0..batch.num_rows() {
            let kind = batch.kinds().map_or(0, |kinds| kinds.value(row));
            let cells: Vec<String> = batch.columns().iter().map(|column| show(column, row)).collect();
            out.entry(cells[KEY].clone()).or_default().push(format!("{kind} {}", cells.join(" ")));
        }
    }
}

/// What functions have accumulated, in the order of their calls.
#[derive(Debug, Clone, PartialEq, Default)]
struct Acc {
    rows: i64,
    values: i64,
    sum: Option<i64>,
    min: Option<i64>,
    max: Option<i64>,
}

impl Acc {
    fn add(&self, row: &Row) -> Self {
        let Some(value) = row.value else { return Self { rows: self.rows + 1, ..self.clone() } };
        Self {
            rows: self.rows + 1,
            values: self.values + 1,
            sum: Some(self.sum.unwrap_or(0) + value),
            min: Some(self.min.map_or(value, |min| min.min(value))),
            max: Some(self.max.map_or(value, |max| max.max(value))),
        }
    }

    /// Per call: the accumulator, then the value.
    fn of(&self, call: &AggCall) -> (Vec<Option<i64>>, Option<i64>) {
        let single = |value| (vec![value], value);
        match call.name.as_str() {
            "COUNT" if call.args.is_empty() => single(Some(self.rows)),
            "ROW_NUMBER" | "RANK" => single(Some(self.rows)),
            "COUNT" => single(Some(self.values)),
            "SUM" => single(self.sum),
            "MIN" => single(self.min),
            "MAX" => single(self.max),
            "AVG" => (vec![self.sum, Some(self.values)], self.sum.map(|sum| sum / self.values)),
            _ => unreachable!(),
        }
    }
}

/// A partition: rows with the number that each got when it came.
struct Model<'a> {
    spec: &'a node::OverAggregate,
    sort: Sort,
    backend: StateBackend,
    rows: Vec<(u64, Row)>,
    next: u64,
    out: Vec<String>,
}

impl Model<'_> {
    fn order(&self, row: &Row) -> (bool, i64, String) {
        let is_null = row.sort.is_none() == self.spec.nulls_last;
        match self.sort {
            Sort::Number => (is_null, row.sort.unwrap_or(0), String::new()),
            Sort::Text => (is_null, 0, text(row.sort).unwrap_or_default()),
        }
    }

    /// Per row, by number, in order: what is accumulated up to it.
    fn accumulated(&self) -> Vec<(u64, Acc)> {
        let mut accs: Vec<(u64, Acc)> = Vec::new();
        let mut acc = Acc::default();
        for (number, row) in &self.rows {
            acc = acc.add(row);
            accs.push((*number, acc.clone()));
        }
        if self.spec.frame == OverFrame::UnboundedRange {
            for place in (0..accs.len().saturating_sub(1)).rev() {
                if self.order(&self.rows[place].1) == self.order(&self.rows[place + 1].1) {
                    accs[place].1 = accs[place + 1].1.clone();
                }
            }
        }
        accs
    }

    fn emit(&mut self, kind: u8, row: &Row, acc: &Acc) {
        let number = |number: Option<i64>| number.map_or_else(|| "NULL".to_owned(), |number| number.to_string());
        let values = self.spec.calls.iter().map(|call| number(acc.of(call).1));
        let cells = [number(row.key), number(row.sort), number(row.value)].into_iter().chain(values);
        self.out.push(format!("{kind} {}", cells.collect::<Vec<_>>().join(" ")));
    }

    fn same(&self, a: &Acc, b: &Acc) -> bool {
        self.backend == StateBackend::Hashmap && self.spec.calls.iter().all(|call| a.of(call).0 == b.of(call).0)
    }

    fn take(&mut self, row: &Row) {
        let before: BTreeMap<u64, Acc> = self.accumulated().into_iter().collect();
        let accumulates = matches!(row.kind, 0 | 2);
        let order = self.order(row);
        let shares = self.spec.frame == OverFrame::UnboundedRange;
        let changed = if accumulates {
            let number = self.next;
            self.next += 1;
            let at = self.rows.iter().filter(|(_, other)| self.order(other) <= order).count();
            self.rows.insert(at, (number, row.clone()));
            number
        } else {
            let is_row = |(_, other): &&(u64, Row)| (&other.sort, &other.value) == (&row.sort, &row.value);
            let found = if shares { self.rows.iter().rev().find(is_row) } else { self.rows.iter().find(is_row) };
            let Some((number, _)) = found else { return };
            *number
        };
        let all = self.rows.clone();
        self.rows.retain(|(number, _)| accumulates || *number != changed);
        let after: BTreeMap<u64, Acc> = self.accumulated().into_iter().collect();
        let mut behind = false;
        for (number, other) in &all {
            let equal = self.order(other) == order;
            if *number == changed {
                behind = true;
                match accumulates {
                    true => self.emit(row.kind, row, &after[number]),
                    false => self.emit(3, other, &before[number]),
                }
            } else if (shares && equal) || behind {
                match self.same(&before[number], &after[number]) {
                    true if shares && equal => {}
                    true => return,
                    false => {
                        self.emit(1, other, &before[number]);
                        self.emit(2, other, &after[number]);
                    }
                }
            }
        }
    }
}

fn expected(spec: &node::OverAggregate, sort: Sort, backend: StateBackend, rows: &[Row]) -> Output {
    let mut models: BTreeMap<String, Model<'_>> = BTreeMap::new();
    for row in rows {
        let key = row.key.map_or_else(|| "NULL".to_owned(), |key| key.to_string());
        let new = || Model { spec, sort, backend, rows: Vec::new(), next: 0, out: Vec::new() };
        models.entry(key).or_insert_with(new).take(row);
    }
    models.into_iter().map(|(key, model)| (key, model.out)).filter(|(_, out)| !out.is_empty()).collect()
}

/// Subtasks of an operator.
struct Job<'a> {
    spec: &'a node::OverAggregate,
    sort: Sort,
    backend: StateBackend,
    subtasks: Vec<Box<dyn Operator>>,
    /// That of the subtasks, if their state lies in one. It goes behind them.
    database: Option<TestDatabase>,
}

impl<'a> Job<'a> {
    fn open(spec: &'a node::OverAggregate, sort: Sort, backend: StateBackend, parallelism: u32) -> Self {
        supports(spec, &input(sort)).unwrap();
        let open = |subtask: u32| {
            let of = |group: &u32| KeyGroup(*group as u16).subtask(parallelism, MAX_PARALLELISM) == subtask;
            let groups: Vec<u32> = (0..MAX_PARALLELISM).filter(of).collect();
            let (first, last) = (groups[0] as u16, groups[groups.len() - 1] as u16);
            let key_groups = KeyGroups { max_parallelism: MAX_PARALLELISM, first, last };
            open(spec, &input(sort), backend, &StateContext { key_groups, clock: StateClock::fixed(0) }).unwrap()
        };
        Self { spec, sort, backend, subtasks: (0..parallelism).map(open).collect(), database: None }
    }

    /// The job, which has not begun, with its state in a database, from which every key is read anew that may be.
    fn stored_in(mut self, database: TestDatabase) -> Self {
        self.subtasks.iter_mut().for_each(|subtask| stored_testing::attach_to(subtask.as_mut(), &database));
        self.database = Some(database);
        self
    }

    fn push(&mut self, rows: &[Row], out: &mut Output) {
        let all = batch(rows, self.sort);
        let encoder = KeyEncoder::try_new(&[input(self.sort).fields()[KEY].ty.clone()]).unwrap();
        let mut keys = KeyRows::new();
        let hashes = encoder.hashes(&all.columns()[..1], rows.len(), &mut keys).unwrap();
        let parallelism = self.subtasks.len() as u32;
        let owners = hashes.key_groups(MAX_PARALLELISM).map(|group| group.subtask(parallelism, MAX_PARALLELISM));
        let owners: Vec<u32> = owners.collect();
        for (number, subtask) in (0_u32..).zip(&mut self.subtasks) {
            let part = rows.iter().zip(&owners).filter(|(_, owner)| **owner == number);
            let part: Vec<Row> = part.map(|(row, _)| row.clone()).collect();
            if !part.is_empty() {
                subtask.push(batch(&part, self.sort)).unwrap();
                drain(subtask.as_mut(), out);
                stored_testing::evict(subtask.as_mut());
            }
        }
    }

    /// From a checkpoint, or from a canonical savepoint.
    fn restored(mut self, parallelism: u32, from: Snapshot) -> Self {
        let mut job = Self::open(self.spec, self.sort, self.backend, parallelism);
        match (&self.database, from) {
            (None, _) => {}
            (Some(_), Snapshot::Savepoint) => job = job.stored_in(stored_testing::database()),
            (Some(_), Snapshot::Checkpoint) => {
                for subtask in &mut self.subtasks {
                    subtask.state().unwrap().write_back().unwrap();
                }
                self.subtasks.clear();
                if let Some(database) = self.database.take() {
                    job = job.stored_in(database);
                }
            }
        }
        for subtask in &mut self.subtasks {
            let snapshot = subtask.state().unwrap().snapshot();
            for sections in snapshot.key_groups().into_iter().map(|group| sections(snapshot.as_ref(), group)) {
                let owner = sections.key_group.subtask(parallelism, MAX_PARALLELISM) as usize;
                job.subtasks[owner].state().unwrap().restore(&sections).unwrap();
            }
        }
        job
    }

    fn is_empty(&mut self) -> bool {
        self.subtasks.iter_mut().all(|subtask| subtask.state().unwrap().snapshot().key_groups().is_empty())
    }
}

#[derive(Debug, Clone, Copy)]
enum Snapshot {
    Checkpoint,
    Savepoint,
}

fn aggregate() -> impl Strategy<Value = node::OverAggregate> {
    let all = vec![call("COUNT", &[]), call("SUM", &[VALUE]), call("MAX", &[VALUE])];
    let calls = |frame| match frame {
        OverFrame::UnboundedRows => vec![vec![call("ROW_NUMBER", &[]), call("MIN", &[VALUE])]],
        _ => vec![vec![call("AVG", &[VALUE])], vec![call("RANK", &[]), call("MIN", &[VALUE])]],
    };
    let any_frame = prop::sample::select(vec![OverFrame::UnboundedRows, OverFrame::UnboundedRange]);
    (any_frame, any::<bool>()).prop_flat_map(move |(frame, nulls_last)| {
        let mut lists = calls(frame);
        lists.extend([
            all.clone(),
            vec![call("SUM", &[VALUE])],
            vec![call("MIN", &[VALUE]), call("MAX", &[VALUE])],
            vec![call("COUNT", &[VALUE])],
        ]);
        prop::sample::select(lists).prop_map(move |calls| spec(frame, nulls_last, calls))
    })
}

/// Rows that come, and such that go, most of which are there.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        prop::option::weighted(0.9, 0_i64..3),
        prop::option::weighted(0.9, 0_i64..12),
        prop::option::weighted(0.8, -1_i64..3),
    );
    let step = (row, 0_u8..10, any::<bool>(), any::<prop::sample::Index>());
    prop::collection::vec(step, 0..60).prop_map(|steps| {
        let (mut rows, mut live): (Vec<Row>, Vec<Row>) = (Vec::new(), Vec::new());
        for ((key, sort, value), what, update, which) in steps {
            let back = if update { 1 } else { 3 };
            match what {
                0..=2 if !live.is_empty() => {
                    let row = live.swap_remove(which.index(live.len()));
                    rows.push(Row { kind: back, ..row });
                }
                3 => rows.push(Row { kind: back, key, sort, value }),
                _ => {
                    let row = Row { kind: if update { 2 } else { 0 }, key, sort, value };
                    live.push(row.clone());
                    rows.push(row);
                }
            }
        }
        rows
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn rows_are_updated_as_those_before_them_come_and_go(
        spec in aggregate(),
        text in any::<bool>(),
        rows in rows(),
        sizes in prop::collection::vec(1_usize..25, 0..12),
        restores in prop::collection::vec((1_u32..4, 0_usize..10, any::<bool>()), 0..3),
        (backend, is_stored) in prop::sample::select(vec![
            (StateBackend::Hashmap, false), (StateBackend::RocksDb, true), (StateBackend::RocksDb, false),
        ]),
    ) {
        let sort = if text { Sort::Text } else { Sort::Number };
        let mut out = Output::new();
        let mut job = Job::open(&spec, sort, backend, 1);
        if is_stored {
            job = job.stored_in(stored_testing::database());
        }
        let mut rest = rows.as_slice();
        let mut sizes = sizes.into_iter();
        let mut restores = restores.into_iter();
        let mut restore = restores.next();
        for number in 0.. {
            let (now, later) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
            if now.is_empty() {
                break;
            }
            job.push(now, &mut out);
            rest = later;
            if let Some((parallelism, at, savepoint)) = restore && at <= number {
                let from = if savepoint { Snapshot::Savepoint } else { Snapshot::Checkpoint };
                job = job.restored(parallelism, from);
                restore = restores.next();
            }
        }
        prop_assert_eq!(out, expected(&spec, sort, backend, &rows));
        // what is still there goes
        let mut live = rows.clone();
        live.retain(|row| matches!(row.kind, 0 | 2));
        live.iter_mut().for_each(|row| row.kind = 3);
        if !live.is_empty() {
            job.push(&live, &mut Output::new());
        }
        prop_assert!(job.is_empty(), "state is left");
    }
}

#[test]
fn many_updates_go_out_in_several_batches() {
    let spec = spec(OverFrame::UnboundedRows, false, vec![call("SUM", &[VALUE])]);
    let row = |sort, value| Row { kind: 0, key: Some(1), sort: Some(sort), value: Some(value) };
    let mut rows: Vec<Row> = (0..300).map(|number| row(1_000 - number, 1)).collect();
    rows.extend((0..300).map(|number| row(2_000 + number, 2)));
    let mut out = Output::new();
    let mut job = Job::open(&spec, Sort::Number, StateBackend::Hashmap, 1);
    job.push(&rows, &mut out);
    assert_eq!(out["1"].len(), 600 + 2 * (300 * 299 / 2));
    assert_eq!(out, expected(&spec, Sort::Number, StateBackend::Hashmap, &rows));
}

#[test]
fn rows_whose_values_stay_go_out_with_rocksdb() {
    let spec = spec(OverFrame::UnboundedRows, false, vec![call("MAX", &[VALUE])]);
    let row = |kind, sort, value| Row { kind, key: Some(1), sort: Some(sort), value: Some(value) };
    let rows = [row(0, 1, 9), row(0, 5, 2), row(0, 3, 4), row(3, 3, 4)];
    let of = |backend| {
        let mut out = Output::new();
        Job::open(&spec, Sort::Number, backend, 1).push(&rows, &mut out);
        out["1"].clone()
    };
    let comes = ["0 1 1 9 9", "0 1 5 2 9", "0 1 3 4 9"];
    let (goes, stays) = (["3 1 3 4 9"], ["1 1 5 2 9", "2 1 5 2 9"]);
    assert_eq!(of(StateBackend::Hashmap), [&comes[..], &goes].concat());
    assert_eq!(of(StateBackend::RocksDb), [&comes[..], &stays, &goes, &stays].concat());
}

#[test]
fn what_is_not_exact_stays_on_flink() {
    let sum = || vec![call("SUM", &[VALUE])];
    let base = || spec(OverFrame::UnboundedRows, false, sum());
    let reason = |spec: &node::OverAggregate| {
        supports(spec, &input(Sort::Number)).map_or_else(|reason| reason.to_string(), |()| "native".to_owned())
    };
    let distinct = AggCall { distinct: true, ..call("COUNT", &[VALUE]) };
    let cases = [
        (base(), "native"),
        (node::OverAggregate { ttl_ms: 5, ..base() }, "with a state time to live"),
        (node::OverAggregate { frame: OverFrame::Rows { preceding: 3 }, ..base() }, "no bounded window"),
        (node::OverAggregate { calls: vec![distinct], ..base() }, "one set of DISTINCT values"),
        (node::OverAggregate { calls: vec![call("AVG", &[VALUE])], ..base() }, "takes the average of ROWS"),
        (node::OverAggregate { calls: vec![call("LAST_VALUE", &[VALUE])], ..base() }, "LAST_VALUE is not"),
    ];
    for (spec, expected) in cases {
        let reason = reason(&spec);
        assert!(reason.contains(expected), "{reason}, not {expected}");
    }
}
