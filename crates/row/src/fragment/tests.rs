#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::collections::VecDeque;

use arrow::array::{AsArray, Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::pending::PendingError;
use super::*;
use crate::batch::Batch;
use crate::exchange::{FragmentSplitter, KeySplitter};
use crate::random::{Random, all_types, assert_rows, batches, string, ty};

const MAX_PARALLELISM: u32 = 32;

/// key, id, text
fn types() -> Vec<LogicalType> {
    vec![ty(TypeKind::BigInt), ty(TypeKind::BigInt), string()]
}

fn splitter(order: u64, attempt: u64) -> FragmentSplitter {
    FragmentSplitter::try_new(&[0], &[ty(TypeKind::BigInt)], MAX_PARALLELISM, Epoch { order, attempt }).unwrap()
}

fn rows(random: &mut Random, ids: &mut i64) -> Batch {
    let count = random.below(40);
    let keys: Int64Array = (0..count).map(|_| (random.below(8) > 0).then(|| random.below(30) as i64)).collect();
    let next: Int64Array = (0..count as i64).map(|row| *ids + row).collect();
    *ids += count as i64;
    let texts: StringArray = (0..count).map(|row| (random.below(5) > 0).then(|| "x".repeat(row))).collect();
    let kinds = (random.below(2) == 0).then(|| (0..count).map(|_| random.below(4) as u8).collect::<UInt8Array>());
    Batch::try_new(vec![Arc::new(keys), Arc::new(next), Arc::new(texts)], count, kinds).unwrap()
}

fn ids(batch: &Batch) -> Vec<i64> {
    batch.columns()[1].as_primitive::<Int64Type>().values().to_vec()
}

/// The range of key groups of a subtask.
fn range(subtask: u32, parallelism: u32) -> (KeyGroup, KeyGroup) {
    let mine: Vec<_> = (0..MAX_PARALLELISM as u16)
        .map(KeyGroup)
        .filter(|group| group.subtask(parallelism, MAX_PARALLELISM) == subtask)
        .collect();
    (mine[0], *mine.last().unwrap())
}

fn reassembler(subtask: u32, parallelism: u32, order: u64) -> Reassembler {
    let (first, last) = range(subtask, parallelism);
    Reassembler::new(types(), first, last, order)
}

/// One queue per producer and receiver, as Flink's channels.
struct Network {
    parallelism: u32,
    channels: BTreeMap<(usize, u32), VecDeque<Vec<u8>>>,
}

impl Network {
    fn new(parallelism: u32) -> Self {
        Self { parallelism, channels: BTreeMap::new() }
    }

    fn send(&mut self, producer: usize, fragments: &[Batch]) {
        for fragment in fragments {
            let bytes = encode(fragment).unwrap();
            self.route(producer, KeyGroup(fragment.key_group().unwrap()), bytes);
        }
    }

    fn route(&mut self, producer: usize, group: KeyGroup, bytes: Vec<u8>) {
        let receiver = group.subtask(self.parallelism, MAX_PARALLELISM);
        self.channels.entry((producer, receiver)).or_default().push_back(bytes);
    }

    /// The next record of any channel.
    fn next(&mut self, random: &mut Random) -> Option<(usize, u32, Vec<u8>)> {
        let ready: Vec<_> = self.channels.iter().filter(|(_, queue)| !queue.is_empty()).map(|(key, _)| *key).collect();
        let (producer, receiver) = *ready.get(random.below(ready.len().max(1)))?;
        let bytes = self.channels.get_mut(&(producer, receiver))?.pop_front()?;
        Some((producer, receiver, bytes))
    }
}

/// What every key group has got, and from whom: ids ascend.
#[derive(Default)]
struct Delivered(Vec<(KeyGroup, i64)>);

impl Delivered {
    fn add(&mut self, batch: &Batch) {
        let mut splitter =
            KeySplitter::try_new(&[0], &[ty(TypeKind::BigInt)], MAX_PARALLELISM, MAX_PARALLELISM).unwrap();
        for part in splitter.split(batch).unwrap() {
            self.0.extend(ids(&part.batch).into_iter().map(|id| (KeyGroup(part.batch.key_group().unwrap()), id)));
        }
    }

    /// Claims that all of these ids came once, and those of one producer and key group in order.
    fn assert_complete(&self, producers: &[std::ops::Range<i64>]) {
        let mut all: Vec<_> = self.0.iter().map(|(_, id)| *id).collect();
        all.sort_unstable();
        assert_eq!(all, producers.iter().flat_map(Clone::clone).collect::<Vec<_>>());
        for range in producers {
            let mut last = BTreeMap::new();
            for (group, id) in self.0.iter().filter(|(_, id)| range.contains(id)) {
                assert!(last.insert(*group, *id).is_none_or(|before| before < *id), "order in {group:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn a_receiver_gets_its_rows_of_each_batch_in_their_order(parallelism in 1u32..6, producers in 1usize..4, seed: u64) {
        let mut random = Random(seed);
        let mut network = Network::new(parallelism);
        let mut expected: BTreeMap<(usize, u32), VecDeque<Vec<i64>>> = BTreeMap::new();
        let mut next = 0;
        for producer in 0..producers {
            let mut splitter = splitter(7, producer as u64);
            for _ in 0..random.below(5) {
                let batch = rows(&mut random, &mut next);
                for part in KeySplitter::try_new(&[0], &[ty(TypeKind::BigInt)], parallelism, MAX_PARALLELISM).unwrap().split(&batch)? {
                    expected.entry((producer, part.channel)).or_default().push_back(ids(&part.batch));
                }
                network.send(producer, &splitter.split(&batch)?);
            }
        }
        let mut receivers: Vec<_> = (0..parallelism).map(|subtask| reassembler(subtask, parallelism, 7)).collect();
        while let Some((producer, receiver, bytes)) = network.next(&mut random) {
            if let Some(batch) = receivers[receiver as usize].push_encoded(&bytes)? {
                let wanted = expected.get_mut(&(producer, receiver)).and_then(VecDeque::pop_front);
                prop_assert_eq!(Some(ids(&batch)), wanted);
                prop_assert!(batch.key_group().is_none() && batch.fragment().is_none());
            }
        }
        prop_assert!(receivers.iter().all(|receiver| !receiver.is_pending() && receiver.bytes() == 0));
        prop_assert!(expected.values().all(VecDeque::is_empty));
    }

    #[test]
    fn nothing_is_lost_or_doubled_by_a_failure_at_any_point_and_any_rescaling(
        before in 1u32..6, after in 1u32..6, producers in 1usize..4, seed: u64,
    ) {
        let mut random = Random(seed);
        let mut network = Network::new(before);
        let (mut next, mut ranges, mut delivered) = (0, Vec::new(), Delivered::default());
        for producer in 0..producers {
            let (start, mut splitter) = (next, splitter(3, producer as u64));
            for _ in 0..1 + random.below(4) {
                let batch = rows(&mut random, &mut next);
                network.send(producer, &splitter.split(&batch)?);
            }
            ranges.push(start..next);
        }
        let mut receivers: Vec<_> = (0..before).map(|subtask| reassembler(subtask, before, 3)).collect();
        for _ in 0..random.below(60) {
            let Some((_, receiver, bytes)) = network.next(&mut random) else { break };
            if let Some(batch) = receivers[receiver as usize].push_encoded(&bytes)? {
                delivered.add(&batch);
            }
        }

        // the checkpoint: what waits in receivers, and what is on its way
        let mut restored: Vec<_> = (0..after).map(|subtask| reassembler(subtask, after, 4)).collect();
        for receiver in &receivers {
            for group in receiver.pending_key_groups() {
                let owner = &restored[group.subtask(after, MAX_PARALLELISM) as usize];
                for batch in owner.restore(group, &receiver.snapshot(group)?)? {
                    delivered.add(&batch);
                }
            }
        }
        let mut rescaled = Network::new(after);
        for ((producer, _), queue) in std::mem::take(&mut network.channels) {
            for bytes in queue {
                let group = decode(&bytes, &types())?.key_group().unwrap();
                rescaled.route(producer, KeyGroup(group), bytes);
            }
        }
        // the restored producers go on behind what was on its way
        for producer in 0..producers {
            let (start, mut splitter) = (next, splitter(4, 100 + producer as u64));
            let batch = rows(&mut random, &mut next);
            rescaled.send(producer, &splitter.split(&batch)?);
            ranges.push(start..next);
        }
        while let Some((_, receiver, bytes)) = rescaled.next(&mut random) {
            if let Some(batch) = restored[receiver as usize].push_encoded(&bytes)? {
                delivered.add(&batch);
            }
        }
        prop_assert!(restored.iter().all(|receiver| !receiver.is_pending()));
        delivered.assert_complete(&ranges);
    }

    #[test]
    fn fragments_of_every_type_arrive_as_they_were_sent((types, batch) in batches(all_types(), false), groups in 1u32..200) {
        let keys: Vec<_> = (0..types.len()).filter(|i| types[*i].fields().is_empty()).collect();
        let key_types: Vec<_> = keys.iter().map(|key| types[*key].clone()).collect();
        let mut splitter = FragmentSplitter::try_new(&keys, &key_types, groups, Epoch { order: 0, attempt: 1 }).unwrap();
        let mut whole = Reassembler::new(types, KeyGroup(0), KeyGroup((groups - 1) as u16), 0);
        let fragments = splitter.split(&batch)?;
        for (index, fragment) in fragments.iter().enumerate() {
            let joined = whole.push_encoded(&encode(fragment)?)?;
            prop_assert_eq!(joined.is_some(), index + 1 == fragments.len());
            if let Some(joined) = joined {
                assert_rows(&joined, (0..batch.num_rows()).map(|row| (&batch, row)));
            }
        }
    }

    #[test]
    fn a_manifest_has_the_groups_it_was_made_of(mut groups in prop::collection::vec(0u16..32768, 1..50), a in 0u16..32768, b in 0u16..32768) {
        groups.sort_unstable();
        groups.dedup();
        let groups: Vec<_> = groups.into_iter().map(KeyGroup).collect();
        let manifest = Manifest::of(&groups);
        let (first, last) = (KeyGroup(a.min(b)), KeyGroup(a.max(b)));
        prop_assert_eq!(manifest.count(first, last), groups.iter().filter(|g| (first..=last).contains(g)).count());
        prop_assert!(groups.iter().all(|group| manifest.contains(*group)));
        prop_assert_eq!(manifest.contains(first), groups.contains(&first));
        prop_assert_eq!(Manifest::from_bytes(manifest.first_byte(), manifest.bytes()), Some(manifest));
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&noise, &types()).is_err());
        prop_assert!(pending::decode(KeyGroup(0), &noise).is_err());
    }
}

/// The fragments of one batch of 20 keys.
fn some_fragments(attempt: u64) -> Vec<Batch> {
    let keys: Int64Array = (0..20).map(|row| Some(row % 7)).collect();
    let numbers: Int64Array = (0..20).map(Some).collect();
    let texts: StringArray = (0..20).map(|row| Some(format!("text {row}"))).collect();
    let batch = Batch::try_new(vec![Arc::new(keys), Arc::new(numbers), Arc::new(texts)], 20, None).unwrap();
    splitter(5, attempt).split(&batch).unwrap()
}

fn everything() -> Reassembler {
    reassembler(0, 1, 5)
}

#[test]
fn every_changed_byte_of_a_fragment_is_an_error() {
    let bytes = encode(&some_fragments(1)[0]).unwrap();
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            assert!(decode(&damaged, &types()).is_err(), "byte {at}");
        }
        assert!(decode(&bytes[..at], &types()).is_err());
    }
    assert!(decode(&[bytes.as_slice(), &[0]].concat(), &types()).is_err());
    assert!(decode(&bytes, &types()).is_ok());
}

