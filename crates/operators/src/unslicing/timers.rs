//! When to look at which session again.
//!
//! A session that grows keeps its timer until it is due, and gets a later one then, so that a row costs no timer. A timer that is not the one
//! which its session has is of a session that is gone: whoever takes it out passes it over.
//!
//! Timers lie in buckets of [`BUCKET_MS`], which are not sorted, and most are taken out with the rest of their bucket. Only the bucket that time is
//! in the midst of is a heap.
//!
//! Invariants: a timer in the heap is earlier than any in a bucket; no bucket is empty.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// What timers lie together, in milliseconds.
const BUCKET_MS: i64 = 1024;

/// A time, and a slot.
type Timer = (i64, u32);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Those of the bucket that time is in, and of earlier ones.
    near: BinaryHeap<Reverse<Timer>>,
    /// The last bucket of `near`, if it has any.
    begun: Option<i64>,
    /// The others, by number of the bucket.
    buckets: BTreeMap<i64, Bucket>,
    in_buckets: usize,
}

#[derive(Debug)]
struct Bucket {
    /// The earliest time.
    first: i64,
    timers: Vec<Timer>,
}

impl Timers {
    pub(super) fn set(&mut self, time: i64, slot: u32) {
        let bucket = time.div_euclid(BUCKET_MS);
        if self.begun.is_some_and(|begun| bucket <= begun) {
            self.near.push(Reverse((time, slot)));
        } else {
            let bucket = self.buckets.entry(bucket).or_insert_with(|| Bucket { first: time, timers: Vec::new() });
            bucket.first = bucket.first.min(time);
            bucket.timers.push((time, slot));
            self.in_buckets += 1;
        }
    }

    /// The time of the first one.
    #[inline]
    pub(super) fn first(&self) -> Option<i64> {
        match self.near.peek() {
            Some(Reverse((time, _))) => Some(*time),
            None => Some(self.buckets.first_key_value()?.1.first),
        }
    }

    /// Takes out those that are due at `progress`, in no order that means anything.
    pub(super) fn take_due(&mut self, progress: i64, due: &mut Vec<Timer>) {
        let current = progress.div_euclid(BUCKET_MS);
        while let Some(first) = self.buckets.first_entry().filter(|first| *first.key() <= current) {
            let (bucket, Bucket { timers, .. }) = first.remove_entry();
            self.in_buckets -= timers.len();
            if bucket < current {
                due.extend(timers);
            } else {
                self.near.extend(timers.into_iter().map(Reverse));
                self.begun = Some(bucket);
            }
        }
        while let Some(Reverse(timer)) = self.near.peek().filter(|first| first.0.0 <= progress) {
            due.push(*timer);
            self.near.pop();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        (self.near.capacity() + self.in_buckets) * size_of::<Timer>() + self.buckets.len() * size_of::<(i64, Bucket)>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_timer_is_taken_out_once_when_it_is_due(
            steps in prop::collection::vec((any::<bool>(), -20_000_i64..20_000), 1..200),
        ) {
            let (mut timers, mut model) = (Timers::default(), BTreeSet::new());
            for (slot, (takes, time)) in (0..).zip(steps) {
                if takes {
                    let mut due = Vec::new();
                    timers.take_due(time, &mut due);
                    let later = model.split_off(&(time + 1, 0));
                    prop_assert_eq!(due.len(), model.len());
                    prop_assert_eq!(due.into_iter().collect::<BTreeSet<_>>(), std::mem::replace(&mut model, later));
                } else {
                    timers.set(time, slot);
                    model.insert((time, slot));
                }
                prop_assert_eq!(timers.first(), model.first().map(|(time, _)| *time));
            }
        }
    }
}
