//! When to look at which session again.
//!
//! A session that grows keeps its timer until it is due, and gets a later one then, so that a row costs no timer. A timer that is not the one
//! which its session has is of a session that is gone: whoever takes it out passes it over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Timers by time, then by slot.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Timers {
    pub(super) fn set(&mut self, time: i64, slot: u32) {
        self.heap.push(Reverse((time, slot)));
    }

    /// The time of the first one.
    #[inline]
    pub(super) fn first(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }

    /// Takes out the first one, if it is due at `progress`.
    #[inline]
    pub(super) fn take_due(&mut self, progress: i64) -> Option<(i64, u32)> {
        if self.first()? > progress {
            return None;
        }
        self.heap.pop().map(|Reverse(timer)| timer)
    }

    pub(super) fn bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(i64, u32)>()
    }
}