#[test]
fn every_changed_byte_of_pending_fragments_is_an_error() {
    let mut receiver = everything();
    for fragment in &some_fragments(1)[..3] {
        receiver.push(fragment.clone()).unwrap();
    }
    let group = receiver.pending_key_groups()[0];
    let bytes = receiver.snapshot(group).unwrap();
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            assert!(receiver.restore(group, &damaged).is_err(), "byte {at}");
        }
        assert!(receiver.restore(group, &bytes[..at]).is_err());
    }
    assert!(receiver.restore(group, &[bytes.as_slice(), &[0]].concat()).is_err());
    assert_eq!(receiver.restore(group, &bytes).unwrap().len(), 1);
    let other = receiver.pending_key_groups()[1];
    let refused = receiver.restore(other, &bytes).unwrap_err();
    assert!(matches!(refused, ReassemblyError::Pending(PendingError::KeyGroup { .. })), "{refused}");
}

#[test]
fn another_version_of_pending_fragments_is_named() {
    let bytes = pending::encode(KeyGroup(4), &[]).unwrap();
    for version in [2u8, 4] {
        let mut other = bytes.clone();
        other[7] = version;
        assert_eq!(
            pending::decode(KeyGroup(4), &other),
            Err(PendingError::Version { group: KeyGroup(4), found: u32::from(version) })
        );
    }
}

