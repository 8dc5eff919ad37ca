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
                Some(key) => index.find_or_add(&mut slots, key),
                None => index.find_or_add_null(&mut slots),
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
                index.remove(&mut slots, found.slot);
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
            let found = index.find_or_add(&mut slots, &key, u32::from(seed % 3)).map_err(fail)?;
            prop_assert_eq!(found.added, !model.contains_key(&key));
            if found.added {
                prop_assert!(model.values().all(|slot| *slot != found.slot));
                model.insert(key.clone(), found.slot);
            }
            prop_assert_eq!(model.get(&key), Some(&found.slot));
            prop_assert_eq!(index.key(found.slot), &key[..]);
            if remove {
                index.remove(&mut slots, found.slot).map_err(fail)?;
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
            let found = index.find_or_add(&mut slots, &key, i)?;
            if round > 0 || i % 10 != 0 {
                index.remove(&mut slots, found.slot)?;
            }
        }
    }
    assert!(index.is_empty());
    assert!(index.bytes() < 4 << 20, "{} bytes", index.bytes());
    Ok(())
}

#[test]
fn a_key_comes_from_a_page_of_its_key_group() -> Result<(), StateError> {
    let mut slots = Slots::new(KeyGroups::all(128));
    let mut index = FixedKeyIndex::new();
    let found = index.find_or_add(&mut slots, 42)?;
    assert_eq!(slots.group(found.slot).0, 69);
    let mut part = Slots::new(KeyGroups { max_parallelism: 128, first: 0, last: 68 });
    assert_eq!(
        FixedKeyIndex::new().find_or_add(&mut part, 42),
        Err(StateError::Foreign { key_group: 69, first: 0, last: 68 })
    );
    Ok(())
}
