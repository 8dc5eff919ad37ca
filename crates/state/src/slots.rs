//! Slot numbers, handed out per key group.
//!
//! Slots come in pages, as the values do, and a page belongs to one key group: the values of a group lie in whole pages
//! and are found without looking at any other. A free slot is used again inside its group; a page without any slot in use
//! goes to whichever group needs one next.
//!
//! Invariants: a page with a slot in use and a free one is listed under its group, one with neither is listed as empty.

use std::sync::OnceLock;

use streamfusion_row::KeyGroup;

use crate::StateError;
use crate::keyed::KeyGroups;
use crate::paged::{PAGE, PagedSnapshot, PagedVec, Value};

/// No slot: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;
const _: () = assert!(PAGE == u64::BITS as usize);

/// Whose a page is, and which of its slots are in use, bit by bit.
#[derive(Debug, Clone, Copy, Default)]
struct PageUse {
    used: u64,
    group: u16,
}

impl Value for PageUse {}

/// Hands out slots.
#[derive(Debug)]
pub struct Slots {
    groups: KeyGroups,
    pages: PagedVec<PageUse>,
    num_pages: u32,
    /// Per key group of this subtask: its pages with free slots.
    open: Vec<Vec<u32>>,
    /// Per page: where it stands in the list of its group, if it does.
    listed: Vec<u32>,
    empty: Vec<u32>,
    in_use: usize,
}

fn number(length: usize) -> u32 {
    // a list has no more pages than there are
    u32::try_from(length).unwrap_or(NONE)
}

impl Slots {
    /// No slots in use yet.
    pub fn new(groups: KeyGroups) -> Self {
        Self {
            groups,
            pages: PagedVec::new(PageUse::default()),
            num_pages: 0,
            open: vec![Vec::new(); groups.range().len()],
            listed: Vec::new(),
            empty: Vec::new(),
            in_use: 0,
        }
    }

    /// The key groups of this subtask.
    pub fn groups(&self) -> KeyGroups {
        self.groups
    }

    /// A slot for a key whose BinaryRow has the hash `hash`.
    pub fn acquire_for(&mut self, hash: i32) -> Result<u32, StateError> {
        self.acquire(KeyGroup::of_hash(hash, self.groups.max_parallelism), "keys")
    }

    /// A slot of a key group, which must be one of this subtask.
    pub fn acquire(&mut self, group: KeyGroup, what: &'static str) -> Result<u32, StateError> {
        let page = self.open_page(group, what)?;
        let entry = self.pages.get_mut(page);
        let offset = entry.used.trailing_ones();
        entry.used |= 1 << offset;
        if entry.used == u64::MAX {
            self.close_page(group, page);
        }
        self.in_use += 1;
        Ok(page * PAGE as u32 + offset)
    }

    /// So many slots of a key group, which must be one of this subtask, page by page. Appended to `slots`.
    pub(crate) fn acquire_many(
        &mut self,
        group: KeyGroup,
        what: &'static str,
        mut count: usize,
        slots: &mut Vec<u32>,
    ) -> Result<(), StateError> {
        slots.reserve(count);
        while count > 0 {
            let page = self.open_page(group, what)?;
            let entry = self.pages.get_mut(page);
            let known = slots.len();
            slots.extend(bits(!entry.used).take(count).map(|offset| page * PAGE as u32 + offset as u32));
            let taken = slots.iter().skip(known);
            entry.used = taken.fold(entry.used, |used, slot| used | 1 << (slot % PAGE as u32));
            if entry.used == u64::MAX {
                self.close_page(group, page);
            }
            count -= slots.len() - known;
            self.in_use += slots.len() - known;
        }
        Ok(())
    }

    /// A page of a key group that has a free slot.
    fn open_page(&mut self, group: KeyGroup, what: &'static str) -> Result<u32, StateError> {
        let foreign = StateError::Foreign { key_group: group.0, first: self.groups.first, last: self.groups.last };
        let open = group.0.checked_sub(self.groups.first).and_then(|place| self.open.get_mut(usize::from(place)));
        let open = open.ok_or(foreign)?;
        if let Some(page) = open.last() {
            return Ok(*page);
        }
        let page = match self.empty.pop() {
            Some(page) => page,
            None => {
                // the last page would have the slot that means none
                if self.num_pages >= NONE / PAGE as u32 {
                    return Err(StateError::Full { what, limit: u64::from(NONE) });
                }
                self.listed.push(NONE);
                self.num_pages += 1;
                self.num_pages - 1
            }
        };
        self.listed[page as usize] = 0;
        open.push(page);
        *self.pages.get_mut(page) = PageUse { used: 0, group: group.0 };
        Ok(page)
    }

    /// The last page of those of a key group that had free slots has none any more.
    fn close_page(&mut self, group: KeyGroup, page: u32) {
        if let Some(open) = self.open.get_mut(usize::from(group.0 - self.groups.first)) {
            open.pop();
            self.listed[page as usize] = NONE;
        }
    }

