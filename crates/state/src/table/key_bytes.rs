//! Keys one by one, as runs of bytes, and back to columns.
//!
//! A key of at most 8 bytes is 1 and its bits, big-endian, or 0 if it is NULL; any other one its BinaryRow. A namespace follows: 8 bytes,
//! big-endian, with the sign bit turned, so that bytes are in the order of the numbers.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::fixed_bits::fixed_key_array;
use crate::codec::{BytesWriter, fixed_array};

const SIGN: u64 = 1 << 63;

pub(super) fn append_fixed(key: Option<u64>, out: &mut Vec<u8>) {
    match key {
        None => out.push(0),
        Some(bits) => {
            out.push(1);
            out.extend(bits.to_be_bytes());
        }
    }
}

pub(super) fn append_namespace(namespace: i64, out: &mut Vec<u8>) {
    out.extend((namespace.cast_unsigned() ^ SIGN).to_be_bytes());
}

/// How the keys of a table look in bytes.
#[derive(Debug, Clone)]
pub(super) struct KeyBytes {
    /// The type of keys of at most 8 bytes.
    pub(super) fixed: Option<DataType>,
    /// Whether they are BinaryRows. Without either there is no key.
    pub(super) bytes: bool,
    /// Whether a namespace follows.
    pub(super) namespaced: bool,
}

impl KeyBytes {
    /// The columns of keys that were appended: those of [`Keys::fields`](super::keys::Keys::fields). Says what is wrong if one is none.
    pub(super) fn columns(&self, keys: &[&[u8]]) -> Result<Vec<ArrayRef>, &'static str> {
        let mut columns = Vec::with_capacity(2);
        let mut namespaces = Vec::new();
        let mut rests = Vec::with_capacity(keys.len());
        for key in keys {
            let mut key = *key;
            if self.namespaced {
                let (rest, namespace) = key.split_last_chunk().ok_or("a key without its namespace")?;
                namespaces.push((u64::from_be_bytes(*namespace) ^ SIGN).cast_signed());
                key = rest;
            }
            rests.push(key);
        }
        let no_column = |_| "keys that make no column";
        if let Some(ty) = &self.fixed {
            let (mut bits, mut valid) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
            for key in rests {
                let (value, is_valid) = match key {
                    [0] => (0, false),
                    [1, bits @ ..] => {
                        (u64::from_be_bytes(bits.try_into().map_err(|_| "a key of another width")?), true)
                    }
                    _ => return Err("a key that does not say whether it is NULL"),
                };
                bits.push(value);
                valid.push(is_valid);
            }
            let nulls = valid.contains(&false).then(|| valid.into());
            columns.push(fixed_key_array(bits, nulls, ty).map_err(no_column)?);
        } else if self.bytes {
            let mut writer = BytesWriter::new(keys.len());
            rests.into_iter().for_each(|key| writer.push(key));
            columns.push(writer.finish(None, &DataType::Binary).map_err(no_column)?);
        } else if rests.iter().any(|key| !key.is_empty()) {
            return Err("a key where there is none");
        }
        if self.namespaced {
            columns.push(fixed_array(namespaces, None, &DataType::Int64).map_err(no_column)?);
        }
        Ok(columns)
    }
}
