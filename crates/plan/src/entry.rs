//! Which fields of its input rows a stage reads: the `entry` of a stage.
//!
//! A field that is not read has no buffers at the entry and no place in the column tree; in a batch it keeps its position
//! as a column of Arrow type Null.

/// What a stage reads of one field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryField {
    /// Not read.
    Skip,
    /// Read whole; never used for a ROW.
    Read,
    /// A ROW, read in part or whole: one element per field of its type.
    Row(Vec<EntryField>),
}
