//! Sorted maps by slot, and what they take.

/// A map, or several, per slot. How many slots have something in theirs is counted: each takes a node of its own.
#[derive(Debug)]
pub(super) struct SlotMaps<M> {
    maps: Vec<(M, bool)>,
    filled: usize,
}

impl<M> Default for SlotMaps<M> {
    fn default() -> Self {
        Self { maps: Vec::new(), filled: 0 }
    }
}

impl<M: Default> SlotMaps<M> {
    fn place(&mut self, slot: u32) -> &mut (M, bool) {
        if slot as usize >= self.maps.len() {
            self.maps.resize_with(slot as usize + 1, Default::default);
        }
        &mut self.maps[slot as usize]
    }

    /// The map of a slot, to look something up or take it out. One that has nothing any more is then [emptied](Self::empty).
    #[inline]
    pub(super) fn of(&mut self, slot: u32) -> &mut M {
        &mut self.place(slot).0
    }

    /// The map of a slot into which something goes.
    pub(super) fn filled(&mut self, slot: u32) -> &mut M {
        let added = !std::mem::replace(&mut self.place(slot).1, true);
        self.filled += usize::from(added);
        self.of(slot)
    }

    /// Frees the map of a slot, which has nothing any more. Maps alone keep a node for what may come.
    pub(super) fn empty(&mut self, slot: u32) {
        let (_, filled) = std::mem::take(self.place(slot));
        self.filled -= usize::from(filled);
    }

    /// How many slots have something.
    pub(super) fn len(&self) -> usize {
        self.filled
    }

    /// Bytes taken, without the nodes of the maps.
    pub(super) fn bytes(&self) -> usize {
        self.maps.capacity() * size_of::<(M, bool)>()
    }
}

/// Elements for which a node of a `BTreeMap` has room.
const NODE: usize = 11;
/// What a node has beside them: pointer to and place in its parent, length.
const NODE_HEADER: usize = 16;
/// How much of the room in the nodes of a larger map is not used: less than half.
const SLACK: usize = 2;

/// Bytes of the nodes of so many maps that are not empty, with so many entries together.
pub(super) fn map_bytes<K, V>(maps: usize, entries: usize) -> usize {
    let entry = size_of::<K>() + size_of::<V>();
    maps * (NODE * entry + NODE_HEADER) + entries.saturating_sub(NODE * maps) * SLACK * entry
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn maps_count_as_long_as_something_is_in_them() {
        let mut maps: SlotMaps<BTreeMap<u64, u32>> = SlotMaps::default();
        for slot in [3, 3, 7] {
            let len = maps.of(slot).len();
            maps.filled(slot).insert(len as u64, 0);
        }
        assert_eq!((maps.of(3).len(), maps.of(5).len(), maps.len()), (2, 0, 2));
        maps.of(3).clear();
        maps.empty(3);
        maps.empty(5);
        assert_eq!((maps.of(3).len(), maps.of(7).len(), maps.len()), (0, 1, 1));
    }

    #[test]
    fn a_map_takes_a_node_at_least() {
        assert_eq!(map_bytes::<u64, u32>(0, 0), 0);
        assert_eq!(map_bytes::<u64, u32>(1000, 1000), 1000 * (11 * 12 + 16));
        assert_eq!(map_bytes::<u64, u32>(1, 1011), 11 * 12 + 16 + 1000 * 2 * 12);
    }
}
