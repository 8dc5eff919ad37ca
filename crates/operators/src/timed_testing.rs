//! What the tests of interval joins and temporal joins share: rows of two inputs among watermarks, and jobs that are cut into
//! batches, restored and rescaled.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, TimestampMillisecondArray, UInt8Array};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use proptest::prelude::*;
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::Batch;
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{KeyGroups, StateClock, StateContext};

use crate::Operator;
use crate::bundle::FlushReason;
use crate::join::Input;
use crate::row_per_key::testing::{KINDS, sections};
use crate::stored_testing;

const MAX_PARALLELISM: u32 = 128;

/// A row of an input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) kind: u8,
    pub(crate) k: Option<i64>,
    pub(crate) t: Option<i64>,
    pub(crate) u: i64,
    pub(crate) v: Option<String>,
}

/// What happens to an operator.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Row(Input, Row),
    Watermark(i64),
    /// It is so late.
    Clock(i64),
}

/// What comes out between two events that are no rows, `time` for what such an event itself brings.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Part {
    pub(crate) of_time: bool,
    pub(crate) rows: Vec<String>,
}

/// What comes out of what events, part by part.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Trace {
    parts: Vec<Part>,
    /// The watermarks that went on.
    pub(crate) watermarks: Vec<i64>,
}

impl Trace {
    /// What comes now comes of an event.
    pub(crate) fn begin_event(&mut self) {
        self.parts.push(Part { of_time: true, rows: Vec::new() });
    }

    /// What came of rows, or of the last event.
    pub(crate) fn rows(&mut self, of_time: bool) -> &mut Vec<String> {
        if self.parts.last().is_none_or(|part| part.of_time != of_time) {
            self.parts.push(Part { of_time, rows: Vec::new() });
        }
        let last = self.parts.len() - 1;
        &mut self.parts[last].rows
    }

    /// Keys whose time has come fire in no order that means anything: what comes of an event is compared key by key.
    pub(crate) fn comparable(mut self, keys: &[usize]) -> Self {
        for part in self.parts.iter_mut().filter(|part| part.of_time) {
            part.rows.sort_by_key(|row| key_of(row, keys));
        }
        self.parts.retain(|part| !part.rows.is_empty());
        self.parts.dedup_by(|next, part| {
            // rows of one input, between which nothing came of an event
            let joined = !part.of_time && !next.of_time;
            if joined {
                part.rows.append(&mut next.rows);
            }
            joined
        });
        self
    }

    /// All rows in order.
    pub(crate) fn all(self) -> Vec<String> {
        self.parts.into_iter().flat_map(|part| part.rows).collect()
    }
}

/// The key columns of the left row, or of the right one if there is none.
fn key_of(row: &str, keys: &[usize]) -> Vec<String> {
    let parts: Vec<&str> = row.split(' ').collect();
    let first = if parts[3] == "NULL" { 5 } else { 1 };
    keys.iter().map(|key| parts[first + key].to_owned()).collect()
}

impl Row {
    /// Its columns, or as many NULLs.
    pub(crate) fn show(row: Option<&Self>) -> String {
        let Some(row) = row else { return "NULL NULL NULL NULL".to_owned() };
        let optional = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
        let number = |value: Option<i64>| optional(value.map(|value| value.to_string()));
        format!("{} {} {} {}", number(row.k), number(row.t), row.u, optional(row.v.clone()))
    }

    /// `kind` and the columns of both, of which one may be missing.
    pub(crate) fn pair(kind: u8, left: Option<&Self>, right: Option<&Self>) -> String {
        format!("{} {} {}", KINDS[usize::from(kind)], Self::show(left), Self::show(right))
    }
}

/// `k t u`, inserted; NULL for `k` is NULL.
pub(crate) fn row(text: &str) -> Row {
    let mut parts = text.split(' ');
    let mut number = || parts.next().unwrap().parse::<i64>().ok();
    Row { kind: 0, k: number(), t: number(), u: number().unwrap(), v: Some("a".to_owned()) }
}

/// The left, or the right input gets [`row`].
pub(crate) fn left(text: &str) -> Event {
    Event::Row(Input::Left, row(text))
}

/// See [`left`].
pub(crate) fn right(text: &str) -> Event {
    Event::Row(Input::Right, row(text))
}

/// The type of the rows of both inputs: `k`, `t` (row time), `u` (not NULL), `v`.
pub(crate) fn input_type() -> LogicalType {
    let field = |name: &str, kind, nullable| Field { name: name.to_owned(), ty: LogicalType { kind, nullable } };
    let fields = [
        field("k", TypeKind::BigInt, true),
        field("t", TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime }, true),
        field("u", TypeKind::BigInt, false),
        field("v", TypeKind::VarChar(i32::MAX.unsigned_abs()), true),
    ];
    LogicalType { kind: TypeKind::Row(fields.into()), nullable: false }
}

