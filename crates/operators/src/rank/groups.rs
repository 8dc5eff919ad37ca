//! The groups of a partition in the order of their sort keys: a sorted list in chunks.
//!
//! Top-N is about the first few rows of small partitions, and walks along them for every row. A chunk is a plain vector, which one
//! search and one move of a few entries keep in order; a partition with few sort keys is a single chunk. Larger ones have
//! more chunks and longer ones, both about as the root of what they have.
//!
//! Invariants: keys ascend and differ. A chunk behind the first is never empty, and its separator is not above its first key and
//! above the last one of the chunk before. A [`Place`] is valid until the next insertion or removal.

/// Entries that a chunk may have whatever the size of the list.
const SMALLEST_LIMIT: usize = 64;
const LARGEST_LIMIT: usize = 2048;

/// The rows of one sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    /// Position of the first one.
    pub(super) first: u32,
    /// How many there are.
    pub(super) len: u32,
    /// How many Flink counts: less than there are, if rows were retracted that it does not have; more, if some have expired.
    pub(super) count: u32,
}

type Chunk<K> = Vec<(K, Group)>;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Groups<K> {
    first: Chunk<K>,
    /// What divides each of the other chunks from the one before it.
    separators: Vec<K>,
    others: Vec<Chunk<K>>,
    len: usize,
}

/// Where a group is, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    chunk: usize,
    at: usize,
}

