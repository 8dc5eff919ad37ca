//! The keys of a table: how they come in a batch, in which index they are, which Arrow column they make.

use arrow::array::ArrayRef;
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field};
use streamfusion_row::KeyGroup;
use streamfusion_row::binary::KeyRows;

use super::key_bytes::{KeyBytes, append_namespace};
use super::key_index::KeyIndex;
use super::keys_snapshot::{KeysSnapshot, namespace_field};
use crate::StateError;
use crate::codec::{SectionColumns, fixed_values};
use crate::index::Found;
use crate::keyed::RestoreError;
use crate::paged::PagedVec;
use crate::slots::Slots;

/// The column of the key in the main section.
pub(super) const KEY: &str = "key";
/// The column of the namespace.
pub(super) const NAMESPACE: &str = "namespace";

/// How keys look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyLayout {
    /// No key: at most one slot.
    Single,
    /// One column of at most 8 bytes of this type, described in words.
    Fixed(DataType, String),
    /// BinaryRows of fields that are described in words.
    Bytes(String),
}

/// The keys of a batch, by row.
#[derive(Debug, Clone, Copy)]
pub enum BatchKeys<'a> {
    /// So many rows without a key.
    Single(usize),
    /// The bits of each key (see [`fixed_key_bits`]), and which are not NULL.
    Fixed(&'a [u64], Option<&'a NullBuffer>),
    /// The bytes of each key.
    Bytes(&'a KeyRows),
}

impl BatchKeys<'_> {
    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Single(rows) => *rows,
            Self::Fixed(keys, _) => keys.len(),
            Self::Bytes(keys) => keys.len(),
        }
    }
}

/// The keys of some slots.
#[derive(Debug)]
pub enum SlotKeys<'a> {
    /// So many slots without a key.
    Single(usize),
    /// The column of the keys.
    Fixed(ArrayRef),
    /// The bytes of each key.
    Bytes(Vec<&'a [u8]>),
}

/// The keys of a table, each once or once per namespace.
#[derive(Debug)]
pub(super) enum Keys {
    Plain(KeyIndex<()>),
    /// And the namespace of each slot.
    Namespaced(KeyIndex<i64>, PagedVec<i64>),
}

impl Keys {
    pub(super) fn new(layout: KeyLayout) -> Self {
        Self::Plain(KeyIndex::new(layout))
    }

    pub(super) fn namespaced(layout: KeyLayout) -> Self {
        Self::Namespaced(KeyIndex::new(layout), PagedVec::new(0))
    }

    /// Finds the keys of a batch, adds those that are new, and appends the number of each row's key to `numbers`: what `number` says of its
    /// slot, asked at least once per key. `namespaces` are those of the rows, if slots have one.
    #[inline]
    pub(super) fn find_or_add(
        &mut self,
        slots: &mut Slots,
        keys: BatchKeys<'_>,
        namespaces: Option<&[i64]>,
        numbers: &mut Vec<u32>,
        mut number: impl FnMut(Found) -> u32,
    ) -> Result<(), StateError> {
        match (self, namespaces) {
            (Self::Plain(index), None) => index.find_or_add(slots, keys, |_| (), numbers, |found, ()| number(found)),
            (Self::Namespaced(index, of_slots), Some(namespaces)) if namespaces.len() == keys.len() => {
                let number = |found: Found, namespace| {
                    if found.added {
                        *of_slots.get_mut(found.slot) = namespace;
                    }
                    number(found)
                };
                index.find_or_add(slots, keys, |row| namespaces[row], numbers, number)
            }
            _ => Err(StateError::Unregistered),
        }
    }

    /// Adds the keys of these rows where they are not there, and calls `each` with the slot of each.
    pub(super) fn add_rows(
        &mut self,
        slots: &mut Slots,
        keys: BatchKeys<'_>,
        namespaces: Option<&[i64]>,
        rows: &[u32],
        mut each: impl FnMut(Found),
    ) -> Result<(), StateError> {
        match (self, namespaces) {
            (Self::Plain(index), None) => {
                for row in rows {
                    each(index.add_row(slots, keys, *row as usize, ())?);
                }
                Ok(())
            }
            (Self::Namespaced(index, of_slots), Some(namespaces)) if namespaces.len() == keys.len() => {
                for row in rows {
                    let namespace = namespaces.get(*row as usize).copied().ok_or(StateError::Unregistered)?;
                    let found = index.add_row(slots, keys, *row as usize, namespace)?;
                    *of_slots.get_mut(found.slot) = namespace;
                    each(found);
                }
                Ok(())
            }
            _ => Err(StateError::Unregistered),
        }
    }