/// `left.u < right.u`.
pub(crate) fn condition() -> Rex {
    let bigint = LogicalType { kind: TypeKind::BigInt, nullable: false };
    Rex::Call {
        function: Function::BuiltIn { name: "<".to_owned(), version: 1 },
        operands: vec![Rex::InputRef { index: 2, ty: bigint.clone() }, Rex::InputRef { index: 6, ty: bigint }],
        ty: LogicalType { kind: TypeKind::Boolean, nullable: true },
    }
}

fn batch(rows: &[Row]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.k).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.t).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| Some(row.u)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.v.as_deref()).collect::<StringArray>()),
    ];
    let kinds = rows.iter().any(|row| row.kind != 0);
    let kinds = kinds.then(|| UInt8Array::from_iter_values(rows.iter().map(|row| row.kind)));
    Batch::try_new(columns, rows.len(), kinds).unwrap()
}

fn drain(operator: &mut dyn Operator, max_rows: usize, out: &mut Vec<String>) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!(batch.num_rows() > 0 && batch.num_rows() <= max_rows);
        for row in 0..batch.num_rows() {
            let mut text = KINDS[usize::from(batch.kinds().map_or(0, |kinds| kinds.value(row)))].to_owned();
            for column in batch.columns() {
                let value = if column.is_null(row) {
                    "NULL".to_owned()
                } else if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
                    numbers.value(row).to_string()
                } else if let Some(times) = column.as_primitive_opt::<TimestampMillisecondType>() {
                    times.value(row).to_string()
                } else {
                    column.as_string::<i32>().value(row).to_owned()
                };
                text.push(' ');
                text.push_str(&value);
            }
            out.push(text);
        }
    }
}

/// Makes the operator of a subtask.
pub(crate) type Open<'a> = &'a dyn Fn(&StateContext) -> Box<dyn Operator>;

/// An operator at some parallelism.
pub(crate) struct Job<'a> {
    open: Open<'a>,
    keys: Vec<usize>,
    max_rows: usize,
    subtasks: Vec<Box<dyn Operator>>,
    /// That of the subtasks, if their state lies in one. It goes behind them.
    database: Option<TestDatabase>,
}

impl<'a> Job<'a> {
    /// `keys` are the key columns; `max_rows` is how many rows a batch of output has at most.
    pub(crate) fn open(open: Open<'a>, keys: &[usize], max_rows: usize, parallelism: u32) -> Self {
        let subtask = |subtask: u32| {
            let of = |group: &u32| owner_of(*group, parallelism) == subtask;
            let groups: Vec<u32> = (0..MAX_PARALLELISM).filter(of).collect();
            let (first, last) = (groups[0] as u16, groups[groups.len() - 1] as u16);
            let key_groups = KeyGroups { max_parallelism: MAX_PARALLELISM, first, last };
            open(&StateContext { key_groups, clock: StateClock::fixed(0) })
        };
        let subtasks = (0..parallelism).map(subtask).collect();
        Self { open, keys: keys.to_vec(), max_rows, subtasks, database: None }
    }

    /// The job, which has not begun, with its state in a database.
    pub(crate) fn stored(mut self) -> Self {
        let database = stored_testing::database();
        self.subtasks.iter_mut().for_each(|subtask| stored_testing::attach_to(subtask.as_mut(), &database));
        self.database = Some(database);
        self
    }

    /// The events, rows in batches of these sizes, what is left one by one; a batch ends where the side changes, and at
    /// other events.
    pub(crate) fn push(&mut self, events: &[Event], sizes: &[usize], out: &mut Trace) {
        let mut sizes = sizes.iter().copied();
        let side = |event: &Event| match event {
            Event::Row(side, _) => Some(*side),
            _ => None,
        };
        for run in events.chunk_by(|a, b| side(a).is_some() && side(a) == side(b)) {
            match &run[0] {
                Event::Row(side, _) => {
                    let rows: Vec<Row> = run
                        .iter()
                        .filter_map(|event| match event {
                            Event::Row(_, row) => Some(row.clone()),
                            _ => None,
                        })
                        .collect();
                    let mut rest = &rows[..];
                    while !rest.is_empty() {
                        let (head, tail) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
                        rest = tail;
                        self.push_rows(*side, head, out);
                    }
                }
                Event::Watermark(watermark) => {
                    let mut on = Vec::new();
                    out.begin_event();
                    for subtask in &mut self.subtasks {
                        on.extend(subtask.watermark(*watermark).unwrap());
                        drain(subtask.as_mut(), self.max_rows, out.rows(true));
                    }
                    assert!(on.windows(2).all(|pair| pair[0] == pair[1]));
                    out.watermarks.extend(on.first());
                }
                Event::Clock(now) => {
                    out.begin_event();
                    for subtask in &mut self.subtasks {
                        assert_eq!(subtask.processing_time(*now).unwrap(), None);
                        drain(subtask.as_mut(), self.max_rows, out.rows(true));
                        assert!(subtask.timer().unwrap() > *now);
                    }
                }
            }
        }
    }

