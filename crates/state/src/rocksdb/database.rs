//! One column family of one database.

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::cursor::Entry;
use super::functions::Functions;
use super::live::Live;
use super::{Borrowed, Cursor, DatabaseError, Library, WriteBatch};

/// Keys that are read at once, one behind the other in one buffer.
#[derive(Debug, Default)]
pub struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Keys {
    /// Forgets all keys and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the key that `write` appends to what it is given.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[*start..*end])
    }

    /// Bytes held.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// What Java has of a database: the native handles of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JavaHandles {
    /// `RocksDB`
    pub database: usize,
    /// `ColumnFamilyHandle`
    pub column_family: usize,
    /// `WriteOptions`
    pub write_options: usize,
    /// `ReadOptions`
    pub read_options: usize,
}

/// What is shared by a database and all that is made of it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) functions: Arc<Functions>,
    database: Box<Borrowed>,
    column_family: Box<Borrowed>,
    write_options: *mut c_void,
    read_options: *mut c_void,
}

// SAFETY: RocksDB's databases, column families and options may be used from any thread, and several at once. The pointers are only read.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    pub(super) fn database(&self) -> *mut c_void {
        self.database.as_ptr()
    }

    pub(super) fn column_family(&self) -> *mut c_void {
        self.column_family.as_ptr()
    }
}

/// See the [module](super).
#[derive(Debug, Clone)]
pub struct Database(pub(super) Arc<Shared>);

/// How many keys RocksDB is asked for at once.
const MULTI_GET_KEYS: usize = 1024;

impl Database {
    /// The column family of a database that Java has open.
    ///
    /// # Safety
    /// The handles are those of open objects of the classes that [`JavaHandles`] names, all of one database, and Java closes none of them
    /// before the result, its clones and everything made of them are dropped.
    pub unsafe fn borrow(handles: JavaHandles) -> Result<Self, DatabaseError> {
        let pointer = |handle: usize, what: &'static str| match handle {
            0 => Err(DatabaseError::Closed(what)),
            handle => Ok(std::ptr::with_exposed_provenance_mut::<c_void>(handle)),
        };
        let database = pointer(handles.database, "database")?;
        // SAFETY: the caller says that it is a database, which has virtual functions.
        let library = unsafe { Library::of_object(database) }?;
        Ok(Self(Arc::new(Shared {
            functions: library.functions,
            database: Borrowed::new(database),
            column_family: Borrowed::new(pointer(handles.column_family, "column family")?),
            write_options: pointer(handles.write_options, "write options")?,
            read_options: pointer(handles.read_options, "read options")?,
        })))
    }

    /// Calls `each` with the number of each key and its value, in the order of the keys. `sorted` promises that keys ascend, which makes
    /// reading cheaper.
    pub fn multi_get<E: From<DatabaseError>>(
        &self,
        keys: &Keys,
        sorted: bool,
        mut each: impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
    ) -> Result<(), E> {
        let shared = &*self.0;
        let functions = &shared.functions;
        let mut keys = keys.iter();
        let mut first = 0;
        loop {
            let (mut pointers, mut lengths) = (Vec::with_capacity(MULTI_GET_KEYS), Vec::with_capacity(MULTI_GET_KEYS));
            for key in keys.by_ref().take(MULTI_GET_KEYS) {
                pointers.push(key.as_ptr().cast::<c_char>());
                lengths.push(key.len());
            }
            let count = pointers.len();
            if count == 0 {
                return Ok(());
            }
            let mut slices = Slices { functions, slices: vec![null_mut(); count], _live: Live::new() };
            let mut errors: Vec<*mut c_char> = vec![null_mut(); count];
            // SAFETY: all lists have `count` places, the keys outlive the call, and the handles are open (see `borrow`).
            unsafe {
                (functions.multi_get)(
                    shared.database(),
                    shared.read_options,
                    shared.column_family(),
                    count,
                    pointers.as_ptr(),
                    lengths.as_ptr(),
                    slices.slices.as_mut_ptr(),
                    errors.as_mut_ptr(),
                    u8::from(sorted),
                );
            }
            // all texts are freed, whichever is reported
            let checked: Vec<_> = errors.into_iter().map(|error| functions.check(error)).collect();
            checked.into_iter().collect::<Result<(), _>>()?;
            for number in 0..count {
                each(first + number, slices.get(number))?;
            }
            first += count;
        }
    }

    /// A batch for writes to this column family.
    pub fn batch(&self) -> WriteBatch {
        WriteBatch::new(Arc::clone(&self.0))
    }

    /// Writes what is in the batch, all of it or nothing, and empties it.
    pub fn write(&self, batch: &mut WriteBatch) -> Result<(), DatabaseError> {
        let shared = &*self.0;
        let mut error = null_mut();
        // SAFETY: the handles are open (see `borrow`), and the batch is.
        unsafe {
            (shared.functions.write)(shared.database(), shared.write_options, batch.as_ptr(), &raw mut error);
        }
        shared.functions.check(error)?;
        batch.clear();
        Ok(())
    }

    /// A cursor over the keys that begin with `prefix`, in front of the first of them, over the database as it is now.
    pub fn cursor(&self, prefix: &[u8]) -> Cursor {
        Cursor::new(Arc::clone(&self.0), prefix, null())
    }

    /// Whether nothing that was made of this column family is left, clones included.
    #[cfg(feature = "testing")]
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// The database as it is now.
    pub fn snapshot(&self) -> DatabaseSnapshot {
        let shared = Arc::clone(&self.0);
        // SAFETY: the database is open (see `borrow`).
        let snapshot = unsafe { (shared.functions.snapshot_create)(shared.database()) };
        DatabaseSnapshot { shared, snapshot, _live: Live::new() }
    }
}

