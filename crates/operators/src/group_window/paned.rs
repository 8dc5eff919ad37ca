//! HOP: rows are accumulated in panes, and what a window has is what its panes have, merged when it goes out.
//!
//! A pane is as long as the greatest common divisor of size and slide, so that each of its rows is in the same windows. Two tables, both
//! by key: panes by their start, with the accumulators, and windows that wait for their time, by theirs.
//!
//! A row is late if the last window of its pane is. Otherwise it is accumulated, and those of its windows that are not late wait, if they do
//! not already. A window that has gone out is late, so that what waits is settled with the first row of a pane: later rows have nothing to
//! add. A pane goes with its last window.
//!
//! Follows: PanedWindowProcessFunction, SlidingWindowAssigner, Flink 2.2. Differences: rows between windows that hop further than they are long
//! are not kept, which Flink does for ever; they show nowhere.

use std::collections::{BTreeMap, VecDeque};

use arrow::array::{ArrayRef, UInt32Array};
use streamfusion_plan::node::WindowProperty;
use streamfusion_plan::types::TimeDomain;
use streamfusion_row::Batch;
use streamfusion_state::canonical::Sections;
use streamfusion_state::{
    KeyedState, KeyedTable, RestoreError, StateContext, StateError, StateSnapshot, Store, TablePair, Touched,
};

use crate::group_agg::{Parts, SlotAggregates, take_rows};
use crate::keys::Keys;
use crate::unslicing::{Assigned, Clock, Spec, Windows, keep, property};
use crate::window::assigner::window_start;
use crate::window::{TimeWindow, WindowZone};
use crate::{OUTPUT_BATCH_ROWS, Operator, OperatorError, Residence};

/// Name of both tables together, and of those of windows and panes.
const TABLE: &str = "windows";
const PANES: &str = "panes";
const WAITING: &str = "waiting";

/// The lengths of windows in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    size: i64,
    slide: i64,
    pane: i64,
}

impl Lengths {
    fn window(self, start: i64) -> TimeWindow {
        TimeWindow { start, end: start.wrapping_add(self.size) }
    }

    /// The start of the last window that has the pane, if any has.
    fn last_window(self, pane: i64) -> i64 {
        window_start(pane, 0, self.slide)
    }

    /// The starts of the windows that have the pane, the last one first.
    fn windows(self, pane: i64) -> impl Iterator<Item = i64> {
        let last = self.last_window(pane);
        std::iter::successors(Some(last), move |start| Some(start.wrapping_sub(self.slide)))
            .take_while(move |start| *start > pane.wrapping_sub(self.size))
    }

