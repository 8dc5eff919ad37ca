//! Values of ARRAY, MAP and MULTISET: the bytes of Flink's BinaryArrayData and BinaryMapData, in a column of Arrow type Binary.
//!
//! Flink writes these bytes wherever such a value is stored, sent or part of a key, so that a value which is carried as they are goes in
//! and out, through the network and through state without being changed: NULL elements, order of entries and all. An element is read where
//! it lies, and becomes part of a column only where a query asks for it. Little-endian:
//!
//! | value | bytes |
//! | --- | --- |
//! | ARRAY of n | i32 n; NULL bits, 4 bytes per 32 elements begun; n slots; zeros up to a multiple of 8; parts |
//! | MAP | i32 bytes of the keys; the keys as an ARRAY; the values as an ARRAY |
//! | MULTISET | a MAP from element to how often it is there, an INT |
//!
//! A slot has the width of its type ([`ElementType::width`]) and what a slot of a row has (see [`crate::binary`]); offsets count from the
//! first byte of the array. A ROW, ARRAY or MAP is a part, and its slot is offset << 32 | length.
//!
//! Bytes may come out of a checkpoint: what cannot be such a value is an error, never a panic.
//!
//! Follows: BinaryArrayData, BinaryMapData, BinaryRowData, Flink 2.2. Differences: none.

mod columns;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use columns::ElementType;

use crate::binary::decoder::Slot;

/// Bytes that are no ARRAY, MAP or MULTISET.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CollectionError {
    /// They end too early, or say that there are fewer elements than none.
    #[error("the bytes are no ARRAY or MAP")]
    Malformed,
    /// An element is none of its type.
    #[error("an element of an ARRAY or MAP is malformed")]
    Element,
}

const LENGTH_BYTES: usize = 4;

/// Where a value lies: in a slot of an array or of a row.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    /// All bytes of the array or row.
    pub(super) container: &'a [u8],
    /// Where the slot begins.
    pub(super) at: usize,
}

impl<'a> Cell<'a> {
    /// The slot, if it has `N` bytes.
    #[inline]
    pub(super) fn fixed<const N: usize>(&self) -> Option<[u8; N]> {
        self.container.get(self.at..)?.first_chunk::<N>().copied()
    }

    /// A signed number of 1, 2, 4 or 8 bytes, of which the slot has so many.
    #[inline]
    pub fn integer(&self, width: usize) -> Result<i64, CollectionError> {
        let value = match width {
            1 => self.fixed().map(|bytes| i8::from_le_bytes(bytes).into()),
            2 => self.fixed().map(|bytes| i16::from_le_bytes(bytes).into()),
            4 => self.fixed().map(|bytes| i32::from_le_bytes(bytes).into()),
            _ => self.fixed().map(i64::from_le_bytes),
        };
        value.ok_or(CollectionError::Element)
    }

    #[inline]
    pub(super) fn slot(&self) -> Option<Slot<'a>> {
        Some(Slot { row: self.container, value: u64::from_le_bytes(self.fixed()?) })
    }

    /// The bytes of a ROW, an ARRAY, a MAP or a MULTISET.
    #[inline]
    pub(super) fn nested(&self) -> Option<&'a [u8]> {
        let slot = self.slot()?;
        slot.part(slot.low() as usize)
    }

    /// The bytes of a text or binary value.
    #[inline]
    pub fn bytes(&self) -> Result<&'a [u8], CollectionError> {
        self.slot().and_then(|slot| crate::binary::decoder::bytes(slot, self.at)).ok_or(CollectionError::Element)
    }
}

/// The elements of an ARRAY, where they lie.
#[derive(Debug, Clone, Copy)]
pub struct ArrayView<'a> {
    bytes: &'a [u8],
    len: usize,
    /// Where the slots begin.
    slots: usize,
}

impl<'a> ArrayView<'a> {
    /// The array in these bytes.
    #[inline]
    pub fn try_new(bytes: &'a [u8]) -> Result<Self, CollectionError> {
        let len = bytes.first_chunk::<LENGTH_BYTES>().map(|len| i32::from_le_bytes(*len));
        let len = len.and_then(|len| usize::try_from(len).ok()).ok_or(CollectionError::Malformed)?;
        let slots = LENGTH_BYTES + len.div_ceil(32) * 4;
        if slots > bytes.len() {
            return Err(CollectionError::Malformed);
        }
        Ok(Self { bytes, len, slots })
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element of this number, whose slots are `width` wide; `None` if it is NULL or there is no such element.
    #[inline]
    pub fn get(&self, index: usize, width: usize) -> Option<Cell<'a>> {
        let null = self.bytes.get(LENGTH_BYTES + index / 8)? >> (index % 8) & 1 == 1;
        (index < self.len && !null).then_some(Cell { container: self.bytes, at: self.slots + index * width })
    }
}

/// The entries of a MAP or MULTISET, where they lie.
#[derive(Debug, Clone, Copy)]
pub struct MapView<'a> {
    /// The keys.
    pub keys: ArrayView<'a>,
    /// As many values.
    pub values: ArrayView<'a>,
}

impl<'a> MapView<'a> {
    /// The map in these bytes.
    #[inline]
    pub fn try_new(bytes: &'a [u8]) -> Result<Self, CollectionError> {
        let (keys, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or(CollectionError::Malformed)?;
        let keys = usize::try_from(i32::from_le_bytes(*keys)).ok().and_then(|keys| rest.split_at_checked(keys));
        let (keys, values) = keys.ok_or(CollectionError::Malformed)?;
        let map = Self { keys: ArrayView::try_new(keys)?, values: ArrayView::try_new(values)? };
        if map.keys.len() == map.values.len() { Ok(map) } else { Err(CollectionError::Malformed) }
    }
}
