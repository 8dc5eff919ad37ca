//! What the tests of windows of keys share: rows, watermarks and the clock; a model; jobs that are cut into batches, restored and
//! rescaled.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

mod model;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMillisecondArray, UInt8Array,
};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimestampMillisecondType};
use proptest::prelude::*;
use streamfusion_plan::node::{AggCall, ShiftZone, WindowProperty};
use streamfusion_plan::rex::Function;
use streamfusion_plan::types::{Field, LogicalType, TimeAttribute, TypeKind};
use streamfusion_plan::zone::ZoneRules;
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_row::{Batch, KeyGroup};
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{KeyGroups, StateClock, StateContext, StateSnapshot};

use self::model::Model;
use crate::window::WindowZone;
use crate::{OUTPUT_BATCH_ROWS, Operator, OperatorError, stored_testing};

/// How rows get windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Windowing {
    Session(i64),
    Attached,
    Tumble(i64),
    Hop(i64, i64),
}

/// What goes out of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Output {
    Aggregates,
    /// The rows themselves, with the window.
    Rows,
}

/// What is tested.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) windowing: Windowing,
    pub(crate) output: Output,
    /// Time as for GROUP BY with a window in it and for table functions.
    pub(crate) legacy: bool,
    pub(crate) rowtime: bool,
    pub(crate) retracts: bool,
    /// The rules of the zone, if time is shifted.
    pub(crate) zone: Option<&'static str>,
    /// Key columns.
    pub(crate) keys: Vec<usize>,
}

impl Setting {
    pub(crate) fn shift_zone(&self) -> ShiftZone {
        self.zone.map_or(ShiftZone::Utc, |rules| ShiftZone::Zone(ZoneRules::read(rules).unwrap()))
    }

    fn zone(&self) -> WindowZone {
        WindowZone::new(&self.shift_zone())
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) kind: u8,
    pub(crate) key: Option<i64>,
    pub(crate) text: Option<&'static str>,
    pub(crate) value: Option<i32>,
    pub(crate) real: Option<f64>,
    pub(crate) flag: Option<bool>,
    /// Row time.
    pub(crate) time: i64,
    /// The window that is attached.
    pub(crate) window: (i64, i64),
}

/// What happens to a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Row(Row),
    /// A watermark.
    Watermark(i64),
    /// Processing time.
    Clock(i64),
    /// A checkpoint, from which the job goes on at this parallelism.
    Restore(u32),
}

pub(crate) const KEY: usize = 0;
pub(crate) const TEXT: usize = 1;
const VALUE: usize = 2;
const REAL: usize = 3;
const FLAG: usize = 4;
pub(crate) const TIME: usize = 5;
pub(crate) const START: usize = 6;
pub(crate) const END: usize = 7;

pub(crate) fn input_type(setting: &Setting) -> LogicalType {
    let time = match setting.zone {
        None => TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Rowtime },
        Some(_) => TypeKind::TimestampLtz { precision: 3, attribute: TimeAttribute::Rowtime },
    };
    let local = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Regular };
    let text = TypeKind::VarChar(i32::MAX as u32);
    let kinds =
        [TypeKind::BigInt, text, TypeKind::Integer, TypeKind::Double, TypeKind::Boolean, time, local.clone(), local];
    let ty = |kind| LogicalType { kind, nullable: true };
    let fields = kinds.into_iter().enumerate().map(|(i, kind)| Field { name: format!("c{i}"), ty: ty(kind) });
    LogicalType { kind: TypeKind::Row(fields.collect()), nullable: false }
}

pub(crate) fn calls(setting: &Setting) -> Vec<AggCall> {
    let extremum = if setting.retracts { ("MAX", VALUE, TypeKind::Integer) } else { ("MIN", REAL, TypeKind::Double) };
    let call = |name: &str, args: &[usize], kind: TypeKind| AggCall {
        name: name.to_owned(),
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        args: args.to_vec(),
        filter: None,
        distinct: false,
        approximate: false,
        ignore_nulls: false,
        need_retraction: setting.retracts,
        ty: LogicalType { kind, nullable: true },
    };
    let distinct = |call: AggCall| AggCall { distinct: true, ..call };
    vec![
        call("COUNT", &[], TypeKind::BigInt),
        call("SUM", &[VALUE], TypeKind::Integer),
        call("SUM", &[REAL], TypeKind::Double),
        call(extremum.0, &[extremum.1], extremum.2),
        distinct(call("COUNT", &[VALUE], TypeKind::BigInt)),
        AggCall { filter: Some(FLAG), ..distinct(call("SUM", &[VALUE], TypeKind::Integer)) },
    ]
}

