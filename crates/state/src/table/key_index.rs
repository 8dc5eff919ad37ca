//! Keys in an index, by their layout, with or without namespaces.

use std::collections::BTreeMap;

use arrow::array::Array;
use arrow::datatypes::{DataType, Field};
use streamfusion_row::KeyGroup;
use streamfusion_row::hash::hash_bytes_by_words;

use super::fixed_bits::{fixed_key_array, fixed_key_bits, wide_decimal};
use super::key_bytes::append_fixed;
use super::keys::{BatchKeys, KEY, KeyLayout, SlotKeys};
use super::keys_snapshot::{IndexSnapshot, bytes_field, fixed_field};
use crate::StateError;
use crate::codec::{BytesReader, SectionColumns};
use crate::index::{BytesKeyIndex, FixedKeyIndex, Found, Namespace, key_hash};
use crate::keyed::RestoreError;
use crate::slots::Slots;

/// The BinaryRow without fields: the key where there is none.
const EMPTY_ROW: [u8; 8] = [0; 8];

/// The keys of a table in the index that fits their layout.
#[derive(Debug)]
pub(super) enum KeyIndex<N> {
    Single(BTreeMap<N, u32>),
    Fixed(FixedKeyIndex<N>, DataType, String),
    Bytes(BytesKeyIndex<N>, String),
}

impl<N: Namespace> KeyIndex<N> {
    pub(super) fn new(layout: KeyLayout) -> Self {
        match layout {
            KeyLayout::Single => Self::Single(BTreeMap::new()),
            KeyLayout::Fixed(ty, field) => Self::Fixed(FixedKeyIndex::new(), ty, field),
            KeyLayout::Bytes(fields) => Self::Bytes(BytesKeyIndex::new(), fields),
        }
    }

    /// Finds the keys of a batch, adds those that are new, and appends the number of each row's key to `numbers`: what `number` says of its
    /// slot and namespace, asked at least once per key.
    #[inline]
    pub(super) fn find_or_add(
        &mut self,
        slots: &mut Slots,
        keys: BatchKeys<'_>,
        namespace: impl Fn(usize) -> N,
        numbers: &mut Vec<u32>,
        mut number: impl FnMut(Found, N) -> u32,
    ) -> Result<(), StateError> {
        match (self, keys) {
            (Self::Single(single), BatchKeys::Single(rows)) => {
                let mut last: Option<(N, u32)> = None;
                for row in 0..rows {
                    let namespace = namespace(row);
                    let number = match last {
                        Some((of, number)) if of == namespace => number,
                        _ => number(find_or_add_single(single, slots, namespace)?, namespace),
                    };
                    last = Some((namespace, number));
                    numbers.push(number);
                }
            }
            (Self::Fixed(index, ..), BatchKeys::Fixed(keys, nulls)) => {
                match nulls.filter(|nulls| nulls.null_count() > 0) {
                    None => index.find_or_add_all(slots, keys, namespace, numbers, number)?,
                    Some(nulls) => {
                        for (row, (key, valid)) in keys.iter().zip(nulls).enumerate() {
                            let namespace = namespace(row);
                            let found = if valid {
                                index.find_or_add(slots, *key, namespace)?
                            } else {
                                index.find_or_add_null(slots, namespace)?
                            };
                            numbers.push(number(found, namespace));
                        }
                    }
                }
            }
            (Self::Bytes(index, _), BatchKeys::Bytes(keys)) => {
                index.find_or_add_all(slots, keys, namespace, numbers, number)?;
            }
            _ => return Err(StateError::Unregistered),
        }
        Ok(())
    }

    pub(super) fn find(
        &self,
        keys: BatchKeys<'_>,
        rows: &[u32],
        namespace: impl Fn(usize) -> N,
        mut each: impl FnMut(Option<u32>),
    ) -> Result<(), StateError> {
        let rows = rows.iter().map(|row| *row as usize);
        match (self, keys) {
            (Self::Single(single), BatchKeys::Single(_)) => {
                rows.for_each(|row| each(single.get(&namespace(row)).copied()));
            }
            (Self::Fixed(index, ..), BatchKeys::Fixed(keys, nulls)) => {
                for row in rows {
                    let key = keys.get(row).filter(|_| nulls.is_none_or(|nulls| nulls.is_valid(row)));
                    each(index.find(key.copied(), namespace(row)));
                }
            }
            (Self::Bytes(index, _), BatchKeys::Bytes(keys)) => {
                for row in rows {
                    let key = keys.row(row);
                    each(index.find(key, hash_bytes_by_words(key).cast_unsigned(), namespace(row)));
                }
            }
            _ => return Err(StateError::Unregistered),
        }
        Ok(())
    }

