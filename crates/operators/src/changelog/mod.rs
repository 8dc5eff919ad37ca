//! Folds the changes of one bundle to at most one transition per key, and emits changelogs by reference.
//!
//! Flink emits after a bundle, not after a row; without the fold a hot key costs one output per input. Four parts, used
//! one after the other or alone:
//!
//! 1. [`BundleRows`] keeps the batches that rows came in, and those loaded from state. A row is a [`RowRef`] into them and
//!    nothing else, so that a row which is replaced costs two stores.
//! 2. [`Fold`] keeps per key the first preimage and the last postimage. Keys come as numbers: whoever looked up the keys of
//!    the rows numbers those of the frame, from 0 in first-touch order.
//! 3. [`Transitions`] are what is left at the end of bundles; equal updates are dropped by comparing columns.
//! 4. [`Changes`] are the rows to emit, with their kinds, gathered as they are pulled.
//!
//! A *frame* is what shares kept rows, key numbers and loaded state: one bundle that spans batches, or all bundles that
//! end in one batch (see [`crate::bundle::Split`]). Without mini-batch every row is a bundle ([`Fold::push_each`]) and a
//! batch is a frame.
//!
//! Invariants: keys leave in first-touch order of their bundle; a preimage is the value before the bundle, never one inside
//! it; -U stands right before its +U. How rows are cut into batches makes no difference. When a bundle ends is not decided
//! here. State is not touched here either: the caller loads preimages and commits transitions.

mod changes;
mod equal;
mod fold;
mod rows;
#[cfg(test)]
mod tests;
mod transitions;

pub use changes::{Changes, UpdateBefore};
pub use equal::{Floats, RowPair, equal_pairs};
pub use fold::{Fold, Preimages};
pub(crate) use rows::value_bytes_of_rows;
pub use rows::{BatchNumber, BundleRows, RowRef};
pub use transitions::{Emission, Transition, Transitions, Unseen};
