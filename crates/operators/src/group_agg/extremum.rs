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
use std::sync::Arc;

use super::fold::Function;
use super::native::Input;
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

/// The current value, how many values have a positive count, and the counts that are not 0.
#[derive(Debug, Clone)]
pub(super) struct CountedValues<V: Value> {
    current: Option<V>,
    positive: i64,
    counts: Option<Arc<BTreeMap<V::Key, i64>>>,
}

impl<V: Value> RetractExtremum<V> {
    /// Replaces the current value by the best one left.
    fn renew(&self, accumulator: &mut CountedValues<V>) {
        let best = accumulator.counts.as_ref().and_then(|counts| match self.extremum {
            Extremum::Min => counts.first_key_value(),
            Extremum::Max => counts.last_key_value(),
        });
        accumulator.current = best.map(|(key, _)| V::of_key(key));
    }
}

/// Adds `change` to the count of `value` and returns it; a count of 0 is not kept.
fn count<V: Value>(accumulator: &mut CountedValues<V>, value: <V::Input as Input>::Item<'_>, change: i64) -> i64 {
    let counts = Arc::make_mut(accumulator.counts.get_or_insert_default());
    let count = match V::find(counts, value) {
        Some(count) => {
            *count += change;
            *count
        }
        None => {
            counts.insert(V::own(value).key(), change);
            change
        }
    };
    if count == 0 {
        counts.remove(&V::own(value).key());
    }
    count
}

impl<V: Value> Function for RetractExtremum<V> {
    type Input = V::Input;
    type Output = V;
    type Accumulator = CountedValues<V>;

    fn create(&self) -> CountedValues<V> {
        CountedValues { current: None, positive: 0, counts: None }
    }

    fn accumulate(&self, accumulator: &mut CountedValues<V>, value: <V::Input as Input>::Item<'_>) {
        let replaces = match &accumulator.current {
            Some(current) => accumulator.positive == 0 || V::compare(value, current) == self.extremum.better(),
            None => true,
        };
        if replaces {
            accumulator.current = Some(V::own(value));
        }
        if count(accumulator, value, 1) == 1 {
            accumulator.positive += 1;
        }
    }

    fn retract(&self, accumulator: &mut CountedValues<V>, value: <V::Input as Input>::Item<'_>) {
        if count(accumulator, value, -1) != 0 {
            return;
        }
        accumulator.positive -= 1;
        if accumulator.positive == 0 {
            accumulator.current = None;
        } else if accumulator.current.as_ref().is_some_and(|current| V::compare(value, current).is_eq()) {
            self.renew(accumulator);
        }
    }

    fn value(&self, accumulator: &CountedValues<V>) -> Option<V> {
        accumulator.current.clone().filter(|_| accumulator.positive > 0)
    }
}