    pub(super) fn add_row(
        &mut self,
        slots: &mut Slots,
        keys: BatchKeys<'_>,
        row: usize,
        namespace: N,
    ) -> Result<Found, StateError> {
        match (self, keys) {
            (Self::Single(single), BatchKeys::Single(_)) => find_or_add_single(single, slots, namespace),
            (Self::Fixed(index, ..), BatchKeys::Fixed(keys, nulls)) => {
                match keys.get(row).filter(|_| nulls.is_none_or(|nulls| nulls.is_valid(row))) {
                    Some(key) => index.find_or_add(slots, *key, namespace),
                    None => index.find_or_add_null(slots, namespace),
                }
            }
            (Self::Bytes(index, _), BatchKeys::Bytes(keys)) => {
                let key = keys.row(row);
                index.find_or_add(slots, key, hash_bytes_by_words(key).cast_unsigned(), namespace)
            }
            _ => Err(StateError::Unregistered),
        }
    }

    pub(super) fn field(&self) -> Option<Field> {
        match self {
            Self::Single(_) => None,
            Self::Fixed(_, ty, field) => Some(fixed_field(ty, field)),
            Self::Bytes(_, fields) => Some(bytes_field(fields)),
        }
    }

    pub(super) fn fixed_type(&self) -> Option<DataType> {
        if let Self::Fixed(_, ty, _) = self { Some(ty.clone()) } else { None }
    }

    pub(super) fn is_bytes(&self) -> bool {
        matches!(self, Self::Bytes(..))
    }

    pub(super) fn append_key(&self, slot: u32, namespace: N, out: &mut Vec<u8>) {
        match self {
            Self::Single(_) => {}
            Self::Fixed(index, ..) => append_fixed(index.key(slot, namespace), out),
            Self::Bytes(index, _) => out.extend_from_slice(index.key(slot)),
        }
    }