    /// Takes back a slot, which must be in use.
    pub fn release(&mut self, slot: u32) {
        let page = slot / PAGE as u32;
        let entry = self.pages.get_mut(page);
        entry.used &= !(1 << (slot % PAGE as u32));
        let PageUse { used, group } = *entry;
        self.in_use -= 1;
        let Some(open) = self.open.get_mut(usize::from(group - self.groups.first)) else { return };
        if self.listed[page as usize] == NONE {
            self.listed[page as usize] = number(open.len());
            open.push(page);
        }
        if used == 0 {
            let place = std::mem::replace(&mut self.listed[page as usize], NONE);
            open.swap_remove(place as usize);
            if let Some(moved) = open.get(place as usize) {
                self.listed[*moved as usize] = place;
            }
            self.empty.push(page);
        }
    }

    /// The key group of a slot in use.
    #[inline]
    pub fn group(&self, slot: u32) -> KeyGroup {
        KeyGroup(self.pages.get(slot / PAGE as u32).group)
    }

    /// Which slots of a page are in use, bit by bit.
    pub fn used(&self, page: u32) -> u64 {
        self.pages.get(page).used
    }

    /// How many pages there are.
    pub fn num_pages(&self) -> u32 {
        self.num_pages
    }

    /// How many slots are in use.
    pub fn len(&self) -> usize {
        self.in_use
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.in_use == 0
    }

    /// One more than the highest slot ever in use.
    pub fn bound(&self) -> usize {
        self.num_pages as usize * PAGE
    }

    pub(crate) fn snapshot(&mut self) -> SlotsSnapshot {
        SlotsSnapshot { pages: self.pages.snapshot(), num_pages: self.num_pages, by_group: OnceLock::new() }
    }

    pub(crate) fn maintain(&mut self, pages: usize) {
        self.pages.maintain(pages);
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.pages.bytes()
            + (self.listed.capacity() + self.empty.capacity()) * size_of::<u32>()
            + self.open.capacity() * size_of::<Vec<u32>>()
    }
}

/// The slots in use of one page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsedPage {
    pub(crate) page: u32,
    pub(crate) used: u64,
}

/// Which slots were in use.
#[derive(Debug)]
pub(crate) struct SlotsSnapshot {
    pages: PagedSnapshot<PageUse>,
    num_pages: u32,
    by_group: OnceLock<ByGroup>,
}

/// The pages that have slots in use, by key group.
#[derive(Debug, Default)]
struct ByGroup {
    pages: Vec<UsedPage>,
    /// Group, and where its pages end in `pages`; ascending.
    groups: Vec<(KeyGroup, usize)>,
    /// Per page: how many slots of its group are in use in the pages before it.
    ranks: Vec<u32>,
}

impl SlotsSnapshot {
    /// Sorted at the first use, which is not on the thread that took the snapshot.
    fn by_group(&self) -> &ByGroup {
        self.by_group.get_or_init(|| {
            let mut pages: Vec<(u16, UsedPage)> = (0..self.num_pages)
                .map(|page| (page, self.pages.get(page)))
                .filter(|(_, entry)| entry.used != 0)
                .map(|(page, entry)| (entry.group, UsedPage { page, used: entry.used }))
                .collect();
            pages.sort_by_key(|(group, page)| (*group, page.page));
            let mut sorted = ByGroup { ranks: vec![0; self.num_pages as usize], ..ByGroup::default() };
            for of_group in pages.chunk_by(|(a, _), (b, _)| a == b) {
                let mut rank = 0;
                for (_, page) in of_group {
                    if let Some(place) = sorted.ranks.get_mut(page.page as usize) {
                        *place = rank;
                    }
                    rank += page.used.count_ones();
                    sorted.pages.push(*page);
                }
                if let Some((group, _)) = of_group.first() {
                    sorted.groups.push((KeyGroup(*group), sorted.pages.len()));
                }
            }
            sorted
        })
    }

    /// The groups with slots in use, ascending.
    pub(crate) fn groups(&self) -> Vec<KeyGroup> {
        self.by_group().groups.iter().map(|(group, _)| *group).collect()
    }

    /// The pages of a group with slots in use, ascending.
    pub(crate) fn pages(&self, group: KeyGroup) -> &[UsedPage] {
        let sorted = self.by_group();
        let Ok(place) = sorted.groups.binary_search_by_key(&group, |(group, _)| *group) else { return &[] };
        let start = place.checked_sub(1).map_or(0, |before| sorted.groups[before].1);
        &sorted.pages[start..sorted.groups[place].1]
    }

    /// The number of a slot in use among those of its group.
    #[inline]
    pub(crate) fn rank(&self, slot: u32) -> u32 {
        let page = slot / PAGE as u32;
        let before = self.pages.get(page).used & ((1 << (slot % PAGE as u32)) - 1);
        self.by_group().ranks.get(page as usize).copied().unwrap_or_default() + before.count_ones()
    }
}

/// Rows per record batch, about.
pub(crate) const BATCH_ROWS: usize = 1 << 16;

