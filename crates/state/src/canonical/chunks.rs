//! A payload, cut into chunks under a header and put together again.

use std::borrow::Cow;

use arrow::buffer::{Buffer, MutableBuffer};
use streamfusion_row::KeyGroup;

use super::CHUNK_BYTES;
use super::error::{CanonicalError, Fault};
use super::header::{FormatVersion, Header};

/// The header of a key group and its chunks. Nothing is claimed about one that was read: see [`Container::decode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container<'a> {
    /// The header's bytes.
    pub header: Cow<'a, [u8]>,
    /// The chunks in order.
    pub chunks: Vec<&'a [u8]>,
}

impl<'a> Container<'a> {
    /// Puts a payload under a header; the chunks lie in the payload. Errors if the payload has 2^31 bytes or more.
    pub fn encode(
        operator_id: &str,
        format_version: FormatVersion,
        processing_time_deadline: Option<i64>,
        payload: &'a [u8],
    ) -> Result<Self, Fault> {
        let header = Header::of(operator_id, format_version, processing_time_deadline, payload)?.encode()?;
        Ok(Self { header: Cow::Owned(header), chunks: payload.chunks(CHUNK_BYTES).collect() })
    }

    /// Header and payload: see [`decode`].
    pub fn decode(&self, key_group: Option<KeyGroup>, operator_id: &str) -> Result<(Header, Buffer), CanonicalError> {
        let chunk = |index: u32| usize::try_from(index).ok().and_then(|index| self.chunks.get(index));
        decode(&self.header, chunk, key_group, operator_id)
    }
}

/// Header and payload of a container of which `chunk` has the chunks, by number from 0.
///
/// The payload is what was written, or there is an error: header, operator identifier, the number of chunks, the length of
/// each and the checksum are compared, in this order. It is aligned as Arrow wants it. The deadline in the header is only
/// compared when the payload is read with [`Sections::decode`](super::Sections::decode). `key_group` is for the error.
pub fn decode<C: AsRef<[u8]>>(
    header: &[u8],
    mut chunk: impl FnMut(u32) -> Option<C>,
    key_group: Option<KeyGroup>,
    operator_id: &str,
) -> Result<(Header, Buffer), CanonicalError> {
    let at = CanonicalError::at(key_group);
    let header = Header::decode(header).map_err(&at)?;
    if header.operator_id != operator_id {
        return Err(at(Fault::OperatorId { found: header.operator_id, expected: operator_id.to_owned() }));
    }
    let payload = reassemble(&header, &mut chunk).map_err(&at)?;
    Ok((header, payload))
}

fn reassemble<C: AsRef<[u8]>>(header: &Header, chunk: &mut impl FnMut(u32) -> Option<C>) -> Result<Buffer, Fault> {
    let chunks = header.chunk_count;
    let length = header.payload_length as usize;
    let mut payload = MutableBuffer::new(0);
    let mut found = 0;
    for index in 0..chunks {
        let bytes = chunk(index).ok_or(Fault::ChunkMissing { index, chunks })?;
        let bytes = bytes.as_ref();
        let expected = (length - payload.len()).min(CHUNK_BYTES);
        if bytes.len() != expected {
            return Err(Fault::ChunkLength { index, expected, found: bytes.len() });
        }
        if payload.is_empty() {
            // not before a chunk says that the header may be right
            payload.reserve(length);
        }
        payload.extend_from_slice(bytes);
        found = crc32c::crc32c_append(found, bytes);
    }
    if chunk(chunks).is_some() {
        return Err(Fault::ChunkExtra { chunks });
    }
    match header.crc32c {
        expected if expected == found => Ok(payload.into()),
        expected => Err(Fault::Checksum { expected, found }),
    }
}
