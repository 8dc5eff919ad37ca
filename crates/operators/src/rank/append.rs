//! Top-N over rows that are only inserted.
//!
//! Follows: AppendOnlyTopNFunction, AppendOnlyTopNHelper, FastTop1Function, FastTop1Helper, Flink 2.2. Differences: none
//! without a state time-to-live, for then it does not show which partitions Flink has on the heap.

use streamfusion_row::RowKind;

use super::buffer::{Added, Arrival, Partition, Shift, shift};
use super::sort_key::SortKeys;
use crate::OperatorError;

impl<S: SortKeys> Partition<'_, S> {
    /// Takes a row that is in the range of the buffer.
    pub(super) fn append(&mut self, key: &S::Key, arrival: Arrival<'_>, numbered: bool) -> Result<(), OperatorError> {
        let added = self.add(key, arrival)?;
        if numbered {
            self.append_with_row_number(added);
        } else {
            self.append_without_row_number(added.position);
        }
        Ok(())
    }

    /// The same, and leaves it to others to say what changed.
    pub(super) fn append_silently(
        &mut self,
        key: &S::Key,
        arrival: Arrival<'_>,
        numbered: bool,
    ) -> Result<(), OperatorError> {
        self.add(key, arrival)?;
        if numbered {
            self.trim();
        } else if i64::try_from(self.buffer.total).unwrap_or(i64::MAX) > self.end {
            self.remove_last();
        }
        Ok(())
    }

    fn append_with_row_number(&mut self, added: Added) {
        let Added { place, position } = added;
        if let (Some(before), Some(own)) = (self.counted_before(place), self.buffer.groups.get(place)) {
            let behind = self.buffer.groups.from(place).skip(1).map(|(_, group)| group);
            let rank = before + i64::from(own.count);
            shift(self.out, self.end, rank, position, self.rows, behind, Shift::Back);
        }
        self.trim();
    }

    fn append_without_row_number(&mut self, position: u32) {
        if i64::try_from(self.buffer.total).unwrap_or(i64::MAX) > self.end
            && let Some(last) = self.remove_last()
        {
            if last == position {
                return;
            }
            self.out.emit(RowKind::Delete, last, 0);
        }
        self.out.emit(RowKind::Insert, position, 0);
    }

    /// Takes a row of a partition of which only the first row counts.
    pub(super) fn top1(&mut self, key: &S::Key, arrival: Arrival<'_>) -> Result<(), OperatorError> {
        match self.buffer.groups.first().map(|(old_key, group)| (key < old_key, group.first)) {
            None => {
                let added = self.add(key, arrival)?;
                self.out.emit(RowKind::Insert, added.position, 1);
            }
            Some((true, old)) => {
                let added = self.add(key, arrival)?;
                self.remove_last();
                self.out.update_before(old, 1);
                self.out.emit(RowKind::UpdateAfter, added.position, 1);
            }
            Some((false, _)) => {}
        }
        Ok(())
    }
}
