//! Joins against a model that follows Flink's operators record by record.
#![allow(clippy::unwrap_used)]

mod changelogs;
mod model;
mod properties;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use streamfusion_plan::node::{self, InputSide, JoinType};
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_row::{Batch, KeyGroup};
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{KeyGroups, StateClock, StateContext, StateSnapshot};

use super::Join;
use super::limits::Limits;
use crate::Operator;
use crate::bundle::FlushReason;
use crate::stored_testing;

const KINDS: [&str; 4] = ["+I", "-U", "+U", "-D"];
const MAX_PARALLELISM: u32 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// What identifies rows of one join key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// There is at most one.
    One,
    /// The column `u`.
    Unique,
    /// Nothing.
    Several,
}

/// A row of an input, with the processing time at which it arrives.
#[derive(Debug, Clone, PartialEq)]
struct Step {
    side: Side,
    kind: u8,
    k: Option<i64>,
    u: i64,
    v: Option<String>,
    arrives: i64,
}

impl Step {
    fn accumulates(&self) -> bool {
        self.kind == 0 || self.kind == 2
    }

    fn show(&self) -> String {
        let k = self.k.map_or_else(|| "NULL".to_owned(), |k| k.to_string());
        format!("{k} {} {}", self.u, self.v.as_deref().unwrap_or("NULL"))
    }
}

/// A join to try.
#[derive(Debug, Clone)]
struct Case {
    join_type: JoinType,
    left: Shape,
    right: Shape,
    keys: Vec<usize>,
    filter_nulls: bool,
    condition: bool,
    left_ttl: i64,
    right_ttl: i64,
    mini_batch: Option<u64>,
    limits: Limits,
}

impl Case {
    fn new(join_type: JoinType, left: Shape, right: Shape) -> Self {
        Self {
            join_type,
            left,
            right,
            keys: vec![0],
            filter_nulls: true,
            condition: false,
            left_ttl: 0,
            right_ttl: 0,
            mini_batch: None,
            limits: Limits::default(),
        }
    }

    /// The size of bundles, where there are any.
    fn bundle(&self) -> Option<u64> {
        let one = self.left == Shape::One && self.right == Shape::One;
        let has_bundles = !matches!(self.join_type, JoinType::Semi | JoinType::Anti);
        self.mini_batch.filter(|_| one && has_bundles)
    }

    fn key(&self, step: &Step) -> String {
        let column = |key: &usize| match key {
            0 => format!("{:?}/", step.k),
            1 => format!("{}/", step.u),
            _ => format!("{:?}/", step.v),
        };
        self.keys.iter().map(column).collect()
    }

    /// Whether rows of one join key match.
    fn matches(&self, left: &Step, right: &Step) -> bool {
        let null = |key: &usize| (*key == 0 && left.k.is_none()) || (*key == 2 && left.v.is_none());
        if self.filter_nulls && self.keys.iter().any(null) {
            return false;
        }
        !self.condition || left.u < right.u
    }

    fn spec(&self) -> node::Join {
        let side = |shape, ttl_ms| InputSide {
            keys: self.keys.clone(),
            upsert_keys: match shape {
                Shape::One => vec![self.keys.clone()],
                Shape::Unique => vec![vec![1]],
                Shape::Several => Vec::new(),
            },
            ttl_ms,
        };
        let bigint = |nullable| LogicalType { kind: TypeKind::BigInt, nullable };
        let condition = || Rex::Call {
            function: Function::BuiltIn { name: "<".to_owned(), version: 1 },
            operands: vec![
                Rex::InputRef { index: 1, ty: bigint(false) },
                Rex::InputRef { index: 4, ty: bigint(false) },
            ],
            ty: LogicalType { kind: TypeKind::Boolean, nullable: true },
        };
        node::Join {
            join_type: self.join_type,
            left: side(self.left, self.left_ttl),
            right: side(self.right, self.right_ttl),
            filter_nulls: vec![self.filter_nulls; self.keys.len()],
            condition: self.condition.then(condition),
            mini_batch_size: self.mini_batch.filter(|_| !matches!(self.join_type, JoinType::Semi | JoinType::Anti)),
        }
    }

    fn open(&self, context: &StateContext) -> Join {
        Join::with_limits(&self.spec(), &input_type(), &input_type(), context, self.limits).unwrap()
    }
}

fn input_type() -> LogicalType {
    let field = |name: &str, kind, nullable| Field { name: name.to_owned(), ty: LogicalType { kind, nullable } };
    let text = TypeKind::VarChar(i32::MAX as u32);
    let fields = [field("k", TypeKind::BigInt, true), field("u", TypeKind::BigInt, false), field("v", text, true)];
    LogicalType { kind: TypeKind::Row(fields.into()), nullable: false }
}

/// `side kind k u v`, for example `L +I 1 10 a`; NULL for `k` or `v` is NULL.
fn step(text: &str) -> Step {
    let parts: Vec<&str> = text.split(' ').collect();
    let [side, kind, k, u, v] = parts.try_into().unwrap();
    let optional = |text: &str| (text != "NULL").then(|| text.to_owned());
    Step {
        side: if side == "L" { Side::Left } else { Side::Right },
        kind: KINDS.iter().position(|known| *known == kind).unwrap() as u8,
        k: optional(k).map(|k| k.parse().unwrap()),
        u: u.parse().unwrap(),
        v: optional(v),
        arrives: 0,
    }
}

fn batch(steps: &[Step]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(steps.iter().map(|step| step.k).collect::<Int64Array>()),
        Arc::new(steps.iter().map(|step| Some(step.u)).collect::<Int64Array>()),
        Arc::new(steps.iter().map(|step| step.v.as_deref()).collect::<StringArray>()),
    ];
    let kinds = steps.iter().any(|step| step.kind != 0);
    let kinds = kinds.then(|| UInt8Array::from_iter_values(steps.iter().map(|step| step.kind)));
    Batch::try_new(columns, steps.len(), kinds).unwrap()
}

