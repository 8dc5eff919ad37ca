//! DISTINCT: which rows bring a value that a call has not seen, or take back the last one.
//!
//! Calls over the same argument share one table, as in Flink: over rows that insert only, one bit per call says whether
//! the value was seen by it; over rows that retract, each call counts. A row that a call's filter excludes does not count
//! for that call. NULLs are not kept: no aggregate takes them.
//!
//! Follows: DistinctAggCodeGen, Flink 2.2. Differences: none in results; Flink keeps NULLs in its map.

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use streamfusion_state::{MapTable, mix};

use super::native::{Input, Native};
use super::rows::{ACCUMULATE, EMPTY, RETRACT, Rows};
use super::value::BytesInput;
use crate::OperatorError;

/// Calls that share a table at most: one bit each.
pub(super) const CALLS_PER_TABLE: usize = 64;

/// A value as key of a distinct table. Equal where Java's `equals` is true.
pub(super) trait DistinctKey: Clone + Default + Debug + Send + Sync + 'static {
    type Input: Input;

    fn hash(item: <Self::Input as Input>::Item<'_>) -> u64;

    fn is(&self, item: <Self::Input as Input>::Item<'_>) -> bool;

    fn own(item: <Self::Input as Input>::Item<'_>) -> Self;
}

impl<T: Native> DistinctKey for T {
    type Input = T;

    #[inline]
    fn hash(item: T) -> u64 {
        Native::hash(item)
    }

    #[inline]
    fn is(&self, item: T) -> bool {
        self.compare(item).is_eq()
    }

    #[inline]
    fn own(item: T) -> T {
        item
    }
}

impl DistinctKey for Box<[u8]> {
    type Input = BytesInput;

    #[inline]
    fn hash(item: &[u8]) -> u64 {
        let words = item.chunks_exact(8);
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        let seed = mix(u64::from_le_bytes(last) ^ (item.len() as u64) << 56);
        words.fold(seed, |hash, word| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(word);
            mix(hash ^ u64::from_le_bytes(bytes))
        })
    }

    #[inline]
    fn is(&self, item: &[u8]) -> bool {
        **self == *item
    }

    fn own(item: &[u8]) -> Self {
        Box::from(item)
    }
}

/// The distinct table of one argument, whatever its type.
pub(super) trait Distinct: Debug + Send {
    /// Decides for each call what each row does: `actions` has one element per call, overwritten with the rows' actions
    /// less those that change nothing for the call. `filters` are the rows that pass each call's filter.
    fn reduce(
        &mut self,
        rows: &Rows,
        argument: &ArrayRef,
        filters: &[Option<BooleanBuffer>],
        actions: &mut [Vec<u8>],
    ) -> Result<(), OperatorError>;

    /// Bytes of the state.
    fn bytes(&self) -> usize;
}

/// Values seen, over rows that insert only.
#[derive(Debug)]
pub(super) struct Seen<K> {
    table: MapTable<K, u64>,
}

impl<K: DistinctKey> Seen<K> {
    pub(super) fn boxed() -> Box<dyn Distinct> {
        Box::new(Self { table: MapTable::new() })
    }
}

impl<K: DistinctKey> Distinct for Seen<K> {
    fn reduce(
        &mut self,
        rows: &Rows,
        argument: &ArrayRef,
        filters: &[Option<BooleanBuffer>],
        actions: &mut [Vec<u8>],
    ) -> Result<(), OperatorError> {
        let column = K::Input::column(argument)?;
        let nulls = argument.nulls();
        let without = |action: &u8| action & !ACCUMULATE;
        for actions in actions.iter_mut() {
            actions.clear();
            actions.extend(rows.actions.iter().map(without));
        }
        let unfiltered = filters.iter().zip(0..).filter(|(filter, _)| filter.is_none()).map(|(_, call)| 1_u64 << call);
        let unfiltered = unfiltered.fold(0, |mask, bit| mask | bit);
        let filtered: Vec<(&BooleanBuffer, u32)> =
            filters.iter().zip(0..).filter_map(|(filter, call)| Some((filter.as_ref()?, call))).collect();
        for (row, group) in rows.groups.iter().enumerate() {
            let passed =
                filtered.iter().fold(unfiltered, |mask, (filter, call)| mask | u64::from(filter.value(row)) << call);
            if passed == 0 || nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let item = K::Input::get(&column, row);
            let slot = rows.slots[*group as usize];
            let position = self.table.find_or_add(slot, K::hash(item), |key| key.is(item), || K::own(item))?;
            let mut new = passed & !*self.table.value(position);
            if new != 0 {
                *self.table.value_mut(position) |= new;
                while new != 0 {
                    actions[new.trailing_zeros() as usize][row] |= ACCUMULATE;
                    new &= new - 1;
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

/// Values counted per call, over rows that retract. Counts may be negative.
#[derive(Debug)]
pub(super) struct Counted<K> {
    tables: Vec<MapTable<K, i64>>,
}

impl<K: DistinctKey> Counted<K> {
    pub(super) fn boxed() -> Box<dyn Distinct> {
        Box::new(Self { tables: Vec::new() })
    }
}

impl<K: DistinctKey> Distinct for Counted<K> {
    fn reduce(
        &mut self,
        rows: &Rows,
        argument: &ArrayRef,
        filters: &[Option<BooleanBuffer>],
        actions: &mut [Vec<u8>],
    ) -> Result<(), OperatorError> {
        let column = K::Input::column(argument)?;
        let nulls = argument.nulls();
        self.tables.resize_with(filters.len(), MapTable::new);
        for ((table, filter), actions) in self.tables.iter_mut().zip(filters).zip(actions) {
            actions.clear();
            for (row, (group, action)) in rows.groups.iter().zip(&rows.actions).enumerate() {
                let slot = rows.slots[*group as usize];
                let mut left = action & !(ACCUMULATE | RETRACT);
                let counts = action & (ACCUMULATE | RETRACT) != 0
                    && filter.as_ref().is_none_or(|filter| filter.value(row))
                    && nulls.is_none_or(|nulls| nulls.is_valid(row));
                if counts {
                    let item = K::Input::get(&column, row);
                    let position = table.find_or_add(slot, K::hash(item), |key| key.is(item), || K::own(item))?;
                    let count = table.value_mut(position);
                    if action & ACCUMULATE != 0 {
                        *count += 1;
                        left |= if *count == 1 { ACCUMULATE } else { 0 };
                    } else {
                        *count -= 1;
                        left |= if *count == 0 { RETRACT } else { 0 };
                    }
                    if *count == 0 {
                        table.remove(position);
                    }
                }
                if action & EMPTY != 0 {
                    table.clear(slot);
                }
                actions.push(left);
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.tables.iter().map(MapTable::bytes).sum()
    }
}
