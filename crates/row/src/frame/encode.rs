//! Writes frames.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};

use super::{ALIGNMENT, BODY_ALIGNMENT, FrameError, HAS_KEY_GROUP, HAS_KINDS, HEADER_BYTES, MAGIC, VERSION};
use crate::batch::Batch;

/// The frame of a batch. Errors if the batch has 2^32 rows or bytes, or a column that no Flink type lies in.
pub fn encode(batch: &Batch) -> Result<Vec<u8>, FrameError> {
    let [mut frame, body] = parts(batch, ALIGNMENT)?;
    frame.extend(&body);
    Ok(frame)
}

/// The same in two parts, of which the second, the body, is nearly all of it: whoever writes it somewhere need not copy it first. The
/// body starts so that a reader need not copy it either.
pub fn encode_parts(batch: &Batch) -> Result<[Vec<u8>; 2], FrameError> {
    parts(batch, BODY_ALIGNMENT)
}

/// The frame before the body, which starts at a multiple of `alignment`, and the body.
fn parts(batch: &Batch, alignment: usize) -> Result<[Vec<u8>; 2], FrameError> {
    let rows = batch.num_rows();
    let mut tree = Bits::default();
    for column in batch.columns() {
        mark_columns(column, &mut tree);
    }
    let message = message(batch)?;
    let tree = tree.bytes;
    let size = |bytes: usize| u32::try_from(bytes).map_err(|_| FrameError::TooLarge { bytes, rows });
    let padded_tree = tree.len().next_multiple_of(ALIGNMENT);
    let body_start = (HEADER_BYTES + padded_tree + message.ipc_message.len()).next_multiple_of(alignment);
    let padded_message = body_start - HEADER_BYTES - padded_tree;
    let kinds = if batch.kinds().is_some() { HAS_KINDS } else { 0 };
    let key_group = if batch.key_group().is_some() { HAS_KEY_GROUP } else { 0 };

    let mut frame = Vec::with_capacity(body_start);
    frame.extend(MAGIC);
    frame.extend([VERSION, kinds | key_group]);
    frame.extend(batch.key_group().unwrap_or_default().to_le_bytes());
    frame.extend(size(rows)?.to_le_bytes());
    frame.extend(size(tree.len())?.to_le_bytes());
    frame.extend(size(padded_message)?.to_le_bytes());
    frame.extend(size(message.arrow_data.len())?.to_le_bytes());
    frame.extend(&tree);
    frame.resize(HEADER_BYTES + padded_tree, 0);
    frame.extend(&message.ipc_message);
    frame.resize(body_start, 0);
    Ok([frame, message.arrow_data])
}

fn message(batch: &Batch) -> Result<arrow_ipc::writer::EncodedData, FrameError> {
    let mut columns = batch.columns().to_vec();
    columns.extend(batch.kinds().map(|kinds| Arc::new(kinds.clone()) as ArrayRef));
    let fields: Vec<_> = columns.iter().map(|c| Field::new("", c.data_type().clone(), true)).collect();
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)?;
    let options = IpcWriteOptions::try_new(BODY_ALIGNMENT, false, MetadataVersion::V5)?;
    let mut dictionaries = DictionaryTracker::new(true);
    let (_, message) =
        IpcDataGenerator::default().encode(&batch, &mut dictionaries, &options, &mut IpcWriteContext::default())?;
    Ok(message)
}

/// One bit per column, LSB first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
    }
}

fn mark_columns(column: &ArrayRef, tree: &mut Bits) {
    tree.push(column.data_type() == &DataType::Null);
    if let Some(column) = column.as_struct_opt() {
        column.columns().iter().for_each(|child| mark_columns(child, tree));
    }
}
