//! How far time has come, and what is late.
//!
//! | operator, time | a row is late | a window may not grow to end |
//! | --- | --- | --- |
//! | window aggregate, event or processing time | at the watermark | at the watermark |
//! | group window, event time | at the watermark | at the watermark |
//! | group window, processing time | never | at the processing time |
//!
//! The first line is as Flink has it: its assigner of sessions is always one of event time, so that rows are late by a watermark that
//! passes through also where windows go by the clock. A row that comes to an open window which is late by that makes Flink forget the window
//! but not its timer, at which it fails; here the row fails.

use streamfusion_plan::types::TimeDomain;

use super::sessions::Progress;
use crate::window::{TimeWindow, WindowZone};

/// Which line of the table holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LateRule {
    Watermark,
    Never,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) zone: WindowZone,
    pub(crate) rule: LateRule,
    /// The last watermark.
    pub(crate) watermark: i64,
    /// The processing time.
    pub(crate) now: i64,
}

impl Clock {
    pub(crate) fn new(zone: WindowZone, rule: LateRule) -> Self {
        Self { zone, rule, watermark: i64::MIN, now: i64::MIN }
    }

    /// The instant at which a window is due.
    #[inline]
    pub(crate) fn timer(&self, window: TimeWindow) -> i64 {
        self.zone.window_timer(window.end)
    }
}

impl Clock {
    /// The last instant whose timers have fired: Flink's clock fires a timer when its millisecond is over.
    pub(crate) fn progress(&self, domain: TimeDomain) -> i64 {
        match domain {
            TimeDomain::Rowtime => self.watermark,
            TimeDomain::Proctime => self.now.saturating_sub(1),
        }
    }

    /// Whether a row of this window is late.
    #[inline]
    pub(crate) fn has_ended(&self, window: TimeWindow) -> bool {
        self.rule == LateRule::Watermark && self.timer(window) <= self.watermark
    }
}

impl Progress for &Clock {
    #[inline]
    fn is_late(&mut self, window: TimeWindow) -> bool {
        self.has_ended(window)
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
