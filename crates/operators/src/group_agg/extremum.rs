//! MIN and MAX.
//!
//! Without retractions a value is replaced where Flink's generated `<` or `>` holds: a NaN that came first stays, and -0.0
//! does not replace 0.0. With retractions Flink compares boxed values instead, where NaN is greatest and -0.0 is below
//! 0.0, and counts each value; a value that was retracted more often than accumulated has a negative count, yet may
//! become the result when the current one goes. Both are kept as they are.
//!
//! Follows: MinAggFunction, MaxAggFunction, MinWithRetractAggFunction, MaxWithRetractAggFunction, Flink 2.2. Differences:
//! the next value is found in a sorted map instead of by a walk over all values.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use arrow::datatypes::DataType;
use streamfusion_state::codec::{Codec, Mapped, Nullable, Required};
use streamfusion_state::{Entries, EntryTable, KeyedTable, Slots, StateError, Value as Stored};

use super::fold::{EntryFunction, Function, Place};
use super::native::Input;
use super::slot_maps::{SlotMaps, map_bytes};
use super::two_phase::Merge;
use super::value::Value;

/// Which end is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extremum {
    Min,
    Max,
}

impl Extremum {
    /// How a value compares with the current one when it replaces it.
    #[inline]
    fn better(self) -> Ordering {
        match self {
            Extremum::Min => Ordering::Less,
            Extremum::Max => Ordering::Greater,
        }
    }
}

/// MIN or MAX that ignores retractions: the input only inserts, or its values only ever move towards the extremum.
#[derive(Debug)]
pub(super) struct AppendExtremum<V> {
    pub(super) extremum: Extremum,
    pub(super) value: PhantomData<V>,
}

impl<V: Value> Function for AppendExtremum<V> {
    type Input = V::Input;
    type Output = V;
    type Accumulator = Option<V>;

    fn codec(&self, output: &DataType) -> impl Codec<Option<V>> {
        Nullable::new("value", output.clone())
    }

    fn create(&self) -> Option<V> {
        None
    }

    #[inline]
    fn accumulate(&self, current: &mut Option<V>, value: <V::Input as Input>::Item<'_>) {
        if current.as_ref().is_none_or(|current| V::is(value, self.extremum.better(), current)) {
            *current = Some(V::own(value));
        }
    }

    #[inline]
    fn retract(&self, _current: &mut Option<V>, _value: <V::Input as Input>::Item<'_>) {}

    #[inline]
    fn value(&self, current: &Option<V>) -> Option<V> {
        current.clone()
    }
}

/// MIN or MAX over rows that retract.
#[derive(Debug)]
pub(super) struct RetractExtremum<V> {
    pub(super) extremum: Extremum,
    pub(super) value: PhantomData<V>,
}

/// The current value, and how many values have a positive count.
#[derive(Debug, Clone)]
pub(super) struct Current<V> {
    pub(super) value: Option<V>,
    pub(super) positive: i64,
}

/// How often the values of one group are there.
pub(super) trait ValueCounts<V: Value> {
    /// Adds `change` to the count of a value and returns it; a count of 0 is not kept.
    fn add(&mut self, value: <V::Input as Input>::Item<'_>, change: i64) -> Result<i64, StateError>;

    /// The least or greatest value that is kept.
    fn best(&mut self, extremum: Extremum) -> Option<V>;
}

impl<V: Value> Current<V> {
    /// No values.
    pub(super) fn new() -> Self {
        Self { value: None, positive: 0 }
    }

    pub(super) fn result(&self) -> Option<V> {
        self.value.clone().filter(|_| self.positive > 0)
    }

    pub(super) fn accumulate(
        &mut self,
        extremum: Extremum,
        counts: &mut impl ValueCounts<V>,
        value: <V::Input as Input>::Item<'_>,
    ) -> Result<(), StateError> {
        let replaces = match &self.value {
            Some(other) => self.positive == 0 || V::compare(value, other) == extremum.better(),
            None => true,
        };
        if replaces {
            self.value = Some(V::own(value));
        }
        if counts.add(value, 1)? == 1 {
            self.positive = self.positive.wrapping_add(1);
        }
        Ok(())
    }

    pub(super) fn retract(
        &mut self,
        extremum: Extremum,
        counts: &mut impl ValueCounts<V>,
        value: <V::Input as Input>::Item<'_>,
    ) -> Result<(), StateError> {
        if counts.add(value, -1)? != 0 {
            return Ok(());
        }
        self.positive = self.positive.wrapping_sub(1);
        if self.positive == 0 {
            self.value = None;
        } else if self.is(value) {
            self.update(extremum, counts);
        }
        Ok(())
    }

