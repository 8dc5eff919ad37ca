//! One key's sessions as Flink keeps them: windows in a sorted set, a map from each to the window under which its accumulators are,
//! and timers. A row is taken at a time, and what it adds up to is the list of rows.

use std::collections::{BTreeMap, BTreeSet};

use crate::window::TimeWindow as Window;

/// Rows by their numbers, in the order in which they were accumulated or merged.
pub(super) type Rows = Vec<u32>;

#[derive(Default)]
pub(super) struct Model {
    windows: BTreeSet<Window>,
    mapping: BTreeMap<Window, Window>,
    accumulators: BTreeMap<Window, Rows>,
    timers: BTreeSet<(i64, Window)>,
}

/// The listing of a Java `HashSet` that these windows were added to in this order.
fn hash_set(windows: &[Window]) -> Vec<Window> {
    let mut buckets = vec![Vec::new(); 16];
    for window in windows {
        // TimeWindow.hashCode, with the inverse found by trial where the original has a formula
        let odd = (window.end as i32).wrapping_shl(1).wrapping_add(1);
        let mut inverse = 1_i32;
        for bit in 1..32 {
            if odd.wrapping_mul(inverse) & (1 << bit) != 0 {
                inverse |= 1 << bit;
            }
        }
        let hash = (window.start as i32).wrapping_add(inverse);
        let bucket: &mut Vec<Window> = &mut buckets[((hash ^ (hash as u32 >> 16) as i32) & 15) as usize];
        if !bucket.contains(window) {
            bucket.push(*window);
        }
    }
    buckets.concat()
}

impl Model {
    /// Whether the row was taken, as opposed to late; an error where Flink fails.
    pub(super) fn add(
        &mut self,
        row: u32,
        own: Window,
        timer: impl Fn(i64) -> i64,
        watermark: i64,
    ) -> Result<bool, ()> {
        let actual = self.add_window(own, &timer, watermark)?;
        if timer(actual.end - 1) <= watermark {
            self.retire(actual);
            return Ok(false);
        }
        self.accumulators.entry(self.mapping[&actual]).or_default().push(row);
        self.timers.insert((timer(actual.end - 1), actual));
        Ok(true)
    }

    fn add_window(&mut self, own: Window, timer: &impl Fn(i64) -> i64, watermark: i64) -> Result<Window, ()> {
        let touches = |a: Window, b: Window| a.start <= b.end && a.end >= b.start;
        let mut result = own;
        let mut set = Vec::new();
        let ceiling = self.windows.range(own..).next();
        let floor = self.windows.range(..=own).next_back();
        for other in [ceiling, floor].into_iter().flatten() {
            if touches(result, *other) {
                set.push(*other);
                result = Window { start: result.start.min(other.start), end: result.end.max(other.end) };
            }
        }
        if set.is_empty() {
            self.mapping.insert(own, own);
            self.windows.insert(own);
            return Ok(own);
        }
        set.push(own);
        let mut merged = hash_set(&set);
        merged.retain(|window| *window != own);
        let Some(first) = merged.first() else { return Ok(result) };
        let target = self.mapping[first];
        let mut sources = Vec::new();
        for window in &merged {
            if let Some(state) = self.mapping.remove(window) {
                self.windows.remove(window);
                if state != target {
                    sources.push(state);
                }
            }
        }
        self.mapping.insert(result, target);
        self.windows.insert(result);
        if merged != [result] {
            if timer(result.end - 1) <= watermark {
                return Err(());
            }
            self.timers.insert((timer(result.end - 1), result));
            for window in &merged {
                self.timers.remove(&(timer(window.end - 1), *window));
            }
            for source in sources {
                let rows = self.accumulators.remove(&source).unwrap_or_default();
                self.accumulators.entry(target).or_default().extend(rows);
            }
        }
        Ok(result)
    }

    fn retire(&mut self, window: Window) {
        self.mapping.remove(&window);
        assert!(self.windows.remove(&window));
    }

    /// What fires at a watermark.
    pub(super) fn advance(&mut self, watermark: i64) -> Vec<(Window, Rows)> {
        let mut out = Vec::new();
        while let Some((time, window)) = self.timers.first().copied().filter(|(time, _)| *time <= watermark) {
            self.timers.remove(&(time, window));
            let rows = self.accumulators.remove(&self.mapping[&window]);
            out.push((window, rows.unwrap_or_default()));
            self.retire(window);
        }
        out
    }
}
