//! What it means to the calls of a distinct table that slots are merged: values that are new to a call are accumulated,
//! those that are gone are taken back.
//!
//! Follows: DistinctAggCodeGen.merge, Flink 2.2. Differences: none, but for the order of values, which is that of a hash map there.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use streamfusion_state::codec::{Codec, Required};
use streamfusion_state::{Entries, KeyedTable, Touched};

use super::Parts;
use crate::OperatorError;
use crate::group_agg::distinct::{Counted, Counts, DistinctKey, Seen};
use crate::group_agg::rows::{ACCUMULATE, RETRACT};

/// Rows of distinct values for the calls of a table.
#[derive(Debug)]
pub(in crate::group_agg) struct MergedRows {
    /// Per row: to what it belongs.
    pub(in crate::group_agg) groups: Vec<u32>,
    /// The values.
    pub(in crate::group_agg) values: ArrayRef,
    /// Per call: what each row does.
    pub(in crate::group_agg) actions: Vec<Vec<u8>>,
}

impl MergedRows {
    /// The rows by slot, where groups are places in `slots`, which may name a slot several times.
    pub(super) fn touched(&self, slots: &[u32]) -> Touched {
        let mut touched = Touched::default();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for group in &self.groups {
            let slot = slots[*group as usize];
            // no more slots than 32 bits count
            let next = touched.slots.len() as u32;
            let number = *numbers.entry(slot).or_insert(next);
            if number == next {
                touched.slots.push(slot);
            }
            touched.groups.push(number);
        }
        touched
    }
}

/// Collects [`MergedRows`].
struct Collected<K> {
    groups: Vec<u32>,
    values: Vec<K>,
    actions: Vec<Vec<u8>>,
}

impl<K: DistinctKey> Collected<K> {
    fn new(calls: usize) -> Self {
        Self { groups: Vec::new(), values: Vec::new(), actions: vec![Vec::new(); calls] }
    }

    /// Adds a row; `action` has what it does for each call.
    fn push(&mut self, group: usize, value: &K, action: impl Fn(usize) -> u8) -> Result<(), OperatorError> {
        let group = u32::try_from(group).map_err(|_| OperatorError::Internal(format!("group {group}")))?;
        self.groups.push(group);
        self.values.push(value.clone());
        for (call, actions) in self.actions.iter_mut().enumerate() {
            actions.push(action(call));
        }
        Ok(())
    }

    fn finish(self, ty: &DataType) -> Result<MergedRows, OperatorError> {
        let codec = Required::<K>::new("value", ty.clone());
        let mut writer = codec.writer(self.values.len());
        self.values.iter().for_each(|value| codec.write(&mut writer, value));
        let mut columns = Vec::with_capacity(1);
        codec.finish(writer, &mut columns).map_err(|_| OperatorError::TooLarge)?;
        let values = columns.pop().ok_or_else(|| OperatorError::Internal("values without a column".to_owned()))?;
        Ok(MergedRows { groups: self.groups, values, actions: self.actions })
    }
}

/// A value, the same as others where Java's `equals` is true.
struct Same<K>(K);

impl<K: DistinctKey> Hash for Same<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(K::hash_item(self.0.item()));
    }
}

impl<K: DistinctKey> PartialEq for Same<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(other.0.item())
    }
}

impl<K: DistinctKey> Eq for Same<K> {}

/// What a call accumulates that has seen the values of `before`, and then sees those of `new`.
fn seen_action(new: u64, call: usize) -> u8 {
    if new >> call & 1 != 0 { ACCUMULATE } else { 0 }
}

pub(in crate::group_agg) fn merge_seen<K: DistinctKey>(
    seen: &mut Seen<K>,
    table: &mut KeyedTable,
    from: &[u32],
    into: &[u32],
) -> Result<MergedRows, OperatorError> {
    let (entries, slots) = table.entries(seen.seen)?;
    let mut rows = Collected::new(seen.calls);
    let mut others: Vec<(K, u64)> = Vec::new();
    for (pair, (from, into)) in from.iter().zip(into).enumerate() {
        others.clear();
        let of_slot = entries.table().of_slot(*from).map(|position| entries.table().get(position));
        others.extend(of_slot.map(|entry| (entry.key.clone(), entry.value)));
        for (value, other) in &others {
            let item = value.item();
            let position =
                entries.find_or_add(slots, *into, K::hash_item(item), |key| key.is(item), || value.clone())?;
            let new = other & !*entries.value(position);
            *entries.value_mut(position) |= other;
            if new != 0 {
                rows.push(pair, value, |call| seen_action(new, call))?;
            }
        }
    }
    rows.finish(&seen.ty)
}