pub(crate) fn properties() -> Vec<WindowProperty> {
    vec![WindowProperty::Start, WindowProperty::End, WindowProperty::Rowtime, WindowProperty::Proctime]
}

fn batch(rows: &[Row]) -> Batch {
    let times = |of: &dyn Fn(&Row) -> i64| {
        Arc::new(rows.iter().map(|row| Some(of(row))).collect::<TimestampMillisecondArray>()) as ArrayRef
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.text).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.value).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|row| row.real).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>()),
        times(&|row| row.time),
        times(&|row| row.window.0),
        times(&|row| row.window.1),
    ];
    let kinds = rows.iter().any(|row| row.kind != 0);
    let kinds = kinds.then(|| UInt8Array::from_iter_values(rows.iter().map(|row| row.kind)));
    Batch::try_new(columns, rows.len(), kinds).unwrap()
}

fn show(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "NULL".to_owned();
    }
    match array.data_type() {
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
        DataType::Timestamp(..) => array.as_primitive::<TimestampMillisecondType>().value(row).to_string(),
        _ => array.as_string::<i32>().value(row).to_owned(),
    }
}

/// What goes out between two steps, by key; of one key in order.
type Outputs = BTreeMap<String, Vec<String>>;

fn drain(operator: &mut dyn Operator, setting: &Setting, out: &mut Outputs) -> Result<(), OperatorError> {
    let keys = setting.keys.len();
    while let Some(batch) = operator.pull()? {
        if setting.output == Output::Rows {
            take_rows(&batch, &setting.keys, out);
            continue;
        }
        assert!(batch.num_rows() > 0 && batch.kinds().is_none());
        let columns = batch.columns();
        for row in 0..batch.num_rows() {
            let key: Vec<String> = columns[..keys].iter().map(|column| show(column, row)).collect();
            let values: Vec<String> = columns[keys..].iter().map(|column| show(column, row)).collect();
            assert_eq!(values.last().map(String::as_str), Some("NULL"), "the processing time");
            out.entry(key.join(" ")).or_default().push(values[..values.len() - 1].join(" "));
        }
    }
    Ok(())
}

/// Rows with their window, by their key columns.
fn take_rows(batch: &Batch, keys: &[usize], out: &mut Outputs) {
    assert!((1..=OUTPUT_BATCH_ROWS).contains(&batch.num_rows()) && batch.columns().len() == END + 4);
    for row in 0..batch.num_rows() {
        let show = |column: &usize| show(&batch.columns()[*column], row);
        let key: Vec<String> = keys.iter().map(show).collect();
        let kind = batch.kinds().map_or(0, |kinds| kinds.value(row));
        let values: Vec<String> = [VALUE, REAL, TIME, END + 1, END + 2, END + 3].iter().map(show).collect();
        out.entry(key.join(" ")).or_default().push(format!("{kind} {}", values.join(" ")));
    }
}

/// What [`take_rows`] shows of a row, without the window.
fn shown(row: &Row) -> String {
    let text = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
    let (value, real) = (row.value.map(|value| value.to_string()), row.real.map(|real| format!("{real:?}")));
    format!("{} {} {} {}", row.kind, text(value), text(real), row.time)
}

/// The key of a row as it goes out.
fn key_of(row: &Row, keys: &[usize]) -> String {
    let mut out = String::new();
    for (number, key) in keys.iter().enumerate() {
        let space = if number == 0 { "" } else { " " };
        match *key {
            KEY => write!(out, "{space}{}", row.key.map_or_else(|| "NULL".to_owned(), |key| key.to_string())),
            _ => write!(out, "{space}{}", row.text.unwrap_or("NULL")),
        }
        .unwrap();
    }
    out
}

