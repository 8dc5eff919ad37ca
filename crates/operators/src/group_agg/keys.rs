//! From the grouping columns of a batch to groups: one lookup per row.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimeUnit};
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_state::index::Found;
use streamfusion_state::{BytesKeyIndex, FixedKeyIndex, StateError};

use super::native::Native;
use super::rows::Rows;
use crate::OperatorError;

/// The groups that exist, by their grouping columns.
#[derive(Debug)]
pub(super) struct Keys {
    columns: Vec<usize>,
    index: Index,
    /// Per slot: the batch that touched it last and its group there.
    stamps: Vec<(u32, u32)>,
    batch: u32,
}

#[derive(Debug)]
enum Index {
    /// No grouping column: one group, slot 0.
    Global,
    /// One column of at most 8 bytes.
    Fixed { ty: DataType, index: FixedKeyIndex, bits: Vec<u64> },
    /// Anything else, by its BinaryRow.
    Bytes { encoder: KeyEncoder, index: BytesKeyIndex, rows: KeyRows, hashes: Vec<i32> },
}

/// Whether keys of this type are told apart by 8 bytes.
fn is_fixed(ty: &DataType) -> bool {
    match ty {
        DataType::Decimal128(precision, _) => *precision <= 18,
        DataType::Boolean => true,
        _ => ty.primitive_width().is_some_and(|width| width <= 8),
    }
}

impl Keys {
    /// No groups yet. `columns` are the grouping columns of the input; `types` and `arrow` are theirs. A type that cannot
    /// be a key is a reason.
    pub(super) fn try_new(columns: &[usize], types: &[LogicalType], arrow: &[DataType]) -> Result<Self, Reason> {
        let encoder = KeyEncoder::try_new(types)?;
        let index = match arrow {
            [] => Index::Global,
            [ty] if is_fixed(ty) => Index::Fixed { ty: ty.clone(), index: FixedKeyIndex::new(), bits: Vec::new() },
            _ => Index::Bytes { encoder, index: BytesKeyIndex::new(), rows: KeyRows::new(), hashes: Vec::new() },
        };
        Ok(Self { columns: columns.to_vec(), index, stamps: Vec::new(), batch: 0 })
    }

    /// The grouping columns of a batch.
    pub(super) fn columns(&self, batch: &Batch) -> Result<Vec<ArrayRef>, OperatorError> {
        self.columns
            .iter()
            .map(|column| {
                batch.columns().get(*column).cloned().ok_or_else(|| {
                    OperatorError::Input(format!("grouping column {column} of {} columns", batch.columns().len()))
                })
            })
            .collect()
    }

    /// Numbers the groups of the rows: fills in `groups`, `slots` and `slot_bound`. `columns` are the grouping columns.
    pub(super) fn assign(
        &mut self,
        columns: &[ArrayRef],
        num_rows: usize,
        rows: &mut Rows,
    ) -> Result<(), OperatorError> {
        rows.groups.clear();
        rows.slots.clear();
        self.batch = match self.batch.checked_add(1) {
            Some(batch) => batch,
            None => {
                self.stamps.clear();
                1
            }
        };
        let mut numbering = Numbering { stamps: &mut self.stamps, batch: self.batch, rows };
        match (&mut self.index, columns) {
            (Index::Global, _) => {
                rows.groups.resize(num_rows, 0);
                rows.slots.push(0);
                rows.slot_bound = 1;
            }
            (Index::Fixed { ty, index, bits }, [column]) => {
                if column.data_type() != ty {
                    return Err(OperatorError::Input(format!("a key of type {}, not {ty}", column.data_type())));
                }
                key_bits(column, bits)?;
                match column.nulls().filter(|nulls| nulls.null_count() > 0) {
                    None => {
                        for key in bits.iter() {
                            numbering.add(index.find_or_add(*key)?);
                        }
                    }
                    Some(nulls) => {
                        for (key, valid) in bits.iter().zip(nulls) {
                            numbering.add(if valid { index.find_or_add(*key)? } else { index.find_or_add_null()? });
                        }
                    }
                }
                rows.slot_bound = index.bound();
            }
            (Index::Bytes { encoder, index, rows: keys, hashes }, _) => {
                encoder.encode(columns, num_rows, keys)?;
                hashes.clear();
                hashes.extend(keys.iter().map(streamfusion_row::hash::hash_bytes_by_words));
                for (key, hash) in keys.iter().zip(hashes.iter()) {
                    numbering.add(index.find_or_add(key, hash.cast_unsigned())?);
                }
                rows.slot_bound = index.bound();
            }
            (Index::Fixed { .. }, _) => {
                return Err(OperatorError::Internal("a key of one column without its column".to_owned()));
            }
        }
        Ok(())
    }

