//! Reads frames, trusting nothing.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema};
use streamfusion_plan::types::LogicalType;

use super::{ALIGNMENT, BODY_ALIGNMENT, FrameError, FrameInfo, HAS_KEY_GROUP, HAS_KINDS, HEADER_BYTES, MAGIC, VERSION};
use crate::batch::Batch;
use crate::hash::KeyGroup;
use crate::ipc::read_record_batch;
use crate::types::arrow_type;

/// Rows and key group of a frame, by its header alone.
pub fn peek(frame: &[u8]) -> Result<FrameInfo, FrameError> {
    Ok(Header::read(frame)?.info)
}

/// The batch of a frame whose columns have these types. What comes back is valid, whatever the bytes.
pub fn decode(frame: &[u8], types: &[LogicalType]) -> Result<Batch, FrameError> {
    decode_shared(&Buffer::from_slice_ref(frame), types)
}

/// The same, where the columns share the frame's bytes as far as those are aligned.
pub fn decode_shared(shared: &Buffer, types: &[LogicalType]) -> Result<Batch, FrameError> {
    let frame = shared.as_slice();
    let header = Header::read(frame)?;
    let padded_tree = header.tree.next_multiple_of(ALIGNMENT);
    let message_start = HEADER_BYTES + padded_tree;
    let body_start = message_start + header.message;
    let expected = body_start + header.body;
    let length = FrameError::Length { expected, found: frame.len() };
    let (Some(tree), Some(message), true) = (
        frame.get(HEADER_BYTES..HEADER_BYTES + header.tree),
        frame.get(message_start..body_start),
        frame.len() == expected,
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

    // aligned for every value; what is not is copied
    let body = shared.slice_with_length(body_start, header.body);
    // a copy, aligned as flatbuffers want it
    let message = Buffer::from_slice_ref(message);
    let batch = read_record_batch(&message, &body, Arc::new(Schema::new(fields)), BODY_ALIGNMENT)?;
    if batch.num_rows() != header.info.rows as usize {
        return Err(FrameError::Message { what: "another number of rows" });
    }
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