    fn push_rows(&mut self, side: Input, rows: &[Row], out: &mut Trace) {
        let owners = owners(rows, &self.keys, self.subtasks.len() as u32);
        for (number, subtask) in (0_u32..).zip(&mut self.subtasks) {
            let part: Vec<Row> =
                rows.iter().zip(&owners).filter(|(_, owner)| **owner == number).map(|(row, _)| row.clone()).collect();
            if part.is_empty() {
                continue;
            }
            match side {
                Input::Left => subtask.push(batch(&part)).unwrap(),
                Input::Right => subtask.push_second(batch(&part)).unwrap(),
            }
            drain(subtask.as_mut(), self.max_rows, out.rows(false));
        }
    }

    /// The job at another parallelism, restored from a savepoint, or from what its database has.
    pub(crate) fn restored(&mut self, parallelism: u32) -> Self {
        let mut job = Self::open(self.open, &self.keys, self.max_rows, parallelism);
        for subtask in &mut self.subtasks {
            subtask.flush(FlushReason::Checkpoint).unwrap();
        }
        if let Some(database) = self.database.take() {
            for mut subtask in self.subtasks.drain(..) {
                subtask.state().unwrap().write_back().unwrap();
            }
            job.subtasks.iter_mut().for_each(|subtask| stored_testing::attach_to(subtask.as_mut(), &database));
            job.database = Some(database);
            return job;
        }
        for subtask in &mut self.subtasks {
            let snapshot = subtask.state().unwrap().snapshot();
            for group in snapshot.key_groups() {
                let sections = sections(snapshot.as_ref(), group);
                let owner = group.subtask(parallelism, MAX_PARALLELISM) as usize;
                job.subtasks[owner].state().unwrap().restore(&sections).unwrap();
            }
        }
        job
    }

    /// Keys in state.
    pub(crate) fn bytes(&mut self) -> usize {
        self.subtasks.iter_mut().map(|subtask| subtask.state().unwrap().bytes()).sum()
    }
}

fn owner_of(group: u32, parallelism: u32) -> u32 {
    streamfusion_row::KeyGroup(group as u16).subtask(parallelism, MAX_PARALLELISM)
}

/// Which subtask each row goes to.
pub(crate) fn owners(rows: &[Row], keys: &[usize], parallelism: u32) -> Vec<u32> {
    let types: Vec<LogicalType> = keys.iter().map(|key| input_type().fields()[*key].ty.clone()).collect();
    let batch = batch(rows);
    let columns: Vec<ArrayRef> = keys.iter().map(|key| batch.columns()[*key].clone()).collect();
    let encoder = KeyEncoder::try_new(&types).unwrap();
    let hashes = encoder.hashes(&columns, rows.len(), &mut KeyRows::new()).unwrap();
    hashes.key_groups(MAX_PARALLELISM).map(|group| group.subtask(parallelism, MAX_PARALLELISM)).collect()
}

/// Rows of few keys in runs of an input, with times around what watermarks have come to, which go on now and then; `kinds` are
/// those of either input.
pub(crate) fn events(kinds: [&'static [u8]; 2], clock: bool) -> impl Strategy<Value = Vec<Event>> {
    let v = prop_oneof![1 => Just(None), 4 => "[ab]".prop_map(Some), 1 => "[a-z]{0,20}".prop_map(Some)];
    let row = (any::<prop::sample::Index>(), prop::option::weighted(0.9, 0_i64..4), -14_i64..14, 0_i64..3, v);
    let turn = prop::bool::weighted(0.3);
    let step = (row, turn, prop_oneof![8 => Just(None), 2 => (0_i64..9).prop_map(Some)], prop::bool::weighted(0.02));
    (prop::collection::vec(step, 0..90), -6_i64..30).prop_map(move |(steps, start)| {
        let (mut now, mut side, mut events) = (start, Input::Left, Vec::new());
        for ((kind, k, t, u, v), turn, later, is_null) in steps {
            if let Some(later) = later {
                now += later;
                events.push(if clock { Event::Clock(now.max(0)) } else { Event::Watermark(now) });
            }
            if turn {
                side = side.other();
            }
            let kinds = kinds[usize::from(side == Input::Right)];
            let row = Row { kind: kinds[kind.index(kinds.len())], k, t: (!is_null).then_some(now + t), u, v };
            events.push(Event::Row(side, row));
        }
        events.push(if clock { Event::Clock(now + 1000) } else { Event::Watermark(i64::MAX) });
        events
    })
}

/// Sizes of batches.
pub(crate) fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..30, 0..30)
}
