//! The canonical form of native state: what a savepoint holds, whichever backend wrote it.
//!
//! Per non-empty key group there is one *header* in the reserved state [`HEADER_STATE`] and the *payload*, cut into chunks
//! of [`CHUNK_BYTES`] in the reserved states [`chunk_state`]. The payload is a sequence of named [`sections`], each an Arrow
//! IPC stream. Layout of the envelope: [`header`]; of the payload: [`sections`].
//!
//! Reading goes in this order, and stops at the first fault: header, operator identifier, numbers and lengths of the
//! chunks, checksum. Only then does anything interpret a byte of the payload. The checksum does not cover the header; so
//! the payload repeats what the header alone would say, and a header that says something else is refused as well.
//!
//! This is a library over bytes: where Flink keeps them, and under which key context, is not decided here.

mod chunks;
mod dump;
pub mod error;
pub mod header;
pub mod sections;
#[cfg(test)]
mod tests;

pub use chunks::{Container, decode};
pub use error::{CanonicalError, Fault};
pub(crate) use header::payload_length;
pub use header::{FormatVersion, Header};
pub use sections::{Section, Sections};

/// Name of the managed keyed state that holds the header of each key group.
pub const HEADER_STATE: &str = "__streamfusion_canonical_native_state_v1";

/// Bytes of every chunk but the last one, which has what is left, and at least one.
pub const CHUNK_BYTES: usize = 4 << 20;

/// Name of the managed keyed state that holds chunk `index` of each key group.
pub fn chunk_state(index: u32) -> String {
    format!("{HEADER_STATE}_chunk_{index}")
}
