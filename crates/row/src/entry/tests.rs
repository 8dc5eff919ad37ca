#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Decimal128Type};
use proptest::prelude::*;
use streamfusion_plan::EntryField;
use streamfusion_plan::types::{Field, LogicalType, TypeKind};

use super::*;
use crate::batch::{Batch, BatchError};
use crate::random::{Random, all_types, batches, row, string, timestamp, ty};
use crate::timestamp::split_nanos;

/// Writes rows the way Java does: by address.
struct Writer {
    buffers: EntryBuffers,
    addresses: Vec<i64>,
    ends: Vec<i32>,
}

fn put(address: i64, bytes: &[u8]) {
    let target = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: tests only pass addresses inside of buffers that the entry told and still owns; no reference to them exists
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
}

impl Writer {
    fn new(row: &LogicalType, entry: &[EntryField], capacity: usize) -> Self {
        let mut buffers = EntryBuffers::try_new(ColumnTree::try_new(row, entry).unwrap(), capacity).unwrap();
        let addresses = buffers.addresses();
        let ends = vec![0; buffers.num_columns()];
        Self { buffers, addresses, ends }
    }

    fn finish(&mut self, rows: usize, kinds: RowKinds) -> Result<Batch, EntryError> {
        let batch = self.buffers.finish(rows, kinds);
        self.addresses = self.buffers.addresses();
        self.ends.fill(0);
        batch
    }

    /// Writes one field as row `index`; `null` if a parent is NULL. `column` moves on in the tree.
    fn field(&mut self, value: &ArrayRef, entry: &EntryField, index: usize, null: bool, column: &mut usize) {
        if *entry == EntryField::Skip {
            return;
        }
        let at = *column;
        *column += 1;
        let null = null || value.is_null(index);
        let [validity, values, _] = *self.addresses[3 * at..].first_chunk::<3>().unwrap();
        put(validity + index as i64, &[u8::from(!null)]);
        let zeroed = |bytes: Vec<u8>| if null { vec![0; bytes.len()] } else { bytes };
        match value.data_type() {
            DataType::Struct(_) => {
                let EntryField::Row(entry) = entry else { unreachable!() };
                for (child, entry) in value.as_struct().columns().iter().zip(entry) {
                    self.field(child, entry, index, null, column);
                }
            }
            DataType::Utf8 | DataType::Binary => {
                let bytes = match value.as_string_opt::<i32>() {
                    Some(text) => text.value(index).as_bytes(),
                    None => value.as_binary::<i32>().value(index),
                };
                self.bytes(at, index, if null { &[] } else { bytes });
            }
            DataType::Boolean => put(values + index as i64, &zeroed(vec![value.as_boolean().value(index).into()])),
            DataType::Decimal128(38, 9) => {
                let (millis, nanos) = split_nanos(value.as_primitive::<Decimal128Type>().value(index));
                let bytes = [millis.to_le_bytes(), i64::from(nanos).to_le_bytes()].concat();
                put(values + 16 * index as i64, &zeroed(bytes));
            }
            ty => {
                let width = ty.primitive_width().unwrap();
                let data = value.slice(index, 1).to_data();
                put(values + (width * index) as i64, &zeroed(data.buffers()[0][..width].to_vec()));
            }
        }
    }

    fn bytes(&mut self, column: usize, index: usize, bytes: &[u8]) {
        let start = self.ends[column];
        let end = start + bytes.len() as i32;
        let data = self.buffers.reserve(column, end as usize).unwrap();
        put(data + i64::from(start), bytes);
        self.ends[column] = end;
        put(self.addresses[3 * column + 1] + 4 * index as i64, &end.to_le_bytes());
    }

    fn batch(&mut self, batch: &Batch, entry: &[EntryField]) -> Result<Batch, EntryError> {
        let kinds = *self.addresses.last().unwrap();
        for index in 0..batch.num_rows() {
            let mut column = 0;
            for (value, entry) in batch.columns().iter().zip(entry) {
                self.field(value, entry, index, false, &mut column);
            }
            if let Some(written) = batch.kinds() {
                put(kinds + index as i64, &[written.value(index)]);
            }
        }
        self.finish(batch.num_rows(), if batch.kinds().is_some() { RowKinds::Written } else { RowKinds::AllInsert })
    }
}

fn rows_of(types: &[LogicalType]) -> LogicalType {
    let field = |(i, ty): (usize, &LogicalType)| Field { name: format!("f{i}"), ty: ty.clone() };
    ty(TypeKind::Row(types.iter().enumerate().map(field).collect()))
}

