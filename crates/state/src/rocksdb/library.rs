//! Finds the library that owns a database.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::sync::Arc;

use super::DatabaseError;
use super::functions::Functions;

/// A loaded library of RocksDB. It is never unloaded, since Java has it loaded too.
#[derive(Debug, Clone)]
pub struct Library {
    path: String,
    pub(super) functions: Arc<Functions>,
}

impl Library {
    /// The library that owns a C++ object of RocksDB: that of its virtual functions. Several copies of RocksDB may be loaded.
    ///
    /// # Safety
    /// `object` points to an object with virtual functions, such as a `rocksdb::DB`.
    pub unsafe fn of_object(object: *const c_void) -> Result<Self, DatabaseError> {
        if object.is_null() {
            return Err(DatabaseError::Closed("database"));
        }
        // SAFETY: the first word of such an object is the address of its table of virtual functions.
        let functions = unsafe { *object.cast::<*const c_void>() };
        // SAFETY: an all-zero Dl_info is one with null pointers.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: dladdr only looks the address up, and writes to `info`.
        if unsafe { libc::dladdr(functions, &raw mut info) } == 0 || info.dli_fname.is_null() {
            return Err(DatabaseError::Library("no loaded library has its functions".to_owned()));
        }
        // SAFETY: dladdr has set the name of a loaded library, which the loader keeps.
        let path = unsafe { CStr::from_ptr(info.dli_fname) };
        // the file may have been deleted since: only the name counts
        Self::load(path, libc::RTLD_NOLOAD | libc::RTLD_LAZY)
    }

    /// Loads the library in this file, or finds it if it is loaded.
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        let path = CString::new(path.as_os_str().as_encoded_bytes());
        let path = path.map_err(|error| DatabaseError::Library(error.to_string()))?;
        Self::load(&path, libc::RTLD_LAZY | libc::RTLD_LOCAL)
    }

    fn load(path: &CStr, flags: i32) -> Result<Self, DatabaseError> {
        let name = path.to_string_lossy().into_owned();
        // SAFETY: the name ends in a zero byte. A library of RocksDB may be loaded at any time: its initialisers touch nothing of ours.
        let library = unsafe { libc::dlopen(path.as_ptr(), flags) };
        if library.is_null() {
            return Err(DatabaseError::Library(format!("{name} cannot be opened")));
        }
        // SAFETY: dlsym is given an open library and a name; the library is not closed, so that functions stay.
        let functions = unsafe { Functions::resolve(&name, |function| libc::dlsym(library, function.as_ptr())) }?;
        Ok(Self { path: name, functions: Arc::new(functions) })
    }

    /// The file that it was loaded from.
    pub fn path(&self) -> &str {
        &self.path
    }
}
