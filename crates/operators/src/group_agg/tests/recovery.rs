//! Snapshots, restore and rescaling: a run that was interrupted equals one that was not.

use proptest::prelude::*;
use streamfusion_row::KeyGroup;
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::{RestoreError, StateSnapshot};

use super::properties::case;
use super::*;
use crate::bundle::FlushReason;
use crate::stored_testing;

/// Key groups of each of `parallelism` subtasks, as Flink assigns them.
fn subtasks(parallelism: u32, max_parallelism: u32) -> Vec<KeyGroups> {
    (0..parallelism)
        .map(|subtask| {
            let of = |group: &u32| KeyGroup(*group as u16).subtask(parallelism, max_parallelism) == subtask;
            let groups: Vec<u32> = (0..max_parallelism).filter(of).collect();
            KeyGroups { max_parallelism, first: groups[0] as u16, last: groups[groups.len() - 1] as u16 }
        })
        .collect()
}

/// One operator at some parallelism.
pub(super) struct Job {
    spec: GroupAggregate,
    clock: StateClock,
    max_parallelism: u32,
    subtasks: Vec<GroupAgg>,
    /// Those of the subtasks, if their state lies in some.
    databases: Vec<TestDatabase>,
}

impl Job {
    pub(super) fn open(spec: &GroupAggregate, clock: &StateClock, parallelism: u32, max_parallelism: u32) -> Self {
        let subtasks = subtasks(parallelism, max_parallelism)
            .into_iter()
            .map(|key_groups| {
                let context = StateContext { key_groups, clock: clock.clone() };
                GroupAgg::try_new(spec, &input_type(), &context).unwrap()
            })
            .collect();
        Self { spec: spec.clone(), clock: clock.clone(), max_parallelism, subtasks, databases: Vec::new() }
    }

    /// [`Job::open`] or [`Job::stored`].
    pub(super) fn either(stored: bool) -> fn(&GroupAggregate, &StateClock, u32, u32) -> Self {
        if stored { Self::stored } else { Self::open }
    }

    /// [`Job::open`] with the state in databases.
    pub(super) fn stored(spec: &GroupAggregate, clock: &StateClock, parallelism: u32, max_parallelism: u32) -> Self {
        let mut job = Self::open(spec, clock, parallelism, max_parallelism);
        job.databases = job.subtasks.iter_mut().map(|subtask| stored_testing::attach(subtask)).collect();
        job
    }

    /// Pushes rows in batches of these sizes, what is left one by one; a batch goes in parts to the owners of its keys. The
    /// changelog is that of parallelism 1 if all batches have one row.
    pub(super) fn push(&mut self, rows: &[Row], sizes: &[usize], out: &mut Vec<String>) {
        let mut rest = rows;
        let mut sizes = sizes.iter().copied();
        while !rest.is_empty() {
            let (head, tail) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
            rest = tail;
            let parallelism = self.subtasks.len() as u32;
            let owners: Vec<u32> = key_groups(&self.spec, head, self.max_parallelism)
                .iter()
                .map(|group| group.subtask(parallelism, self.max_parallelism))
                .collect();
            for (number, subtask) in (0_u32..).zip(&mut self.subtasks) {
                let part: Vec<Row> = head
                    .iter()
                    .zip(&owners)
                    .filter(|(_, owner)| **owner == number)
                    .map(|(row, _)| row.clone())
                    .collect();
                if !part.is_empty() {
                    subtask.push(batch(&part)).unwrap();
                    drain(subtask, out);
                    stored_testing::evict(subtask);
                }
            }
        }
    }

    /// Ends the open bundles of all subtasks.
    pub(super) fn flush(&mut self, reason: FlushReason, out: &mut Vec<String>) {
        for subtask in &mut self.subtasks {
            subtask.flush(reason).unwrap();
            drain(subtask, out);
        }
    }

