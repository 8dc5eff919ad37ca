//! The open windows of all keys: which one each row of a batch belongs to, and which are due.
//!
//! A batch is taken in *runs*: rows between which no two windows become one, so that they can be accumulated call by call. Inside
//! a run, windows are numbered in first-touch order; new ones get their slots at its end, all at once.
//!
//! Keys are looked up once per row, in a table of their own that has just those with open windows. The window of a row is found there, so
//! that the state is asked only for new ones. The namespace of a window is the start that it had at first, which no other window of the
//! key has.
//!
//! Everything here is made anew from the state at a restore: there lies, per key and window, where the window began and ends.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use streamfusion_state::{ColumnId, KeyedTable, StateContext, Touched};

use super::clock::Clock;
use super::sessions::{Ended, Outcome, Session, Sessions};
use super::timers::Timers;
use crate::OperatorError;
use crate::keys::Keys;
use crate::window::TimeWindow;

/// So many keys may be kept without windows in any case.
const KEPT_KEYS: usize = 1024;
/// Slots whose windows are made anew at a time.
const RESTORED_SLOTS: usize = 8192;

/// The columns of a window in the state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) start: ColumnId<i64>,
    pub(super) end: ColumnId<i64>,
}

/// A window that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) window: TimeWindow,
    pub(super) slot: u32,
}

/// Two windows that became one, by their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Merge {
    /// The one that stays.
    pub(super) into: u32,
    /// The one that is gone.
    pub(super) from: u32,
}

/// Rows of a batch with their windows.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Per row that is not late the number of its window; per number the slot of the window.
    pub(super) windows: Touched,
    /// The rows that are late.
    pub(super) late: Vec<usize>,
    /// The row behind the run.
    pub(super) end: usize,
    /// Per number the slot of its key.
    keys: Vec<u32>,
    opened: Vec<Opened>,
    /// Scratch: slots of windows, and where these end.
    ends: Vec<(u32, i64)>,
}

/// A window that a row of the run opened.
#[derive(Debug, Clone, Copy)]
struct Opened {
    number: u32,
    row: u32,
    namespace: i64,
}

/// Where a row made one window of two.
#[derive(Debug, Clone, Copy)]
struct Merged {
    key: u32,
    into: usize,
    from: Session,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct OpenWindows {
    keys: KeyedTable,
    touched: Touched,
    /// Per slot of `keys`.
    windows: Vec<Sessions>,
    /// Per slot of the state the slot of its key.
    owners: Vec<u32>,
    /// How many keys have windows. The others may come again.
    active: usize,
    timers: Timers,
    /// Scratch.
    due: Vec<(i64, u32)>,
    run: Run,
    merged: Option<Merged>,
    loaded: Touched,
}

impl OpenWindows {
    pub(super) fn new(keys: &Keys, context: &StateContext) -> Self {
        Self {
            keys: KeyedTable::new("keys", keys.layout(), None, context),
            touched: Touched::default(),
            windows: Vec::new(),
            owners: Vec::new(),
            active: 0,
            timers: Timers::default(),
            due: Vec::new(),
            run: Run::default(),
            merged: None,
            loaded: Touched::default(),
        }
    }

    /// Begins a batch: finds the keys of its rows.
    pub(super) fn begin_batch(
        &mut self,
        keys: &mut Keys,
        columns: &[ArrayRef],
        num_rows: usize,
    ) -> Result<(), OperatorError> {
        keys.load(columns, num_rows, &mut self.keys, &mut self.touched)?;
        self.grow();
        Ok(())
    }

    fn grow(&mut self) {
        let most = self.touched.slots.iter().max().map_or(0, |slot| *slot as usize + 1);
        if self.windows.len() < most {
            self.windows.resize_with(most, Sessions::default);
        }
    }

