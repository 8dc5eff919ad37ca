//! How many objects of RocksDB there are that were made here: what is left when a job is over has leaked.

use std::sync::atomic::{AtomicI64, Ordering};

static LIVE: AtomicI64 = AtomicI64::new(0);

/// Iterators, snapshots, write batches and pinned values of this process that were not given back yet, whatever their database.
pub fn live_objects() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Counts one of them for as long as it lives.
#[derive(Debug)]
pub(super) struct Live;

impl Live {
    pub(super) fn new() -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}