fn whole(ty: &LogicalType) -> EntryField {
    match &ty.kind {
        TypeKind::Row(fields) => EntryField::Row(fields.iter().map(|f| whole(&f.ty)).collect()),
        _ => EntryField::Read,
    }
}

fn some(ty: &LogicalType, random: &mut Random) -> EntryField {
    match &ty.kind {
        _ if random.below(3) == 0 => EntryField::Skip,
        TypeKind::Row(fields) => EntryField::Row(fields.iter().map(|f| some(&f.ty, random)).collect()),
        _ => EntryField::Read,
    }
}

/// What a field that is read in part looks like.
fn pruned(value: &ArrayRef, entry: &EntryField) -> ArrayRef {
    match entry {
        EntryField::Skip => Arc::new(NullArray::new(value.len())),
        EntryField::Read => value.clone(),
        EntryField::Row(entry) => {
            let value = value.as_struct();
            let children: Vec<_> = value.columns().iter().zip(entry).map(|(c, e)| pruned(c, e)).collect();
            let fields = value.fields().iter().zip(&children);
            let fields = fields.map(|(f, c)| f.as_ref().clone().with_data_type(c.data_type().clone())).collect();
            Arc::new(StructArray::new(fields, children, value.nulls().cloned()))
        }
    }
}

proptest! {
    #[test]
    fn rows_come_out_as_they_were_written(
        (types, batch) in batches(all_types(), false),
        spare in 0usize..200,
    ) {
        let entry: Vec<_> = types.iter().map(whole).collect();
        let mut writer = Writer::new(&rows_of(&types), &entry, batch.num_rows() + spare + 1);
        // twice: buffers that were handed over leave no traces, nor do old rows
        for batch in [batch.slice(0, batch.num_rows() / 2)?, batch] {
            let read = writer.batch(&batch, &entry)?;
            prop_assert_eq!(read.columns(), batch.columns());
            prop_assert_eq!(read.kinds(), batch.kinds());
        }
    }

    #[test]
    fn fields_that_are_not_read_keep_their_position(
        (types, batch) in batches(all_types(), false),
        seed: u64,
    ) {
        let mut random = Random(seed);
        let entry: Vec<_> = types.iter().map(|ty| some(ty, &mut random)).collect();
        let mut writer = Writer::new(&rows_of(&types), &entry, 100);
        let read = writer.batch(&batch, &entry)?;
        let expected: Vec<_> = batch.columns().iter().zip(&entry).map(|(c, e)| pruned(c, e)).collect();
        prop_assert_eq!(read.columns(), expected.as_slice());
    }

    #[test]
    fn whatever_is_written_yields_a_valid_batch_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        ends in prop::collection::vec(-2i32..45, 1..10),
    ) {
        let types = [string()];
        let mut writer = Writer::new(&rows_of(&types), &[EntryField::Read], 10);
        let data = writer.buffers.reserve(0, bytes.len())?;
        put(data, &bytes);
        for (row, end) in ends.iter().enumerate() {
            put(writer.addresses[0] + row as i64, &[1]);
            put(writer.addresses[1] + 4 * row as i64, &end.to_le_bytes());
        }
        if let Ok(batch) = writer.finish(ends.len(), RowKinds::AllInsert) {
            prop_assert!(batch.columns()[0].to_data().validate_full().is_ok());
        }
    }
}

