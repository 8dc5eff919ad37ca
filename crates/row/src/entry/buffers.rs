//! Buffers of one entry, filled again and again.

use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, BinaryArray, BooleanArray, NullArray, StringArray, StructArray, UInt8Array, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::binary_rows;
use super::tree::{ColumnTree, Form, Node, Values};
use crate::batch::{Batch, BatchError};
use crate::timestamp::join_nanos;

/// Most rows of a batch.
const MAX_ROWS: usize = 1 << 20;
/// Largest data buffer: a power of two, of which offsets reach all but the last byte.
const MAX_DATA_BYTES: usize = 1 << 31;
/// What lies in front of the first end offset: the start of the first row, always 0.
const OFFSET_BYTES: usize = 4;

/// A data buffer that was used to less than one part in so many is given up.
const WASTE: usize = 16;

/// Rows that do not make a batch, or a misuse of the buffers.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// Text that is not UTF-8.
    #[error("the field {field} holds text that is not UTF-8")]
    NotUtf8 {
        /// Path of the field.
        field: String,
    },
    /// An end offset lies before its start or behind the data.
    #[error("the field {field} has an end offset outside of its data")]
    Offsets {
        /// Path of the field.
        field: String,
    },
    /// More rows than there is room for.
    #[error("{rows} rows where there is room for {capacity}")]
    Rows {
        /// Rows asked for.
        rows: usize,
        /// Most rows.
        capacity: usize,
    },
    /// No such column, or one without data.
    #[error("column {column} of the entry has no data buffer")]
    Column {
        /// Position in the column tree.
        column: usize,
    },
    /// A row in Flink's binary form that is not there whole.
    #[error("row {row} of the batch is no complete binary row")]
    BinaryRow {
        /// Its position.
        row: usize,
    },
    /// A field of such a row that lies outside of it.
    #[error("the field {field} lies outside of its binary row")]
    BinaryField {
        /// Path of the field.
        field: String,
    },
    /// A data buffer larger than offsets can tell, or than the memory there is.
    #[error("{bytes} bytes are too many for a data buffer")]
    Data {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The columns or row kinds make no batch.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Arrow refuses a column.
    #[error("the field {field} cannot be read")]
    Arrow {
        /// Path of the field.
        field: String,
        /// Why.
        #[source]
        source: ArrowError,
    },
}

/// Whether the writer wrote row kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKinds {
    /// It did not: every row is +I.
    AllInsert,
    /// One byte per row.
    Written,
}

/// The buffers that rows are written into.
#[derive(Debug)]
pub struct EntryBuffers {
    tree: ColumnTree,
    capacity: usize,
    /// In the order of the column tree.
    columns: Vec<ColumnBuffers>,
    kinds: MutableBuffer,
    /// Rows in Flink's binary form, if the writer has such rows.
    binary_rows: Vec<u8>,
}

/// Buffers of one column. The lengths of all but `data` are fixed.
#[derive(Debug)]
struct ColumnBuffers {
    /// `None` for a ROW.
    form: Option<Form>,
    validity: MutableBuffer,
    values: MutableBuffer,
    data: Vec<u8>,
}

impl EntryBuffers {
    /// Buffers for batches of up to `capacity` rows. Errors if that is 0 or beyond a million.
    pub fn try_new(tree: ColumnTree, capacity: usize) -> Result<Self, EntryError> {
        if capacity == 0 || capacity > MAX_ROWS {
            return Err(EntryError::Rows { rows: capacity, capacity: MAX_ROWS });
        }
        let mut columns = Vec::with_capacity(tree.len());
        allocate(&tree.roots, capacity, &mut columns);
        Ok(Self { tree, capacity, columns, kinds: MutableBuffer::from_len_zeroed(capacity), binary_rows: Vec::new() })
    }

    /// Most rows of a batch.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The columns of the tree.
    pub fn num_columns(&self) -> usize {
        self.columns.len()
    }

    /// The addresses of the next batch: validity, values and data of each column (0 where there are none), then that of the
    /// row kinds.
    pub fn addresses(&mut self) -> Vec<i64> {
        let mut addresses = Vec::with_capacity(3 * self.columns.len() + 1);
        for column in &mut self.columns {
            addresses.extend(column.addresses());
        }
        addresses.push(address(self.kinds.as_slice_mut()));
        addresses
    }

    /// Makes the data buffer of a column at least `bytes` large, keeps what was written, and tells its address. Errors if the
    /// column has no data, or if there is not as much memory.
    pub fn reserve(&mut self, column: usize, bytes: usize) -> Result<i64, EntryError> {
        let buffers = self.columns.get_mut(column).filter(|c| c.form == Some(Form::Bytes));
        grow(&mut buffers.ok_or(EntryError::Column { column })?.data, bytes)
    }

    /// Makes the buffer of binary rows at least `bytes` large, keeps what was written, and tells its address, which holds until
    /// the next call. Errors if there is not as much memory.
    pub fn reserve_binary_rows(&mut self, bytes: usize) -> Result<i64, EntryError> {
        grow(&mut self.binary_rows, bytes)
    }

