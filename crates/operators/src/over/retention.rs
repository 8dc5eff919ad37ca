//! State retention: keys that were not used for some time are cleaned up by the clock.
//!
//! A key has a cleanup time at most half a retention behind what is asked for, so that it is not moved with every row. Flink
//! keeps it in state and has a timer for it; here timers are a heap, made anew after a restore. A timer whose key has another
//! cleanup time by now counts for nothing.
//!
//! Follows: KeyedProcessFunctionWithCleanupState, CleanupState, Flink 2.2. Differences: the clock is read once per batch.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use arrow::datatypes::DataType;
use streamfusion_state::codec::Nullable;
use streamfusion_state::{ColumnId, KeyedTable, StateError};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Retention {
    min: i64,
    max: i64,
    times: ColumnId<Option<i64>>,
    timers: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Retention {
    /// The retention of a node, if it has one: Flink takes a millisecond for none. Registers with `table` what is kept.
    pub(super) fn of_millis(millis: i64, table: &mut KeyedTable) -> Option<Self> {
        if millis <= 1 {
            return None;
        }
        let times = table.add_column("cleanup_time", None, Nullable::new("", DataType::Int64), None);
        let max = millis.wrapping_mul(3).wrapping_div(2);
        Some(Self { min: millis, max, times, timers: BinaryHeap::new() })
    }

    /// The keys of these slots are used at `now`.
    pub(super) fn register(&mut self, table: &mut KeyedTable, slots: &[u32], now: i64) -> Result<(), StateError> {
        let times = table.column(self.times)?;
        let (last, next) = (now.wrapping_add(self.min), now.wrapping_add(self.max));
        let mut moved = Vec::new();
        for slot in slots {
            if times.get(*slot).is_none_or(|time| last > time) {
                times.set(*slot, Some(next));
                self.timers.push(Reverse((next, *slot)));
                moved.push(*slot);
            }
        }
        moved.into_iter().for_each(|slot| table.mark(slot));
        Ok(())
    }

    /// When the next key is to be cleaned up.
    pub(super) fn timer(&self) -> Option<i64> {
        self.timers.peek().map(|Reverse((time, _))| *time)
    }

    /// The slots whose cleanup time has come. Each has to be removed or [registered](Retention::register) anew.
    pub(super) fn due(&mut self, table: &mut KeyedTable, now: i64) -> Result<Vec<u32>, StateError> {
        let times = table.column(self.times)?;
        let mut due = Vec::new();
        while let Some(Reverse((time, slot))) = self.timers.peek().copied().filter(|Reverse((time, _))| *time <= now) {
            self.timers.pop();
            if *times.get(slot) == Some(time) {
                due.push(slot);
            }
        }
        due.dedup();
        Ok(due)
    }

    /// Makes the timers of all keys anew.
    pub(super) fn restore(&mut self, table: &mut KeyedTable) -> Result<(), StateError> {
        let mut slots = Vec::new();
        table.for_each_slot(|slot, _| slots.push(slot));
        let times = table.column(self.times)?;
        self.timers = slots.into_iter().filter_map(|slot| Some(Reverse(((*times.get(slot))?, slot)))).collect();
        Ok(())
    }

    /// Bytes taken beside the table.
    pub(super) fn bytes(&self) -> usize {
        self.timers.capacity() * size_of::<Reverse<(i64, u32)>>()
    }
}
