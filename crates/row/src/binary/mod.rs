//! Key columns as the bytes of Flink's BinaryRow, and their hashes.
//!
//! The bytes are those that Flink's generated key projection writes, so that hash, key group and state key agree with
//! Flink. A row of `n` fields, everything little-endian:
//!
//! | part | bytes | content |
//! | --- | --- | --- |
//! | null word | W = ((n + 63 + 8) / 64) * 8 | byte 0: row kind, always 0 (+I) in a key; field i is NULL: bit i + 8 |
//! | slots | 8 n | one slot per field, 0 for a NULL unless said otherwise |
//! | variable part | a multiple of 8 | parts in the order of the fields, each padded to 8 with zeros |
//!
//! | type | slot | part |
//! | --- | --- | --- |
//! | BOOLEAN, TINYINT | value in byte 0 | |
//! | SMALLINT | value in bytes 0 and 1 | |
//! | INT, DATE, TIME, FLOAT (bits), INTERVAL YEAR TO MONTH | value in bytes 0 to 3 | |
//! | BIGINT, DOUBLE (bits), INTERVAL DAY TO SECOND, TIMESTAMP(p <= 3), DECIMAL(p <= 18) | value | |
//! | text and bytes up to 7 | bytes, 0x80 \| length in byte 7 | |
//! | text and bytes from 8 | offset << 32 \| length | the bytes |
//! | DECIMAL(p > 18) | offset << 32 \| length; length 0 for a NULL | always 16: shortest big-endian two's complement, then zeros |
//! | TIMESTAMP(p > 3) | offset << 32 \| nanos of the millisecond, 0 for a NULL | always 8: millis |
//!
//! The last two reserve their part for a NULL as well. That is the projection's form; the form of a row serializer (slot 0,
//! no part) hashes differently and is only for whole rows that leave a stage, see [`RowEncoder`].
//!
//! Columns are written one by one, so that nothing is dispatched per value, and read likewise. Offsets count from the row's first
//! byte.
//!
//! Follows: BinaryRowWriter, AbstractBinaryWriter as driven by ProjectionCodeGenerator, Flink 2.2. Differences: none for the
//! types above; ROW and collections in a key are refused.

pub(crate) mod decoder;
mod encoder;
mod rows;
mod single;
#[cfg(test)]
mod tests;

pub use encoder::{KeyEncoder, KeyError, KeyRows};
pub(crate) use encoder::{MAX_COMPACT_PRECISION, MAX_MILLIS_PRECISION, null_word_bytes};
pub use rows::{EncodedRows, RowEncoder};

use crate::hash::KeyGroup;

/// The hash of each row's key, computed once and passed along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyHashes {
    /// `BinaryRowData.hashCode()` of the key of each row.
    pub hashes: Vec<i32>,
}

impl KeyHashes {
    /// Key group of each row, each below `max_parallelism`.
    pub fn key_groups(&self, max_parallelism: u32) -> impl Iterator<Item = KeyGroup> + '_ {
        self.hashes.iter().map(move |hash| KeyGroup::of_hash(*hash, max_parallelism))
    }
}
