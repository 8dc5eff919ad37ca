//! The rows of a batch, packed and hashed: once per batch, column by column.

use arrow::array::ArrayRef;

use crate::rows::layout::RowLayout;
use crate::rows::pack::Packed;
use crate::{StateError, mix};

/// What makes two rows of a key the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Nothing: rows are only walked.
    None,
    /// All columns.
    WholeRow,
    /// Some columns, by number.
    Columns(Vec<usize>),
}

/// An identity of rows of one layout.
#[derive(Debug)]
pub(super) enum Identifier {
    None,
    WholeRow,
    Columns { columns: Vec<usize>, layout: RowLayout },
}

impl Identifier {
    pub(super) fn try_new(identity: Identity, layout: &RowLayout) -> Result<Self, StateError> {
        Ok(match identity {
            Identity::None => Self::None,
            Identity::WholeRow => Self::WholeRow,
            Identity::Columns(columns) => {
                let ty = |column: &usize| layout.types().nth(*column).cloned().ok_or(StateError::RowColumns);
                let types = columns.iter().map(ty).collect::<Result<Vec<_>, _>>()?;
                Self::Columns { columns, layout: RowLayout::try_new(&types)? }
            }
        })
    }

    /// Whether rows are found by it.
    #[inline]
    pub(super) fn finds(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Whether the packed row `stored` is the same as row `row` of `batch`. `layout` is that of whole rows.
    #[inline]
    pub(super) fn same(&self, layout: &RowLayout, stored: &[u8], batch: &PackedRows, row: usize) -> bool {
        match self {
            Self::None => false,
            Self::WholeRow => stored == batch.rows.row(row),
            Self::Columns { columns, layout: identity } => {
                layout.same_fields(stored, columns, identity, batch.identities.row(row))
            }
        }
    }
}

/// Rows of a batch, packed for one [`RowEntries`](super::RowEntries). Used again from batch to batch.
#[derive(Debug, Default)]
pub struct PackedRows {
    rows: Packed,
    /// Only where the identity is some of the columns.
    identities: Packed,
    /// Of the identities; empty without identity.
    hashes: Vec<u64>,
}

impl PackedRows {
    pub(super) fn pack(
        &mut self,
        layout: &RowLayout,
        identifier: &Identifier,
        columns: &[ArrayRef],
        rows: &[u32],
    ) -> Result<(), StateError> {
        self.rows.pack(layout, columns, rows)?;
        self.hashes.clear();
        match identifier {
            Identifier::None => {}
            Identifier::WholeRow => self.hashes.extend(self.rows.rows().map(hash)),
            Identifier::Columns { columns: numbers, layout } => {
                let column = |number: &usize| columns.get(*number).map(ArrayRef::clone).ok_or(StateError::RowColumns);
                let columns = numbers.iter().map(column).collect::<Result<Vec<_>, _>>()?;
                self.identities.pack(layout, &columns, rows)?;
                self.hashes.extend(self.identities.rows().map(hash));
            }
        }
        Ok(())
    }

    /// The packed row: equal bytes are equal rows.
    #[inline]
    pub fn row(&self, row: usize) -> &[u8] {
        self.rows.row(row)
    }

    /// The hash of the identity of a row, if there is one.
    #[inline]
    pub(super) fn hash(&self, row: usize) -> Option<u64> {
        self.hashes.get(row).copied()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.rows.capacity() + self.identities.capacity() + self.hashes.capacity() * size_of::<u64>()
    }
}

/// A hash of bytes that stays in memory.
#[inline]
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    // usize has at most 64 bits
    let hash = words.iter().fold(bytes.len() as u64, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
    mix(hash ^ u64::from_le_bytes(last))
}
