//! DISTINCT: which rows bring a value that a call has not seen, or take back the last one.
//!
//! Calls over the same argument share one table, as in Flink: over rows that insert only, one bit per call says whether
//! the value was seen by it; over rows that retract, each call counts. A row that a call's filter excludes does not count
//! for that call. NULLs are not kept: no aggregate takes them.
//!
//! Follows: DistinctAggCodeGen, Flink 2.2. Differences: none in results; Flink keeps NULLs in its map.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field};
use streamfusion_state::canonical::Fault;
use streamfusion_state::codec::{Codec, Leaf, Mapped, Required, SectionColumns};
use streamfusion_state::{Entries, EntriesId, KeyedTable, MapCodec, MapHash, MapTable, RestoreError, Value, mix};

use super::native::{Input, Native};
use super::rows::{ACCUMULATE, EMPTY, FIRST, RETRACT, Rows};
use super::slots::{MergedRows, Parts, merge_counted, merge_seen, union_counted, union_seen};
use super::support::Call;
use super::two_phase::{Carried, SlotCells};
use super::value::BytesInput;
use super::versions::Bytes;
use crate::OperatorError;

/// Calls that share a table at most: one bit each.
pub(super) const CALLS_PER_TABLE: usize = 64;

/// A value as key of a distinct table.
pub(super) trait DistinctKey: Leaf {
    type Input: Input;

