//! For tests: databases that are opened through the C API, whose objects are then handed out as Java hands out its own.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Database, JavaHandles};

/// A column family of its own in a database that lives as long as one of its column families.
#[derive(Debug)]
pub struct TestDatabase {
    open: Option<Database>,
    column_family: *mut c_void,
    instance: Arc<Instance>,
}

/// A database whose files lie in memory.
#[derive(Debug)]
struct Instance {
    library: *mut c_void,
    database: *mut c_void,
    options: *mut c_void,
    environment: *mut c_void,
    write_options: *mut c_void,
    read_options: *mut c_void,
    families: AtomicU32,
}

// SAFETY: RocksDB's databases may be used by any thread and by several at a time; the options are not written any more.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}
// SAFETY: a column family is part of its database.
unsafe impl Send for TestDatabase {}

type Call = unsafe extern "C" fn(*mut c_void);

/// Where Flink's library lies.
fn library_path() -> PathBuf {
    if let Some(path) = std::env::var_os("STREAMFUSION_ROCKSDB_LIBRARY") {
        return path.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let path = cache.unwrap_or_default().join("streamfusion/rocksdb/librocksdbjni-linux64.so");
    assert!(path.exists(), "{} is missing: run `make rocksdb`, or set STREAMFUSION_ROCKSDB_LIBRARY", path.display());
    path
}

impl Instance {
    fn new() -> Self {
        let path = CString::new(library_path().into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: the functions are those of RocksDB's c.h, called as it declares them, and the objects are closed once, in `drop`.
        unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
            assert!(!library.is_null(), "{} cannot be opened", path.to_string_lossy());
            let create = |function: &str| -> *mut c_void {
                let create: unsafe extern "C" fn() -> *mut c_void = std::mem::transmute(symbol(library, function));
                create()
            };
            let options = create("rocksdb_options_create");
            let set: unsafe extern "C" fn(*mut c_void, c_uchar) =
                std::mem::transmute(symbol(library, "rocksdb_options_set_create_if_missing"));
            set(options, 1);
            let environment = create("rocksdb_create_mem_env");
            let set: unsafe extern "C" fn(*mut c_void, *mut c_void) =
                std::mem::transmute(symbol(library, "rocksdb_options_set_env"));
            set(options, environment);
            type Open = unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_char) -> *mut c_void;
            let open: Open = std::mem::transmute(symbol(library, "rocksdb_open"));
            let mut error = std::ptr::null_mut();
            let database = open(options, c"/database".as_ptr(), &raw mut error);
            assert!(error.is_null() && !database.is_null());
            let write_options = create("rocksdb_writeoptions_create");
            let disable: unsafe extern "C" fn(*mut c_void, c_int) =
                std::mem::transmute(symbol(library, "rocksdb_writeoptions_disable_WAL"));
            disable(write_options, 1);
            let read_options = create("rocksdb_readoptions_create");
            let families = AtomicU32::new(0);
            Self { library, database, options, environment, write_options, read_options, families }
        }
    }

    /// Calls a function that takes one object.
    unsafe fn call(&self, function: &str, object: *mut c_void) {
        // SAFETY: the caller names a function of this type.
        unsafe {
            let call: Call = std::mem::transmute(symbol(self.library, function));
            call(object);
        }
    }
}

impl TestDatabase {
    /// An empty one, in a database of its own.
    pub fn new() -> Self {
        Self::of(Arc::new(Instance::new()))
    }

    /// An empty one in the database of this one.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::of(Arc::clone(&self.instance))
    }

    fn of(instance: Arc<Instance>) -> Self {
        type Create = unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_char, *mut *mut c_char) -> *mut c_void;
        let name = format!("state-{}", instance.families.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).unwrap();
        let mut error = std::ptr::null_mut();
        // SAFETY: the function is that of c.h, and its objects are open.
        let column_family = unsafe {
            let create: Create = std::mem::transmute(symbol(instance.library, "rocksdb_create_column_family"));
            create(instance.database, instance.options, name.as_ptr(), &raw mut error)
        };
        assert!(error.is_null() && !column_family.is_null());
        let mut opened = Self { open: None, column_family, instance };
        // SAFETY: the database goes first, in `drop`, with whatever was made of it before that.
        opened.open = Some(unsafe { Database::borrow(opened.handles()) }.unwrap());
        opened
    }

    /// The handles that Java would have: of the C++ objects, which the first words of the C structs point to.
    pub fn handles(&self) -> JavaHandles {
        // SAFETY: both are open, and so declared by RocksDB 8.
        let object = |of: *mut c_void| unsafe { *of.cast::<*mut c_void>() }.expose_provenance();
        JavaHandles {
            database: object(self.instance.database),
            column_family: object(self.column_family),
            write_options: self.instance.write_options.expose_provenance(),
            read_options: self.instance.read_options.expose_provenance(),
        }
    }

    /// The database as the binding has it. What is made of it must be dropped before this.
    pub fn open(&self) -> &Database {
        self.open.as_ref().unwrap()
    }
}

impl Default for TestDatabase {
    fn default() -> Self {
        Self::new()
    }
}

/// A function of the library. Panics if there is none.
unsafe fn symbol(library: *mut c_void, name: &str) -> *mut c_void {
    let name = CString::new(name).unwrap();
    // SAFETY: the library is open.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!symbol.is_null(), "{name:?}");
    symbol
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        type Remove = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_char);
        let left = self.open.take().is_some_and(|open| !open.is_alone());
        // SAFETY: see `of`.
        unsafe {
            let mut error = std::ptr::null_mut();
            let remove: Remove = std::mem::transmute(symbol(self.instance.library, "rocksdb_drop_column_family"));
            remove(self.instance.database, self.column_family, &raw mut error);
            self.instance.call("rocksdb_column_family_handle_destroy", self.column_family);
        }
        assert!(!left || std::thread::panicking(), "something of a database outlives it");
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: see `new`.
        unsafe {
            self.call("rocksdb_close", self.database);
            self.call("rocksdb_options_destroy", self.options);
            self.call("rocksdb_env_destroy", self.environment);
            self.call("rocksdb_writeoptions_destroy", self.write_options);
            self.call("rocksdb_readoptions_destroy", self.read_options);
        }
    }
}