pub(in crate::group_agg) fn union_seen<K: DistinctKey>(
    seen: &mut Seen<K>,
    table: &mut KeyedTable,
    parts: &Parts<'_>,
) -> Result<MergedRows, OperatorError> {
    let (entries, _) = table.entries(seen.seen)?;
    let mut rows = Collected::new(seen.calls);
    let mut together: HashMap<Same<K>, u64> = HashMap::new();
    for (part, slots) in parts.iter().enumerate() {
        together.clear();
        for position in slots.iter().flat_map(|slot| entries.table().of_slot(*slot)) {
            let entry = entries.table().get(position);
            let known = together.entry(Same(entry.key.clone())).or_default();
            let new = entry.value & !*known;
            *known |= entry.value;
            if new != 0 {
                rows.push(part, &entry.key, |call| seen_action(new, call))?;
            }
        }
    }
    rows.finish(&seen.ty)
}

/// What it means to a call that a count grows by another.
fn counted_action(before: i64, other: i64) -> u8 {
    match (before > 0, before.wrapping_add(other) > 0) {
        (true, false) => RETRACT,
        (false, true) => ACCUMULATE,
        _ => 0,
    }
}

pub(in crate::group_agg) fn merge_counted<K: DistinctKey, C: Counts>(
    counted: &mut Counted<K, C>,
    table: &mut KeyedTable,
    from: &[u32],
    into: &[u32],
) -> Result<MergedRows, OperatorError> {
    let (entries, slots) = table.entries(counted.counts)?;
    let mut rows = Collected::new(counted.calls);
    let mut others: Vec<(K, C)> = Vec::new();
    for (pair, (from, into)) in from.iter().zip(into).enumerate() {
        others.clear();
        let of_slot = entries.table().of_slot(*from).map(|position| entries.table().get(position));
        others.extend(of_slot.map(|entry| (entry.key.clone(), entry.value.clone())));
        for (value, other) in &others {
            let item = value.item();
            let position =
                entries.find_or_add(slots, *into, K::hash_item(item), |key| key.is(item), || value.clone())?;
            let counts = entries.value_mut(position).as_mut_slice();
            let other = other.as_slice();
            rows.push(pair, value, |call| counted_action(counts[call], other[call]))?;
            for (count, other) in counts.iter_mut().zip(other) {
                *count = count.wrapping_add(*other);
            }
            if counts.iter().all(|count| *count == 0) {
                entries.remove(position);
            }
        }
    }
    rows.finish(&counted.ty)
}

pub(in crate::group_agg) fn union_counted<K: DistinctKey, C: Counts>(
    counted: &mut Counted<K, C>,
    table: &mut KeyedTable,
    parts: &Parts<'_>,
) -> Result<MergedRows, OperatorError> {
    let (entries, _) = table.entries(counted.counts)?;
    let mut rows = Collected::new(counted.calls);
    let mut together: HashMap<Same<K>, C> = HashMap::new();
    for (part, slots) in parts.iter().enumerate() {
        together.clear();
        for position in slots.iter().flat_map(|slot| entries.table().of_slot(*slot)) {
            let entry = entries.table().get(position);
            let counts = together.entry(Same(entry.key.clone())).or_insert_with(|| C::zero(counted.calls));
            let (counts, other) = (counts.as_mut_slice(), entry.value.as_slice());
            rows.push(part, &entry.key, |call| counted_action(counts[call], other[call]))?;
            for (count, other) in counts.iter_mut().zip(other) {
                *count = count.wrapping_add(*other);
            }
        }
    }
    rows.finish(&counted.ty)
}