    /// Forgets the group in `slot`.
    pub(super) fn remove(&mut self, slot: u32) -> Result<(), StateError> {
        match &mut self.index {
            Index::Global => Ok(()),
            Index::Fixed { index, .. } => {
                index.remove(slot);
                Ok(())
            }
            Index::Bytes { index, .. } => index.remove(slot),
        }
    }

    /// Bytes of the index.
    pub(super) fn bytes(&self) -> usize {
        let index = match &self.index {
            Index::Global => 0,
            Index::Fixed { index, .. } => index.bytes(),
            Index::Bytes { index, .. } => index.bytes(),
        };
        index + self.stamps.capacity() * size_of::<(u32, u32)>()
    }
}

/// Numbers slots in first-touch order.
struct Numbering<'a> {
    stamps: &'a mut Vec<(u32, u32)>,
    batch: u32,
    rows: &'a mut Rows,
}

impl Numbering<'_> {
    #[inline]
    fn add(&mut self, found: Found) {
        let slot = found.slot as usize;
        if slot >= self.stamps.len() {
            self.stamps.resize(slot + 1, (0, 0));
        }
        let stamp = &mut self.stamps[slot];
        if stamp.0 != self.batch {
            // no more groups than rows, which are counted in 31 bits
            *stamp = (self.batch, self.rows.slots.len() as u32);
            self.rows.slots.push(found.slot);
        }
        self.rows.groups.push(stamp.1);
    }
}

/// The values of a column of at most 8 bytes, bit by bit. Values of NULLs are arbitrary.
fn key_bits(column: &ArrayRef, bits: &mut Vec<u64>) -> Result<(), OperatorError> {
    bits.clear();
    match column.data_type() {
        DataType::Boolean => bits.extend(bool::values(column)?.iter().map(|v| u64::from(*v))),
        DataType::Int8 => bits.extend(i8::values(column)?.iter().map(|v| u64::from(v.cast_unsigned()))),
        DataType::Int16 => bits.extend(i16::values(column)?.iter().map(|v| u64::from(v.cast_unsigned()))),
        DataType::Int32 => {
            bits.extend(column.as_primitive::<Int32Type>().values().iter().map(|v| u64::from(v.cast_unsigned())));
        }
        DataType::Date32 | DataType::Time32(_) => {
            bits.extend(i32::values(column)?.iter().map(|v| u64::from(v.cast_unsigned())));
        }
        DataType::Int64 => {
            bits.extend(column.as_primitive::<Int64Type>().values().iter().map(|v| v.cast_unsigned()));
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            bits.extend(i64::values(column)?.iter().map(|v| v.cast_unsigned()));
        }
        DataType::Float32 => bits.extend(f32::values(column)?.iter().map(|v| u64::from(v.to_bits()))),
        DataType::Float64 => bits.extend(f64::values(column)?.iter().map(|v| v.to_bits())),
        DataType::Decimal128(_, _) => {
            bits.extend(i128::values(column)?.iter().map(|v| *v as u64)); // at most 18 digits
        }
        other => return Err(OperatorError::Internal(format!("a key of type {other} is not of fixed width"))),
    }
    Ok(())
}