impl<K: Ord + Clone> Groups<K> {
    pub(super) fn new() -> Self {
        Self { first: Vec::new(), separators: Vec::new(), others: Vec::new(), len: 0 }
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no group.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn chunk(&self, number: usize) -> &[(K, Group)] {
        match number.checked_sub(1) {
            None => &self.first,
            Some(other) => self.others.get(other).map(Vec::as_slice).unwrap_or_default(),
        }
    }

    #[inline]
    fn chunk_mut(&mut self, number: usize) -> Option<&mut Chunk<K>> {
        match number.checked_sub(1) {
            None => Some(&mut self.first),
            Some(other) => self.others.get_mut(other),
        }
    }

    /// The place of the group of `key`, or where it would be.
    #[inline]
    pub(super) fn locate(&self, key: &K) -> Result<Place, Place> {
        let chunk = if self.others.is_empty() { 0 } else { self.separators.partition_point(|low| low <= key) };
        match self.chunk(chunk).binary_search_by(|(other, _)| other.cmp(key)) {
            Ok(at) => Ok(Place { chunk, at }),
            Err(at) => Err(Place { chunk, at }),
        }
    }

    /// The group at `place`, if there is one.
    #[inline]
    pub(super) fn get(&self, place: Place) -> Option<Group> {
        self.chunk(place.chunk).get(place.at).map(|(_, group)| *group)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Group> {
        self.chunk_mut(place.chunk)?.get_mut(place.at).map(|(_, group)| group)
    }

    /// The group at `place` or, where there is none, the one behind it.
    #[inline]
    pub(super) fn at_or_behind(&self, place: Place) -> Option<Group> {
        self.get(place).or_else(|| self.chunk(place.chunk + 1).first().map(|(_, group)| *group))
    }

    /// The group behind the one at `place`.
    #[inline]
    pub(super) fn behind(&self, place: Place) -> Option<Group> {
        self.at_or_behind(Place { at: place.at + 1, ..place })
    }

    /// The first group with its sort key.
    #[inline]
    pub(super) fn first(&self) -> Option<(&K, Group)> {
        // the first chunk is empty only if a removal emptied it
        self.iter().next()
    }

    /// The last group with its sort key.
    #[inline]
    pub(super) fn last(&self) -> Option<(&K, Group)> {
        let last = self.others.last().unwrap_or(&self.first);
        last.last().map(|(key, group)| (key, *group))
    }

    /// Where the last group is.
    pub(super) fn last_place(&self) -> Option<Place> {
        let chunk = self.others.len();
        let at = self.chunk(chunk).len().checked_sub(1)?;
        Some(Place { chunk, at })
    }

    /// Where the group is in front of which there are so many.
    pub(super) fn place_of(&self, number: usize) -> Option<Place> {
        let mut at = number;
        for chunk in 0..=self.others.len() {
            match at.checked_sub(self.chunk(chunk).len()) {
                Some(left) => at = left,
                None => return Some(Place { chunk, at }),
            }
        }
        None
    }

    /// All groups in order.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, Group)> {
        let others = self.others.iter().flat_map(|chunk| chunk.iter());
        self.first.iter().chain(others).map(|(key, group)| (key, *group))
    }

    /// The groups from `place` on, in order.
    #[inline]
    pub(super) fn from(&self, place: Place) -> impl Iterator<Item = (&K, Group)> {
        let of_chunk = self.chunk(place.chunk).get(place.at..).unwrap_or_default();
        let others = self.others.get(place.chunk..).unwrap_or_default().iter().flat_map(|chunk| chunk.iter());
        of_chunk.iter().chain(others).map(|(key, group)| (key, *group))
    }

    /// The groups in front of `place`, in order.
    #[inline]
    pub(super) fn before(&self, place: Place) -> impl Iterator<Item = Group> {
        let whole = (0..place.chunk).flat_map(|chunk| self.chunk(chunk));
        let of_chunk = self.chunk(place.chunk).iter().take(place.at);
        whole.chain(of_chunk).map(|(_, group)| *group)
    }

    /// Puts a group at a place where its key [would be](Groups::locate), and returns where it is then.
    #[inline]
    pub(super) fn insert(&mut self, place: Place, key: K, group: Group) -> Place {
        let limit = (self.others.len() / 8).clamp(SMALLEST_LIMIT, LARGEST_LIMIT);
        let Place { chunk: number, at } = place;
        let Some(chunk) = self.chunk_mut(number) else { return place };
        chunk.insert(at.min(chunk.len()), (key, group));
        let full = chunk.len() > limit;
        self.len += 1;
        if full { self.split(place) } else { place }
    }

    /// Divides a chunk in two, and returns where the group at `place` is then.
    #[cold]
    fn split(&mut self, place: Place) -> Place {
        let Place { chunk: number, at } = place;
        let Some(chunk) = self.chunk_mut(number) else { return place };
        // what comes in order leaves full chunks
        let middle = if at + 1 == chunk.len() { at } else { chunk.len() / 2 };
        let upper = chunk.split_off(middle);
        let Some((separator, _)) = upper.first().cloned() else { return place };
        self.separators.insert(number, separator);
        self.others.insert(number, upper);
        if at < middle { place } else { Place { chunk: number + 1, at: at - middle } }
    }

    /// Removes the group at `place` and returns its key.
    pub(super) fn remove(&mut self, place: Place) -> Option<K> {
        let chunk = self.chunk_mut(place.chunk)?;
        if place.at >= chunk.len() {
            return None;
        }
        let (key, _) = chunk.remove(place.at);
        let few = chunk.len() <= SMALLEST_LIMIT / 4;
        self.len -= 1;
        if few && !self.others.is_empty() {
            self.merge(place.chunk);
        }
        Some(key)
    }

    /// Puts a chunk that has few entries together with the one behind it, or in front of it, if both have few.
    #[cold]
    fn merge(&mut self, number: usize) {
        for lower in [Some(number), number.checked_sub(1)].into_iter().flatten() {
            let (few, more) = (self.chunk(lower).len(), self.chunk(lower + 1).len());
            if lower < self.others.len() && (few == 0 || more == 0 || few + more <= SMALLEST_LIMIT / 2) {
                let mut upper = self.others.remove(lower);
                self.separators.remove(lower);
                if let Some(chunk) = self.chunk_mut(lower) {
                    chunk.append(&mut upper);
                }
                return;
            }
        }
    }

    /// Bytes taken, about, beside what keys have on the heap.
    pub(super) fn bytes(&self) -> usize {
        // chunks are about three quarters full
        self.len * size_of::<(K, Group)>() * 4 / 3 + self.others.len() * (size_of::<Chunk<K>>() + size_of::<K>())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn group(first: u32) -> Group {
        Group { first, len: 1, count: 1 }
    }

    proptest! {
        #[test]
        fn groups_are_a_sorted_map(
            changes in prop::collection::vec((any::<bool>(), 0_u32..600), 0..1500),
            ascending in any::<bool>(),
        ) {
            let mut groups = Groups::new();
            let mut model = BTreeMap::new();
            for (number, (inserts, key)) in (0_u32..).zip(changes) {
                let key = if ascending && inserts { number } else { key };
                match groups.locate(&key) {
                    Ok(place) => {
                        prop_assert_eq!(groups.get(place).map(|group| group.first), model.get(&key).copied());
                        let behind = model.range(key + 1..).next().map(|(_, first)| *first);
                        prop_assert_eq!(groups.behind(place).map(|group| group.first), behind);
                        if !inserts {
                            prop_assert_eq!(groups.remove(place), Some(key));
                            model.remove(&key);
                        }
                    }
                    Err(place) => {
                        prop_assert!(!model.contains_key(&key));
                        let behind = model.range(key..).next().map(|(_, first)| *first);
                        prop_assert_eq!(groups.at_or_behind(place).map(|group| group.first), behind);
                        if inserts {
                            let place = groups.insert(place, key, group(number));
                            model.insert(key, number);
                            prop_assert_eq!(groups.locate(&key), Ok(place));
                            let (from, before) = (groups.from(place).count(), groups.before(place).count());
                            prop_assert_eq!((from, before), (model.range(key..).count(), model.range(..key).count()));
                        }
                    }
                }
                prop_assert_eq!(groups.first().map(|(key, _)| *key), model.keys().next().copied());
                prop_assert_eq!(groups.last().map(|(key, _)| *key), model.keys().last().copied());
                prop_assert_eq!(groups.last_place().and_then(|place| groups.get(place)), groups.last().map(|last| last.1));
                prop_assert_eq!((groups.len(), groups.is_empty()), (model.len(), model.is_empty()));
                let number = groups.len() / 2;
                let middle = groups.place_of(number).and_then(|place| groups.get(place)).map(|group| group.first);
                prop_assert_eq!(middle, model.values().nth(number).copied());
                prop_assert_eq!(groups.place_of(groups.len()), None);
            }
            let found: Vec<(u32, u32)> = groups.iter().map(|(key, group)| (*key, group.first)).collect();
            prop_assert_eq!(found, model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn few_groups_that_are_left_of_many_lie_in_few_chunks() {
        let mut groups = Groups::new();
        for key in 0..10_000_u32 {
            if let Err(place) = groups.locate(&(key * 7919 % 10_000)) {
                groups.insert(place, key * 7919 % 10_000, group(key));
            }
        }
        for key in (0..10_000_u32).filter(|key| key % 500 != 0) {
            if let Ok(place) = groups.locate(&key) {
                groups.remove(place);
            }
        }
        assert_eq!((groups.len, groups.others.len()), (20, 0));
    }
}
