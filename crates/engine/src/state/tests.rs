//! The state of a stage over the simplest operator that keeps any.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use streamfusion_operators::{Operator, OperatorError};
use streamfusion_row::{Batch, KeyGroup};
use streamfusion_state::canonical::{CHUNK_BYTES, CanonicalError, Fault, FormatVersion, Header, Section};
use streamfusion_state::{KeyGroups, KeyedState, RestoreError, StateClock, StateSnapshot};

use super::*;
use crate::{Output, Stage};

const GROUPS: i64 = 4;

/// Emits the sum per key after each row of (key, value); a key's group is its remainder. Panics when it is told to.
#[derive(Default)]
struct Sums {
    state: SumState,
    out: Option<Batch>,
}

#[derive(Default)]
struct SumState {
    sums: BTreeMap<i64, i64>,
    panics: bool,
}

struct SumSnapshot {
    sums: BTreeMap<i64, i64>,
    panics: bool,
}

fn group_of(key: i64) -> KeyGroup {
    KeyGroup(u16::try_from(key.rem_euclid(GROUPS)).unwrap())
}

fn batch(rows: &[(i64, i64)]) -> Batch {
    let column = |of: fn(&(i64, i64)) -> i64| -> ArrayRef { Arc::new(rows.iter().map(of).collect::<Int64Array>()) };
    Batch::try_new(vec![column(|row| row.0), column(|row| row.1)], rows.len(), None).unwrap()
}

fn rows(batch: &Batch) -> Vec<(i64, i64)> {
    let [keys, values] = batch.columns() else { panic!("two columns") };
    let (keys, values) = (keys.as_primitive::<Int64Type>(), values.as_primitive::<Int64Type>());
    keys.values().iter().copied().zip(values.values().iter().copied()).collect()
}

impl Operator for Sums {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let mut out = rows(&batch);
        for (key, value) in &mut out {
            let sum = self.state.sums.entry(*key).or_default();
            *sum += *value;
            *value = *sum;
        }
        self.out = Some(self::batch(&out));
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(self.out.take())
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.state)
    }
}

impl KeyedState for SumState {
    fn table(&self) -> &'static str {
        "sums"
    }

    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        Box::new(SumSnapshot { sums: self.sums.clone(), panics: self.panics })
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        assert!(!self.panics, "on purpose");
        let missing = || RestoreError::Section { section: "sums".to_owned(), what: "missing" };
        for batch in sections.get("sums").ok_or_else(missing)?.batches() {
            let (keys, sums) =
                (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_primitive::<Int64Type>());
            self.sums.extend(keys.values().iter().copied().zip(sums.values().iter().copied()));
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        16 * self.sums.len()
    }
}

impl StateSnapshot for SumSnapshot {
    fn key_groups(&self) -> Vec<KeyGroup> {
        (0..GROUPS).map(group_of).filter(|group| self.sums.keys().any(|key| group_of(*key) == *group)).collect()
    }

    fn deadline(&self, _: KeyGroup) -> Option<i64> {
        Some(77)
    }

    fn bytes_bound(&self, group: KeyGroup) -> usize {
        16 * self.sums.keys().filter(|key| group_of(**key) == group).count()
    }

    fn sections(&self, group: KeyGroup) -> Result<Vec<Section>, CanonicalError> {
        assert!(!self.panics, "on purpose");
        let own = || self.sums.iter().filter(|(key, _)| group_of(**key) == group);
        let keys: ArrayRef = Arc::new(own().map(|(key, _)| *key).collect::<Int64Array>());
        let sums: ArrayRef = Arc::new(own().map(|(_, sum)| *sum).collect::<Int64Array>());
        let batch = RecordBatch::try_from_iter([("key", keys), ("sum", sums)]).unwrap();
        Ok(vec![Section::try_new("sums", vec![batch]).unwrap()])
    }
}

fn parameters(operator_id: &str, first: u16, last: u16) -> StateParameters {
    let key_groups = KeyGroups { max_parallelism: 4, first, last };
    StateParameters {
        operator_id: operator_id.to_owned(),
        key_groups,
        clock: StateClock::fixed(0),
        backend: StateBackend::default(),
    }
}

fn stage_of(state: SumState, parameters: &StateParameters) -> Stage {
    Stage::of_operators(vec![Box::new(Sums { state, out: None })], Some(parameters)).unwrap()
}

fn stage(parameters: &StateParameters) -> Stage {
    stage_of(SumState::default(), parameters)
}

/// What comes out of a stage for these rows.
fn run(stage: &mut Stage, input: &[(i64, i64)]) -> Vec<(i64, i64)> {
    stage.push(0, batch(input)).unwrap();
    let mut out = Vec::new();
    while let Some(batch) = stage.pull().unwrap().and_then(Output::into_batch) {
        out.extend(rows(&batch));
    }
    out
}

