//! The windows that have rows and are not due yet, and how far event time has come.
//!
//! A key has a slot for each of its windows. What is due is a slot, at the instant that the end of its window stands for in the
//! zone of the node; of several windows that are due at one instant the one that ends first comes first, and the keys of a window come in
//! the order in which they got their first row. None of this is in snapshots: it follows from the slots.
//!
//! Follows: InternalTimerServiceImpl with SlicingWindowTimerServiceImpl, TimeWindowUtil.isWindowFired, Flink 2.2. Differences: none per
//! key, and windows of a key that are due at one instant, which a zone with daylight saving time makes of those that it skips, have no order
//! in Flink.

use std::collections::BTreeMap;

use super::WindowZone;

/// Ends whose instants are remembered where time is shifted; a power of two.
const KNOWN_ENDS: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct OpenWindows {
    zone: WindowZone,
    progress: i64,
    /// By instant and end: the slots.
    slots: BTreeMap<(i64, i64), Vec<u32>>,
    /// How many there are in it.
    open: usize,
    /// Of the window that is being handed out, whose end stands beside it.
    due: std::vec::IntoIter<u32>,
    due_end: i64,
    /// Ends and their instants, by the low bits of a hash; empty where time is not shifted.
    known: Vec<(i64, i64)>,
}

impl OpenWindows {
    pub(crate) fn new(zone: WindowZone) -> Self {
        let known = if zone.is_utc() { Vec::new() } else { vec![(i64::MAX, zone.window_timer(i64::MAX)); KNOWN_ENDS] };
        Self {
            zone,
            progress: i64::MIN,
            slots: BTreeMap::new(),
            open: 0,
            due: Vec::new().into_iter(),
            due_end: 0,
            known,
        }
    }

    /// How far event time has come.
    pub(crate) fn progress(&self) -> i64 {
        self.progress
    }

    /// Takes over how far event time had come. The last watermark is no progress: with it there is nothing left to be late for.
    pub(crate) fn restore_progress(&mut self, watermark_ms: i64) {
        if watermark_ms != i64::MAX {
            self.progress = watermark_ms;
        }
    }

    /// Takes a watermark and returns how far event time has come.
    pub(crate) fn advance(&mut self, watermark_ms: i64) -> i64 {
        self.progress = self.progress.max(watermark_ms);
        self.progress
    }

    /// The instant at which the window with this end is due.
    #[inline]
    fn timer(&mut self, end: i64) -> i64 {
        if self.known.is_empty() {
            return self.zone.window_timer(end);
        }
        // the low bits of ends are alike
        let place = (streamfusion_state::mix(end.cast_unsigned()) as usize) & (KNOWN_ENDS - 1);
        match self.known.get_mut(place) {
            Some(known) if known.0 == end => known.1,
            Some(known) => {
                *known = (end, self.zone.window_timer(end));
                known.1
            }
            None => self.zone.window_timer(end),
        }
    }

    /// Whether the window with this end was due. `i64::MAX` stands for no window.
    #[inline]
    pub(crate) fn is_fired(&mut self, end: i64) -> bool {
        end != i64::MAX && self.progress >= self.timer(end)
    }

    /// Notes the slot of a key that got the first row of the window with this end.
    pub(crate) fn open(&mut self, end: i64, slot: u32) {
        let timer = self.timer(end);
        self.slots.entry((timer, end)).or_default().push(slot);
        self.open += 1;
    }

    /// The next slot that is due, which is forgotten.
    pub(crate) fn next_due(&mut self) -> Option<u32> {
        loop {
            if let Some(slot) = self.due.next() {
                return Some(slot);
            }
            let first = self.slots.first_entry()?;
            if first.key().0 > self.progress {
                return None;
            }
            self.due_end = first.key().1;
            let slots = first.remove();
            self.open -= slots.len();
            self.due = slots.into_iter();
        }
    }

    /// The next slots that are due, which are forgotten: at most `limit`, of one window, whose end is returned.
    pub(crate) fn next_due_of_window(&mut self, limit: usize, slots: &mut Vec<u32>) -> Option<i64> {
        slots.clear();
        slots.push(self.next_due()?);
        slots.extend(self.due.by_ref().take(limit.saturating_sub(1)));
        Some(self.due_end)
    }

    /// The instant at which the first window is due, of those that have slots.
    pub(crate) fn first_timer(&self) -> Option<i64> {
        match self.due.len() {
            0 => self.slots.first_key_value().map(|((timer, _), _)| *timer),
            _ => Some(self.progress),
        }
    }

    /// Bytes taken, about.
    pub(crate) fn bytes(&self) -> usize {
        (self.open + self.due.len()) * size_of::<u32>()
            + self.slots.len() * size_of::<((i64, i64), Vec<u32>)>()
            + self.known.capacity() * size_of::<(i64, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(windows: &mut OpenWindows) -> Vec<u32> {
        std::iter::from_fn(|| windows.next_due()).collect()
    }

    #[test]
    fn windows_are_due_in_order_and_their_keys_as_they_came() {
        let mut windows = OpenWindows::new(WindowZone::utc());
        for (end, slot) in [(20, 5), (10, 3), (20, 1), (10, 9), (30, 0)] {
            windows.open(end, slot);
        }
        assert_eq!((windows.advance(8), due(&mut windows)), (8, vec![]));
        assert_eq!((windows.advance(9), due(&mut windows)), (9, vec![3, 9]));
        assert!(windows.is_fired(10) && !windows.is_fired(11));
        assert_eq!(windows.advance(25), 25);
        windows.open(26, 7);
        assert_eq!(due(&mut windows), vec![5, 1, 7]);
        assert_eq!((windows.advance(3), due(&mut windows)), (25, vec![]));
        assert_eq!((windows.advance(i64::MAX), due(&mut windows)), (i64::MAX, vec![0]));
        assert!(windows.is_fired(i64::MAX - 1) && !windows.is_fired(i64::MAX));
    }

    #[test]
    fn the_last_watermark_is_not_restored() {
        let mut windows = OpenWindows::new(WindowZone::utc());
        windows.restore_progress(7);
        windows.restore_progress(i64::MAX);
        assert_eq!(windows.progress(), 7);
    }
}
