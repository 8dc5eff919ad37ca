//! The functions of the C API that are used, resolved by name.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};

use super::DatabaseError;

type Object = *mut c_void;
type Error = *mut *mut c_char;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($arg:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of one loaded library, which stays loaded.
        #[derive(Debug)]
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Resolves all functions by `find`, which returns null where there is none of a name.
            ///
            /// # Safety
            /// What `find` returns for a name is RocksDB's function of that name, and stays loaded.
            pub(super) unsafe fn resolve(
                library: &str,
                mut find: impl FnMut(&CStr) -> *mut c_void,
            ) -> Result<Self, DatabaseError> {
                Ok(Self {
                    $($field: {
                        let symbol = CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()).map(&mut find);
                        let symbol = symbol.unwrap_or(std::ptr::null_mut());
                        if symbol.is_null() {
                            return Err(DatabaseError::Function { library: library.to_owned(), function: $name });
                        }
                        // SAFETY: the caller says that the symbol is this function, whose declaration in RocksDB's c.h is the one above.
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $result)?>(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    free = "rocksdb_free": fn(*mut c_void);
    multi_get = "rocksdb_batched_multi_get_cf":
        fn(Object, Object, Object, usize, *const *const c_char, *const usize, *mut Object, *mut *mut c_char, c_uchar);
    slice_value = "rocksdb_pinnableslice_value": fn(Object, *mut usize) -> *const c_char;
    slice_destroy = "rocksdb_pinnableslice_destroy": fn(Object);
    write = "rocksdb_write": fn(Object, Object, Object, Error);
    batch_create = "rocksdb_writebatch_create": fn() -> Object;
    batch_destroy = "rocksdb_writebatch_destroy": fn(Object);
    batch_clear = "rocksdb_writebatch_clear": fn(Object);
    batch_count = "rocksdb_writebatch_count": fn(Object) -> c_int;
    batch_put = "rocksdb_writebatch_put_cf": fn(Object, Object, *const c_char, usize, *const c_char, usize);
    batch_delete = "rocksdb_writebatch_delete_cf": fn(Object, Object, *const c_char, usize);
    iterator_create = "rocksdb_create_iterator_cf": fn(Object, Object, Object) -> Object;
    iterator_destroy = "rocksdb_iter_destroy": fn(Object);
    iterator_seek = "rocksdb_iter_seek": fn(Object, *const c_char, usize);
    iterator_next = "rocksdb_iter_next": fn(Object);
    iterator_valid = "rocksdb_iter_valid": fn(Object) -> c_uchar;
    iterator_key = "rocksdb_iter_key": fn(Object, *mut usize) -> *const c_char;
    iterator_value = "rocksdb_iter_value": fn(Object, *mut usize) -> *const c_char;
    iterator_error = "rocksdb_iter_get_error": fn(Object, Error);
    snapshot_create = "rocksdb_create_snapshot": fn(Object) -> *const c_void;
    snapshot_release = "rocksdb_release_snapshot": fn(Object, *const c_void);
    read_options_create = "rocksdb_readoptions_create": fn() -> Object;
    read_options_destroy = "rocksdb_readoptions_destroy": fn(Object);
    read_options_snapshot = "rocksdb_readoptions_set_snapshot": fn(Object, *const c_void);
    read_options_upper_bound = "rocksdb_readoptions_set_iterate_upper_bound": fn(Object, *const c_char, usize);
    read_options_readahead = "rocksdb_readoptions_set_readahead_size": fn(Object, usize);
}

impl Functions {
    /// The error that a call has set, if it has.
    pub(super) fn check(&self, error: *mut c_char) -> Result<(), DatabaseError> {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: RocksDB sets a text that ends in a zero byte, allocated by malloc, and leaves it to the caller.
        let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
        // SAFETY: as above; nothing refers to the text any more.
        unsafe { (self.free)(error.cast()) };
        Err(DatabaseError::RocksDb(text))
    }
}