    /// Takes rows of the batch from `first` on, as far as a run goes; `add` finds the window of a row among those of its key.
    pub(super) fn take_run(
        &mut self,
        mut first: usize,
        mut add: impl FnMut(&mut Sessions, usize) -> Result<Outcome, Ended>,
    ) -> Result<(), Ended> {
        let Self { touched, windows, run, merged, active, .. } = self;
        run.windows.groups.clear();
        run.windows.slots.clear();
        run.late.clear();
        run.keys.clear();
        run.opened.clear();
        run.end = touched.groups.len();
        if let Some(Merged { key, into, .. }) = merged.take()
            && let Some(session) = windows[key as usize].as_mut_slice().get_mut(into)
        {
            run.number(session, key, first);
            first += 1;
        }
        for (row, group) in touched.groups.iter().enumerate().skip(first) {
            let key = touched.slots[*group as usize];
            let sessions = &mut windows[key as usize];
            match add(sessions, row)? {
                Outcome::Joined(place) => run.number(&mut sessions.as_mut_slice()[place], key, row),
                Outcome::Opened(place) => {
                    let of_key = sessions.as_mut_slice();
                    *active += usize::from(of_key.len() == 1);
                    run.number(&mut of_key[place], key, row);
                }
                Outcome::Late => run.late.push(row),
                Outcome::Merged { into, from } => {
                    *merged = Some(Merged { key, into, from });
                    run.end = row;
                    break;
                }
            }
        }
        Ok(())
    }

    /// The rows of the run and their windows, which all have slots now. `columns` are the key columns of the batch.
    pub(super) fn load_run(
        &mut self,
        keys: &mut Keys,
        columns: &[ArrayRef],
        table: &mut KeyedTable,
    ) -> Result<&mut Run, OperatorError> {
        let Self { windows, owners, run, loaded, .. } = self;
        if run.opened.is_empty() {
            return Ok(run);
        }
        let rows = UInt32Array::from_iter_values(run.opened.iter().map(|opened| opened.row));
        let columns = columns.iter().map(|column| take(column, &rows, None)).collect::<Result<Vec<_>, _>>()?;
        let namespaces: Vec<i64> = run.opened.iter().map(|opened| opened.namespace).collect();
        keys.load_in(&columns, &namespaces, table, loaded)?;
        let most = loaded.slots.iter().max().map_or(0, |slot| *slot as usize + 1);
        if owners.len() < most {
            owners.resize(most, Session::NONE);
        }
        for (opened, group) in run.opened.iter().zip(&loaded.groups) {
            let (slot, key) = (loaded.slots[*group as usize], run.keys[opened.number as usize]);
            run.windows.slots[opened.number as usize] = slot;
            owners[slot as usize] = key;
            let sessions = windows[key as usize].as_mut_slice();
            if let Some(session) = sessions.iter_mut().find(|session| session.number == opened.number) {
                session.slot = slot;
            }
        }
        Ok(run)
    }

    /// What ended the run, where that was not the end of the batch.
    pub(super) fn merge(&self) -> Option<Merge> {
        let Merged { key, into, from } = self.merged?;
        let into = self.windows[key as usize].as_slice().get(into)?.slot;
        let from = if from.slot == Session::NONE { self.run.windows.slots[from.number as usize] } else { from.slot };
        Some(Merge { into, from })
    }

    /// Ends the run: writes the bounds of its windows, and sets their timers.
    pub(super) fn end_run(
        &mut self,
        bounds: Bounds,
        table: &mut KeyedTable,
        clock: &Clock,
    ) -> Result<(), OperatorError> {
        let Self { windows, run, timers, .. } = self;
        let starts = table.column(bounds.start)?;
        run.ends.clear();
        for (slot, key) in run.windows.slots.iter().zip(&run.keys) {
            let sessions = windows[*key as usize].as_mut_slice();
            let Some(session) = sessions.iter_mut().find(|session| session.slot == *slot) else { continue };
            session.number = Session::NONE;
            starts.set(*slot, session.window.start);
            run.ends.push((*slot, session.window.end));
            let timer = clock.timer(session.window);
            if timer < session.timer {
                session.timer = timer;
                timers.set(timer, *slot);
            }
        }
        let ends = table.column(bounds.end)?;
        run.ends.iter().for_each(|(slot, end)| ends.set(*slot, *end));
        Ok(())
    }

    /// Whether the rows of the batch behind the run are still to be taken.
    pub(super) fn is_cut(&self) -> bool {
        self.merged.is_some()
    }

    /// Ends a batch: keys all of whose rows were late have no windows.
    pub(super) fn end_batch(&mut self) -> Result<(), OperatorError> {
        self.forget_idle()
    }

