//! Reads frames, trusting nothing.

use std::collections::HashMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema};
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::{MessageHeader, MetadataVersion, RecordBatch, root_as_message};
use streamfusion_plan::types::LogicalType;

use super::{ALIGNMENT, BODY_ALIGNMENT, FrameError, FrameInfo, HAS_KEY_GROUP, HAS_KINDS, HEADER_BYTES, MAGIC, VERSION};
use crate::batch::Batch;
use crate::hash::KeyGroup;
use crate::types::arrow_type;

/// Rows and key group of a frame, by its header alone.
pub fn peek(frame: &[u8]) -> Result<FrameInfo, FrameError> {
    Ok(Header::read(frame)?.info)
}

/// The batch of a frame whose columns have these types. What comes back is valid, whatever the bytes.
pub fn decode(frame: &[u8], types: &[LogicalType]) -> Result<Batch, FrameError> {
    let header = Header::read(frame)?;
    let padded_tree = header.tree.next_multiple_of(ALIGNMENT);
    let message_start = HEADER_BYTES + padded_tree;
    let body_start = message_start + header.message;
    let expected = body_start + header.body;
    let length = FrameError::Length { expected, found: frame.len() };
    let (Some(tree), Some(message), Some(body)) = (
        frame.get(HEADER_BYTES..HEADER_BYTES + header.tree),
        frame.get(message_start..body_start),
        frame.get(body_start..).filter(|body| body.len() == header.body),
    ) else {
        return Err(length);
    };

    let mut tree = Tree { bytes: tree, read: 0 };
    let mut fields =
        types.iter().map(|ty| Ok(Field::new("", tree.next_type(ty)?, true))).collect::<Result<Vec<_>, FrameError>>()?;
    tree.finish()?;
    if header.has_kinds {
        fields.push(Field::new("", DataType::UInt8, false));
    }

    // one copy, aligned for every value; the columns share it
    let body = Buffer::from_slice_ref(body);
    let batch = read_message(message, &body, header.info.rows, Schema::new(fields))?;
    let mut columns = batch.columns().to_vec();
    let kinds = if header.has_kinds { columns.pop() } else { None };
    let kinds = kinds.map(|kinds| kinds.as_primitive().clone());
    let batch = Batch::try_new(columns, batch.num_rows(), kinds)?;
    Ok(match header.info.key_group {
        Some(KeyGroup(group)) => batch.with_key_group(group),
        None => batch,
    })
}

/// The fixed part of a frame.
struct Header {
    info: FrameInfo,
    has_kinds: bool,
    tree: usize,
    message: usize,
    body: usize,
}

impl Header {
    fn read(frame: &[u8]) -> Result<Self, FrameError> {
        let Some(bytes) = frame.first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::Length { expected: HEADER_BYTES, found: frame.len() });
        };
        let [m0, m1, m2, m3, version, flags, g0, g1, ..] = *bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(FrameError::Magic);
        }
        if version != VERSION {
            return Err(FrameError::Version { found: version });
        }
        if flags & !(HAS_KINDS | HAS_KEY_GROUP) != 0 {
            return Err(FrameError::Flags { found: flags });
        }
        let mut numbers = [0u32; 4];
        let (words, _) = bytes[8..].as_chunks::<4>();
        for (number, word) in numbers.iter_mut().zip(words) {
            *number = u32::from_le_bytes(*word);
        }
        let [rows, tree, message, body] = numbers;
        let key_group = (flags & HAS_KEY_GROUP != 0).then_some(KeyGroup(u16::from_le_bytes([g0, g1])));
        Ok(Self {
            info: FrameInfo { rows, key_group },
            has_kinds: flags & HAS_KINDS != 0,
            tree: tree as usize,
            message: message as usize,
            body: body as usize,
        })
    }
}

/// The tree's bits, read in order.
struct Tree<'a> {
    bytes: &'a [u8],
    read: usize,
}

impl Tree<'_> {
    /// The Arrow type of the next column and its children.
    fn next_type(&mut self, ty: &LogicalType) -> Result<DataType, FrameError> {
        let byte = self.bytes.get(self.read / 8).ok_or(FrameError::Tree)?;
        let absent = byte >> (self.read % 8) & 1 == 1;
        self.read += 1;
        if absent {
            return Ok(DataType::Null);
        }
        match ty.fields() {
            [] => arrow_type(ty).map_err(|reason| FrameError::Type { reason }),
            children => {
                let children = children.iter().map(|f| Ok(Field::new(&f.name, self.next_type(&f.ty)?, true)));
                Ok(DataType::Struct(children.collect::<Result<_, FrameError>>()?))
            }
        }
    }

    /// Errors if bits are left.
    fn finish(self) -> Result<(), FrameError> {
        let rest = self.bytes.get(self.read / 8).copied().unwrap_or(0) >> (self.read % 8);
        if self.read.div_ceil(8) == self.bytes.len() && rest == 0 { Ok(()) } else { Err(FrameError::Tree) }
    }
}

