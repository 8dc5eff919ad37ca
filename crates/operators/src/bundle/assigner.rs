//! When mini-batch markers are due, in processing time and in event time.
//!
//! Both take the events that Flink's operators see and answer with the watermark to send on, which goes out before the
//! rows that come next. Rows themselves pass unchanged. Neither keeps state. Arithmetic wraps as Java's does.

/// Makes a watermark of the processing time for each interval that begins, and swallows those from upstream.
///
/// Follows: ProcTimeMiniBatchAssignerOperator, Flink 2.2. Differences: Flink reads the clock for every row; here whoever calls
/// [`ProcTimeMiniBatchAssigner::on_rows`] reads it once for rows that arrive together.
#[derive(Debug, Clone)]
pub struct ProcTimeMiniBatchAssigner {
    interval_ms: i64,
    current_ms: i64,
}

/// What a processing-time timer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerFired {
    /// The watermark to send on.
    pub watermark_ms: Option<i64>,
    /// When the next timer is due.
    pub next_timer_ms: i64,
}

impl ProcTimeMiniBatchAssigner {
    /// For `table.exec.mini-batch.allow-latency` of `interval_ms`; less than 1 counts as 1.
    pub fn new(interval_ms: i64) -> Self {
        Self { interval_ms: interval_ms.max(1), current_ms: 0 }
    }

    /// When the first timer is due.
    pub fn first_timer(&self, now_ms: i64) -> i64 {
        now_ms.wrapping_add(self.interval_ms)
    }

    /// Before rows that arrive at `now_ms` are sent on: the watermark to send first.
    pub fn on_rows(&mut self, now_ms: i64) -> Option<i64> {
        let batch = self.batch(now_ms);
        (batch > self.current_ms).then(|| {
            self.current_ms = batch;
            batch
        })
    }

    /// A timer has fired; `now_ms` is the time now, not the time it was set to.
    pub fn on_timer(&mut self, now_ms: i64) -> TimerFired {
        let watermark_ms = self.on_rows(now_ms);
        TimerFired { watermark_ms, next_timer_ms: self.batch(now_ms).wrapping_add(self.interval_ms) }
    }

    /// A watermark from upstream: only the end of event time passes, once.
    pub fn on_watermark(&mut self, watermark_ms: i64) -> Option<i64> {
        (watermark_ms == i64::MAX && self.current_ms != i64::MAX).then(|| {
            self.current_ms = i64::MAX;
            i64::MAX
        })
    }

    /// The interval that `now_ms` lies in: Flink's gauge `currentBatch` after the first row in it.
    fn batch(&self, now_ms: i64) -> i64 {
        now_ms.wrapping_sub(now_ms.wrapping_rem(self.interval_ms))
    }
}

/// Passes a watermark on only if it crosses the end of an interval of event time.
///
/// Follows: RowTimeMiniBatchAssginerOperator, Flink 2.2. Differences: none.
#[derive(Debug, Clone)]
pub struct RowTimeMiniBatchAssigner {
    interval_ms: i64,
    current_ms: i64,
    next_ms: i64,
}

impl RowTimeMiniBatchAssigner {
    /// For intervals of `interval_ms` of event time; less than 1 counts as 1.
    pub fn new(interval_ms: i64) -> Self {
        let interval_ms = interval_ms.max(1);
        Self { interval_ms, current_ms: 0, next_ms: interval_ms - 1 }
    }

    /// A watermark from upstream: the one to send on.
    pub fn on_watermark(&mut self, watermark_ms: i64) -> Option<i64> {
        if watermark_ms == i64::MAX && self.current_ms != i64::MAX {
            // the end of event time waits for no interval, and opens none
            self.current_ms = i64::MAX;
            return Some(i64::MAX);
        }
        self.current_ms = self.current_ms.max(watermark_ms);
        (self.current_ms >= self.next_ms).then(|| self.advance())
    }

    /// The input is over: the last watermark, which may have been sent before.
    pub fn finish(&mut self) -> i64 {
        self.advance()
    }

