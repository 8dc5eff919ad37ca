#![allow(clippy::unwrap_used)]

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_plan::EntryField;
use streamfusion_plan::types::{Field, LogicalType, TypeKind};

use super::super::{ColumnTree, EntryBuffers};
use super::*;
use crate::binary::RowEncoder;
use crate::random::{Random, all_types, batches, row, string, timestamp, ty};

/// Rows as the writer lays them out.
fn laid_out<'a>(rows: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let rows = rows.into_iter().flat_map(|row| [(row.len() as u64).to_le_bytes().as_slice(), row].concat());
    rows.collect()
}

fn rows_of(types: &[LogicalType]) -> LogicalType {
    let field = |(i, ty): (usize, &LogicalType)| Field { name: format!("f{i}"), ty: ty.clone() };
    ty(TypeKind::Row(types.iter().enumerate().map(field).collect()))
}

/// A row of BIGINTs and nested rows, by hand: no field is NULL, the last one is a ROW if there are `nested` bytes.
fn by_hand(longs: &[i64], nested: &[u8]) -> Vec<u8> {
    let fields = longs.len() + usize::from(!nested.is_empty());
    let mut row = vec![0; fixed_bytes(fields)];
    for (i, long) in longs.iter().enumerate() {
        row[8 + 8 * i..16 + 8 * i].copy_from_slice(&long.to_le_bytes());
    }
    if !nested.is_empty() {
        let slot = (row.len() as u64) << 32 | nested.len() as u64;
        let start = row.len() - 8;
        row[start..].copy_from_slice(&slot.to_le_bytes());
        row.extend_from_slice(nested);
    }
    row
}

fn flat_types() -> Vec<LogicalType> {
    all_types().into_iter().filter(|ty| RowEncoder::try_new(std::slice::from_ref(ty)).is_ok()).collect()
}

proptest! {
    #[test]
    fn rows_that_were_encoded_are_read_back(
        (types, batch) in batches(flat_types(), false),
        seed: u64,
    ) {
        let mut encoder = RowEncoder::try_new(&types).unwrap();
        let encoded = encoder.encode(&batch)?.unwrap();
        let data = laid_out(encoded.offsets.windows(2).map(|ends| &encoded.bytes[ends[0]..ends[1]]));
        let mut random = Random(seed);
        let entry: Vec<_> = types.iter().map(|_| if random.below(3) == 0 { EntryField::Skip } else { EntryField::Read }).collect();
        let tree = ColumnTree::try_new(&rows_of(&types), &entry).unwrap();
        let (arrays, kinds) = read(&tree.roots, &data, batch.num_rows())?;
        for ((array, column), entry) in arrays.iter().zip(batch.columns()).zip(&entry) {
            match entry {
                EntryField::Skip => prop_assert_eq!(array.data_type(), &DataType::Null),
                _ => prop_assert_eq!(array, column),
            }
            prop_assert!(array.to_data().validate_full().is_ok());
        }
        let expected = batch.kinds().map_or(vec![0; batch.num_rows()], |kinds| kinds.values().to_vec());
        prop_assert_eq!(kinds, expected);
    }

    #[test]
    fn any_bytes_make_a_batch_or_an_error(
        data in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>(), 1 => Just(40u8)], 0..200),
        rows in 0usize..4,
    ) {
        let types = [
            string(), timestamp(9), ty(TypeKind::Decimal { precision: 30, scale: 2 }),
            row(&[("a", ty(TypeKind::VarBinary(9))), ("b", ty(TypeKind::Boolean))]),
        ];
        let entry = [
            EntryField::Read, EntryField::Read, EntryField::Read, EntryField::Row(vec![EntryField::Read, EntryField::Read]),
        ];
        // with a plausible length in front, so that fields are reached
        let data = [(data.len() as u64).to_le_bytes().as_slice(), &data].concat();
        let tree = ColumnTree::try_new(&rows_of(&types), &entry).unwrap();
        if let Ok((arrays, _)) = read(&tree.roots, &data, rows) {
            for array in arrays {
                prop_assert!(array.to_data().validate_full().is_ok());
            }
        }
    }
}

fn nested_entry() -> (ColumnTree, Vec<u8>) {
    let bid = row(&[("price", ty(TypeKind::BigInt)), ("fee", ty(TypeKind::BigInt))]);
    let entry = [EntryField::Skip, EntryField::Row(vec![EntryField::Skip, EntryField::Read])];
    let tree = ColumnTree::try_new(&row(&[("id", ty(TypeKind::BigInt)), ("bid", bid)]), &entry).unwrap();
    (tree, by_hand(&[1], &by_hand(&[2, 3], &[])))
}

#[test]
fn fields_of_a_nested_row_are_read_and_are_null_where_it_is() {
    let (tree, whole) = nested_entry();
    let mut null = by_hand(&[1, 0], &[]);
    null[1] = 2; // the bit of field 1
    let (arrays, _) = read(&tree.roots, &laid_out([whole.as_slice(), &null, &whole]), 3).unwrap();
    let bids = arrays[1].as_struct();
    assert_eq!((bids.is_null(0), bids.is_null(1), bids.is_null(2)), (false, true, false));
    assert_eq!(bids.column(1).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [Some(3), None, Some(3)]);
    assert_eq!(bids.column(0).data_type(), &DataType::Null);
}

#[test]
fn a_row_or_a_field_that_is_cut_is_named() {
    let (tree, whole) = nested_entry();
    let cut = |data: &[u8]| read(&tree.roots, data, 1).unwrap_err().to_string();
    assert_eq!(cut(&[]), "row 0 of the batch is no complete binary row");
    assert_eq!(cut(&laid_out([&whole[..16]])), "row 0 of the batch is no complete binary row");
    let all = laid_out([whole.as_slice()]);
    assert_eq!(cut(&all[..all.len() - 1]), "row 0 of the batch is no complete binary row");
    assert_eq!(cut(&laid_out([&whole[..whole.len() - 8]])), "the field bid lies outside of its binary row");
}

#[test]
fn the_buffer_is_kept_from_batch_to_batch() {
    let tree = ColumnTree::try_new(&rows_of(&[ty(TypeKind::BigInt)]), &[EntryField::Read]).unwrap();
    let mut buffers = EntryBuffers::try_new(tree, 10).unwrap();
    let address = buffers.reserve_binary_rows(1000).unwrap();
    assert!(buffers.finish_binary_rows(1).is_err(), "rows of no length");
    assert!(buffers.finish_binary_rows(11).is_err(), "more rows than there is room for");
    assert_eq!(buffers.finish_binary_rows(0).unwrap().num_rows(), 0);
    assert_eq!(buffers.reserve_binary_rows(500).unwrap(), address);
    assert!(buffers.reserve_binary_rows(1 << 40).is_err());
}
