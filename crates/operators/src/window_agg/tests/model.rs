//! SliceUnsharedSyncStateWindowAggProcessor and SliceSharedSyncStateWindowAggProcessor, with lists of rows for accumulators.

use std::collections::{BTreeMap, BTreeSet};

use streamfusion_plan::node::WindowSpec;

use super::{Query, TEXT};
use crate::window::testing::{Event, Row};

/// What comes out: per key its rows, in order.
pub(super) type Out = BTreeMap<String, Vec<String>>;

#[derive(Debug)]
pub(super) struct Model<'a> {
    query: &'a Query,
    progress: i64,
    state: BTreeMap<(String, i64), Vec<Row>>,
    /// By time: the windows of keys.
    timers: BTreeMap<i64, Vec<(String, i64)>>,
    pub(super) out: Out,
    pub(super) late_rows: u64,
}

fn start(millis: i64, offset: i64, size: i64) -> i64 {
    millis - (millis - offset).rem_euclid(size)
}

impl<'a> Model<'a> {
    pub(super) fn run(query: &'a Query, events: &[Event]) -> Self {
        let (state, timers, out) = (BTreeMap::new(), BTreeMap::new(), Out::new());
        let mut model = Self { query, progress: i64::MIN, state, timers, out, late_rows: 0 };
        for event in events {
            match event {
                Event::Row(row) => model.row(row),
                Event::Watermark(watermark) => model.watermark(*watermark),
            }
        }
        model
    }

    fn fired(&self, end: i64) -> bool {
        self.progress >= end - 1
    }

    fn row(&mut self, row: &Row) {
        let key = row.key(&self.query.grouping);
        let time = row.t.unwrap();
        let slice = match self.query.window {
            _ if self.query.attached => row.end.unwrap_or(0),
            WindowSpec::Tumbling { size_ms, offset_ms } => start(time, offset_ms, size_ms) + size_ms,
            WindowSpec::Hopping { slide_ms, offset_ms, .. } => start(time, offset_ms, slide_ms) + slide_ms,
            WindowSpec::Cumulative { step_ms, offset_ms, .. } => start(time, offset_ms, step_ms) + step_ms,
            WindowSpec::Session { .. } => unreachable!(),
        };
        if !self.fired(slice) {
            self.state.entry((key.clone(), slice)).or_default().push(row.clone());
            return self.register(key, slice);
        }
        let last = match self.query.window {
            _ if self.query.attached => slice,
            WindowSpec::Hopping { size_ms, slide_ms, .. } => slice - slide_ms + size_ms,
            WindowSpec::Cumulative { max_size_ms, .. } => self.window_start(slice) + max_size_ms,
            _ => slice,
        };
        if self.fired(last) {
            self.late_rows += 1;
            return;
        }
        let (target, interval) = match self.query.window {
            WindowSpec::Cumulative { step_ms, .. } => (self.window_start(slice) + step_ms, step_ms),
            WindowSpec::Hopping { slide_ms, .. } => (slice, slide_ms),
            _ => unreachable!(),
        };
        self.state.entry((key.clone(), target)).or_default().push(row.clone());
        let mut next = slice;
        while self.fired(next) {
            next += interval;
        }
        self.register(key, next);
    }

    fn window_start(&self, end: i64) -> i64 {
        match self.query.window {
            WindowSpec::Tumbling { size_ms, .. } | WindowSpec::Hopping { size_ms, .. } => end - size_ms,
            WindowSpec::Cumulative { max_size_ms, offset_ms, .. } => start(end - 1, offset_ms, max_size_ms),
            WindowSpec::Session { .. } => unreachable!(),
        }
    }

    fn register(&mut self, key: String, end: i64) {
        let timers = self.timers.entry(end - 1).or_default();
        if !timers.contains(&(key.clone(), end)) {
            timers.push((key, end));
        }
    }

