//! Numbers the keys of bundles: one number for each key of each bundle, in first-touch order.
//!
//! Numbers go on from bundle to bundle until the frame ends, so that accumulators and output rows of all bundles of a frame lie one
//! behind the other. A bundle is forgotten by a stamp, not by clearing, since it may have no more than one row.

use std::ops::Range;

use streamfusion_state::{BatchKeys, mix};

use crate::OperatorError;
use crate::group_agg::distinct::DistinctKey;
use crate::group_agg::versions::Bytes;

/// A place of the table. It is empty unless it has the stamp of the open bundle.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The key, or the hash of its bytes.
    key: u64,
    stamp: u32,
    number: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Numbers {
    /// As many as a power of two, at most half of them taken.
    places: Vec<Place>,
    /// The open bundle, from 1.
    stamp: u32,
    /// Keys of the open bundle.
    keys: usize,
    /// The place of the key without a value: NULL, or no column.
    null: Place,
    /// Keys of the frame.
    count: u32,
    /// The bytes of the frame's keys and where each ends, if keys are bytes.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

const SMALLEST: usize = 64;

impl Numbers {
    pub(super) fn new() -> Self {
        Self {
            places: vec![Place::default(); SMALLEST],
            stamp: 1,
            keys: 0,
            null: Place::default(),
            count: 0,
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Keys of the frame, those of its open bundle included.
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Keys of the open bundle.
    pub(super) fn bundle_keys(&self) -> usize {
        self.keys
    }

    /// Appends to `numbers` that of each of the rows, and to `first_rows` those with a key that is new in the bundle.
    pub(super) fn number(
        &mut self,
        keys: &BatchKeys<'_>,
        rows: Range<usize>,
        numbers: &mut Vec<u32>,
        first_rows: &mut Vec<u32>,
    ) -> Result<(), OperatorError> {
        let before = self.count as usize;
        if u32::try_from(rows.end).is_err() || u32::try_from(before + rows.len()).is_err() {
            return Err(OperatorError::Input(format!("a bundle of {} keys and rows", before + rows.len())));
        }
        numbers.reserve(rows.len());
        match keys {
            BatchKeys::Single(_) => {
                for row in rows {
                    let number = self.null(row, first_rows);
                    numbers.push(number);
                }
            }
            BatchKeys::Fixed(bits, None) => {
                for (row, key) in rows.clone().zip(&bits[rows]) {
                    let number = self.find((*key, mix(*key)), false, row, first_rows, |_, _| true);
                    numbers.push(number);
                }
            }
            BatchKeys::Fixed(bits, Some(nulls)) => {
                for (row, key) in rows.clone().zip(&bits[rows]) {
                    let number = if nulls.is_null(row) {
                        self.null(row, first_rows)
                    } else {
                        self.find((*key, mix(*key)), false, row, first_rows, |_, _| true)
                    };
                    numbers.push(number);
                }
            }
            BatchKeys::Bytes(keys) => {
                // Rows of one key often follow one another.
                let mut last: (&[u8], u32) = (&[], 0);
                for row in rows {
                    let bytes = keys.row(row);
                    if bytes == last.0 {
                        numbers.push(last.1);
                        continue;
                    }
                    let hash = <Bytes as DistinctKey>::hash_item(bytes);
                    let known = self.count;
                    let number =
                        self.find((hash, hash), true, row, first_rows, |numbers, number| numbers.key(number) == bytes);
                    if number == known {
                        self.bytes.extend_from_slice(bytes);
                        self.ends.push(self.bytes.len());
                    }
                    numbers.push(number);
                    last = (bytes, number); // a BinaryRow has a byte at least
                }
            }
        }
        Ok(())
    }

    /// The next bundle begins, in the same frame.
    pub(super) fn end_bundle(&mut self) {
        self.keys = 0;
        self.stamp = match self.stamp.checked_add(1) {
            Some(stamp) => stamp,
            None => {
                self.places.fill(Place::default());
                self.null = Place::default();
                1
            }
        };
    }

    /// Forgets all numbers.
    pub(super) fn end_frame(&mut self) {
        self.end_bundle();
        self.count = 0;
        self.bytes.clear();
        self.ends.clear();
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place>() + self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// The bytes of a key of the frame.
    fn key(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[number]]
    }

    #[inline]
    fn null(&mut self, row: usize, first_rows: &mut Vec<u32>) -> u32 {
        if self.null.stamp != self.stamp {
            self.null = Place { key: 0, stamp: self.stamp, number: self.add(row, first_rows) };
        }
        self.null.number
    }

    /// The next number.
    #[inline]
    fn add(&mut self, row: usize, first_rows: &mut Vec<u32>) -> u32 {
        let number = self.count;
        self.count += 1;
        self.keys += 1;
        first_rows.push(row as u32); // checked for all rows
        number
    }

    /// The number of a key, of which the table has `key` (`hashed`: its hash), and which `same` confirms.
    #[inline]
    fn find(
        &mut self,
        (key, hash): (u64, u64),
        hashed: bool,
        row: usize,
        first_rows: &mut Vec<u32>,
        same: impl Fn(&Self, u32) -> bool,
    ) -> u32 {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask; // the low bits
        loop {
            let place = self.places[at];
            if place.stamp != self.stamp {
                break;
            }
            if place.key == key && same(self, place.number) {
                return place.number;
            }
            at = (at + 1) & mask;
        }
        let number = self.add(row, first_rows);
        self.places[at] = Place { key, stamp: self.stamp, number };
        if self.keys * 2 > self.places.len() {
            self.grow(hashed);
        }
        number
    }

    /// Doubles the table. `hashed` says whether it has hashes instead of keys.
    fn grow(&mut self, hashed: bool) {
        let places = vec![Place::default(); self.places.len() * 2];
        let mask = places.len() - 1;
        for place in std::mem::replace(&mut self.places, places) {
            if place.stamp == self.stamp {
                let hash = if hashed { place.key } else { mix(place.key) };
                let mut at = hash as usize & mask; // the low bits
                while self.places[at].stamp == self.stamp {
                    at = (at + 1) & mask;
                }
                self.places[at] = place;
            }
        }
    }
}
