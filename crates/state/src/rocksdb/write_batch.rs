//! Writes that go in together.

use std::ffi::c_void;
use std::sync::Arc;

use super::database::Shared;
use super::live::Live;

/// Puts and deletes of one column family, in their order.
#[derive(Debug)]
pub struct WriteBatch {
    shared: Arc<Shared>,
    batch: *mut c_void,
    bytes: usize,
    _live: Live,
}

// SAFETY: a batch is used by one thread at a time, whichever it is.
unsafe impl Send for WriteBatch {}

impl WriteBatch {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        // SAFETY: makes an empty batch, which belongs to nobody else.
        let batch = unsafe { (shared.functions.batch_create)() };
        Self { shared, batch, bytes: 0, _live: Live::new() }
    }

    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.batch
    }

    /// Sets the value of a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.bytes += key.len() + value.len();
        // SAFETY: the batch and the column family are open, and RocksDB copies both texts.
        unsafe {
            (self.shared.functions.batch_put)(
                self.batch,
                self.shared.column_family(),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
            );
        }
    }

    /// Removes a key.
    pub fn delete(&mut self, key: &[u8]) {
        self.bytes += key.len();
        // SAFETY: as above.
        unsafe {
            (self.shared.functions.batch_delete)(
                self.batch,
                self.shared.column_family(),
                key.as_ptr().cast(),
                key.len(),
            );
        }
    }

    /// Forgets all writes.
    pub fn clear(&mut self) {
        self.bytes = 0;
        // SAFETY: the batch is open.
        unsafe { (self.shared.functions.batch_clear)(self.batch) };
    }

    /// How many writes there are.
    pub fn len(&self) -> usize {
        // SAFETY: the batch is open.
        usize::try_from(unsafe { (self.shared.functions.batch_count)(self.batch) }).unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the keys and values in it.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        // SAFETY: it was made here and is destroyed once.
        unsafe { (self.shared.functions.batch_destroy)(self.batch) };
    }
}
