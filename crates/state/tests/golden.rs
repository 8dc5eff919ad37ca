//! Canonical containers of every version, as files that must stay readable.
//!
//! A file is never written anew for a version that was released: what differs needs a new version and a new file.
//! `cargo test -p streamfusion-state --test golden -- --ignored` writes the files.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use streamfusion_row::KeyGroup;
use streamfusion_state::canonical::{Container, FormatVersion, Section, Sections};

const OPERATOR_ID: &str = "bids-per-auction/groups";
const FILES: [(&str, FormatVersion, Option<i64>); 2] = [
    ("canonical-v5.sfcs", FormatVersion::Synchronous, None),
    ("canonical-v6.sfcs", FormatVersion::Asynchronous, Some(1_767_225_600_000)),
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A nullable column each, one row per value.
fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// The state in the files: two sections, the first in two batches.
fn state(format_version: FormatVersion, processing_time_deadline: Option<i64>) -> Sections {
    let groups = |keys: Vec<Option<i64>>, sums: Vec<Option<i128>>, names: Vec<Option<&str>>| {
        let sums = Decimal128Array::from(sums).with_precision_and_scale(38, 2).unwrap();
        batch(vec![
            ("key", Arc::new(Int64Array::from(keys))),
            ("sum", Arc::new(sums)),
            ("name", Arc::new(StringArray::from(names))),
        ])
    };
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![Some(-1), None]));
    let members = StructArray::new(
        vec![Field::new("long", DataType::Int64, true)].into(),
        vec![longs],
        Some(vec![true, false].into()),
    );
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]);
    let other = batch(vec![
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("count", Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX]))),
        ("time", Arc::new(TimestampMillisecondArray::from(vec![Some(-62_135_596_800_000), None]))),
        ("bytes", Arc::new(BinaryArray::from_opt_vec(vec![Some(&[0, 255]), None]))),
        ("list", Arc::new(lists)),
        ("struct", Arc::new(members)),
    ]);
    let metadata = [("version".to_owned(), "1".to_owned()), ("kind".to_owned(), "example".to_owned())].into();
    let schema = Arc::new(Schema::new_with_metadata(other.schema().fields().clone(), metadata));
    let other = RecordBatch::try_new(schema, other.columns().to_vec()).unwrap();
    Sections {
        key_group: KeyGroup(42),
        format_version,
        processing_time_deadline,
        sections: vec![
            Section::try_new(
                "groups",
                vec![
                    groups(
                        vec![Some(1), None],
                        vec![Some(10_i128.pow(38) - 1), None],
                        vec![Some("Z\u{fc}rich"), Some("")],
                    ),
                    groups(vec![Some(i64::MIN)], vec![Some(-5)], vec![None]),
                ],
            )
            .unwrap(),
            Section::try_new("other", vec![other]).unwrap(),
        ],
    }
}

fn dump(version: FormatVersion, deadline: Option<i64>) -> Vec<u8> {
    let payload = state(version, deadline).encode().unwrap();
    let mut dump = Vec::new();
    Container::encode(OPERATOR_ID, version, deadline, &payload).unwrap().dump(&mut dump).unwrap();
    dump
}

#[test]
fn golden_files_are_read() {
    for (name, version, deadline) in FILES {
        let file = fs::read(path(name)).unwrap();
        let container = Container::read_dump(&file).unwrap();
        let (header, payload) = container.decode(Some(KeyGroup(42)), OPERATOR_ID).unwrap();
        assert_eq!((header.format_version, header.processing_time_deadline), (version, deadline), "{name}");
        let sections = Sections::decode(&payload, &header, Some(KeyGroup(42))).unwrap();
        assert_eq!(sections, state(version, deadline), "{name}");
    }
}

#[test]
fn golden_files_are_what_is_written() {
    for (name, version, deadline) in FILES {
        assert!(fs::read(path(name)).unwrap() == dump(version, deadline), "{name} would be written in other bytes");
    }
}

#[test]
#[ignore = "writes the golden files"]
fn write_golden_files() {
    for (name, version, deadline) in FILES {
        fs::write(path(name), dump(version, deadline)).unwrap();
    }
}