fn read_message(
    message: &[u8],
    body: &Buffer,
    rows: u32,
    schema: Schema,
) -> Result<arrow::array::RecordBatch, FrameError> {
    let malformed = |what| FrameError::Message { what };
    // the flatbuffer's own structure is verified here, and its alignment
    let aligned = Buffer::from_slice_ref(message);
    let message = root_as_message(&aligned).map_err(|_| malformed("no message"))?;
    if message.version() != MetadataVersion::V5 {
        return Err(malformed("another metadata version"));
    }
    if message.header_type() != MessageHeader::RecordBatch {
        return Err(malformed("no record batch"));
    }
    let batch = message.header_as_record_batch().ok_or_else(|| malformed("no record batch"))?;
    check_buffers(&batch, body.len(), rows, &schema)?;
    let dictionaries = HashMap::new();
    let version = message.version();
    let decoder = RecordBatchDecoder::try_new(body, batch, Arc::new(schema), &dictionaries, &version)?;
    Ok(decoder.read_record_batch()?)
}

/// Arrow's decoder panics where a buffer lies outside of the body or does not have its column's length: so neither may happen.
fn check_buffers(batch: &RecordBatch<'_>, body: usize, rows: u32, schema: &Schema) -> Result<(), FrameError> {
    let malformed = |what| FrameError::Message { what };
    if batch.length() != i64::from(rows) {
        return Err(malformed("another number of rows"));
    }
    if batch.compression().is_some() || batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
        return Err(malformed("unexpected encoding"));
    }
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Err(malformed("no columns"));
    };
    let mut lengths = Vec::with_capacity(buffers.len());
    for buffer in &buffers {
        let (offset, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        match (offset, length) {
            (Ok(offset), Ok(length))
                if offset.is_multiple_of(BODY_ALIGNMENT)
                    && offset.checked_add(length).is_some_and(|end| end <= body) =>
            {
                lengths.push(length);
            }
            _ => return Err(malformed("a buffer outside of the body, or between its places")),
        }
    }
    let mut shape = Shape { rows: rows as usize, nodes: nodes.iter(), lengths: lengths.into_iter() };
    for field in schema.fields() {
        shape.check(field)?;
    }
    match (shape.nodes.next(), shape.lengths.next()) {
        (None, None) => Ok(()),
        _ => Err(malformed("more columns than the row type has")),
    }
}

/// Walks the columns of a record batch as Arrow's decoder does.
struct Shape<N> {
    rows: usize,
    nodes: N,
    lengths: std::vec::IntoIter<usize>,
}

impl<'a, N: Iterator<Item = &'a arrow_ipc::FieldNode>> Shape<N> {
    fn check(&mut self, field: &Field) -> Result<(), FrameError> {
        let malformed = |what| FrameError::Message { what };
        let node = self.nodes.next().ok_or_else(|| malformed("fewer columns than the row type has"))?;
        let nulls = usize::try_from(node.null_count()).map_err(|_| malformed("a negative number of NULLs"))?;
        if usize::try_from(node.length()) != Ok(self.rows) || nulls > self.rows {
            return Err(malformed("a column of another length"));
        }
        if !field.is_nullable() && nulls > 0 {
            return Err(malformed("a NULL where there is none"));
        }
        if field.data_type() == &DataType::Null {
            return Ok(());
        }
        let bitmap = self.rows.div_ceil(8);
        // bitmaps may be padded; without NULLs there may be none
        self.buffer(if nulls > 0 { bitmap } else { 0 }..)?;
        match field.data_type() {
            DataType::Boolean => self.buffer(bitmap..),
            DataType::Utf8 | DataType::Binary => {
                let offsets = 4 * (self.rows + 1);
                self.buffer(offsets..=offsets)?;
                self.buffer(0..)
            }
            DataType::Struct(children) => children.iter().try_for_each(|child| self.check(child)),
            ty => {
                let values = self.rows * ty.primitive_width().ok_or_else(|| malformed("an unknown type"))?;
                self.buffer(values..=values)
            }
        }
    }

    /// The next buffer must have so many bytes.
    fn buffer(&mut self, expected: impl RangeBounds<usize>) -> Result<(), FrameError> {
        match self.lengths.next() {
            Some(length) if expected.contains(&length) => Ok(()),
            Some(_) => Err(FrameError::Message { what: "a buffer of another length" }),
            None => Err(FrameError::Message { what: "fewer buffers than the row type has" }),
        }
    }
}
