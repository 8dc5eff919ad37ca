//! Flink's functions, row by row and with as little thought as possible: a window is the list of rows that were accumulated and not taken
//! back.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// What is kept of a key.
#[derive(Debug, Clone, Default)]
struct Key {
    accumulated: Vec<Row>,
    /// A sum of doubles depends on the order of what was done.
    sum: f64,
    input: BTreeMap<i64, Vec<Row>>,
    timers: BTreeSet<i64>,
    last_triggering: Option<i64>,
    counter: i64,
    cleanup: Option<i64>,
}

pub(super) struct Model {
    attribute: TimeAttribute,
    frame: OverFrame,
    ttl: i64,
    keys: BTreeMap<Option<i64>, Key>,
    watermark: i64,
    now: i64,
    pub(super) late: u64,
    pub(super) out: Vec<(Option<i64>, String)>,
}

impl Key {
    fn accumulate(&mut self, row: &Row) {
        self.accumulated.push(row.clone());
        self.sum += row.double.unwrap_or_default();
    }

    fn retract(&mut self, row: &Row) {
        let at = self.accumulated.iter().position(|other| other == row).expect("a row that was accumulated");
        self.accumulated.remove(at);
        self.sum -= row.double.unwrap_or_default();
    }

    /// The values of [`calls_over`] a window.
    fn values(&self, frame: OverFrame) -> String {
        let rows = &self.accumulated;
        let longs: Vec<i64> = rows.iter().filter_map(|row| row.long).collect();
        let texts: Vec<&String> = rows.iter().filter_map(|row| row.text.as_ref()).collect();
        let sum: i64 = longs.iter().sum();
        let some = |value: i64| (!longs.is_empty()).then_some(value);
        let mut values = vec![
            format!("{:?}", Some(rows.len())),
            format!("{:?}", Some(longs.len())),
            format!("{:?}", some(sum)),
            format!("{:?}", longs.len().try_into().ok().and_then(|count: i64| sum.checked_div(count))),
            format!("{:?}", longs.iter().min()),
            format!("{:?}", texts.iter().max()),
            format!("{:?}", longs.first()),
            format!("{:?}", texts.last()),
            format!("{:?}", Some(longs.iter().collect::<BTreeSet<_>>().len())),
            format!("{:?}", Some(self.sum)),
        ];
        if !frame.is_bounded() {
            let before = |count: usize| rows.len().checked_sub(count + 1).and_then(|row| rows.get(row));
            values.push(format!("{:?}", before(1).and_then(|row| row.long)));
            values.push(format!("{:?}", before(2).map_or(Some("x".to_owned()), |row| row.text.clone())));
            values.push(format!("{:?}", Some(rows.len())));
        }
        values.join(" ")
    }
}