    /// Calls `each` with the slot of the key of each of these rows, if it is there. `namespaces` are those of the batch's rows, if slots
    /// have one.
    pub(super) fn find(
        &self,
        keys: BatchKeys<'_>,
        namespaces: Option<&[i64]>,
        rows: &[u32],
        each: impl FnMut(Option<u32>),
    ) -> Result<(), StateError> {
        match (self, namespaces) {
            (Self::Plain(index), None) => index.find(keys, rows, |_| (), each),
            (Self::Namespaced(index, _), Some(namespaces)) if namespaces.len() == keys.len() => {
                index.find(keys, rows, |row| namespaces[row], each)
            }
            _ => Err(StateError::Unregistered),
        }
    }

    /// The namespace of a slot in use, if slots have one.
    #[inline]
    pub(super) fn namespace(&self, slot: u32) -> Option<i64> {
        match self {
            Self::Plain(_) => None,
            Self::Namespaced(_, of_slots) => Some(*of_slots.get(slot)),
        }
    }

    /// The keys of slots in use.
    pub(super) fn of_slots(&self, slots: &[u32]) -> Result<SlotKeys<'_>, StateError> {
        match self {
            Self::Plain(index) => index.of_slots(slots, |_| ()),
            Self::Namespaced(index, of_slots) => index.of_slots(slots, |slot| *of_slots.get(slot)),
        }
    }

    /// The columns of the keys in the main section.
    pub(super) fn fields(&self, out: &mut Vec<Field>) {
        let key = match self {
            Self::Plain(index) => index.field(),
            Self::Namespaced(index, _) => index.field(),
        };
        out.extend(key);
        if let Self::Namespaced(..) = self {
            out.push(namespace_field());
        }
    }

    /// How keys and namespaces are written where each is a run of bytes, see [`KeyBytes`].
    pub(super) fn key_bytes(&self) -> KeyBytes {
        match self {
            Self::Plain(index) => KeyBytes { fixed: index.fixed_type(), bytes: index.is_bytes(), namespaced: false },
            Self::Namespaced(index, _) => {
                KeyBytes { fixed: index.fixed_type(), bytes: index.is_bytes(), namespaced: true }
            }
        }
    }

    /// Appends the bytes of the key of a slot in use, and of its namespace.
    pub(super) fn append_key(&self, slot: u32, out: &mut Vec<u8>) {
        match self {
            Self::Plain(index) => index.append_key(slot, (), out),
            Self::Namespaced(index, of_slots) => {
                let namespace = *of_slots.get(slot);
                index.append_key(slot, namespace, out);
                append_namespace(namespace, out);
            }
        }
    }

    pub(super) fn remove(&mut self, slots: &mut Slots, slot: u32) {
        match self {
            Self::Plain(index) => index.remove(slots, slot, ()),
            Self::Namespaced(index, of_slots) => index.remove(slots, slot, *of_slots.get(slot)),
        }
    }

    /// Makes room for so many more keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        match self {
            Self::Plain(index) => index.reserve(keys),
            Self::Namespaced(index, _) => index.reserve(keys),
        }
    }

    pub(super) fn maintain(&mut self, pages: usize) {
        match self {
            Self::Plain(index) => index.maintain(pages),
            Self::Namespaced(index, of_slots) => {
                index.maintain(pages);
                of_slots.maintain(pages);
            }
        }
    }

    /// Gives back what its indexes do not need.
    pub(super) fn shrink(&mut self) {
        match self {
            Self::Plain(index) => index.shrink(),
            Self::Namespaced(index, _) => index.shrink(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Plain(index) => index.bytes(),
            Self::Namespaced(index, of_slots) => index.bytes() + of_slots.bytes(),
        }
    }

    pub(super) fn snapshot(&mut self) -> KeysSnapshot {
        match self {
            Self::Plain(index) => KeysSnapshot { keys: index.snapshot(), namespaces: None },
            Self::Namespaced(index, of_slots) => {
                KeysSnapshot { keys: index.snapshot(), namespaces: Some(of_slots.snapshot()) }
            }
        }
    }

    /// Adds the keys of some rows of the main section, all of the key group `group`, and their slots to `added`.
    pub(super) fn restore(
        &mut self,
        columns: &mut SectionColumns<'_>,
        slots: &mut Slots,
        group: KeyGroup,
        added: &mut Vec<u32>,
    ) -> Result<(), RestoreError> {
        let (index, of_slots) = match self {
            Self::Plain(index) => return index.restore(columns, slots, group, |_| (), added),
            Self::Namespaced(index, of_slots) => (index, of_slots),
        };
        let array = columns.column(NAMESPACE, &DataType::Int64)?;
        columns.refuse_nulls(&array)?;
        let namespaces = fixed_values::<i64>(&array);
        let namespaces = namespaces.ok_or_else(|| columns.type_error(NAMESPACE, &array, &DataType::Int64))?;
        let before = added.len();
        index.restore(columns, slots, group, |row| namespaces[row], added)?;
        for (slot, namespace) in added.iter().skip(before).zip(&namespaces) {
            *of_slots.get_mut(*slot) = *namespace;
        }
        Ok(())
    }
}
