#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::*;
use proptest::prelude::*;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::*;
use crate::batch::Batch;
use crate::hash::hash_bytes_by_words;
use crate::random::{batches, decimal, flat_types, row, string, timestamp, ty};
use crate::timestamp::{join_nanos, split_nanos};

/// A one-row key, the bytes that Flink's key selector makes of it, hash code, key group of 128 and subtask of 4.
struct Vector {
    key: Vec<(LogicalType, ArrayRef)>,
    bytes: &'static str,
    hash: i32,
    group: u16,
    subtask: u32,
}

fn vector(key: Vec<(LogicalType, ArrayRef)>, bytes: &'static str, hash: i32, group: u16, subtask: u32) -> Vector {
    Vector { key, bytes, hash, group, subtask }
}

fn one(ty: LogicalType, value: impl Array + 'static) -> Vec<(LogicalType, ArrayRef)> {
    vec![(ty, Arc::new(value))]
}

fn text(value: &str) -> Vec<(LogicalType, ArrayRef)> {
    one(string(), StringArray::from(vec![value]))
}

fn decimals(precision: u8, scale: u8, value: Option<i128>) -> Vec<(LogicalType, ArrayRef)> {
    let array = Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale as i8).unwrap();
    one(decimal(precision, scale), array)
}

fn nanos(value: Option<i128>) -> Vec<(LogicalType, ArrayRef)> {
    one(timestamp(9), Decimal128Array::from(vec![value]).with_precision_and_scale(38, 9).unwrap())
}

/// What Flink 2.2.0 computes.
#[rustfmt::skip]
fn vectors() -> Vec<Vector> {
    let bigint = || ty(TypeKind::BigInt);
    vec![
        vector(vec![], "0000000000000000", -1670924195, 11, 0),
        vector(one(bigint(), Int64Array::from(vec![42])), "0000000000000000 2a00000000000000", 907821237, 69, 2),
        vector(one(bigint(), Int64Array::from(vec![None])), "0001000000000000 0000000000000000", -1748325344, 99, 3),
        vector(one(ty(TypeKind::Integer), Int32Array::from(vec![-1])), "0000000000000000 ffffffff00000000", 1133687267, 106, 3),
        vector(one(ty(TypeKind::Boolean), BooleanArray::from(vec![true])), "0000000000000000 0100000000000000", 1465514398, 94, 2),
        vector(one(ty(TypeKind::TinyInt), Int8Array::from(vec![-1])), "0000000000000000 ff00000000000000", 2004758659, 46, 1),
        vector(one(ty(TypeKind::Double), Float64Array::from(vec![-0.0])), "0000000000000000 0000000000000080", 302122119, 102, 3),
        vector(text(""), "0000000000000000 0000000000000080", 302122119, 102, 3),
        vector(text("flink"), "0000000000000000 666c696e6b000085", 36939213, 103, 3),
        vector(text("streams"), "0000000000000000 73747265616d7387", -162808632, 18, 0),
        vector(text("streamed"), "0000000000000000 0800000010000000 73747265616d6564", -975174227, 24, 0),
        vector(text("abcdefghijklmnopqrst"), "0000000000000000 1400000010000000 6162636465666768 696a6b6c6d6e6f70 7172737400000000", 352247557, 120, 3),
        vector(
            vec![
                (bigint(), Arc::new(Int64Array::from(vec![7]))),
                (string(), Arc::new(StringArray::from(vec!["nexmark"]))),
                (ty(TypeKind::Integer), Arc::new(Int32Array::from(vec![None]))),
            ],
            "0004000000000000 0700000000000000 6e65786d61726b87 0000000000000000", 536138630, 32, 1,
        ),
        vector(decimals(10, 2, Some(12345)), "0000000000000000 3930000000000000", 767607022, 91, 2),
        vector(decimals(20, 4, Some(123456789)), "0000000000000000 0400000010000000 075bcd1500000000 0000000000000000", 1069058403, 50, 1),
        vector(decimals(20, 4, Some(-10000)), "0000000000000000 0200000010000000 d8f0000000000000 0000000000000000", 1045104933, 22, 0),
        vector(decimals(20, 4, None), "0001000000000000 0000000010000000 0000000000000000 0000000000000000", -1380280760, 47, 1),
        vector(one(timestamp(3), TimestampMillisecondArray::from(vec![1577836800123])), "0000000000000000 7be8665e6f010000", 389474996, 18, 0),
        vector(nanos(Some(join_nanos(1577836800123, 456789))), "0000000000000000 55f8060010000000 7be8665e6f010000", -1240416545, 67, 2),
        vector(nanos(Some(-1)), "0000000000000000 3f420f0010000000 ffffffffffffffff", 61627685, 115, 3),
        vector(nanos(None), "0001000000000000 0000000010000000 0000000000000000", -340882661, 92, 2),
    ]
}

