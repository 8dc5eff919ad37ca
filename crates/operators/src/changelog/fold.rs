//! The fold itself: two stores per row.

use streamfusion_row::RowKind;

use super::rows::{BatchNumber, BundleRows, RowRef};
use super::transitions::{Transition, Transitions};
use crate::OperatorError;

/// Where the preimages of a [`Fold`] come from, and with it what a retraction means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preimages {
    /// From state: the caller has them, by [`Fold::load`]. A row of kind +I or +U is the new value of its key, -U and -D
    /// remove it, whatever they contain. Deletes of what is not there vanish.
    Loaded,
    /// From the changelog: the row of the first -U or -D is the preimage, until a value of the bundle itself is retracted.
    ///
    /// | last of the key | next | left |
    /// | --- | --- | --- |
    /// | +I, +U | +I, +U | the next |
    /// | +I, +U | -U, -D | neither |
    /// | -U, -D | -U, -D | the next |
    /// | -U, -D | +I, +U | both |
    Retracted,
}

/// The values of the keys of one frame, before and after the open bundle.
///
/// Keys are numbers from 0 in first-touch order of the frame: a number is either known or the next one. In a frame of
/// several bundles the postimages of one are the preimages of the next, so that state is read once per key and frame.
///
/// Follows: for [`Preimages::Loaded`] the bundles of ProcTimeMiniBatchDeduplicateKeepLastRowFunction; for
/// [`Preimages::Retracted`] JoinKeyContainsUniqueKeyBundle and InputSideHasUniqueKeyBundle, Flink 2.2. Differences: none per
/// key; Flink's order over keys is that of a hash map.
#[derive(Debug)]
pub struct Fold {
    preimages: Preimages,
    values: Vec<Value>,
    /// Keys below have their preimage, if there is one.
    loaded: usize,
    /// The keys of the open bundle in first-touch order.
    touched: Vec<u32>,
    /// Number of the open bundle in the frame, from 1.
    bundle: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Value {
    before: Option<RowRef>,
    after: Option<RowRef>,
    /// The last bundle that touched the key.
    bundle: u32,
}

impl Fold {
    /// No key is known.
    pub fn new(preimages: Preimages) -> Self {
        Self { preimages, values: Vec::new(), loaded: 0, touched: Vec::new(), bundle: 1 }
    }

