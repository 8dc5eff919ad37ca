//! Writes and reads fragments, trusting nothing.

use std::sync::Arc;

use arrow::buffer::ScalarBuffer;
use streamfusion_plan::types::LogicalType;

use super::{Epoch, Fragment, FragmentError, Manifest, Parent};
use crate::batch::Batch;
use crate::frame::{self, FrameError};
use crate::hash::KeyGroup;

const MAGIC: [u8; 4] = *b"SFFG";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 56;
/// Where the checksum stands, which is over what stands before and behind it.
const CHECKSUM: usize = 48;
const ALIGNMENT: usize = 8;

/// Whether these are the bytes of a fragment and not of a whole batch.
pub fn is_fragment(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The wire form of a batch that is a fragment. Errors for another one, or if it is too large.
pub fn encode(batch: &Batch) -> Result<Vec<u8>, FragmentError> {
    let (Some(fragment), Some(group)) = (batch.fragment(), batch.key_group()) else {
        return Err(FragmentError::NoFragment);
    };
    let frame = frame::encode(batch)?;
    let Parent { epoch, sequence, rows, manifest } = fragment.parent.as_ref();
    let too_large = |_| FrameError::TooLarge { bytes: frame.len(), rows: batch.num_rows() };
    let count = u32::try_from(fragment.ordinals.len()).map_err(too_large)?;
    let frame_bytes = u32::try_from(frame.len()).map_err(too_large)?;
    // at most 2^12 bytes
    let manifest_bytes = u16::try_from(manifest.bytes().len()).map_err(too_large)?;
    let lists = 4 * fragment.ordinals.len() + manifest.bytes().len();
    let frame_start = (HEADER_BYTES + lists).next_multiple_of(ALIGNMENT);

    let mut bytes = Vec::with_capacity(frame_start + frame.len());
    bytes.extend(MAGIC);
    bytes.extend([VERSION, 0]);
    bytes.extend(group.to_le_bytes());
    bytes.extend(epoch.order.to_le_bytes());
    bytes.extend(epoch.attempt.to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(rows.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend(manifest.first_byte().to_le_bytes());
    bytes.extend(manifest_bytes.to_le_bytes());
    bytes.extend(frame_bytes.to_le_bytes());
    bytes.resize(HEADER_BYTES, 0); // the checksum comes last
    for ordinal in &fragment.ordinals {
        bytes.extend(ordinal.to_le_bytes());
    }
    bytes.extend(manifest.bytes());
    bytes.resize(frame_start, 0);
    bytes.extend(&frame);
    let checksum = checksum(&bytes).to_le_bytes();
    if let Some(place) = bytes.get_mut(CHECKSUM..CHECKSUM + 4) {
        place.copy_from_slice(&checksum);
    }
    Ok(bytes)
}

fn checksum(bytes: &[u8]) -> u32 {
    let before = crc32c::crc32c(bytes.get(..CHECKSUM).unwrap_or_default());
    crc32c::crc32c_append(before, bytes.get(CHECKSUM + 4..).unwrap_or_default())
}

/// The fragment of these bytes, whose columns have these types. Everything about it is checked, but whether it fits its siblings.
pub fn decode(bytes: &[u8], types: &[LogicalType]) -> Result<Batch, FragmentError> {
    let header = Header::read(bytes)?;
    let malformed = |what| FragmentError::Malformed { what };
    let ordinals_end = HEADER_BYTES as u64 + 4 * u64::from(header.count);
    let manifest_end = ordinals_end + u64::from(header.manifest_bytes);
    let frame_start = manifest_end.next_multiple_of(ALIGNMENT as u64);
    let expected = frame_start + u64::from(header.frame);
    let part = |from: u64, to: u64| bytes.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?);
    let (Some(ordinals), Some(manifest), Some(padding), Some(frame)) = (
        part(HEADER_BYTES as u64, ordinals_end),
        part(ordinals_end, manifest_end),
        part(manifest_end, frame_start),
        part(frame_start, expected).filter(|_| expected == bytes.len() as u64),
    ) else {
        return Err(FragmentError::Length { expected, found: bytes.len() });
    };
    let found = checksum(bytes);
    if found != header.checksum {
        return Err(FragmentError::Checksum { expected: header.checksum, found });
    }
    if !header.zeros || padding.iter().any(|byte| *byte != 0) {
        return Err(malformed("something stands where nothing may"));
    }
    let (ordinals, _) = ordinals.as_chunks::<4>();
    let ordinals: Vec<u32> = ordinals.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    match (ordinals.is_sorted_by(|a, b| a < b), ordinals.last()) {
        (true, Some(last)) if *last < header.rows => {}
        _ => return Err(malformed("the row numbers are not those of rows")),
    }
    let group = KeyGroup(header.group);
    let manifest = Manifest::from_bytes(header.manifest_first, manifest)
        .filter(|manifest| manifest.contains(group))
        .ok_or_else(|| malformed("the list of key groups does not have its own"))?;
    let batch = frame::decode(frame, types)?;
    if batch.num_rows() != ordinals.len() {
        return Err(malformed("it has another number of rows than row numbers"));
    }
    if batch.key_group() != Some(group.0) {
        return Err(malformed("its rows are of another key group"));
    }
    let (epoch, sequence, rows) = (header.epoch, header.sequence, header.rows);
    let parent = Arc::new(Parent { epoch, sequence, rows, manifest });
    Ok(batch.with_fragment(group, Fragment { parent, ordinals: ScalarBuffer::from(ordinals) }))
}

/// The fixed part of a fragment.
struct Header {
    group: u16,
    epoch: Epoch,
    sequence: u64,
    rows: u32,
    count: u32,
    manifest_first: u16,
    manifest_bytes: u16,
    frame: u32,
    checksum: u32,
    /// Whether what must be 0 is.
    zeros: bool,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, FragmentError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(FragmentError::Length { expected: HEADER_BYTES as u64, found: bytes.len() });
        };
        let mut fields = Fields(header);
        if fields.next::<4>() != MAGIC {
            return Err(FragmentError::Magic);
        }
        let [version, zero] = fields.next::<2>();
        if version != VERSION {
            return Err(FragmentError::Version { found: version });
        }
        let mut header = Self {
            group: u16::from_le_bytes(fields.next()),
            epoch: Epoch { order: u64::from_le_bytes(fields.next()), attempt: u64::from_le_bytes(fields.next()) },
            sequence: u64::from_le_bytes(fields.next()),
            rows: u32::from_le_bytes(fields.next()),
            count: u32::from_le_bytes(fields.next()),
            manifest_first: u16::from_le_bytes(fields.next()),
            manifest_bytes: u16::from_le_bytes(fields.next()),
            frame: u32::from_le_bytes(fields.next()),
            checksum: u32::from_le_bytes(fields.next()),
            zeros: zero == 0,
        };
        header.zeros &= fields.next::<4>() == [0; 4];
        Ok(header)
    }
}

/// The fields of a header, one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// The next field; zeros behind the last one.
    fn next<const BYTES: usize>(&mut self) -> [u8; BYTES] {
        let (field, rest) = self.0.split_first_chunk::<BYTES>().map_or(([0; BYTES], &[][..]), |(f, rest)| (*f, rest));
        self.0 = rest;
        field
    }
}
