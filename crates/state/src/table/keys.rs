//! The keys of a table: how they come in a batch, in which index they are, which Arrow column they make.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, TimeUnit};
use streamfusion_row::KeyGroup;
use streamfusion_row::binary::KeyRows;
use streamfusion_row::hash::hash_bytes_by_words;

use crate::StateError;
use crate::canonical::Fault;
use crate::codec::{BytesReader, BytesWriter, SectionColumns, fixed_array, fixed_values, with_definition};
use crate::index::{BytesKeyIndex, BytesKeys, FixedKeyIndex, FixedKeys, Found, key_hash};
use crate::keyed::RestoreError;
use crate::paged::PAGE;
use crate::slots::{Slots, UsedPage, bits};

/// The column of the key in the main section.
const KEY: &str = "key";
/// The BinaryRow without fields: the key where there is none.
const EMPTY_ROW: [u8; 8] = [0; 8];

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

#[derive(Debug)]
pub(super) enum KeyIndex {
    Single(Option<u32>),
    Fixed(FixedKeyIndex, DataType, String),
    Bytes(BytesKeyIndex, String),
}

impl KeyIndex {
    pub(super) fn new(layout: KeyLayout) -> Self {
        match layout {
            KeyLayout::Single => Self::Single(None),
            KeyLayout::Fixed(ty, field) => Self::Fixed(FixedKeyIndex::new(), ty, field),
            KeyLayout::Bytes(fields) => Self::Bytes(BytesKeyIndex::new(), fields),
        }
    }

    /// Calls `each` with the slot of each row's key.
    #[inline]
    pub(super) fn find_or_add(
        &mut self,
        slots: &mut Slots,
        keys: BatchKeys<'_>,
        mut each: impl FnMut(Found),
    ) -> Result<(), StateError> {
        match (self, keys) {
            (Self::Single(slot), BatchKeys::Single(rows)) => {
                for _ in 0..rows {
                    each(single(slot, slots)?);
                }
            }
            (Self::Fixed(index, ..), BatchKeys::Fixed(keys, nulls)) => {
                match nulls.filter(|nulls| nulls.null_count() > 0) {
                    None => {
                        for key in keys {
                            each(index.find_or_add(slots, *key)?);
                        }
                    }
                    Some(nulls) => {
                        for (key, valid) in keys.iter().zip(nulls) {
                            each(if valid {
                                index.find_or_add(slots, *key)?
                            } else {
                                index.find_or_add_null(slots)?
                            });
                        }
                    }
                }
            }
            (Self::Bytes(index, _), BatchKeys::Bytes(keys)) => {
                for key in keys.iter() {
                    each(index.find_or_add(slots, key, hash_bytes_by_words(key).cast_unsigned())?);
                }
            }
            _ => return Err(StateError::Unregistered),
        }
        Ok(())
    }