#[test]
fn a_fragment_that_comes_twice_is_an_error() {
    let fragments = some_fragments(1);
    let mut receiver = everything();
    receiver.push(fragments[0].clone()).unwrap();
    assert!(matches!(receiver.push(fragments[0].clone()), Err(ReassemblyError::Duplicate { sequence: 0, .. })));
    // and also when its parent is complete
    let mut receiver = everything();
    for fragment in &fragments {
        receiver.push(fragment.clone()).unwrap();
    }
    assert!(matches!(receiver.push(fragments[3].clone()), Err(ReassemblyError::Duplicate { sequence: 0, .. })));
}

#[test]
fn a_fragment_that_is_missing_is_noticed_with_the_next_batch() {
    let mut splitter = splitter(5, 1);
    let batch = Batch::try_new(
        vec![
            Arc::new(Int64Array::from_iter_values(0..20)),
            Arc::new(Int64Array::from_iter_values(0..20)),
            Arc::new(StringArray::from(vec!["x"; 20])),
        ],
        20,
        None,
    )
    .unwrap();
    let (first, second) = (splitter.split(&batch).unwrap(), splitter.split(&batch).unwrap());
    let mut receiver = everything();
    for fragment in &first[1..] {
        assert!(receiver.push(fragment.clone()).unwrap().is_none());
    }
    assert!(receiver.is_pending());
    let missing = receiver.push(second[0].clone());
    assert!(matches!(missing, Err(ReassemblyError::Missing { sequence: 0, missing: 1, next: 1 })));
}

