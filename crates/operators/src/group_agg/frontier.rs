//! The dirty-key frontier: which groups a bundle touched, and what it did to each.
//!
//! Bundles that end in one batch share a *frame* (see [`Split`](crate::bundle::Split)): its groups are numbered once. What one
//! bundle does to one group is a *transition*; they stand in first-touch order, bundle by bundle, and each comes to one
//! insert, update or delete, or to nothing. The frontier counts records, and with them decides everything that does not depend on the
//! values of aggregates, as [`Rows`] does for rows that emit one by one:
//!
//! - a group is deleted by the count that it has when the bundle ends, not by one in between, which may be 0 or less;
//! - a group without state begins with its first row that accumulates: retractions in front of it are dropped, later ones
//!   are not.
//!
//! Follows: MiniBatchGroupAggFunction, Flink 2.2. Differences: where only dropped retractions are left of a group, Flink 2.2
//! forgets the rest of the bundle (a fault that its main branch does not have); here the next group is next.

use std::ops::Range;

use super::rows::{ACCUMULATE, EMPTY, FIRST, RETRACT, Rows, is_accumulate};
use super::support::Retraction;
use crate::OperatorError;

/// Rows of one bundle in a batch, and whether it ends behind them.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// The rows; none if the bundle ends for another reason than its rows.
    pub(super) rows: Range<usize>,
    /// The transitions that these rows began.
    pub(super) begun: Range<usize>,
    /// All transitions of the bundle, if it ends.
    pub(super) ended: Option<Range<usize>>,
}

/// A group of the frame.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    /// The last bundle that touched it, from 1.
    bundle: u32,
    /// Whether it has no state and no row since the bundle began: it is not there.
    absent: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Frontier {
    retraction: Retraction,
    /// Number of the open bundle in the frame.
    bundle: u32,
    groups: Vec<Group>,
    /// Per transition: its group.
    transitions: Vec<u32>,
    /// Per transition: the records of its group before the bundle.
    before: Vec<i64>,
    /// The same after it. Those of the open bundle are missing.
    after: Vec<i64>,
    /// Per transition that ended: what it does to its group, as the action of a single row would say it.
    actions: Vec<u8>,
    pieces: Vec<Piece>,
}

impl Frontier {
    /// No group was touched.
    pub(super) fn new(retraction: Retraction) -> Self {
        Self {
            retraction,
            bundle: 1,
            groups: Vec::new(),
            transitions: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            actions: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Forgets the pieces that were folded, and begins those of another batch.
    pub(super) fn begin_batch(&mut self) {
        self.pieces.clear();
    }

    /// Counts the records of some rows of the batch, which belong to the open bundle: fills in their `actions` and brings `counts`
    /// up to date, those of all groups of the frame. [`FIRST`] is set where a group begins, whatever is left of an earlier one.
    ///
    /// Errors if a row retracts where the plan promises rows that insert only.
    pub(super) fn count(
        &mut self,
        rows: &mut Rows,
        kinds: Option<&[u8]>,
        range: Range<usize>,
    ) -> Result<(), OperatorError> {
        let begun = self.transitions.len();
        self.groups.resize(rows.touched.slots.len(), Group::default());
        let groups = &rows.touched.groups[range.clone()];
        let kinds = kinds.map(|kinds| &kinds[range.clone()]);
        match self.retraction {
            Retraction::None => {
                if kinds.is_some_and(|kinds| kinds.iter().any(|kind| !is_accumulate(*kind))) {
                    return Err(OperatorError::UnexpectedRetraction);
                }
                for group in groups {
                    let count = &mut rows.counts[*group as usize];
                    let state = &mut self.groups[*group as usize];
                    if state.bundle != self.bundle {
                        state.bundle = self.bundle;
                        self.transitions.push(*group);
                        self.before.push(*count);
                    }
                    *count = count.wrapping_add(1);
                }
                // what does not retract never empties a group, so that a first row finds nothing of another one
                rows.actions.resize(rows.actions.len() + groups.len(), ACCUMULATE);
            }
            Retraction::Applied => {
                for (row, group) in groups.iter().enumerate() {
                    let count = &mut rows.counts[*group as usize];
                    let state = &mut self.groups[*group as usize];
                    if state.bundle != self.bundle {
                        *state = Group { bundle: self.bundle, absent: *count == 0 };
                        self.transitions.push(*group);
                        self.before.push(*count);
                    }
                    let action = match (state.absent, kinds.is_none_or(|kinds| is_accumulate(kinds[row]))) {
                        (true, false) => 0, // retracts a row that was never seen
                        (false, false) => RETRACT,
                        (false, true) => ACCUMULATE,
                        (true, true) => {
                            state.absent = false;
                            ACCUMULATE | FIRST
                        }
                    };
                    if action & ACCUMULATE != 0 {
                        *count = count.wrapping_add(1);
                    } else if action & RETRACT != 0 {
                        *count = count.wrapping_sub(1);
                    }
                    rows.actions.push(action);
                }
            }
        }
        self.pieces.push(Piece { rows: range, begun: begun..self.transitions.len(), ended: None });
        Ok(())
    }

    /// How many groups the open bundle touched.
    pub(super) fn touched(&self) -> usize {
        self.transitions.len() - self.after.len()
    }

    /// Ends the open bundle, behind the rows that were counted last.
    pub(super) fn end_bundle(&mut self, rows: &Rows) {
        let ended = self.after.len()..self.transitions.len();
        for (group, before) in self.transitions.iter().zip(&self.before).skip(ended.start) {
            let after = rows.counts[*group as usize];
            let first = if *before == 0 { FIRST } else { 0 };
            let empty = if after == 0 { EMPTY } else { 0 };
            self.actions.push(ACCUMULATE | first | empty);
            self.after.push(after);
        }
        match self.pieces.last_mut() {
            Some(piece) if piece.ended.is_none() => piece.ended = Some(ended),
            _ => {
                let end = ended.end;
                self.pieces.push(Piece { rows: 0..0, begun: end..end, ended: Some(ended) });
            }
        }
        // there are no more bundles in a frame than rows, which are counted in 32 bits
        self.bundle = self.bundle.wrapping_add(1);
    }

    /// The pieces that were counted since [`Frontier::begin_batch`], in order.
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether there are rows in them.
    pub(super) fn has_rows(&self) -> bool {
        self.pieces.iter().any(|piece| !piece.rows.is_empty())
    }

    /// The groups of some transitions.
    pub(super) fn groups(&self, transitions: Range<usize>) -> &[u32] {
        &self.transitions[transitions]
    }

    /// The groups of all transitions of the frame, once it ended; none if they are the groups of the frame as they stand.
    pub(super) fn gathered(&self) -> Option<&[u32]> {
        (self.bundle > 2).then_some(&self.transitions)
    }

    /// The records before and after each transition of the frame.
    pub(super) fn counts(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.before.iter().copied().zip(self.after.iter().copied())
    }

    /// What each transition of the frame does to its group.
    pub(super) fn actions(&self) -> &[u8] {
        &self.actions
    }

    /// Ends the frame, after its last bundle.
    pub(super) fn end_frame(&mut self) {
        debug_assert_eq!(self.touched(), 0, "an open bundle is dropped");
        self.bundle = 1;
        self.groups.clear();
        self.transitions.clear();
        self.before.clear();
        self.after.clear();
        self.actions.clear();
        self.pieces.clear();
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<Group>()
            + self.transitions.capacity() * size_of::<u32>()
            + (self.before.capacity() + self.after.capacity()) * size_of::<i64>()
            + self.actions.capacity()
            + self.pieces.capacity() * size_of::<Piece>()
    }
}
