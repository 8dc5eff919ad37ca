//! Which windows there are, and which slices they are put together from.
//!
//! All times are local time in milliseconds. A window goes from its start up to, but without, its end. Numbers wrap as Java's do.

use streamfusion_plan::node::WindowSpec;
use streamfusion_plan::reason::Reason;

/// The start of the window of `size` milliseconds in which a time lies, where one begins at `offset`.
///
/// Follows: TimeWindow.getWindowStartWithOffset, Flink 2.2.
#[inline]
pub fn window_start(millis: i64, offset: i64, size: i64) -> i64 {
    let remainder = millis.wrapping_sub(offset) % size;
    let remainder = if remainder < 0 { remainder.wrapping_add(size) } else { remainder };
    millis.wrapping_sub(remainder)
}

/// A window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimeWindow {
    /// The first millisecond.
    pub start: i64,
    /// The millisecond behind the last one.
    pub end: i64,
}

impl TimeWindow {
    /// The last millisecond.
    #[inline]
    pub fn max_timestamp(self) -> i64 {
        self.end.wrapping_sub(1)
    }
}

/// Windows whose borders are the same for all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowAssigner {
    /// `TUMBLE`
    Tumbling {
        /// Length.
        size: i64,
        /// Where windows begin.
        offset: i64,
    },
    /// `HOP`; the size need not be a multiple of the slide.
    Hopping {
        /// Length.
        size: i64,
        /// From begin to begin.
        slide: i64,
        /// Where windows begin.
        offset: i64,
    },
    /// `CUMULATE`
    Cumulative {
        /// Length of the last window.
        max_size: i64,
        /// From end to end.
        step: i64,
        /// Where windows begin.
        offset: i64,
    },
}

impl WindowAssigner {
    /// The windows of a node; `None` for sessions, whose borders follow from the rows.
    pub fn new(window: &WindowSpec) -> Option<Self> {
        match *window {
            WindowSpec::Tumbling { size_ms: size, offset_ms: offset } => Some(Self::Tumbling { size, offset }),
            WindowSpec::Hopping { size_ms: size, slide_ms: slide, offset_ms: offset } => {
                Some(Self::Hopping { size, slide, offset })
            }
            WindowSpec::Cumulative { max_size_ms: max_size, step_ms: step, offset_ms: offset } => {
                Some(Self::Cumulative { max_size, step, offset })
            }
            WindowSpec::Session { .. } => None,
        }
    }

    /// Appends the windows in which a time lies, in the order in which Flink hands them out: from the last start to the first
    /// one, or by end. There may be none, if windows hop further than they are long.
    ///
    /// Follows: TumblingWindowAssigner, SlidingWindowAssigner and CumulativeWindowAssigner, Flink 2.2.
    pub fn assign(&self, millis: i64, windows: &mut Vec<TimeWindow>) {
        match *self {
            Self::Tumbling { size, offset } => {
                let start = window_start(millis, offset, size);
                windows.push(TimeWindow { start, end: start.wrapping_add(size) });
            }
            Self::Hopping { size, slide, offset } => {
                let mut start = window_start(millis, offset, slide);
                while start > millis.wrapping_sub(size) {
                    windows.push(TimeWindow { start, end: start.wrapping_add(size) });
                    start = start.wrapping_sub(slide);
                }
            }
            Self::Cumulative { max_size, step, offset } => {
                let start = window_start(millis, offset, max_size);
                let last_end = start.wrapping_add(max_size);
                let mut end = window_start(millis, offset, step).wrapping_add(step);
                while end <= last_end {
                    windows.push(TimeWindow { start, end });
                    end = end.wrapping_add(step);
                }
            }
        }
    }
}

/// Windows that are put together from slices: a time lies in exactly one slice, named by its end.
///
/// Follows: SliceAssigners, Flink 2.2. Differences: a cumulative window of one step is removed when it has fired, which Flink forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceAssigner {
    windows: WindowAssigner,
    /// Whether windows share slices: otherwise a slice is its window.
    shared: bool,
}

/// At most two slices.
pub type Slices = [Option<i64>; 2];

impl SliceAssigner {
    /// The slices of a node's windows, or why Flink has none.
    pub fn new(window: &WindowSpec) -> Result<Self, Reason> {
        let windows = WindowAssigner::new(window).ok_or_else(|| Reason::new("a session window has no slices"))?;
        if let WindowAssigner::Hopping { size, slide, .. } = windows
            && size % slide != 0
        {
            return Err(Reason::new(
                "Flink does not support an aggregate over a hopping window whose size is not a multiple of its slide",
            ));
        }
        Ok(Self { windows, shared: !matches!(windows, WindowAssigner::Tumbling { .. }) })
    }

