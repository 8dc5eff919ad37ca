//! Puts the fragments of a batch together again, in the order its rows had.
//!
//! Knows its own range of key groups, hence which of a parent's fragments come to it, and waits for those. Fragments of one
//! producer arrive in the order in which they were sent, so a producer has at most one incomplete parent here, and what waits
//! is bounded by a batch per producer. Anything else means that a record was lost or came twice, which is an error.
//!
//! The ordinals of all fragments are ascending; they are merged in one pass over the row numbers of the parent.
//!
//! Fragments of an older epoch were restored from a checkpoint. Some of their siblings may have been processed before it, so
//! they are delivered at once and alone. Within a key group the order stays, and no key has rows in two groups.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::UInt32Array;
use streamfusion_plan::types::LogicalType;

use super::pending::{self, PendingError};
use super::{Epoch, FragmentError, Parent, owns, wire};
use crate::batch::Batch;
use crate::gather::{GatherError, Permuter};
use crate::hash::KeyGroup;

/// Fragments that do not fit together.
#[derive(Debug, thiserror::Error)]
pub enum ReassemblyError {
    /// Not a fragment.
    #[error(transparent)]
    Fragment(#[from] FragmentError),
    /// A fragment of a key group that another subtask owns.
    #[error("a fragment of key group {group} came to the owner of {first} to {last}", group = .group.0, first = .first.0, last = .last.0)]
    NotOwned {
        /// The fragment's key group.
        group: KeyGroup,
        /// The first key group of this subtask.
        first: KeyGroup,
        /// The last one.
        last: KeyGroup,
    },
    /// A fragment that came before.
    #[error("the fragment of key group {group} of batch {sequence} came twice", group = .group.0)]
    Duplicate {
        /// Its key group.
        group: KeyGroup,
        /// Number of its parent.
        sequence: u64,
    },
    /// The next parent of a producer began before all fragments of the one before had come.
    #[error("batch {next} began while {missing} fragments of batch {sequence} were missing")]
    Missing {
        /// Number of the incomplete parent.
        sequence: u64,
        /// Its missing fragments.
        missing: usize,
        /// Number of the new one.
        next: u64,
    },
    /// Two fragments contradict each other about their parent.
    #[error("the fragments of batch {sequence} contradict each other: {what}")]
    Contradiction {
        /// Number of the parent.
        sequence: u64,
        /// About what.
        what: &'static str,
    },
    /// The rows cannot be gathered.
    #[error(transparent)]
    Gather(#[from] GatherError),
    /// Fragments out of a checkpoint cannot be read.
    #[error(transparent)]
    Pending(#[from] PendingError),
}

/// Puts fragments together. See the module's documentation.
#[derive(Debug)]
pub struct Reassembler {
    types: Vec<LogicalType>,
    first: KeyGroup,
    last: KeyGroup,
    /// Order of the current epoch; what is below it is of an older attempt.
    order: u64,
    pending: HashMap<Epoch, Pending>,
    /// Number of the last complete parent of each producer.
    completed: HashMap<Epoch, u64>,
    /// For each row number of a parent where its row is, while fragments are merged.
    places: Vec<u32>,
    permuter: Permuter,
}

/// A parent of which fragments are missing.
#[derive(Debug)]
struct Pending {
    parent: Arc<Parent>,
    missing: usize,
    fragments: Vec<Batch>,
    bytes: usize,
}

/// Marks a row number that no fragment has.
const NOWHERE: u32 = u32::MAX;

impl Reassembler {
    /// For rows of these types and the owner of the key groups `first..=last`, in the epoch of this order.
    pub fn new(types: Vec<LogicalType>, first: KeyGroup, last: KeyGroup, order: u64) -> Self {
        Self {
            types,
            first,
            last,
            order,
            pending: HashMap::new(),
            completed: HashMap::new(),
            places: Vec::new(),
            permuter: Permuter::default(),
        }
    }

    /// Takes a fragment in its wire form; see [`Reassembler::push`].
    pub fn push_encoded(&mut self, bytes: &[u8]) -> Result<Option<Batch>, ReassemblyError> {
        let fragment = wire::decode(bytes, &self.types)?;
        self.take(fragment, bytes.len())
    }

    /// Takes a fragment; returns all of its parent's rows of this subtask, in their order, if it was the last one. A fragment
    /// of an older epoch is returned as it is.
    pub fn push(&mut self, batch: Batch) -> Result<Option<Batch>, ReassemblyError> {
        let bytes = batch.bytes();
        self.take(batch, bytes)
    }

    /// Takes a fragment of so many bytes.
    fn take(&mut self, batch: Batch, bytes: usize) -> Result<Option<Batch>, ReassemblyError> {
        let (Some(fragment), Some(group)) = (batch.fragment(), batch.key_group().map(KeyGroup)) else {
            return Err(FragmentError::NoFragment.into());
        };
        let (first, last) = (self.first, self.last);
        if !owns((first, last), group) {
            return Err(ReassemblyError::NotOwned { group, first, last });
        }
        let parent = Arc::clone(&fragment.parent);
        let (epoch, sequence) = (parent.epoch, parent.sequence);
        if epoch.order < self.order {
            return Ok(Some(batch.into_rows()));
        }
        if self.completed.get(&epoch).is_some_and(|completed| sequence <= *completed) {
            return Err(ReassemblyError::Duplicate { group, sequence });
        }
        let complete = match self.pending.entry(epoch) {
            Entry::Vacant(entry) => {
                let siblings = parent.manifest.count(first, last);
                if siblings <= 1 {
                    self.completed.insert(epoch, sequence);
                    return Ok(Some(batch.into_rows()));
                }
                entry.insert(Pending { parent, missing: siblings - 1, fragments: vec![batch], bytes });
                false
            }
            Entry::Occupied(mut entry) => {
                let pending = entry.get_mut();
                pending.add(group, parent, batch, bytes)?;
                pending.missing == 0
            }
        };
        if !complete {
            return Ok(None);
        }
        let fragments = self.pending.remove(&epoch).map(|pending| pending.fragments).unwrap_or_default();
        self.completed.insert(epoch, sequence);
        self.merge(sequence, &fragments).map(Some)
    }

    /// Whether a parent is incomplete: what comes behind it must wait.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Bytes that pending fragments take.
    pub fn bytes(&self) -> usize {
        self.pending.values().map(|pending| pending.bytes).sum()
    }

    /// The key groups of pending fragments, ascending.
    pub fn pending_key_groups(&self) -> Vec<KeyGroup> {
        let mut groups: Vec<_> = self.fragments().filter_map(|batch| batch.key_group().map(KeyGroup)).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// The pending fragments of a key group as they are stored in a checkpoint.
    pub fn snapshot(&self, group: KeyGroup) -> Result<Vec<u8>, ReassemblyError> {
        let fragments = self.fragments().filter(|batch| batch.key_group() == Some(group.0));
        let fragments = fragments.map(wire::encode).collect::<Result<Vec<_>, _>>()?;
        Ok(pending::encode(group, &fragments)?)
    }

    /// The fragments that a checkpoint has of a key group, each one to be delivered alone, in this order, before anything else.
    pub fn restore(&self, group: KeyGroup, bytes: &[u8]) -> Result<Vec<Batch>, ReassemblyError> {
        let (first, last) = (self.first, self.last);
        if !owns((first, last), group) {
            return Err(ReassemblyError::NotOwned { group, first, last });
        }
        let mut batches = Vec::new();
        for (index, fragment) in pending::decode(group, bytes)?.into_iter().enumerate() {
            let batch = wire::decode(fragment, &self.types)?;
            if batch.key_group() != Some(group.0) {
                return Err(PendingError::Foreign { group, index }.into());
            }
            batches.push(batch.into_rows());
        }
        Ok(batches)
    }

    fn fragments(&self) -> impl Iterator<Item = &Batch> {
        self.pending.values().flat_map(|pending| &pending.fragments)
    }

    fn merge(&mut self, sequence: u64, fragments: &[Batch]) -> Result<Batch, ReassemblyError> {
        let contradiction = |what| ReassemblyError::Contradiction { sequence, what };
        let ordinals = || fragments.iter().filter_map(|batch| batch.fragment()).flat_map(|f| f.ordinals.iter());
        let rows = fragments.iter().map(Batch::num_rows).sum::<usize>();
        let end = ordinals().copied().max().map_or(0, |last| last as usize + 1);
        let order: Vec<u32> = if end <= rows.saturating_mul(MAX_SPARSENESS) {
            self.places.clear();
            self.places.resize(end, NOWHERE);
            for (place, ordinal) in (0..).zip(ordinals()) {
                if let Some(slot) = self.places.get_mut(*ordinal as usize) {
                    *slot = place;
                }
            }
            self.places.iter().copied().filter(|place| *place != NOWHERE).collect()
        } else {
            let mut places: Vec<(u32, u32)> = ordinals().copied().zip(0..).collect();
            places.sort_unstable();
            places.dedup_by_key(|(ordinal, _)| *ordinal);
            places.into_iter().map(|(_, place)| place).collect()
        };
        if order.len() != rows {
            return Err(contradiction("a row is in two of them"));
        }
        let same_types = |a: &Batch, b: &Batch| {
            a.columns().iter().map(|c| c.data_type()).eq(b.columns().iter().map(|c| c.data_type()))
        };
        if fragments.windows(2).any(|pair| !same_types(&pair[0], &pair[1])) {
            return Err(contradiction("the types of the columns"));
        }
        let joined = Batch::concat(fragments)?;
        Ok(self.permuter.permute(&joined, &UInt32Array::from(order))?)
    }
}

/// How many times more row numbers than rows there may be, so that a pass over all of them is cheaper than sorting.
const MAX_SPARSENESS: usize = 64;

impl Pending {
    fn add(&mut self, group: KeyGroup, parent: Arc<Parent>, batch: Batch, bytes: usize) -> Result<(), ReassemblyError> {
        let sequence = self.parent.sequence;
        if parent.sequence != sequence {
            return Err(ReassemblyError::Missing { sequence, missing: self.missing, next: parent.sequence });
        }
        if self.parent.manifest != parent.manifest {
            return Err(ReassemblyError::Contradiction { sequence, what: "the key groups" });
        }
        if self.parent.rows != parent.rows {
            return Err(ReassemblyError::Contradiction { sequence, what: "the number of rows" });
        }
        if self.fragments.iter().any(|fragment| fragment.key_group() == Some(group.0)) {
            return Err(ReassemblyError::Duplicate { group, sequence });
        }
        self.missing = self.missing.saturating_sub(1);
        self.bytes += bytes;
        self.fragments.push(batch);
        Ok(())
    }
}