/// What goes out with each step, and how many rows were late in the end; shorter than the steps where Flink fails.
pub(crate) fn expected(setting: &Setting, steps: &[Step]) -> (Vec<Outputs>, u64) {
    let mut models: BTreeMap<String, Model<'_>> = BTreeMap::new();
    let (mut watermark, mut now) = (i64::MIN, 0);
    let mut out = Vec::new();
    for step in steps {
        match step {
            Step::Row(row) => {
                let model = models.entry(key_of(row, &setting.keys)).or_insert_with(|| Model::new(setting));
                if model.add(row, watermark, now).is_err() {
                    return (out, 0);
                }
            }
            Step::Watermark(time) => watermark = watermark.max(*time),
            Step::Clock(time) => now = now.max(*time),
            Step::Restore(_) if setting.legacy => watermark = i64::MIN,
            Step::Restore(_) => {}
        }
        let is_row = matches!(step, Step::Row(_));
        let progress = if setting.rowtime { watermark } else { now - 1 };
        let mut outputs = Outputs::new();
        for (key, model) in models.iter_mut().filter(|_| !is_row) {
            let fired: Vec<String> = model.advance(progress).into_iter().map(|(_, row)| row).collect();
            if !fired.is_empty() {
                outputs.insert(key.clone(), fired);
            }
        }
        out.push(outputs);
    }
    (out, models.values().map(|model| model.late).sum())
}

pub(crate) type Factory<'a> = &'a dyn Fn(&Setting, &StateContext) -> Box<dyn Operator>;

const MAX_PARALLELISM: u32 = 128;

/// An operator at some parallelism.
struct Job<'a> {
    factory: Factory<'a>,
    setting: &'a Setting,
    subtasks: Vec<Box<dyn Operator>>,
    now: i64,
    /// Of operators that were replaced.
    late: u64,
    /// That of the subtasks, if their state lies in one. It goes behind them.
    database: Option<TestDatabase>,
}

impl<'a> Job<'a> {
    fn open(factory: Factory<'a>, setting: &'a Setting, parallelism: u32) -> Self {
        let subtask = |subtask: u32| {
            let of = |group: &u32| KeyGroup(*group as u16).subtask(parallelism, MAX_PARALLELISM) == subtask;
            let groups: Vec<u32> = (0..MAX_PARALLELISM).filter(of).collect();
            let (first, last) = (groups[0] as u16, groups[groups.len() - 1] as u16);
            let key_groups = KeyGroups { max_parallelism: MAX_PARALLELISM, first, last };
            factory(setting, &StateContext { key_groups, clock: StateClock::fixed(0) })
        };
        Self { factory, setting, subtasks: (0..parallelism).map(subtask).collect(), now: 0, late: 0, database: None }
    }

    /// The job, which has not begun, with its state in a database.
    fn stored(mut self) -> Self {
        let database = stored_testing::database();
        self.subtasks.iter_mut().for_each(|subtask| stored_testing::attach_to(subtask.as_mut(), &database));
        self.database = Some(database);
        self
    }

    fn each(
        &mut self,
        out: &mut Outputs,
        mut act: impl FnMut(&mut dyn Operator) -> Result<(), OperatorError>,
    ) -> Result<(), OperatorError> {
        for subtask in &mut self.subtasks {
            act(subtask.as_mut())?;
            drain(subtask.as_mut(), self.setting, out)?;
        }
        Ok(())
    }

    fn push(&mut self, rows: &[Row], out: &mut Outputs) -> Result<(), OperatorError> {
        let now = self.now;
        if !self.setting.rowtime {
            self.each(out, |subtask| subtask.processing_time(now).map(drop))?;
        }
        let parallelism = self.subtasks.len() as u32;
        let owners: Vec<u32> =
            self.key_groups(rows).iter().map(|group| group.subtask(parallelism, MAX_PARALLELISM)).collect();
        for (number, subtask) in (0_u32..).zip(&mut self.subtasks) {
            let owned = rows.iter().zip(&owners).filter(|(_, owner)| **owner == number);
            let part: Vec<Row> = owned.map(|(row, _)| row.clone()).collect();
            if !part.is_empty() {
                subtask.push(batch(&part))?;
                drain(subtask.as_mut(), self.setting, out)?;
            }
        }
        Ok(())
    }

