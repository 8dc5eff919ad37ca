//! The values of one DISTINCT set in state, into which those of a frame are merged.
//!
//! The table is that of GROUP BY in one phase. What the calls hand on as plain accumulators is ignored, as in Flink: they take a value when a
//! merge makes it known to them, and give it back when it is not counted any more.
//!
//! Follows: DistinctAggCodeGen.merge, Flink 2.2. Differences: none in results. Flink keeps values that several calls count 0 times.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use streamfusion_state::{Entries, EntriesId, KeyedTable, MapTable, Slots, StateError};

use super::marks::{CountMarks, Marks, SeenMarks};
use super::set::FrameSet;
use super::value::Carried;
use crate::OperatorError;
use crate::group_agg::distinct::{Counted, Counts, DistinctKey, JavaEquals, Seen, Shared};
use crate::group_agg::native::Input;
use crate::group_agg::rows::{ACCUMULATE, EMPTY, RETRACT, Rows};
use crate::group_agg::two_phase::partial::Numbered;

/// What a merge is to the calls of a set.
#[derive(Debug, Default)]
pub(in crate::group_agg::two_phase) struct Deltas {
    /// Per value: the number that it belongs to, in order.
    pub(in crate::group_agg::two_phase) numbers: Vec<u32>,
    /// The values, if somebody asks for them.
    pub(in crate::group_agg::two_phase) values: Option<ArrayRef>,
    /// Per call and value: whether the call accumulates or retracts it.
    pub(in crate::group_agg::two_phase) actions: Vec<Vec<u8>>,
}

/// A set in state and in the open frame, whatever the type of its values.
pub(in crate::group_agg::two_phase) trait StoredSet: Debug + Send {
    /// Takes cells into the frame.
    fn merge(&mut self, rows: &Numbered<'_>, cells: &ArrayRef) -> Result<(), OperatorError>;

    /// Merges the frame into state: `rows` are the frame's numbers with the groups and slots of their keys, in order. A row that removes its
    /// group leaves no values.
    fn end_frame(&mut self, table: &mut KeyedTable, rows: &Rows) -> Result<Deltas, OperatorError>;

    /// Whether there are values under a slot.
    fn has_values(&self, table: &mut KeyedTable, slot: u32) -> Result<bool, OperatorError>;

    /// Bytes that the frame takes.
    fn bytes(&self) -> usize;
}

/// The table of a set.
pub(in crate::group_agg) trait SetTable: Debug + Send {
    type Key: DistinctKey;
    type Marks: Marks;
    type Entries: Entries;

    fn register(shared: &Shared, table: &mut KeyedTable) -> Self;

    fn id(&self) -> EntriesId<Self::Entries>;

    /// How many calls share the set, and the type of its values.
    fn shape(&self) -> (usize, &DataType);

    /// The value at a position; what calls know of it goes to the first entry of `marks`.
    fn read<'a>(
        entries: &'a Self::Entries,
        position: u32,
        marks: &mut Self::Marks,
    ) -> <<Self::Key as DistinctKey>::Input as Input>::Item<'a>;

    /// Merges a value of the frame, and appends for each call what it does.
    fn merge(
        entries: &mut Self::Entries,
        slots: &Slots,
        slot: u32,
        item: <<Self::Key as DistinctKey>::Input as Input>::Item<'_>,
        frame: (&Self::Marks, usize),
        actions: &mut [Vec<u8>],
    ) -> Result<(), StateError>;
}

impl<K: DistinctKey> SetTable for Seen<K> {
    type Key = K;
    type Marks = SeenMarks;
    type Entries = MapTable<K, u64, JavaEquals>;

    fn register(shared: &Shared, table: &mut KeyedTable) -> Self {
        Seen::register(shared, table)
    }

    fn id(&self) -> EntriesId<Self::Entries> {
        self.seen
    }

    fn shape(&self) -> (usize, &DataType) {
        (self.calls, &self.ty)
    }

    fn read<'a>(entries: &'a Self::Entries, position: u32, marks: &mut SeenMarks) -> <K::Input as Input>::Item<'a> {
        let entry = entries.table().get(position);
        if let Some(seen) = marks.seen.first_mut() {
            *seen = entry.value;
        }
        entry.key.item()
    }

    fn merge(
        entries: &mut Self::Entries,
        slots: &Slots,
        slot: u32,
        item: <K::Input as Input>::Item<'_>,
        (marks, entry): (&SeenMarks, usize),
        actions: &mut [Vec<u8>],
    ) -> Result<(), StateError> {
        let position = entries.find_or_add(slots, slot, K::hash_item(item), |key| key.is(item), || K::own(item))?;
        let new = marks.seen[entry] & !*entries.value(position);
        if new != 0 {
            *entries.value_mut(position) |= new;
        }
        for (call, actions) in actions.iter_mut().enumerate() {
            actions.push(if new >> call & 1 != 0 { ACCUMULATE } else { 0 });
        }
        Ok(())
    }
}

