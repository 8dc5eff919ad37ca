//! Handles: the only names under which the JVM knows native objects.
//!
//! A handle is an index and a generation, so that a handle that was released (or never given out) is an error and not a
//! crash. Freeing an object bumps the generation of its place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A handle that names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} handle {handle:#x} is not open: it was released before, or never existed")]
pub(crate) struct HandleError {
    /// What the table holds.
    pub kind: &'static str,
    /// The handle as the JVM passed it.
    pub handle: i64,
}

struct Place<T> {
    generation: u32,
    value: Option<Arc<T>>,
}

struct Places<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

/// Open objects of one kind.
pub(crate) struct Handles<T> {
    kind: &'static str,
    inner: Mutex<Places<T>>,
}

impl<T> Handles<T> {
    /// An empty table; `kind` names its objects in errors.
    pub(crate) const fn new(kind: &'static str) -> Self {
        Self { kind, inner: Mutex::new(Places { places: Vec::new(), free: Vec::new() }) }
    }

    /// Opens an object. The handle is never 0, which stands for "none" in Java.
    pub(crate) fn open(&self, value: T) -> i64 {
        let value = Some(Arc::new(value));
        let mut inner = self.lock();
        let index = match inner.free.pop() {
            Some(index) => index,
            None => {
                inner.places.push(Place { generation: 1, value: None });
                u32::try_from(inner.places.len() - 1).unwrap_or(u32::MAX)
            }
        };
        match inner.places.get_mut(index as usize) {
            Some(place) => {
                place.value = value;
                i64::from(place.generation) << 32 | i64::from(index)
            }
            None => 0, // more than 2^32 objects cannot be open
        }
    }

    /// The object, which stays alive for the caller even if its handle is released meanwhile.
    pub(crate) fn get(&self, handle: i64) -> Result<Arc<T>, HandleError> {
        let inner = self.lock();
        let (index, generation) = split(handle);
        inner
            .places
            .get(index)
            .filter(|place| place.generation == generation)
            .and_then(|place| place.value.clone())
            .ok_or(HandleError { kind: self.kind, handle })
    }

    /// Takes the object out; the handle is no longer open.
    pub(crate) fn close(&self, handle: i64) -> Result<Arc<T>, HandleError> {
        let mut inner = self.lock();
        let (index, generation) = split(handle);
        let taken = inner
            .places
            .get_mut(index)
            .filter(|place| place.generation == generation)
            .and_then(|place| place.value.take().inspect(|_| place.generation = next_generation(place.generation)))
            .ok_or(HandleError { kind: self.kind, handle })?;
        inner.free.push(u32::try_from(index).unwrap_or(u32::MAX));
        Ok(taken)
    }

    /// How many objects are open.
    pub(crate) fn live(&self) -> usize {
        let inner = self.lock();
        inner.places.len() - inner.free.len()
    }

    /// The table is consistent after every statement, so a panic of another thread does not matter.
    fn lock(&self) -> MutexGuard<'_, Places<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Generations stay in 1..2^31, which keeps handles positive and not 0.
fn next_generation(generation: u32) -> u32 {
    if generation >= 0x7fff_ffff { 1 } else { generation + 1 }
}

fn split(handle: i64) -> (usize, u32) {
    let index = usize::try_from(handle & 0xffff_ffff).unwrap_or(usize::MAX);
    let generation = u32::try_from((handle >> 32) & 0x7fff_ffff).unwrap_or(0);
    (index, generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_handle_is_an_error_also_after_its_place_is_reused() -> Result<(), HandleError> {
        let handles = Handles::new("test");
        let first = handles.open("a");
        assert_eq!(*handles.close(first)?, "a");
        assert!(handles.close(first).is_err());
        let second = handles.open("b");
        assert_ne!(first, second);
        assert!(handles.get(first).is_err());
        assert_eq!(*handles.get(second)?, "b");
        assert_eq!(handles.live(), 1);
        Ok(())
    }

    #[test]
    fn handles_that_were_never_given_out_are_errors() {
        let handles = Handles::<()>::new("test");
        for handle in [0, -1, 1, i64::MIN, i64::MAX, 1 << 32] {
            assert!(handles.get(handle).is_err());
            assert!(handles.close(handle).is_err());
        }
    }
}