    /// Restores one key group into the first subtask.
    pub(super) fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.subtasks[0].restore(sections)
    }

    pub(super) fn snapshot(&mut self) -> Vec<Box<dyn StateSnapshot>> {
        self.subtasks.iter_mut().map(KeyedState::snapshot).collect()
    }

    /// Goes on at another parallelism with the state as it is now.
    pub(super) fn restart(&mut self, parallelism: u32) {
        let snapshots = self.snapshot();
        let restored = self.restored(&snapshots, parallelism);
        drop(snapshots); // they read the databases, which go now
        *self = restored;
    }

    /// A job at another parallelism with the state of the snapshots.
    pub(super) fn restored(&self, snapshots: &[Box<dyn StateSnapshot>], parallelism: u32) -> Self {
        let open = if self.databases.is_empty() { Self::open } else { Self::stored };
        let mut job = open(&self.spec, &self.clock, parallelism, self.max_parallelism);
        for sections in sections(snapshots) {
            let owner = sections.key_group.subtask(parallelism, self.max_parallelism);
            job.subtasks[owner as usize].restore(&through_bytes(&sections)).unwrap();
        }
        job
    }
}

/// The sections of all key groups.
pub(super) fn sections(snapshots: &[Box<dyn StateSnapshot>]) -> Vec<Sections> {
    let of_snapshot = |snapshot: &dyn StateSnapshot| -> Vec<Sections> {
        let groups = snapshot.key_groups();
        assert!(groups.is_sorted());
        let of_group = |key_group: &KeyGroup| {
            let sections = Sections {
                key_group: *key_group,
                format_version: FormatVersion::Asynchronous,
                processing_time_deadline: snapshot.deadline(*key_group),
                sections: snapshot.sections(*key_group).unwrap(),
            };
            let (bound, bytes) = (snapshot.bytes_bound(*key_group), sections.encode().unwrap().len());
            assert!(bytes <= bound + bound / 8 + 4096, "{bytes} bytes, {bound} at most");
            sections
        };
        groups.iter().map(of_group).collect()
    };
    snapshots.iter().flat_map(|snapshot| of_snapshot(snapshot.as_ref())).collect()
}

/// What comes back from a savepoint.
pub(super) fn through_bytes(sections: &Sections) -> Sections {
    let payload = sections.encode().unwrap();
    let container =
        Container::encode("uid/groups", sections.format_version, sections.processing_time_deadline, &payload).unwrap();
    let (header, payload) = container.decode(Some(sections.key_group), "uid/groups").unwrap();
    Sections::decode(&payload, &header, Some(sections.key_group)).unwrap()
}

/// The key group of each row.
fn key_groups(spec: &GroupAggregate, rows: &[Row], max_parallelism: u32) -> Vec<KeyGroup> {
    let types: Vec<LogicalType> = spec.grouping.iter().map(|c| nullable(column_kinds().swap_remove(*c))).collect();
    let columns: Vec<ArrayRef> = spec.grouping.iter().map(|column| array(rows, *column)).collect();
    let encoder = KeyEncoder::try_new(&types).unwrap();
    let hashes = encoder.hashes(&columns, rows.len(), &mut KeyRows::new()).unwrap();
    hashes.key_groups(max_parallelism).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn restore_at_any_row_does_not_matter(
        (spec, rows) in case(),
        at in any::<prop::sample::Index>(),
        sizes in prop::collection::vec(0_usize..20, 0..12),
        stored in any::<bool>(),
    ) {
        let (before, after) = rows.split_at(at.index(rows.len() + 1));
        let mut out = Vec::new();
        let mut job = Job::either(stored)(&spec, &StateClock::fixed(0), 1, 128);
        job.push(before, &sizes, &mut out);
        let snapshots = job.snapshot();
        let mut restored = job.restored(&snapshots, 1);
        restored.push(after, &sizes, &mut out);
        prop_assert_eq!(out, run(&spec, &rows, &[]));
    }

    #[test]
    fn rescaling_does_not_matter(
        (spec, rows) in case(),
        max_parallelism in prop::sample::select(vec![128_u32, 200, 32_768]),
        stages in prop::collection::vec((1_u32..5, any::<prop::sample::Index>()), 1..5),
        stored in any::<bool>(),
    ) {
        let mut cuts: Vec<usize> = stages.iter().map(|(_, at)| at.index(rows.len() + 1)).collect();
        cuts.sort_unstable();
        let mut out = Vec::new();
        let mut job = Job::either(stored)(&spec, &StateClock::fixed(0), 1, max_parallelism);
        let mut done = 0;
        for ((parallelism, _), cut) in stages.iter().zip(&cuts) {
            job.push(&rows[done..*cut], &[], &mut out);
            done = *cut;
            job.restart(*parallelism);
        }
        job.push(&rows[done..], &[], &mut out);
        prop_assert_eq!(out, run(&spec, &rows, &[]));
    }

    #[test]
    fn outstanding_snapshots_keep_the_state_of_their_moment(
        (spec, rows) in case(),
        sizes in prop::collection::vec(1_usize..6, 0..60),
        releases in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        stored in any::<bool>(),
    ) {
        let mut job = Job::either(stored)(&spec, &StateClock::fixed(0), 1, 128);
        let (mut held, mut out) = (Vec::new(), Vec::new());
        let (mut rest, mut releases) = (&rows[..], releases.iter());
        for size in sizes.iter().copied().chain([usize::MAX]) {
            // of two snapshots one is encoded at once, and of the other nothing is looked at before it is released
            let now = sections(&job.snapshot());
            held.push((job.snapshot(), now));
            if let Some(which) = releases.next() {
                let (snapshots, then) = held.remove(which.index(held.len()));
                prop_assert!(sections(&snapshots) == then);
            }
            let (head, tail) = rest.split_at(size.min(rest.len()));
            job.push(head, &[3, 2], &mut out);
            rest = tail;
        }
        for (snapshots, then) in held {
            prop_assert!(sections(&snapshots) == then);
        }
        prop_assert_eq!(out, run(&spec, &rows, &[]));
    }
}