    /// The starts of the panes of the window, the first one first.
    fn panes(self, window: i64) -> impl Iterator<Item = i64> {
        (0..self.size / self.pane).map(move |number| window.wrapping_add(number.wrapping_mul(self.pane)))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct PanedAgg {
    keys: Keys,
    state: TablePair,
    calls: SlotAggregates,
    lengths: Lengths,
    windows: Windows,
    domain: TimeDomain,
    properties: Vec<WindowProperty>,
    clock: Clock,
    assigned: Assigned,
    /// Per slot of a pane: whether its windows wait.
    settled: Vec<bool>,
    waiting: Waiting,
    touched: Touched,
    /// The windows that have fired, by their start.
    due: VecDeque<(i64, Vec<u32>)>,
    late: u64,
}

/// The windows that wait, by the time for which they do.
#[derive(Debug, Default)]
struct Waiting {
    /// Start and slots; the start comes second, as two windows may be due at once where a zone skips time.
    timers: BTreeMap<(i64, i64), Vec<u32>>,
    /// Per slot whether it is among them.
    known: Vec<bool>,
    /// Whether the state has windows that are not among them yet.
    restored: bool,
}

/// Windows that are to wait: the row of the batch that has the key, and the start.
#[derive(Debug, Default)]
struct Waits {
    rows: Vec<u32>,
    starts: Vec<i64>,
}

fn at(flags: &mut Vec<bool>, slot: u32) -> &mut bool {
    let place = slot as usize;
    if flags.len() <= place {
        flags.resize(place + 1, false);
    }
    &mut flags[place]
}

impl Waiting {
    fn add(&mut self, slot: u32, timer: i64, start: i64) {
        let known = at(&mut self.known, slot);
        if !std::mem::replace(known, true) {
            self.timers.entry((timer, start)).or_default().push(slot);
        }
    }

    fn bytes(&self) -> usize {
        let slots: usize = self.timers.values().map(|slots| slots.capacity() * size_of::<u32>()).sum();
        slots + self.timers.len() * size_of::<(i64, i64, Vec<u32>)>() + self.known.capacity()
    }
}

impl PanedAgg {
    /// An aggregate with empty state, whose panes are the windows of `spec`.
    pub(super) fn try_new(
        spec: &Spec<'_>,
        size: i64,
        slide: i64,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let Windows::Tumbling { size: pane, .. } = spec.windows else {
            return Err(OperatorError::Internal("panes that are no tumbling windows".to_owned()));
        };
        let keys = spec.keys().map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let mut panes = KeyedTable::namespaced(PANES, keys.layout(), None, context);
        let calls = SlotAggregates::try_new(&spec.slot_calls(), &mut panes)?;
        let waiting = KeyedTable::namespaced(WAITING, keys.layout(), None, context);
        Ok(Self {
            keys,
            state: TablePair::new(TABLE, panes, waiting),
            calls,
            lengths: Lengths { size, slide, pane },
            windows: spec.windows,
            domain: spec.domain,
            properties: spec.properties.to_vec(),
            clock: Clock::new(WindowZone::new(spec.zone), spec.rule),
            assigned: Assigned::default(),
            settled: Vec::new(),
            waiting: Waiting::default(),
            touched: Touched::default(),
            due: VecDeque::new(),
            late: 0,
        })
    }

    /// Takes over what was restored.
    fn refresh(&mut self) {
        if std::mem::take(&mut self.waiting.restored) {
            let Self { state, waiting, lengths, clock, .. } = self;
            state.right.for_each_slot(|slot, start| waiting.add(slot, clock.timer(lengths.window(start)), start));
        }
    }

    /// Accumulates the rows of a batch that are not late.
    fn accumulate(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        self.assigned.read(self.windows, batch, &self.clock)?;
        let columns = self.keys.columns(batch)?;
        let (mut panes, mut kept, mut waits) = (Vec::new(), Vec::new(), Waits::default());
        let mut last = None;
        for (time, row) in self.assigned.times().iter().zip(0_u32..) {
            let pane = window_start(*time, 0, self.lengths.pane);
            let fate = match last {
                Some((of, fate)) if of == pane => fate,
                _ => self.fate(pane),
            };
            last = Some((pane, fate));
            match fate {
                Fate::Kept => {
                    panes.push(pane);
                    kept.push(row);
                }
                Fate::Waits => self.open_windows(pane, row, &mut waits),
                Fate::Nowhere => {}
                Fate::Late => self.late += 1,
            }
        }
        if !panes.is_empty() {
            let (rows, columns) = match panes.len() == batch.num_rows() {
                true => (batch.clone(), columns.clone()),
                false => {
                    let rows = batch.take(&UInt32Array::from(kept.clone()))?;
                    let columns = self.keys.columns(&rows)?;
                    (rows, columns)
                }
            };
            self.keys.load_in(&columns, &panes, &mut self.state.left, self.calls.touched())?;
            let touched = self.calls.touched();
            let mut new = Vec::new();
            for ((group, pane), row) in touched.groups.iter().zip(&panes).zip(&kept) {
                let settled = at(&mut self.settled, touched.slots[*group as usize]);
                if !std::mem::replace(settled, true) {
                    new.push((*pane, *row));
                }
            }
            new.into_iter().for_each(|(pane, row)| self.open_windows(pane, row, &mut waits));
            self.calls.fold(&mut self.state.left, &rows)?;
            self.state.left.commit(&self.calls.touched().slots);
        }
        self.wait(&columns, &waits)
    }

    fn fate(&self, pane: i64) -> Fate {
        let last = self.lengths.window(self.lengths.last_window(pane));
        match (self.clock.has_ended(last), last.end <= pane) {
            (false, true) => Fate::Nowhere,
            (false, false) => Fate::Kept,
            (true, _) => {
                let mut windows = self.lengths.windows(pane);
                let waits = windows.any(|start| !self.clock.has_ended(self.lengths.window(start)));
                if waits { Fate::Waits } else { Fate::Late }
            }
        }
    }

    /// Adds the windows of a pane that have not ended to those that are to wait, for the key of a row.
    fn open_windows(&self, pane: i64, row: u32, waits: &mut Waits) {
        let open = |start: &i64| !self.clock.has_ended(self.lengths.window(*start));
        waits.starts.extend(self.lengths.windows(pane).filter(open));
        waits.rows.resize(waits.starts.len(), row);
    }

    /// Lets windows wait, if they do not already. `columns` are the key columns of the batch.
    fn wait(&mut self, columns: &[ArrayRef], waits: &Waits) -> Result<(), OperatorError> {
        let Waits { rows, starts } = waits;
        if rows.is_empty() {
            return Ok(());
        }
        let columns = take_rows(columns, rows)?;
        self.keys.load_in(&columns, starts, &mut self.state.right, &mut self.touched)?;
        self.state.right.commit(&self.touched.slots);
        for (group, start) in self.touched.groups.iter().zip(starts) {
            let slot = self.touched.slots[*group as usize];
            self.waiting.add(slot, self.clock.timer(self.lengths.window(*start)), *start);
        }
        Ok(())
    }

    fn fire(&mut self) {
        self.refresh();
        let progress = self.clock.progress(self.domain);
        while let Some(entry) = self.waiting.timers.first_entry() {
            let (timer, start) = *entry.key();
            if timer > progress {
                break;
            }
            self.due.push_back((start, entry.remove()));
        }
    }

    /// The next results of windows with this start, which are forgotten with that.
    fn hand_out(&mut self, start: i64, slots: &[u32]) -> Result<Option<Batch>, OperatorError> {
        let keys = self.keys.of_slots(&self.state.right, slots)?;
        let panes: Vec<i64> = self.lengths.panes(start).collect();
        let mut found = Vec::with_capacity(panes.len());
        // no more windows than slots, which are counted in 32 bits
        let rows: Vec<u32> = (0..slots.len() as u32).collect();
        for pane in &panes {
            let mut of_pane = Vec::with_capacity(slots.len());
            let namespaces = vec![*pane; slots.len()];
            let encoded = self.keys.encode(&keys, slots.len())?;
            self.state.left.find_in(encoded, &namespaces, &rows, &mut of_pane)?;
            found.push(of_pane);
        }
        let (mut merged, mut ends) = (Vec::new(), Vec::with_capacity(slots.len()));
        for window in 0..slots.len() {
            merged.extend(found.iter().filter_map(|of_pane| of_pane.get(window).copied().flatten()));
            ends.push(merged.len());
        }
        let parts = Parts { slots: &merged, ends: &ends };
        let (values, counts) = self.calls.merged_values(&mut self.state.left, &parts)?;
        let mut rows = rows;
        if let Some(counts) = counts {
            keep(&mut rows, &counts);
        }
        let batch = if rows.is_empty() {
            None
        } else {
            let mut columns = [keys, values].concat();
            if rows.len() < slots.len() {
                columns = take_rows(&columns, &rows)?;
            }
            let windows = vec![self.lengths.window(start); rows.len()];
            let properties = self.properties.iter().map(|of| property(*of, &windows, &self.clock.zone));
            columns.extend(properties);
            Some(Batch::try_new(columns, rows.len(), None)?)
        };
        for (pane, of_pane) in panes.iter().zip(found) {
            if self.lengths.last_window(*pane) == start {
                for slot in of_pane.into_iter().flatten() {
                    *at(&mut self.settled, slot) = false;
                    self.state.left.remove(slot)?;
                }
            }
        }
        for slot in slots {
            *at(&mut self.waiting.known, *slot) = false;
            self.state.right.remove(*slot)?;
        }
        Ok(batch)
    }
}

/// What becomes of the rows of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// They are accumulated.
    Kept,
    /// They come too late to be accumulated, yet windows of theirs go out: it takes a zone in which local times come up in another order
    /// than instants.
    Waits,
    /// They are in no window, but not late.
    Nowhere,
    /// They are late.
    Late,
}

impl KeyedState for PanedAgg {
    fn table(&self) -> &'static str {
        TABLE
    }

    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        self.state.snapshot()
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.waiting.restored = true;
        self.state.restore(sections)
    }

    fn bytes(&self) -> usize {
        self.state.bytes() + self.waiting.bytes() + self.settled.capacity()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        self.waiting.restored = true;
        KeyedState::attach(&mut self.state, store)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.state.write_back()
    }
}

