//! What may lie in a checkpoint, as files that must stay readable: a fragment on its way, and fragments that wait.
//!
//! A file is never written anew for a version that was released: what differs needs a new version and a new file.
//! `cargo test -p streamfusion-row --test golden -- --ignored` writes the files.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::exchange::FragmentSplitter;
use streamfusion_row::fragment::{self, Epoch, Reassembler};
use streamfusion_row::{Batch, KeyGroup};

const FRAGMENT: &str = "fragment-v1.sffg";
const PENDING: &str = "pending-v3.sfpf";

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn types() -> Vec<LogicalType> {
    [TypeKind::BigInt, TypeKind::VarChar(100)].map(|kind| LogicalType { kind, nullable: true }).to_vec()
}

/// BIGINT 42 has key group 69 of 128, NULL has 99.
fn fragments() -> Vec<Batch> {
    let keys = Int64Array::from(vec![Some(42), None, Some(42)]);
    let texts = StringArray::from(vec![Some("a"), None, Some("中")]);
    let batch =
        Batch::try_new(vec![Arc::new(keys), Arc::new(texts)], 3, Some(UInt8Array::from(vec![0, 3, 2]))).unwrap();
    let epoch = Epoch { order: 8, attempt: 0x0123_4567_89ab_cdef };
    FragmentSplitter::try_new(&[0], &types()[..1], 128, epoch).unwrap().split(&batch).unwrap()
}

fn receiver() -> Reassembler {
    Reassembler::new(types(), KeyGroup(0), KeyGroup(127), 8)
}

fn written() -> [(&'static str, Vec<u8>); 2] {
    let first = fragments().remove(0);
    let encoded = fragment::encode(&first).unwrap();
    let mut receiver = receiver();
    assert!(receiver.push(first).unwrap().is_none());
    [(FRAGMENT, encoded), (PENDING, receiver.snapshot(KeyGroup(69)).unwrap())]
}

#[test]
fn the_files_are_what_is_written_now() {
    for (name, bytes) in written() {
        assert_eq!(fs::read(path(name)).unwrap(), bytes, "{name}");
    }
}

fn assert_rows(batch: &Batch) {
    assert_eq!(batch.columns()[0].as_primitive::<Int64Type>(), &Int64Array::from(vec![42, 42]));
    assert_eq!(batch.columns()[1].as_string::<i32>(), &StringArray::from(vec!["a", "中"]));
    assert_eq!(batch.kinds(), Some(&UInt8Array::from(vec![0, 2])));
}

#[test]
fn the_fragment_can_be_read() {
    let batch = fragment::decode(&fs::read(path(FRAGMENT)).unwrap(), &types()).unwrap();
    assert_rows(&batch);
    assert_eq!(batch.key_group(), Some(69));
    let fragment = batch.fragment().unwrap();
    assert_eq!(fragment.ordinals.to_vec(), [0, 2]);
    assert_eq!((fragment.parent.epoch.order, fragment.parent.sequence, fragment.parent.rows), (8, 0, 3));
    assert!(fragment.parent.manifest.contains(KeyGroup(99)));
    assert_eq!(fragment.parent.manifest.count(KeyGroup(0), KeyGroup(127)), 2);
}

#[test]
fn the_pending_fragments_can_be_restored() {
    let restored = receiver().restore(KeyGroup(69), &fs::read(path(PENDING)).unwrap()).unwrap();
    assert_eq!(restored.len(), 1);
    assert_rows(&restored[0]);
}

#[test]
#[ignore = "writes the files"]
fn write_the_files() {
    for (name, bytes) in written() {
        fs::write(path(name), bytes).unwrap();
    }
}
