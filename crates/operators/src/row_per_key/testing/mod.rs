//! What the tests of deduplicate, changelog normalize and Top-N share: rows, models that follow Flink's functions row by row, and
//! jobs that are cut into batches, restored and rescaled.
#![allow(clippy::unwrap_used)]

pub(crate) mod bundles;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray, TimestampMillisecondArray, UInt8Array,
};
use arrow::datatypes::{Float64Type, Int64Type, TimestampMillisecondType};
use proptest::prelude::*;
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_row::{Batch, KeyGroup};
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{KeyGroups, StateClock, StateContext, StateSnapshot};

use crate::Operator;
use crate::stored_testing;

pub(crate) const KINDS: [&str; 4] = ["+I", "-U", "+U", "-D"];

/// A row with the processing time at which it arrives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) kind: u8,
    pub(crate) key: Option<i64>,
    pub(crate) text: Option<String>,
    pub(crate) double: Option<f64>,
    /// Row time.
    pub(crate) time: Option<i64>,
    pub(crate) arrives: i64,
}

impl Row {
    /// Whether BinaryRowData takes the rows for equal, kinds apart.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let double = |row: &Self| row.double.map(f64::to_bits);
        (self.key, &self.text, self.time) == (other.key, &other.text, other.time) && double(self) == double(other)
    }

    pub(crate) fn show(&self, kind: &str) -> String {
        let mut out = kind.to_owned();
        let mut cell = |text: Option<String>| write!(out, " {}", text.unwrap_or_else(|| "NULL".to_owned())).unwrap();
        cell(self.key.map(|key| key.to_string()));
        cell(self.text.clone());
        cell(self.double.map(|double| format!("{double:?}")));
        cell(self.time.map(|time| time.to_string()));
        out
    }
}

/// `kind key text time`, the double being 1.5.
pub(crate) fn row(kind: &str, key: i64, text: &str, time: i64) -> Row {
    let kind = KINDS.iter().position(|known| *known == kind).unwrap() as u8;
    Row { kind, key: Some(key), text: Some(text.to_owned()), double: Some(1.5), time: Some(time), arrives: 0 }
}

/// Rows of few keys and values; of any kind, or +I alone.
pub(crate) fn rows(kinds: impl Strategy<Value = u8>) -> impl Strategy<Value = Vec<Row>> {
    let double = prop_oneof![Just(None), Just(Some(0.0)), Just(Some(-0.0)), Just(Some(f64::NAN)), Just(Some(2.5))];
    let text = prop_oneof![2 => Just(None), 5 => "[ab]".prop_map(Some), 1 => ".{0,30}".prop_map(Some)];
    let value = (kinds, prop::option::weighted(0.9, 0_i64..6), text, double, prop::option::weighted(0.9, -2_i64..3));
    let steps = prop::collection::vec((value, prop_oneof![5 => Just(0_i64), 1 => 1_i64..12]), 0..80);
    steps.prop_map(|steps| {
        let mut arrives = 0;
        let row = |((kind, key, text, double, time), later)| {
            arrives += later;
            Row { kind, key, text, double, time, arrives }
        };
        steps.into_iter().map(row).collect()
    })
}

pub(crate) fn input_type() -> LogicalType {
    let kinds = [
        TypeKind::BigInt,
        TypeKind::VarChar(i32::MAX as u32),
        TypeKind::Double,
        TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime },
    ];
    let ty = |kind| LogicalType { kind, nullable: true };
    let fields = kinds.into_iter().enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: ty(kind) });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

pub(crate) fn batch(rows: &[Row]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.text.as_deref()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.double).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.time).collect::<TimestampMillisecondArray>()),
    ];
    let kinds = rows.iter().any(|row| row.kind != 0);
    let kinds = kinds.then(|| UInt8Array::from_iter_values(rows.iter().map(|row| row.kind)));
    Batch::try_new(columns, rows.len(), kinds).unwrap()
}

pub(crate) fn drain(operator: &mut dyn Operator, out: &mut Vec<String>) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!(batch.num_rows() > 0);
        let columns = batch.columns();
        for i in 0..batch.num_rows() {
            let valid = |column: usize| columns[column].is_valid(i);
            let row = Row {
                kind: 0,
                key: valid(0).then(|| columns[0].as_primitive::<Int64Type>().value(i)),
                text: valid(1).then(|| columns[1].as_string::<i32>().value(i).to_owned()),
                double: valid(2).then(|| columns[2].as_primitive::<Float64Type>().value(i)),
                time: valid(3).then(|| columns[3].as_primitive::<TimestampMillisecondType>().value(i)),
                arrives: 0,
            };
            let mut shown = row.show(KINDS[batch.kinds().map_or(0, |kinds| kinds.value(i)) as usize]);
            for added in &columns[4..] {
                write!(shown, " {}", added.as_primitive::<Int64Type>().value(i)).unwrap();
            }
            out.push(shown);
        }
    }
}

