//! The payload of a container: named tables of Arrow columns, which say themselves what they hold.
//!
//! Layout version 1. Integers are big-endian, as in the header; the Arrow streams have their own order. Everything starts
//! at a multiple of 16, after zeros, so that columns can be used where they lie. First what the payload repeats, because the
//! header's checksum does not cover the header:
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 4 | magic `SFSN` |
//! | 4 | 2 | layout version, u16: 1 |
//! | 6 | 2 | key group, u16 |
//! | 8 | 4 | format version, i32, as in the header |
//! | 12 | 4 | number of sections, u32 |
//! | 16 | 8 | processing-time deadline, i64, as in the header |
//! | 24 | 8 | zeros |
//!
//! Then the sections, each:
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 4 | n: bytes of the name, u32, not 0 |
//! | 4 | 4 | s: bytes of the stream, u32 |
//! | 8 | n | name, UTF-8; no two sections have the same |
//! | | | zeros up to a multiple of 16 |
//! | .. | s | Arrow IPC stream: a schema, one record batch or more, the end-of-stream marker |
//! | | | zeros up to a multiple of 16 |
//!
//! The payload ends with the last section. The streams are uncompressed and have no dictionaries; their types are those of
//! [`supported`]. What a section's columns mean is the operator's: see its documentation.

mod schema;
mod stream;
#[cfg(test)]
mod tests;

pub use schema::supported;

use std::collections::HashSet;
use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use streamfusion_row::KeyGroup;

use super::error::{CanonicalError, Fault};
use super::header::{FormatVersion, Header, deadline_from_i64, deadline_to_i64, payload_length};

const MAGIC: [u8; 4] = *b"SFSN";
const VERSION: u16 = 1;
/// Everything starts at a multiple of this: enough for the widest value, a Decimal128.
const ALIGNMENT: usize = 16;

/// A table with a name.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    name: String,
    batches: Vec<RecordBatch>,
}