    fn key_groups(&self, rows: &[Row]) -> Vec<KeyGroup> {
        let input = input_type(self.setting);
        let keys = &self.setting.keys;
        let types: Vec<LogicalType> = keys.iter().map(|key| input.fields()[*key].ty.clone()).collect();
        let batch = batch(rows);
        let columns: Vec<ArrayRef> = keys.iter().map(|key| batch.columns()[*key].clone()).collect();
        let encoder = KeyEncoder::try_new(&types).unwrap();
        encoder.hashes(&columns, rows.len(), &mut KeyRows::new()).unwrap().key_groups(MAX_PARALLELISM).collect()
    }

    fn restored(&mut self, parallelism: u32) -> Job<'a> {
        let mut job = Job::open(self.factory, self.setting, parallelism);
        job.now = self.now;
        job.late = self.late + self.late_rows();
        let progress = self.subtasks.iter().filter_map(|subtask| subtask.progress()).min();
        if let Some(database) = self.database.take() {
            for mut subtask in self.subtasks.drain(..) {
                subtask.state().unwrap().write_back().unwrap();
            }
            job.subtasks.iter_mut().for_each(|subtask| stored_testing::attach_to(subtask.as_mut(), &database));
            job.database = Some(database);
        }
        for subtask in &mut self.subtasks {
            let snapshot = subtask.state().unwrap().snapshot();
            for sections in snapshot.key_groups().into_iter().map(|group| sections(snapshot.as_ref(), group)) {
                let owner = sections.key_group.subtask(parallelism, MAX_PARALLELISM) as usize;
                job.subtasks[owner].state().unwrap().restore(&sections).unwrap();
            }
        }
        if let Some(progress) = progress {
            job.subtasks.iter_mut().for_each(|subtask| subtask.restore_progress(progress));
        }
        job
    }

    fn late_rows(&self) -> u64 {
        self.subtasks.iter().filter_map(|subtask| subtask.late_rows()).sum()
    }
}

/// What comes back from a savepoint.
fn sections(snapshot: &dyn StateSnapshot, key_group: KeyGroup) -> Sections {
    let payload = Sections {
        key_group,
        format_version: FormatVersion::Asynchronous,
        processing_time_deadline: snapshot.deadline(key_group),
        sections: snapshot.sections(key_group).unwrap(),
    };
    let payload = payload.encode().unwrap();
    let container = Container::encode("uid/rows", FormatVersion::Asynchronous, None, &payload).unwrap();
    let (header, payload) = container.decode(Some(key_group), "uid/rows").unwrap();
    Sections::decode(&payload, &header, Some(key_group)).unwrap()
}

