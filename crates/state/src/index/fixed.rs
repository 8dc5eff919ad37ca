//! The index of keys that are one value of at most 8 bytes, or NULL.
//!
//! Flink's hash of such a key follows from its value, so it is computed when a snapshot needs the key group and not per
//! row.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Found;
use crate::paged::PagedVec;
use crate::slots::Slots;
use crate::{StateError, mix};

/// Keys by their bits.
#[derive(Debug, Default)]
pub struct FixedKeyIndex {
    table: HashTable<(u64, u32)>,
    null: Option<u32>,
    keys: PagedVec<Option<u64>>,
    slots: Slots,
}

impl FixedKeyIndex {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The slot of `key`, which is added if it is new.
    #[inline]
    pub fn find_or_add(&mut self, key: u64) -> Result<Found, StateError> {
        match self.table.entry(mix(key), |entry| entry.0 == key, |entry| mix(entry.0)) {
            Entry::Occupied(entry) => Ok(Found { slot: entry.get().1, added: false }),
            Entry::Vacant(vacant) => {
                let slot = acquire(&mut self.slots, &mut self.keys, Some(key))?;
                vacant.insert((key, slot));
                Ok(Found { slot, added: true })
            }
        }
    }

    /// The slot of the NULL key, which is added if it is new.
    pub fn find_or_add_null(&mut self) -> Result<Found, StateError> {
        if let Some(slot) = self.null {
            return Ok(Found { slot, added: false });
        }
        let slot = acquire(&mut self.slots, &mut self.keys, None)?;
        self.null = Some(slot);
        Ok(Found { slot, added: true })
    }

    /// Forgets the key of `slot`, which must be in use.
    pub fn remove(&mut self, slot: u32) {
        match *self.keys.get(slot) {
            None => self.null = None,
            Some(key) => {
                if let Ok(entry) = self.table.find_entry(mix(key), |entry| entry.0 == key) {
                    entry.remove();
                }
            }
        }
        self.slots.release(slot);
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.table.len() + usize::from(self.null.is_some())
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more than the highest slot ever in use.
    pub fn bound(&self) -> usize {
        self.slots.bound()
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.table.allocation_size() + self.keys.bytes() + self.slots.bytes()
    }
}

fn acquire(slots: &mut Slots, keys: &mut PagedVec<Option<u64>>, key: Option<u64>) -> Result<u32, StateError> {
    let (slot, unused) = slots.acquire("keys")?;
    if unused {
        keys.push(key);
    } else {
        *keys.get_mut(slot) = key;
    }
    Ok(slot)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn slots_are_stable_and_distinct(steps in prop::collection::vec((prop::option::of(0_u64..40), any::<bool>()), 0..400)) {
            let mut index = FixedKeyIndex::new();
            let mut model: HashMap<Option<u64>, u32> = HashMap::new();
            for (key, remove) in steps {
                let found = match key {
                    Some(key) => index.find_or_add(key),
                    None => index.find_or_add_null(),
                };
                let found = found.map_err(|e| TestCaseError::fail(e.to_string()))?;
                prop_assert_eq!(found.added, !model.contains_key(&key));
                if found.added {
                    prop_assert!(model.values().all(|slot| *slot != found.slot));
                    model.insert(key, found.slot);
                }
                prop_assert_eq!(model.get(&key), Some(&found.slot));
                if remove {
                    index.remove(found.slot);
                    model.remove(&key);
                }
                prop_assert_eq!(index.len(), model.len());
            }
            prop_assert!(index.bound() <= 41);
        }
    }
}