    fn advance(&mut self) -> i64 {
        let (current, interval) = (self.current_ms, self.interval_ms);
        let start = current.wrapping_sub(current.wrapping_add(interval).wrapping_rem(interval));
        let end = start.wrapping_add(interval).wrapping_sub(1);
        self.next_ms = if end > current { end } else { end.wrapping_add(interval) };
        current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_time(interval_ms: i64, watermarks: &[i64]) -> (Vec<i64>, RowTimeMiniBatchAssigner) {
        let mut assigner = RowTimeMiniBatchAssigner::new(interval_ms);
        (watermarks.iter().filter_map(|watermark| assigner.on_watermark(*watermark)).collect(), assigner)
    }

    #[test]
    fn watermark_comes_with_the_first_rows_of_an_interval() {
        let mut assigner = ProcTimeMiniBatchAssigner::new(100);
        assert_eq!(assigner.first_timer(1_234), 1_334);
        let rows = [(1_234, Some(1_200)), (1_299, None), (1_300, Some(1_300)), (1_300, None), (1_250, None)];
        for (now, expected) in rows {
            assert_eq!(assigner.on_rows(now), expected, "{now}");
        }
    }

    #[test]
    fn timer_marks_an_interval_without_rows_and_sets_the_next() {
        let mut assigner = ProcTimeMiniBatchAssigner::new(100);
        assert_eq!(assigner.on_rows(1_310), Some(1_300));
        // late by 34 ms: the next one is due at the interval's end all the same
        assert_eq!(assigner.on_timer(1_334), TimerFired { watermark_ms: None, next_timer_ms: 1_400 });
        assert_eq!(assigner.on_timer(1_400), TimerFired { watermark_ms: Some(1_400), next_timer_ms: 1_500 });
        assert_eq!(assigner.on_rows(1_450), None);
        // so late that an interval passed
        assert_eq!(assigner.on_timer(1_710), TimerFired { watermark_ms: Some(1_700), next_timer_ms: 1_800 });
    }

    #[test]
    fn no_watermark_for_the_interval_of_the_epoch() {
        let mut assigner = ProcTimeMiniBatchAssigner::new(100);
        assert_eq!(assigner.on_rows(99), None);
        assert_eq!(assigner.on_rows(-250), None);
        assert_eq!(assigner.on_rows(100), Some(100));
    }

    #[test]
    fn processing_time_swallows_watermarks_but_the_last() {
        let mut assigner = ProcTimeMiniBatchAssigner::new(100);
        assert_eq!(assigner.on_watermark(5_000), None);
        assert_eq!(assigner.on_watermark(i64::MAX), Some(i64::MAX));
        assert_eq!(assigner.on_watermark(i64::MAX), None);
        assert_eq!(assigner.on_rows(7_000), None);
        assert_eq!(assigner.on_timer(7_000), TimerFired { watermark_ms: None, next_timer_ms: 7_100 });
    }

    #[test]
    fn row_time_passes_watermarks_at_the_ends_of_intervals() {
        let every: Vec<i64> = (0..=21).collect();
        assert_eq!(row_time(5, &every).0, [4, 9, 14, 19]);
        assert_eq!(row_time(1, &[0, 1, 2]).0, [0, 1, 2]);
    }

    #[test]
    fn watermark_that_jumps_over_an_end_passes_as_it_is() {
        // 12 crosses 4 and 9; the next end is 14, so 13 waits
        assert_eq!(row_time(5, &[3, 12, 13, 14, 24, 25]).0, [12, 14, 24]);
        // 9 is an end itself: the next one is 14
        assert_eq!(row_time(5, &[9, 10, 13, 15]).0, [9, 15]);
    }

    #[test]
    fn watermark_that_goes_back_or_lies_before_the_epoch_is_ignored() {
        assert_eq!(row_time(5, &[i64::MIN, -7, -1, 3, 8, 2, 9]).0, [8, 9]);
    }

    #[test]
    fn finish_sends_what_was_held_back() {
        let (sent, mut assigner) = row_time(5, &[4, 7]);
        assert_eq!(sent, [4]);
        assert_eq!(assigner.finish(), 7);
        assert_eq!(RowTimeMiniBatchAssigner::new(5).finish(), 0);
    }

    #[test]
    fn end_of_event_time_passes_at_once_and_again_when_the_input_is_over() {
        let (sent, mut assigner) = row_time(5, &[2, i64::MAX]);
        assert_eq!(sent, [i64::MAX]);
        assert_eq!(assigner.finish(), i64::MAX);
    }

    #[test]
    fn end_of_event_time_that_comes_twice_passes_twice() {
        // Flink's condition lets the second one through to the comparison with the end of the interval
        assert_eq!(row_time(5, &[i64::MAX, i64::MAX]).0, [i64::MAX, i64::MAX]);
    }
}
