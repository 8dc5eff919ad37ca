//! Two tables as the state of one operator: the sides of a join.
//!
//! Both are partitioned by the same keys, but each has its own keys, values and time-to-live. In a savepoint the sections of both
//! lie side by side under one name, so sections of the two must be called differently.

use streamfusion_row::KeyGroup;

use super::KeyedTable;
use crate::canonical::{CanonicalError, Section, Sections};
use crate::keyed::{KeyedState, RestoreError, StateSnapshot};
use crate::{StateError, Store};

/// See the [module](self).
#[derive(Debug)]
pub struct TablePair {
    name: &'static str,
    /// Whether the keys of `left` stay in memory in any case.
    left_is_resident: bool,
    /// That of the first input.
    pub left: KeyedTable,
    /// That of the second input.
    pub right: KeyedTable,
}

impl TablePair {
    /// Two tables of the same key groups. `name` is what the two are called together; it never changes.
    pub fn new(name: &'static str, left: KeyedTable, right: KeyedTable) -> Self {
        Self { name, left_is_resident: false, left, right }
    }

    /// Keeps all keys of the first table in memory, also where those of the second may leave it: an operator finds them by itself.
    #[must_use]
    pub fn with_resident_left(self) -> Self {
        Self { left_is_resident: true, ..self }
    }
}

impl KeyedState for TablePair {
    fn table(&self) -> &'static str {
        self.name
    }

    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        Box::new(PairSnapshot { left: self.left.snapshot(), right: self.right.snapshot() })
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        let of = |table: &KeyedTable| Sections {
            sections: sections.sections.iter().filter(|section| table.has_section(section.name())).cloned().collect(),
            ..sections.clone()
        };
        let known = |name: &str| self.left.has_section(name) || self.right.has_section(name);
        if let Some(unknown) = sections.sections.iter().find(|section| !known(section.name())) {
            return Err(RestoreError::Section { section: unknown.name().to_owned(), what: "unknown" });
        }
        let (left, right) = (of(&self.left), of(&self.right));
        self.left.restore(&left)?;
        self.right.restore(&right)
    }

    fn bytes(&self) -> usize {
        self.left.bytes() + self.right.bytes()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        let resident = store.resident || self.left_is_resident;
        self.left.attach(&Store { resident, ..store.clone() }, 0)?;
        self.right.attach(store, 1).map(|()| true)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.left.write_back()?;
        self.right.write_back()
    }

    fn evict(&mut self) -> Result<(), StateError> {
        self.left.evict()?;
        self.right.evict()
    }
}

/// Both tables at one moment.
struct PairSnapshot {
    left: Box<dyn StateSnapshot>,
    right: Box<dyn StateSnapshot>,
}

impl StateSnapshot for PairSnapshot {
    fn key_groups(&self) -> Vec<KeyGroup> {
        let mut groups = self.left.key_groups();
        groups.extend(self.right.key_groups());
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    fn deadline(&self, group: KeyGroup) -> Option<i64> {
        self.left.deadline(group).into_iter().chain(self.right.deadline(group)).min()
    }

    fn bytes_bound(&self, group: KeyGroup) -> usize {
        self.left.bytes_bound(group) + self.right.bytes_bound(group)
    }

    fn sections(&self, group: KeyGroup) -> Result<Vec<Section>, CanonicalError> {
        let mut sections = self.left.sections(group)?;
        sections.extend(self.right.sections(group)?);
        Ok(sections)
    }
}
