//! Counts the rows of the open bundle and says when it is full.

use std::num::NonZeroU64;

use super::metrics::{BundleMetrics, BundleShape};

/// Why a bundle ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlushReason {
    /// It has as many rows as `table.exec.mini-batch.size` says.
    Count,
    /// A mini-batch marker: a watermark that [`ProcTimeMiniBatchAssigner`](super::ProcTimeMiniBatchAssigner) made.
    Marker,
    /// A watermark, on whichever input, whether or not it moves the operator's event time.
    Watermark,
    /// A checkpoint barrier is about to pass: state never holds a bundle.
    Checkpoint,
    /// The input is over.
    EndOfInput,
}

/// The boundary of one operator's bundles, shared by all of its inputs.
///
/// For each run of rows: [`Boundary::take`], fold what it says, and if the bundle is full then flush and
/// [`Boundary::end`]. For every other [`FlushReason`], before what caused it is passed on: if a bundle is
/// [open](Boundary::is_open), flush and [`Boundary::end`]. [`Boundary::emitted`] whenever output is known.
///
/// Follows: CountBundleTrigger, CountCoBundleTrigger, AbstractMapBundleOperator, MiniBatchStreamingJoinOperator, Flink 2.2.
/// Differences: none.
#[derive(Debug)]
pub struct Boundary {
    size: NonZeroU64,
    rows: u64,
    /// Rows of bundles that ended, whose output was not reported.
    folded: u64,
    metrics: BundleMetrics,
}

impl Boundary {
    /// No bundle is open. `size` is `table.exec.mini-batch.size`.
    pub fn new(size: NonZeroU64) -> Self {
        Self { size, rows: 0, folded: 0, metrics: BundleMetrics::default() }
    }

    /// How many of `available` rows, which have just arrived, belong to the open bundle; counts them. At least one unless
    /// none is available. With them the bundle is full if [`Boundary::is_full`], and must be flushed before the next call.
    pub fn take(&mut self, available: usize) -> usize {
        debug_assert!(!self.is_full(), "a full bundle takes rows");
        let room = usize::try_from(self.size.get().saturating_sub(self.rows)).unwrap_or(usize::MAX);
        let taken = available.min(room);
        // a usize has no more bits
        self.rows += taken as u64;
        self.metrics.rows_in += taken as u64;
        taken
    }

    /// Whether the open bundle has all the rows that it may have.
    pub fn is_full(&self) -> bool {
        self.rows >= self.size.get()
    }

    /// Whether there is anything to flush.
    pub fn is_open(&self) -> bool {
        self.rows > 0
    }

    /// Rows of the open bundle. Flink's gauge `bundleSize`.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The open bundle, which touched `keys` keys, has been flushed for `reason`. Nothing happens if none is open.
    pub fn end(&mut self, reason: FlushReason, keys: usize) {
        if self.rows > 0 {
            // a usize has no more bits
            self.metrics.ended(reason, BundleShape { rows: self.rows, keys: keys as u64 });
            self.folded += self.rows;
            self.rows = 0;
        }
    }

    /// The bundles that ended since the last call came to `changes` changes, at most one per key and bundle, and to
    /// `rows_out` rows.
    pub fn emitted(&mut self, changes: usize, rows_out: usize) {
        self.metrics.rows_out += rows_out as u64;
        self.metrics.cancelled_changes += self.folded.saturating_sub(changes as u64);
        self.folded = 0;
    }

    /// Whether `rows` rows are enough for a whole bundle.
    pub(super) fn fills(&self, rows: usize) -> bool {
        // a usize has no more bits
        rows as u64 >= self.size.get()
    }

    /// How many of `available` rows that come next lie in bundles that end among them.
    pub(crate) fn complete(&self, available: usize) -> usize {
        let open = (self.rows + available as u64) % self.size;
        usize::try_from(open).map_or(0, |open| available.saturating_sub(open))
    }

    /// A physical batch was cut because a bundle ended inside of it.
    pub(super) fn split(&mut self) {
        self.metrics.physical_splits += 1;
    }

    /// What was counted since the operator was opened.
    pub fn metrics(&self) -> &BundleMetrics {
        &self.metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boundary(size: u64) -> Boundary {
        Boundary::new(NonZeroU64::new(size).unwrap_or(NonZeroU64::MIN))
    }

    #[test]
    fn bundle_is_full_at_exactly_the_count() {
        let mut boundary = boundary(5);
        assert_eq!(boundary.take(3), 3);
        assert!(!boundary.is_full());
        assert_eq!(boundary.take(3), 2);
        assert!(boundary.is_full());
        boundary.end(FlushReason::Count, 1);
        assert_eq!(boundary.take(1), 1);
        assert_eq!(boundary.rows(), 1);
    }

    #[test]
    fn every_reason_starts_the_count_anew() {
        let mut boundary = boundary(3);
        for reason in [FlushReason::Marker, FlushReason::Watermark, FlushReason::Checkpoint, FlushReason::EndOfInput] {
            assert_eq!(boundary.take(2), 2);
            boundary.end(reason, 1);
            assert!(!boundary.is_open());
        }
        assert_eq!(boundary.take(9), 3);
    }

    #[test]
    fn flush_of_nothing_is_no_bundle() {
        let mut boundary = boundary(3);
        boundary.end(FlushReason::Watermark, 0);
        assert_eq!(boundary.metrics(), &BundleMetrics::default());
    }

    #[test]
    fn rows_without_a_change_of_their_own_are_cancelled() {
        let mut boundary = boundary(10);
        for _ in 0..2 {
            boundary.take(10);
            boundary.end(FlushReason::Count, 3);
        }
        boundary.take(5);
        boundary.emitted(6, 12);
        let metrics = boundary.metrics();
        assert_eq!((metrics.rows_in, metrics.rows_out, metrics.cancelled_changes), (25, 12, 14));
        assert_eq!((metrics.last, metrics.touched_keys), (BundleShape { rows: 10, keys: 3 }, 6));
    }

    #[test]
    fn two_inputs_share_one_count() {
        let mut boundary = boundary(4);
        let (left, right) = (boundary.take(3), boundary.take(3));
        assert_eq!((left, right), (3, 1));
        assert!(boundary.is_full());
    }
}
