//! From keys to slots.
//!
//! Two indexes with one behaviour: [`FixedKeyIndex`] for a key of one column of at most 8 bytes, [`BytesKeyIndex`] for
//! every other key, by its BinaryRow bytes. A slot belongs to its key until it is removed; then it is reused. The key
//! group of a key counts only when the key is added: it decides from which pages the slot comes (see [`Slots`]).
//!
//! With a [`Namespace`] a key may have several slots, one in each namespace. Its key group is the same in all of them.
//!
//! [`Slots`]: crate::Slots

use std::fmt::Debug;

use crate::mix;

mod bytes;
mod fixed;
mod memo;
#[cfg(test)]
mod tests;

pub use bytes::{BytesKeyIndex, BytesKeys};
pub(crate) use fixed::key_hash;
pub use fixed::{FixedKeyIndex, FixedKeys};

/// What tells the slots of one key apart: nothing (`()`), or a number such as the end of a window.
pub trait Namespace: Copy + Default + Ord + Debug + Send + Sync + 'static {
    /// The hash of a key with this hash, in this namespace.
    fn mix(self, hash: u64) -> u64;
}

impl Namespace for () {
    #[inline]
    fn mix(self, hash: u64) -> u64 {
        mix(hash)
    }
}

impl Namespace for i64 {
    #[inline]
    fn mix(self, hash: u64) -> u64 {
        // window ends have few distinct low bits: an odd factor spreads them over the high ones before they meet the key
        mix(hash ^ self.cast_unsigned().wrapping_mul(0x9FB2_1C65_1E98_DF25).rotate_left(32))
    }
}

/// The slot of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The slot.
    pub slot: u32,
    /// Whether the key was added by this very call.
    pub added: bool,
}
