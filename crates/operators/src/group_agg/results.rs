//! Results of one aggregate before and after bundles.
//!
//! A group's result is noted when a bundle touches it first, and asked for again when the bundle ends; nothing in between is
//! made. Both are versions of the group's transition: see [`versions`](super::versions).

use arrow::datatypes::DataType;
use streamfusion_state::StateError;

use super::frontier::Frontier;
use super::versions::{Output, Versions};
use crate::OperatorError;

/// The results of the transitions of a frame.
#[derive(Debug)]
pub(super) struct Results<O: Output> {
    /// Before the open bundle, transition by transition.
    before: Vec<Option<O>>,
    /// Bytes that those have on the heap.
    heap: usize,
    /// Of the bundles that ended.
    versions: O::Builder,
    /// Whether they differ.
    changed: Vec<bool>,
}

impl<O: Output> Results<O> {
    /// No transitions.
    pub(super) fn new() -> Self {
        Self { before: Vec::new(), heap: 0, versions: O::builder(0), changed: Vec::new() }
    }

    /// Goes through the pieces of a batch: notes results where bundles begin and end, and calls `fold` for the rows of each.
    /// `accumulators` are those of the groups of the frame.
    #[inline]
    pub(super) fn fold<A>(
        &mut self,
        frontier: &Frontier,
        accumulators: &mut [A],
        value: impl Fn(&A) -> Option<O>,
        mut fold: impl FnMut(&mut [A], std::ops::Range<usize>) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        for piece in frontier.pieces() {
            for group in frontier.groups(piece.begun.clone()) {
                let before = value(&accumulators[*group as usize]);
                self.heap += before.as_ref().map_or(0, O::heap_bytes);
                self.before.push(before);
            }
            if !piece.rows.is_empty() {
                fold(accumulators, piece.rows.clone())?;
            }
            if let Some(ended) = &piece.ended {
                for (group, before) in frontier.groups(ended.clone()).iter().zip(self.before.drain(..)) {
                    let after = value(&accumulators[*group as usize]);
                    self.changed.push(match (&before, &after) {
                        (Some(before), Some(after)) => !before.same(after),
                        (None, None) => false,
                        _ => true,
                    });
                    O::push(&mut self.versions, before, after);
                }
                self.heap = 0;
            }
        }
        Ok(())
    }

    /// Ends the frame: the versions of all transitions, as a column of type `ty`. Sets `changed` where they differ.
    pub(super) fn finish(&mut self, changed: &mut [bool], ty: &DataType) -> Result<Versions, OperatorError> {
        for (changed, differs) in changed.iter_mut().zip(self.changed.drain(..)) {
            *changed |= differs;
        }
        O::finish(std::mem::replace(&mut self.versions, O::builder(0)), ty)
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        self.before.capacity() * size_of::<Option<O>>() + self.changed.capacity() + self.heap
    }
}
