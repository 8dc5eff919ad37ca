//! The RocksDB that Flink has opened, through RocksDB's C API.
//!
//! Flink's own library exports that API beside what Java calls, so nothing of RocksDB is compiled here: [`Library`] finds the library that
//! owns a database, resolves the functions that are needed and checks that each is there. A [`Database`] is one column family of one
//! database, borrowed from Java: reads of many keys at once, batches of writes, cursors, snapshots.
//!
//! This is the only module of the crate with `unsafe`. What makes it sound:
//!
//! - Java's handles are pointers to C++ objects. The C API wants a struct whose first word is such a pointer ([`Borrowed`]), which is how
//!   RocksDB 8 declares `rocksdb_t` and `rocksdb_column_family_handle_t`. Options begin with the C++ options, so that Java's pointers are passed as
//!   they are. Borrowed objects are never destroyed here.
//! - Whoever makes a [`Database`] promises that Java keeps its objects open until the database and everything made of it is dropped. The
//!   runtime holds a lease of the backend's resource guard for that long.
//! - What RocksDB allocates for a call is freed by it: error texts, slices, cursors and snapshots each have an owner here.

#![allow(unsafe_code)]

mod cursor;
mod database;
mod functions;
mod library;
mod live;
#[cfg(feature = "testing")]
pub mod testing;
mod write_batch;

pub use cursor::{Cursor, Entry};
pub use database::{Database, DatabaseSnapshot, JavaHandles, Keys, SnapshotCursor};
pub use library::Library;
pub use live::live_objects;
pub use write_batch::WriteBatch;

use std::ffi::c_void;

/// Why a database cannot be used, or not any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseError {
    /// No library of this process owns the database, or it has another layout.
    #[error("the library of the RocksDB instance was not found: {0}")]
    Library(String),
    /// The library lacks a function of the C API.
    #[error("{library} has no function {function}")]
    Function {
        /// Path of the library.
        library: String,
        /// Name of the function.
        function: &'static str,
    },
    /// What RocksDB says.
    #[error("RocksDB: {0}")]
    RocksDb(String),
    /// A handle that Java passes as 0.
    #[error("the {0} of the RocksDB instance is closed")]
    Closed(&'static str),
}

/// What the C API takes for a database or a column family: a pointer to the C++ object, first of all.
///
/// RocksDB 8.10 has nothing, or one flag, behind the pointer; the spare words are zero for what a later version may add.
#[repr(C)]
#[derive(Debug)]
struct Borrowed {
    object: *mut c_void,
    spare: [usize; 7],
}

impl Borrowed {
    fn new(object: *mut c_void) -> Box<Self> {
        Box::new(Self { object, spare: [0; 7] })
    }

    fn as_ptr(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}
