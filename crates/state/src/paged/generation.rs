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
    /// Bytes on the heap that pages of this generation keep alive, at most, because the vector has newer values.
    retained: AtomicUsize,
    frozen: Arc<Frozen>,
}

impl<T> Generation<T> {
    pub(super) fn new(pages: Directory<T>, count: usize, frozen: &Arc<Frozen>) -> Self {
        frozen.0.fetch_add(count * size_of::<Page<T>>(), Ordering::Relaxed);
        Self { pages, count, retained: AtomicUsize::new(0), frozen: Arc::clone(frozen) }
    }

    /// Page numbers are below this.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    #[inline]
    pub(super) fn page(&self, page: usize) -> Option<&Page<T>> {
        self.pages.get(page)?.as_deref()
    }

    /// Moves a page out.
    pub(super) fn take(&mut self, page: usize) -> Option<Box<Page<T>>> {
        let taken = self.pages.get_mut(page)?.take()?;
        self.count -= 1;
        self.frozen.0.fetch_sub(size_of::<Page<T>>(), Ordering::Relaxed);
        Some(taken)
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

/// The values of a vector at one moment.
#[derive(Debug, Clone)]
pub struct PagedSnapshot<T> {
    /// From the oldest to the newest.
    generations: Vec<Arc<Generation<T>>>,
    empty: T,
}

impl<T: Value> PagedSnapshot<T> {
    pub(super) fn new(generations: Vec<Arc<Generation<T>>>, empty: T) -> Self {
        Self { generations, empty }
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
