//! Hashes of a key of one column, straight from the values: no row is written.

use arrow::array::ArrayRef;

use super::encoder::{Layout, MAX_INLINE, byte_parts, for_each_slot, index, inline_slot, is_null, length, offset_slot};
use crate::hash::WordHasher;

/// Bytes of null word and slot.
const FIXED: usize = 16;

/// Hasher of a one-field row behind its null word.
const fn after_null_word(word: u64) -> WordHasher {
    let mut hasher = WordHasher::new();
    hasher.write_u64(word);
    hasher
}

const PRESENT: WordHasher = after_null_word(0);
/// Bit 8: field 0 is NULL.
const NULL: WordHasher = after_null_word(1 << 8);

#[inline]
fn hash_slot(mut hasher: WordHasher, slot: u64) -> i32 {
    hasher.write_u64(slot);
    hasher.finish(FIXED)
}

/// Fills `hashes`, one per row of the column, which has the layout `layout`: a slot, or bytes.
pub(super) fn hash_column(layout: Layout, column: &ArrayRef, hashes: &mut [i32]) {
    match layout {
        Layout::Bytes => hash_bytes_column(column, hashes),
        _ => for_each_slot(column, |row, slot| {
            hashes[row] = match slot {
                Some(slot) => hash_slot(PRESENT, slot),
                None => hash_slot(NULL, 0),
            }
        }),
    }
}

fn hash_bytes_column(column: &ArrayRef, hashes: &mut [i32]) {
    let (offsets, data) = byte_parts(column);
    let nulls = column.nulls();
    for (row, (ends, hash)) in offsets.windows(2).zip(hashes).enumerate() {
        *hash = if is_null(nulls, row) { hash_slot(NULL, 0) } else { hash_bytes(data, index(ends[0]), length(ends)) };
    }
}

#[inline]
fn hash_bytes(data: &[u8], start: usize, len: usize) -> i32 {
    if len <= MAX_INLINE {
        return hash_slot(PRESENT, inline_slot(data, start, len));
    }
    let mut hasher = PRESENT;
    hasher.write_u64(offset_slot(FIXED as u32, len as u32)); // an Arrow length is an i32
    let (words, rest) = data[start..start + len].as_chunks::<8>();
    for word in words {
        hasher.write_u64(u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hasher.write_u64(u64::from_le_bytes(word));
    }
    hasher.finish(FIXED + len.next_multiple_of(8))
}
