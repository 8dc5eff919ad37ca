#![allow(clippy::unwrap_used)]

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::datatypes::{Field, Int64Type};
use proptest::prelude::*;
use std::sync::Arc;

use super::*;
use crate::random::{all_types, batches};

/// `len` bytes at an address of an export that is alive.
fn bytes(address: i64, len: usize) -> Vec<u8> {
    let source = std::ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: tests read no more than the layout says there is, from columns that the export keeps alive
    unsafe { std::slice::from_raw_parts(source, len) }.to_vec()
}

fn bits(address: i64, first: usize, rows: usize) -> BooleanBuffer {
    BooleanBuffer::new(bytes(address, (first + rows).div_ceil(8)).into(), first, rows)
}

/// Reads a column as Java does, knowing its type, and makes it an array again.
fn read(ty: &DataType, rows: usize, addresses: &mut &[i64]) -> ArrayRef {
    let (quad, rest) = addresses.split_first_chunk::<4>().unwrap();
    *addresses = rest;
    let [validity, values, data, first] = *quad;
    let nulls = (validity != 0).then(|| NullBuffer::new(bits(validity, first as usize, rows)));
    match ty {
        DataType::Null => {
            assert_eq!(nulls.map(|n| n.null_count()), Some(rows));
            assert_eq!(bytes(values, 16 * rows), vec![0; 16 * rows]);
            assert_eq!(bytes(data, 1), [0]);
            Arc::new(NullArray::new(rows))
        }
        DataType::Boolean => Arc::new(BooleanArray::new(bits(values, data as usize, rows), nulls)),
        DataType::Struct(fields) => {
            assert_eq!((values, data), (0, 0));
            let children = fields.iter().map(|f| read(f.data_type(), rows, addresses)).collect();
            Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, rows).unwrap())
        }
        DataType::Utf8 | DataType::Binary => {
            let offsets: Buffer = Buffer::from_slice_ref(bytes(values, 4 * (rows + 1)));
            let offsets = OffsetBuffer::new(ScalarBuffer::<i32>::from(offsets));
            assert_eq!(offsets[0], 0);
            let data = Buffer::from(bytes(data, offsets[rows] as usize));
            if ty == &DataType::Utf8 {
                Arc::new(StringArray::new(offsets, data, nulls))
            } else {
                Arc::new(BinaryArray::new(offsets, data, nulls))
            }
        }
        ty => {
            let values = Buffer::from_slice_ref(bytes(values, rows * ty.primitive_width().unwrap()));
            make_array(ArrayData::builder(ty.clone()).len(rows).add_buffer(values).nulls(nulls).build().unwrap())
        }
    }
}

proptest! {
    #[test]
    fn columns_are_read_back_by_their_addresses((_, batch) in batches(all_types(), true)) {
        let export = Export::try_new(&batch)?;
        let mut addresses = export.addresses();
        for column in batch.columns() {
            prop_assert_eq!(&read(column.data_type(), batch.num_rows(), &mut addresses), column);
        }
        prop_assert_eq!(addresses.len(), 1);
        let kinds = addresses[0];
        match batch.kinds() {
            None => prop_assert_eq!(kinds, 0),
            Some(expected) => prop_assert_eq!(bytes(kinds, batch.num_rows()), expected.values().to_vec()),
        }
    }
}

#[test]
fn bit_positions_are_below_8() {
    let flags = BooleanArray::from(vec![Some(true); 40]).slice(19, 20);
    let nulls = Int64Array::from(vec![None; 40]).slice(19, 20);
    let batch = Batch::try_new(vec![Arc::new(flags), Arc::new(nulls)], 20, None).unwrap();
    let export = Export::try_new(&batch).unwrap();
    assert_eq!((export.addresses()[2], export.addresses()[7]), (3, 3));
}

#[test]
fn the_columns_outlive_the_batch() {
    let batch = Batch::try_new(vec![Arc::new(Int64Array::from(vec![1, 2, 3]))], 3, None).unwrap();
    let export = Export::try_new(&batch).unwrap();
    drop(batch);
    let column = read(&DataType::Int64, 3, &mut export.addresses());
    assert_eq!(column.as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    assert_eq!(export.batch().num_rows(), 3);
}

#[test]
fn other_types_cannot_leave() {
    let list = ListArray::new_null(Arc::new(Field::new("item", DataType::Int64, true)), 1);
    let batch = Batch::try_new(vec![Arc::new(list)], 1, None).unwrap();
    assert!(matches!(Export::try_new(&batch), Err(ExportError::Type { .. })));
}
