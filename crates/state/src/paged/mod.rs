//! A vector in pages, whose snapshots cost a move.
//!
//! A snapshot moves the whole page directory into a *generation*, which it shares with the vector; the vector goes on with
//! an empty one. Reading falls through: own pages, then the generations from the newest to the oldest; the first write to
//! a page copies it. So a snapshot touches no page and counts no reference per page, however many there are. Once nobody
//! else holds the newest generation, its pages move back, some at a time (see [`PagedVec::maintain`]).
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

use self::generation::{Frozen, Generation};

/// Elements per page.
pub const PAGE: usize = 64;

/// Generations above which old pages are copied upwards, so that snapshots which always overlap do not pile them up.
const DEPTH: usize = 4;

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
    /// How far the newest generation was moved back.
    drained: usize,
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
        Self {
            live: Vec::new(),
            generations: Vec::new(),
            empty,
            live_pages: 0,
            frozen: Arc::default(),
            drained: 0,
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
            (self.live_pages, self.drained) = (0, 0);
        }
        PagedSnapshot::new(self.generations.clone(), self.empty.clone())
    }

    /// Takes back what no snapshot holds any more: at most so many pages of each kind of work. Called once per batch.
    pub fn maintain(&mut self, pages: usize) {
        let Some(newest) = self.generations.last_mut() else { return };
        if let Some(newest) = Arc::get_mut(newest) {
            let end = newest.len().min(self.drained + pages);
            if self.live.len() < end {
                self.live.resize_with(end, || None);
            }
            for (number, live) in self.live.iter_mut().enumerate().take(end).skip(self.drained) {
                if let Some(page) = newest.take(number)
                    && live.is_none()
                {
                    *live = Some(page);
                    self.live_pages += 1;
                }
            }
            self.drained = end;
            if end == newest.len() {
                self.generations.pop();
                (self.drained, self.lifted) = (0, if self.generations.is_empty() { 0 } else { self.lifted });
            }
        } else if self.generations.len() > DEPTH {
            self.lift(pages / 8);
        }
    }

    /// Copies pages that only the oldest generation has, until it is not needed any more.
    fn lift(&mut self, pages: usize) {
        let Some((oldest, newer)) = self.generations.split_first() else { return };
        let end = oldest.len().min(self.lifted + pages);
        if self.live.len() < end {
            self.live.resize_with(end, || None);
        }
        for (number, live) in self.live.iter_mut().enumerate().take(end).skip(self.lifted) {
            if live.is_none()
                && frozen_page(newer, number).is_none()
                && let Some(page) = oldest.page(number)
            {
                *live = Some(Box::new(page.clone()));
                self.live_pages += 1;
            }
        }
        self.lifted = end;
        if end == oldest.len() {
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

/// A page of its own with the values of the newest generation that has it.
#[cold]
fn copy_page<T: Value>(generations: &[Arc<Generation<T>>], empty: &T, frozen: &Frozen, page: usize) -> Box<Page<T>> {
    match generations.iter().rev().find_map(|generation| Some((generation, generation.page(page)?))) {
        Some((generation, values)) => {
            // from now on the snapshot alone may keep what the values have on the heap
            generation.retain(frozen, values.iter().map(Value::heap_bytes).sum());
            Box::new(values.clone())
        }
        None => Box::new(std::array::from_fn(|_| empty.clone())),
    }
}
