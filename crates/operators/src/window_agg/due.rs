//! What happens when a window is due: its slices are put together, its rows go out, and what no later window needs is removed.

use arrow::array::ArrayRef;

use super::agg::{WAITS, WindowAgg};
use crate::group_agg::{Parts, take_rows};
use crate::window::WindowAssigner;
use crate::window::open::OpenWindows;
use crate::{OUTPUT_BATCH_ROWS, OperatorError};

impl WindowAgg {
    /// Fires the next keys of a window that is due; false if none is.
    pub(super) fn fire_next(&mut self) -> Result<bool, OperatorError> {
        let mut due = std::mem::take(&mut self.due);
        let window = self.windows.next_due_of_window(OUTPUT_BATCH_ROWS, &mut due);
        if let Some(end) = window {
            // a slot that was removed meanwhile may be another's by now
            let flags = self.table.column(self.flags)?;
            due.retain(|slot| flags.get(*slot) & WAITS != 0);
            due.retain(|slot| self.table.namespace(*slot) == end);
        }
        if let Some(end) = window.filter(|_| !due.is_empty()) {
            let keys = self.keys.of_slots(&self.table, &due)?;
            match self.slices.windows() {
                _ if !self.slices.is_shared() => self.fire_alone(end, keys, &due)?,
                WindowAssigner::Hopping { .. } => self.fire_hopping(end, keys, &due)?,
                _ => self.fire_cumulative(end, keys, &due)?,
            }
        }
        self.due = due;
        Ok(window.is_some())
    }

    /// A window that is its only slice.
    fn fire_alone(&mut self, end: i64, keys: Vec<ArrayRef>, slots: &[u32]) -> Result<(), OperatorError> {
        let values = self.aggregates.values(&mut self.table, slots)?;
        let counts = self.aggregates.counts(&mut self.table, slots)?;
        self.emit(end, keys, values, counts.as_deref(), slots.len())?;
        slots.iter().try_for_each(|slot| self.table.remove(*slot))?;
        Ok(())
    }

    /// A window whose slices are put together for the moment, from the last one to the first one.
    fn fire_hopping(&mut self, end: i64, keys: Vec<ArrayRef>, slots: &[u32]) -> Result<(), OperatorError> {
        let rows = slots.len();
        let older: Vec<Vec<Option<u32>>> = {
            let numbers: Vec<u32> = (0..).take(rows).collect();
            let encoded = self.keys.encode(&keys, rows)?;
            let mut namespaces = vec![0; rows];
            let mut find = |slice: i64| {
                namespaces.fill(slice);
                let mut found = Vec::with_capacity(rows);
                self.table.find_in(encoded, &namespaces, &numbers, &mut found)?;
                Ok::<_, OperatorError>(found)
            };
            self.slices.merged_slices(end).skip(1).map(&mut find).collect::<Result<_, _>>()?
        };
        let mut parts: Vec<u32> = Vec::with_capacity(rows * (older.len() + 1));
        let mut part_ends = Vec::with_capacity(rows);
        for (row, slot) in slots.iter().enumerate() {
            parts.push(*slot);
            parts.extend(older.iter().filter_map(|found| found.get(row).copied().flatten()));
            part_ends.push(parts.len());
        }
        let parts = Parts { slots: &parts, ends: &part_ends };
        let (values, counts) = self.aggregates.merged_values(&mut self.table, &parts)?;
        let missing = || OperatorError::Internal("the rows of a hopping window are not counted".to_owned());
        let counts = counts.ok_or_else(missing)?;

        self.stop_waiting(slots)?;
        match older.last() {
            None => slots.iter().try_for_each(|slot| self.table.remove(*slot))?,
            Some(first) => {
                let expired: Vec<u32> = first.iter().copied().flatten().collect();
                self.expire(&expired)?;
                // slots that were there for this window alone
                let flags = self.table.column(self.flags)?;
                let unfilled = slots.iter().copied().filter(|slot| !Self::is_filled(*flags.get(*slot)));
                let unfilled: Vec<u32> = unfilled.collect();
                unfilled.iter().try_for_each(|slot| self.table.remove(*slot))?;
            }
        }
        // the next window of a key is due, even if no row comes for it, as long as there is something in this one
        let alive: Vec<u32> = (0..).zip(&counts).filter(|(_, count)| **count != 0).map(|(row, _)| row).collect();
        if let Some(next) = self.slices.next_trigger_window(end, alive.is_empty()) {
            let keys_alive = if alive.len() == rows { keys.clone() } else { take_rows(&keys, &alive)? };
            self.wait_for(next, &keys_alive, alive.len())?;
        }
        self.emit(end, keys, values, Some(&counts), rows)
    }

