//! What the tests of operators over rows with a window share: events, and jobs that are cut into batches, restored and rescaled.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use proptest::prelude::*;
use streamfusion_plan::node::{ShiftZone, WindowSpec, Windowing, WindowingStrategy};
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_plan::zone::ZoneRules;
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_row::{Batch, KeyGroup};
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{KeyGroups, StateClock, StateContext, StateSnapshot};

use crate::{OUTPUT_BATCH_ROWS, Operator, Residence, stored_testing};

const MAX_PARALLELISM: u32 = 128;

/// Columns of a row: its number, a key, a text, row time, window end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// 0 for the first input, 1 for the second.
    pub(crate) side: usize,
    pub(crate) id: i64,
    pub(crate) k: Option<i64>,
    pub(crate) v: Option<String>,
    pub(crate) t: Option<i64>,
    pub(crate) end: Option<i64>,
}

impl Row {
    pub(crate) fn show(&self) -> String {
        let number = |number: Option<i64>| number.map_or_else(|| "NULL".to_owned(), |number| number.to_string());
        let v = self.v.as_deref().unwrap_or("NULL");
        format!("{} {} {v} {} {}", self.id, number(self.k), number(self.t), number(self.end))
    }

    pub(crate) fn key(&self, columns: &[usize]) -> String {
        columns
            .iter()
            .map(|column| if *column == 1 { format!("{:?}/", self.k) } else { format!("{:?}/", self.v) })
            .collect()
    }

    /// What Flink reads as the end of its window.
    pub(crate) fn window(&self) -> i64 {
        self.end.unwrap_or(0)
    }
}

/// `id k v t end` of the first input.
pub(crate) fn row(text: &str) -> Event {
    let parts: Vec<&str> = text.split(' ').collect();
    let number = |place: usize| (parts[place] != "NULL").then(|| parts[place].parse().unwrap());
    let v = (parts[2] != "NULL").then(|| parts[2].to_owned());
    Event::Row(Row { side: 0, id: number(0).unwrap(), k: number(1), v, t: number(3), end: number(4) })
}

/// The same of the second input.
pub(crate) fn second(text: &str) -> Event {
    match row(text) {
        Event::Row(row) => Event::Row(Row { side: 1, ..row }),
        watermark @ Event::Watermark(_) => watermark,
    }
}

/// What comes in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Row(Row),
    Watermark(i64),
}

/// Rows of few keys in a few windows, with watermarks between them that go back now and then.
pub(crate) fn events(sides: usize) -> impl Strategy<Value = Vec<Event>> {
    let text = prop_oneof![2 => Just(None), 5 => "[abc]{1,2}".prop_map(Some)];
    let end = prop_oneof![9 => (0_i64..6).prop_map(|end| Some(10 * end)), 1 => Just(None)];
    let time = prop::option::weighted(0.9, -3_i64..4);
    let row = (0..sides, prop::option::weighted(0.9, 0_i64..4), text, time, end);
    let event = prop_oneof![
        14 => row.prop_map(Ok),
        1 => (-20_i64..60).prop_map(Err),
    ];
    (prop::collection::vec(event, 0..120), any::<bool>()).prop_map(|(events, ends)| {
        let event = |(id, event)| match event {
            Ok((side, k, v, t, end)) => Event::Row(Row { side, id, k, v, t, end }),
            Err(watermark) => Event::Watermark(watermark),
        };
        let mut events: Vec<Event> = (0..).zip(events).map(event).collect();
        if ends {
            events.push(Event::Watermark(i64::MAX));
        }
        events
    })
}

pub(crate) fn input_type() -> LogicalType {
    let time = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Regular };
    let kinds = [TypeKind::BigInt, TypeKind::BigInt, TypeKind::VarChar(i32::MAX as u32), time.clone(), time];
    let ty = |kind| LogicalType { kind, nullable: true };
    let fields = kinds.into_iter().enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: ty(kind) });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

