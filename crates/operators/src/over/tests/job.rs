//! One operator at some parallelism, cut into batches, restored and rescaled.

use streamfusion_row::KeyGroup;
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_state::KeyGroups;
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::rocksdb::testing::TestDatabase;

use super::*;
use crate::stored_testing;

const MAX_PARALLELISM: u32 = 16;

pub(super) struct Job {
    spec: node::OverAggregate,
    attribute: TimeAttribute,
    clock: StateClock,
    subtasks: Vec<OverAggregate>,
    now: i64,
    /// Late rows of the jobs before it.
    late_before: u64,
    /// That of the subtasks, if their state lies in one. It goes behind them.
    database: Option<TestDatabase>,
}

pub(super) type Output = Vec<(Option<i64>, String)>;

impl Job {
    pub(super) fn open(spec: &node::OverAggregate, attribute: TimeAttribute, parallelism: u32) -> Self {
        let clock = StateClock::fixed(0);
        let open = |subtask: u32| {
            let of = |group: &u32| KeyGroup(*group as u16).subtask(parallelism, MAX_PARALLELISM) == subtask;
            let groups: Vec<u32> = (0..MAX_PARALLELISM).filter(of).collect();
            let (first, last) = (groups[0] as u16, groups[groups.len() - 1] as u16);
            let key_groups = KeyGroups { max_parallelism: MAX_PARALLELISM, first, last };
            let context = StateContext { key_groups, clock: clock.clone() };
            OverAggregate::try_new(spec, &input_type(attribute), &context).unwrap()
        };
        let subtasks = (0..parallelism).map(open).collect();
        Self { spec: spec.clone(), attribute, clock, subtasks, now: 0, late_before: 0, database: None }
    }

    /// The job, which has not begun, with its state in a database.
    pub(super) fn stored(mut self) -> Self {
        let database = stored_testing::database();
        self.subtasks.iter_mut().for_each(|subtask| stored_testing::attach_to(subtask, &database));
        self.database = Some(database);
        self
    }

    /// Rows go in batches of these sizes, what is left one by one.
    pub(super) fn run(&mut self, events: &[Event], sizes: &[usize], out: &mut Output) {
        let mut sizes = sizes.iter().copied();
        let mut rows: Vec<Row> = Vec::new();
        let mut size = sizes.next().unwrap_or(1);
        for event in events {
            if let Event::Row(row) = event {
                rows.push(row.clone());
                if rows.len() == size {
                    self.push(&std::mem::take(&mut rows), out);
                    size = sizes.next().unwrap_or(1);
                }
                continue;
            }
            self.push(&std::mem::take(&mut rows), out);
            match event {
                Event::Clock(now) => {
                    self.now = *now;
                    self.clock.set(*now);
                    self.tell_time(out);
                }
                Event::Watermark(watermark) => {
                    for subtask in &mut self.subtasks {
                        assert_eq!(subtask.watermark(*watermark).unwrap(), Some(*watermark));
                        drain(subtask, out);
                    }
                }
                Event::Row(_) => {}
            }
        }
        self.push(&rows, out);
    }

    fn tell_time(&mut self, out: &mut Output) {
        for subtask in &mut self.subtasks {
            if subtask.timer().is_some() {
                subtask.processing_time(self.now).unwrap();
                drain(subtask, out);
                assert!(subtask.timer().unwrap() > self.now, "a timer that stays due");
            }
        }
    }

    fn push(&mut self, rows: &[Row], out: &mut Output) {
        if rows.is_empty() {
            return;
        }
        self.tell_time(out);
        let parallelism = self.subtasks.len() as u32;
        let owners: Vec<u32> =
            self.key_groups(rows).iter().map(|group| group.subtask(parallelism, MAX_PARALLELISM)).collect();
        for (number, subtask) in (0_u32..).zip(&mut self.subtasks) {
            let part = rows.iter().zip(&owners).filter(|(_, owner)| **owner == number);
            let part: Vec<Row> = part.map(|(row, _)| row.clone()).collect();
            if !part.is_empty() {
                subtask.push(batch(&part)).unwrap();
                drain(subtask, out);
                stored_testing::evict(subtask);
            }
        }
    }

    fn key_groups(&self, rows: &[Row]) -> Vec<KeyGroup> {
        let keys = self.spec.partition.iter();
        let types: Vec<LogicalType> =
            keys.clone().map(|key| input_type(self.attribute).fields()[*key].ty.clone()).collect();
        let batch = batch(rows);
        let columns: Vec<ArrayRef> = keys.map(|key| batch.columns()[*key].clone()).collect();
        let encoder = KeyEncoder::try_new(&types).unwrap();
        encoder.hashes(&columns, rows.len(), &mut KeyRows::new()).unwrap().key_groups(MAX_PARALLELISM).collect()
    }

    /// Rows that came too late.
    pub(super) fn late(&self) -> u64 {
        self.late_before + self.subtasks.iter().map(|subtask| subtask.late_rows().unwrap_or_default()).sum::<u64>()
    }

    /// A checkpoint, after which the job goes on.
    pub(super) fn checkpoint(&mut self) -> Vec<Sections> {
        let mut all = Vec::new();
        for subtask in &mut self.subtasks {
            subtask.flush(FlushReason::Checkpoint).unwrap();
            assert!(subtask.pull().unwrap().is_none());
            subtask.write_back().unwrap();
            let snapshot = subtask.snapshot();
            for group in snapshot.key_groups() {
                all.push(through_bytes(Sections {
                    key_group: group,
                    format_version: FormatVersion::Asynchronous,
                    processing_time_deadline: snapshot.deadline(group),
                    sections: snapshot.sections(group).unwrap(),
                }));
            }
        }
        all
    }

    /// The job at another parallelism, restored from a checkpoint. Watermarks begin anew.
    pub(super) fn restored(&mut self, parallelism: u32) -> Self {
        let sections = self.checkpoint();
        let mut job = Self::open(&self.spec, self.attribute, parallelism);
        (job.now, job.late_before) = (self.now, self.late());
        job.clock.set(self.now);
        if let Some(database) = self.database.take() {
            self.subtasks.clear();
            job.subtasks.iter_mut().for_each(|subtask| stored_testing::attach_to(subtask, &database));
            job.database = Some(database);
            return job;
        }
        for sections in sections {
            let owner = sections.key_group.subtask(parallelism, MAX_PARALLELISM) as usize;
            job.subtasks[owner].restore(&sections).unwrap();
        }
        job
    }

    /// Keys that something is kept of.
    pub(super) fn keys(&self) -> usize {
        self.subtasks.iter().map(|subtask| subtask.table.len()).sum()
    }
}

/// What comes back from a savepoint.
fn through_bytes(sections: Sections) -> Sections {
    let deadline = sections.processing_time_deadline;
    let payload = sections.encode().unwrap();
    let container = Container::encode("uid/over", FormatVersion::Asynchronous, deadline, &payload).unwrap();
    let (header, payload) = container.decode(Some(sections.key_group), "uid/over").unwrap();
    Sections::decode(&payload, &header, Some(sections.key_group)).unwrap()
}