impl Section {
    /// A section of one batch or more, all of the schema of the first one. Errors if there is no batch or name, or a type
    /// that sections do not have.
    pub fn try_new(name: impl Into<String>, batches: Vec<RecordBatch>) -> Result<Self, Fault> {
        let name = name.into();
        let Some(first) = batches.first() else {
            return Err(Fault::Unwritable { what: "a section without a batch" });
        };
        if name.is_empty() {
            return Err(Fault::Unwritable { what: "a section without a name" });
        }
        if batches.iter().any(|batch| batch.schema_ref() != first.schema_ref()) {
            return Err(Fault::Unwritable { what: "a section with two schemas" });
        }
        if !first.schema_ref().fields().iter().all(|field| supported(field.data_type())) {
            return Err(Fault::Unwritable { what: "a column of this type" });
        }
        Ok(Self { name, batches })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its columns.
    pub fn schema(&self) -> SchemaRef {
        // a section has a batch: see `try_new`
        self.batches.first().map_or_else(|| SchemaRef::new(arrow::datatypes::Schema::empty()), RecordBatch::schema)
    }

    /// Its rows, in order: one batch or more.
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// How many rows it has.
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// The state of one key group, in sections.
#[derive(Debug, Clone, PartialEq)]
pub struct Sections {
    /// Whose keys these are.
    pub key_group: KeyGroup,
    /// How the payload is made: as in the header.
    pub format_version: FormatVersion,
    /// When state must be cleaned up, in milliseconds of processing time since the epoch: as in the header.
    pub processing_time_deadline: Option<i64>,
    /// The tables, in the order in which they are written.
    pub sections: Vec<Section>,
}

impl Sections {
    /// The section of that name.
    pub fn get(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The payload. Errors if it would have 2^31 bytes or more, at once when it reaches them, or if two sections have the
    /// same name.
    pub fn encode(&self) -> Result<Vec<u8>, CanonicalError> {
        self.write().map_err(CanonicalError::at(Some(self.key_group)))
    }

    fn write(&self) -> Result<Vec<u8>, Fault> {
        let count = u32::try_from(self.sections.len()).map_err(|_| Fault::Unwritable { what: "2^32 sections" })?;
        let mut out = Payload { bytes: Vec::new(), refused: None };
        out.bytes.extend(MAGIC);
        out.bytes.extend(VERSION.to_be_bytes());
        out.bytes.extend(self.key_group.0.to_be_bytes());
        out.bytes.extend(self.format_version.number().to_be_bytes());
        out.bytes.extend(count.to_be_bytes());
        out.bytes.extend(deadline_to_i64(self.processing_time_deadline).to_be_bytes());
        out.pad()?;
        let mut names = HashSet::new();
        for section in &self.sections {
            if !names.insert(section.name()) {
                return Err(Fault::Unwritable { what: "two sections of the same name" });
            }
            out.section(section)?;
        }
        Ok(out.bytes)
    }

    /// Reads a payload that was decoded with its header. Columns share the payload's memory.
    ///
    /// Errors if the header, or the key group if one is given, is not what the payload was written with, or if anything is
    /// not as the module says; what comes back is valid, whatever the bytes.
    pub fn decode(payload: &Buffer, header: &Header, key_group: Option<KeyGroup>) -> Result<Self, CanonicalError> {
        Self::read(payload, header, key_group).map_err(CanonicalError::at(key_group))
    }

    fn read(payload: &Buffer, header: &Header, key_group: Option<KeyGroup>) -> Result<Self, Fault> {
        // what is not aligned cannot be read where it lies
        let aligned = if payload.as_ptr().cast::<u128>().is_aligned() { payload.clone() } else { copy(payload) };
        let mut reader = Reader { payload: &aligned, at: 0 };
        if reader.next()? != MAGIC {
            return Err(Fault::Payload { at: 0, what: "it does not begin with SFSN" });
        }
        let version = u16::from_be_bytes(reader.next()?);
        if version != VERSION {
            return Err(Fault::SectionVersion { found: version });
        }
        let written_group = KeyGroup(u16::from_be_bytes(reader.next()?));
        let written_version = i32::from_be_bytes(reader.next()?);
        let count = u32::from_be_bytes(reader.next()?);
        let deadline = i64::from_be_bytes(reader.next()?);
        reader.pad()?;
        let group = key_group.unwrap_or(written_group);
        for (field, header, payload) in [
            ("format version", header.format_version.number().into(), written_version.into()),
            ("processing-time deadline", deadline_to_i64(header.processing_time_deadline), deadline),
            ("key group", group.0.into(), written_group.0.into()),
        ] {
            if header != payload {
                return Err(Fault::Altered { field, header, payload });
            }
        }
        let (mut sections, mut names) = (Vec::new(), HashSet::new());
        for _ in 0..count {
            let at = reader.at;
            let section = reader.section()?;
            if !names.insert(section.name.clone()) {
                return Err(Fault::Payload { at, what: "a second section of the same name" });
            }
            sections.push(section);
        }
        if reader.at != aligned.len() {
            return Err(Fault::Payload { at: reader.at, what: "more bytes than its sections have" });
        }
        Ok(Self {
            key_group: written_group,
            format_version: header.format_version,
            processing_time_deadline: deadline_from_i64(deadline),
            sections,
        })
    }
}

fn copy(payload: &Buffer) -> Buffer {
    let mut aligned = arrow::buffer::MutableBuffer::with_capacity(payload.len());
    aligned.extend_from_slice(payload);
    aligned.into()
}

/// A payload that is being written. It never grows beyond what a header can describe.
struct Payload {
    bytes: Vec<u8>,
    refused: Option<Fault>,
}

impl Payload {
    fn section(&mut self, section: &Section) -> Result<(), Fault> {
        let start = self.bytes.len();
        let name = u32::try_from(section.name.len()).map_err(|_| Fault::Unwritable { what: "a name of 4 GiB" })?;
        self.append(&name.to_be_bytes())?;
        self.append(&[0; 4])?;
        self.append(section.name.as_bytes())?;
        self.pad()?;
        let stream = self.bytes.len();
        stream::write(section, &mut *self).map_err(|error| {
            let refused = self.refused.take();
            refused.unwrap_or_else(|| Fault::Arrow { section: section.name.clone(), error })
        })?;
        let length = payload_length(self.bytes.len() - stream)?;
        if let Some(place) = self.bytes.get_mut(start + 4..start + 8) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        self.pad()
    }

    fn pad(&mut self) -> Result<(), Fault> {
        let padded = self.bytes.len().next_multiple_of(ALIGNMENT);
        payload_length(padded)?;
        self.bytes.resize(padded, 0);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        payload_length(self.bytes.len().saturating_add(bytes.len()))?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl Write for Payload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(|fault| {
            self.refused = Some(fault);
            io::ErrorKind::FileTooLarge
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The parts of a payload, read in order.
struct Reader<'a> {
    payload: &'a Buffer,
    at: usize,
}

impl<'a> Reader<'a> {
    fn fault(&self, what: &'static str) -> Fault {
        Fault::Payload { at: self.at, what }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.payload.len());
        let taken = end.and_then(|end| self.payload.get(self.at..end)).ok_or_else(|| self.fault("it ends too soon"))?;
        self.at += length;
        Ok(taken)
    }

    fn next<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let at = self.at;
        self.take(N)?.first_chunk().copied().ok_or(Fault::Payload { at, what: "it ends too soon" })
    }

    fn pad(&mut self) -> Result<(), Fault> {
        let at = self.at;
        let zeros = self.take(at.next_multiple_of(ALIGNMENT) - at)?;
        let clean = zeros.iter().all(|byte| *byte == 0);
        clean.then_some(()).ok_or(Fault::Payload { at, what: "other bytes than zeros between its parts" })
    }

    fn section(&mut self) -> Result<Section, Fault> {
        let at = self.at;
        let (name, stream) = (u32::from_be_bytes(self.next()?) as usize, u32::from_be_bytes(self.next()?) as usize);
        let name = str::from_utf8(self.take(name)?).ok().filter(|name| !name.is_empty());
        let name = name.ok_or(Fault::Payload { at, what: "a section without a name" })?.to_owned();
        self.pad()?;
        let start = self.at;
        self.take(stream)?;
        let batches = stream::read(&name, &self.payload.slice_with_length(start, stream))?;
        self.pad()?;
        Ok(Section { name, batches })
    }
}
