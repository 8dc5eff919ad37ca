//! The bytes of a cell: see the [module](super) for their order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use super::marks::Marks;
use crate::OperatorError;

/// The version that is written, and the only one that is read.
pub(super) const VERSION: u8 = 1;

/// What is wrong with a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::group_agg) enum Malformed {
    #[error("it ends too early")]
    Truncated,
    #[error("it goes on behind its entries")]
    Trailing,
    #[error("its form has version {0}, not {VERSION}")]
    Version(u8),
    #[error("it is of kind {found}, not {expected}")]
    Kind { found: u8, expected: u8 },
    #[error("it is of {found} calls, not {expected}")]
    Calls { found: u64, expected: usize },
    #[error("a number has more than 64 bits")]
    Varint,
    #[error("a text is not UTF-8")]
    Utf8,
    #[error("a flag is neither 0 nor 1")]
    Flag,
    #[error("a value is not counted, or by calls that are not there")]
    Unmarked,
}

impl From<Malformed> for OperatorError {
    fn from(malformed: Malformed) -> Self {
        OperatorError::Input(format!("a map of values between two phases of an aggregate: {malformed}"))
    }
}

/// What is left of a cell.
#[derive(Debug, Clone, Copy)]
pub(in crate::group_agg) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// A cell of this kind, behind its version and kind.
    pub(super) fn open(cell: &'a [u8], kind: u8) -> Result<Self, Malformed> {
        match cell {
            [VERSION, found, rest @ ..] if *found == kind => Ok(Self(rest)),
            [VERSION, found, ..] => Err(Malformed::Kind { found: *found, expected: kind }),
            [version, ..] if *version != VERSION => Err(Malformed::Version(*version)),
            _ => Err(Malformed::Truncated),
        }
    }

    /// A cell with the set of so many calls, behind their number.
    pub(super) fn open_set<M: Marks>(cell: &'a [u8], calls: usize) -> Result<Self, Malformed> {
        let mut cell = Self::open(cell, M::KIND)?;
        let found = cell.varint()?;
        if found == calls as u64 { Ok(cell) } else { Err(Malformed::Calls { found, expected: calls }) }
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    /// The next `len` bytes.
    #[inline]
    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        if let [byte @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u64::from(*byte));
        }
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                return Err(Malformed::Varint);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed::Varint)
    }

    #[inline]
    pub(super) fn count(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// How many entries follow.
    pub(super) fn entries(&mut self) -> Result<usize, Malformed> {
        // an entry has a byte at least
        usize::try_from(self.varint()?).ok().filter(|entries| *entries <= self.0.len()).ok_or(Malformed::Truncated)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Malformed::Flag),
        }
    }

    /// The end of the cell.
    pub(super) fn close(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}

#[inline]
pub(super) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80); // the lowest bits
        value >>= 7;
    }
    out.push(value as u8); // below 0x80
}

#[inline]
pub(super) fn put_count(count: i64, out: &mut Vec<u8>) {
    put_varint(((count << 1) ^ (count >> 63)).cast_unsigned(), out);
}

/// A column of cells.
pub(super) fn binary(cells: &ArrayRef) -> Result<&BinaryArray, OperatorError> {
    cells
        .as_binary_opt::<i32>()
        .filter(|cells| cells.null_count() == 0)
        .ok_or_else(|| OperatorError::Input(format!("maps of values of type {} or with NULLs", cells.data_type())))
}

/// Writes a column of cells with sets.
#[derive(Debug)]
pub(super) struct Cells {
    bytes: Vec<u8>,
    offsets: Vec<i32>,
}

impl Cells {
    pub(super) fn with_capacity(cells: usize) -> Self {
        let mut offsets = Vec::with_capacity(cells + 1);
        offsets.push(0);
        Self { bytes: Vec::with_capacity(cells * 4), offsets }
    }

    /// Begins a cell with the set of so many calls; so many entries follow.
    pub(super) fn open<M: Marks>(&mut self, calls: usize, entries: usize) {
        self.bytes.extend([VERSION, M::KIND]);
        put_varint(calls as u64, &mut self.bytes);
        put_varint(entries as u64, &mut self.bytes);
    }

    /// Where entries go.
    #[inline]
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the cell.
    pub(super) fn close(&mut self) -> Result<(), OperatorError> {
        self.offsets.push(i32::try_from(self.bytes.len()).map_err(|_| OperatorError::TooLarge)?);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<ArrayRef, OperatorError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        Ok(Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(self.bytes), None)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cursor(bytes: &[u8]) -> Cursor<'_> {
        Cursor(bytes)
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(value in any::<u64>(), shift in 0_u32..64) {
            let (value, count) = (value >> shift, (value >> shift).cast_signed());
            for count in [count, count.wrapping_neg(), i64::MIN, i64::MAX] {
                let mut out = Vec::new();
                put_varint(value, &mut out);
                put_count(count, &mut out);
                let mut cursor = cursor(&out);
                prop_assert_eq!((cursor.varint(), cursor.count(), cursor.close()), (Ok(value), Ok(count), Ok(())));
            }
        }
    }

    #[test]
    fn numbers_that_are_cut_off_or_too_long_are_refused() {
        assert_eq!(cursor(&[]).varint(), Err(Malformed::Truncated));
        assert_eq!(cursor(&[0x80, 0x80]).varint(), Err(Malformed::Truncated));
        assert_eq!(cursor(&[0xFF; 9]).varint(), Err(Malformed::Truncated));
        assert_eq!(cursor(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2]).varint(), Err(Malformed::Varint));
        assert_eq!(cursor(&[0x80; 11]).varint(), Err(Malformed::Varint));
        assert_eq!(cursor(&[3, 0, 0]).entries(), Err(Malformed::Truncated));
    }
}
