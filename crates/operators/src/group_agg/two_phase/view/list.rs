//! Values in a row, NULLs among them: what LAG keeps.
//!
//! These cells are no maps, and lie in state: what is written once is read for good.

use super::cell::{Cursor, Malformed, VERSION, put_varint};
use super::value::Carried;

/// The kind of a cell.
const KIND: u8 = 4;

/// Begins a cell; so many values follow, each put with [`put_value`].
pub(in crate::group_agg) fn begin_list(values: usize, out: &mut Vec<u8>) {
    out.extend([VERSION, KIND]);
    put_varint(values as u64, out);
}

/// Writes a value, or NULL.
pub(in crate::group_agg) fn put_value<I: Carried>(value: Option<I::Item<'_>>, out: &mut Vec<u8>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        I::write(value, out);
    }
}

/// Hands each value of a cell to `take`.
pub(in crate::group_agg) fn read_list<'a, I: Carried>(
    cell: &'a [u8],
    mut take: impl FnMut(Option<I::Item<'a>>),
) -> Result<(), Malformed> {
    let mut cell = Cursor::open(cell, KIND)?;
    for _ in 0..cell.entries()? {
        take(if cell.flag()? { Some(I::read(&mut cell)?) } else { None });
    }
    cell.close()
}
