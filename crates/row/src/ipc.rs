//! Record batches out of Arrow IPC messages that may be damaged.
//!
//! Arrow's decoder panics where a buffer lies outside of the body or does not have its column's length. So everything it
//! relies on is compared with the schema before: the message's own structure (flatbuffer verifier), numbers of columns
//! and buffers, their places and lengths. Offsets, UTF-8 and NULL counts are then checked by Arrow. What passes is valid,
//! though not necessarily what was written: that takes a checksum.
//!
//! The types are those that StreamFusion writes: fixed-width values, Boolean, Utf8, Binary, Null, Struct and List of them.
//! Dictionaries, views, unions and compressed bodies are refused.

use std::collections::HashMap;
use std::ops::RangeBounds;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::{FieldNode, MessageHeader, MetadataVersion, root_as_message};

/// A message that is no record batch of the schema.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// Its structure is wrong.
    #[error("malformed record batch: {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// Refused by Arrow.
    #[error("invalid columns")]
    Arrow(#[from] ArrowError),
}

/// The batch of a message with a RecordBatch header: `message` is the flatbuffer, aligned to 8, `body` what follows it.
/// Buffers lie at multiples of `alignment`; those that are aligned for their values share `body`, others are copied.
pub fn read_record_batch(
    message: &[u8],
    body: &Buffer,
    schema: SchemaRef,
    alignment: usize,
) -> Result<RecordBatch, MessageError> {
    // the flatbuffer's own structure is verified here, and its alignment
    let message = root_as_message(message).map_err(|_| malformed("no message"))?;
    if message.version() != MetadataVersion::V5 {
        return Err(malformed("another metadata version"));
    }
    if message.header_type() != MessageHeader::RecordBatch {
        return Err(malformed("no record batch"));
    }
    let batch = message.header_as_record_batch().ok_or_else(|| malformed("no record batch"))?;
    check(&batch, body.len(), &schema, alignment)?;
    let dictionaries = HashMap::new();
    let version = message.version();
    Ok(RecordBatchDecoder::try_new(body, batch, schema, &dictionaries, &version)?.read_record_batch()?)
}

fn malformed(what: &'static str) -> MessageError {
    MessageError::Malformed { what }
}

fn check(
    batch: &arrow_ipc::RecordBatch<'_>,
    body: usize,
    schema: &SchemaRef,
    alignment: usize,
) -> Result<(), MessageError> {
    let rows = length(batch.length()).ok_or_else(|| malformed("an impossible number of rows"))?;
    if batch.compression().is_some() || batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
        return Err(malformed("unexpected encoding"));
    }
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Err(malformed("no columns"));
    };
    let mut lengths = Vec::with_capacity(buffers.len());
    for buffer in &buffers {
        match (usize::try_from(buffer.offset()), usize::try_from(buffer.length())) {
            (Ok(offset), Ok(length))
                if offset.is_multiple_of(alignment) && offset.checked_add(length).is_some_and(|end| end <= body) =>
            {
                lengths.push(length);
            }
            _ => return Err(malformed("a buffer outside of the body, or between its places")),
        }
    }
    let mut shape = Shape { nodes: nodes.iter(), lengths: lengths.into_iter() };
    for field in schema.fields() {
        shape.check(field, Some(rows))?;
    }
    match (shape.nodes.next(), shape.lengths.next()) {
        (None, None) => Ok(()),
        _ => Err(malformed("more columns than the row type has")),
    }
}

/// A number of values: small enough that no multiple of it by a value's width overflows.
fn length(length: i64) -> Option<usize> {
    u32::try_from(length).ok().and_then(|length| usize::try_from(length).ok())
}

/// Walks the columns of a record batch as Arrow's decoder does.
struct Shape<N> {
    nodes: N,
    lengths: std::vec::IntoIter<usize>,
}

impl<'a, N: Iterator<Item = &'a FieldNode>> Shape<N> {
    /// Without `rows` any number of values will do, as below a list, where the offsets say how many there are.
    fn check(&mut self, field: &Field, rows: Option<usize>) -> Result<(), MessageError> {
        let node = self.nodes.next().ok_or_else(|| malformed("fewer columns than the row type has"))?;
        let nulls = usize::try_from(node.null_count()).map_err(|_| malformed("a negative number of NULLs"))?;
        let rows = match (length(node.length()), rows) {
            (Some(found), Some(expected)) if found != expected => None,
            (found, _) => found,
        };
        let rows = rows.filter(|rows| nulls <= *rows).ok_or_else(|| malformed("a column of another length"))?;
        if field.data_type() == &DataType::Null {
            return Ok(());
        }
        if !field.is_nullable() && nulls > 0 {
            return Err(malformed("a NULL where there is none"));
        }
        let bitmap = rows.div_ceil(8);
        // bitmaps may be padded; without NULLs there may be none
        self.buffer(if nulls > 0 { bitmap } else { 0 }..)?;
        match field.data_type() {
            DataType::Boolean => self.buffer(bitmap..),
            DataType::Utf8 | DataType::Binary => {
                self.offsets(rows)?;
                self.buffer(0..)
            }
            DataType::List(child) => {
                self.offsets(rows)?;
                self.check(child, None)
            }
            DataType::Struct(children) => children.iter().try_for_each(|child| self.check(child, Some(rows))),
            DataType::FixedSizeBinary(width) => {
                let width = usize::try_from(*width).map_err(|_| malformed("a negative width"))?;
                let values = rows.checked_mul(width).ok_or_else(|| malformed("an impossible width"))?;
                self.buffer(values..=values)
            }
            ty => {
                let values = rows * ty.primitive_width().ok_or_else(|| malformed("an unknown type"))?;
                self.buffer(values..=values)
            }
        }
    }

    /// The offsets of `rows` values; for none of them there may be no offset either.
    fn offsets(&mut self, rows: usize) -> Result<(), MessageError> {
        let offsets = 4 * (rows + 1);
        self.buffer(if rows == 0 { 0 } else { offsets }..=offsets)
    }

    /// The next buffer must have so many bytes.
    fn buffer(&mut self, expected: impl RangeBounds<usize>) -> Result<(), MessageError> {
        match self.lengths.next() {
            Some(length) if expected.contains(&length) => Ok(()),
            Some(_) => Err(malformed("a buffer of another length")),
            None => Err(malformed("fewer buffers than the row type has")),
        }
    }
}