#[test]
fn restore_at_every_row_of_one_input() {
    let distinct = |name, filter| AggCall { distinct: true, filter, ..call(name, &[INT]) };
    let calls = vec![
        call("COUNT", &[]),
        call("SUM", &[INT]),
        call("AVG", &[DECIMAL]),
        call("MIN", &[TEXT]),
        call("LAST_VALUE", &[TEXT]),
        distinct("COUNT", None),
        distinct("SUM", Some(FILTER)),
    ];
    let rows: Vec<Row> = (0..60)
        .map(|i: i64| {
            let text = (TEXT, Datum::Text(format!("text {}", i % 5)));
            let kind = if i % 3 == 2 { "-U" } else { "+I" };
            let values =
                [(KEY, Datum::Long(i % 4)), (INT, Datum::Int((i % 7) as i32)), (DECIMAL, Datum::Decimal(i.into()))];
            row(kind, &[&values[..], &[text, (FILTER, Datum::Bool(i % 2 == 0))]].concat())
        })
        .collect();
    for spec in [spec(&[KEY], calls.clone()), spec(&[], calls)].map(retracting) {
        let expected = run(&spec, &rows, &[]);
        for at in 0..=rows.len() {
            let mut out = Vec::new();
            let mut job = Job::open(&spec, &StateClock::fixed(0), 1, 128);
            job.push(&rows[..at], &[], &mut out);
            let snapshots = job.snapshot();
            job.restored(&snapshots, 1).push(&rows[at..], &[], &mut out);
            assert_eq!(out, expected, "restored at row {at}");
        }
    }
}

#[test]
fn bytes_count_text_and_what_snapshots_keep_alive() {
    let spec = spec(&[KEY], vec![call("MAX", &[TEXT]), call("COUNT", &[])]);
    let mut operator = open(&spec);
    let text = |fill: &str| Datum::Text(fill.repeat(10_000));
    let push = |operator: &mut GroupAgg, fill: &str| {
        let rows: Vec<Row> = (0..200).map(|key| row("+I", &[(KEY, Datum::Long(key)), (TEXT, text(fill))])).collect();
        operator.push(batch(&rows)).unwrap();
        drain(operator, &mut Vec::new());
        operator.bytes()
    };
    const TEXTS: usize = 200 * 10_000;
    let first = push(&mut operator, "a");
    assert!((TEXTS..TEXTS + (1 << 20)).contains(&first), "{first}");
    let snapshot = operator.snapshot();
    let during = push(&mut operator, "b");
    assert!((2 * TEXTS..2 * TEXTS + (2 << 20)).contains(&during), "{during}");
    drop(snapshot);
    let after = push(&mut operator, "c");
    assert!(after <= first + 4096, "{after}, and {first} at first");
}

