//! The maps of slots: out of state into cells, and cells into state value by value.
//!
//! An aggregate over windows keeps a DISTINCT set per key and slice. The local phase hands on what its slots have seen, and the global one
//! merges it; what is new to a call then is a row of it.
//!
//! Follows: DistinctAggCodeGen.merge, Flink 2.2. Differences: none; Flink's order of values is that of a hash map.

use arrow::array::ArrayRef;
use streamfusion_state::{Entries, KeyedTable, Touched};

use super::cell::{Cells, Cursor, binary};
use super::marks::Marks;
use super::stored::SetTable;
use super::value::Carried;
use crate::OperatorError;
use crate::group_agg::distinct::DistinctKey;
use crate::group_agg::slots::MergedRows;

/// What a set has, as columns have it.
type ValueOf<S> = <<S as SetTable>::Key as DistinctKey>::Input;

/// A set whose slots are handed on between two phases.
pub(in crate::group_agg) trait SlotCells {
    /// What each slot has seen: a cell per slot.
    fn cells(&self, table: &mut KeyedTable, slots: &[u32]) -> Result<ArrayRef, OperatorError>;

    /// Merges cells, row by row, into the slots that `touched` has for them. What comes back are the values, with the groups of
    /// `touched`, and what each call does with them.
    fn merge_cells(
        &self,
        table: &mut KeyedTable,
        touched: &Touched,
        cells: &ArrayRef,
    ) -> Result<MergedRows, OperatorError>;
}

impl<S: SetTable<Key: DistinctKey<Input: Carried<Key = S::Key>>>> SlotCells for S {
    fn cells(&self, table: &mut KeyedTable, slots: &[u32]) -> Result<ArrayRef, OperatorError> {
        let (calls, _) = self.shape();
        let (entries, _) = table.entries(self.id())?;
        let mut marks = S::Marks::new(calls);
        marks.add();
        let mut positions = Vec::new();
        let mut cells = Cells::with_capacity(slots.len());
        for slot in slots {
            positions.clear();
            positions.extend(entries.table().of_slot(*slot));
            cells.open::<S::Marks>(calls, positions.len());
            for position in &positions {
                ValueOf::<S>::write(S::read(entries, *position, &mut marks), cells.bytes());
                marks.write(0, cells.bytes());
            }
            cells.close()?;
        }
        cells.finish()
    }

    fn merge_cells(
        &self,
        table: &mut KeyedTable,
        touched: &Touched,
        cells: &ArrayRef,
    ) -> Result<MergedRows, OperatorError> {
        let (calls, ty) = self.shape();
        let cells = binary(cells)?;
        let (entries, slots) = table.entries(self.id())?;
        let mut marks = S::Marks::new(calls);
        let mut values = <ValueOf<S> as Carried>::Store::default();
        let (mut groups, mut actions) = (Vec::new(), vec![Vec::new(); calls]);
        for (row, group) in touched.groups.iter().enumerate() {
            let slot = touched.slots[*group as usize];
            let mut cell = Cursor::open_set::<S::Marks>(cells.value(row), calls)?;
            for _ in 0..cell.entries()? {
                let item = ValueOf::<S>::read(&mut cell)?;
                marks.clear();
                marks.add();
                marks.merge(0, &mut cell)?;
                S::merge(entries, slots, slot, item, (&marks, 0), &mut actions)?;
                ValueOf::<S>::push(&mut values, item);
                groups.push(*group);
            }
            cell.close()?;
        }
        let all = u32::try_from(groups.len()).map_err(|_| OperatorError::TooLarge)?;
        let values = ValueOf::<S>::gather(&values, &(0..all).collect::<Vec<_>>(), ty)?;
        Ok(MergedRows { groups, values, actions })
    }
}
