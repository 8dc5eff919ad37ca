//! What one batch does to its groups: the rows by group, and what each row does.
//!
//! Everything that depends on the record count alone is decided here, once for all aggregates: which row is the first of
//! its group, which one is its last and deletes it, and which retractions are ignored because their group does not exist.
//! A group that retracted more than it has, which only a bundle leaves, ends where it gets back to 0.

use streamfusion_row::{Batch, RowKind};
use streamfusion_state::Touched;

use super::support::Retraction;
use crate::OperatorError;

/// The row is accumulated.
pub(super) const ACCUMULATE: u8 = 1;
/// The row is retracted.
pub(super) const RETRACT: u8 = 2;
/// The row creates its group.
pub(super) const FIRST: u8 = 4;
/// The row removes its group: the record count is 0 after it.
pub(super) const EMPTY: u8 = 8;

/// The rows of a batch by group. Groups are numbered per batch, in first-touch order.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The group of each row, the slot of each group.
    pub(super) touched: Touched,
    /// What each row does; 0 for a retraction that is ignored.
    pub(super) actions: Vec<u8>,
    /// Record count of each group: before the batch, then after it.
    pub(super) counts: Vec<i64>,
}

impl Rows {
    /// The number of rows.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.touched.groups.len()
    }

    /// Counts records: fills in `actions` and brings `counts` up to date.
    ///
    /// Errors if a row retracts where the plan promises rows that insert only.
    pub(super) fn count(&mut self, batch: &Batch, retraction: Retraction) -> Result<(), OperatorError> {
        let groups = &self.touched.groups;
        let counts = &mut self.counts;
        self.actions.clear();
        match batch.kinds() {
            None => self.actions.extend(groups.iter().map(|group| {
                let count = &mut counts[*group as usize];
                *count = count.wrapping_add(1);
                match *count {
                    1 => ACCUMULATE | FIRST,
                    0 => ACCUMULATE | EMPTY,
                    _ => ACCUMULATE,
                }
            })),
            Some(kinds) => {
                let kinds = kinds.values();
                if retraction == Retraction::None && kinds.iter().any(|kind| !is_accumulate(*kind)) {
                    return Err(OperatorError::UnexpectedRetraction);
                }
                self.actions.extend(groups.iter().zip(kinds.iter()).map(|(group, kind)| {
                    let count = &mut counts[*group as usize];
                    match (*count, is_accumulate(*kind)) {
                        (0, true) => {
                            *count = 1;
                            ACCUMULATE | FIRST
                        }
                        (0, false) => 0, // retracts a row that was never seen
                        (-1, true) => {
                            *count = 0;
                            ACCUMULATE | EMPTY
                        }
                        (_, true) => {
                            *count = count.wrapping_add(1);
                            ACCUMULATE
                        }
                        (1, false) => {
                            *count = 0;
                            RETRACT | EMPTY
                        }
                        (_, false) => {
                            *count = count.wrapping_sub(1);
                            RETRACT
                        }
                    }
                }));
            }
        }
        Ok(())
    }
}

/// Whether a row of this kind, a byte, is +I or +U.
#[inline]
pub(crate) fn is_accumulate(kind: u8) -> bool {
    kind == RowKind::Insert as u8 || kind == RowKind::UpdateAfter as u8
}
