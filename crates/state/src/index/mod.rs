//! From keys to slots.
//!
//! Two indexes with one behaviour: [`FixedKeyIndex`] for a key of one column of at most 8 bytes, [`BytesKeyIndex`] for
//! every other key, by its BinaryRow bytes. A slot belongs to its key until it is removed; then it is reused. The key
//! group of a key counts only when the key is added: it decides from which pages the slot comes (see [`Slots`]).
//!
//! [`Slots`]: crate::Slots

mod bytes;
mod fixed;
#[cfg(test)]
mod tests;

pub use bytes::{BytesKeyIndex, BytesKeys};
pub(crate) use fixed::key_hash;
pub use fixed::{FixedKeyIndex, FixedKeys};

/// The slot of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The slot.
    pub slot: u32,
    /// Whether the key was added by this very call.
    pub added: bool,
}
