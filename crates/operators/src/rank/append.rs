//! Top-N over rows that are only inserted.
//!
//! Follows: AppendOnlyTopNFunction, AppendOnlyTopNHelper, FastTop1Function, FastTop1Helper, Flink 2.2. Differences: none
//! without a state time-to-live, for then it does not show which partitions Flink has on the heap.

use streamfusion_row::RowKind;

use super::buffer::{Arrival, Partition};
use super::sort_key::SortKeys;
use crate::OperatorError;

impl<S: SortKeys> Partition<'_, S> {
    /// Takes a row that is in the range of the buffer.
    pub(super) fn append(&mut self, key: &S::Key, arrival: Arrival<'_>, numbered: bool) -> Result<(), OperatorError> {
        let position = self.add(key, arrival)?;
        if numbered {
            self.append_with_row_number(key, position)
        } else {
            self.append_without_row_number(position)
        }
        Ok(())
    }

    fn append_with_row_number(&mut self, key: &S::Key, position: u32) {
        let Self { end, buffer, rows, out, .. } = self;
        let end = *end;
        let (mut rank, mut current) = (0_i64, None);
        let mut groups = buffer.groups.iter();
        let mut last = None;
        while rank <= end {
            let Some((other, group)) = groups.next() else { break };
            last = Some(other);
            match current {
                None => {
                    rank += i64::from(group.len);
                    current = (other == key).then_some(position);
                }
                Some(mut row) => {
                    for previous in Self::walk(rows, *group) {
                        if rank > end {
                            break;
                        }
                        Self::shift(out, end, rank, previous, row);
                        row = previous;
                        rank += 1;
                    }
                    current = Some(row);
                }
            }
        }
        if rank <= end
            && let Some(row) = current
        {
            out.ranked(RowKind::Insert, row, rank, end);
        }
        if groups.next().is_some() {
            let last = last.cloned();
            self.remove_behind(last.as_ref());
        }
    }

    fn append_without_row_number(&mut self, position: u32) {
        if i64::try_from(self.buffer.total).unwrap_or(i64::MAX) > self.end
            && let Some(last) = self.rows.last(self.slot)
            && let Some(key) = self.buffer.groups.last_key_value().map(|(key, _)| key.clone())
        {
            self.remove(&key, last);
            if last == position {
                return;
            }
            self.out.emit(RowKind::Delete, last, 0);
        }
        self.out.emit(RowKind::Insert, position, 0);
    }

    /// Takes a row of a partition of which only the first row counts.
    pub(super) fn top1(&mut self, key: &S::Key, arrival: Arrival<'_>) -> Result<(), OperatorError> {
        match self.buffer.groups.first_key_value().map(|(key, group)| (key.clone(), group.first)) {
            None => {
                let position = self.add(key, arrival)?;
                self.out.emit(RowKind::Insert, position, 1);
            }
            Some((old_key, old)) if *key < old_key => {
                let position = self.add(key, arrival)?;
                self.remove(&old_key, old);
                self.out.update_before(old, 1);
                self.out.emit(RowKind::UpdateAfter, position, 1);
            }
            Some(_) => {}
        }
        Ok(())
    }
}
