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
