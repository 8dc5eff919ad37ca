//! Entry: rows become a batch in buffers that are owned here and written from outside.
//!
//! The writer is Java: it asks for addresses, writes rows as the boundary document (section Entry) lays them out, and
//! finishes the batch. Addresses leave this module as plain numbers and nothing here ever follows one: what was written is
//! read back through the buffers' owners, all of whose bytes are initialised. So no `unsafe` is needed, and a writer that
//! forgets a value yields a zero or an old one. What the writer promises is to stay inside of the buffers and not to write
//! while a batch is finished.
//!
//! Invariants: an address is valid until its column is reserved anew or the batch is finished. Data buffers are reserved anew
//! in every batch before they are written. Values whose layout is Arrow's leave with their buffer, which is replaced by a
//! fresh one, unless most of it is unused: then the rows are copied, so that a few rows do not hold memory for thousands.
//!
//! Rows that the writer has in Flink's binary form it may hand over whole, into a buffer of their own, which is kept from batch to
//! batch; their fields are read here.
//!
//! Platforms are little-endian, as the boundary is.

mod binary_rows;
mod buffers;
#[cfg(test)]
mod tests;
mod tree;

pub use buffers::{EntryBuffers, EntryError, RowKinds};
pub use tree::ColumnTree;