/// Attached windows whose end is the last column.
pub(crate) fn windowing(zone: ShiftZone) -> Windowing {
    let kind = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime };
    Windowing {
        strategy: WindowingStrategy::WindowAttached { start: None, end: 4 },
        window: WindowSpec::Tumbling { size_ms: 10, offset_ms: 0 },
        time_attribute: LogicalType { kind, nullable: true },
        is_rowtime: true,
        zone,
    }
}

/// UTC and a zone that is a few seconds ahead.
pub(crate) fn zones() -> impl Strategy<Value = ShiftZone> {
    prop_oneof![3 => Just(ShiftZone::Utc), 1 => Just(ShiftZone::Zone(ZoneRules::fixed("+00:00:01", 1)))]
}

pub(crate) fn batch(rows: &[Row]) -> Batch {
    let numbers = |of: fn(&Row) -> Option<i64>| Arc::new(rows.iter().map(of).collect::<Int64Array>());
    let times = |of: fn(&Row) -> Option<i64>| Arc::new(rows.iter().map(of).collect::<TimestampMillisecondArray>());
    let columns: Vec<ArrayRef> = vec![
        numbers(|row| Some(row.id)),
        numbers(|row| row.k),
        Arc::new(rows.iter().map(|row| row.v.as_deref()).collect::<StringArray>()),
        times(|row| row.t),
        times(|row| row.end),
    ];
    Batch::try_new(columns, rows.len(), None).unwrap()
}

fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        "NULL".to_owned()
    } else if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        numbers.value(row).to_string()
    } else if let Some(times) = column.as_primitive_opt::<TimestampMillisecondType>() {
        times.value(row).to_string()
    } else {
        column.as_string::<i32>().value(row).to_owned()
    }
}

pub(crate) fn drain(operator: &mut dyn Operator, out: &mut Vec<String>) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!((1..=OUTPUT_BATCH_ROWS).contains(&batch.num_rows()) && batch.kinds().is_none());
        for row in 0..batch.num_rows() {
            out.push(batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" "));
        }
    }
}

pub(crate) type Factory<'a> = &'a dyn Fn(&StateContext) -> Box<dyn Operator>;

/// An operator at some parallelism.
pub(crate) struct Job<'a> {
    factory: Factory<'a>,
    keys: Vec<usize>,
    subtasks: Vec<Box<dyn Operator>>,
    /// Of the subtasks of jobs that this one was restored from.
    late_rows_before: u64,
    /// Those of the subtasks, if their state lies in some.
    databases: Vec<TestDatabase>,
}

impl<'a> Job<'a> {
    pub(crate) fn open(factory: Factory<'a>, keys: &[usize], parallelism: u32) -> Self {
        let subtask = |subtask: u32| {
            let of = |group: &u32| KeyGroup(*group as u16).subtask(parallelism, MAX_PARALLELISM) == subtask;
            let groups: Vec<u32> = (0..MAX_PARALLELISM).filter(of).collect();
            let (first, last) = (groups[0] as u16, groups[groups.len() - 1] as u16);
            let key_groups = KeyGroups { max_parallelism: MAX_PARALLELISM, first, last };
            factory(&StateContext { key_groups, clock: StateClock::fixed(0) })
        };
        let subtasks = (0..parallelism).map(subtask).collect();
        Self { factory, keys: keys.to_vec(), subtasks, late_rows_before: 0, databases: Vec::new() }
    }

    /// [`Job::open`] at parallelism 1 with the state in a database.
    pub(crate) fn stored(factory: Factory<'a>, keys: &[usize]) -> Self {
        let mut job = Self::open(factory, keys, 1);
        job.databases = vec![stored_testing::attach(job.subtasks[0].as_mut())];
        job
    }

