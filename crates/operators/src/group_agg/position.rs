//! FIRST_VALUE and LAST_VALUE in arrival order; NULLs are ignored.
//!
//! With retractions Flink orders values by the clock reading at which they came, and within one reading by arrival; with a
//! clock that does not go back that is arrival order. A retraction takes back the earliest equal value, so that
//! LAST_VALUE keeps the later one of two.
//!
//! Follows: FirstValueAggFunction, LastValueAggFunction, FirstValueWithRetractAggFunction,
//! LastValueWithRetractAggFunction, Flink 2.2. Differences: none, as long as Flink's clock does not go back.

use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;

use arrow::datatypes::DataType;
use streamfusion_state::codec::{Codec, Nullable, Required};
use streamfusion_state::{Entries, EntryTable, KeyedTable, StateError};

use super::fold::{EntryFunction, Function, Place};
use super::native::Input;
use super::slot_maps::{SlotMaps, map_bytes};
use super::two_phase::Merge;
use super::value::Value;

/// Which value is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    First,
    Last,
}

/// FIRST_VALUE or LAST_VALUE over rows that insert only.
#[derive(Debug)]
pub(super) struct AppendPosition<V> {
    pub(super) position: Position,
    pub(super) value: PhantomData<V>,
}

impl<V: Value> Function for AppendPosition<V> {
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
        if self.position == Position::Last || current.is_none() {
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

/// As if the other's values had come later. Flink's function has no merge, and nobody asks for this one: see
/// [`slots`](super::slots).
impl<V: Value> Merge for AppendPosition<V> {
    fn merge(&self, current: &mut Option<V>, other: &Option<V>) {
        if other.is_some() && (self.position == Position::Last || current.is_none()) {
            current.clone_from(other);
        }
    }
}

/// FIRST_VALUE or LAST_VALUE over rows that retract.
#[derive(Debug)]
pub(super) struct RetractPosition<V> {
    pub(super) position: Position,
    pub(super) value: PhantomData<V>,
}

/// All values, and per group by value and in arrival order.
#[derive(Debug)]
pub(super) struct Arrivals<V: Value> {
    /// A number that says when the value came, and the value.
    values: EntryTable<(u64, V)>,
    /// Per slot.
    orders: SlotMaps<Orders<V>>,
    /// How many values there are, equal ones counted once per slot.
    distinct: usize,
    /// Slots whose equal values came out of order, while they are restored.
    unsorted: Vec<u32>,
}

/// Positions of values of one group.
#[derive(Debug)]
struct Orders<V: Value> {
    /// The earliest first.
    by_value: BTreeMap<V::Key, VecDeque<u32>>,
    by_order: BTreeMap<u64, u32>,
}

impl<V: Value> Default for Orders<V> {
    fn default() -> Self {
        Self { by_value: BTreeMap::new(), by_order: BTreeMap::new() }
    }
}

impl<V: Value> Entries for Arrivals<V> {
    type Entry = (u64, V);

    fn table(&self) -> &EntryTable<(u64, V)> {
        &self.values
    }

    fn table_mut(&mut self) -> &mut EntryTable<(u64, V)> {
        &mut self.values
    }

    fn index(&mut self, position: u32) -> bool {
        let values = &self.values;
        let (order, value) = values.get(position);
        let slot = values.slot(position);
        let orders = self.orders.filled(slot);
        let alike = orders.by_value.entry(value.key()).or_default();
        self.distinct += usize::from(alike.is_empty());
        if alike.back().is_some_and(|last| values.get(*last).0 > *order) && self.unsorted.last() != Some(&slot) {
            self.unsorted.push(slot);
        }
        alike.push_back(position);
        // later values have greater numbers
        *order <= LAST_ORDER && orders.by_order.insert(*order, position).is_none()
    }

    fn indexed(&mut self) {
        self.unsorted.sort_unstable();
        self.unsorted.dedup();
        for slot in std::mem::take(&mut self.unsorted) {
            for alike in self.orders.of(slot).by_value.values_mut() {
                alike.make_contiguous().sort_unstable_by_key(|position| self.values.get(*position).0);
            }
        }
    }

    fn unindex(&mut self, position: u32) {
        let values = &self.values;
        let (order, value) = values.get(position);
        let slot = values.slot(position);
        let orders = self.orders.of(slot);
        orders.by_order.remove(order);
        let key = value.key();
        if let Some(alike) = orders.by_value.get_mut(&key) {
            alike.remove(alike.partition_point(|other| values.get(*other).0 < *order));
            if alike.is_empty() {
                orders.by_value.remove(&key);
                self.distinct -= 1;
            }
        }
        if orders.by_order.is_empty() {
            self.orders.empty(slot);
        }
    }

    fn index_bytes(&self) -> usize {
        let (slots, values) = (self.orders.len(), self.values.len());
        let queues = self.distinct * SMALLEST_QUEUE + 2 * values * size_of::<u32>();
        let nodes = map_bytes::<V::Key, VecDeque<u32>>(slots, self.distinct) + map_bytes::<u64, u32>(slots, values);
        self.orders.bytes() + queues + nodes
    }
}

/// Bytes of a queue of one value on the heap.
const SMALLEST_QUEUE: usize = 32;

/// The greatest order that is read back: what comes after it never reaches the end of the numbers.
const LAST_ORDER: u64 = u64::MAX / 2;

impl<V: Value> EntryFunction for RetractPosition<V> {
    type Input = V::Input;
    type Output = V;
    type Accumulator = Option<V>;
    type Entries = Arrivals<V>;

    fn codec(&self, output: &DataType) -> impl Codec<Option<V>> {
        Nullable::new("value", output.clone())
    }

    fn entry_codec(&self, output: &DataType) -> impl Codec<(u64, V)> {
        (Required::new("order", DataType::UInt64), Required::new("value", output.clone()))
    }

    fn entries(&self, table: &KeyedTable) -> Arrivals<V> {
        Arrivals {
            values: EntryTable::new(table.key_groups(), (0, V::nothing())),
            orders: SlotMaps::default(),
            distinct: 0,
            unsorted: Vec::new(),
        }
    }

    fn create(&self) -> Option<V> {
        None
    }

    fn accumulate(
        &self,
        current: &mut Option<V>,
        place: Place<'_, Arrivals<V>>,
        value: <V::Input as Input>::Item<'_>,
    ) -> Result<(), StateError> {
        let Place { entries, slots, slot } = place;
        let owned = V::own(value);
        let last = entries.orders.of(slot).by_order.last_key_value();
        let order = last.map_or(0, |(order, _)| order + 1);
        let position = entries.values.add(slots, slot, (order, owned.clone()))?;
        let orders = entries.orders.filled(slot);
        orders.by_order.insert(order, position);
        match V::find(&mut orders.by_value, value) {
            Some(alike) => alike.push_back(position),
            None => {
                orders.by_value.insert(owned.key(), VecDeque::from([position]));
                entries.distinct += 1;
            }
        }
        if self.position == Position::Last || current.is_none() {
            *current = Some(owned);
        }
        Ok(())
    }

    fn retract(
        &self,
        current: &mut Option<V>,
        place: Place<'_, Arrivals<V>>,
        value: <V::Input as Input>::Item<'_>,
    ) -> Result<(), StateError> {
        let Place { entries, slot, .. } = place;
        let orders = entries.orders.of(slot);
        let Some(earliest) = V::find(&mut orders.by_value, value).and_then(|alike| alike.front().copied()) else {
            return Ok(());
        };
        entries.remove(earliest);
        if current.as_ref().is_some_and(|current| V::compare(value, current).is_eq()) {
            let orders = entries.orders.of(slot);
            let next = match self.position {
                Position::First => orders.by_order.first_key_value(),
                Position::Last => orders.by_order.last_key_value(),
            };
            *current = next.map(|(_, position)| entries.values.get(*position).1.clone());
        }
        Ok(())
    }

    fn value(&self, current: &Option<V>) -> Option<V> {
        current.clone()
    }
}