    /// Begins to merge another accumulator: each of its entries comes next, then [`Current::end_merge`]. As in Flink its value is taken
    /// over before it is known whether it still counts.
    pub(super) fn begin_merge(&mut self, extremum: Extremum, value: Option<V>, positive: i64) {
        let better = match (&self.value, &value) {
            (Some(current), Some(other)) => positive > 0 && other.key().cmp(&current.key()) == extremum.better(),
            _ => false,
        };
        if self.positive == 0 || better {
            self.value = value;
        }
    }

    /// Merges an entry of the other accumulator. Whether the current value does not count any more.
    pub(super) fn merge_entry(
        &mut self,
        counts: &mut impl ValueCounts<V>,
        value: <V::Input as Input>::Item<'_>,
        count: i64,
    ) -> Result<bool, StateError> {
        let after = counts.add(value, count)?;
        Ok(self.counted(after.wrapping_sub(count), count, |current| V::compare(value, current).is_eq()))
    }

    /// Notes that a merge changed the count of a value, which was `before`. Whether that is the current one and does not count any more.
    fn counted(&mut self, before: i64, change: i64, is: impl FnOnce(&V) -> bool) -> bool {
        let after = before.wrapping_add(change);
        if after > 0 {
            self.positive = self.positive.wrapping_add(i64::from(before <= 0));
            return false;
        }
        if before <= 0 {
            return false;
        }
        self.positive = self.positive.wrapping_sub(1);
        self.value.as_ref().is_some_and(is)
    }

    /// Ends a merge in which the current value went, if `gone`.
    pub(super) fn end_merge(&mut self, extremum: Extremum, counts: &mut impl ValueCounts<V>, gone: bool) {
        if gone {
            self.update(extremum, counts);
        }
    }

    /// Whether a value is the current one.
    fn is(&self, value: <V::Input as Input>::Item<'_>) -> bool {
        self.value.as_ref().is_some_and(|current| V::compare(value, current).is_eq())
    }

    /// Looks for the next current value.
    fn update(&mut self, extremum: Extremum, counts: &mut impl ValueCounts<V>) {
        self.replace(counts.best(extremum));
    }

    /// The current value is none any more: this is the best of those that are left, also if it counts less than once. Those that count may have
    /// expired.
    fn replace(&mut self, best: Option<V>) {
        self.value = best;
        if self.value.is_none() {
            self.positive = 0;
        }
    }
}

impl<V: Value> Stored for Current<V> {
    fn heap_bytes(&self) -> usize {
        self.value.heap_bytes()
    }
}

/// The counts that are not 0, by value, and per group in order.
#[derive(Debug)]
pub(super) struct SortedCounts<V: Value> {
    counts: EntryTable<(V, i64)>,
    /// Per slot: positions by value.
    sorted: SlotMaps<BTreeMap<V::Key, u32>>,
}

impl<V: Value> Entries for SortedCounts<V> {
    type Entry = (V, i64);

    fn table(&self) -> &EntryTable<(V, i64)> {
        &self.counts
    }

    fn table_mut(&mut self) -> &mut EntryTable<(V, i64)> {
        &mut self.counts
    }

    fn index(&mut self, position: u32) -> bool {
        let (value, count) = self.counts.get(position);
        let (key, count) = (value.key(), *count);
        let sorted = self.sorted.filled(self.counts.slot(position));
        count != 0 && sorted.insert(key, position).is_none()
    }

    fn unindex(&mut self, position: u32) {
        let key = self.counts.get(position).0.key();
        let slot = self.counts.slot(position);
        let sorted = self.sorted.of(slot);
        sorted.remove(&key);
        if sorted.is_empty() {
            self.sorted.empty(slot);
        }
    }

    fn index_bytes(&self) -> usize {
        self.sorted.bytes() + map_bytes::<V::Key, u32>(self.sorted.len(), self.counts.len())
    }
}

impl<V: Value> SortedCounts<V> {
    /// No counts, for groups of `table`.
    pub(super) fn new(table: &KeyedTable) -> Self {
        Self { counts: EntryTable::new(table.key_groups(), (V::nothing(), 0)), sorted: SlotMaps::default() }
    }

    /// Adds `change` to the count of `value` in a slot and returns what it was before; a count of 0 is not kept.
    fn add_count(&mut self, slots: &Slots, slot: u32, value: &V, change: i64) -> Result<i64, StateError> {
        let Some(position) = self.sorted.of(slot).get(&value.key()).copied() else {
            let position = self.counts.add(slots, slot, (value.clone(), change))?;
            self.index(position);
            return Ok(0);
        };
        let count = &mut self.counts.get_mut(position).1;
        let before = *count;
        *count = before.wrapping_add(change);
        if *count == 0 {
            self.remove(position);
        }
        Ok(before)
    }
}

impl<V: Value> ValueCounts<V> for Place<'_, SortedCounts<V>> {
    fn add(&mut self, value: <V::Input as Input>::Item<'_>, change: i64) -> Result<i64, StateError> {
        let Place { entries, slots, slot } = self;
        let Some(position) = V::find(entries.sorted.of(*slot), value).copied() else {
            let position = entries.counts.add(slots, *slot, (V::own(value), change))?;
            entries.index(position);
            return Ok(change);
        };
        let expired = entries.counts.expired(position);
        let count = &mut entries.counts.get_mut(position).1;
        *count = if expired { change } else { count.wrapping_add(change) };
        let count = *count;
        entries.counts.touch(position);
        if count == 0 {
            entries.remove(position);
        }
        Ok(count)
    }

