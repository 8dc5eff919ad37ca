//! Cleanup of bounded RANGE windows: when a key's last row is so old that no later row can have it in its frame, all of the key goes.
//!
//! Flink has a timer for it that is not moved, only followed by a later one. By row time the timers that are overtaken make a
//! difference: when one fires, rows of the key up to its time are late from then on. So they are part of the state.
//!
//! Follows: RowTimeRangeBoundedPrecedingFunction, ProcTimeRangeBoundedPrecedingFunction, Flink 2.2. Differences: none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arrow::datatypes::DataType;
use streamfusion_state::codec::{Nullable, Required};
use streamfusion_state::{ColumnId, Entries, EntriesId, EntryTable, KeyedTable, StateError};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct RangeCleanup {
    preceding: i64,
    times: ColumnId<Option<i64>>,
    timers: EntriesId<Timers>,
    /// Time, slot and position of the timers.
    queue: BinaryHeap<Reverse<(i64, u32, u32)>>,
}

/// A timer that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) slot: u32,
    pub(super) time: i64,
    /// Whether it is the last one of its key, with which the key goes.
    pub(super) is_last: bool,
}

impl RangeCleanup {
    /// For a window of so many milliseconds. Registers with `table` what is kept.
    pub(super) fn new(preceding: i64, table: &mut KeyedTable) -> Self {
        let times = table.add_column("cleanup_time", None, Nullable::new("", DataType::Int64), None);
        let entries = Timers { entries: EntryTable::new(table.key_groups(), 0), restored: Vec::new() };
        let timers = table.add_entries("cleanup_timers", None, Required::new("time", DataType::Int64), entries);
        Self { preceding, times, timers, queue: BinaryHeap::new() }
    }

    /// A row of this time came for each of these slots.
    pub(super) fn register(
        &mut self,
        table: &mut KeyedTable,
        rows: impl Iterator<Item = (u32, i64)>,
    ) -> Result<(), StateError> {
        let half_more = (self.preceding as f64 * 1.5) as i64; // as in Java
        for (slot, time) in rows {
            let times = table.column(self.times)?;
            let earliest = time.wrapping_add(self.preceding).wrapping_add(1);
            if times.get(slot).is_none_or(|cleanup| cleanup < earliest) {
                let cleanup = time.wrapping_add(half_more).wrapping_add(1);
                times.set(slot, Some(cleanup));
                let (timers, slots) = table.entries(self.timers)?;
                let position = timers.entries.add(slots, slot, cleanup)?;
                self.queue.push(Reverse((cleanup, slot, position)));
                table.mark(slot);
            }
        }
        Ok(())
    }

    /// When the next timer is due.
    pub(super) fn timer(&self) -> Option<i64> {
        self.queue.peek().map(|Reverse((time, ..))| *time)
    }

    /// Takes the next timer up to `until`. The key of the last timer of a key has to be removed.
    pub(super) fn due(&mut self, table: &mut KeyedTable, until: i64) -> Result<Option<Due>, StateError> {
        while let Some(Reverse((time, slot, position))) =
            self.queue.peek().copied().filter(|Reverse(next)| next.0 <= until)
        {
            self.queue.pop();
            let (timers, _) = table.entries(self.timers)?;
            // that of a key that is gone is gone with it
            if timers.entries.get_of(position, slot) == Some(&time) {
                timers.remove(position);
                table.mark(slot);
                let cleanup = *table.column(self.times)?.get(slot);
                return Ok(Some(Due { slot, time, is_last: cleanup.is_some_and(|cleanup| cleanup <= time) }));
            }
        }
        Ok(None)
    }

    /// Makes the queue of what was restored.
    pub(super) fn restore(&mut self, table: &mut KeyedTable) -> Result<(), StateError> {
        let (timers, _) = table.entries(self.timers)?;
        self.queue.extend(timers.restored.drain(..).map(Reverse));
        Ok(())
    }

    /// Bytes taken beside the table.
    pub(super) fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Reverse<(i64, u32, u32)>>()
    }
}

/// Times for which there are timers.
#[derive(Debug)]
struct Timers {
    entries: EntryTable<i64>,
    /// Those that are not in the queue yet.
    restored: Vec<(i64, u32, u32)>,
}

impl Entries for Timers {
    type Entry = i64;

    fn table(&self) -> &EntryTable<i64> {
        &self.entries
    }

    fn table_mut(&mut self) -> &mut EntryTable<i64> {
        &mut self.entries
    }

    fn index(&mut self, position: u32) -> bool {
        self.restored.push((*self.entries.get(position), self.entries.slot(position), position));
        true
    }

    fn unindex(&mut self, _position: u32) {}

    fn index_bytes(&self) -> usize {
        self.restored.capacity() * size_of::<(i64, u32, u32)>()
    }
}
