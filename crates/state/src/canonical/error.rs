//! What is wrong with a container, where, and what to do about it.

use arrow::error::ArrowError;
use streamfusion_row::KeyGroup;

/// A container that cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{}{fault}; {}", place(*.key_group), fault.advice())]
pub struct CanonicalError {
    /// Whose container, if that is known.
    pub key_group: Option<KeyGroup>,
    /// What is wrong.
    pub fault: Fault,
}

impl CanonicalError {
    /// A fault in the container of a key group.
    pub(super) fn at(key_group: Option<KeyGroup>) -> impl Fn(Fault) -> Self {
        move |fault| Self { key_group, fault }
    }
}

fn place(key_group: Option<KeyGroup>) -> String {
    key_group.map(|KeyGroup(group)| format!("native state of key group {group}: ")).unwrap_or_default()
}

/// What is wrong with a container.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A header that does not begin like one.
    #[error("the header does not begin with SFCS")]
    Magic,
    /// A header with too few or too many bytes.
    #[error("the header has {found} bytes where its fields take {expected}")]
    HeaderLength {
        /// Bytes that its fields take, as far as they can be read.
        expected: usize,
        /// Bytes there are.
        found: usize,
    },
    /// Written in a format that this version does not read.
    #[error("the canonical format version {found} is not known, versions 5 and 6 are")]
    Version {
        /// The version.
        found: i32,
    },
    /// An operator identifier that is no text.
    #[error("the operator identifier in the header is no UTF-8 text")]
    OperatorIdText,
    /// State of another operator.
    #[error("the state belongs to the operator `{found}`, not to `{expected}`")]
    OperatorId {
        /// Whose state it is.
        found: String,
        /// Whose state was wanted.
        expected: String,
    },
    /// A header whose number of chunks and payload length do not belong together.
    #[error("the header says {chunks} chunks and {payload_length} payload bytes, which do not belong together")]
    ChunkCount {
        /// Number of chunks.
        chunks: i32,
        /// Length of the payload in bytes.
        payload_length: i32,
    },
    /// A chunk that is not there.
    #[error("chunk {index} of {chunks} is missing")]
    ChunkMissing {
        /// Its number, from 0.
        index: u32,
        /// How many there should be.
        chunks: u32,
    },
    /// A chunk behind the last one.
    #[error("there is a chunk {chunks}, but the header says that there are {chunks} chunks, from 0 on")]
    ChunkExtra {
        /// How many there should be.
        chunks: u32,
    },
    /// A chunk that is too short or too long.
    #[error("chunk {index} has {found} bytes instead of {expected}")]
    ChunkLength {
        /// Its number, from 0.
        index: u32,
        /// Bytes that it should have.
        expected: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// A payload that is not the one that was written.
    #[error("the payload's CRC32C is {found:08x} instead of {expected:08x}")]
    Checksum {
        /// By the header.
        expected: u32,
        /// By the payload.
        found: u32,
    },
    /// A header, or a key group, that is not the one the payload was written with.
    #[error("the {field} is {header}, but the state was written with {payload}")]
    Altered {
        /// What differs.
        field: &'static str,
        /// What the header, or the place of the container, says.
        header: i64,
        /// What the payload says.
        payload: i64,
    },
    /// A payload that does not hold sections as they are written.
    #[error("the payload is malformed at byte {at}: {what}")]
    Payload {
        /// Where, from the start of the payload.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// Sections in a layout that this version does not read.
    #[error("the section layout version {found} is not known, version 1 is")]
    SectionVersion {
        /// The version.
        found: u16,
    },
    /// A section that holds no table as it is written.
    #[error("section `{section}` is malformed: {what}")]
    Section {
        /// Its name.
        section: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A section that Arrow refuses.
    #[error("section `{section}` is no valid table: {error}")]
    Arrow {
        /// Its name.
        section: String,
        /// Why.
        error: ArrowError,
    },
    /// State that is too large for the format.
    #[error("the state has {bytes} bytes, more than the {limit} that one key group can hold")]
    PayloadTooLarge {
        /// Bytes of the payload, or at least so many.
        bytes: usize,
        /// Bytes it can have.
        limit: usize,
    },
    /// Something that the format has no room for.
    #[error("{what} cannot be written")]
    Unwritable {
        /// What.
        what: &'static str,
    },
    /// State that is kept in a database which fails.
    #[error("{0}")]
    Store(Box<crate::StoreError>),
    /// A file that is no dump of a container.
    #[error("the file is no dumped container: {what} at byte {at}")]
    Dump {
        /// Where, from the start of the file.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
}

impl Fault {
    /// What the user can do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Version { .. } | Self::SectionVersion { .. } => {
                "restore it with the StreamFusion version that wrote it, or start the job without this state"
            }
            Self::OperatorId { .. } => {
                "give the operators of the job the uids they had when the savepoint was taken, or start the job without this \
                 state"
            }
            Self::PayloadTooLarge { .. } => {
                "a higher maximum parallelism, which only a new job can have, or a state time-to-live makes key groups \
                 smaller"
            }
            Self::Unwritable { .. } => "this is a mistake in StreamFusion, please report it",
            Self::Store(_) => "no snapshot was taken",
            Self::Dump { .. } => "a dump is a header and its chunks, each after its length",
            Self::Magic
            | Self::HeaderLength { .. }
            | Self::OperatorIdText
            | Self::ChunkCount { .. }
            | Self::ChunkMissing { .. }
            | Self::ChunkExtra { .. }
            | Self::ChunkLength { .. }
            | Self::Checksum { .. }
            | Self::Altered { .. }
            | Self::Payload { .. }
            | Self::Section { .. }
            | Self::Arrow { .. } => "the snapshot is damaged, restore an older one",
        }
    }
}