fn hex(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes.chunks(8).map(|w| w.iter().map(|b| format!("{b:02x}")).collect()).collect();
    words.join(" ")
}

fn encoder(types: &[LogicalType]) -> KeyEncoder {
    KeyEncoder::try_new(types).unwrap()
}

#[test]
fn keys_have_flinks_bytes_hash_and_key_group() {
    for Vector { key, bytes, hash, group, subtask } in vectors() {
        let (types, columns): (Vec<_>, Vec<_>) = key.into_iter().unzip();
        let mut rows = KeyRows::new();
        encoder(&types).encode(&columns, 1, &mut rows).unwrap();
        assert_eq!(hex(rows.row(0)), bytes, "{types:?}");
        let hashes = encoder(&types).hashes(&columns, 1, &mut rows).unwrap();
        assert_eq!(hashes.hashes, [hash], "{types:?}");
        let groups: Vec<_> = hashes.key_groups(128).collect();
        assert_eq!(groups, [KeyGroup(group)], "{types:?}");
        assert_eq!(groups[0].subtask(4, 128), subtask, "{types:?}");
    }
}

#[test]
fn the_null_word_grows_at_57_fields() {
    let types = vec![ty(TypeKind::Integer); 57];
    let zero: ArrayRef = Arc::new(Int32Array::from(vec![0]));
    let mut columns = vec![zero; 56];
    columns.push(Arc::new(Int32Array::from(vec![None])));
    let mut rows = KeyRows::new();
    encoder(&types).encode(&columns, 1, &mut rows).unwrap();
    assert_eq!(rows.row(0).len(), 472);
    assert_eq!(hex(&rows.row(0)[..24]), "0000000000000000 0100000000000000 0000000000000000");
}

#[test]
fn rows_and_collections_are_refused_as_keys() {
    for (ty, word) in [
        (row(&[("a", string())]), "ROW"),
        (ty(TypeKind::Array(Arc::new(string()))), "ARRAY"),
        (ty(TypeKind::Map(Arc::new(string()), Arc::new(string()))), "MAP"),
        (ty(TypeKind::Multiset(Arc::new(string()))), "MULTISET"),
        (ty(TypeKind::Other("RAW('x')".into())), "RAW('x')"),
    ] {
        let reason = KeyEncoder::try_new(&[ty]).unwrap_err();
        assert_eq!(reason.to_string(), format!("keys of type {word} are not supported natively"));
    }
}

#[test]
fn other_columns_than_the_keys_are_an_error() {
    let encoder = encoder(&[ty(TypeKind::BigInt)]);
    let mut rows = KeyRows::new();
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let absent: ArrayRef = Arc::new(NullArray::new(1));
    assert_eq!(encoder.hashes(&[], 1, &mut rows), Err(KeyError::Columns { expected: 1, found: 0 }));
    assert!(matches!(encoder.hashes(&[ints], 1, &mut rows), Err(KeyError::Column { column: 0, .. })));
    assert!(matches!(encoder.hashes(&[absent], 1, &mut rows), Err(KeyError::Column { column: 0, .. })));
    assert!(matches!(encoder.hashes(&[longs], 2, &mut rows), Err(KeyError::Column { expected_rows: 2, .. })));
}