    /// The job of [`Job::stored`] on what its database has.
    pub(crate) fn reopened(mut self) -> Self {
        self.subtasks[0].state().unwrap().write_back().unwrap();
        let mut job = Self::open(self.factory, &self.keys, 1);
        job.late_rows_before = self.late_rows();
        stored_testing::attach_to(job.subtasks[0].as_mut(), &self.databases[0]);
        if let Some(progress) = self.subtasks[0].progress() {
            job.subtasks[0].restore_progress(progress);
        }
        // the operator that is no more goes before its database
        self.subtasks.clear();
        job.databases = std::mem::take(&mut self.databases);
        job
    }

    /// Takes events, rows in batches of these sizes, what is left one by one; a batch ends in front of a watermark.
    pub(crate) fn run(&mut self, events: &[Event], sizes: &[usize], out: &mut Vec<String>) {
        let mut sizes = sizes.iter().copied();
        let mut rest = events;
        while let Some(first) = rest.first() {
            match first {
                Event::Watermark(watermark) => {
                    for subtask in &mut self.subtasks {
                        let goes_on = subtask.watermark(*watermark).unwrap();
                        assert!(goes_on.is_some_and(|goes_on| goes_on >= *watermark));
                        drain(subtask.as_mut(), out);
                    }
                    rest = &rest[1..];
                }
                Event::Row(Row { side, .. }) => {
                    let size = sizes.next().unwrap_or(1);
                    let of_batch = |event: &&Event| matches!(event, Event::Row(row) if row.side == *side);
                    let rows: Vec<Row> = rest
                        .iter()
                        .take(size)
                        .take_while(of_batch)
                        .map(|event| match event {
                            Event::Row(row) => row.clone(),
                            Event::Watermark(_) => unreachable!(),
                        })
                        .collect();
                    rest = &rest[rows.len()..];
                    self.push(*side, &rows, out);
                }
            }
        }
    }