#[test]
fn fragments_that_contradict_each_other_are_an_error() {
    let fragments = some_fragments(1);
    let with = |change: &dyn Fn(&mut Parent, &mut Vec<u32>)| {
        let (group, fragment) = (fragments[1].key_group().unwrap(), fragments[1].fragment().unwrap());
        let Parent { epoch, sequence, rows, manifest } = fragment.parent.as_ref();
        let mut parent = Parent { epoch: *epoch, sequence: *sequence, rows: *rows, manifest: manifest.clone() };
        let mut ordinals = fragment.ordinals.to_vec();
        change(&mut parent, &mut ordinals);
        let fragment = Fragment { parent: Arc::new(parent), ordinals: ordinals.into() };
        let mut receiver = everything();
        receiver.push(fragments[0].clone()).unwrap();
        receiver.push(fragments[1].clone().with_fragment(KeyGroup(group), fragment))?;
        fragments[2..].iter().try_for_each(|fragment| receiver.push(fragment.clone()).map(drop))
    };
    let contradicts =
        |result: Result<(), ReassemblyError>| matches!(result, Err(ReassemblyError::Contradiction { .. }));
    assert!(with(&|_, _| ()).is_ok());
    assert!(contradicts(with(&|parent, _| parent.rows += 1)));
    assert!(contradicts(with(&|parent, _| parent.manifest = Manifest::of(&[KeyGroup(0), KeyGroup(31)]))));
    let taken = fragments[0].fragment().unwrap().ordinals[0];
    assert!(contradicts(with(&|_, ordinals| ordinals[0] = taken)));
}