impl Model {
    pub(super) fn new(frame: OverFrame, attribute: TimeAttribute, ttl: i64) -> Self {
        let (keys, out) = (BTreeMap::new(), Vec::new());
        Self { attribute, frame, ttl, keys, watermark: i64::MIN, now: 0, late: 0, out }
    }

    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Row(row) => {
                let mut key = self.keys.remove(&row.key).unwrap_or_default();
                match self.attribute {
                    TimeAttribute::Proctime => self.by_clock(&mut key, row),
                    _ => self.by_row_time(&mut key, row),
                }
                self.keys.insert(row.key, key);
            }
            Event::Watermark(watermark) => {
                self.watermark = *watermark;
                if self.attribute == TimeAttribute::Rowtime {
                    self.fire(*watermark);
                }
            }
            Event::Clock(now) => {
                self.now = *now;
                if self.attribute == TimeAttribute::Proctime {
                    self.fire(*now);
                }
                self.clean_up();
            }
        }
    }

    /// A job that is restored sees no watermark yet.
    pub(super) fn restore(&mut self) {
        self.watermark = i64::MIN;
    }

    fn is_range(&self) -> bool {
        matches!(self.frame, OverFrame::Range { .. })
    }

    /// `CleanupState.registerProcessingCleanupTimer`
    fn register_cleanup(&self, key: &mut Key) {
        if self.ttl > 1 && !self.is_range() && key.cleanup.is_none_or(|cleanup| self.now + self.ttl > cleanup) {
            key.cleanup = Some(self.now + self.ttl * 3 / 2);
        }
    }

    /// The processing-time timers of `KeyedProcessFunctionWithCleanupState`.
    fn clean_up(&mut self) {
        if self.ttl <= 1 || self.is_range() {
            return;
        }
        for number in self.keys.keys().copied().collect::<Vec<_>>() {
            let mut key = self.keys.remove(&number).unwrap();
            if key.cleanup.is_some_and(|cleanup| cleanup <= self.now) {
                let last = key.last_triggering.unwrap_or(if self.frame.is_bounded() { 0 } else { i64::MIN });
                let by_row_time = self.attribute == TimeAttribute::Rowtime;
                if by_row_time && key.input.keys().any(|time| *time > last) {
                    self.register_cleanup(&mut key);
                } else {
                    key = Key::default();
                }
            }
            self.keys.insert(number, key);
        }
    }

    /// `registerCleanupTimer` of the bounded RANGE functions.
    fn register_range_cleanup(key: &mut Key, time: i64, preceding: i64) {
        if key.cleanup.is_none_or(|cleanup| cleanup < time + preceding + 1) {
            let cleanup = time + (preceding as f64 * 1.5) as i64 + 1;
            key.timers.insert(cleanup);
            key.cleanup = Some(cleanup);
        }
    }

    fn by_row_time(&mut self, key: &mut Key, row: &Row) {
        self.register_cleanup(key);
        let last = match self.frame.is_bounded() {
            false => self.watermark,
            true => key.last_triggering.unwrap_or(0),
        };
        if row.time <= last {
            self.late += 1;
            return;
        }
        key.input.entry(row.time).or_default().push(row.clone());
        key.timers.insert(row.time);
        if let OverFrame::Range { preceding_ms } = self.frame {
            Self::register_range_cleanup(key, row.time, preceding_ms);
        }
    }

    fn by_clock(&mut self, key: &mut Key, row: &Row) {
        match self.frame {
            OverFrame::UnboundedRows | OverFrame::UnboundedRange => {
                // ValueState with a time-to-live
                if self.ttl > 0 && key.cleanup.is_some_and(|cleanup| cleanup <= self.now) {
                    *key = Key::default();
                }
                key.accumulate(row);
                key.cleanup = Some(self.now + self.ttl);
                self.out.push((row.key, format!("{} {}", describe_row(row), key.values(self.frame))));
            }
            OverFrame::Rows { preceding } => {
                self.register_cleanup(key);
                if key.counter == preceding + 1 {
                    let first = *key.input.keys().next().unwrap();
                    let rows = key.input.get_mut(&first).unwrap();
                    let oldest = rows.remove(0);
                    if rows.is_empty() {
                        key.input.remove(&first);
                    }
                    key.retract(&oldest);
                } else {
                    key.counter += 1;
                }
                key.input.entry(self.now).or_default().push(row.clone());
                key.accumulate(row);
                self.out.push((row.key, format!("{} {}", describe_row(row), key.values(self.frame))));
            }
            OverFrame::Range { preceding_ms } => {
                let rows = key.input.entry(self.now).or_default();
                rows.push(row.clone());
                if rows.len() == 1 {
                    key.timers.insert(self.now + 1);
                    Self::register_range_cleanup(key, self.now, preceding_ms);
                }
            }
        }
    }

    /// Timers up to `until`, in order.
    fn fire(&mut self, until: i64) {
        loop {
            let first = |(number, key): (&Option<i64>, &Key)| Some((*key.timers.first()?, *number));
            let next = self.keys.iter().filter_map(first).min().filter(|(time, _)| *time <= until);
            let Some((time, number)) = next else { return };
            let mut key = self.keys.remove(&number).unwrap();
            key.timers.remove(&time);
            match (self.attribute, self.frame) {
                (TimeAttribute::Proctime, OverFrame::Range { preceding_ms }) => {
                    self.on_range_timer(&mut key, time, time - 1, preceding_ms);
                }
                (_, OverFrame::Range { preceding_ms }) => self.on_range_timer(&mut key, time, time, preceding_ms),
                (_, OverFrame::Rows { preceding }) => self.on_rows_timer(&mut key, time, preceding + 1),
                (_, OverFrame::UnboundedRows) => self.on_unbounded_timer(&mut key, time, true),
                (_, OverFrame::UnboundedRange) => self.on_unbounded_timer(&mut key, time, false),
            }
            self.keys.insert(number, key);
        }
    }

    fn emit(&mut self, row: &Row, values: &str) {
        self.out.push((row.key, format!("{} {values}", describe_row(row))));
    }

    fn on_unbounded_timer(&mut self, key: &mut Key, time: i64, rows_window: bool) {
        let rows = key.input.remove(&time).unwrap_or_default();
        if rows_window {
            for row in &rows {
                key.accumulate(row);
                self.emit(row, &key.values(self.frame));
            }
        } else {
            rows.iter().for_each(|row| key.accumulate(row));
            rows.iter().for_each(|row| self.emit(row, &key.values(self.frame)));
        }
        self.register_cleanup(key);
    }

    fn on_rows_timer(&mut self, key: &mut Key, time: i64, offset: i64) {
        for row in key.input.get(&time).cloned().unwrap_or_default() {
            if key.counter >= offset {
                let first = *key.input.keys().next().unwrap();
                let rows = key.input.get_mut(&first).unwrap();
                let oldest = rows.remove(0);
                if rows.is_empty() {
                    key.input.remove(&first);
                }
                key.retract(&oldest);
            } else {
                key.counter += 1;
            }
            key.accumulate(&row);
            self.emit(&row, &key.values(self.frame));
        }
        key.last_triggering = Some(time);
        self.register_cleanup(key);
    }

    fn on_range_timer(&mut self, key: &mut Key, time: i64, of_rows: i64, preceding: i64) {
        if key.cleanup.is_some_and(|cleanup| cleanup <= time) {
            let timers = std::mem::take(&mut key.timers);
            *key = Key { timers, ..Key::default() };
            return;
        }
        if let Some(rows) = key.input.get(&of_rows).cloned() {
            let old: Vec<i64> = key.input.keys().copied().filter(|old| of_rows - old > preceding).collect();
            for old in old {
                for row in key.input.remove(&old).unwrap() {
                    key.retract(&row);
                }
            }
            rows.iter().for_each(|row| key.accumulate(row));
            rows.iter().for_each(|row| self.emit(row, &key.values(self.frame)));
        }
        if self.attribute == TimeAttribute::Rowtime {
            key.last_triggering = Some(time);
        }
    }
}
