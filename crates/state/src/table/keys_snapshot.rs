//! The keys of a table at one moment, as columns of its main section.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};

use super::fixed_bits::fixed_key_array;
use super::keys::{KEY, NAMESPACE};
use crate::canonical::Fault;
use crate::codec::{BytesWriter, fixed_array, with_definition};
use crate::index::{BytesKeys, FixedKeys};
use crate::paged::{PAGE, PagedSnapshot};
use crate::slots::{UsedPage, bits};

/// The keys at one moment.
#[derive(Debug)]
pub(super) struct KeysSnapshot {
    pub(super) keys: IndexSnapshot,
    pub(super) namespaces: Option<PagedSnapshot<i64>>,
}

#[derive(Debug)]
pub(super) enum IndexSnapshot {
    Single,
    Fixed(FixedKeys, DataType, String),
    Bytes(BytesKeys, String),
}

/// The column of keys of at most 8 bytes, described in words.
pub(super) fn fixed_field(ty: &DataType, definition: &str) -> Field {
    with_definition(Field::new(KEY, ty.clone(), true), Some(definition))
}

/// The column of any other keys.
pub(super) fn bytes_field(definition: &str) -> Field {
    with_definition(Field::new(KEY, DataType::Binary, false), Some(definition))
}

/// The column of namespaces.
pub(super) fn namespace_field() -> Field {
    Field::new(NAMESPACE, DataType::Int64, false)
}

impl KeysSnapshot {
    pub(super) fn fields(&self, out: &mut Vec<Field>) {
        match &self.keys {
            IndexSnapshot::Single => {}
            IndexSnapshot::Fixed(_, ty, field) => out.push(fixed_field(ty, field)),
            IndexSnapshot::Bytes(_, fields) => out.push(bytes_field(fields)),
        }
        if self.namespaces.is_some() {
            out.push(namespace_field());
        }
    }

    /// Adds the columns of the keys of slots in use, `rows` of them.
    pub(super) fn encode(&self, pages: &[UsedPage], rows: usize, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        match &self.keys {
            IndexSnapshot::Single => {}
            IndexSnapshot::Fixed(keys, ty, _) => {
                let mut values = Vec::with_capacity(rows);
                crate::column::for_each_used(keys.pages(), pages, |key| values.push(*key));
                let nulls = (!keys.nulls().is_empty()).then(|| {
                    let mut valid = Vec::with_capacity(rows);
                    for_each_slot(pages, |slot| valid.push(!keys.nulls().contains(&slot)));
                    valid.into()
                });
                out.push(fixed_key_array(values, nulls, ty)?);
            }
            IndexSnapshot::Bytes(keys, _) => {
                let mut writer = BytesWriter::new(rows);
                for_each_slot(pages, |slot| writer.push(keys.key(slot)));
                out.push(writer.finish(None, &DataType::Binary)?);
            }
        }
        if let Some(namespaces) = &self.namespaces {
            let mut values = Vec::with_capacity(rows);
            crate::column::for_each_used(namespaces, pages, |namespace| values.push(*namespace));
            out.push(fixed_array(values, None, &DataType::Int64)?);
        }
        Ok(())
    }

    /// Bytes that the keys of slots in use take at most, `rows` of them.
    pub(super) fn bytes_bound(&self, pages: &[UsedPage], rows: usize) -> usize {
        let namespaces = self.namespaces.as_ref().map_or(0, |_| rows * size_of::<i64>());
        namespaces
            + match &self.keys {
                IndexSnapshot::Single => 0,
                IndexSnapshot::Fixed(_, ty, _) => rows * crate::column::field_bytes(ty),
                IndexSnapshot::Bytes(keys, _) => {
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