/// A keyed value with Flink's time to live.
#[derive(Debug)]
pub(crate) struct Store<V> {
    ttl: i64,
    values: BTreeMap<String, (V, i64)>,
}

impl<V: Clone> Store<V> {
    pub(crate) fn new(ttl: i64) -> Self {
        Self { ttl, values: BTreeMap::new() }
    }

    pub(crate) fn get(&self, key: &str, now: i64) -> Option<V> {
        let (value, written) = self.values.get(key)?;
        (self.ttl == 0 || written + self.ttl > now).then(|| value.clone())
    }

    pub(crate) fn update(&mut self, key: &str, value: V, now: i64) {
        self.values.insert(key.to_owned(), (value, now));
    }

    pub(crate) fn clear(&mut self, key: &str) {
        self.values.remove(key);
    }
}

/// The key columns of a row, as text.
pub(crate) fn key_of(row: &Row, keys: &[usize]) -> String {
    keys.iter().map(|key| if *key == 0 { format!("{:?}/", row.key) } else { format!("{:?}/", row.text) }).collect()
}

pub(crate) type Factory<'a> = &'a dyn Fn(&StateContext) -> Box<dyn Operator>;

/// An operator at some parallelism.
pub(crate) struct Job<'a> {
    factory: Factory<'a>,
    keys: Vec<usize>,
    clock: StateClock,
    subtasks: Vec<Box<dyn Operator>>,
    /// Those of the subtasks, if their state lies in some.
    databases: Vec<TestDatabase>,
}

const MAX_PARALLELISM: u32 = 128;

impl<'a> Job<'a> {
    pub(crate) fn open(factory: Factory<'a>, keys: &[usize], parallelism: u32) -> Self {
        let clock = StateClock::fixed(0);
        let subtask = |subtask: u32| {
            let of = |group: &u32| KeyGroup(*group as u16).subtask(parallelism, MAX_PARALLELISM) == subtask;
            let groups: Vec<u32> = (0..MAX_PARALLELISM).filter(of).collect();
            let (first, last) = (groups[0] as u16, groups[groups.len() - 1] as u16);
            let key_groups = KeyGroups { max_parallelism: MAX_PARALLELISM, first, last };
            factory(&StateContext { key_groups, clock: clock.clone() })
        };
        let subtasks = (0..parallelism).map(subtask).collect();
        Self { factory, keys: keys.to_vec(), clock, subtasks, databases: Vec::new() }
    }

    /// [`Job::open`] with the state in databases.
    pub(crate) fn stored(factory: Factory<'a>, keys: &[usize], parallelism: u32) -> Self {
        let mut job = Self::open(factory, keys, parallelism);
        job.databases = job.subtasks.iter_mut().map(|subtask| stored_testing::attach(subtask.as_mut())).collect();
        job
    }

    /// Pushes rows in batches of these sizes, what is left one by one; a batch ends where time goes on.
    pub(crate) fn push(&mut self, rows: &[Row], sizes: &[usize], out: &mut Vec<String>) {
        let mut sizes = sizes.iter().copied();
        for of_time in rows.chunk_by(|a, b| a.arrives == b.arrives) {
            self.clock.set(of_time[0].arrives);
            let mut rest = of_time;
            while !rest.is_empty() {
                let (head, tail) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
                rest = tail;
                let parallelism = self.subtasks.len() as u32;
                let owners: Vec<u32> =
                    self.key_groups(head).iter().map(|group| group.subtask(parallelism, MAX_PARALLELISM)).collect();
                for (number, subtask) in (0_u32..).zip(&mut self.subtasks) {
                    let part: Vec<Row> = head
                        .iter()
                        .zip(&owners)
                        .filter(|(_, owner)| **owner == number)
                        .map(|(row, _)| row.clone())
                        .collect();
                    if !part.is_empty() {
                        subtask.push(batch(&part)).unwrap();
                        drain(subtask.as_mut(), out);
                        stored_testing::evict(subtask.as_mut());
                    }
                }
            }
        }
    }