/// Claims that the operator does what the model says, with rows in batches of these sizes, what is left one by one.
pub(crate) fn check(
    factory: Factory<'_>,
    setting: &Setting,
    steps: &[Step],
    sizes: &[usize],
) -> Result<(), TestCaseError> {
    let (expected, late) = expected(setting, steps);
    let fails = expected.len() < steps.len();
    let mut sizes = sizes.iter().copied();
    let mut job = Job::open(factory, setting, 1);
    if steps.len().is_multiple_of(3) {
        job = job.stored();
    }
    let mut place = 0;
    let (mut found, mut wanted) = (Outputs::new(), Outputs::new());
    while place < steps.len() {
        let rows: Vec<Row> = steps[place..]
            .iter()
            .map_while(|step| if let Step::Row(row) = step { Some(row.clone()) } else { None })
            .take(sizes.next().unwrap_or(1).max(1))
            .collect();
        let end = place + rows.len().max(1);
        let result = match &steps[place] {
            Step::Row(_) => job.push(&rows, &mut found),
            Step::Watermark(time) => job.each(&mut found, |subtask| subtask.watermark(*time).map(drop)),
            Step::Clock(time) => {
                job.now = job.now.max(*time);
                let now = job.now;
                job.each(&mut found, |subtask| subtask.processing_time(now).map(drop))
            }
            Step::Restore(parallelism) => {
                job = job.restored(*parallelism);
                Ok(())
            }
        };
        if fails && end > expected.len() {
            prop_assert!(result.is_err(), "Flink fails at step {}", expected.len());
            return Ok(());
        }
        prop_assert!(result.is_ok(), "step {}: {:?}", place, result);
        for outputs in &expected[place..end] {
            for (key, rows) in outputs {
                wanted.entry(key.clone()).or_default().extend(rows.iter().cloned());
            }
        }
        // what was restored fires with the next call
        if !matches!(&steps[place], Step::Restore(_)) {
            if setting.zone.is_some() {
                // windows of one key may be due at once, in no order
                found.values_mut().chain(wanted.values_mut()).for_each(|rows| rows.sort());
            }
            prop_assert_eq!(&found, &wanted, "behind step {}", place);
            found.clear();
            wanted.clear();
        }
        place = end;
    }
    prop_assert_eq!(job.late + job.late_rows(), late, "late rows");
    Ok(())
}

/// Rows that come about in the order of their time, with watermarks behind them, the clock and checkpoints.
pub(crate) fn steps(retracts: bool, spread: i64, base: i64) -> impl Strategy<Value = Vec<Step>> {
    let kind =
        if retracts { prop::sample::select(vec![0_u8, 0, 0, 1, 2, 3]) } else { prop::sample::select(vec![0_u8]) };
    let real = prop::sample::select(vec![0.0, -0.0, f64::NAN, 0.1, 1e16, -1e16, 2.5]);
    let value = (
        kind,
        prop::option::weighted(0.9, 0_i64..4),
        prop::option::of(prop::sample::select(vec!["a", "b", ""])),
        prop::option::weighted(0.8, prop_oneof![3 => -2_i32..4, 1 => Just(i32::MAX)]),
        prop::option::weighted(0.8, real),
        prop::option::weighted(0.8, any::<bool>()),
        (-spread / 6..spread / 30, 0..spread / 20),
    );
    let step = prop_oneof![
        12 => value.prop_map(Some),
        3 => Just(None),
    ];
    let tail = (0_u8..8, 0..spread / 12, 1_u32..4);
    prop::collection::vec((step, tail), 0..90).prop_map(move |parts| {
        let (mut time, mut now) = (base, base.max(0));
        let mut steps = Vec::new();
        for (row, (what, later, parallelism)) in parts {
            match row {
                Some((kind, key, text, value, real, flag, (apart, length))) => {
                    time += later / 4;
                    let own = time + apart;
                    let start = own - own.rem_euclid((spread / 8).max(1));
                    let window = (start, start + (spread / 10).max(1) + length / (spread / 20).max(1));
                    steps.push(Step::Row(Row { kind, key, text, value, real, flag, time: own, window }));
                }
                None => match what {
                    0..=3 => steps.push(Step::Watermark(time - spread / 10 + later)),
                    4..=6 => {
                        now += later;
                        steps.push(Step::Clock(now));
                    }
                    _ => steps.push(Step::Restore(parallelism)),
                },
            }
        }
        steps
    })
}

/// Zones where no window is due before the row that opens it has come, as happens with daylight saving time and jumps at odd hours.
pub(crate) fn zones_of_the_clock() -> impl Strategy<Value = Option<&'static str>> {
    zones().prop_map(|zone| zone.filter(|rules| !rules.contains("|1|")))
}

/// Zones: none, one that jumps ahead by an hour and back, and one that does so by half an hour, with daylight saving time and without.
pub(crate) fn zones() -> impl Strategy<Value = Option<&'static str>> {
    prop::sample::select(vec![
        None,
        Some("Test/Hour|1|0|4,3600;9000,0|"),
        Some("Test/Hour|0|0|4,3600;9000,0|"),
        Some("Test/Half|1|3600|7,5400;7200,3600|"),
        Some("Test/Day|0|-36000|10,50400|"),
    ])
}