    /// The first `rows` rows of the buffer of binary rows as a batch, as [`EntryBuffers::finish`] makes one. No address changes.
    /// See [`super::binary_rows`] for the layout.
    pub fn finish_binary_rows(&self, rows: usize) -> Result<Batch, EntryError> {
        if rows > self.capacity {
            return Err(EntryError::Rows { rows, capacity: self.capacity });
        }
        let (arrays, kinds) = binary_rows::read(&self.tree.roots, &self.binary_rows, rows)?;
        let kinds = kinds.iter().any(|kind| *kind != 0).then(|| UInt8Array::from(kinds));
        Ok(Batch::try_new(arrays, rows, kinds)?)
    }

    /// The first `rows` rows as a batch of one column per field of the input, those not read of Arrow type Null. All
    /// addresses change. On an error these rows are lost and the buffers are ready for the next ones.
    pub fn finish(&mut self, rows: usize, kinds: RowKinds) -> Result<Batch, EntryError> {
        if rows > self.capacity {
            return Err(EntryError::Rows { rows, capacity: self.capacity });
        }
        let mut columns = self.columns.iter_mut();
        let arrays = self
            .tree
            .roots
            .iter()
            .map(|node| finish_node(node, &mut columns, rows, self.capacity))
            .collect::<Result<Vec<_>, _>>()?;
        let kinds = match kinds {
            RowKinds::AllInsert => None,
            RowKinds::Written => Some(UInt8Array::from(self.kinds.as_slice()[..rows].to_vec())),
        };
        Ok(Batch::try_new(arrays, rows, kinds)?)
    }
}

fn allocate(nodes: &[Node], capacity: usize, columns: &mut Vec<ColumnBuffers>) {
    for node in nodes {
        match node {
            Node::Skipped => {}
            Node::Values(values) => columns.push(ColumnBuffers::new(Some(values.form), capacity)),
            Node::Row { children, .. } => {
                columns.push(ColumnBuffers::new(None, capacity));
                allocate(children, capacity, columns);
            }
        }
    }
}

impl ColumnBuffers {
    fn new(form: Option<Form>, capacity: usize) -> Self {
        let values = form.map_or(0, |form| values_bytes(form, capacity));
        Self {
            form,
            validity: MutableBuffer::from_len_zeroed(capacity),
            values: MutableBuffer::from_len_zeroed(values),
            data: Vec::new(),
        }
    }

    fn addresses(&mut self) -> [i64; 3] {
        let validity = address(self.validity.as_slice_mut());
        match self.form {
            None => [validity, 0, 0],
            // the writer tells ends; the start of the first row stands before them
            Some(Form::Bytes) => {
                [validity, address(&mut self.values.as_slice_mut()[OFFSET_BYTES..]), address(&mut self.data)]
            }
            Some(_) => [validity, address(self.values.as_slice_mut()), 0],
        }
    }

    /// The values of `rows` rows, out of which the next batch is not written.
    fn take_values(&mut self, form: Form, rows: usize, capacity: usize) -> MutableBuffer {
        let bytes = values_bytes(form, rows);
        if mostly_used(rows, capacity) {
            let fresh = MutableBuffer::from_len_zeroed(self.values.len());
            let mut values = std::mem::replace(&mut self.values, fresh);
            values.truncate(bytes);
            values
        } else {
            let mut values = MutableBuffer::with_capacity(bytes);
            values.extend_from_slice(&self.values.as_slice()[..bytes]);
            values
        }
    }

    /// The first `bytes` bytes of the data.
    fn take_data(&mut self, bytes: usize) -> Buffer {
        if mostly_used(bytes, self.data.len()) {
            let mut data = std::mem::take(&mut self.data);
            data.truncate(bytes);
            return data.into();
        }
        let data = Buffer::from(&self.data[..bytes]);
        if bytes < self.data.len() / WASTE {
            self.data = Vec::new();
        }
        data
    }
}

/// Makes `data` at least `bytes` long and tells where it starts.
fn grow(data: &mut Vec<u8>, bytes: usize) -> Result<i64, EntryError> {
    if bytes > MAX_DATA_BYTES || data.try_reserve_exact(bytes.saturating_sub(data.len())).is_err() {
        return Err(EntryError::Data { bytes });
    }
    if bytes > data.len() {
        data.resize(bytes, 0);
    }
    Ok(address(data))
}

fn values_bytes(form: Form, rows: usize) -> usize {
    let before = if form == Form::Bytes { OFFSET_BYTES } else { 0 };
    before + form.width() * rows
}

/// Whether a buffer is handed over rather than copied.
fn mostly_used(used: usize, size: usize) -> bool {
    used > size / 2
}

