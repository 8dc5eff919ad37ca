//! A database that is opened through the C API, whose objects are then handed out as Java hands out its own.

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use streamfusion_state::rocksdb::{Database, JavaHandles};

/// A database in a folder of its own, which goes with it.
pub struct TestDatabase {
    library: *mut c_void,
    database: *mut c_void,
    column_family: *mut c_void,
    write_options: *mut c_void,
    read_options: *mut c_void,
    folder: PathBuf,
    open: Option<Database>,
}

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

impl TestDatabase {
    /// An empty one.
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("streamfusion-rocksdb-{}-{number}", std::process::id()));
        let path = CString::new(library_path().into_os_string().into_encoded_bytes()).unwrap();
        let name = CString::new(folder.as_os_str().as_encoded_bytes()).unwrap();
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
            type Open = unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_char) -> *mut c_void;
            type CreateFamily =
                unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_char, *mut *mut c_char) -> *mut c_void;
            let open: Open = std::mem::transmute(symbol(library, "rocksdb_open"));
            let create_family: CreateFamily = std::mem::transmute(symbol(library, "rocksdb_create_column_family"));
            let mut error = std::ptr::null_mut();
            let database = open(options, name.as_ptr(), &raw mut error);
            assert!(error.is_null() && !database.is_null());
            let column_family = create_family(database, options, c"state".as_ptr(), &raw mut error);
            assert!(error.is_null() && !column_family.is_null());
            let destroy: unsafe extern "C" fn(*mut c_void) =
                std::mem::transmute(symbol(library, "rocksdb_options_destroy"));
            destroy(options);
            let write_options = create("rocksdb_writeoptions_create");
            let disable: unsafe extern "C" fn(*mut c_void, c_int) =
                std::mem::transmute(symbol(library, "rocksdb_writeoptions_disable_WAL"));
            disable(write_options, 1);
            let read_options = create("rocksdb_readoptions_create");
            let mut opened = Self { library, database, column_family, write_options, read_options, folder, open: None };
            opened.open = Some(Database::borrow(opened.handles()).unwrap());
            opened
        }
    }

    /// The handles that Java would have: of the C++ objects, which the first words of the C structs point to.
    pub fn handles(&self) -> JavaHandles {
        // SAFETY: both are open, and so declared by RocksDB 8.
        let object = |of: *mut c_void| unsafe { *of.cast::<*mut c_void>() }.expose_provenance();
        JavaHandles {
            database: object(self.database),
            column_family: object(self.column_family),
            write_options: self.write_options.expose_provenance(),
            read_options: self.read_options.expose_provenance(),
        }
    }

    /// The database as the binding has it.
    pub fn open(&self) -> &Database {
        self.open.as_ref().unwrap()
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
        self.open = None;
        // SAFETY: see `new`.
        unsafe {
            let call = |function: &str, object: *mut c_void| {
                let call: unsafe extern "C" fn(*mut c_void) = std::mem::transmute(symbol(self.library, function));
                call(object);
            };
            call("rocksdb_column_family_handle_destroy", self.column_family);
            call("rocksdb_close", self.database);
            call("rocksdb_writeoptions_destroy", self.write_options);
            call("rocksdb_readoptions_destroy", self.read_options);
        }
        // what is left is no more than a folder in the system's own place for such
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
