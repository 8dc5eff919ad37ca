//! The Arrow IPC stream of one section.
//!
//! Arrow's stream reader panics on schemas and on record batches that are damaged in some ways. So the messages are found
//! here, each with its length checked, and read by [`schema`](super::schema) and [`streamfusion_row::ipc`].

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{MessageHeader, MetadataVersion, root_as_message};
use streamfusion_row::ipc::{MessageError, read_record_batch};

use super::{ALIGNMENT, Fault, Section, schema};

/// Where messages, bodies and buffers lie in any IPC stream.
const STREAM_ALIGNMENT: usize = 8;
const CONTINUATION: [u8; 4] = [0xff; 4];

pub(super) fn write(section: &Section, out: impl Write) -> Result<(), ArrowError> {
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let mut writer = StreamWriter::try_new_with_options(out, &section.schema(), options)?;
    for batch in section.batches() {
        writer.write(batch)?;
    }
    writer.finish()
}

/// The batches of a stream that begins at an aligned address; they share its memory.
pub(super) fn read(section: &str, stream: &Buffer) -> Result<Vec<RecordBatch>, Fault> {
    let malformed = |what| Fault::Section { section: section.to_owned(), what };
    let mut messages = Messages { stream, at: 0 };
    let first = messages.next().map_err(malformed)?.ok_or_else(|| malformed("no schema"))?;
    let schema = read_schema(&first).map_err(malformed)?;
    let mut batches = Vec::new();
    while let Some(message) = messages.next().map_err(malformed)? {
        let batch = read_record_batch(&message.metadata, &message.body, SchemaRef::clone(&schema), STREAM_ALIGNMENT);
        batches.push(batch.map_err(|error| match error {
            MessageError::Malformed { what } => malformed(what),
            MessageError::Arrow(error) => Fault::Arrow { section: section.to_owned(), error },
        })?);
    }
    if batches.is_empty() {
        return Err(malformed("no record batch"));
    }
    Ok(batches)
}

fn read_schema(message: &Message) -> Result<SchemaRef, &'static str> {
    let parsed = root_as_message(&message.metadata).map_err(|_| "no message")?;
    if parsed.header_type() != MessageHeader::Schema || !message.body.is_empty() {
        return Err("no schema");
    }
    if parsed.version() != MetadataVersion::V5 {
        return Err("another metadata version");
    }
    schema::read(parsed.header_as_schema().ok_or("no schema")?)
}

struct Message {
    metadata: Buffer,
    body: Buffer,
}

/// The messages of a stream, in order.
struct Messages<'a> {
    stream: &'a Buffer,
    at: usize,
}

impl Messages<'_> {
    /// The next message, none at the end-of-stream marker, which must be the end.
    fn next(&mut self) -> Result<Option<Message>, &'static str> {
        let prefix = self.take(CONTINUATION.len() + 4)?;
        let length = prefix.strip_prefix(&CONTINUATION).and_then(|length| length.first_chunk()).ok_or("no message")?;
        let length = i32::from_le_bytes(*length);
        if length == 0 {
            return if self.at == self.stream.len() { Ok(None) } else { Err("more bytes behind its end") };
        }
        let metadata = self.take(usize::try_from(length).map_err(|_| "a message of a negative length")?)?;
        let body = root_as_message(&metadata).map_err(|_| "no message")?.bodyLength();
        let body = self.take(usize::try_from(body).map_err(|_| "a body of a negative length")?)?;
        Ok(Some(Message { metadata, body }))
    }

    /// The next bytes; they leave what follows them aligned.
    fn take(&mut self, length: usize) -> Result<Buffer, &'static str> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.stream.len()).ok_or("it ends too soon")?;
        if !length.is_multiple_of(STREAM_ALIGNMENT) {
            return Err("a message of an odd length");
        }
        let taken = self.stream.slice_with_length(self.at, length);
        self.at = end;
        Ok(taken)
    }
}
