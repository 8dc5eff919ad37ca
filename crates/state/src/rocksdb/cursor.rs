//! Walks over keys in their order.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use super::DatabaseError;
use super::database::Shared;
use super::live::Live;

/// Bytes that a walk reads ahead.
const READAHEAD_BYTES: usize = 2 << 20;

/// A key and its value.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// The keys that begin with a prefix, ascending, with their values.
#[derive(Debug)]
pub struct Cursor {
    shared: Arc<Shared>,
    iterator: *mut c_void,
    options: *mut c_void,
    /// The first text behind all that begin with the prefix, which the options refer to.
    _upper_bound: Vec<u8>,
    begun: bool,
    _live: Live,
}

// SAFETY: an iterator is used by one thread at a time, whichever it is.
unsafe impl Send for Cursor {}

/// The first text that is greater than all that begin with `prefix`; `None` if there is none.
fn upper_bound(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut bound = prefix.get(..=kept)?.to_vec();
    *bound.last_mut()? += 1;
    Some(bound)
}

impl Cursor {
    pub(super) fn new(shared: Arc<Shared>, prefix: &[u8], snapshot: *const c_void) -> Self {
        let functions = &shared.functions;
        let bound = upper_bound(prefix);
        // SAFETY: makes options of our own.
        let options = unsafe { (functions.read_options_create)() };
        // SAFETY: the options are open; RocksDB refers to the bound, which lives as long as the cursor, in the same place.
        unsafe {
            (functions.read_options_readahead)(options, READAHEAD_BYTES);
            if !snapshot.is_null() {
                (functions.read_options_snapshot)(options, snapshot);
            }
            if let Some(bound) = &bound {
                (functions.read_options_upper_bound)(options, bound.as_ptr().cast(), bound.len());
            }
        }
        // SAFETY: database and column family are open (see `Database::borrow`), the options are.
        let iterator = unsafe { (functions.iterator_create)(shared.database(), options, shared.column_family()) };
        // SAFETY: the iterator was just made.
        unsafe { (functions.iterator_seek)(iterator, prefix.as_ptr().cast(), prefix.len()) };
        Self { shared, iterator, options, _upper_bound: bound.unwrap_or_default(), begun: false, _live: Live::new() }
    }

    /// The next key and its value, valid until the next call.
    #[expect(clippy::should_implement_trait, reason = "what it returns lives only until the next call")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, DatabaseError> {
        let functions = &self.shared.functions;
        if std::mem::replace(&mut self.begun, true) {
            // SAFETY: the iterator is open; behind the end it stays there.
            unsafe {
                if (functions.iterator_valid)(self.iterator) != 0 {
                    (functions.iterator_next)(self.iterator);
                }
            }
        }
        // SAFETY: the iterator is open.
        if unsafe { (functions.iterator_valid)(self.iterator) } == 0 {
            let mut error: *mut c_char = null_mut();
            // SAFETY: as above.
            unsafe { (functions.iterator_error)(self.iterator, &raw mut error) };
            return functions.check(error).map(|()| None);
        }
        let text = |get: unsafe extern "C" fn(*mut c_void, *mut usize) -> *const c_char| {
            let mut length = 0;
            // SAFETY: the iterator stands on a key.
            let start = unsafe { get(self.iterator, &raw mut length) };
            if start.is_null() {
                return &[][..];
            }
            // SAFETY: so many bytes lie there until the iterator moves, which needs `self` mutably.
            unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }
        };
        Ok(Some((text(functions.iterator_key), text(functions.iterator_value))))
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: both were made here and are destroyed once, the iterator, which uses the options, first.
        unsafe {
            (self.shared.functions.iterator_destroy)(self.iterator);
            (self.shared.functions.read_options_destroy)(self.options);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_behind_everything_with_the_prefix() {
        assert_eq!(upper_bound(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(upper_bound(&[1, 255, 255]), Some(vec![2]));
        assert_eq!(upper_bound(&[255]), None);
        assert_eq!(upper_bound(&[]), None);
    }
}