    pub(super) fn of_slots(&self, slots: &[u32], namespace: impl Fn(u32) -> N) -> Result<SlotKeys<'_>, StateError> {
        Ok(match self {
            Self::Single(_) => SlotKeys::Single(slots.len()),
            Self::Fixed(index, ty, _) => {
                let mut bits = Vec::with_capacity(slots.len());
                let mut valid = Vec::new();
                for (row, slot) in slots.iter().enumerate() {
                    let key = index.key(*slot, namespace(*slot));
                    if key.is_none() && valid.is_empty() {
                        valid.resize(slots.len(), true);
                    }
                    if key.is_none() {
                        valid[row] = false;
                    }
                    bits.push(key.unwrap_or_default());
                }
                let nulls = (!valid.is_empty()).then(|| valid.into());
                SlotKeys::Fixed(fixed_key_array(bits, nulls, ty).map_err(|_| StateError::Unregistered)?)
            }
            Self::Bytes(index, _) => SlotKeys::Bytes(slots.iter().map(|slot| index.key(*slot)).collect()),
        })
    }

    pub(super) fn remove(&mut self, slots: &mut Slots, slot: u32, namespace: N) {
        match self {
            Self::Single(single) => {
                single.remove(&namespace);
                slots.release(slot);
            }
            Self::Fixed(index, ..) => index.remove(slots, slot, namespace),
            Self::Bytes(index, _) => index.remove(slots, slot, namespace),
        }
    }

    /// Makes room for so many more keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        match self {
            Self::Single(_) => {}
            Self::Fixed(index, ..) => index.reserve(keys),
            Self::Bytes(index, _) => index.reserve(keys),
        }
    }

    pub(super) fn maintain(&mut self, pages: usize) {
        match self {
            Self::Single(_) => {}
            Self::Fixed(index, ..) => index.maintain(pages),
            Self::Bytes(index, _) => index.maintain(pages),
        }
    }

    pub(super) fn shrink(&mut self) {
        match self {
            Self::Single(_) => {}
            Self::Fixed(index, ..) => index.shrink(),
            Self::Bytes(index, _) => index.shrink(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Single(single) => single.len() * 2 * size_of::<(N, u32)>(),
            Self::Fixed(index, ..) => index.bytes(),
            Self::Bytes(index, _) => index.bytes(),
        }
    }

    pub(super) fn snapshot(&mut self) -> IndexSnapshot {
        match self {
            Self::Single(_) => IndexSnapshot::Single,
            Self::Fixed(index, ty, field) => IndexSnapshot::Fixed(index.snapshot(), ty.clone(), field.clone()),
            Self::Bytes(index, fields) => IndexSnapshot::Bytes(index.snapshot(), fields.clone()),
        }
    }

    /// Adds the keys of some rows of the main section, all of the key group `group`, and their slots to `added`.
    pub(super) fn restore(
        &mut self,
        columns: &mut SectionColumns<'_>,
        slots: &mut Slots,
        group: KeyGroup,
        namespace: impl Fn(usize) -> N,
        added: &mut Vec<u32>,
    ) -> Result<(), RestoreError> {
        let rows = columns.num_rows();
        let max_parallelism = slots.groups().max_parallelism;
        let foreign = |hash: i32| KeyGroup::of_hash(hash, max_parallelism) != group;
        let (again, of_another) = ("a key for the second time", "a key of another key group");
        match self {
            Self::Single(single) => {
                for row in 0..rows {
                    let found = find_or_add_single(single, slots, namespace(row))?;
                    if !found.added || slots.group(found.slot) != group {
                        return Err(columns.value_error(row, if found.added { of_another } else { again }));
                    }
                    added.push(found.slot);
                }
            }
            Self::Fixed(index, ty, field) => {
                columns.define(Some(field));
                let array = columns.column(KEY, ty)?;
                columns.define(None);
                let mut keys = Vec::with_capacity(rows);
                if !fixed_key_bits(&array, &mut keys) {
                    return Err(columns.type_error(KEY, &array, ty));
                }
                if let Some(row) = wide_decimal(&array) {
                    return Err(columns.value_error(row, "a decimal with too many digits"));
                }
                let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
                let key = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row)).then(|| keys[row]);
                // one hash does not wait for the one before it
                if let Some(row) = (0..rows).position(|row| foreign(key_hash(key(row)))) {
                    return Err(columns.value_error(row, of_another));
                }
                let known = added.len();
                slots.acquire_many(group, "keys", rows, added)?;
                for (row, slot) in added.iter().skip(known).enumerate() {
                    if !index.add(*slot, key(row), namespace(row)) {
                        return Err(columns.value_error(row, again));
                    }
                }
            }
            Self::Bytes(index, fields) => {
                columns.define(Some(fields));
                let array = columns.column(KEY, &DataType::Binary)?;
                columns.define(None);
                columns.refuse_nulls(&array)?;
                let keys = BytesReader::of(&array).ok_or_else(|| columns.type_error(KEY, &array, &DataType::Binary))?;
                for row in 0..rows {
                    let key = keys.get(row);
                    if key.is_empty() || key.len() % 8 != 0 {
                        return Err(columns.value_error(row, "a key that is no BinaryRow"));
                    }
                    let hash = hash_bytes_by_words(key);
                    if foreign(hash) {
                        return Err(columns.value_error(row, of_another));
                    }
                    let found = index.find_or_add(slots, key, hash.cast_unsigned(), namespace(row))?;
                    if !found.added {
                        return Err(columns.value_error(row, again));
                    }
                    added.push(found.slot);
                }
            }
        }
        Ok(())
    }
}

/// The slot of the key that all rows have, in a namespace.
fn find_or_add_single<N: Namespace>(
    single: &mut BTreeMap<N, u32>,
    slots: &mut Slots,
    namespace: N,
) -> Result<Found, StateError> {
    if let Some(slot) = single.get(&namespace) {
        return Ok(Found { slot: *slot, added: false });
    }
    let slot = slots.acquire_for(hash_bytes_by_words(&EMPTY_ROW))?;
    single.insert(namespace, slot);
    Ok(Found { slot, added: true })
}
