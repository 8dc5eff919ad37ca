//! When an assigner sends watermarks and statuses on: what WatermarkAssignerOperator keeps between rows.

use crate::{Mark, WatermarkStatus};

/// When it comes first, the clock only sets the timer, as Flink does when the operator is opened.
const AT_ONCE_MS: i64 = 0;

/// The time of an assigner. Watermarks begin at 0, so that none up to 0 is ever sent.
#[derive(Debug)]
pub(super) struct Emission {
    interval_ms: i64,
    idle_timeout_ms: i64,
    /// The largest watermark of the rows so far.
    current_ms: i64,
    /// The one that was sent last.
    last_ms: i64,
    status: WatermarkStatus,
    rows: u64,
    /// `rows` when idleness was looked at before.
    checked_rows: Option<u64>,
    /// When, by the clock of activity, rows had come since the check before.
    active_at_ms: i64,
    activity_ms: i64,
    /// When watermarks were last sent periodically, and the next timer; none before the clock is told first.
    clock: Option<Clock>,
}

#[derive(Debug, Clone, Copy)]
struct Clock {
    sent_at_ms: i64,
    timer_ms: i64,
}

impl Emission {
    pub(super) fn new(interval_ms: i64, idle_timeout_ms: i64) -> Self {
        Self {
            interval_ms,
            idle_timeout_ms,
            current_ms: 0,
            last_ms: 0,
            status: WatermarkStatus::Active,
            rows: 0,
            checked_rows: None,
            active_at_ms: 0,
            activity_ms: 0,
            clock: None,
        }
    }

    pub(super) fn set_interval(&mut self, interval_ms: i64) {
        self.interval_ms = interval_ms;
    }

    fn heeds_idleness(&self) -> bool {
        self.idle_timeout_ms > 0
    }

    /// Rows are about to come. Returns the status that goes in front of them.
    pub(super) fn rows_come(&mut self, rows: usize) -> Option<Mark> {
        self.rows += rows as u64;
        self.wake()
    }

    fn wake(&mut self) -> Option<Mark> {
        let wakes = self.heeds_idleness() && self.status == WatermarkStatus::Idle;
        wakes.then(|| self.change(WatermarkStatus::Active))
    }

    fn change(&mut self, status: WatermarkStatus) -> Mark {
        self.status = status;
        Mark::Status(status)
    }

    /// The number of rows, from the first of `watermarks` on, up to the one behind which a watermark is due at once; `None` if none is.
    /// Notes what the rows up to there say.
    pub(super) fn rows_until_due(&mut self, watermarks: impl Iterator<Item = Option<i64>>) -> Option<usize> {
        let due = self.last_ms.saturating_add(self.interval_ms);
        for (row, watermark) in watermarks.enumerate() {
            if let Some(watermark) = watermark {
                self.current_ms = self.current_ms.max(watermark);
            }
            // also where the interval is negative
            if self.current_ms > due {
                return Some(row + 1);
            }
        }
        None
    }

    /// The watermark that goes on, if one has not gone yet.
    pub(super) fn advance(&mut self) -> Option<Mark> {
        (self.current_ms > self.last_ms).then(|| {
            self.last_ms = self.current_ms;
            Mark::Watermark(self.last_ms)
        })
    }

    /// Takes a watermark of the input, of which only the one at the end counts. Returns the status that goes in front of it, and
    /// whether it goes on.
    pub(super) fn on_watermark(&mut self, watermark_ms: i64) -> (Option<Mark>, bool) {
        if watermark_ms != i64::MAX || self.current_ms == i64::MAX {
            return (None, false);
        }
        let wakes = self.wake();
        self.current_ms = i64::MAX;
        (wakes, true)
    }

    pub(super) fn on_status(&mut self, status: WatermarkStatus) {
        self.status = status;
    }

    pub(super) fn set_activity_time(&mut self, relative_ms: i64) {
        self.activity_ms = relative_ms;
    }

    pub(super) fn timer(&self) -> Option<i64> {
        let runs = self.interval_ms > 0 || self.heeds_idleness();
        runs.then(|| self.clock.map_or(AT_ONCE_MS, |clock| clock.timer_ms))
    }

    /// Looks at the clock. Returns what goes on, in order.
    pub(super) fn on_time(&mut self, now_ms: i64) -> [Option<Mark>; 2] {
        if self.timer().is_none_or(|timer| timer > now_ms) {
            return [None, None];
        }
        let timer_ms = now_ms.saturating_add(timer_interval_ms(self.interval_ms, self.idle_timeout_ms));
        let Some(clock) = self.clock else {
            self.clock = Some(Clock { sent_at_ms: now_ms, timer_ms });
            return [None, None];
        };
        let mut sent_at_ms = clock.sent_at_ms;
        let mut marks = [None, None];
        if self.interval_ms > 0 && sent_at_ms.saturating_add(self.interval_ms) <= now_ms {
            sent_at_ms = now_ms;
            marks[0] = self.advance();
        }
        if self.checked_rows != Some(self.rows) {
            self.active_at_ms = self.activity_ms;
            self.checked_rows = Some(self.rows);
        }
        if self.heeds_idleness()
            && self.status == WatermarkStatus::Active
            && self.active_at_ms.saturating_add(self.idle_timeout_ms) <= self.activity_ms
        {
            marks[1] = Some(self.change(WatermarkStatus::Idle));
        }
        self.clock = Some(Clock { sent_at_ms, timer_ms });
        marks
    }
}

/// How often the clock is looked at, where one of both is positive: precise for the shorter one, good enough for the longer one.
fn timer_interval_ms(interval_ms: i64, idle_timeout_ms: i64) -> i64 {
    if interval_ms <= 0 {
        return idle_timeout_ms;
    }
    if idle_timeout_ms <= 0 {
        return interval_ms;
    }
    let smaller = interval_ms.min(idle_timeout_ms);
    let larger = interval_ms.max(idle_timeout_ms);
    if smaller.saturating_mul(5) < larger { smaller } else { (smaller / 5).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_looked_at_as_often_as_on_flink() {
        let cases =
            [((0, 7), 7), ((200, 0), 200), ((200, 1001), 200), ((200, 1000), 40), ((1000, 200), 40), ((3, 4), 1)];
        for ((interval, idle), expected) in cases {
            assert_eq!(timer_interval_ms(interval, idle), expected, "{interval} {idle}");
        }
    }

    #[test]
    fn an_input_without_rows_is_idle_after_the_timeout_of_the_clock_of_activity() {
        let mut emission = Emission::new(200, 1_000);
        assert_eq!((emission.on_time(10_000), emission.timer()), ([None, None], Some(10_040)));
        emission.set_activity_time(50);
        assert_eq!(emission.on_time(10_040), [None, None], "the first check notes the time");
        emission.set_activity_time(1_049);
        assert_eq!(emission.on_time(12_000), [None, None], "back pressure does not count");
        emission.set_activity_time(1_050);
        assert_eq!(emission.on_time(12_040), [None, Some(Mark::Status(WatermarkStatus::Idle))]);
        assert_eq!(emission.on_time(12_080), [None, None]);
        assert_eq!(emission.rows_come(1), Some(Mark::Status(WatermarkStatus::Active)));
        assert_eq!(emission.rows_come(1), None);
    }
}
