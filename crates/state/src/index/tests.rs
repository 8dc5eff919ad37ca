use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::{KeyGroups, Slots, StateError};

fn fail(error: StateError) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

proptest! {
    #[test]
    fn slots_are_stable_and_distinct(steps in prop::collection::vec((prop::option::of(0_u64..40), any::<bool>()), 0..400)) {
        let mut slots = Slots::new(KeyGroups::all(2));
        let mut index = FixedKeyIndex::new();
        let mut model: HashMap<Option<u64>, u32> = HashMap::new();
        for (key, remove) in steps {
            let found = match key {
                Some(key) => index.find_or_add(&mut slots, key, ()),
                None => index.find_or_add_null(&mut slots, ()),
            };
            let found = found.map_err(fail)?;
            prop_assert_eq!(found.added, !model.contains_key(&key));
            if found.added {
                prop_assert!(model.values().all(|slot| *slot != found.slot));
                model.insert(key, found.slot);
            }
            prop_assert_eq!(model.get(&key), Some(&found.slot));
            prop_assert_eq!(index.snapshot().key(found.slot), key);
            if remove {
                index.remove(&mut slots, found.slot, ());
                model.remove(&key);
            }
            prop_assert_eq!(index.len(), model.len());
        }
        prop_assert!(slots.bound() <= 128);
    }

    #[test]
    fn colliding_hashes_do_not_mix_keys(steps in prop::collection::vec((0_u8..60, any::<bool>()), 0..400)) {
        let mut slots = Slots::new(KeyGroups::all(2));
        let mut index = BytesKeyIndex::new();
        let mut model: HashMap<Vec<u8>, u32> = HashMap::new();
        for (seed, remove) in steps {
            let key = vec![seed; usize::from(seed)];
            let found = index.find_or_add(&mut slots, &key, u32::from(seed % 3), ()).map_err(fail)?;
            prop_assert_eq!(found.added, !model.contains_key(&key));
            if found.added {
                prop_assert!(model.values().all(|slot| *slot != found.slot));
                model.insert(key.clone(), found.slot);
            }
            prop_assert_eq!(model.get(&key), Some(&found.slot));
            prop_assert_eq!(index.key(found.slot), &key[..]);
            if remove {
                index.remove(&mut slots, found.slot, ());
                model.remove(&key);
            }
        }
    }
}

#[test]
fn bytes_of_removed_keys_are_given_back() -> Result<(), StateError> {
    let mut slots = Slots::new(KeyGroups::all(128));
    let mut index = BytesKeyIndex::new();
    for round in 0..200_u32 {
        for i in 0..100_u32 {
            let mut key = vec![0; 1000];
            key[..4].copy_from_slice(&i.to_le_bytes());
            let found = index.find_or_add(&mut slots, &key, i, ())?;
            if round > 0 || i % 10 != 0 {
                index.remove(&mut slots, found.slot, ());
            }
        }
        index.maintain(64);
    }
    assert!(index.is_empty());
    assert!(index.bytes() < 2 << 20, "{} bytes", index.bytes());
    Ok(())
}

fn long_key(number: u32, bytes: usize) -> Vec<u8> {
    let mut key = vec![0; bytes];
    key[..4].copy_from_slice(&number.to_le_bytes());
    key
}

#[test]
fn keys_that_are_moved_stay_where_a_snapshot_had_them() -> Result<(), StateError> {
    const KEYS: u32 = 4000;
    let mut slots = Slots::new(KeyGroups::all(4));
    let mut index = BytesKeyIndex::new();
    let mut added = Vec::new();
    for i in 0..KEYS {
        added.push(index.find_or_add(&mut slots, &long_key(i, 1000), i, ())?.slot);
    }
    let (snapshot, before) = (index.snapshot(), index.bytes());
    for (i, slot) in (0..).zip(&added) {
        if i % 8 != 0 {
            index.remove(&mut slots, *slot, ());
        }
    }
    for _ in 0..100 {
        index.maintain(64);
    }
    let during = index.bytes();
    assert!(during > before, "the snapshot still has the chunks: {during} bytes, {before} before");
    for (i, slot) in (0..).zip(&added) {
        assert_eq!(snapshot.key(*slot), long_key(i, 1000));
        assert_eq!(snapshot.key_len(*slot), 1000);
        if i % 8 == 0 {
            assert_eq!(index.key(*slot), long_key(i, 1000));
        }
    }
    drop(snapshot);
    for _ in 0..100 {
        index.maintain(64);
    }
    assert!(index.bytes() < before / 4, "{} bytes, {before} before", index.bytes());
    for i in (0..KEYS).step_by(8) {
        assert_eq!(
            index.find_or_add(&mut slots, &long_key(i, 1000), i, ())?,
            Found { slot: added[i as usize], added: false }
        );
    }
    Ok(())
}

#[test]
fn no_batch_cleans_up_behind_all_removed_keys_at_once() -> Result<(), StateError> {
    let mut slots = Slots::new(KeyGroups::all(4));
    let mut index = BytesKeyIndex::new();
    let mut added = Vec::new();
    for i in 0..20_000 {
        added.push(index.find_or_add(&mut slots, &long_key(i, 1000), i, ())?.slot);
    }
    let full = index.bytes();
    // batches that remove 100 keys each, scattered over all chunks
    for batch in 0..150_u32 {
        for i in 0..100 {
            let number = i * 200 + batch;
            index.remove(&mut slots, added[number as usize], ());
        }
        let kept = || (0..20_000_u32).filter(|number| number % 200 > batch).map(|number| added[number as usize]);
        let places: Vec<_> = kept().map(|slot| index.key(slot).as_ptr()).collect();
        index.maintain(64);
        let moved = kept().zip(places).filter(|(slot, place)| index.key(*slot).as_ptr() != *place).count();
        assert!(moved < 1500, "{moved} keys moved in batch {batch}");
    }
    assert!(index.bytes() < full / 2 + (1 << 20), "{} bytes of {full}", index.bytes());
    Ok(())
}

#[test]
fn a_huge_key_is_not_copied_by_every_snapshot() -> Result<(), StateError> {
    let mut slots = Slots::new(KeyGroups::all(4));
    let mut index = BytesKeyIndex::new();
    let huge = index.find_or_add(&mut slots, &long_key(1, 10 << 20), 1, ())?.slot;
    let small = index.find_or_add(&mut slots, &long_key(2, 8), 2, ())?.slot;
    let (one, other) = (index.snapshot(), index.snapshot());
    assert_eq!(one.key(huge).as_ptr(), other.key(huge).as_ptr(), "both share it");
    assert_eq!((one.key(small), index.key(huge).len()), (&long_key(2, 8)[..], 10 << 20));
    Ok(())
}

#[test]
fn a_key_comes_from_a_page_of_its_key_group() -> Result<(), StateError> {
    let mut slots = Slots::new(KeyGroups::all(128));
    let mut index = FixedKeyIndex::new();
    let found = index.find_or_add(&mut slots, 42, ())?;
    assert_eq!(slots.group(found.slot).0, 69);
    let mut part = Slots::new(KeyGroups { max_parallelism: 128, first: 0, last: 68 });
    assert_eq!(
        FixedKeyIndex::new().find_or_add(&mut part, 42, ()),
        Err(StateError::Foreign { key_group: 69, first: 0, last: 68 })
    );
    Ok(())
}
