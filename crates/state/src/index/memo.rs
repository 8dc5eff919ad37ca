//! The keys that a batch had lately, with their numbers: in a batch with few keys most rows need no look at the table.
//!
//! A memo holds for one batch, in which no key is removed, and is emptied by counting batches. It gives up on a batch whose keys hardly come again.

use super::Namespace;

/// Places; a power of two. They fit into the first cache.
const PLACES: usize = 512;
/// Rows after which a batch is judged ..
const JUDGED_ROWS: u32 = 256;
/// .. and how many of them have to be found.
const FOUND_ROWS: u32 = 96;

#[derive(Debug, Clone, Copy, Default)]
struct Place<N> {
    /// The key, or what it is told apart by first.
    key: u64,
    namespace: N,
    /// None is 0.
    batch: u32,
    known: Known,
}

/// A key that came lately.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    pub(super) number: u32,
    /// The row that it came in.
    pub(super) row: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Memo<N> {
    places: Vec<Place<N>>,
    batch: u32,
    judged: u32,
    found: u32,
}

impl<N> Default for Memo<N> {
    fn default() -> Self {
        Self { places: Vec::new(), batch: 0, judged: 0, found: 0 }
    }
}

impl<N: Namespace> Memo<N> {
    /// Begins a batch.
    pub(super) fn begin(&mut self) {
        (self.judged, self.found) = (0, 0);
        self.batch = match self.batch.checked_add(1) {
            Some(batch) if !self.places.is_empty() => batch,
            _ => {
                self.places.clear();
                self.places.resize(PLACES, Place::default());
                1
            }
        };
    }

    /// Whether it is worth asking.
    #[inline]
    pub(super) fn is_useful(&self) -> bool {
        self.judged < JUDGED_ROWS || self.found >= FOUND_ROWS
    }

    /// What is known of a key with this hash, if it came lately.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, key: u64, namespace: N) -> Option<Known> {
        let place = self.places.get(at(hash))?;
        let is_same = place.batch == self.batch && place.key == key && place.namespace == namespace;
        if self.judged < JUDGED_ROWS {
            self.judged += 1;
            self.found += u32::from(is_same);
        }
        is_same.then_some(place.known)
    }

    /// Notes a key with this hash.
    #[inline]
    pub(super) fn note(&mut self, hash: u64, key: u64, namespace: N, known: Known) {
        if let Some(place) = self.places.get_mut(at(hash)) {
            *place = Place { key, namespace, batch: self.batch, known };
        }
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<Place<N>>()
    }
}

/// Where a hash goes: by bits that the table does not tell entries apart with.
#[inline]
fn at(hash: u64) -> usize {
    (hash >> 32) as usize % PLACES
}