#[test]
fn dirty_bytes_behind_a_short_text_do_not_enter_its_slot() {
    let column: ArrayRef = Arc::new(StringArray::from(vec!["ab", "cdefghijk", "x"]).slice(0, 1));
    let mut rows = KeyRows::new();
    let whole = encoder(&[string()]).hashes(&[column], 1, &mut rows).unwrap();
    let alone: ArrayRef = Arc::new(StringArray::from(vec!["ab"]));
    assert_eq!(whole, encoder(&[string()]).hashes(&[alone], 1, &mut rows).unwrap());
}

/// BinaryRowWriter, as one would write it for a single row.
fn naive_row(types: &[LogicalType], columns: &[ArrayRef], row: usize) -> Vec<u8> {
    let null_bytes = (types.len() + 63 + 8) / 64 * 8;
    let mut bytes = vec![0; null_bytes + 8 * types.len()];
    for (i, (ty, column)) in types.iter().zip(columns).enumerate() {
        let cursor = bytes.len() as u64;
        let null = column.is_null(row);
        if null {
            bytes[(i + 8) / 8] |= 1 << (i % 8);
        }
        let slot = match &ty.kind {
            TypeKind::Decimal { precision: 19.., .. } => {
                let value = column.as_primitive::<arrow::datatypes::Decimal128Type>().value(row);
                let mut part = value.to_be_bytes().to_vec();
                // drop leading bytes that only repeat the sign, as BigInteger does
                while part.len() > 1 && (part[0] == 0 && part[1] < 0x80 || part[0] == 0xff && part[1] >= 0x80) {
                    part.remove(0);
                }
                if null {
                    part.clear();
                }
                let len = part.len() as u64;
                part.resize(16, 0);
                bytes.extend(part);
                cursor << 32 | len
            }
            TypeKind::Timestamp { precision: 4.., .. } | TypeKind::TimestampLtz { precision: 4.., .. } => {
                let value = column.as_primitive::<arrow::datatypes::Decimal128Type>().value(row);
                let (millis, nanos) = if null { (0, 0) } else { split_nanos(value) };
                bytes.extend(millis.to_le_bytes());
                cursor << 32 | u64::from(nanos)
            }
            _ if null => 0,
            TypeKind::VarChar(_) | TypeKind::Char(_) | TypeKind::VarBinary(_) | TypeKind::Binary(_) => {
                let value = match column.as_string_opt::<i32>() {
                    Some(text) => text.value(row).as_bytes(),
                    None => column.as_binary::<i32>().value(row),
                };
                if value.len() <= 7 {
                    let mut slot = [0; 8];
                    slot[..value.len()].copy_from_slice(value);
                    slot[7] = 0x80 | value.len() as u8;
                    u64::from_le_bytes(slot)
                } else {
                    bytes.extend(value);
                    bytes.resize(bytes.len().next_multiple_of(8), 0);
                    cursor << 32 | value.len() as u64
                }
            }
            TypeKind::Boolean => u64::from(column.as_boolean().value(row)),
            _ => {
                let data = column.slice(row, 1).to_data();
                let width = data.data_type().primitive_width().unwrap();
                let mut slot = [0; 8];
                let len = width.min(8);
                slot[..len].copy_from_slice(&data.buffers()[0][data.offset() * width..][..len]);
                u64::from_le_bytes(slot)
            }
        };
        bytes[null_bytes + 8 * i..][..8].copy_from_slice(&slot.to_le_bytes());
    }
    bytes
}