/// Takes the columns of `node` from `columns` and makes them an array.
fn finish_node(
    node: &Node,
    columns: &mut std::slice::IterMut<'_, ColumnBuffers>,
    rows: usize,
    capacity: usize,
) -> Result<ArrayRef, EntryError> {
    match node {
        Node::Skipped => Ok(Arc::new(NullArray::new(rows))),
        Node::Values(values) => match columns.next() {
            Some(buffers) => finish_values(values, buffers, rows, capacity),
            None => Ok(Arc::new(NullArray::new(rows))), // every node of the tree has its buffers
        },
        Node::Row { name, fields, children } => {
            let nulls = columns.next().and_then(|buffers| pack_nulls(&buffers.validity.as_slice()[..rows]));
            let arrays = children
                .iter()
                .map(|child| finish_node(child, columns, rows, capacity))
                .collect::<Result<Vec<_>, _>>()?;
            StructArray::try_new_with_length(fields.clone(), arrays, nulls, rows)
                .map(|array| Arc::new(array) as ArrayRef)
                .map_err(|source| EntryError::Arrow { field: name.clone(), source })
        }
    }
}

fn finish_values(
    column: &Values,
    buffers: &mut ColumnBuffers,
    rows: usize,
    capacity: usize,
) -> Result<ArrayRef, EntryError> {
    let nulls = pack_nulls(&buffers.validity.as_slice()[..rows]);
    let refused = |source| EntryError::Arrow { field: column.name.clone(), source };
    match column.form {
        Form::Boolean => {
            let values = pack(&buffers.values.as_slice()[..rows]);
            Ok(Arc::new(BooleanArray::new(values, nulls)))
        }
        Form::Fixed(_) => {
            fixed(&column.arrow, buffers.take_values(column.form, rows, capacity).into(), nulls, rows).map_err(refused)
        }
        Form::NanoTimestamp => {
            let mut values = buffers.take_values(column.form, rows, capacity);
            for value in values.typed_data_mut::<i128>() {
                // two i64: the low half is written first
                *value = join_nanos(*value as i64, (*value >> 64) as i64);
            }
            fixed(&column.arrow, values.into(), nulls, rows).map_err(refused)
        }
        Form::Bytes => {
            let ends = ScalarBuffer::<i32>::from(Buffer::from(buffers.take_values(column.form, rows, capacity)));
            let last = ends.last().copied().unwrap_or_default();
            let ascending = ends.windows(2).fold(true, |ascending, ends| ascending & (ends[0] <= ends[1]));
            let bytes = usize::try_from(last).ok().filter(|bytes| ascending && *bytes <= buffers.data.len());
            let Some(bytes) = bytes else { return Err(EntryError::Offsets { field: column.name.clone() }) };
            variable(column, ends, buffers.take_data(bytes), nulls)
        }
    }
}

/// A column of text, of bytes, or of collections, out of offsets that ascend and end inside of `data`.
pub(super) fn variable(
    column: &Values,
    offsets: ScalarBuffer<i32>,
    data: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, EntryError> {
    let offsets = OffsetBuffer::new(offsets);
    if column.arrow == DataType::Utf8 {
        // validates the data in one pass, then that no offset cuts a character
        match StringArray::try_new(offsets, data, nulls) {
            Ok(array) => Ok(Arc::new(array)),
            Err(_) => Err(EntryError::NotUtf8 { field: column.name.clone() }),
        }
    } else {
        BinaryArray::try_new(offsets, data, nulls)
            .map(|array| Arc::new(array) as ArrayRef)
            .map_err(|source| EntryError::Arrow { field: column.name.clone(), source })
    }
}

/// A column of values as Arrow has them.
pub(super) fn fixed(
    arrow: &DataType,
    values: Buffer,
    nulls: Option<NullBuffer>,
    rows: usize,
) -> Result<ArrayRef, ArrowError> {
    let data = ArrayData::builder(arrow.clone()).len(rows).add_buffer(values).nulls(nulls).build()?;
    Ok(make_array(data))
}

/// Validity as Arrow has it; `None` if no row is NULL.
pub(super) fn pack_nulls(validity: &[u8]) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(pack(validity));
    (nulls.null_count() > 0).then_some(nulls)
}

/// One bit per byte: the lowest one.
pub(super) fn pack(bytes: &[u8]) -> BooleanBuffer {
    let mut bits = Vec::with_capacity(bytes.len().div_ceil(8));
    let (words, rest) = bytes.as_chunks::<8>();
    bits.extend(words.iter().map(pack_word));
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        bits.push(pack_word(&word));
    }
    BooleanBuffer::new(bits.into(), 0, bytes.len())
}

#[inline]
fn pack_word(bytes: &[u8; 8]) -> u8 {
    let ones = u64::from_le_bytes(*bytes) & 0x0101_0101_0101_0101;
    // the factor moves the bit of byte i to bit 56 + i, without carries
    (ones.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// Where a buffer starts. Making the address a number lets a writer outside of this program use it.
fn address(buffer: &mut [u8]) -> i64 {
    buffer.as_mut_ptr().expose_provenance() as i64
}
