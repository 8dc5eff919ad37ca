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

use super::extremum::{NODE_SLACK, of_slot};
use super::fold::{EntryFunction, Function, Place};
use super::native::Input;
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
    orders: Vec<Orders<V>>,
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
        let orders = of_slot(&mut self.orders, values.slot(position));
        let alike = orders.by_value.entry(value.key()).or_default();
        let place = alike.partition_point(|other| values.get(*other).0 < *order);
        alike.insert(place, position);
        // later values have greater numbers
        *order <= LAST_ORDER && orders.by_order.insert(*order, position).is_none()
    }

    fn unindex(&mut self, position: u32) {
        let values = &self.values;
        let (order, value) = values.get(position);
        let orders = of_slot(&mut self.orders, values.slot(position));
        orders.by_order.remove(order);
        let key = value.key();
        if let Some(alike) = orders.by_value.get_mut(&key) {
            alike.remove(alike.partition_point(|other| values.get(*other).0 < *order));
            if alike.is_empty() {
                orders.by_value.remove(&key);
            }
        }
    }

    fn index_bytes(&self) -> usize {
        let entry = size_of::<V::Key>() + size_of::<VecDeque<u32>>() + size_of::<(u64, u32)>() + 4 * size_of::<u32>();
        self.orders.capacity() * size_of::<Orders<V>>() + self.values.len() * NODE_SLACK * entry
    }
}

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
        Arrivals { values: EntryTable::new(table.key_groups(), (0, V::nothing())), orders: Vec::new() }
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
        let last = of_slot(&mut entries.orders, slot).by_order.last_key_value();
        let order = last.map_or(0, |(order, _)| order + 1);
        let position = entries.values.add(slots, slot, (order, owned.clone()))?;
        let orders = of_slot(&mut entries.orders, slot);
        orders.by_order.insert(order, position);
        match V::find(&mut orders.by_value, value) {
            Some(alike) => alike.push_back(position),
            None => {
                orders.by_value.insert(owned.key(), VecDeque::from([position]));
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
        let orders = of_slot(&mut entries.orders, slot);
        let Some(earliest) = V::find(&mut orders.by_value, value).and_then(|alike| alike.front().copied()) else {
            return Ok(());
        };
        entries.remove(earliest);
        if current.as_ref().is_some_and(|current| V::compare(value, current).is_eq()) {
            let orders = of_slot(&mut entries.orders, slot);
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