    fn best(&mut self, extremum: Extremum) -> Option<V> {
        loop {
            let sorted = self.entries.sorted.of(self.slot);
            let best = match extremum {
                Extremum::Min => sorted.first_key_value(),
                Extremum::Max => sorted.last_key_value(),
            };
            let (key, position) = best?;
            let position = *position;
            if !self.entries.counts.expired(position) {
                return Some(V::of_key(key));
            }
            self.entries.remove(position);
        }
    }
}

impl<V: Value> EntryFunction for RetractExtremum<V> {
    type Input = V::Input;
    type Output = V;
    type Accumulator = Current<V>;
    type Entries = SortedCounts<V>;

    fn codec(&self, output: &DataType) -> impl Codec<Current<V>> {
        let columns = (Nullable::new("value", output.clone()), Required::new("positive", DataType::Int64));
        let parts = |current: &Current<V>| (current.value.clone(), current.positive);
        Mapped::new(columns, parts, |(value, positive)| match value {
            None if positive > 0 => Err("values that count, of which none is the current one"),
            value => Ok(Current { value, positive }),
        })
    }

    fn entry_codec(&self, output: &DataType) -> impl Codec<(V, i64)> {
        (Required::new("value", output.clone()), Required::new("count", DataType::Int64))
    }

    fn entries(&self, table: &KeyedTable) -> SortedCounts<V> {
        SortedCounts::new(table)
    }

    fn create(&self) -> Current<V> {
        Current::new()
    }

    fn accumulate(
        &self,
        current: &mut Current<V>,
        mut place: Place<'_, SortedCounts<V>>,
        value: <V::Input as Input>::Item<'_>,
    ) -> Result<(), StateError> {
        current.accumulate(self.extremum, &mut place, value)
    }

    fn retract(
        &self,
        current: &mut Current<V>,
        mut place: Place<'_, SortedCounts<V>>,
        value: <V::Input as Input>::Item<'_>,
    ) -> Result<(), StateError> {
        current.retract(self.extremum, &mut place, value)
    }

    fn value(&self, current: &Current<V>) -> Option<V> {
        current.result()
    }

    fn merge(
        &self,
        current: &mut Current<V>,
        place: Place<'_, SortedCounts<V>>,
        other: &Current<V>,
        from: u32,
    ) -> Result<bool, StateError> {
        let Place { entries, slots, slot } = place;
        let counts: Vec<(V, i64)> =
            entries.counts.of_slot(from).map(|position| entries.counts.get(position).clone()).collect();
        current.begin_merge(self.extremum, other.value.clone(), other.positive);
        let mut gone = false;
        for (value, change) in counts {
            let before = entries.add_count(slots, slot, &value, change)?;
            gone |= current.counted(before, change, |current| current.key() == value.key());
        }
        current.end_merge(self.extremum, &mut Place { entries, slots, slot }, gone);
        Ok(true)
    }

    fn merged(&self, entries: &SortedCounts<V>, slots: &[u32], accumulators: &[Current<V>]) -> Option<Current<V>> {
        let mut current = self.create();
        let mut counts: BTreeMap<V::Key, i64> = BTreeMap::new();
        for (slot, other) in slots.iter().zip(accumulators) {
            current.begin_merge(self.extremum, other.value.clone(), other.positive);
            let mut gone = false;
            for position in entries.counts.of_slot(*slot) {
                let (value, change) = entries.counts.get(position);
                let count = counts.entry(value.key()).or_default();
                let before = *count;
                *count = before.wrapping_add(*change);
                if *count == 0 {
                    counts.remove(&value.key());
                }
                gone |= current.counted(before, *change, |current| current.key() == value.key());
            }
            if gone {
                let best = match self.extremum {
                    Extremum::Min => counts.first_key_value(),
                    Extremum::Max => counts.last_key_value(),
                };
                current.replace(best.map(|(key, _)| V::of_key(key)));
            }
        }
        Some(current)
    }
}

impl<V: Value> Merge for AppendExtremum<V> {
    #[inline]
    fn merge(&self, current: &mut Option<V>, other: &Option<V>) {
        let Some(other) = other else { return };
        if current.as_ref().is_none_or(|current| other.replaces(self.extremum.better(), current)) {
            *current = Some(other.clone());
        }
    }
}