#[test]
fn sparse_row_numbers_are_merged_as_well() {
    let fragment = |group: u16, ordinals: Vec<u32>| {
        let parent = Parent {
            epoch: Epoch { order: 5, attempt: 1 },
            sequence: 0,
            rows: u32::MAX,
            manifest: Manifest::of(&[KeyGroup(1), KeyGroup(2)]),
        };
        let column: Int64Array = ordinals.iter().map(|ordinal| Some(i64::from(*ordinal))).collect();
        let fragment = Fragment { parent: Arc::new(parent), ordinals: ordinals.into() };
        let rows = fragment.ordinals.len();
        Batch::try_new(vec![Arc::new(column)], rows, None).unwrap().with_fragment(KeyGroup(group), fragment)
    };
    let mut receiver = Reassembler::new(vec![ty(TypeKind::BigInt)], KeyGroup(0), KeyGroup(31), 5);
    receiver.push(fragment(1, vec![7, 4_000_000_000])).unwrap();
    let joined = receiver.push(fragment(2, vec![3, 2_000_000_000])).unwrap().unwrap();
    assert_eq!(joined.columns()[0].as_primitive::<Int64Type>().values().to_vec(), [3, 7, 2_000_000_000, 4_000_000_000]);
}

#[test]
fn a_fragment_of_another_subtask_is_an_error() {
    let fragments = some_fragments(1);
    let (mut low, mut high) = (reassembler(0, 2, 5), reassembler(1, 2, 5));
    for fragment in fragments {
        let group = KeyGroup(fragment.key_group().unwrap());
        let (own, other) =
            if group.subtask(2, MAX_PARALLELISM) == 0 { (&mut low, &mut high) } else { (&mut high, &mut low) };
        assert!(matches!(other.push(fragment.clone()), Err(ReassemblyError::NotOwned { .. })));
        own.push(fragment).unwrap();
    }
}

#[test]
fn fragments_of_an_older_attempt_are_delivered_at_once() {
    let mut receiver = reassembler(0, 1, 6);
    for fragment in some_fragments(1) {
        let rows = fragment.num_rows();
        let delivered = receiver.push(fragment).unwrap().unwrap();
        assert_eq!(delivered.num_rows(), rows);
        assert!(delivered.fragment().is_none());
    }
    assert!(!receiver.is_pending());
}

#[test]
fn a_batch_that_is_no_fragment_is_an_error() {
    let batch = some_fragments(1)[0].clone().into_rows();
    assert!(matches!(encode(&batch), Err(FragmentError::NoFragment)));
    assert!(matches!(everything().push(batch), Err(ReassemblyError::Fragment(FragmentError::NoFragment))));
}

#[test]
fn parents_of_several_producers_are_pending_side_by_side() {
    let (first, second) = (some_fragments(1), some_fragments(2));
    let mut receiver = everything();
    for (a, b) in first.iter().zip(&second).take(first.len() - 1) {
        receiver.push(a.clone()).unwrap();
        receiver.push(b.clone()).unwrap();
    }
    let bytes = receiver.bytes();
    assert!(bytes > 0);
    assert!(receiver.push(first.last().unwrap().clone()).unwrap().is_some());
    assert!(receiver.is_pending() && receiver.bytes() < bytes);
    assert!(receiver.push(second.last().unwrap().clone()).unwrap().is_some());
    assert_eq!((receiver.is_pending(), receiver.bytes()), (false, 0));
}