#[test]
fn equal_values_come_back_in_the_order_in_which_they_came() {
    let value = |kind: &str, double: f64| {
        row(kind, &[(KEY, Datum::Long(1)), (INT, Datum::Int(7)), (DOUBLE, Datum::Double(double))])
    };
    let spec = retracting(spec(&[KEY], vec![call("FIRST_VALUE", &[INT]), call("LAST_VALUE", &[DOUBLE])]));
    let (mut job, mut out) = (Job::open(&spec, &StateClock::fixed(0), 1, 128), Vec::new());
    // those that come after a retraction lie in front of those before it
    let old: Vec<Row> = (0..300).map(|i| value("+I", f64::from(i % 3))).collect();
    let retracted: Vec<Row> = (0..150).map(|i| value("-U", f64::from(i % 3))).collect();
    let new: Vec<Row> = (0..150).map(|i| value("+I", f64::from(i % 2))).collect();
    job.push(&[&old[..], &retracted, &new].concat(), &[300, 150, 150], &mut out);
    let snapshots = job.snapshot();
    let mut restored = job.restored(&snapshots, 1);
    // to the last one
    let rest: Vec<Row> = (0..299).map(|i| value("-U", f64::from(if i < 150 { i % 3 } else { i % 2 }))).collect();
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    job.push(&rest, &[], &mut expected);
    restored.push(&rest, &[], &mut found);
    assert_eq!(found, expected);
}

#[test]
fn bytes_count_the_nodes_of_sorted_maps() {
    const KEYS: usize = 1000;
    let bytes = |calls: Vec<AggCall>, kinds: &[&str]| {
        let mut operator = open(&retracting(spec(&[KEY], calls)));
        for kind in kinds {
            let rows = (0..KEYS).map(|key| row(kind, &[(KEY, Datum::Long(key as i64)), (INT, Datum::Int(1))]));
            operator.push(batch(&rows.collect::<Vec<_>>())).unwrap();
            drain(&mut operator, &mut Vec::new());
        }
        operator.bytes()
    };
    // a node has room for eleven entries and a header
    let (number, order) = (size_of::<i32>() + size_of::<u32>(), size_of::<u64>() + size_of::<u32>());
    let (by_number, by_order) = (11 * number + 16, 11 * order + 16);
    for (name, nodes) in [("MIN", by_number), ("FIRST_VALUE", by_order + 11 * (size_of::<i32>() + 32) + 16 + 32)] {
        let filled = bytes(vec![call(name, &[INT])], &["+I"]);
        let emptied = bytes(vec![call(name, &[INT])], &["+I", "-D"]);
        assert!(filled - emptied >= KEYS * nodes - KEYS * 8, "{name}: {filled} bytes, {emptied} without keys");
        assert!(filled - emptied <= KEYS * nodes + KEYS * 64, "{name}: {filled} bytes, {emptied} without keys");
    }
}

#[test]
fn key_groups_of_many_pages_come_back() {
    const KEYS: i64 = 700;
    let distinct = AggCall { distinct: true, ..call("COUNT", &[INT]) };
    let calls = vec![call("SUM", &[INT]), call("MIN", &[TEXT]), call("FIRST_VALUE", &[INT]), distinct];
    let rows: Vec<Row> = (0..4 * KEYS)
        .map(|i| {
            // a quarter of the rows takes back those of the first round
            let (kind, value) = if i / KEYS == 2 && i % 3 != 0 { ("-D", i % KEYS) } else { ("+I", i) };
            let text = Datum::Text(format!("text {}", value % 11));
            row(
                kind,
                &[
                    (KEY, Datum::Long(i % KEYS)),
                    (TEXT_KEY, text.clone()),
                    (INT, Datum::Int((value % 5) as i32)),
                    (TEXT, text),
                ],
            )
        })
        .collect();
    for grouping in [&[KEY][..], &[KEY, TEXT_KEY]] {
        let spec = retracting(spec(grouping, calls.clone()));
        let (before, after) = rows.split_at(rows.len() / 2);
        let (mut job, mut out, mut expected) = (Job::open(&spec, &StateClock::fixed(0), 1, 2), Vec::new(), Vec::new());
        job.push(before, &[500; 3], &mut Vec::new());
        let now = sections(&job.snapshot());
        let snapshots = job.snapshot();
        assert!(now.iter().all(|group| group.sections[0].num_rows() > 4 * 64));
        // groups go and others come while the snapshot is there
        job.push(after, &[1; 1400], &mut expected);
        assert!(sections(&snapshots) == now);
        let mut restored = job.restored(&snapshots, 2);
        restored.push(after, &[1; 1400], &mut out);
        assert_eq!(out, expected);
    }
}