    fn key_groups(&self, rows: &[Row]) -> Vec<KeyGroup> {
        let types: Vec<LogicalType> = self.keys.iter().map(|key| input_type().fields()[*key].ty.clone()).collect();
        let batch = batch(rows);
        let columns: Vec<ArrayRef> = self.keys.iter().map(|key| batch.columns()[*key].clone()).collect();
        let encoder = KeyEncoder::try_new(&types).unwrap();
        encoder.hashes(&columns, rows.len(), &mut KeyRows::new()).unwrap().key_groups(MAX_PARALLELISM).collect()
    }

    /// The job at another parallelism, restored from a snapshot.
    pub(crate) fn restored(&mut self, parallelism: u32) -> Job<'a> {
        let open = if self.databases.is_empty() { Job::open } else { Job::stored };
        let mut job = open(self.factory, &self.keys, parallelism);
        for subtask in &mut self.subtasks {
            let Some(state) = subtask.state() else { continue };
            let snapshot = state.snapshot();
            for sections in snapshot.key_groups().into_iter().map(|group| sections(snapshot.as_ref(), group)) {
                let owner = sections.key_group.subtask(parallelism, MAX_PARALLELISM) as usize;
                job.subtasks[owner].state().unwrap().restore(&sections).unwrap();
            }
        }
        job
    }
}

/// What comes back from a savepoint.
pub(crate) fn sections(snapshot: &dyn StateSnapshot, key_group: KeyGroup) -> Sections {
    let sections = snapshot.sections(key_group).unwrap();
    let deadline = snapshot.deadline(key_group);
    let payload = Sections {
        key_group,
        format_version: FormatVersion::Asynchronous,
        processing_time_deadline: deadline,
        sections,
    };
    let payload = payload.encode().unwrap();
    let container = Container::encode("uid/rows", FormatVersion::Asynchronous, deadline, &payload).unwrap();
    let (header, payload) = container.decode(Some(key_group), "uid/rows").unwrap();
    Sections::decode(&payload, &header, Some(key_group)).unwrap()
}

/// Where a run is cut.
#[derive(Debug, Clone)]
pub(crate) struct Cuts {
    sizes: Vec<usize>,
    restores: Vec<(u32, prop::sample::Index)>,
    /// Whether the state lies in databases.
    stored: bool,
}

pub(crate) fn cuts() -> impl Strategy<Value = Cuts> {
    let sizes = prop::collection::vec(1_usize..30, 0..20);
    let restores = prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 1..4);
    (sizes, restores, any::<bool>()).prop_map(|(sizes, restores, stored)| Cuts { sizes, restores, stored })
}

/// Claims that a run gives `expected`: in batches of any size, and row by row restored and rescaled on the way.
pub(crate) fn check(
    factory: Factory<'_>,
    keys: &[usize],
    rows: &[Row],
    cuts: &Cuts,
    expected: &[String],
) -> Result<(), TestCaseError> {
    let mut out = Vec::new();
    let mut job = if cuts.stored { Job::stored(factory, keys, 1) } else { Job::open(factory, keys, 1) };
    job.push(rows, &cuts.sizes, &mut out);
    prop_assert_eq!(&out, expected, "in batches");
    let mut places: Vec<usize> = cuts.restores.iter().map(|(_, at)| at.index(rows.len() + 1)).collect();
    places.sort_unstable();
    let (mut out, mut done) = (Vec::new(), 0);
    let mut job = if cuts.stored { Job::stored(factory, keys, 1) } else { Job::open(factory, keys, 1) };
    for ((parallelism, _), place) in cuts.restores.iter().zip(&places) {
        job.push(&rows[done..*place], &[], &mut out);
        done = *place;
        job = job.restored(*parallelism);
    }
    job.push(&rows[done..], &[], &mut out);
    prop_assert_eq!(&out, expected, "restored and rescaled at {:?}, from databases: {}", places, cuts.stored);
    Ok(())
}

/// Claims that a run that is restored at any one row gives `expected`.
pub(crate) fn check_every_restore(factory: Factory<'_>, keys: &[usize], rows: &[Row], expected: &[String]) {
    for at in 0..=rows.len() {
        let mut out = Vec::new();
        let mut job = Job::open(factory, keys, 1);
        job.push(&rows[..at], &[3, 5], &mut out);
        job.restored(1).push(&rows[at..], &[4], &mut out);
        assert_eq!(out, expected, "restored at row {at}");
    }
}

/// A subtask that is alone.
pub(crate) fn context() -> StateContext {
    StateContext { key_groups: KeyGroups::all(MAX_PARALLELISM), clock: StateClock::fixed(0) }
}
