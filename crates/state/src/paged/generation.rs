//! What a snapshot shares with its vector: the pages of one moment that were written since the snapshot before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Directory, Page, Value};

/// Bytes in generations, whoever holds them.
#[derive(Debug, Default)]
pub(super) struct Frozen(AtomicUsize);

impl Frozen {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The pages of one moment.
#[derive(Debug)]
pub(super) struct Generation<T> {
    pages: Directory<T>,
    count: usize,
    /// Below this number pages were moved out.
    moved: usize,
    /// Bytes on the heap that pages of this generation keep alive, at most, because the vector has newer values.
    retained: AtomicUsize,
    frozen: Arc<Frozen>,
}

impl<T> Generation<T> {
    pub(super) fn new(pages: Directory<T>, count: usize, frozen: &Arc<Frozen>) -> Self {
        frozen.0.fetch_add(count * size_of::<Page<T>>(), Ordering::Relaxed);
        Self { pages, count, moved: 0, retained: AtomicUsize::new(0), frozen: Arc::clone(frozen) }
    }

    /// Page numbers are below this.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// How many pages it has.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn page(&self, page: usize) -> Option<&Page<T>> {
        self.pages.get(page)?.as_deref()
    }

    /// Moves the next page out, with its number; `None` if there are no more.
    pub(super) fn take_next(&mut self) -> Option<(usize, Box<Page<T>>)> {
        if self.count == 0 {
            return None;
        }
        let rest = self.pages.get_mut(self.moved..)?;
        let (skipped, page) = rest.iter_mut().enumerate().find_map(|(skipped, page)| Some((skipped, page.take()?)))?;
        let number = self.moved + skipped;
        self.moved = number + 1;
        self.count -= 1;
        self.frozen.0.fetch_sub(size_of::<Page<T>>(), Ordering::Relaxed);
        Some((number, page))
    }

    /// Bytes on the heap that pages keep alive, at most.
    pub(super) fn retained(&self) -> usize {
        self.retained.load(Ordering::Relaxed)
    }

    /// Notes that heap bytes live on here, although the vector may have dropped them.
    pub(super) fn retain(&self, frozen: &Frozen, bytes: usize) {
        if bytes > 0 {
            self.retained.fetch_add(bytes, Ordering::Relaxed);
            frozen.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl<T> Drop for Generation<T> {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<Page<T>>() + self.retained.load(Ordering::Relaxed);
        self.frozen.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Pages that nobody reads any more and that are not freed yet.
#[derive(Debug)]
pub(super) struct Superseded<T> {
    pages: Vec<Box<Page<T>>>,
    /// Bytes on the heap that they keep alive, at most.
    retained: usize,
    frozen: Arc<Frozen>,
}

impl<T> Superseded<T> {
    pub(super) fn new(frozen: &Arc<Frozen>) -> Self {
        Self { pages: Vec::new(), retained: 0, frozen: Arc::clone(frozen) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn push(&mut self, page: Box<Page<T>>) {
        self.frozen.0.fetch_add(size_of::<Page<T>>(), Ordering::Relaxed);
        self.pages.push(page);
    }

    /// Notes what pages of a generation that is gone may keep alive.
    pub(super) fn retain(&mut self, bytes: usize) {
        if !self.pages.is_empty() {
            self.retained += bytes;
            self.frozen.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Frees so many pages at most.
    pub(super) fn free(&mut self, pages: usize) {
        let rest = self.pages.len().saturating_sub(pages);
        self.frozen.0.fetch_sub((self.pages.len() - rest) * size_of::<Page<T>>(), Ordering::Relaxed);
        self.pages.truncate(rest);
        if rest == 0 {
            self.frozen.0.fetch_sub(std::mem::take(&mut self.retained), Ordering::Relaxed);
            self.pages = Vec::new();
        }
    }
}

impl<T> Drop for Superseded<T> {
    fn drop(&mut self) {
        self.free(usize::MAX);
    }
}

/// The values of a vector at one moment.
#[derive(Debug, Clone)]
pub struct PagedSnapshot<T> {
    /// From the oldest to the newest.
    generations: Vec<Arc<Generation<T>>>,
    empty: T,
    /// No part of the snapshot: freed with it, on its thread.
    _superseded: Option<Arc<Superseded<T>>>,
}

impl<T: Value> PagedSnapshot<T> {
    pub(super) fn new(generations: Vec<Arc<Generation<T>>>, empty: T, superseded: Option<Arc<Superseded<T>>>) -> Self {
        Self { generations, empty, _superseded: superseded }
    }

    /// The values of a page; `None` if all are empty.
    #[inline]
    pub fn page(&self, page: usize) -> Option<&Page<T>> {
        super::frozen_page(&self.generations, page)
    }

    /// The value of slots that were never written.
    pub fn empty(&self) -> &T {
        &self.empty
    }

    /// The value at `slot`.
    #[inline]
    pub fn get(&self, slot: u32) -> &T {
        let (page, offset) = super::split(slot);
        self.page(page).map_or(&self.empty, |page| &page[offset])
    }

    /// One more than the highest page number.
    pub fn num_pages(&self) -> usize {
        self.generations.iter().map(|generation| generation.len()).max().unwrap_or_default()
    }
}