    fn watermark(&mut self, watermark: i64) {
        self.progress = self.progress.max(watermark);
        while let Some(first) = self.timers.first_entry().filter(|first| *first.key() <= self.progress) {
            for (key, end) in first.remove() {
                self.fire(&key, end);
            }
        }
    }

    fn fire(&mut self, key: &str, end: i64) {
        let slice = |slice: i64| (key.to_owned(), slice);
        match self.query.window {
            WindowSpec::Hopping { size_ms, slide_ms, .. } if !self.query.attached => {
                let slices = (0..size_ms / slide_ms).map(|n| end - n * slide_ms);
                let rows: Vec<Row> =
                    slices.flat_map(|end| self.state.get(&slice(end)).cloned().unwrap_or_default()).collect();
                self.emit(key, end, &rows);
                if !rows.is_empty() {
                    self.register(key.to_owned(), end + slide_ms);
                }
                self.state.remove(&slice(end - size_ms + slide_ms));
            }
            WindowSpec::Cumulative { max_size_ms, step_ms, .. } if !self.query.attached => {
                let (first, last) = (self.window_start(end) + step_ms, self.window_start(end) + max_size_ms);
                if end != first {
                    let other = self.state.get(&slice(end)).cloned().unwrap_or_default();
                    self.state.entry(slice(first)).or_default().extend(other);
                }
                let rows = self.state.get(&slice(first)).cloned().unwrap_or_default();
                self.emit(key, end, &rows);
                if end + step_ms <= last {
                    self.register(key.to_owned(), end + step_ms);
                }
                if end != first {
                    self.state.remove(&slice(end));
                }
                if end == last {
                    self.state.remove(&slice(first));
                }
            }
            _ => {
                let rows = self.state.remove(&slice(end)).unwrap_or_default();
                self.emit(key, end, &rows);
            }
        }
    }

    fn emit(&mut self, key: &str, end: i64, rows: &[Row]) {
        if rows.is_empty() && matches!(self.query.window, WindowSpec::Hopping { .. }) {
            return;
        }
        let shown_key = rows.first().map(|row| {
            let cell = |column: &usize| match column {
                1 => row.k.map_or_else(|| "NULL ".to_owned(), |k| format!("{k} ")),
                _ => format!("{} ", row.v.as_deref().unwrap_or("NULL")),
            };
            self.query.grouping.iter().map(cell).collect::<String>()
        });
        let keys: BTreeSet<i64> = rows.iter().filter_map(|row| row.k).collect();
        let texts: BTreeSet<&String> = rows.iter().filter_map(|row| row.v.as_ref()).collect();
        let number = |number: Option<i64>| number.map_or_else(|| "NULL".to_owned(), |number| number.to_string());
        let value = |call: &streamfusion_plan::node::AggCall| match (call.function.name(), call.args.as_slice()) {
            ("COUNT", []) => rows.len().to_string(),
            ("COUNT", [TEXT]) => texts.len().to_string(),
            ("COUNT", _) => keys.len().to_string(),
            ("SUM", _) if call.distinct => number(keys.iter().copied().reduce(|a, b| a + b)),
            ("SUM", _) => number(rows.iter().map(|row| row.id).reduce(|a, b| a + b)),
            ("MAX", _) => rows.iter().filter_map(|row| row.v.clone()).max().unwrap_or_else(|| "NULL".to_owned()),
            ("LAST_VALUE", _) => number(rows.last().map(|row| row.id)),
            _ => unreachable!(),
        };
        let values = self.query.calls.iter().map(|call| value(call) + " ").collect::<String>();
        let window = format!("{} {end}", self.window_start(end));
        let shown = format!("{}{values}{window}", shown_key.unwrap_or_default());
        self.out.entry(key.to_owned()).or_default().push(shown);
    }
}

/// The name of a function.
trait Name {
    fn name(&self) -> &str;
}

impl Name for streamfusion_plan::rex::Function {
    fn name(&self) -> &str {
        match self {
            Self::BuiltIn { name, .. } => name,
            Self::User(name) => name,
        }
    }
}