fn nested() -> LogicalType {
    row(&[("id", ty(TypeKind::BigInt)), ("bid", row(&[("url", string()), ("at", timestamp(3))]))])
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_field() {
    let entry = [EntryField::Skip, EntryField::Row(vec![EntryField::Read, EntryField::Skip])];
    let mut writer = Writer::new(&nested(), &entry, 10);
    assert_eq!(writer.buffers.num_columns(), 2);
    writer.bytes(1, 0, b"\xff");
    let error = writer.finish(1, RowKinds::AllInsert).unwrap_err();
    assert_eq!(error.to_string(), "the field bid.url holds text that is not UTF-8");
    // the next batch is not affected
    writer.bytes(1, 0, b"ok");
    put(writer.addresses[0], &[1]);
    put(writer.addresses[3], &[1]);
    let batch = writer.finish(1, RowKinds::AllInsert).unwrap();
    assert_eq!(batch.columns()[1].as_struct().column(0).as_string::<i32>().value(0), "ok");
}

#[test]
fn an_offset_inside_of_a_character_is_refused() {
    let mut writer = Writer::new(&rows_of(&[string()]), &[EntryField::Read], 10);
    let bytes = "é".as_bytes();
    writer.bytes(0, 0, &bytes[..1]);
    writer.bytes(0, 1, &bytes[1..]);
    assert!(matches!(writer.finish(2, RowKinds::AllInsert), Err(EntryError::NotUtf8 { .. })));
}

#[test]
fn offsets_that_descend_or_leave_the_data_are_refused() {
    for ends in [[2i32, 1], [1, 4], [-1, 1]] {
        let mut writer = Writer::new(&rows_of(&[ty(TypeKind::VarBinary(9))]), &[EntryField::Read], 10);
        writer.buffers.reserve(0, 3).unwrap();
        put(writer.addresses[1], &[ends[0].to_le_bytes(), ends[1].to_le_bytes()].concat());
        let error = writer.finish(2, RowKinds::AllInsert).unwrap_err();
        assert_eq!(error.to_string(), "the field f0 has an end offset outside of its data");
    }
}

#[test]
fn misuse_is_an_error() {
    let mut writer = Writer::new(&nested(), &[EntryField::Read, EntryField::Skip], 10);
    assert!(matches!(writer.finish(11, RowKinds::AllInsert), Err(EntryError::Rows { rows: 11, capacity: 10 })));
    assert!(matches!(writer.buffers.reserve(0, 1), Err(EntryError::Column { column: 0 })));
    assert!(matches!(writer.buffers.reserve(7, 1), Err(EntryError::Column { column: 7 })));
    put(*writer.addresses.last().unwrap(), &[4]);
    let error = writer.finish(1, RowKinds::Written).unwrap_err();
    assert!(matches!(error, EntryError::Batch(BatchError::Kind { row: 0 })));
    for capacity in [0, usize::MAX] {
        let tree = ColumnTree::try_new(&nested(), &[EntryField::Read, EntryField::Skip]).unwrap();
        assert!(matches!(EntryBuffers::try_new(tree, capacity), Err(EntryError::Rows { .. })));
    }
    let mut text = Writer::new(&rows_of(&[string()]), &[EntryField::Read], 10);
    assert!(matches!(text.buffers.reserve(0, 1 << 40), Err(EntryError::Data { .. })));
}

#[test]
fn an_entry_that_does_not_fit_the_row_type_is_a_reason() {
    for entry in [
        vec![EntryField::Read],
        vec![EntryField::Read, EntryField::Read],
        vec![EntryField::Row(vec![]), EntryField::Skip],
        vec![EntryField::Skip, EntryField::Row(vec![EntryField::Read])],
    ] {
        assert!(ColumnTree::try_new(&nested(), &entry).is_err(), "{entry:?}");
    }
    assert!(ColumnTree::try_new(&string(), &[]).is_err());
    let raws = row(&[("a", ty(TypeKind::Array(Arc::new(ty(TypeKind::Other("RAW('x')".to_owned()))))))]);
    assert!(ColumnTree::try_new(&raws, &[EntryField::Read]).is_err());
    // but what is not read may be of any type
    assert!(ColumnTree::try_new(&raws, &[EntryField::Skip]).is_ok());
}

#[test]
fn full_buffers_are_handed_over_and_nearly_empty_ones_kept() {
    let mut writer = Writer::new(&rows_of(&[ty(TypeKind::BigInt)]), &[EntryField::Read], 100);
    let written = writer.addresses[1];
    let full = writer.finish(100, RowKinds::AllInsert).unwrap();
    let values = full.columns()[0].as_primitive::<arrow::datatypes::Int64Type>().values();
    assert_eq!(values.inner().as_ptr().addr(), written as usize);
    assert_ne!(writer.addresses[1], written);
    let kept = writer.addresses[1];
    writer.finish(10, RowKinds::AllInsert).unwrap();
    assert_eq!(writer.addresses[1], kept);
}

#[test]
fn memory_of_one_large_value_is_given_up() {
    let mut writer = Writer::new(&rows_of(&[string()]), &[EntryField::Read], 100);
    writer.buffers.reserve(0, 1 << 20).unwrap();
    let large = writer.buffers.addresses()[2];
    writer.bytes(0, 0, b"few");
    writer.finish(1, RowKinds::AllInsert).unwrap();
    assert_ne!(writer.addresses[2], large);
}