impl Operator for PanedAgg {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let num_rows = batch.num_rows();
        if num_rows == 0 {
            return Ok(());
        }
        if i32::try_from(num_rows).is_err() {
            return Err(OperatorError::Input(format!("a batch of {num_rows} rows")));
        }
        self.refresh();
        self.accumulate(&batch)
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        while let Some((start, mut slots)) = self.due.pop_front() {
            let rest = slots.split_off(slots.len().min(OUTPUT_BATCH_ROWS));
            if !rest.is_empty() {
                self.due.push_front((start, rest));
            }
            if let Some(batch) = self.hand_out(start, &slots)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        if watermark_ms > self.clock.watermark {
            self.clock.watermark = watermark_ms;
            if self.domain == TimeDomain::Rowtime {
                self.fire();
            }
        }
        Ok(Some(self.clock.watermark))
    }

    fn timer(&self) -> Option<i64> {
        match self.domain {
            TimeDomain::Rowtime => None,
            // what was restored is looked at first
            TimeDomain::Proctime if self.waiting.restored => Some(0),
            TimeDomain::Proctime => {
                let first = self.waiting.timers.first_key_value();
                Some(first.map_or(i64::MAX, |((timer, _), _)| timer.saturating_add(1)))
            }
        }
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.clock.now = now_ms;
        if self.domain == TimeDomain::Proctime {
            self.fire();
        }
        Ok(None)
    }

    fn late_rows(&self) -> Option<u64> {
        Some(self.late)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }
}
