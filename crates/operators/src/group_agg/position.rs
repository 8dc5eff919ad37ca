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
use std::sync::Arc;

use super::fold::Function;
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

/// The current value and all values in arrival order.
#[derive(Debug, Clone)]
pub(super) struct OrderedValues<V: Value> {
    current: Option<V>,
    arrivals: Option<Arc<Arrivals<V>>>,
}

#[derive(Debug, Clone)]
struct Arrivals<V: Value> {
    by_value: BTreeMap<V::Key, VecDeque<u64>>,
    by_order: BTreeMap<u64, V>,
    next: u64,
}

impl<V: Value> Function for RetractPosition<V> {
    type Input = V::Input;
    type Output = V;
    type Accumulator = OrderedValues<V>;

    fn create(&self) -> OrderedValues<V> {
        OrderedValues { current: None, arrivals: None }
    }

    fn accumulate(&self, accumulator: &mut OrderedValues<V>, value: <V::Input as Input>::Item<'_>) {
        let arrivals = Arc::make_mut(accumulator.arrivals.get_or_insert_with(|| {
            Arc::new(Arrivals { by_value: BTreeMap::new(), by_order: BTreeMap::new(), next: 0 })
        }));
        let owned = V::own(value);
        match V::find(&mut arrivals.by_value, value) {
            Some(orders) => orders.push_back(arrivals.next),
            None => {
                arrivals.by_value.insert(owned.key(), VecDeque::from([arrivals.next]));
            }
        }
        arrivals.by_order.insert(arrivals.next, owned.clone());
        arrivals.next += 1;
        if self.position == Position::Last || accumulator.current.is_none() {
            accumulator.current = Some(owned);
        }
    }

    fn retract(&self, accumulator: &mut OrderedValues<V>, value: <V::Input as Input>::Item<'_>) {
        let Some(arrivals) = &mut accumulator.arrivals else { return };
        let arrivals = Arc::make_mut(arrivals);
        let Some(orders) = V::find(&mut arrivals.by_value, value) else { return };
        let order = orders.pop_front();
        if orders.is_empty() {
            arrivals.by_value.remove(&V::own(value).key());
        }
        if let Some(order) = order {
            arrivals.by_order.remove(&order);
        }
        if accumulator.current.as_ref().is_some_and(|current| V::compare(value, current).is_eq()) {
            let next = match self.position {
                Position::First => arrivals.by_order.first_key_value(),
                Position::Last => arrivals.by_order.last_key_value(),
            };
            accumulator.current = next.map(|(_, value)| value.clone());
        }
    }

    fn value(&self, accumulator: &OrderedValues<V>) -> Option<V> {
        accumulator.current.clone()
    }
}