    fn hash_item(item: <Self::Input as Input>::Item<'_>) -> u64;

    fn is(&self, item: <Self::Input as Input>::Item<'_>) -> bool;

    fn own(item: <Self::Input as Input>::Item<'_>) -> Self;

    fn item(&self) -> <Self::Input as Input>::Item<'_>;

    /// What stands where there is no key.
    fn nothing() -> Self;
}

impl<T: Native> DistinctKey for T {
    type Input = T;

    #[inline]
    fn hash_item(item: T) -> u64 {
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

    fn item(&self) -> T {
        *self
    }

    fn nothing() -> T {
        T::default()
    }
}

impl DistinctKey for Bytes {
    type Input = BytesInput;

    #[inline]
    fn hash_item(item: &[u8]) -> u64 {
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
        Bytes::from(item)
    }

    fn item(&self) -> &[u8] {
        self
    }

    fn nothing() -> Self {
        Bytes::default()
    }
}

/// Keys are the same where Java's `equals` is true.
#[derive(Debug)]
pub(super) struct JavaEquals;

impl<K: DistinctKey> MapHash<K> for JavaEquals {
    fn hash(key: &K) -> u64 {
        K::hash_item(key.item())
    }

    fn same(a: &K, b: &K) -> bool {
        a.is(b.item())
    }
}

/// What the calls that share a distinct table have in common.
#[derive(Debug)]
pub(super) struct Shared {
    /// Of the section.
    pub(super) name: String,
    /// The calls in words.
    pub(super) definition: String,
    /// Type of the argument.
    pub(super) ty: DataType,
    /// How many calls there are.
    pub(super) calls: usize,
}

/// Calls that share a distinct table.
#[derive(Debug)]
pub(super) struct Share {
    /// The argument column.
    pub(super) column: usize,
    /// The positions of the calls.
    pub(super) calls: Vec<usize>,
    pub(super) shared: Shared,
}

/// Which of some calls share distinct tables: those with DISTINCT over the same argument, in order.
pub(super) fn share<'a>(calls: impl IntoIterator<Item = &'a Call>) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for (position, call) in calls.into_iter().enumerate().filter(|(_, call)| call.distinct) {
        let Some(argument) = &call.argument else { continue };
        let words = format!("call{position} {}", call.definition());
        let known = |share: &&mut Share| share.column == argument.column && share.calls.len() < CALLS_PER_TABLE;
        if let Some(Share { calls, shared, .. }) = shares.iter_mut().find(known) {
            calls.push(position);
            shared.calls += 1;
            shared.definition = format!("{}, {words}", shared.definition);
            continue;
        }
        let name = format!("distinct{}", shares.len());
        let shared = Shared { name, definition: words, ty: argument.arrow.clone(), calls: 1 };
        shares.push(Share { column: argument.column, calls: vec![position], shared });
    }
    shares
}

/// The distinct table of one argument, whatever its type.
pub(super) trait Distinct: SlotCells + Debug + Send {
    /// Decides for each call what each row does: `actions` has one element per call, overwritten with the rows' actions
    /// less those that change nothing for the call. `filters` are the rows that pass each call's filter.
    fn reduce(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: &ArrayRef,
        filters: &[Option<BooleanBuffer>],
        actions: &mut [Vec<u8>],
    ) -> Result<(), OperatorError>;

    /// Adds what the slots `from` have seen to what the slots `into` have, pair by pair, and returns what that means to the calls: rows,
    /// whose groups are numbers of pairs. What `from` has stays.
    fn merge(&mut self, table: &mut KeyedTable, from: &[u32], into: &[u32]) -> Result<MergedRows, OperatorError>;

    /// What each part, a list of slots, has seen together: rows, whose groups are numbers of parts, for accumulators that have
    /// seen nothing. State stays as it is.
    fn union(&mut self, table: &mut KeyedTable, parts: &Parts<'_>) -> Result<MergedRows, OperatorError>;
}

/// Values seen, over rows that insert only: one bit per call.
#[derive(Debug)]
pub(super) struct Seen<K> {
    pub(super) seen: EntriesId<MapTable<K, u64, JavaEquals>>,
    pub(super) ty: DataType,
    pub(super) calls: usize,
}

impl<K: DistinctKey<Input: Carried<Key = K>>> Seen<K> {
    /// Registers the table.
    pub(super) fn boxed(shared: &Shared, table: &mut KeyedTable) -> Box<dyn Distinct> {
        Box::new(Self::register(shared, table))
    }
}

impl<K: DistinctKey> Seen<K> {
    /// Registers the table.
    pub(super) fn register(shared: &Shared, table: &mut KeyedTable) -> Self {
        let calls = u32::try_from(shared.calls).unwrap_or(u32::MAX);
        let seen = Mapped::new(
            Required::new("seen", DataType::UInt64),
            |seen: &u64| *seen,
            move |seen: u64| {
                // a value that no call has seen is not there
                let known = seen != 0 && seen.checked_shr(calls).unwrap_or(0) == 0;
                if known { Ok(seen) } else { Err("a value seen by calls that are not there") }
            },
        );
        let codec = MapCodec { key: Required::<K>::new("value", shared.ty.clone()), value: seen };
        let entries = MapTable::new(table.key_groups(), (K::nothing(), 0), 0);
        let seen = table.add_entries(&shared.name, Some(shared.definition.clone()), codec, entries);
        Self { seen, ty: shared.ty.clone(), calls: shared.calls }
    }
}

impl<K: DistinctKey<Input: Carried<Key = K>>> Distinct for Seen<K> {
    fn reduce(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: &ArrayRef,
        filters: &[Option<BooleanBuffer>],
        actions: &mut [Vec<u8>],
    ) -> Result<(), OperatorError> {
        let (table, slots) = table.entries(self.seen)?;
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
        for (row, group) in rows.touched.groups.iter().enumerate() {
            let passed =
                filtered.iter().fold(unfiltered, |mask, (filter, call)| mask | u64::from(filter.value(row)) << call);
            if passed == 0 || nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let item = K::Input::get(&column, row);
            let slot = rows.touched.slots[*group as usize];
            let position = table.find_or_add(slots, slot, K::hash_item(item), |key| key.is(item), || K::own(item))?;
            let mut new = passed & !*table.value(position);
            if new != 0 {
                *table.value_mut(position) |= new;
                while new != 0 {
                    actions[new.trailing_zeros() as usize][row] |= ACCUMULATE;
                    new &= new - 1;
                }
            }
        }
        Ok(())
    }

    fn merge(&mut self, table: &mut KeyedTable, from: &[u32], into: &[u32]) -> Result<MergedRows, OperatorError> {
        merge_seen(self, table, from, into)
    }

    fn union(&mut self, table: &mut KeyedTable, parts: &Parts<'_>) -> Result<MergedRows, OperatorError> {
        union_seen(self, table, parts)
    }
}

/// One count per call. Counts may be negative.
pub(super) trait Counts: Value {
    /// What stands where nothing is counted.
    fn nothing() -> Self;

    /// All 0, for so many calls.
    fn zero(calls: usize) -> Self;

    /// Those of the calls.
    fn as_slice(&self) -> &[i64];

    fn as_mut_slice(&mut self) -> &mut [i64];

    /// From the counts of all calls.
    fn of(counts: &[i64]) -> Self;
}

impl Counts for i64 {
    fn nothing() -> Self {
        0
    }

    fn zero(_calls: usize) -> Self {
        0
    }

    #[inline]
    fn as_slice(&self) -> &[i64] {
        std::slice::from_ref(self)
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [i64] {
        std::slice::from_mut(self)
    }

    fn of(counts: &[i64]) -> Self {
        counts.first().copied().unwrap_or_default()
    }
}

/// The counts of several calls.
#[derive(Debug, Clone)]
pub(super) struct ManyCounts(Box<[i64]>);

impl Value for ManyCounts {
    fn heap_bytes(&self) -> usize {
        self.0.len() * size_of::<i64>()
    }
}

impl Counts for ManyCounts {
    fn nothing() -> Self {
        Self(Box::default())
    }

    fn zero(calls: usize) -> Self {
        Self(vec![0; calls].into())
    }

    #[inline]
    fn as_slice(&self) -> &[i64] {
        &self.0
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [i64] {
        &mut self.0
    }

    fn of(counts: &[i64]) -> Self {
        Self(counts.into())
    }
}

/// A column per call: `count0`, `count1` and so on.
#[derive(Debug)]
struct CountColumns {
    calls: usize,
}

impl<C: Counts> Codec<C> for CountColumns {
    type Writer = Vec<Vec<i64>>;
    type Reader = Vec<ScalarBuffer<i64>>;

    fn fields(&self, prefix: &str, out: &mut Vec<Field>) {
        out.extend((0..self.calls).map(|call| Field::new(count_name(prefix, call), DataType::Int64, false)));
    }

    fn writer(&self, rows: usize) -> Self::Writer {
        vec![Vec::with_capacity(rows); self.calls]
    }

    #[inline]
    fn write(&self, writer: &mut Self::Writer, value: &C) {
        for (column, count) in writer.iter_mut().zip(value.as_slice()) {
            column.push(*count);
        }
    }

    fn finish(&self, writer: Self::Writer, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        out.extend(writer.into_iter().map(|counts| Arc::new(Int64Array::from(counts)) as ArrayRef));
        Ok(())
    }

    fn reader(&self, prefix: &str, columns: &mut SectionColumns<'_>) -> Result<Self::Reader, RestoreError> {
        let column = |call| {
            let name = count_name(prefix, call);
            columns.required::<i64>(&name, &DataType::Int64)
        };
        (0..self.calls).map(column).collect()
    }

    fn read(&self, reader: &Self::Reader, row: usize) -> Result<C, &'static str> {
        let counts = reader.iter().map(|counts| counts[row]).collect::<Vec<_>>();
        if counts.iter().all(|count| *count == 0) { Err("a value that no call counts") } else { Ok(C::of(&counts)) }
    }
}

fn count_name(prefix: &str, call: usize) -> String {
    if prefix.is_empty() { format!("count{call}") } else { format!("{prefix}.count{call}") }
}

/// Values counted per call, over rows that retract.
#[derive(Debug)]
pub(super) struct Counted<K, C> {
    pub(super) counts: EntriesId<MapTable<K, C, JavaEquals>>,
    pub(super) ty: DataType,
    pub(super) calls: usize,
}

impl<K: DistinctKey<Input: Carried<Key = K>>, C: Counts> Counted<K, C> {
    /// Registers the table.
    pub(super) fn boxed(shared: &Shared, table: &mut KeyedTable) -> Box<dyn Distinct> {
        Box::new(Self::register(shared, table))
    }
}

impl<K: DistinctKey, C: Counts> Counted<K, C> {
    /// Registers the table.
    pub(super) fn register(shared: &Shared, table: &mut KeyedTable) -> Self {
        let key = Required::<K>::new("value", shared.ty.clone());
        let codec = MapCodec { key, value: CountColumns { calls: shared.calls } };
        let nothing = (K::nothing(), C::nothing());
        let entries = MapTable::new(table.key_groups(), nothing, C::zero(shared.calls));
        let counts = table.add_entries(&shared.name, Some(shared.definition.clone()), codec, entries);
        Self { counts, ty: shared.ty.clone(), calls: shared.calls }
    }
}

impl<K: DistinctKey<Input: Carried<Key = K>>, C: Counts> Distinct for Counted<K, C> {
    fn reduce(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        argument: &ArrayRef,
        filters: &[Option<BooleanBuffer>],
        actions: &mut [Vec<u8>],
    ) -> Result<(), OperatorError> {
        let (table, slots) = table.entries(self.counts)?;
        let column = K::Input::column(argument)?;
        let nulls = argument.nulls();
        for actions in actions.iter_mut() {
            actions.clear();
            actions.extend(rows.actions.iter().map(|action| action & !(ACCUMULATE | RETRACT)));
        }
        let passes = |row: usize| filters.iter().any(|filter| filter.as_ref().is_none_or(|filter| filter.value(row)));
        for (row, (group, action)) in rows.touched.groups.iter().zip(&rows.actions).enumerate() {
            let slot = rows.touched.slots[*group as usize];
            if action & FIRST != 0 {
                table.clear(slot); // of a group that went in the same frame, something may be left
            }
            let counts =
                action & (ACCUMULATE | RETRACT) != 0 && nulls.is_none_or(|nulls| nulls.is_valid(row)) && passes(row);
            if counts {
                let item = K::Input::get(&column, row);
                let position =
                    table.find_or_add(slots, slot, K::hash_item(item), |key| key.is(item), || K::own(item))?;
                let counts = table.value_mut(position).as_mut_slice();
                for ((count, filter), actions) in counts.iter_mut().zip(filters).zip(actions.iter_mut()) {
                    if filter.as_ref().is_some_and(|filter| !filter.value(row)) {
                        continue;
                    }
                    if action & ACCUMULATE != 0 {
                        *count = count.wrapping_add(1);
                        actions[row] |= if *count == 1 { ACCUMULATE } else { 0 };
                    } else {
                        *count = count.wrapping_sub(1);
                        actions[row] |= if *count == 0 { RETRACT } else { 0 };
                    }
                }
                if counts.iter().all(|count| *count == 0) {
                    table.remove(position);
                }
            }
            if action & EMPTY != 0 {
                table.clear(slot);
            }
        }
        Ok(())
    }

    fn merge(&mut self, table: &mut KeyedTable, from: &[u32], into: &[u32]) -> Result<MergedRows, OperatorError> {
        merge_counted(self, table, from, into)
    }

    fn union(&mut self, table: &mut KeyedTable, parts: &Parts<'_>) -> Result<MergedRows, OperatorError> {
        union_counted(self, table, parts)
    }
}
