//! What the engine sees of an operator's keyed state: which keys a subtask owns, snapshots by key group, restore.
//!
//! An operator has one [`KeyedState`]. A checkpoint takes a [`StateSnapshot`] on the task thread, which costs next to
//! nothing, and encodes it key group by key group on another thread, while the operator goes on.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use streamfusion_row::KeyGroup;

use crate::canonical::{CanonicalError, Section, Sections};
use crate::{StateError, Store};

/// Which keys a subtask owns: a range of the job's key groups, `0..max_parallelism` of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyGroups {
    /// The number of key groups of the job.
    pub max_parallelism: u32,
    /// The first one of this subtask.
    pub first: u16,
    /// The last one of this subtask.
    pub last: u16,
}

impl KeyGroups {
    /// All key groups: a subtask that is alone.
    pub fn all(max_parallelism: u32) -> Self {
        let max_parallelism = max_parallelism.clamp(1, KeyGroup::MAX_PARALLELISM);
        // at most 2^15 - 1
        Self { max_parallelism, first: 0, last: (max_parallelism - 1) as u16 }
    }

    /// The groups in order.
    pub fn range(&self) -> RangeInclusive<u16> {
        self.first..=self.last
    }

    /// Whether `group` is one of them.
    pub fn contains(&self, group: KeyGroup) -> bool {
        self.range().contains(&group.0)
    }
}

/// The clock of state time-to-live: the machine's, in milliseconds since the epoch, read once per batch.
///
/// A test sets it instead.
#[derive(Debug, Clone, Default)]
pub struct StateClock(Arc<AtomicI64>);

impl StateClock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MIN)))
    }

    /// A clock that stands at `millis` until it is set.
    pub fn fixed(millis: i64) -> Self {
        Self(Arc::new(AtomicI64::new(millis)))
    }

    /// Sets the clock, which stands from now on; all clones see it.
    pub fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::Relaxed);
    }

    /// Milliseconds since the epoch.
    pub fn now(&self) -> i64 {
        match self.0.load(Ordering::Relaxed) {
            i64::MIN => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
            millis => millis,
        }
    }
}

/// What an operator with keyed state is opened with.
#[derive(Debug, Clone)]
pub struct StateContext {
    /// The keys of this subtask.
    pub key_groups: KeyGroups,
    /// The clock of state time-to-live.
    pub clock: StateClock,
}

/// The keyed state of one operator.
pub trait KeyedState {
    /// Name of the table: with the node's identity it makes the operator identifier of the canonical form, so it never changes.
    fn table(&self) -> &'static str;

    /// The state as it is now. Costs the calling thread next to nothing; later writes leave the snapshot alone.
    fn snapshot(&mut self) -> Box<dyn StateSnapshot>;

    /// Takes over the sections of one key group, which must be one of this subtask and must hold no key yet.
    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError>;

    /// Bytes of memory that the state takes, with what snapshots in flight keep alive. Called once per batch.
    fn bytes(&self) -> usize;

    /// Keeps the state, which is empty, in a database from now on, and takes over what that has. False if this state stays in memory.
    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        let _ = store;
        Ok(false)
    }

    /// Writes what has changed to the database, if the state is kept in one: before the database takes a snapshot.
    fn write_back(&mut self) -> Result<(), StateError> {
        Ok(())
    }

    /// Lets keys leave memory that the database has, if the state is kept in one. Called between batches.
    fn evict(&mut self) -> Result<(), StateError> {
        Ok(())
    }
}

/// State at one moment, by key group. Read from another thread than the one that works on the state.
pub trait StateSnapshot: Send + Sync {
    /// The key groups that have keys, ascending.
    fn key_groups(&self) -> Vec<KeyGroup>;

    /// When the earliest value of the group expires, in milliseconds of processing time since the epoch.
    fn deadline(&self, group: KeyGroup) -> Option<i64>;

    /// At least as many bytes as the values of the group take in Arrow columns; for planning, may be too large by a factor.
    fn bytes_bound(&self, group: KeyGroup) -> usize;

    /// The values of the group.
    fn sections(&self, group: KeyGroup) -> Result<Vec<Section>, CanonicalError>;
}

/// Sections that are valid in themselves, but not the state of this operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// State of a key group that another subtask owns.
    #[error("state of key group {group} came to a subtask that owns the key groups {first} to {last}")]
    KeyGroup {
        /// The group.
        group: u16,
        /// The first group of this subtask.
        first: u16,
        /// The last one.
        last: u16,
    },
    /// A section whose columns are of another version.
    #[error("section `{section}` has the version {found} where {expected} is expected")]
    Version {
        /// Its name.
        section: String,
        /// The version it has.
        found: String,
        /// The version that is read.
        expected: &'static str,
    },
    /// A section is missing, or one too many.
    #[error("section `{section}` is {what}")]
    Section {
        /// Its name.
        section: String,
        /// Missing or unknown.
        what: &'static str,
    },
    /// A column that the operator does not have, or of another type.
    #[error("column `{column}` of section `{section}`: {found} where {expected} is expected")]
    Column {
        /// The section.
        section: String,
        /// The column.
        column: String,
        /// What is there.
        found: String,
        /// What the operator needs.
        expected: String,
    },
    /// A value that the operator could not have written.
    #[error("section `{section}`, row {row}: {what}")]
    Value {
        /// The section.
        section: String,
        /// The row in it.
        row: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// More keys than fit.
    #[error(transparent)]
    State(#[from] crate::StateError),
}