fn containers(snapshot: &StageSnapshot) -> Vec<(KeyGroup, Vec<u8>, Vec<Vec<u8>>)> {
    let encoded = |group| {
        let encoded = snapshot.encode(group).unwrap();
        let chunks = encoded.chunks().map(<[u8]>::to_vec).collect();
        (group, encoded.header, chunks)
    };
    snapshot.key_groups().unwrap().into_iter().map(encoded).collect()
}

#[test]
fn snapshot_holds_what_was_there_while_rows_go_on() {
    let mut first = stage(&parameters("node", 0, 3));
    run(&mut first, &[(0, 1), (1, 10), (5, 100)]);
    let snapshot = first.snapshot().unwrap().unwrap();
    assert_eq!(run(&mut first, &[(0, 1), (2, 7)]), [(0, 2), (2, 7)]);

    let encoded = std::thread::spawn(move || (snapshot.chunk_bound().unwrap(), containers(&snapshot))).join().unwrap();
    let groups: Vec<_> = encoded.1.iter().map(|(group, ..)| group.0).collect();
    assert_eq!((encoded.0, groups), (1, vec![0, 1]));

    let mut second = stage(&parameters("node", 0, 3));
    for (group, header, chunks) in &encoded.1 {
        second.restore(*group, header, chunks).unwrap();
    }
    assert_eq!(run(&mut second, &[(0, 1), (1, 1), (2, 1), (5, 1)]), [(0, 2), (1, 11), (2, 1), (5, 101)]);
}

#[test]
fn header_says_whose_state_it_is_and_how_it_was_made() {
    let mut stage = stage(&parameters("node", 0, 3));
    run(&mut stage, &[(0, 1)]);
    let (_, header, _) = containers(&stage.snapshot().unwrap().unwrap()).remove(0);
    let header = Header::decode(&header).unwrap();
    assert_eq!(header.operator_id, "node/sums");
    assert_eq!(header.format_version.number(), 6);
    assert_eq!(header.processing_time_deadline, Some(77));
}

#[test]
fn no_group_has_more_chunks_than_the_snapshot_says() {
    let mut first = stage(&parameters("node", 0, 3));
    let input: Vec<_> = (0..600_000).map(|key| (key * GROUPS, key)).collect();
    run(&mut first, &input);
    let snapshot = first.snapshot().unwrap().unwrap();
    let bound = snapshot.chunk_bound().unwrap();
    let (group, header, chunks) = containers(&snapshot).remove(0);
    assert!((3..=bound).contains(&chunks.len()), "{} of {bound}", chunks.len());
    assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.len() == CHUNK_BYTES));
    let mut second = stage(&parameters("node", 0, 3));
    second.restore(group, &header, &chunks).unwrap();
    assert_eq!(run(&mut second, &[(4, 0)]), [(4, 1)]);
}

#[test]
fn restore_refuses_each_fault_and_names_node_key_group_and_remedy() {
    let mut source = stage(&parameters("node", 0, 3));
    run(&mut source, &[(0, 1), (1, 2)]);
    let mut encoded = containers(&source.snapshot().unwrap().unwrap());
    let (group, header, chunks) = encoded.remove(0);
    let (_, other_header, other_chunks) = encoded.remove(0);
    let refused = |group, header: &[u8], chunks: &[Vec<u8>]| {
        let mut target = stage(&parameters("node", 0, 2));
        let error = target.restore(group, header, chunks).unwrap_err();
        assert!(matches!(target.push(0, batch(&[])), Err(EngineError::Failed)), "a stage that refused goes on");
        error
    };
    let fault = |error| match error {
        EngineError::Container { source, .. } => {
            assert_eq!(source.key_group, Some(group));
            source.fault
        }
        other => panic!("{other}"),
    };
    for at in 0..header.len() {
        let mut damaged = header.clone();
        damaged[at] ^= 0x10;
        fault(refused(group, &damaged, &chunks));
    }
    let mut damaged = chunks.clone();
    damaged[0][40] ^= 1;
    assert!(matches!(fault(refused(group, &header, &damaged)), Fault::Checksum { .. }));
    damaged[0].pop();
    assert!(matches!(fault(refused(group, &header, &damaged)), Fault::ChunkLength { .. }));
    assert!(matches!(fault(refused(group, &header, &[])), Fault::ChunkMissing { .. }));
    let extra = [chunks.clone(), vec![vec![0]]].concat();
    assert!(matches!(fault(refused(group, &header, &extra)), Fault::ChunkExtra { .. }));
    assert!(matches!(fault(refused(group, &other_header, &other_chunks)), Fault::Altered { field: "key group", .. }));

    let text = refused(group, &header, &[]).to_string();
    assert_eq!(
        text,
        "node 9 sums: native state of key group 0: chunk 0 of 1 is missing; the snapshot is damaged, restore an older one"
    );
    let foreign = refused(KeyGroup(3), &header, &chunks).to_string();
    assert!(foreign.contains("key group 3 does not belong to this subtask, whose key groups are 0 to 2"), "{foreign}");
}

