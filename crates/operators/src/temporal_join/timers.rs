//! When keys have something to do: by event time, and by the clock when their state has been idle for too long.
//!
//! A key has one event timer that it knows of. Where idle state is cleaned up, Flink forgets that timer without deleting it: it *strays*, and
//! fires all the same, which may let old versions go earlier. So stray timers are kept too, in state. A heap of all timers
//! says which is the next; a timer in it that the state does not have any more was deleted.
//!
//! Follows: TemporalRowTimeJoinOperator (registeredTimer), BaseTwoInputStreamOperatorWithStateRetention, Flink 2.2.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use streamfusion_state::codec::Nullable;
use streamfusion_state::{ColumnId, KeyedTable};

use crate::OperatorError;

/// How long idle state lives, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Retention {
    min_ms: i64,
    max_ms: i64,
}

impl Retention {
    /// `None` where state is never cleaned up.
    pub(super) fn new(min_ms: i64) -> Option<Self> {
        (min_ms > 1).then(|| Self { min_ms, max_ms: min_ms.wrapping_mul(3) / 2 })
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Timers {
    registered: ColumnId<Option<i64>>,
    stray: ColumnId<Option<Arc<[u8]>>>,
    clean_up: ColumnId<Option<i64>>,
    retention: Option<Retention>,
    /// By event time: when, and the slot.
    due: BinaryHeap<Reverse<(i64, u32)>>,
    /// By the clock.
    idle: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Timers {
    /// No timers, in a table without keys.
    pub(super) fn new(retention: Option<Retention>, table: &mut KeyedTable) -> Self {
        let column = |table: &mut KeyedTable, name: &str| {
            table.add_column(name, None, Nullable::<i64>::new("", DataType::Int64), None)
        };
        Self {
            registered: column(table, "timer"),
            stray: table.add_column("stray_timers", None, Nullable::<Arc<[u8]>>::new("", DataType::Binary), None),
            clean_up: column(table, "clean_up"),
            retention,
            due: BinaryHeap::new(),
            idle: BinaryHeap::new(),
        }
    }

    /// Whether idle state is cleaned up.
    pub(super) fn cleans_up(&self) -> bool {
        self.retention.is_some()
    }

    /// Takes the timers of a slot that was restored.
    pub(super) fn restored(&mut self, table: &mut KeyedTable, slot: u32) -> Result<(), OperatorError> {
        let registered = *table.column(self.registered)?.get(slot);
        let strays = self.strays(table, slot)?;
        self.due.extend(registered.into_iter().chain(strays).map(|due| Reverse((due, slot))));
        self.idle.extend(table.column(self.clean_up)?.get(slot).map(|due| Reverse((due, slot))));
        Ok(())
    }

    fn strays(&self, table: &mut KeyedTable, slot: u32) -> Result<Vec<i64>, OperatorError> {
        let bytes = table.column(self.stray)?.get(slot);
        let (times, _) = bytes.as_deref().unwrap_or_default().as_chunks::<8>();
        Ok(times.iter().map(|time| i64::from_le_bytes(*time)).collect())
    }

    fn set_strays(&self, table: &mut KeyedTable, slot: u32, times: &[i64]) -> Result<(), OperatorError> {
        let bytes: Option<Arc<[u8]>> =
            (!times.is_empty()).then(|| times.iter().flat_map(|time| time.to_le_bytes()).collect());
        table.column(self.stray)?.set(slot, bytes);
        Ok(())
    }

    /// Has the slot fire at `time`, unless it does earlier.
    pub(super) fn register_smallest(
        &mut self,
        table: &mut KeyedTable,
        slot: u32,
        time: i64,
    ) -> Result<(), OperatorError> {
        match *table.column(self.registered)?.get(slot) {
            Some(registered) if registered <= time => Ok(()),
            _ => self.register(table, slot, time),
        }
    }

    /// Has the slot fire at `time`, in place of when it did.
    pub(super) fn register(&mut self, table: &mut KeyedTable, slot: u32, time: i64) -> Result<(), OperatorError> {
        table.column(self.registered)?.set(slot, Some(time));
        if self.cleans_up() {
            let mut strays = self.strays(table, slot)?;
            if let Some(place) = strays.iter().position(|stray| *stray == time) {
                // there is one timer of a time
                strays.swap_remove(place);
                self.set_strays(table, slot, &strays)?;
            }
        }
        self.due.push(Reverse((time, slot)));
        Ok(())
    }

    /// The next slot that fires, in order of time, if it is due. What it has registered is forgotten.
    pub(super) fn next_due(&mut self, table: &mut KeyedTable, until: i64) -> Result<Option<u32>, OperatorError> {
        while let Some(Reverse((due, slot))) = self.due.peek().copied().filter(|timer| timer.0.0 <= until) {
            self.due.pop();
            let registered = *table.column(self.registered)?.get(slot);
            if registered == Some(due) {
                table.column(self.registered)?.set(slot, None);
                return Ok(Some(slot));
            }
            if !self.cleans_up() {
                continue;
            }
            let mut strays = self.strays(table, slot)?;
            if let Some(place) = strays.iter().position(|stray| *stray == due) {
                strays.swap_remove(place);
                strays.extend(registered);
                self.set_strays(table, slot, &strays)?;
                table.column(self.registered)?.set(slot, None);
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Notes that the state of a slot was used.
    pub(super) fn used(&mut self, table: &mut KeyedTable, slot: u32, now: i64) -> Result<(), OperatorError> {
        let Some(Retention { min_ms, max_ms }) = self.retention else { return Ok(()) };
        let clean_up = table.column(self.clean_up)?;
        if clean_up.get(slot).is_none_or(|due| now.wrapping_add(min_ms) > due) {
            let due = now.wrapping_add(max_ms);
            clean_up.set(slot, Some(due));
            self.idle.push(Reverse((due, slot)));
        }
        Ok(())
    }

    /// The state of a slot is empty: it need not be cleaned up.
    pub(super) fn unused(&self, table: &mut KeyedTable, slot: u32) -> Result<(), OperatorError> {
        table.column(self.clean_up)?.set(slot, None);
        Ok(())
    }

    /// The next slot whose state has been idle for too long. Its timer strays.
    pub(super) fn next_idle(&mut self, table: &mut KeyedTable, now: i64) -> Result<Option<u32>, OperatorError> {
        while let Some(Reverse((due, slot))) = self.idle.peek().copied().filter(|timer| timer.0.0 <= now) {
            self.idle.pop();
            if *table.column(self.clean_up)?.get(slot) != Some(due) {
                continue;
            }
            table.column(self.clean_up)?.set(slot, None);
            let registered = *table.column(self.registered)?.get(slot);
            if registered.is_some() {
                let mut strays = self.strays(table, slot)?;
                strays.extend(registered);
                self.set_strays(table, slot, &strays)?;
                table.column(self.registered)?.set(slot, None);
            }
            return Ok(Some(slot));
        }
        Ok(None)
    }

    /// When, by the clock, state may have been idle for too long; the largest number if never yet.
    pub(super) fn first_idle(&self) -> Option<i64> {
        self.cleans_up().then(|| self.idle.peek().map_or(i64::MAX, |timer| timer.0.0))
    }

    /// Whether a slot has no timer.
    pub(super) fn are_none(&self, table: &mut KeyedTable, slot: u32) -> Result<bool, OperatorError> {
        Ok(table.column(self.registered)?.get(slot).is_none()
            && table.column(self.clean_up)?.get(slot).is_none()
            && table.column(self.stray)?.get(slot).is_none())
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        (self.due.capacity() + self.idle.capacity()) * size_of::<(i64, u32)>()
    }
}
