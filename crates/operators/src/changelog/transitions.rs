//! What is left of a bundle: per key the value before it and the one after it.

use arrow::buffer::BooleanBuffer;
use streamfusion_row::RowKind;

use super::changes::{Changes, UpdateBefore};
use super::equal::{Floats, RowPair, equal_pairs};
use super::rows::{BundleRows, RowRef};
use crate::OperatorError;

/// What a bundle does to one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The key's number in the frame.
    pub key: u32,
    /// The preimage: the value before the bundle.
    pub before: Option<RowRef>,
    /// The postimage: the value after the bundle.
    pub after: Option<RowRef>,
}

/// The transitions of one bundle in first-touch order, or of several bundles one after the other. None is without a
/// preimage and a postimage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transitions(Vec<Transition>);

/// The kind of a value whose key has no preimage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// +I.
    Insert,
    /// +U: nobody asked whether there is a preimage, because neither -U nor +I is wanted downstream.
    UpdateAfter,
}

/// How transitions become changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emission {
    /// Whether -U goes out before +U.
    pub update_before: UpdateBefore,
    /// What goes out for a key without a preimage.
    pub unseen: Unseen,
}

impl Transitions {
    /// No transitions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a transition, unless its key was created and deleted, or never there.
    #[inline]
    pub fn push(&mut self, transition: Transition) {
        if transition.before.is_some() || transition.after.is_some() {
            self.0.push(transition);
        }
    }

    /// The transitions.
    pub fn as_slice(&self) -> &[Transition] {
        &self.0
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Transition>()
    }

    /// Drops updates whose rows are equal in `columns`. Not to be called where state has a time to live: then Flink emits
    /// equal updates as well, so that downstream state stays alive.
    pub fn cancel_equal(
        &mut self,
        rows: &BundleRows,
        columns: impl IntoIterator<Item = usize>,
        floats: Floats,
    ) -> Result<(), OperatorError> {
        let pairs = self.0.iter().filter_map(|transition| match (transition.before, transition.after) {
            (Some(left), Some(right)) => Some(RowPair { left, right }),
            _ => None,
        });
        let mut equal = equal_pairs(rows, pairs, columns, floats)?.into_iter();
        // one verdict per update, in order
        self.0.retain(|transition| {
            transition.before.is_none() || transition.after.is_none() || !equal.next().unwrap_or_default()
        });
        Ok(())
    }

    /// The rows of all postimages, in order: for a condition to be evaluated on, and for state.
    pub fn postimages(&self) -> impl Iterator<Item = RowRef> + '_ {
        self.0.iter().filter_map(|transition| transition.after)
    }

    /// Takes away the postimages that do not pass: an update becomes a delete, an insert vanishes, and the next transition of the
    /// key finds no preimage. `passes` has one bit for each of [`Transitions::postimages`]; errors if it has not.
    pub fn retain_postimages(&mut self, passes: &BooleanBuffer) -> Result<(), OperatorError> {
        let postimages = self.postimages().count();
        if passes.len() != postimages {
            return Err(OperatorError::Internal(format!("{} verdicts on {postimages} rows", passes.len())));
        }
        if passes.count_set_bits() == postimages {
            return Ok(());
        }
        // one verdict per postimage, in order
        let mut passes = passes.iter();
        let mut gone = vec![false; self.0.iter().map(|transition| transition.key as usize + 1).max().unwrap_or(0)];
        for transition in &mut self.0 {
            let gone = &mut gone[transition.key as usize];
            if *gone {
                transition.before = None;
            }
            if transition.after.is_some() {
                *gone = !passes.next().unwrap_or_default();
                if *gone {
                    transition.after = None;
                }
            }
        }
        self.0.retain(|transition| transition.before.is_some() || transition.after.is_some());
        Ok(())
    }

    /// One transition per key, which does what all of them do one after the other: the first preimage, the last postimage.
    /// What has to be written to state at the end of a frame.
    pub fn composed(&self) -> Transitions {
        let mut places: Vec<Option<usize>> = Vec::new();
        let mut composed: Vec<Transition> = Vec::with_capacity(self.0.len());
        for transition in &self.0 {
            let key = transition.key as usize;
            if key >= places.len() {
                places.resize(key + 1, None);
            }
            match places[key].and_then(|place| composed.get_mut(place)) {
                Some(first) => first.after = transition.after,
                None => {
                    places[key] = Some(composed.len());
                    composed.push(*transition);
                }
            }
        }
        composed.retain(|transition| transition.before.is_some() || transition.after.is_some());
        Self(composed)
    }

    /// Forgets all transitions.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends the rows to emit: key by key, -U right before +U.
    pub fn emit(&self, emission: Emission, changes: &mut Changes) {
        let unseen = match emission.unseen {
            Unseen::Insert => RowKind::Insert,
            Unseen::UpdateAfter => RowKind::UpdateAfter,
        };
        for transition in &self.0 {
            match (transition.before, transition.after) {
                (None, Some(after)) => changes.push(unseen, after),
                (Some(before), Some(after)) => {
                    if emission.update_before == UpdateBefore::Emit {
                        changes.push(RowKind::UpdateBefore, before);
                    }
                    changes.push(RowKind::UpdateAfter, after);
                }
                (Some(before), None) => changes.push(RowKind::Delete, before),
                (None, None) => {} // none is left of these
            }
        }
    }
}