/// Values that RocksDB has pinned for a call.
struct Slices<'a> {
    functions: &'a Functions,
    slices: Vec<*mut c_void>,
    _live: Live,
}

impl Slices<'_> {
    fn get(&self, number: usize) -> Option<&[u8]> {
        let slice = self.slices.get(number).copied().filter(|slice| !slice.is_null())?;
        let mut length = 0;
        // SAFETY: the slice is one that RocksDB has returned and that is destroyed only when `self` is dropped.
        let value = unsafe { (self.functions.slice_value)(slice, &raw mut length) };
        if value.is_null() {
            return Some(&[]);
        }
        // SAFETY: RocksDB says that so many bytes lie there; they stay until the slice is destroyed, behind the lifetime of `self`.
        Some(unsafe { std::slice::from_raw_parts(value.cast(), length) })
    }
}

impl Drop for Slices<'_> {
    fn drop(&mut self) {
        for slice in self.slices.iter().filter(|slice| !slice.is_null()) {
            // SAFETY: it was returned by RocksDB and is destroyed once.
            unsafe { (self.functions.slice_destroy)(*slice) };
        }
    }
}

/// A database at one moment. May be read from another thread, while the database goes on.
#[derive(Debug)]
pub struct DatabaseSnapshot {
    shared: Arc<Shared>,
    snapshot: *const c_void,
    _live: Live,
}

// SAFETY: RocksDB's snapshots may be used from any thread.
unsafe impl Send for DatabaseSnapshot {}
// SAFETY: as above.
unsafe impl Sync for DatabaseSnapshot {}

impl DatabaseSnapshot {
    /// [`Database::cursor`], over the database as it was.
    pub fn cursor(&self, prefix: &[u8]) -> SnapshotCursor<'_> {
        let cursor = Cursor::new(Arc::clone(&self.shared), prefix, self.snapshot);
        SnapshotCursor { cursor, snapshot: std::marker::PhantomData }
    }
}

/// A cursor that ends with its snapshot.
#[derive(Debug)]
pub struct SnapshotCursor<'a> {
    cursor: Cursor,
    snapshot: std::marker::PhantomData<&'a DatabaseSnapshot>,
}

impl SnapshotCursor<'_> {
    /// See [`Cursor::next`].
    #[expect(clippy::should_implement_trait, reason = "what it returns lives only until the next call")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, DatabaseError> {
        self.cursor.next()
    }
}

impl Drop for DatabaseSnapshot {
    fn drop(&mut self) {
        // SAFETY: the snapshot is that of this database, which is still open (see `borrow`), and is released once.
        unsafe { (self.shared.functions.snapshot_release)(self.shared.database(), self.snapshot) };
    }
}
