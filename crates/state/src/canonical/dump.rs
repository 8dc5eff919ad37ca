//! A container in a file, for tools: the header and then each chunk, each after its length as a big-endian i32.

use std::borrow::Cow;
use std::io::{self, Write};

use super::chunks::Container;
use super::error::Fault;

impl<'a> Container<'a> {
    /// Writes header and chunks.
    pub fn dump(&self, out: &mut impl Write) -> io::Result<()> {
        for part in std::iter::once(self.header.as_ref()).chain(self.chunks.iter().copied()) {
            let length = i32::try_from(part.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            out.write_all(&length.to_be_bytes())?;
            out.write_all(part)?;
        }
        Ok(())
    }

    /// Finds header and chunks in a dump. Errors if the lengths do not add up to the file; nothing else is looked at.
    pub fn read_dump(file: &'a [u8]) -> Result<Self, Fault> {
        let (header, mut rest) = part(file, file)?;
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (chunk, behind) = part(file, rest)?;
            chunks.push(chunk);
            rest = behind;
        }
        Ok(Self { header: Cow::Borrowed(header), chunks })
    }
}

/// The next part of a dump and what follows it.
fn part<'a>(file: &[u8], rest: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Fault> {
    let fault = |what| Fault::Dump { at: file.len() - rest.len(), what };
    let (length, rest) = rest.split_first_chunk().ok_or_else(|| fault("no length"))?;
    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| fault("a negative length"))?;
    rest.split_at_checked(length).ok_or_else(|| fault("a length beyond the end of the file"))
}