impl<K: DistinctKey, C: Counts> SetTable for Counted<K, C> {
    type Key = K;
    type Marks = CountMarks;
    type Entries = MapTable<K, C, JavaEquals>;

    fn register(shared: &Shared, table: &mut KeyedTable) -> Self {
        Counted::register(shared, table)
    }

    fn id(&self) -> EntriesId<Self::Entries> {
        self.counts
    }

    fn shape(&self) -> (usize, &DataType) {
        (self.calls, &self.ty)
    }

    fn read<'a>(entries: &'a Self::Entries, position: u32, marks: &mut CountMarks) -> <K::Input as Input>::Item<'a> {
        let entry = entries.table().get(position);
        marks.of_mut(0).copy_from_slice(entry.value.as_slice());
        entry.key.item()
    }

    fn merge(
        entries: &mut Self::Entries,
        slots: &Slots,
        slot: u32,
        item: <K::Input as Input>::Item<'_>,
        (marks, entry): (&CountMarks, usize),
        actions: &mut [Vec<u8>],
    ) -> Result<(), StateError> {
        let position = entries.find_or_add(slots, slot, K::hash_item(item), |key| key.is(item), || K::own(item))?;
        // Flink writes, and refreshes, the value whether a count changes or not
        let counts = entries.value_mut(position).as_mut_slice();
        for ((count, other), actions) in counts.iter_mut().zip(marks.of(entry)).zip(actions) {
            let before = *count;
            *count = before.wrapping_add(*other);
            actions.push(match (before > 0, *count > 0) {
                (true, false) => RETRACT,
                (false, true) => ACCUMULATE,
                _ => 0,
            });
        }
        if counts.iter().all(|count| *count == 0) {
            entries.remove(position);
        }
        Ok(())
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(in crate::group_agg::two_phase) struct StoredValues<I: Carried, S: SetTable> {
    frame: FrameSet<I, S::Marks>,
    state: S,
    /// The type of the values, if a call asks for them.
    wanted: Option<DataType>,
}

impl<I: Carried, S: SetTable<Key = I::Key>> StoredValues<I, S> {
    /// Registers the state of a set.
    pub(in crate::group_agg::two_phase) fn new(shared: &Shared, wanted: bool, table: &mut KeyedTable) -> Self {
        Self {
            frame: FrameSet::new(shared.calls),
            state: S::register(shared, table),
            wanted: wanted.then(|| shared.ty.clone()),
        }
    }
}

impl<I: Carried, S: SetTable<Key = I::Key>> StoredSet for StoredValues<I, S> {
    fn merge(&mut self, rows: &Numbered<'_>, cells: &ArrayRef) -> Result<(), OperatorError> {
        self.frame.merge(rows, cells)
    }

    fn end_frame(&mut self, table: &mut KeyedTable, rows: &Rows) -> Result<Deltas, OperatorError> {
        let (entries, slots) = table.entries(self.state.id())?;
        let calls = self.frame.marks.calls();
        // A map of Flink has no value that a single call counts 0 times, but keeps those of several calls.
        let (order, ends) = self.frame.by_number(rows.len(), |marks, entry| calls > 1 || !marks.is_empty(entry));
        let mut deltas = Deltas {
            numbers: Vec::with_capacity(order.len()),
            values: None,
            actions: vec![Vec::with_capacity(order.len()); calls],
        };
        let mut start = 0;
        let numbers = ends.iter().zip(&rows.touched.groups).zip(&rows.actions);
        for (number, ((end, group), action)) in (0_u32..).zip(numbers) {
            let slot = rows.touched.slots[*group as usize];
            for entry in &order[start..*end] {
                let frame = (&self.frame.marks, *entry as usize);
                S::merge(entries, slots, slot, self.frame.value(*entry), frame, &mut deltas.actions)?;
                deltas.numbers.push(number);
            }
            start = *end;
            if action & EMPTY != 0 {
                entries.clear(slot);
            }
        }
        if let Some(ty) = &self.wanted {
            deltas.values = Some(I::gather(self.frame.values(), &order, ty)?);
        }
        self.frame.clear();
        Ok(deltas)
    }

    fn has_values(&self, table: &mut KeyedTable, slot: u32) -> Result<bool, OperatorError> {
        Ok(table.entries(self.state.id())?.0.table().has_entries(slot))
    }

    fn bytes(&self) -> usize {
        self.frame.frame_bytes()
    }
}
