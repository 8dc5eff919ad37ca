//! The header of a container. Integers are big-endian:
//!
//! | bytes | content |
//! | --- | --- |
//! | 4 | magic `SFCS` |
//! | 4 | format version, i32 |
//! | 4 | n: bytes of the operator identifier, i32 |
//! | n | operator identifier, UTF-8 |
//! | 8 | processing-time deadline, i64: milliseconds since the epoch; 2^63 - 1 where there is none |
//! | 4 | number of chunks, i32 |
//! | 4 | payload length, i32 |
//! | 4 | CRC32C of the payload, u32 |
//!
//! The header ends with the checksum.

use super::CHUNK_BYTES;
use super::error::Fault;

const MAGIC: [u8; 4] = *b"SFCS";
/// Bytes of all fields but the operator identifier.
const FIXED_BYTES: usize = 32;
/// Stands for "no deadline": no timer fires that late.
const NO_DEADLINE: i64 = i64::MAX;

/// How a payload was made. Both versions have the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatVersion {
    /// Version 5: of state that is complete when the barrier arrives.
    Synchronous,
    /// Version 6: of state of which parts are computed asynchronously.
    Asynchronous,
}

impl FormatVersion {
    /// The number in the header.
    pub fn number(self) -> i32 {
        match self {
            Self::Synchronous => 5,
            Self::Asynchronous => 6,
        }
    }

    pub(super) fn of(number: i32) -> Result<Self, Fault> {
        match number {
            5 => Ok(Self::Synchronous),
            6 => Ok(Self::Asynchronous),
            found => Err(Fault::Version { found }),
        }
    }
}

/// What the header of a container says. A decoded one has a number of chunks that fits its payload length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// How the payload was made.
    pub format_version: FormatVersion,
    /// Whose state it is: stays the same from one version of a job to the next.
    pub operator_id: String,
    /// When state must be cleaned up, in milliseconds of processing time since the epoch.
    pub processing_time_deadline: Option<i64>,
    /// Number of chunks.
    pub chunk_count: u32,
    /// Bytes of the payload.
    pub payload_length: u32,
    /// Checksum of the payload.
    pub crc32c: u32,
}

impl Header {
    /// The header of a payload. Errors if the payload, or the operator identifier, has 2^31 bytes or more.
    pub fn of(
        operator_id: &str,
        format_version: FormatVersion,
        processing_time_deadline: Option<i64>,
        payload: &[u8],
    ) -> Result<Self, Fault> {
        let payload_length = payload_length(payload.len())?;
        if i32::try_from(operator_id.len()).is_err() {
            return Err(Fault::Unwritable { what: "an operator identifier of 2 GiB" });
        }
        Ok(Self {
            format_version,
            operator_id: operator_id.to_owned(),
            processing_time_deadline,
            chunk_count: chunk_count(payload_length),
            payload_length,
            crc32c: crc32c::crc32c(payload),
        })
    }

    /// The bytes of the header. Errors if a number does not fit into its field.
    pub fn encode(&self) -> Result<Vec<u8>, Fault> {
        let signed = |value: u32| i32::try_from(value).map_err(|_| Fault::Unwritable { what: "a number of 2^31" });
        let id_length = i32::try_from(self.operator_id.len())
            .map_err(|_| Fault::Unwritable { what: "an operator identifier of 2 GiB" })?;
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.operator_id.len());
        bytes.extend(MAGIC);
        bytes.extend(self.format_version.number().to_be_bytes());
        bytes.extend(id_length.to_be_bytes());
        bytes.extend(self.operator_id.as_bytes());
        bytes.extend(deadline_to_i64(self.processing_time_deadline).to_be_bytes());
        bytes.extend(signed(self.chunk_count)?.to_be_bytes());
        bytes.extend(signed(self.payload_length)?.to_be_bytes());
        bytes.extend(self.crc32c.to_be_bytes());
        Ok(bytes)
    }

    /// Reads the bytes of a header: magic and version first, since another version may mean another layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut fields = Fields { bytes, found: bytes.len(), expected: FIXED_BYTES };
        if fields.next()? != MAGIC {
            return Err(Fault::Magic);
        }
        let format_version = FormatVersion::of(i32::from_be_bytes(fields.next()?))?;
        // a negative length is longer than any header
        let id_length = usize::try_from(i32::from_be_bytes(fields.next()?)).unwrap_or(usize::MAX - FIXED_BYTES);
        fields.expected = FIXED_BYTES + id_length;
        if fields.expected != fields.found {
            return Err(fields.fault());
        }
        let operator_id = str::from_utf8(fields.take(id_length)?).map_err(|_| Fault::OperatorIdText)?.to_owned();
        let processing_time_deadline = deadline_from_i64(i64::from_be_bytes(fields.next()?));
        let (chunks, length) = (i32::from_be_bytes(fields.next()?), i32::from_be_bytes(fields.next()?));
        let crc32c = u32::from_be_bytes(fields.next()?);
        match (u32::try_from(chunks), u32::try_from(length)) {
            (Ok(chunk_count), Ok(payload_length)) if chunk_count == self::chunk_count(payload_length) => {
                Ok(Self { format_version, operator_id, processing_time_deadline, chunk_count, payload_length, crc32c })
            }
            _ => Err(Fault::ChunkCount { chunks, payload_length: length }),
        }
    }
}

/// A deadline as it is written.
pub(super) fn deadline_to_i64(deadline: Option<i64>) -> i64 {
    deadline.unwrap_or(NO_DEADLINE)
}

/// A deadline as it was written.
pub(super) fn deadline_from_i64(deadline: i64) -> Option<i64> {
    (deadline != NO_DEADLINE).then_some(deadline)
}

/// A payload length as headers have it. Errors if it is 2^31 bytes or more.
pub(crate) fn payload_length(bytes: usize) -> Result<u32, Fault> {
    let limit = i32::MAX.unsigned_abs();
    match u32::try_from(bytes) {
        Ok(bytes) if bytes <= limit => Ok(bytes),
        _ => Err(Fault::PayloadTooLarge { bytes, limit: limit as usize }),
    }
}

fn chunk_count(payload_length: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "4 MiB")]
    const BYTES: u32 = CHUNK_BYTES as u32;
    payload_length.div_ceil(BYTES)
}

/// The fields of a header, read in order.
struct Fields<'a> {
    bytes: &'a [u8],
    found: usize,
    expected: usize,
}

impl<'a> Fields<'a> {
    fn fault(&self) -> Fault {
        Fault::HeaderLength { expected: self.expected, found: self.found }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (field, rest) = self.bytes.split_at_checked(length).ok_or_else(|| self.fault())?;
        self.bytes = rest;
        Ok(field)
    }

    fn next<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (field, rest) = self.bytes.split_first_chunk::<N>().ok_or_else(|| self.fault())?;
        self.bytes = rest;
        Ok(*field)
    }
}