#[test]
fn restore_refuses_the_state_of_another_operator() {
    let mut source = stage(&parameters("node", 0, 3));
    run(&mut source, &[(0, 1)]);
    let (group, header, chunks) = containers(&source.snapshot().unwrap().unwrap()).remove(0);
    let error = stage(&parameters("other", 0, 3)).restore(group, &header, &chunks).unwrap_err().to_string();
    assert!(error.contains("belongs to the operator `node/sums`, not to `other/sums`"), "{error}");

    // a right container whose sections are not those of the operator
    let payload = Sections {
        key_group: group,
        format_version: FormatVersion::Asynchronous,
        processing_time_deadline: None,
        sections: Vec::new(),
    };
    let payload = payload.encode().unwrap();
    let header = Header::of("node/sums", FormatVersion::Asynchronous, None, &payload);
    let header = header.unwrap().encode().unwrap();
    let error = stage(&parameters("node", 0, 3)).restore(group, &header, &[payload]).unwrap_err().to_string();
    assert!(
        error.contains("native state of key group 0 is not of this operator: section `sums` is missing"),
        "{error}"
    );
}

#[test]
fn panic_of_a_restore_or_of_a_snapshot_is_an_error_that_names_the_node() {
    let parameters = parameters("node", 0, 3);
    let mut source = stage(&parameters);
    run(&mut source, &[(0, 1)]);
    let (group, header, chunks) = containers(&source.snapshot().unwrap().unwrap()).remove(0);
    let mut target = stage_of(SumState { panics: true, ..SumState::default() }, &parameters);
    let error = target.restore(group, &header, &chunks).unwrap_err().to_string();
    assert!(error.contains("node 9 sums: native code panicked: on purpose"), "{error}");

    let mut broken = stage_of(SumState { panics: true, ..SumState::default() }, &parameters);
    run(&mut broken, &[(0, 1)]);
    let error = broken.snapshot().unwrap().unwrap().encode(group).unwrap_err().to_string();
    assert!(error.contains("node 9 sums: native code panicked: on purpose"), "{error}");
    assert_eq!(run(&mut broken, &[(0, 1)]), [(0, 2)], "the task goes on when a checkpoint fails");
}

#[test]
fn memory_is_what_the_state_takes_and_the_most_it_took() {
    let mut stage = stage(&parameters("node", 0, 3));
    assert_eq!(stage.memory().unwrap(), StageMemory::default());
    run(&mut stage, &[(0, 1), (1, 1)]);
    assert_eq!(stage.memory().unwrap(), StageMemory { used_bytes: 32, peak_bytes: 32 });
}

#[test]
fn stage_without_state_has_no_snapshot_and_restores_none() {
    let mut stage = Stage::of_operators(Vec::new(), None).unwrap();
    assert!(stage.snapshot().unwrap().is_none());
    assert_eq!(stage.memory().unwrap(), StageMemory::default());
    let error = stage.restore(KeyGroup(0), &[], &[]).unwrap_err().to_string();
    assert!(error.contains("there is state to restore, but the stage keeps none"), "{error}");
}

#[test]
fn stage_with_state_is_not_opened_twice_stateful_or_without_a_range_of_keys() {
    let sums = || -> Box<dyn Operator> { Box::new(Sums::default()) };
    let without = Stage::of_operators(vec![sums()], None).err().map(|error| error.to_string());
    assert_eq!(without.as_deref(), Some("node 9 sums: it keeps state, but its stage was opened without any"));
    let twice = Stage::of_operators(vec![sums(), sums()], Some(&parameters("node", 0, 3)));
    let twice = twice.err().map(|error| error.to_string());
    assert_eq!(twice.as_deref(), Some("node 9 sums: it keeps state, and so does a node before it in its stage"));
}

#[test]
fn parameters_that_are_no_range_of_keys_are_refused() {
    let read = |text: &str| StateParameters::read(text).map(|read| read.key_groups);
    let text = r#"{"operatorId": "a", "maxParallelism": 200, "firstKeyGroup": 3, "lastKeyGroup": 199}"#;
    assert_eq!(read(text).unwrap(), KeyGroups { max_parallelism: 200, first: 3, last: 199 });
    for (from, to) in [("199", "200"), ("199", "2"), ("200", "40000"), ("200", "0"), ("\"a\"", "1"), ("first", "1st")] {
        assert!(read(&text.replace(from, to)).is_err(), "{from} -> {to}");
    }
}
