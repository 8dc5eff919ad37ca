//! The binding over a database that somebody else has opened, as Java would.
//!
//! Flink's library is taken from `STREAMFUSION_ROCKSDB_LIBRARY`, or from where `make rocksdb` puts it.

#![allow(unsafe_code, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use streamfusion_state::rocksdb::testing::TestDatabase;
use streamfusion_state::rocksdb::{DatabaseError, JavaHandles, Keys, Library, live_objects};

fn keys<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Keys {
    let mut all = Keys::default();
    keys.into_iter().for_each(|key| all.push(|bytes| bytes.extend_from_slice(key)));
    all
}

fn read(database: &TestDatabase, wanted: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let mut values = vec![None; wanted.len()];
    let each = |number: usize, value: Option<&[u8]>| {
        values[number] = value.map(<[u8]>::to_vec);
        Ok::<(), DatabaseError>(())
    };
    database.open().multi_get(&keys(wanted.iter().copied()), false, each).unwrap();
    values
}

fn scan(database: &TestDatabase, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = database.open().cursor(prefix);
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        found.push((key.to_vec(), value.to_vec()));
    }
    assert!(cursor.next().unwrap().is_none(), "the end stays the end");
    found
}

#[test]
fn the_library_of_a_database_is_found_by_its_functions() {
    let database = TestDatabase::new();
    // SAFETY: it is an open database.
    let library =
        unsafe { Library::of_object(std::ptr::with_exposed_provenance(database.handles().database)) }.unwrap();
    assert!(library.path().contains("rocksdbjni"), "{}", library.path());
    let other = 0_usize;
    let nothing: *const usize = &raw const other;
    // SAFETY: the first word is read, as it would be of an object; no library is at address 0.
    let found = unsafe { Library::of_object(nothing.cast()) };
    assert!(matches!(found, Err(DatabaseError::Library(_))), "{found:?}");
}

#[test]
fn handles_that_java_has_closed_are_refused() {
    let database = TestDatabase::new();
    let good = database.handles();
    for (handles, what) in [
        (JavaHandles { database: 0, ..good }, "database"),
        (JavaHandles { column_family: 0, ..good }, "column family"),
        (JavaHandles { write_options: 0, ..good }, "write options"),
        (JavaHandles { read_options: 0, ..good }, "read options"),
    ] {
        // SAFETY: the others are open.
        let refused = unsafe { streamfusion_state::rocksdb::Database::borrow(handles) };
        assert_eq!(refused.map(drop), Err(DatabaseError::Closed(what)));
    }
}

#[test]
fn a_file_that_is_no_rocksdb_is_an_error() {
    let library = Library::open("/nowhere/librocksdbjni.so".as_ref());
    assert!(matches!(library, Err(DatabaseError::Library(_))), "{library:?}");
    // the C library is there, but has none of the functions
    let library = Library::open("libc.so.6".as_ref());
    assert!(matches!(library, Err(DatabaseError::Function { function: "rocksdb_free", .. })), "{library:?}");
}

#[test]
fn values_are_read_by_many_keys_at_once_absent_and_empty_ones_too() {
    let database = TestDatabase::new();
    let mut batch = database.open().batch();
    batch.put(b"a", b"1");
    batch.put(b"b", b"");
    batch.put(b"c", &[7; 100_000]);
    assert_eq!((batch.len(), batch.bytes()), (3, 100_004));
    database.open().write(&mut batch).unwrap();
    assert!(batch.is_empty());
    let found = read(&database, &[b"c", b"none", b"b", b"a", b""]);
    assert_eq!(found, [Some(vec![7; 100_000]), None, Some(vec![]), Some(b"1".to_vec()), None]);
    batch.delete(b"a");
    batch.put(b"a", b"again");
    batch.delete(b"b");
    database.open().write(&mut batch).unwrap();
    assert_eq!(read(&database, &[b"a", b"b"]), [Some(b"again".to_vec()), None]);
}

#[test]
fn more_keys_than_one_call_takes_come_back_in_order() {
    let database = TestDatabase::new();
    let mut batch = database.open().batch();
    (0..5000_u32).step_by(2).for_each(|key| batch.put(&key.to_be_bytes(), &key.to_le_bytes()));
    database.open().write(&mut batch).unwrap();
    let bytes: Vec<[u8; 4]> = (0..5000_u32).map(u32::to_be_bytes).collect();
    let wanted: Vec<&[u8]> = bytes.iter().map(<[u8; 4]>::as_slice).collect();
    let expected = (0..5000_u32).map(|key| (key % 2 == 0).then(|| key.to_le_bytes().to_vec()));
    assert!(read(&database, &wanted).into_iter().eq(expected));
}

#[test]
fn a_snapshot_shows_what_was_there() {
    let database = TestDatabase::new();
    let mut batch = database.open().batch();
    batch.put(b"k1", b"old");
    batch.put(b"k2", b"old");
    database.open().write(&mut batch).unwrap();
    let snapshot = database.open().snapshot();
    batch.put(b"k1", b"new");
    batch.delete(b"k2");
    batch.put(b"k3", b"new");
    database.open().write(&mut batch).unwrap();
    let walk = std::thread::spawn(move || {
        let mut cursor = snapshot.cursor(b"k");
        let mut found = Vec::new();
        while let Some((key, value)) = cursor.next().unwrap() {
            found.push((key.to_vec(), value.to_vec()));
        }
        found
    });
    let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    assert_eq!(walk.join().unwrap(), [pair(b"k1", b"old"), pair(b"k2", b"old")]);
    assert_eq!(scan(&database, b"k"), [pair(b"k1", b"new"), pair(b"k3", b"new")]);
}

#[test]
fn an_error_of_a_visit_ends_the_read() {
    let database = TestDatabase::new();
    let mut visited = 0;
    let read = database.open().multi_get(&keys([b"a".as_slice(), b"b"]), true, |_, _| {
        visited += 1;
        Err(DatabaseError::Closed("mine"))
    });
    assert_eq!((read, visited), (Err(DatabaseError::Closed("mine")), 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_prefix_has_exactly_the_keys_that_begin_with_it(
        entries in prop::collection::btree_map(prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(254), Just(255)], 0..4), any::<u8>(), 0..40),
        prefix in prop::collection::vec(prop_oneof![Just(0_u8), Just(254), Just(255)], 0..3),
    ) {
        let database = TestDatabase::new();
        let mut batch = database.open().batch();
        entries.iter().for_each(|(key, value)| batch.put(key, &[*value]));
        database.open().write(&mut batch).unwrap();
        let expected: BTreeMap<_, _> = entries.into_iter().filter(|(key, _)| key.starts_with(&prefix)).collect();
        let expected: Vec<_> = expected.into_iter().map(|(key, value)| (key, vec![value])).collect();
        prop_assert_eq!(scan(&database, &prefix), expected);
    }
}

/// What every test database asks when it is dropped.
#[test]
fn what_was_made_of_a_database_counts_until_it_is_given_back() {
    let database = TestDatabase::new();
    let open = database.open();
    assert!(open.is_alone());
    let (cursor, snapshot, batch) = (open.cursor(b""), open.snapshot(), open.batch());
    let of_snapshot = snapshot.cursor(b"");
    assert!(live_objects() >= 4);
    drop((cursor, batch));
    drop(of_snapshot);
    assert!(!open.is_alone());
    drop(snapshot);
    assert!(open.is_alone());
}