    fn push(&mut self, side: usize, rows: &[Row], out: &mut Vec<String>) {
        let parallelism = self.subtasks.len() as u32;
        let owners: Vec<u32> =
            self.key_groups(rows).iter().map(|group| group.subtask(parallelism, MAX_PARALLELISM)).collect();
        for (number, subtask) in (0_u32..).zip(&mut self.subtasks) {
            let of_subtask = rows.iter().zip(&owners).filter(|(_, owner)| **owner == number);
            let part: Vec<Row> = of_subtask.map(|(row, _)| row.clone()).collect();
            if !part.is_empty() {
                let push = if side == 0 { subtask.push(batch(&part)) } else { subtask.push_second(batch(&part)) };
                push.unwrap();
                drain(subtask.as_mut(), out);
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
        let mut job = Job::open(self.factory, &self.keys, parallelism);
        job.late_rows_before = self.late_rows();
        if let Some(progress) = self.subtasks.iter().filter_map(|subtask| subtask.progress()).min() {
            job.subtasks.iter_mut().for_each(|subtask| subtask.restore_progress(progress));
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

    /// Rows that were too late.
    pub(crate) fn late_rows(&self) -> u64 {
        self.late_rows_before
            + self.subtasks.iter().flat_map(|subtask| subtask.dropped_rows().counts()).flatten().sum::<u64>()
    }

    /// Whether there is no state left.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.subtasks.iter_mut().all(|subtask| subtask.state().unwrap().snapshot().key_groups().is_empty())
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

/// What a run of a model comes to.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    pub(crate) out: Vec<String>,
    pub(crate) late_rows: u64,
    /// Whether there is state behind the last watermark.
    pub(crate) leaves_state: bool,
}

/// Where a run is cut.
#[derive(Debug, Clone)]
pub(crate) struct Cuts {
    sizes: Vec<usize>,
    restores: Vec<(u32, prop::sample::Index)>,
}

pub(crate) fn cuts() -> impl Strategy<Value = Cuts> {
    let sizes = prop::collection::vec(1_usize..40, 0..20);
    (sizes, prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 1..4))
        .prop_map(|(sizes, restores)| Cuts { sizes, restores })
}

/// The rows of each key, in order. Every row of output has the number of one of the events in column 0 or behind the columns of the first
/// input.
fn by_key(out: &[String], keys: &[usize], events: &[Event]) -> BTreeMap<String, Vec<String>> {
    let mut lists: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for shown in out {
        let mut ids = shown.split(' ').step_by(input_type().fields().len()).filter_map(|id| id.parse::<i64>().ok());
        let id = ids.next().unwrap();
        let of_id = |event: &&Event| matches!(event, Event::Row(row) if row.id == id);
        let Some(Event::Row(row)) = events.iter().find(of_id) else { unreachable!() };
        lists.entry(row.key(keys)).or_default().push(shown.clone());
    }
    lists
}

/// Claims that a run gives what `model` says, which gets the events and where the job is restored: in batches of any size, and row by row
/// restored and rescaled on the way.
pub(crate) fn check(
    factory: Factory<'_>,
    keys: &[usize],
    events: &[Event],
    cuts: &Cuts,
    model: impl Fn(&[&[Event]]) -> Expected,
) -> Result<(), TestCaseError> {
    let mut out = Vec::new();
    let mut job = Job::open(factory, keys, 1);
    job.run(events, &cuts.sizes, &mut out);
    let expected = model(&[events]);
    prop_assert_eq!(&out, &expected.out, "in batches");
    prop_assert_eq!(job.late_rows(), expected.late_rows);
    if events.last() == Some(&Event::Watermark(i64::MAX)) && !expected.leaves_state {
        prop_assert!(job.is_empty());
    }

    let mut places: Vec<usize> = cuts.restores.iter().map(|(_, at)| at.index(events.len() + 1)).collect();
    places.sort_unstable();
    let (mut out, mut done) = (Vec::new(), 0);
    let mut job = Job::open(factory, keys, 1);
    let mut parts = Vec::new();
    for ((parallelism, _), place) in cuts.restores.iter().zip(&places) {
        // without keys all rows are on one subtask
        let parallelism = if keys.is_empty() { 1 } else { *parallelism };
        parts.push(&events[done..*place]);
        job.run(&events[done..*place], &[2, 9], &mut out);
        done = *place;
        job = job.restored(parallelism);
    }
    parts.push(&events[done..]);
    job.run(&events[done..], &[3], &mut out);
    let expected = model(&parts);
    let (out, of_model) = (by_key(&out, keys, events), by_key(&expected.out, keys, events));
    prop_assert_eq!(out, of_model, "restored and rescaled at {:?}", places);
    prop_assert_eq!(job.late_rows(), expected.late_rows);

    let mut job = Job::stored(factory, keys);
    if events.len().is_multiple_of(3) && job.subtasks[0].residence() != Residence::Memory {
        let (mut out, mut done) = (Vec::new(), 0);
        for place in &places {
            job.run(&events[done..*place], &[2, 9], &mut out);
            done = *place;
            job = job.reopened();
        }
        job.run(&events[done..], &[3], &mut out);
        let (out, of_model) = (by_key(&out, keys, events), by_key(&expected.out, keys, events));
        prop_assert_eq!(out, of_model, "from a database that was reopened at {:?}", places);
        prop_assert_eq!(job.late_rows(), expected.late_rows);
    }
    Ok(())
}

/// Rows by window and key, as they came: what all models have.
pub(crate) type Slots = BTreeMap<i64, Vec<(String, Vec<Row>)>>;

/// Adds a row to those of its window and key.
pub(crate) fn add(slots: &mut Slots, keys: &[usize], row: &Row) {
    let of_window = slots.entry(row.window()).or_default();
    let key = row.key(keys);
    match of_window.iter_mut().find(|(known, _)| *known == key) {
        Some((_, rows)) => rows.push(row.clone()),
        None => of_window.push((key, vec![row.clone()])),
    }
}

/// A subtask that is alone.
pub(crate) fn context() -> StateContext {
    StateContext { key_groups: KeyGroups::all(MAX_PARALLELISM), clock: StateClock::fixed(0) }
}