    /// Folds rows into the open bundle: `keys` are the key numbers of the rows of `batch` from row `first_row` on, `kinds` their
    /// row kinds (absent: all +I). Errors if a key number is neither known nor the next one.
    pub fn push(
        &mut self,
        batch: BatchNumber,
        first_row: u32,
        keys: &[u32],
        kinds: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        let rows = (first_row..).map(|row| RowRef::new(batch, row)).zip(keys);
        let Some(kinds) = kinds else {
            for (row, key) in rows {
                self.touch(*key)?.after = Some(row);
            }
            return Ok(());
        };
        check_kinds(keys, kinds)?;
        match self.preimages {
            Preimages::Loaded => {
                for ((row, key), kind) in rows.zip(kinds) {
                    self.touch(*key)?.after = is_accumulate(*kind).then_some(row);
                }
            }
            Preimages::Retracted => {
                for ((row, key), kind) in rows.zip(kinds) {
                    let value = self.touch(*key)?;
                    if is_accumulate(*kind) {
                        value.after = Some(row);
                    } else if value.after.is_some() {
                        value.after = None;
                    } else {
                        value.before = Some(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// Folds in rows that only insert and replace only what they win against: `wins` gets the row and what the
    /// bundle has so far. The first row of a key in a bundle is always taken: see [`Fold::end_bundle_if`].
    pub fn push_winners(
        &mut self,
        batch: BatchNumber,
        first_row: u32,
        keys: &[u32],
        mut wins: impl FnMut(RowRef, RowRef) -> bool,
    ) -> Result<(), OperatorError> {
        for (row, key) in (first_row..).map(|row| RowRef::new(batch, row)).zip(keys) {
            let after = &mut self.touch(*key)?.after;
            if after.is_none_or(|current| wins(row, current)) {
                *after = Some(row);
            }
        }
        Ok(())
    }

    /// Without mini-batch: every row is a bundle of its own. Preimages must have been loaded before. No bundle may be open.
    pub fn push_each(
        &mut self,
        batch: BatchNumber,
        first_row: u32,
        keys: &[u32],
        kinds: Option<&[u8]>,
        transitions: &mut Transitions,
    ) -> Result<(), OperatorError> {
        if let Some(kinds) = kinds {
            check_kinds(keys, kinds)?;
        }
        for (position, (row, key)) in (first_row..).map(|row| RowRef::new(batch, row)).zip(keys).enumerate() {
            let value = known(&mut self.values, *key)?;
            let accumulates = kinds.is_none_or(|kinds| is_accumulate(kinds[position]));
            let (before, after) = (value.before, accumulates.then_some(row));
            value.before = after;
            transitions.push(Transition { key: *key, before, after });
        }
        self.loaded = self.values.len();
        Ok(())
    }

    /// The keys whose preimages were not loaded, which are those that became known since [`Fold::load`] or the end of a
    /// bundle.
    pub fn to_load(&self) -> std::ops::Range<usize> {
        self.loaded..self.values.len()
    }

    /// Sets the preimages of the next keys in their order, from the first of [`Fold::to_load`] on; keys that no row touched
    /// yet become known. A key that is not loaded before its first bundle ends has none.
    pub fn load(&mut self, preimages: impl IntoIterator<Item = Option<RowRef>>) {
        for before in preimages {
            match self.values.get_mut(self.loaded) {
                Some(value) => value.before = before,
                None => self.values.push(Value { before, ..Value::default() }),
            }
            self.loaded += 1;
        }
    }

    /// The keys that the open bundle touched, in first-touch order.
    pub fn touched(&self) -> &[u32] {
        &self.touched
    }

    /// Keys of the frame.
    pub fn num_keys(&self) -> usize {
        self.values.len()
    }

    /// Ends the bundle: appends what is left of it. The next bundle begins, in the same frame.
    pub fn end_bundle(&mut self, transitions: &mut Transitions) {
        self.end_bundle_if(transitions, |_| true);
    }

    /// [`Fold::end_bundle`], where what the bundle has of a key must win against the preimage. Where it does not, nothing is
    /// left of it, and the next bundle finds the same preimage.
    pub fn end_bundle_if(&mut self, transitions: &mut Transitions, mut wins: impl FnMut(&Transition) -> bool) {
        for key in self.touched.drain(..) {
            // a key is touched once it is known
            let Some(value) = self.values.get_mut(key as usize) else { continue };
            let transition = Transition { key, before: value.before, after: value.after.take() };
            let wins = wins(&transition);
            if wins {
                transitions.push(transition);
            }
            value.before = match self.preimages {
                Preimages::Loaded if wins => transition.after,
                Preimages::Loaded => transition.before,
                Preimages::Retracted => None,
            };
        }
        self.loaded = self.values.len();
        // there are no more bundles in a frame than rows, which are counted in 32 bits
        self.bundle = self.bundle.wrapping_add(1);
    }

    /// Ends the frame: forgets all keys. No bundle may be open, for its rows would be lost.
    pub fn end_frame(&mut self) {
        debug_assert!(self.touched.is_empty(), "an open bundle is dropped");
        self.values.clear();
        self.touched.clear();
        self.loaded = 0;
        self.bundle = 1;
    }

    /// Drops from `rows` what no key refers to, if that is most of them. `rows` must hold nothing that others refer to.
    pub fn compact(&mut self, rows: &mut BundleRows) -> Result<(), OperatorError> {
        if rows.wants_compaction(2 * self.values.len()) {
            self.compact_now(rows)?;
        }
        Ok(())
    }

    pub(super) fn compact_now(&mut self, rows: &mut BundleRows) -> Result<(), OperatorError> {
        rows.compact(self.values.iter_mut().flat_map(|value| [value.before.as_mut(), value.after.as_mut()]).flatten())
    }

    /// Bytes that the keys take, without the rows.
    pub fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<Value>() + self.touched.capacity() * size_of::<u32>()
    }

    /// The value of a key, made if the key is the next one, touched by the open bundle.
    #[inline]
    fn touch(&mut self, key: u32) -> Result<&mut Value, OperatorError> {
        let value = known(&mut self.values, key)?;
        if value.bundle != self.bundle {
            value.bundle = self.bundle;
            self.touched.push(key);
        }
        Ok(value)
    }
}

/// The value of a key, made if the key is the next one.
#[inline]
fn known(values: &mut Vec<Value>, key: u32) -> Result<&mut Value, OperatorError> {
    let known = values.len();
    if key as usize == known {
        values.push(Value::default());
    }
    values
        .get_mut(key as usize)
        .ok_or_else(|| OperatorError::Internal(format!("key number {key} where {known} keys are known")))
}

fn check_kinds(keys: &[u32], kinds: &[u8]) -> Result<(), OperatorError> {
    if kinds.len() != keys.len() {
        return Err(OperatorError::Internal(format!("{} row kinds for {} rows", kinds.len(), keys.len())));
    }
    Ok(())
}

#[inline]
fn is_accumulate(kind: u8) -> bool {
    kind == RowKind::Insert as u8 || kind == RowKind::UpdateAfter as u8
}
