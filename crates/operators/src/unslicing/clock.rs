//! How far time has come, and what is late.
//!
//! | operator, time | a row is late | a window may not grow to end |
//! | --- | --- | --- |
//! | window aggregate, event or processing time | at the watermark | at the watermark |
//! | group window, event time | at the watermark | at the watermark |
//! | group window, processing time | never | at the processing time |
//!
//! The first line is as Flink has it: its assigner of sessions is always one of event time, so that rows are late by a watermark that
//! passes through also where windows go by the clock.

use super::sessions::Progress;
use crate::window::{TimeWindow, WindowZone};

/// Which line of the table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LateRule {
    Watermark,
    Never,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) zone: WindowZone,
    pub(super) rule: LateRule,
    /// The last watermark.
    pub(super) watermark: i64,
    /// The processing time.
    pub(super) now: i64,
}

impl Clock {
    pub(super) fn new(zone: WindowZone, rule: LateRule) -> Self {
        Self { zone, rule, watermark: i64::MIN, now: i64::MIN }
    }

    /// The instant at which a window is due.
    #[inline]
    pub(super) fn timer(&self, window: TimeWindow) -> i64 {
        self.zone.window_timer(window.end)
    }
}

impl Progress for &Clock {
    #[inline]
    fn is_late(&mut self, window: TimeWindow) -> bool {
        self.rule == LateRule::Watermark && self.timer(window) <= self.watermark
    }

    #[inline]
    fn is_past(&mut self, window: TimeWindow) -> bool {
        let progress = match self.rule {
            LateRule::Watermark => self.watermark,
            LateRule::Never => self.now,
        };
        self.timer(window) <= progress
    }
}