fn drain(operator: &mut Join, limits: &Limits, out: &mut Vec<String>) {
    while let Some(batch) = operator.pull().unwrap() {
        assert!(batch.num_rows() > 0 && batch.num_rows() <= limits.output_rows);
        for row in 0..batch.num_rows() {
            let mut text = KINDS[usize::from(batch.kinds().map_or(0, |kinds| kinds.value(row)))].to_owned();
            for column in batch.columns() {
                let value = if column.is_null(row) {
                    "NULL".to_owned()
                } else if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
                    numbers.value(row).to_string()
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

/// A join at some parallelism.
struct Job<'a> {
    case: &'a Case,
    clock: StateClock,
    subtasks: Vec<Join>,
    /// Those of the subtasks, if their state lies in some.
    databases: Vec<TestDatabase>,
}

impl<'a> Job<'a> {
    fn open(case: &'a Case, parallelism: u32) -> Self {
        let clock = StateClock::fixed(0);
        let subtask = |subtask: u32| {
            let of = |group: &u32| KeyGroup(*group as u16).subtask(parallelism, MAX_PARALLELISM) == subtask;
            let groups: Vec<u32> = (0..MAX_PARALLELISM).filter(of).collect();
            let (first, last) = (groups[0] as u16, groups[groups.len() - 1] as u16);
            let key_groups = KeyGroups { max_parallelism: MAX_PARALLELISM, first, last };
            case.open(&StateContext { key_groups, clock: clock.clone() })
        };
        let subtasks = (0..parallelism).map(subtask).collect();
        Self { case, clock, subtasks, databases: Vec::new() }
    }

    /// [`Job::open`] with the state in databases.
    fn stored(case: &'a Case, parallelism: u32) -> Self {
        let mut job = Self::open(case, parallelism);
        job.databases = job.subtasks.iter_mut().map(|subtask| stored_testing::attach(subtask)).collect();
        job
    }

    /// Pushes rows in batches of these sizes, what is left one by one; a batch ends where time goes on or the side changes.
    fn push(&mut self, steps: &[Step], sizes: &[usize], out: &mut Vec<String>) {
        let mut sizes = sizes.iter().copied();
        for run in steps.chunk_by(|a, b| a.arrives == b.arrives && a.side == b.side) {
            self.clock.set(run[0].arrives);
            let mut rest = run;
            while !rest.is_empty() {
                let (head, tail) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
                rest = tail;
                let owners = self.owners(head);
                for (number, subtask) in (0_u32..).zip(&mut self.subtasks) {
                    let part: Vec<Step> = head
                        .iter()
                        .zip(&owners)
                        .filter(|(_, owner)| **owner == number)
                        .map(|(s, _)| s.clone())
                        .collect();
                    if part.is_empty() {
                        continue;
                    }
                    match part[0].side {
                        Side::Left => subtask.push(batch(&part)).unwrap(),
                        Side::Right => subtask.push_second(batch(&part)).unwrap(),
                    }
                    drain(subtask, &self.case.limits, out);
                    stored_testing::evict(subtask);
                }
            }
        }
    }

    fn flush(&mut self, reason: FlushReason, out: &mut Vec<String>) {
        for subtask in &mut self.subtasks {
            subtask.flush(reason).unwrap();
            drain(subtask, &self.case.limits, out);
        }
    }

    fn owners(&self, steps: &[Step]) -> Vec<u32> {
        let types: Vec<LogicalType> = self.case.keys.iter().map(|key| input_type().fields()[*key].ty.clone()).collect();
        let batch = batch(steps);
        let columns: Vec<ArrayRef> = self.case.keys.iter().map(|key| batch.columns()[*key].clone()).collect();
        let encoder = KeyEncoder::try_new(&types).unwrap();
        let hashes = encoder.hashes(&columns, steps.len(), &mut KeyRows::new()).unwrap();
        let parallelism = self.subtasks.len() as u32;
        hashes.key_groups(MAX_PARALLELISM).map(|group| group.subtask(parallelism, MAX_PARALLELISM)).collect()
    }

    /// The job at another parallelism, restored from a savepoint, in front of which the bundle ends.
    fn restored(&mut self, parallelism: u32, out: &mut Vec<String>) -> Job<'a> {
        self.flush(FlushReason::Checkpoint, out);
        let open = if self.databases.is_empty() { Job::open } else { Job::stored };
        let mut job = open(self.case, parallelism);
        job.clock.set(self.clock.now());
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
}

/// What comes back from a savepoint.
fn sections(snapshot: &dyn StateSnapshot, key_group: KeyGroup) -> Sections {
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

/// What comes out of these rows, in batches of these sizes.
fn run(case: &Case, steps: &[Step], sizes: &[usize]) -> Vec<String> {
    let run = |mut job: Job<'_>| {
        let mut out = Vec::new();
        job.push(steps, sizes, &mut out);
        job.flush(FlushReason::EndOfInput, &mut out);
        out
    };
    let out = run(Job::open(case, 1));
    if steps.len().is_multiple_of(4) {
        assert_eq!(run(Job::stored(case, 1)), out, "from a database");
    }
    out
}

/// What the model says.
fn expected(case: &Case, steps: &[Step]) -> Vec<String> {
    let mut model = model::Model::new(case);
    steps.iter().for_each(|step| model.push(step));
    model.flush();
    model.out
}

fn context() -> StateContext {
    StateContext { key_groups: KeyGroups::all(MAX_PARALLELISM), clock: StateClock::fixed(0) }
}
