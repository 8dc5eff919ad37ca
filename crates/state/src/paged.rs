//! A vector in pages that snapshots share.
//!
//! Invariants: every page but the last has [`PAGE`] elements; a page that a snapshot holds is never written, the first
//! write after the snapshot replaces it by a copy. A page that no snapshot ever saw is owned outright, so that a write
//! to it costs no atomic operation.

use std::sync::Arc;

/// Elements per page.
pub const PAGE: usize = 64;

/// One page: its elements, or none of its own while a snapshot has them.
#[derive(Debug)]
struct Page<T> {
    owned: Vec<T>,
    shared: Option<Arc<Vec<T>>>,
}

impl<T: Clone> Page<T> {
    fn new() -> Self {
        Self { owned: Vec::with_capacity(PAGE), shared: None }
    }

    #[inline]
    fn values(&self) -> &[T] {
        match &self.shared {
            None => &self.owned,
            Some(shared) => shared,
        }
    }

    #[inline]
    fn values_mut(&mut self) -> &mut Vec<T> {
        if let Some(shared) = self.shared.take() {
            self.owned = Vec::with_capacity(PAGE);
            self.owned.extend_from_slice(&shared);
        }
        &mut self.owned
    }

    fn share(&mut self) -> Arc<Vec<T>> {
        let owned = &mut self.owned;
        Arc::clone(self.shared.get_or_insert_with(|| Arc::new(std::mem::take(owned))))
    }
}

/// A growing vector of `T` with cheap snapshots. Positions are `u32` slots.
#[derive(Debug)]
pub struct PagedVec<T> {
    pages: Vec<Page<T>>,
    len: usize,
}

impl<T> Default for PagedVec<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

/// The elements of a [`PagedVec`] at one moment.
#[derive(Debug, Clone)]
pub struct PagedSnapshot<T> {
    pages: Vec<Arc<Vec<T>>>,
}

impl<T> PagedSnapshot<T> {
    /// The elements in slot order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.iter())
    }
}

#[inline]
fn split(slot: u32) -> (usize, usize) {
    let position = slot as usize;
    (position / PAGE, position % PAGE)
}

impl<T: Clone> PagedVec<T> {
    /// An empty vector.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element at `slot`. Panics if `slot` is not below [`PagedVec::len`].
    #[inline]
    pub fn get(&self, slot: u32) -> &T {
        let (page, offset) = split(slot);
        &self.pages[page].values()[offset]
    }

    /// The element at `slot` for writing; copies the page if a snapshot holds it. Panics if `slot` is not below
    /// [`PagedVec::len`].
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> &mut T {
        let (page, offset) = split(slot);
        &mut self.pages[page].values_mut()[offset]
    }

    /// Appends an element.
    pub fn push(&mut self, value: T) {
        if self.len.is_multiple_of(PAGE) {
            self.pages.push(Page::new());
        }
        if let Some(page) = self.pages.last_mut() {
            page.values_mut().push(value);
            self.len += 1;
        }
    }

    /// Grows to `len` elements with clones of `value`; does nothing if there are as many already.
    pub fn grow(&mut self, len: usize, value: &T) {
        while self.len < len {
            self.push(value.clone());
        }
    }

    /// The elements as they are now. Later writes copy the pages they touch.
    pub fn snapshot(&mut self) -> PagedSnapshot<T> {
        let pages = self.pages.iter_mut().map(Page::share).collect();
        PagedSnapshot { pages }
    }

    /// Bytes of the pages, without what elements own on the heap.
    pub fn bytes(&self) -> usize {
        self.pages.len() * (PAGE * size_of::<T>() + size_of::<Page<T>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_keeps_its_values_while_the_vector_changes() {
        let mut values = PagedVec::new();
        for i in 0..200 {
            values.push(i);
        }
        let before = values.snapshot();
        *values.get_mut(0) = 1000;
        *values.get_mut(199) = 2000;
        values.push(3000);
        assert_eq!(before.iter().copied().collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
        assert_eq!((*values.get(0), *values.get(1), *values.get(199), *values.get(200)), (1000, 1, 2000, 3000));
        assert_eq!(values.snapshot().iter().count(), 201);
    }

    #[test]
    fn only_written_pages_are_copied() {
        let mut values = PagedVec::new();
        values.grow(3 * PAGE, &7_u64);
        let snapshot = values.snapshot();
        *values.get_mut(70) = 8;
        let shared = snapshot.pages.iter().filter(|page| Arc::strong_count(page) == 2).count();
        assert_eq!(shared, 2);
    }
}