proptest! {
    #[test]
    fn columns_are_encoded_as_a_row_writer_would((types, batch) in batches(flat_types(), false)) {
        let mut rows = KeyRows::new();
        encoder(&types).encode(batch.columns(), batch.num_rows(), &mut rows)?;
        prop_assert_eq!(rows.len(), batch.num_rows());
        for row in 0..batch.num_rows() {
            prop_assert_eq!(hex(rows.row(row)), hex(&naive_row(&types, batch.columns(), row)));
        }
    }

    #[test]
    fn hashes_are_those_of_the_bytes((types, batch) in batches(flat_types(), false)) {
        for (ty, column) in types.iter().zip(batch.columns()) {
            let mut rows = KeyRows::new();
            let encoder = encoder(std::slice::from_ref(ty));
            let columns = std::slice::from_ref(column);
            let hashes = encoder.hashes(columns, batch.num_rows(), &mut rows)?;
            encoder.encode(columns, batch.num_rows(), &mut rows)?;
            let expected: Vec<_> = rows.iter().map(hash_bytes_by_words).collect();
            prop_assert_eq!(hashes.hashes, expected);
        }
    }

    #[test]
    fn an_arena_is_reused_without_traces(
        (types, first) in batches(flat_types(), false),
        (other_types, second) in batches(flat_types(), false),
    ) {
        let mut rows = KeyRows::new();
        encoder(&types).encode(first.columns(), first.num_rows(), &mut rows)?;
        encoder(&other_types).encode(second.columns(), second.num_rows(), &mut rows)?;
        for row in 0..second.num_rows() {
            prop_assert_eq!(hex(rows.row(row)), hex(&naive_row(&other_types, second.columns(), row)));
        }
    }

    #[test]
    fn keys_are_read_back_as_they_were_written((types, batch) in batches(flat_types(), false)) {
        let mut rows = KeyRows::new();
        let encoder = encoder(&types);
        encoder.encode(batch.columns(), batch.num_rows(), &mut rows)?;
        let rows: Vec<&[u8]> = rows.iter().collect();
        let decoded = encoder.decode(&rows)?;
        prop_assert_eq!(decoded.len(), types.len());
        for (decoded, column) in decoded.iter().zip(batch.columns()) {
            // a NaN is equal to itself only bit by bit
            prop_assert_eq!(decoded.data_type(), column.data_type());
            prop_assert_eq!(format!("{decoded:?}"), format!("{column:?}"));
        }
    }

    #[test]
    fn bytes_that_are_no_key_are_an_error_and_no_panic(
        (types, _) in batches(flat_types(), false),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        high in any::<bool>(),
    ) {
        // small offsets are more likely to point into the row
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| if high { byte } else { byte & 0x1F }).collect();
        if let Ok(columns) = encoder(&types).decode(&[&bytes]) {
            prop_assert!(columns.iter().all(|column| column.len() == 1));
        }
    }
}

#[test]
fn a_null_in_a_whole_row_has_no_part() {
    let (types, mut columns): (Vec<_>, Vec<_>) =
        [decimals(20, 4, None), nanos(None), text("streamed")].into_iter().flatten().unzip();
    let batch = Batch::try_new(columns.clone(), 1, Some(vec![3].into())).unwrap();
    let mut encoder = RowEncoder::try_new(&types).unwrap();
    let rows = encoder.encode(&batch).unwrap().unwrap();
    assert_eq!(hex(rows.bytes), "0303000000000000 0000000000000000 0000000000000000 0800000020000000 73747265616d6564");
    assert_eq!(rows.offsets, [0, 40]);
    columns[0] = Arc::new(NullArray::new(1));
    assert!(encoder.encode(&Batch::try_new(columns, 1, None).unwrap()).unwrap().is_none());
}

proptest! {
    #[test]
    fn whole_rows_are_keys_but_for_kinds_and_nulls((types, batch) in batches(flat_types(), false)) {
        let mut rows_encoder = RowEncoder::try_new(&types).unwrap();
        let rows = rows_encoder.encode(&batch).unwrap().unwrap();
        let mut keys = KeyRows::new();
        encoder(&types).encode(batch.columns(), batch.num_rows(), &mut keys).unwrap();
        prop_assert_eq!(rows.offsets.len(), batch.num_rows() + 1);
        for (row, ends) in rows.offsets.windows(2).enumerate() {
            let bytes = &rows.bytes[ends[0]..ends[1]];
            prop_assert_eq!(bytes[0], crate::random::kind(&batch, row));
            if batch.columns().iter().all(|column| column.is_valid(row)) {
                prop_assert_eq!(&bytes[1..], &keys.row(row)[1..]);
            } else {
                prop_assert!(bytes.len() <= keys.row(row).len());
            }
        }
    }
}
