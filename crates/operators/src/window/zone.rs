//! From instants to the local time of windows and back.
//!
//! The end of a window is local time, and the instant at which it is due follows from it: local time that a zone skips is due when
//! it is skipped, local time that comes twice when it came for the second time. Flink knows both cases only for jumps
//! of one hour, in zones that have daylight saving time today; that is kept here.

use streamfusion_plan::node::ShiftZone;
use streamfusion_plan::zone::{OffsetSpan, ZoneRules};

const MILLIS_PER_SECOND: i64 = 1_000;
const SECONDS_PER_HOUR: i64 = 3_600;
const MILLIS_PER_HOUR: i64 = SECONDS_PER_HOUR * MILLIS_PER_SECOND;

/// The zone in whose local time windows begin and end.
///
/// `i64::MAX`, which is the last watermark, is never shifted.
///
/// Follows: TimeWindowUtil, Flink 2.2. Differences: where Java fails because a number gets too large, it wraps.
#[derive(Debug, Clone)]
pub struct WindowZone {
    /// Absent if time is not shifted.
    rules: Option<ZoneRules>,
}

impl WindowZone {
    /// The zone of a node.
    pub fn new(zone: &ShiftZone) -> Self {
        match zone {
            ShiftZone::Utc => Self::utc(),
            ShiftZone::Zone(rules) if rules.is_utc() => Self::utc(),
            ShiftZone::Zone(rules) => Self { rules: Some(rules.clone()) },
        }
    }

    /// Time that is not shifted.
    pub fn utc() -> Self {
        Self { rules: None }
    }

    /// Whether time is not shifted.
    pub fn is_utc(&self) -> bool {
        self.rules.is_none()
    }

    /// The local time of an instant.
    pub fn to_utc_timestamp_millis(&self, epoch_ms: i64) -> i64 {
        match &self.rules {
            Some(rules) if epoch_ms != i64::MAX => {
                shift(epoch_ms, rules.offset_at(epoch_ms.div_euclid(MILLIS_PER_SECOND)).offset)
            }
            _ => epoch_ms,
        }
    }

    /// Replaces instants by their local times.
    pub fn shift_all(&self, millis: &mut [i64]) {
        let Some(rules) = &self.rules else { return };
        // no second lies in it
        let mut span = OffsetSpan { offset: 0, from: 0, until: 0 };
        for millis in millis {
            let second = millis.div_euclid(MILLIS_PER_SECOND);
            if !span.contains(second) {
                span = rules.offset_at(second);
            }
            if *millis != i64::MAX {
                *millis = shift(*millis, span.offset);
            }
        }
    }

    /// The instant of a local time: of two the earlier one, and of none the one as far behind the gap as the local time is behind its
    /// beginning.
    pub fn to_epoch_millis(&self, local_ms: i64) -> i64 {
        match &self.rules {
            Some(rules) if local_ms != i64::MAX => instant(rules, local_ms),
            _ => local_ms,
        }
    }

    /// The instant at which a timer for a local time is due.
    pub fn to_epoch_millis_for_timer(&self, local_ms: i64) -> i64 {
        match &self.rules {
            Some(rules) if local_ms != i64::MAX => {
                let first = instant(rules, local_ms);
                if !rules.uses_daylight_time() {
                    return first;
                }
                let second = instant(rules, local_ms.wrapping_add(MILLIS_PER_HOUR));
                if first == second {
                    // does not exist
                    first - first % MILLIS_PER_HOUR
                } else if second.wrapping_sub(first) > MILLIS_PER_HOUR {
                    // exists twice
                    first.wrapping_add(MILLIS_PER_HOUR)
                } else {
                    first
                }
            }
            _ => local_ms,
        }
    }

    /// The instant at which the window that ends at this local time is due.
    pub fn window_timer(&self, window_end: i64) -> i64 {
        self.to_epoch_millis_for_timer(window_end.wrapping_sub(1))
    }

    /// Whether the window that ends at this local time was due at `progress`, an instant. `i64::MAX` stands for no window.
    pub fn is_window_fired(&self, window_end: i64, progress: i64) -> bool {
        window_end != i64::MAX && progress >= self.window_timer(window_end)
    }

    /// The next watermark behind `watermark` with which a window may be due, if windows end every `interval_ms` since the
    /// epoch.
    pub fn next_trigger_watermark(&self, watermark: i64, interval_ms: i64) -> i64 {
        if watermark == i64::MAX {
            return watermark;
        }
        let daylight = self.rules.as_ref().is_some_and(ZoneRules::uses_daylight_time);
        let trigger = if daylight {
            let start = super::assigner::window_start(self.to_utc_timestamp_millis(watermark), 0, interval_ms);
            self.window_timer(start.wrapping_add(interval_ms))
        } else {
            let start = super::assigner::window_start(watermark, 0, interval_ms);
            start.wrapping_add(interval_ms).wrapping_sub(1)
        };
        if trigger > watermark { trigger } else { trigger.wrapping_add(interval_ms) }
    }
}

fn instant(rules: &ZoneRules, local_ms: i64) -> i64 {
    shift(local_ms, -rules.offset_of_local(local_ms.div_euclid(MILLIS_PER_SECOND)).offset)
}

fn shift(millis: i64, offset: i32) -> i64 {
    millis.wrapping_add(i64::from(offset) * MILLIS_PER_SECOND)
}

#[cfg(test)]
mod tests;
