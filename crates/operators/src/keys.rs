//! From the key columns of a batch to the keys of a table.

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::binary::{KeyEncoder, KeyRows};
use streamfusion_state::table::fixed_key_bits;
use streamfusion_state::{BatchKeys, KeyLayout, KeyedTable, SlotKeys, Touched};

use crate::OperatorError;
use crate::definition::describe_all;

/// The key columns, and how keys are made of them.
#[derive(Debug)]
pub(crate) struct Keys {
    columns: Vec<usize>,
    form: Form,
    /// The types of the fields, in words.
    types: String,
}

#[derive(Debug)]
enum Form {
    /// No key column: one key.
    Global,
    /// One column of at most 8 bytes.
    Fixed { ty: DataType, bits: Vec<u64> },
    /// Anything else, by its BinaryRow.
    Bytes { encoder: KeyEncoder, rows: KeyRows },
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
    /// `columns` are the key columns of the input; `types` and `arrow` are theirs. A type that cannot be a key is a
    /// reason.
    pub(crate) fn try_new(columns: &[usize], types: &[LogicalType], arrow: &[DataType]) -> Result<Self, Reason> {
        let encoder = KeyEncoder::try_new(types)?;
        let form = match arrow {
            [] => Form::Global,
            [ty] if is_fixed(ty) => Form::Fixed { ty: ty.clone(), bits: Vec::new() },
            _ => Form::Bytes { encoder, rows: KeyRows::new() },
        };
        Ok(Self { columns: columns.to_vec(), form, types: describe_all(types) })
    }

    /// How keys look in the table.
    pub(crate) fn layout(&self) -> KeyLayout {
        match &self.form {
            Form::Global => KeyLayout::Single,
            Form::Fixed { ty, .. } => KeyLayout::Fixed(ty.clone(), self.types.clone()),
            Form::Bytes { .. } => KeyLayout::Bytes(self.types.clone()),
        }
    }

    /// The key columns of a batch.
    pub(crate) fn columns(&self, batch: &Batch) -> Result<Vec<ArrayRef>, OperatorError> {
        self.columns
            .iter()
            .map(|column| {
                batch.columns().get(*column).cloned().ok_or_else(|| {
                    OperatorError::Input(format!("key column {column} of {} columns", batch.columns().len()))
                })
            })
            .collect()
    }

    /// Loads the keys of the rows of these batches, one batch after the other, each of which gets the number of its key.
    pub(crate) fn load_batches(
        &mut self,
        batches: &[Batch],
        table: &mut KeyedTable,
        touched: &mut Touched,
    ) -> Result<(), OperatorError> {
        let num_rows = batches.iter().map(Batch::num_rows).sum::<usize>();
        let columns = match batches {
            [batch] => self.columns(batch)?,
            _ => {
                let parts = batches.iter().map(|batch| self.columns(batch)).collect::<Result<Vec<_>, _>>()?;
                let column = |position: usize| -> Result<ArrayRef, OperatorError> {
                    let arrays: Vec<_> =
                        parts.iter().filter_map(|part| part.get(position)).map(AsRef::as_ref).collect();
                    Ok(concat(&arrays)?)
                };
                (0..self.columns.len()).map(column).collect::<Result<Vec<_>, _>>()?
            }
        };
        self.load(&columns, num_rows, table, touched)
    }

    /// Loads the keys of the rows, each of which gets the number of its key. `columns` are the key columns.
    pub(crate) fn load(
        &mut self,
        columns: &[ArrayRef],
        num_rows: usize,
        table: &mut KeyedTable,
        touched: &mut Touched,
    ) -> Result<(), OperatorError> {
        let keys = self.encode(columns, num_rows)?;
        Ok(table.load(keys, touched)?)
    }

    /// [`Keys::load`], for rows that go on with what was loaded last.
    pub(crate) fn load_more(
        &mut self,
        columns: &[ArrayRef],
        num_rows: usize,
        table: &mut KeyedTable,
        touched: &mut Touched,
    ) -> Result<(), OperatorError> {
        let keys = self.encode(columns, num_rows)?;
        Ok(table.load_more(keys, touched)?)
    }

    /// [`Keys::load`] for a table with namespaces: `namespaces` has that of each row.
    pub(crate) fn load_in(
        &mut self,
        columns: &[ArrayRef],
        namespaces: &[i64],
        table: &mut KeyedTable,
        touched: &mut Touched,
    ) -> Result<(), OperatorError> {
        let keys = self.encode(columns, namespaces.len())?;
        Ok(table.load_in(keys, namespaces, touched)?)
    }

    /// The key columns of slots in use.
    pub(crate) fn of_slots(&self, table: &KeyedTable, slots: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        match (table.slot_keys(slots)?, &self.form) {
            (SlotKeys::Single(_), Form::Global) => Ok(Vec::new()),
            (SlotKeys::Fixed(column), Form::Fixed { .. }) => Ok(vec![column]),
            (SlotKeys::Bytes(rows), Form::Bytes { encoder, .. }) => Ok(encoder.decode(&rows)?),
            _ => Err(OperatorError::Internal("keys that are not those of the table".to_owned())),
        }
    }

    /// The keys of the rows as tables take them. `columns` are the key columns.
    pub(crate) fn encode<'a>(
        &'a mut self,
        columns: &'a [ArrayRef],
        num_rows: usize,
    ) -> Result<BatchKeys<'a>, OperatorError> {
        Ok(match (&mut self.form, columns) {
            (Form::Global, _) => BatchKeys::Single(num_rows),
            (Form::Fixed { ty, bits }, [column]) => {
                if column.data_type() != ty || !fixed_key_bits(column, bits) {
                    return Err(OperatorError::Input(format!("a key of type {}, not {ty}", column.data_type())));
                }
                BatchKeys::Fixed(bits, column.nulls())
            }
            (Form::Bytes { encoder, rows: keys }, _) => {
                encoder.encode(columns, num_rows, keys)?;
                BatchKeys::Bytes(keys)
            }
            (Form::Fixed { .. }, _) => {
                return Err(OperatorError::Internal("a key of one column without its column".to_owned()));
            }
        })
    }
}
