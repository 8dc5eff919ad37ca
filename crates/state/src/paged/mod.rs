//! A vector in pages, whose snapshots cost a move.
//!
//! A snapshot moves the whole page directory into a *generation*, which it shares with the vector; the vector goes on with
//! an empty one. Reading falls through: own pages, then the generations from the newest to the oldest; the first write to
//! a page copies it. So a snapshot touches no page and counts no reference per page, however many there are. Once nobody
//! else holds the newest generation, its pages move back, some at a time (see [`PagedVec::maintain`]); those that were
//! copied meanwhile are superseded, and freed some at a time or with the next snapshot, on its thread.
//!
//! Invariants: a page in a generation is never written while a snapshot holds the generation; of two generations with
//! the same page the newer one is right; a snapshot that holds a generation holds all older ones, so that the newest one
//! is free first. A page that is nowhere has the empty value in every place.

mod generation;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::sync::Arc;

pub use generation::PagedSnapshot;

use self::generation::{Frozen, Generation, Superseded};

/// Elements per page.
pub const PAGE: usize = 64;

/// Generations above which old pages are copied upwards, so that snapshots which always overlap do not pile them up.
const DEPTH: usize = 4;

/// Batches in which the oldest generation is copied upwards, at most, if there is one too many; fewer if there are more.
const LIFTS: usize = 16;

/// A page of values.
pub type Page<T> = [T; PAGE];

/// A value in a table.
pub trait Value: Clone + Debug + Send + Sync + 'static {
    /// Bytes that it owns or shares on the heap. Costs next to nothing.
    #[inline]
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// The pages that a vector works on, by number.
type Directory<T> = Vec<Option<Box<Page<T>>>>;

/// Values by slot, a `u32`. Slots that were never written have the empty value.
#[derive(Debug)]
pub struct PagedVec<T> {
    live: Directory<T>,
    /// From the oldest to the newest.
    generations: Vec<Arc<Generation<T>>>,
    empty: T,
    live_pages: usize,
    frozen: Arc<Frozen>,
    superseded: Superseded<T>,
    /// How far the oldest generation was copied upwards.
    lifted: usize,
}

#[inline]
fn split(slot: u32) -> (usize, usize) {
    let position = slot as usize;
    (position / PAGE, position % PAGE)
}

/// The page in the newest generation that has it.
fn frozen_page<T>(generations: &[Arc<Generation<T>>], page: usize) -> Option<&Page<T>> {
    generations.iter().rev().find_map(|generation| generation.page(page))
}

impl<T: Value> PagedVec<T> {
    /// A vector that has `empty` everywhere.
    pub fn new(empty: T) -> Self {
        let frozen = Arc::default();
        Self {
            live: Vec::new(),
            generations: Vec::new(),
            empty,
            live_pages: 0,
            superseded: Superseded::new(&frozen),
            frozen,
            lifted: 0,
        }
    }

    /// The empty value.
    pub fn empty(&self) -> &T {
        &self.empty
    }

    /// The value at `slot`.
    #[inline]
    pub fn get(&self, slot: u32) -> &T {
        let (page, offset) = split(slot);
        match self.live.get(page) {
            Some(Some(page)) => &page[offset],
            _ => self.get_frozen(page, offset),
        }
    }

    #[inline(never)]
    fn get_frozen(&self, page: usize, offset: usize) -> &T {
        frozen_page(&self.generations, page).map_or(&self.empty, |page| &page[offset])
    }

