use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Maintenance as of so many batches that nothing is left to do.
fn settle(values: &mut PagedVec<u64>) {
    for _ in 0..2000 {
        values.maintain(7);
    }
}

#[test]
fn snapshot_keeps_its_values_while_the_vector_changes() {
    let mut values = PagedVec::new(0);
    for slot in 0..200 {
        *values.get_mut(slot) = u64::from(slot);
    }
    let before = values.snapshot();
    *values.get_mut(0) = 1000;
    *values.get_mut(199) = 2000;
    *values.get_mut(200) = 3000;
    for slot in 0..200 {
        assert_eq!(*before.get(slot), u64::from(slot));
    }
    assert_eq!(*before.get(200), 0);
    assert_eq!((*values.get(0), *values.get(1), *values.get(199), *values.get(200)), (1000, 1, 2000, 3000));
}

#[test]
fn only_written_pages_are_copied_and_all_come_back() {
    let mut values = PagedVec::new(0);
    for slot in 0..1000 {
        *values.get_mut(slot) = 7;
    }
    let (pages, bytes) = (values.live_pages, values.bytes());
    let snapshot = values.snapshot();
    *values.get_mut(70) = 8;
    assert_eq!(values.live_pages, 1);
    assert_eq!(values.bytes(), bytes + size_of::<Page<u64>>());
    settle(&mut values);
    assert_eq!(values.live_pages, 1, "a snapshot holds the others");
    drop(snapshot);
    settle(&mut values);
    assert_eq!((values.live_pages, values.generations.len()), (pages, 0));
    assert_eq!(values.bytes(), bytes);
    assert_eq!((*values.get(70), *values.get(71)), (8, 7));
}

#[test]
fn snapshots_that_always_overlap_do_not_pile_up() {
    let mut values = PagedVec::new(0);
    for slot in 0..1000 {
        *values.get_mut(slot) = 7;
    }
    let mut held = values.snapshot();
    let mut largest = 0;
    for round in 0..200 {
        *values.get_mut(round % 1000) = 8;
        let next = values.snapshot();
        held = next;
        for _ in 0..20 {
            values.maintain(64);
        }
        largest = largest.max(values.generations.len());
    }
    assert!(largest <= 2 * DEPTH, "{largest} generations");
    assert_eq!((*values.get(0), *values.get(999)), (8, 7));
    assert_eq!(*held.get(999), 7);
}

#[test]
fn one_batch_between_snapshots_leaves_no_generations_behind() {
    const PAGES: usize = 10_000;
    let mut values = PagedVec::new(0);
    for page in 0..PAGES {
        *values.get_mut((page * PAGE) as u32) = 7;
    }
    let bytes = values.bytes();
    let (mut largest, mut most) = (0, 0);
    for round in 0..1000_usize {
        let snapshot = values.snapshot();
        // any pages, often those that have not come back yet
        for write in 0..100 {
            *values.get_mut(((round * 7919 + write * 104_729) % PAGES * PAGE) as u32) = 8;
        }
        drop(snapshot);
        values.maintain(64);
        largest = largest.max(values.generations.len());
        most = most.max(values.bytes());
    }
    assert!(largest <= 2, "{largest} generations");
    assert!(most <= 3 * bytes, "{most} bytes, and {bytes} at first");
    settle(&mut values);
    assert_eq!((values.generations.len(), values.live_pages), (0, PAGES));
}

#[test]
fn one_batch_between_snapshots_that_overlap_leaves_few_generations_behind() {
    const PAGES: usize = 10_000;
    let mut values = PagedVec::new(0);
    for page in 0..PAGES {
        *values.get_mut((page * PAGE) as u32) = 7;
    }
    let mut held = values.snapshot();
    let mut largest = 0;
    for round in 0..1000_usize {
        *values.get_mut((round % PAGES * PAGE) as u32) = 8;
        let next = values.snapshot();
        held = next;
        values.maintain(64);
        largest = largest.max(values.generations.len());
    }
    assert!(largest <= DEPTH + LIFTS + 1, "{largest} generations");
    assert_eq!((*held.get(0), *held.get((PAGES as u32 - 1) * 64)), (8, 7));
}

#[test]
fn what_is_superseded_is_freed_with_the_next_snapshot() {
    let text = |fill: u8| -> Arc<[u8]> { Arc::from([fill; 100]) };
    let mut values = PagedVec::new(Arc::default());
    for slot in 0..64 * 64 {
        *values.get_mut(slot) = text(1);
    }
    let bytes = values.bytes();
    drop(values.snapshot());
    for page in 0..64 {
        *values.get_mut(page * 64) = text(2);
    }
    values.maintain(64);
    let waiting = values.bytes();
    // four of the pages were freed
    assert!(waiting >= bytes + 60 * size_of::<Page<Arc<[u8]>>>() + 64 * 64 * 100, "{waiting}, and {bytes} at first");
    let snapshot = values.snapshot();
    assert!(values.superseded.is_empty());
    assert!(values.bytes() >= waiting, "the snapshot keeps it");
    drop(snapshot);
    for _ in 0..10 {
        values.maintain(64);
    }
    assert_eq!(values.bytes(), bytes);
}

#[test]
fn a_copy_upwards_counts_what_only_the_snapshot_keeps() {
    let text = |fill: u8| -> Arc<[u8]> { Arc::from([fill; 1000]) };
    let mut values = PagedVec::new(Arc::default());
    for slot in 0..640 {
        *values.get_mut(slot) = text(1);
    }
    let first = values.snapshot();
    let mut held = Vec::new();
    for _ in 0..DEPTH {
        *values.get_mut(0) = text(2);
        held.push(values.snapshot());
    }
    let before = values.bytes();
    while values.generations.len() > DEPTH {
        values.maintain(64);
    }
    let copied = values.bytes() - before;
    assert!(copied >= 9 * 64 * 1000, "{copied}: the vector may drop its share at any time");
    drop((first, held));
}

#[derive(Debug, Clone)]
enum Step {
    Write(u32, u64),
    Snapshot,
    Release(usize),
    Maintain(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u32..1500, any::<u64>()).prop_map(|(slot, value)| Step::Write(slot, value)),
        1 => Just(Step::Snapshot),
        1 => (0_usize..8).prop_map(Step::Release),
        2 => (0_usize..80).prop_map(Step::Maintain),
    ]
}

proptest! {
    #[test]
    fn every_snapshot_has_the_values_of_its_moment(steps in prop::collection::vec(step(), 0..300)) {
        let mut values = PagedVec::new(0);
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut held: Vec<(PagedSnapshot<u64>, BTreeMap<u32, u64>)> = Vec::new();
        for step in steps {
            match step {
                Step::Write(slot, value) => {
                    *values.get_mut(slot) = value;
                    model.insert(slot, value);
                }
                Step::Snapshot => held.push((values.snapshot(), model.clone())),
                Step::Release(which) if which < held.len() => drop(held.remove(which)),
                Step::Release(_) => {}
                Step::Maintain(pages) => values.maintain(pages),
            }
        }
        for slot in 0..1500 {
            prop_assert_eq!(*values.get(slot), model.get(&slot).copied().unwrap_or_default());
            for (snapshot, model) in &held {
                prop_assert_eq!(*snapshot.get(slot), model.get(&slot).copied().unwrap_or_default());
            }
        }
        held.clear();
        settle(&mut values);
        for slot in 0..1500 {
            prop_assert_eq!(*values.get(slot), model.get(&slot).copied().unwrap_or_default());
        }
        prop_assert_eq!(values.generations.len(), 0);
    }
}
