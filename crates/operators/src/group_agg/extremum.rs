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
    value: Option<V>,
    positive: i64,
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
    /// Adds `change` to the count of `value` and returns it; a count of 0 is not kept.
    fn count(place: Place<'_, Self>, value: <V::Input as Input>::Item<'_>, change: i64) -> Result<i64, StateError> {
        let Place { entries, slots, slot } = place;
        let Some(position) = V::find(entries.sorted.of(slot), value).copied() else {
            let position = entries.counts.add(slots, slot, (V::own(value), change))?;
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

    /// The least or greatest value of a slot.
    fn best(&mut self, slot: u32, extremum: Extremum) -> Option<V> {
        loop {
            let sorted = self.sorted.of(slot);
            let best = match extremum {
                Extremum::Min => sorted.first_key_value(),
                Extremum::Max => sorted.last_key_value(),
            };
            let (key, position) = best?;
            let position = *position;
            if !self.counts.expired(position) {
                return Some(V::of_key(key));
            }
            self.remove(position);
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
        SortedCounts { counts: EntryTable::new(table.key_groups(), (V::nothing(), 0)), sorted: SlotMaps::default() }
    }

    fn create(&self) -> Current<V> {
        Current { value: None, positive: 0 }
    }

    fn accumulate(
        &self,
        current: &mut Current<V>,
        place: Place<'_, SortedCounts<V>>,
        value: <V::Input as Input>::Item<'_>,
    ) -> Result<(), StateError> {
        let replaces = match &current.value {
            Some(other) => current.positive == 0 || V::compare(value, other) == self.extremum.better(),
            None => true,
        };
        if replaces {
            current.value = Some(V::own(value));
        }
        if SortedCounts::count(place, value, 1)? == 1 {
            current.positive = current.positive.wrapping_add(1);
        }
        Ok(())
    }

    fn retract(
        &self,
        current: &mut Current<V>,
        place: Place<'_, SortedCounts<V>>,
        value: <V::Input as Input>::Item<'_>,
    ) -> Result<(), StateError> {
        let Place { entries, slots, slot } = place;
        if SortedCounts::count(Place { entries: &mut *entries, slots, slot }, value, -1)? != 0 {
            return Ok(());
        }
        current.positive = current.positive.wrapping_sub(1);
        if current.positive == 0 {
            current.value = None;
        } else if current.value.as_ref().is_some_and(|current| V::compare(value, current).is_eq()) {
            current.value = entries.best(slot, self.extremum);
            if current.value.is_none() {
                current.positive = 0; // the values that count have expired
            }
        }
        Ok(())
    }

    fn value(&self, current: &Current<V>) -> Option<V> {
        current.value.clone().filter(|_| current.positive > 0)
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
        let mut merge = MergeCounts::begin(self.extremum, current, other);
        for (value, change) in counts {
            let before = entries.add_count(slots, slot, &value, change)?;
            merge.count(&value, before, change);
        }
        if merge.lost {
            let best = entries.best(slot, self.extremum);
            current.replace_lost(best);
        }
        Ok(true)
    }

    fn merged(&self, entries: &SortedCounts<V>, slots: &[u32], accumulators: &[Current<V>]) -> Option<Current<V>> {
        let mut current = self.create();
        let mut counts: BTreeMap<V::Key, i64> = BTreeMap::new();
        for (slot, other) in slots.iter().zip(accumulators) {
            let mut merge = MergeCounts::begin(self.extremum, &mut current, other);
            for position in entries.counts.of_slot(*slot) {
                let (value, change) = entries.counts.get(position);
                let count = counts.entry(value.key()).or_default();
                let before = *count;
                *count = before.wrapping_add(*change);
                if *count == 0 {
                    counts.remove(&value.key());
                }
                merge.count(value, before, *change);
            }
            if merge.lost {
                let best = match self.extremum {
                    Extremum::Min => counts.first_key_value(),
                    Extremum::Max => counts.last_key_value(),
                };
                current.replace_lost(best.map(|(key, _)| V::of_key(key)));
            }
        }
        Some(current)
    }
}

impl<V> Current<V> {
    /// The current value is none any more: this is the best of those that are left, also if it counts less than once.
    fn replace_lost(&mut self, best: Option<V>) {
        self.value = best;
        if self.value.is_none() {
            self.positive = 0;
        }
    }
}

/// Merges another current value and the counts that go with it. As in Flink the other value is taken over before it is known
/// whether it still counts.
struct MergeCounts<'a, V> {
    current: &'a mut Current<V>,
    /// Whether the current value does not count any more.
    lost: bool,
}

impl<'a, V: Value> MergeCounts<'a, V> {
    fn begin(extremum: Extremum, current: &'a mut Current<V>, other: &Current<V>) -> Self {
        let better = match (&other.value, &current.value) {
            (Some(other_value), Some(value)) if other.positive > 0 => {
                other_value.key().cmp(&value.key()) == extremum.better()
            }
            _ => false,
        };
        if current.positive == 0 || better {
            current.value.clone_from(&other.value);
        }
        Self { current, lost: false }
    }

    /// Notes that the count of a value, which was `before`, has changed.
    fn count(&mut self, value: &V, before: i64, change: i64) {
        let after = before.wrapping_add(change);
        if after > 0 {
            if before <= 0 {
                self.current.positive = self.current.positive.wrapping_add(1);
            }
        } else if before > 0 {
            self.current.positive = self.current.positive.wrapping_sub(1);
            self.lost |= self.current.value.as_ref().is_some_and(|current| current.key() == value.key());
        }
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
