//! Sections of row entries as a file that must stay readable: several rows per key, with a value beside each.
//!
//! The file is never written anew for a version that was released. `cargo test -p streamfusion-state --test golden_rows -- --ignored`
//! writes it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::DataType;
use streamfusion_state::canonical::{Container, FormatVersion, Sections};
use streamfusion_state::codec::Required;
use streamfusion_state::{
    BatchKeys, Identity, KeyGroups, KeyLayout, KeyedTable, PackedRows, RowEntriesId, RowLayout, StateClock,
    StateContext, StateTtl, Touched,
};

const OPERATOR_ID: &str = "top-bids/rows";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/row-entries-1.sfcs")
}

fn columns() -> Vec<ArrayRef> {
    vec![
        Arc::new(Int64Array::from(vec![Some(3), None, Some(i64::MIN), Some(3)])),
        Arc::new(StringArray::from(vec![Some("Z\u{fc}rich"), Some(""), None, Some("b")])),
    ]
}

fn table() -> (KeyedTable, RowEntriesId<i64>) {
    let context = StateContext { key_groups: KeyGroups::all(1), clock: StateClock::fixed(1_767_225_600_000) };
    let layout = KeyLayout::Fixed(DataType::Int64, "BIGINT".to_owned());
    let mut table = KeyedTable::new("keys", layout, StateTtl::of_millis(1000), &context);
    let definitions = vec!["BIGINT".to_owned(), "VARCHAR".to_owned()];
    let layout = RowLayout::try_new(&[DataType::Int64, DataType::Utf8]).unwrap();
    let codec = Required::new("count", DataType::Int64);
    let rows = table.add_row_entries("rows", definitions, layout, Identity::WholeRow, codec, 0).unwrap();
    (table, rows)
}

fn slots(table: &mut KeyedTable) -> Vec<u32> {
    let mut touched = Touched::default();
    table.load(BatchKeys::Fixed(&[7, 8], None), &mut touched).unwrap();
    touched.slots
}

/// Key 7 has three rows, the last one in front of the others; key 8 has one.
fn dump() -> Vec<u8> {
    let (mut table, id) = table();
    let slots = slots(&mut table);
    let (rows, of) = table.row_entries(id).unwrap();
    let mut packed = PackedRows::default();
    rows.pack(&columns(), &[0, 1, 2, 3], &mut packed).unwrap();
    let first = rows.append(of, slots[0], &packed, 0, 10).unwrap();
    rows.append(of, slots[0], &packed, 1, 11).unwrap();
    rows.insert(of, slots[0], Some(first), &packed, 2, 12).unwrap();
    rows.append(of, slots[1], &packed, 3, 13).unwrap();
    table.commit(&slots);
    let snapshot = table.snapshot();
    let key_group = snapshot.key_groups()[0];
    let deadline = snapshot.deadline(key_group);
    let sections = snapshot.sections(key_group).unwrap();
    let sections = Sections {
        key_group,
        format_version: FormatVersion::Asynchronous,
        processing_time_deadline: deadline,
        sections,
    };
    let payload = sections.encode().unwrap();
    let mut dump = Vec::new();
    let container = Container::encode(OPERATOR_ID, FormatVersion::Asynchronous, deadline, &payload).unwrap();
    container.dump(&mut dump).unwrap();
    dump
}

#[test]
fn golden_file_is_read() {
    let file = fs::read(path()).unwrap();
    let container = Container::read_dump(&file).unwrap();
    let (header, payload) = container.decode(None, OPERATOR_ID).unwrap();
    assert_eq!(header.processing_time_deadline, Some(1_767_225_601_000));
    let (mut table, id) = table();
    table.restore(&Sections::decode(&payload, &header, None).unwrap()).unwrap();
    let slots = slots(&mut table);
    let (rows, _) = table.row_entries(id).unwrap();
    let found: Vec<Vec<u32>> = slots.iter().map(|slot| rows.walk(*slot).collect()).collect();
    let counts = |positions: &[u32]| positions.iter().map(|position| *rows.value(*position)).collect::<Vec<_>>();
    assert_eq!((counts(&found[0]), counts(&found[1])), (vec![12, 10, 11], vec![13]));
    let expected: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(3), None, Some(3)])),
        Arc::new(StringArray::from(vec![None, Some("Z\u{fc}rich"), Some(""), Some("b")])),
    ];
    assert_eq!(rows.gather(&found.concat()).unwrap(), expected);
}

#[test]
fn golden_file_is_what_is_written() {
    assert!(fs::read(path()).unwrap() == dump(), "row entries would be written in other bytes");
}

#[test]
#[ignore = "writes the golden file"]
fn write_golden_file() {
    fs::write(path(), dump()).unwrap();
}
