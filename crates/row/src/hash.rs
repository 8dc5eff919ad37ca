//! Flink's row hash, key groups, and the subtask that owns one.
//!
//! The hash of a key is murmur over the bytes of its BinaryRow (see [`crate::binary`]), the key group is a second murmur
//! over that hash. Both must match Flink bit for bit, since records, timers and state of one job meet here: a key that
//! lands in another group than Flink's is lost on the next restore.
//!
//! Follows: MurmurHashUtils, MathUtils.murmurHash, KeyGroupRangeAssignment, Flink 2.2. Differences: none.

const C1: u32 = 0xcc9e_2d51;
const C2: u32 = 0x1b87_3593;
/// Seed of every row hash.
const SEED: u32 = 42;

/// A key group: the unit in which keyed state is distributed. Less than the job's maximum parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyGroup(pub u16);

impl KeyGroup {
    /// The largest maximum parallelism that Flink accepts.
    pub const MAX_PARALLELISM: u32 = 1 << 15;

    /// Key group of a key whose BinaryRow has the hash `hash`. A `max_parallelism` of 0 counts as 1, one above
    /// [`KeyGroup::MAX_PARALLELISM`] as that.
    #[inline]
    pub fn of_hash(hash: i32, max_parallelism: u32) -> Self {
        let max_parallelism = max_parallelism.clamp(1, Self::MAX_PARALLELISM);
        // a remainder by at most 2^15 fits
        Self((murmur_hash(hash).cast_unsigned() % max_parallelism) as u16)
    }

    /// The subtask, of `parallelism`, that owns this group. Meaningful for a group below `max_parallelism` and a
    /// parallelism of at most `max_parallelism`; then the result is below `parallelism`.
    #[inline]
    pub fn subtask(self, parallelism: u32, max_parallelism: u32) -> u32 {
        u32::from(self.0).saturating_mul(parallelism) / max_parallelism.max(1)
    }
}

/// The murmur hash over little-endian words of 4 bytes, as `BinaryRowData.hashCode()` has it.
///
/// The length of `bytes` is a multiple of 4 for every BinaryRow; a rest of up to 3 bytes only enters by its length.
#[inline]
pub fn hash_bytes_by_words(bytes: &[u8]) -> i32 {
    let mut hasher = WordHasher::new();
    for pair in bytes.chunks_exact(8) {
        let mut word = [0; 8];
        word.copy_from_slice(pair);
        hasher.write_u64(u64::from_le_bytes(word));
    }
    if bytes.len() % 8 >= 4
        && let Some(word) = bytes.chunks_exact(8).remainder().first_chunk::<4>()
    {
        hasher.write_u32(u32::from_le_bytes(*word));
    }
    hasher.finish(bytes.len())
}

/// The hash of [`hash_bytes_by_words`], fed word by word, for rows that are never written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordHasher(u32);

impl WordHasher {
    /// Before the first word.
    #[inline]
    pub(crate) const fn new() -> Self {
        Self(SEED)
    }

    /// Takes 4 bytes of the row as a little-endian word.
    #[inline]
    pub(crate) const fn write_u32(&mut self, word: u32) {
        let mixed = word.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
        self.0 = (self.0 ^ mixed).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }

    /// Takes 8 bytes of the row as a little-endian word.
    #[inline]
    pub(crate) const fn write_u64(&mut self, word: u64) {
        self.write_u32(word as u32); // the low half
        self.write_u32((word >> 32) as u32);
    }

    /// The hash of a row of `len` bytes.
    #[inline]
    pub(crate) fn finish(self, len: usize) -> i32 {
        // Flink's length is an int; no row is longer
        final_mix(self.0 ^ len as u32).cast_signed()
    }
}

/// `MathUtils.murmurHash`: spreads a hash code; never negative.
#[inline]
pub fn murmur_hash(code: i32) -> i32 {
    let mut h = code.cast_unsigned().wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    let mixed = final_mix(h ^ 4).cast_signed();
    // i32::MIN has no positive counterpart; Flink makes it 0
    mixed.checked_abs().unwrap_or(0)
}

#[inline]
const fn final_mix(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_empty_row_has_flinks_hash_and_key_group() {
        let hash = hash_bytes_by_words(&[0; 8]);
        assert_eq!(hash, -1_670_924_195);
        assert_eq!(KeyGroup::of_hash(hash, 128), KeyGroup(11));
        assert_eq!(KeyGroup(11).subtask(4, 128), 0);
    }

    #[test]
    fn a_larger_max_parallelism_has_more_key_groups() {
        // BIGINT 42
        assert_eq!(KeyGroup::of_hash(907_821_237, 128), KeyGroup(69));
        assert_eq!(KeyGroup::of_hash(907_821_237, 1024), KeyGroup(709));
    }

    #[test]
    fn a_row_of_another_kind_hashes_differently() {
        let mut row = [0; 16];
        row[8] = 42;
        assert_eq!(hash_bytes_by_words(&row), 907_821_237);
        row[0] = 3;
        assert_eq!(hash_bytes_by_words(&row), -428_982_441);
        assert_eq!(KeyGroup::of_hash(-428_982_441, 128), KeyGroup(91));
    }

    #[test]
    fn subtasks_own_contiguous_ranges() {
        let owners = |p: u32| (0..128).map(|g| KeyGroup(g).subtask(p, 128)).collect::<Vec<_>>();
        let ends = |p: u32| {
            let owners = owners(p);
            (0..128).filter(|g| *g == 127 || owners[*g] != owners[g + 1]).collect::<Vec<_>>()
        };
        assert_eq!(ends(3), [42, 85, 127]);
        assert_eq!(ends(10), [12, 25, 38, 51, 63, 76, 89, 102, 115, 127]);
    }

    proptest! {
        #[test]
        fn murmur_is_never_negative(code: i32) {
            prop_assert!(murmur_hash(code) >= 0);
        }

        #[test]
        fn every_group_has_an_owner(hash: i32, max in 1u32..=KeyGroup::MAX_PARALLELISM, part in 1u32..=100) {
            let parallelism = (max * part / 100).max(1);
            let group = KeyGroup::of_hash(hash, max);
            prop_assert!(u32::from(group.0) < max);
            prop_assert!(group.subtask(parallelism, max) < parallelism);
        }

        #[test]
        fn words_hash_like_bytes(words in prop::collection::vec(any::<u32>(), 0..20)) {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            let mut hasher = WordHasher::new();
            words.iter().for_each(|w| hasher.write_u32(*w));
            prop_assert_eq!(hasher.finish(bytes.len()), hash_bytes_by_words(&bytes));
        }
    }
}
