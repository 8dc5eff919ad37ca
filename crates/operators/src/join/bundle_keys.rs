//! Numbers of keys in a bundle, without a look at state.
//!
//! Most rows of a bundle leave nothing behind, so that their keys need not be known to the tables. Numbers are dense and in
//! first-touch order, as the fold wants them.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use streamfusion_row::hash::hash_bytes_by_words;
use streamfusion_state::{BatchKeys, mix};

/// The keys of the rows of a frame.
#[derive(Debug, Default)]
pub(super) struct BundleKeys {
    fixed: HashTable<(u64, u32)>,
    null: Option<u32>,
    /// A hash and the number.
    by_bytes: HashTable<(u32, u32)>,
    /// The bytes of all keys, one behind the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    len: u32,
}

impl BundleKeys {
    /// Sets `numbers` to the number of each row's key.
    pub(super) fn number(&mut self, keys: BatchKeys<'_>, numbers: &mut Vec<u32>) {
        numbers.clear();
        match keys {
            BatchKeys::Single(rows) => {
                self.len = 1;
                numbers.resize(rows, 0);
            }
            BatchKeys::Fixed(keys, nulls) => match nulls.filter(|nulls| nulls.null_count() > 0) {
                None => numbers.extend(keys.iter().map(|key| self.of_fixed(*key))),
                Some(nulls) => {
                    let number = |(key, valid): (&u64, bool)| if valid { self.of_fixed(*key) } else { self.of_null() };
                    numbers.extend(keys.iter().zip(nulls).map(number));
                }
            },
            BatchKeys::Bytes(keys) => numbers.extend(keys.iter().map(|key| self.of_bytes(key))),
        }
    }

    #[inline]
    fn next(len: &mut u32) -> u32 {
        *len += 1;
        *len - 1
    }

    #[inline]
    fn of_fixed(&mut self, key: u64) -> u32 {
        match self.fixed.entry(mix(key), |entry| entry.0 == key, |entry| mix(entry.0)) {
            Entry::Occupied(entry) => entry.get().1,
            Entry::Vacant(vacant) => vacant.insert((key, Self::next(&mut self.len))).get().1,
        }
    }

    fn of_null(&mut self) -> u32 {
        *self.null.get_or_insert_with(|| Self::next(&mut self.len))
    }

    #[inline]
    fn of_bytes(&mut self, key: &[u8]) -> u32 {
        let hash = hash_bytes_by_words(key).cast_unsigned();
        let (bytes, ends) = (&mut self.bytes, &mut self.ends);
        let stored = |number: u32| {
            let number = number as usize;
            let start = number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
            ends.get(number).and_then(|end| bytes.get(start..*end))
        };
        let same = |entry: &(u32, u32)| entry.0 == hash && stored(entry.1) == Some(key);
        match self.by_bytes.entry(mix(u64::from(hash)), same, |entry| mix(u64::from(entry.0))) {
            Entry::Occupied(entry) => entry.get().1,
            Entry::Vacant(vacant) => {
                let number = vacant.insert((hash, Self::next(&mut self.len))).get().1;
                bytes.extend_from_slice(key);
                ends.push(bytes.len());
                number
            }
        }
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.fixed.clear();
        self.null = None;
        self.by_bytes.clear();
        self.bytes.clear();
        self.ends.clear();
        self.len = 0;
    }

    /// Bytes taken.
    pub(super) fn memory(&self) -> usize {
        self.fixed.allocation_size()
            + self.by_bytes.allocation_size()
            + self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
    }
}