    /// The value at `slot` for writing; copies the page if a snapshot may hold it.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut T {
        let (page, offset) = split(slot);
        if page >= self.live.len() {
            self.live.resize_with(page + 1, || None);
        }
        let Self { live, generations, empty, live_pages, frozen, .. } = self;
        let page = live[page].get_or_insert_with(|| {
            *live_pages += 1;
            copy_page(generations, empty, frozen, page)
        });
        &mut page[offset]
    }

    /// The values as they are now.
    pub fn snapshot(&mut self) -> PagedSnapshot<T> {
        if self.live_pages > 0 {
            // zeroed memory: the pages of the directory itself come when they are touched
            let next = vec![None; self.live.len()];
            let pages = std::mem::replace(&mut self.live, next);
            self.generations.push(Arc::new(Generation::new(pages, self.live_pages, &self.frozen)));
            self.live_pages = 0;
        }
        let superseded = (!self.superseded.is_empty()).then(|| {
            let next = Superseded::new(&self.frozen);
            Arc::new(std::mem::replace(&mut self.superseded, next))
        });
        PagedSnapshot::new(self.generations.clone(), self.empty.clone(), superseded)
    }

    /// Takes back what no snapshot holds any more: about so many pages of each kind of work. Called once per batch.
    ///
    /// Of several generations the newest is taken back whole: it has what was written or taken back since the snapshot
    /// before, so that this is no more work than was done meanwhile. Otherwise snapshots with few batches between them
    /// would leave one generation each.
    pub fn maintain(&mut self, pages: usize) {
        self.take_back(pages);
        // a value that owns something is freed by itself
        let freed = if std::mem::needs_drop::<T>() { pages / 16 } else { pages / 2 };
        self.superseded.free(freed.max(1));
    }

    fn take_back(&mut self, pages: usize) {
        loop {
            let several = self.generations.len() > 1;
            let Some(newest) = self.generations.last_mut() else { return };
            let Some(generation) = Arc::get_mut(newest) else {
                if self.generations.len() > DEPTH {
                    self.lift(pages / 8);
                }
                return;
            };
            let mut left = pages;
            if self.live.len() < generation.len() {
                self.live.resize_with(generation.len(), || None);
            }
            while several || left > 0 {
                let Some((number, page)) = generation.take_next() else { break };
                left = left.saturating_sub(1);
                match self.live.get_mut(number) {
                    Some(live) if live.is_none() => {
                        *live = Some(page);
                        self.live_pages += 1;
                    }
                    _ => self.superseded.push(page),
                }
            }
            if generation.count() > 0 {
                return;
            }
            self.superseded.retain(generation.retained());
            self.generations.pop();
            if self.generations.is_empty() {
                self.lifted = 0;
            }
        }
    }

    /// Copies pages that only the oldest generation has, until it is not needed any more: so many at most, or more if
    /// generations keep coming, so that there are never more than [`DEPTH`] and [`LIFTS`].
    fn lift(&mut self, pages: usize) {
        let excess = self.generations.len().saturating_sub(DEPTH);
        let Some((oldest, newer)) = self.generations.split_first() else { return };
        let mut left = pages.max(oldest.count() * excess / LIFTS);
        if self.live.len() < oldest.len() {
            self.live.resize_with(oldest.len(), || None);
        }
        let mut lifted = oldest.len();
        for (number, live) in self.live.iter_mut().enumerate().take(oldest.len()).skip(self.lifted) {
            if left == 0 {
                lifted = number;
                break;
            }
            if live.is_none()
                && frozen_page(newer, number).is_none()
                && let Some(page) = oldest.page(number)
            {
                oldest.retain(&self.frozen, heap_bytes(page));
                *live = Some(Box::new(page.clone()));
                self.live_pages += 1;
                left -= 1;
            }
        }
        self.lifted = lifted;
        if lifted == oldest.len() {
            self.generations.remove(0);
            self.lifted = 0;
        }
    }

    /// Bytes of all pages, those that only snapshots hold included, and the heap that values in such pages keep alive.
    pub fn bytes(&self) -> usize {
        self.live_pages * size_of::<Page<T>>()
            + self.live.capacity() * size_of::<Option<Box<Page<T>>>>()
            + self.frozen.bytes()
    }
}

fn heap_bytes<T: Value>(page: &Page<T>) -> usize {
    page.iter().map(Value::heap_bytes).sum()
}

/// A page of its own with the values of the newest generation that has it.
#[cold]
fn copy_page<T: Value>(generations: &[Arc<Generation<T>>], empty: &T, frozen: &Frozen, page: usize) -> Box<Page<T>> {
    match generations.iter().rev().find_map(|generation| Some((generation, generation.page(page)?))) {
        Some((generation, values)) => {
            // from now on the snapshot alone may keep what the values have on the heap
            generation.retain(frozen, heap_bytes(values));
            Box::new(values.clone())
        }
        None => Box::new(std::array::from_fn(|_| empty.clone())),
    }
}