    /// Calls `each` with the slot of the key of each of these rows, if it is there.
    pub(super) fn find(
        &self,
        keys: BatchKeys<'_>,
        rows: &[u32],
        mut each: impl FnMut(Option<u32>),
    ) -> Result<(), StateError> {
        let rows = rows.iter().map(|row| *row as usize);
        match (self, keys) {
            (Self::Single(slot), BatchKeys::Single(_)) => rows.for_each(|_| each(*slot)),
            (Self::Fixed(index, ..), BatchKeys::Fixed(keys, nulls)) => {
                for row in rows {
                    let key = keys.get(row).filter(|_| nulls.is_none_or(|nulls| nulls.is_valid(row)));
                    each(index.find(key.copied()));
                }
            }
            (Self::Bytes(index, _), BatchKeys::Bytes(keys)) => {
                for row in rows {
                    let key = keys.row(row);
                    each(index.find(key, hash_bytes_by_words(key).cast_unsigned()));
                }
            }
            _ => return Err(StateError::Unregistered),
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, slots: &mut Slots, slot: u32) {
        match self {
            Self::Single(single) => {
                *single = None;
                slots.release(slot);
            }
            Self::Fixed(index, ..) => index.remove(slots, slot),
            Self::Bytes(index, _) => index.remove(slots, slot),
        }
    }

    pub(super) fn maintain(&mut self, pages: usize) {
        match self {
            Self::Single(_) => {}
            Self::Fixed(index, ..) => index.maintain(pages),
            Self::Bytes(index, _) => index.maintain(pages),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Single(_) => 0,
            Self::Fixed(index, ..) => index.bytes(),
            Self::Bytes(index, _) => index.bytes(),
        }
    }

    pub(super) fn snapshot(&mut self) -> KeysSnapshot {
        match self {
            Self::Single(_) => KeysSnapshot::Single,
            Self::Fixed(index, ty, field) => KeysSnapshot::Fixed(index.snapshot(), ty.clone(), field.clone()),
            Self::Bytes(index, fields) => KeysSnapshot::Bytes(index.snapshot(), fields.clone()),
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
        let rows = columns.num_rows();
        let max_parallelism = slots.groups().max_parallelism;
        let foreign = |hash: i32| KeyGroup::of_hash(hash, max_parallelism) != group;
        let (again, of_another) = ("a key for the second time", "a key of another key group");
        match self {
            Self::Single(slot) => {
                for row in 0..rows {
                    let found = single(slot, slots)?;
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
                index.reserve(rows);
                for row in 0..rows {
                    let slot = index.add(slots, group, key(row))?;
                    added.push(slot.ok_or_else(|| columns.value_error(row, again))?);
                }
            }
            Self::Bytes(index, fields) => {
                columns.define(Some(fields));
                let array = columns.column(KEY, &DataType::Binary)?;
                columns.define(None);
                columns.refuse_nulls(&array)?;
                let keys = BytesReader::of(&array).ok_or_else(|| columns.type_error(KEY, &array, &DataType::Binary))?;
                index.reserve(rows);
                for row in 0..rows {
                    let key = keys.get(row);
                    if key.is_empty() || key.len() % 8 != 0 {
                        return Err(columns.value_error(row, "a key that is no BinaryRow"));
                    }
                    let hash = hash_bytes_by_words(key);
                    if foreign(hash) {
                        return Err(columns.value_error(row, of_another));
                    }
                    let found = index.find_or_add(slots, key, hash.cast_unsigned())?;
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

/// The slot of the key that all rows have.
fn single(slot: &mut Option<u32>, slots: &mut Slots) -> Result<Found, StateError> {
    if let Some(slot) = slot {
        return Ok(Found { slot: *slot, added: false });
    }
    let new = slots.acquire_for(hash_bytes_by_words(&EMPTY_ROW))?;
    *slot = Some(new);
    Ok(Found { slot: new, added: true })
}

/// The keys at one moment.
#[derive(Debug)]
pub(super) enum KeysSnapshot {
    Single,
    Fixed(FixedKeys, DataType, String),
    Bytes(BytesKeys, String),
}

impl KeysSnapshot {
    pub(super) fn fields(&self, out: &mut Vec<Field>) {
        match self {
            Self::Single => {}
            Self::Fixed(_, ty, field) => {
                out.push(with_definition(Field::new(KEY, ty.clone(), true), Some(field)));
            }
            Self::Bytes(_, fields) => {
                out.push(with_definition(Field::new(KEY, DataType::Binary, false), Some(fields)));
            }
        }
    }

    /// Adds the column of the keys of slots in use, `rows` of them.
    pub(super) fn encode(&self, pages: &[UsedPage], rows: usize, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        match self {
            Self::Single => {}
            Self::Fixed(keys, ty, _) => {
                let mut values = Vec::with_capacity(rows);
                crate::column::for_each_used(keys.pages(), pages, |key| values.push(*key));
                let nulls = keys.null().and_then(|null| {
                    let row = row_of(pages, null)?;
                    Some((0..rows).map(|other| other != row).collect::<BooleanBuffer>().into())
                });
                out.push(fixed_key_array(values, nulls, ty)?);
            }
            Self::Bytes(keys, _) => {
                let mut writer = BytesWriter::new(rows);
                for_each_slot(pages, |slot| writer.push(keys.key(slot)));
                out.push(writer.finish(None, &DataType::Binary)?);
            }
        }
        Ok(())
    }

    /// Bytes that the keys of slots in use take at most, `rows` of them.
    pub(super) fn bytes_bound(&self, pages: &[UsedPage], rows: usize) -> usize {
        match self {
            Self::Single => 0,
            Self::Fixed(_, ty, _) => rows * crate::column::field_bytes(ty),
            Self::Bytes(keys, _) => {
                let mut bytes = rows * size_of::<i32>();
                for_each_slot(pages, |slot| bytes += keys.key_len(slot));
                bytes
            }
        }
    }
}

fn for_each_slot(pages: &[UsedPage], mut each: impl FnMut(u32)) {
    for UsedPage { page, used } in pages {
        // a slot is below 2^32
        bits(*used).for_each(|bit| each(*page * PAGE as u32 + bit as u32));
    }
}

/// The number of a slot among those in use in `pages`, if it is one of them.
fn row_of(pages: &[UsedPage], slot: u32) -> Option<usize> {
    let mut row = 0;
    for UsedPage { page, used } in pages {
        let bit = slot % PAGE as u32;
        if *page == slot / PAGE as u32 {
            let before = (used & ((1 << bit) - 1)).count_ones();
            return (used >> bit & 1 == 1).then_some(row + before as usize);
        }
        row += used.count_ones() as usize;
    }
    None
}

/// The values of a column of at most 8 bytes, bit by bit, as they lie in the slot of a BinaryRow. Values of NULLs are
/// arbitrary. False if the column is of another type.
pub fn fixed_key_bits(column: &ArrayRef, bits: &mut Vec<u64>) -> bool {
    bits.clear();
    let extended = match column.data_type() {
        DataType::Boolean => column.as_boolean_opt().map(|v| bits.extend(v.values().iter().map(u64::from))),
        DataType::Int8 => {
            fixed_values::<i8>(column).map(|v| bits.extend(v.iter().map(|v| u64::from(v.cast_unsigned()))))
        }
        DataType::Int16 => {
            fixed_values::<i16>(column).map(|v| bits.extend(v.iter().map(|v| u64::from(v.cast_unsigned()))))
        }
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
            fixed_values::<i32>(column).map(|v| bits.extend(v.iter().map(|v| u64::from(v.cast_unsigned()))))
        }
        DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => {
            fixed_values::<i64>(column).map(|v| bits.extend(v.iter().map(|v| v.cast_unsigned())))
        }
        DataType::Float32 => fixed_values::<f32>(column).map(|v| bits.extend(v.iter().map(|v| u64::from(v.to_bits())))),
        DataType::Float64 => fixed_values::<f64>(column).map(|v| bits.extend(v.iter().map(|v| v.to_bits()))),
        DataType::Decimal128(precision, _) if *precision <= 18 => {
            // at most 18 digits fit
            fixed_values::<i128>(column).map(|v| bits.extend(v.iter().map(|v| *v as u64)))
        }
        _ => None,
    };
    extended.is_some()
}

/// The first row with a decimal of more digits than its type has.
fn wide_decimal(column: &ArrayRef) -> Option<usize> {
    let DataType::Decimal128(precision, _) = column.data_type() else { return None };
    let limit = 10_u128.checked_pow(u32::from(*precision))?;
    let values = fixed_values::<i128>(column)?;
    values.iter().enumerate().position(|(row, value)| column.is_valid(row) && value.unsigned_abs() >= limit)
}

/// The column of the Arrow type `ty` whose values have these bits.
#[expect(clippy::cast_possible_truncation, reason = "the bits of a narrower value are the low ones")]
fn fixed_key_array(bits: Vec<u64>, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef, Fault> {
    let bits = bits.into_iter();
    match ty {
        DataType::Boolean => Ok(Arc::new(BooleanArray::new(bits.map(|v| v != 0).collect::<BooleanBuffer>(), nulls))),
        DataType::Int8 => fixed_array(bits.map(|v| v as i8).collect(), nulls, ty),
        DataType::Int16 => fixed_array(bits.map(|v| v as i16).collect(), nulls, ty),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
            fixed_array(bits.map(|v| v as i32).collect(), nulls, ty)
        }
        DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _) => {
            fixed_array(bits.map(u64::cast_signed).collect(), nulls, ty)
        }
        DataType::Float32 => fixed_array(bits.map(|v| f32::from_bits(v as u32)).collect(), nulls, ty),
        DataType::Float64 => fixed_array(bits.map(f64::from_bits).collect(), nulls, ty),
        DataType::Decimal128(_, _) => fixed_array(bits.map(|v| i128::from(v.cast_signed())).collect(), nulls, ty),
        _ => Err(Fault::Unwritable { what: "a key of this type" }),
    }
}