/// How many slots of these pages are in use.
pub(crate) fn count(pages: &[UsedPage]) -> usize {
    pages.iter().map(|page| page.used.count_ones() as usize).sum()
}

/// Calls `each` with pages that make about a record batch, and how many slots of them are in use, until there are no more.
pub(crate) fn for_each_piece<E>(
    pages: &[UsedPage],
    mut each: impl FnMut(&[UsedPage], usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = pages;
    while !rest.is_empty() {
        let mut rows = 0;
        let taken = rest.iter().take_while(|page| {
            let room = rows < BATCH_ROWS;
            rows += if room { page.used.count_ones() as usize } else { 0 };
            room
        });
        let (pages, others) = rest.split_at(taken.count());
        rest = others;
        each(pages, rows)?;
    }
    Ok(())
}

/// The places of the bits of a word.
#[inline]
pub(crate) fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.trailing_zeros() as usize;
            word &= word - 1;
            bit
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn groups() -> KeyGroups {
        KeyGroups { max_parallelism: 128, first: 3, last: 6 }
    }

    #[test]
    fn group_of_another_subtask_is_refused() {
        let mut slots = Slots::new(groups());
        for group in [2, 7, 300] {
            assert_eq!(
                slots.acquire(KeyGroup(group), "keys"),
                Err(StateError::Foreign { key_group: group, first: 3, last: 6 })
            );
        }
    }

    #[test]
    fn empty_pages_go_to_another_group() -> Result<(), StateError> {
        let mut slots = Slots::new(groups());
        for round in 0..40_u16 {
            let group = KeyGroup(3 + round % 4);
            let acquired = (0..200).map(|_| slots.acquire(group, "keys")).collect::<Result<Vec<_>, _>>()?;
            acquired.into_iter().for_each(|slot| slots.release(slot));
        }
        assert!(slots.is_empty());
        assert_eq!(slots.bound(), 256);
        Ok(())
    }

    /// The slots of a snapshot with their groups; ranks go up within a group.
    fn found(snapshot: &SlotsSnapshot) -> BTreeMap<u32, KeyGroup> {
        let mut found = BTreeMap::new();
        for group in snapshot.groups() {
            let mut rank = 0;
            for page in snapshot.pages(group) {
                for bit in bits(page.used) {
                    let slot = page.page * 64 + bit as u32;
                    assert_eq!(snapshot.rank(slot), rank);
                    rank += 1;
                    found.insert(slot, group);
                }
            }
        }
        found
    }

    #[test]
    fn a_snapshot_has_a_page_that_went_to_another_group_since() -> Result<(), StateError> {
        let mut slots = Slots::new(groups());
        let before = (0..100).map(|_| slots.acquire(KeyGroup(3), "keys")).collect::<Result<Vec<_>, _>>()?;
        let snapshot = slots.snapshot();
        before.iter().for_each(|slot| slots.release(*slot));
        for _ in 0..200 {
            slots.acquire(KeyGroup(5), "keys")?;
        }
        assert!(before.iter().all(|slot| slots.group(*slot) == KeyGroup(5)));
        // nothing of the snapshot was looked at before
        assert_eq!(found(&snapshot), before.iter().map(|slot| (*slot, KeyGroup(3))).collect());
        Ok(())
    }

    proptest! {
        #[test]
        fn slots_are_distinct_and_pages_have_one_group(
            steps in prop::collection::vec((3_u16..7, any::<prop::sample::Index>(), 0_u8..60), 0..800),
        ) {
            let mut slots = Slots::new(groups());
            let mut model: BTreeMap<u32, KeyGroup> = BTreeMap::new();
            let mut held = Vec::new();
            for (group, which, step) in steps {
                match step {
                    0 => held.push((slots.snapshot(), model.clone())),
                    3 => {
                        let mut acquired = Vec::new();
                        let count = which.index(90);
                        let result = slots.acquire_many(KeyGroup(group), "keys", count, &mut acquired);
                        result.map_err(|error| TestCaseError::fail(error.to_string()))?;
                        prop_assert_eq!(acquired.len(), count);
                        for slot in acquired {
                            prop_assert_eq!(model.insert(slot, KeyGroup(group)), None);
                        }
                    }
                    1 => slots.maintain(2),
                    2 if !held.is_empty() => {
                        let (snapshot, then) = held.swap_remove(which.index(held.len()));
                        prop_assert_eq!(found(&snapshot), then);
                    }
                    step if step < 36 || model.is_empty() => {
                        let acquired = slots.acquire(KeyGroup(group), "keys");
                        let slot = acquired.map_err(|error| TestCaseError::fail(error.to_string()))?;
                        prop_assert_eq!(model.insert(slot, KeyGroup(group)), None);
                    }
                    _ => {
                        let slot = *which.get(&model.keys().copied().collect::<Vec<_>>());
                        slots.release(slot);
                        model.remove(&slot);
                    }
                }
                prop_assert_eq!(slots.len(), model.len());
            }
            held.push((slots.snapshot(), model));
            for (snapshot, then) in held {
                prop_assert_eq!(found(&snapshot), then);
            }
        }
    }
}