    /// Forgets the windows that are due, and adds them to `due` in the order of their timers.
    pub(super) fn take_due(&mut self, progress: i64, clock: &Clock, due: &mut Vec<Due>) -> Result<(), OperatorError> {
        let Self { windows, owners, active, timers, due: taken, .. } = self;
        let mut fired = Vec::new();
        taken.clear();
        timers.take_due(progress, taken);
        for (time, slot) in taken.drain(..) {
            let Some(owner) = owners.get_mut(slot as usize).filter(|key| **key != Session::NONE) else { continue };
            let Some(sessions) = windows.get_mut(*owner as usize) else { continue };
            let found = sessions.as_mut_slice().iter_mut().find(|session| session.slot == slot);
            let Some(session) = found.filter(|session| session.timer == time) else { continue };
            let timer = clock.timer(session.window);
            if timer > progress {
                session.timer = timer;
                timers.set(timer, slot);
                continue;
            }
            fired.push((timer, Due { window: session.window, slot }));
            sessions.take(slot);
            *owner = Session::NONE;
            *active -= usize::from(sessions.is_empty());
        }
        fired.sort_unstable_by_key(|(timer, due)| (*timer, due.slot));
        due.extend(fired.into_iter().map(|(_, due)| due));
        self.forget_idle()
    }

    /// Forgets keys without windows, once they are more than the others: most come again before that.
    fn forget_idle(&mut self) -> Result<(), OperatorError> {
        let Self { keys, windows, active, .. } = self;
        if keys.len() > *active * 2 + KEPT_KEYS {
            let mut idle = Vec::with_capacity(keys.len() - *active);
            keys.for_each_slot(|key, _| {
                if windows.get(key as usize).is_none_or(Sessions::is_empty) {
                    idle.push(key);
                }
            });
            idle.into_iter().try_for_each(|key| keys.remove(key))?;
        }
        Ok(())
    }

    /// When there is something to do next.
    #[inline]
    pub(super) fn next_timer(&self) -> Option<i64> {
        self.timers.first()
    }

    /// Makes everything anew from the state.
    pub(super) fn restore(
        &mut self,
        keys: &mut Keys,
        bounds: Bounds,
        table: &mut KeyedTable,
        clock: &Clock,
    ) -> Result<(), OperatorError> {
        let mut slots = Vec::with_capacity(table.len());
        table.for_each_slot(|slot, _| slots.push(slot));
        let most = slots.iter().max().map_or(0, |slot| *slot as usize + 1);
        self.owners.resize(most, Session::NONE);
        for slots in slots.chunks(RESTORED_SLOTS) {
            let columns = keys.of_slots(table, slots)?;
            keys.load(&columns, slots.len(), &mut self.keys, &mut self.touched)?;
            self.grow();
            let starts: Vec<i64> = {
                let column = table.column(bounds.start)?;
                slots.iter().map(|slot| *column.get(*slot)).collect()
            };
            for ((slot, start), group) in slots.iter().zip(starts).zip(&self.touched.groups) {
                let key = self.touched.slots[*group as usize];
                let window = TimeWindow { start, end: *table.column(bounds.end)?.get(*slot) };
                let timer = clock.timer(window);
                let namespace = table.namespace(*slot);
                let session = Session { window, namespace, slot: *slot, number: Session::NONE, timer };
                self.active += usize::from(self.windows[key as usize].is_empty());
                self.windows[key as usize].restore(session);
                self.owners[*slot as usize] = key;
                self.timers.set(timer, *slot);
            }
        }
        Ok(())
    }

    /// Bytes taken, for so many windows.
    pub(super) fn bytes(&self, windows: usize) -> usize {
        let lists = windows.saturating_sub(self.keys.len()) * 2 * size_of::<Session>();
        self.keys.bytes()
            + self.windows.capacity() * size_of::<Sessions>()
            + lists
            + self.owners.capacity() * size_of::<u32>()
            + self.timers.bytes()
    }
}

impl Run {
    /// Numbers the window of a row.
    #[inline]
    fn number(&mut self, session: &mut Session, key: u32, row: usize) {
        if session.number == Session::NONE {
            // no more windows than rows, of which there are as many as fit into 31 bits
            session.number = self.windows.slots.len() as u32;
            self.windows.slots.push(session.slot);
            self.keys.push(key);
            if session.slot == Session::NONE {
                let (number, row) = (session.number, row as u32);
                self.opened.push(Opened { number, row, namespace: session.namespace });
            }
        }
        self.windows.groups.push(session.number);
    }
}