    /// The same windows where each row says in which one it is, so that nothing is shared.
    pub fn attached(self) -> Self {
        Self { shared: false, ..self }
    }

    /// Whether windows share slices.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// The windows.
    pub fn windows(&self) -> WindowAssigner {
        self.windows
    }

    /// The end of the slice in which a time lies.
    #[inline]
    pub fn assign_slice_end(&self, millis: i64) -> i64 {
        let (length, offset) = self.slice();
        window_start(millis, offset, length).wrapping_add(length)
    }

    /// From slice end to slice end.
    #[inline]
    pub fn slice_end_interval(&self) -> i64 {
        self.slice().0
    }

    /// Length of a slice, and where slices begin.
    #[inline]
    fn slice(&self) -> (i64, i64) {
        match self.windows {
            WindowAssigner::Tumbling { size, offset } => (size, offset),
            WindowAssigner::Hopping { slide, offset, .. } => (slide, offset),
            WindowAssigner::Cumulative { step, offset, .. } => (step, offset),
        }
    }

    /// The end of the last window that has this slice.
    pub fn last_window_end(&self, slice_end: i64) -> i64 {
        match self.windows {
            _ if !self.shared => slice_end,
            WindowAssigner::Tumbling { .. } => slice_end,
            WindowAssigner::Hopping { size, slide, .. } => slice_end.wrapping_sub(slide).wrapping_add(size),
            WindowAssigner::Cumulative { max_size, .. } => self.window_start(slice_end).wrapping_add(max_size),
        }
    }

    /// The start of the window with this end.
    pub fn window_start(&self, window_end: i64) -> i64 {
        match self.windows {
            WindowAssigner::Tumbling { size, .. } | WindowAssigner::Hopping { size, .. } => {
                window_end.wrapping_sub(size)
            }
            WindowAssigner::Cumulative { max_size, offset, .. } => {
                window_start(window_end.wrapping_sub(1), offset, max_size)
            }
        }
    }

    /// The slices that nobody needs any more when the window with this end has fired.
    pub fn expired_slices(&self, window_end: i64) -> Slices {
        match self.windows {
            _ if !self.shared => [Some(window_end), None],
            WindowAssigner::Tumbling { .. } => [Some(window_end), None],
            WindowAssigner::Hopping { slide, .. } => [Some(self.window_start(window_end).wrapping_add(slide)), None],
            WindowAssigner::Cumulative { max_size, step, .. } => {
                let start = self.window_start(window_end);
                let first = start.wrapping_add(step);
                let is_last = window_end == start.wrapping_add(max_size);
                if window_end == first && !is_last {
                    // the windows behind it begin with what is in the first slice
                    [None, None]
                } else if window_end != first && is_last {
                    [Some(window_end), Some(first)]
                } else {
                    [Some(window_end), None]
                }
            }
        }
    }

    /// The slice into which others are merged for good when the window with this end fires; `None` if they are merged for
    /// the moment.
    pub fn merge_target(&self, window_end: i64) -> Option<i64> {
        match self.windows {
            WindowAssigner::Cumulative { step, .. } if self.shared => {
                Some(self.window_start(window_end).wrapping_add(step))
            }
            _ => None,
        }
    }

    /// The slices that are merged when the window with this end fires, in this order: into the [target](Self::merge_target) if there
    /// is one. Empty if nothing is shared.
    pub fn merged_slices(&self, window_end: i64) -> impl Iterator<Item = i64> + use<> {
        let (count, length) = match self.windows {
            _ if !self.shared => (0, 0),
            WindowAssigner::Tumbling { .. } => (0, 0),
            WindowAssigner::Hopping { size, slide, .. } => (size / slide, slide),
            // in the first slice there is nothing yet to merge
            WindowAssigner::Cumulative { step, .. } => {
                (i64::from(self.merge_target(window_end) != Some(window_end)), step)
            }
        };
        (0..count).map(move |slice| window_end.wrapping_sub(slice.wrapping_mul(length)))
    }

    /// Where a row goes whose slice fired before, though not all windows of that slice.
    pub fn late_target(&self, slice_end: i64) -> i64 {
        self.merge_target(slice_end).unwrap_or(slice_end)
    }

    /// The window that is due next behind the one with this end, even if no row comes.
    pub fn next_trigger_window(&self, window_end: i64, is_empty: bool) -> Option<i64> {
        match self.windows {
            _ if !self.shared => None,
            WindowAssigner::Tumbling { .. } => None,
            WindowAssigner::Hopping { slide, .. } => (!is_empty).then(|| window_end.wrapping_add(slide)),
            WindowAssigner::Cumulative { max_size, step, .. } => {
                let next = window_end.wrapping_add(step);
                (next <= self.window_start(window_end).wrapping_add(max_size)).then_some(next)
            }
        }
    }
}

#[cfg(test)]
mod tests;