    /// A window that begins with what the one before it came to, which is kept in its first slice.
    fn fire_cumulative(&mut self, end: i64, keys: Vec<ArrayRef>, slots: &[u32]) -> Result<(), OperatorError> {
        let rows = slots.len();
        let target = self.slices.late_target(end);
        let targets = if target == end {
            slots.to_vec()
        } else {
            self.keys.load_in(&keys, &vec![target; rows], &mut self.table, &mut self.touched)?;
            let targets = self.touched.slots.clone();
            self.aggregates.merge(&mut self.table, slots, &targets)?;
            self.table.commit(&targets);
            targets
        };
        let values = self.aggregates.values(&mut self.table, &targets)?;
        let counts = self.aggregates.counts(&mut self.table, &targets)?;
        self.stop_waiting(slots)?;
        if let Some(next) = self.slices.next_trigger_window(end, false) {
            self.wait_for(next, &keys, rows)?;
        }
        for expired in self.slices.expired_slices(end).into_iter().flatten() {
            self.expire(if expired == end { slots } else { &targets })?;
        }
        self.emit(end, keys, values, counts.as_deref(), rows)
    }

    /// Hands out the rows of a window, but for those of keys without rows.
    fn emit(
        &mut self,
        end: i64,
        keys: Vec<ArrayRef>,
        values: Vec<ArrayRef>,
        counts: Option<&[i64]>,
        rows: usize,
    ) -> Result<(), OperatorError> {
        let mut columns = keys;
        columns.extend(values);
        let mut emitted = rows;
        if let Some(counts) = counts.filter(|counts| counts.contains(&0)) {
            let kept: Vec<u32> = (0..).zip(counts).filter(|(_, count)| **count != 0).map(|(row, _)| row).collect();
            emitted = kept.len();
            columns = take_rows(&columns, &kept)?;
        }
        self.properties.append(end, emitted, &mut columns);
        self.ready.push(columns, emitted)
    }

    /// Forgets what is in slices. A window that ends with one and is still to fire fires without it: zones that change their time by
    /// another step than an hour let windows fire in another order than that of their ends.
    fn expire(&mut self, slots: &[u32]) -> Result<(), OperatorError> {
        let flags = self.table.column(self.flags)?;
        let waiting: Vec<u32> = slots.iter().copied().filter(|slot| flags.get(*slot) & WAITS != 0).collect();
        let keys = if waiting.is_empty() { Vec::new() } else { self.keys.of_slots(&self.table, &waiting)? };
        let end = waiting.first().map(|slot| self.table.namespace(*slot));
        slots.iter().try_for_each(|slot| self.table.remove(*slot))?;
        match end {
            Some(end) => self.wait_for(end, &keys, waiting.len()),
            None => Ok(()),
        }
    }

    fn stop_waiting(&mut self, slots: &[u32]) -> Result<(), OperatorError> {
        let flags = self.table.column(self.flags)?;
        slots.iter().for_each(|slot| flags.set(*slot, flags.get(*slot) & !WAITS));
        self.table.commit(slots);
        Ok(())
    }

    /// Lets the window with this end fire for some keys, whether or not rows come for it.
    fn wait_for(&mut self, end: i64, keys: &[ArrayRef], rows: usize) -> Result<(), OperatorError> {
        self.keys.load_in(keys, &vec![end; rows], &mut self.table, &mut self.touched)?;
        let slots = std::mem::take(&mut self.touched.slots);
        let flags = self.table.column(self.flags)?;
        let new: Vec<u32> = slots.iter().copied().filter(|slot| flags.get(*slot) & WAITS == 0).collect();
        new.iter().for_each(|slot| flags.set(*slot, flags.get(*slot) | WAITS));
        self.table.commit(&new);
        // also if it is due by now: it fires at once
        new.iter().for_each(|slot| self.windows.open(end, *slot));
        self.touched.slots = slots;
        Ok(())
    }

    /// Finds the windows that are to fire, after a restore.
    pub(super) fn reopen(&mut self) {
        let progress = self.windows.progress();
        let mut windows = OpenWindows::new(self.properties.zone.clone());
        windows.restore_progress(progress);
        let mut slots = Vec::new();
        self.table.for_each_slot(|slot, end| slots.push((slot, end)));
        if let Ok(flags) = self.table.column(self.flags) {
            slots.retain(|(slot, _)| flags.get(*slot) & WAITS != 0);
        }
        slots.into_iter().for_each(|(slot, end)| windows.open(end, slot));
        self.windows = windows;
    }
}
