//! Writes rows column by column into one arena.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, Time32MillisecondType, TimestampMillisecondType,
};
use streamfusion_plan::Reason;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::{KeyHashes, single};
use crate::hash::hash_bytes_by_words;
use crate::timestamp::split_nanos;
use crate::types::arrow_type;

/// Largest precision of a DECIMAL that lies in its slot.
pub(crate) const MAX_COMPACT_PRECISION: u8 = 18;
/// Largest precision of a timestamp that lies in its slot.
pub(crate) const MAX_MILLIS_PRECISION: u8 = 3;
/// Text and bytes of up to this length lie in their slot.
pub(super) const MAX_INLINE: usize = 7;

/// How values of a field lie in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// The value is the slot.
    Slot,
    /// Bytes, in the slot if they are few.
    Bytes,
    /// 16 bytes behind the slots, also for a NULL.
    WideDecimal,
    /// 8 bytes behind the slots, also for a NULL.
    NanoTimestamp,
}

impl Layout {
    /// What every row needs behind its slots for such a field.
    fn reserved(self) -> usize {
        match self {
            Self::Slot | Self::Bytes => 0,
            Self::WideDecimal => 16,
            Self::NanoTimestamp => 8,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct KeyField {
    pub(super) layout: Layout,
    pub(super) arrow: DataType,
}

/// Columns that are not the key columns the encoder was made for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The number of columns differs.
    #[error("{found} key columns where {expected} were expected")]
    Columns {
        /// Columns of the encoder.
        expected: usize,
        /// Columns given.
        found: usize,
    },
    /// A column is outside the batch, or has another type or length.
    #[error(
        "key column {column} has type {found} and {rows} rows where {expected} and {expected_rows} rows were expected"
    )]
    Column {
        /// Position in the key.
        column: usize,
        /// Arrow type of the encoder.
        expected: DataType,
        /// Arrow type given.
        found: DataType,
        /// Rows of the batch.
        expected_rows: usize,
        /// Rows given.
        rows: usize,
    },
    /// A key that Flink could not hold in an array either.
    #[error("the key of row {row} is too large")]
    TooLarge {
        /// The row.
        row: usize,
    },
    /// Bytes that this encoder did not write.
    #[error("field {column} of key {row} is no value of type {expected}")]
    Malformed {
        /// Position in the key.
        column: usize,
        /// Which of the keys.
        row: usize,
        /// Arrow type of the field.
        expected: DataType,
    },
}

/// Writes key columns as BinaryRows and hashes them.
#[derive(Debug, Clone)]
pub struct KeyEncoder {
    pub(super) fields: Vec<KeyField>,
    /// Whether a NULL of a field that has a part behind the slots reserves it.
    reserves_nulls: bool,
}

/// Encoded rows, one behind the other. Reused from batch to batch, so that nothing is allocated per row.
#[derive(Debug, Clone, Default)]
pub struct KeyRows {
    bytes: Vec<u8>,
    /// Start of each row in `bytes`, and its end: one more than there are rows.
    offsets: Vec<usize>,
    /// While rows are written: where the next part of each row goes, from the row's start.
    cursors: Vec<u32>,
}

impl KeyRows {
    /// No rows yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of row `row`, a multiple of 8. Panics if there is no such row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u8] {
        &self.bytes[self.offsets[row]..self.offsets[row + 1]]
    }

    /// All rows, one behind the other, and where each ends behind where the first starts.
    pub(crate) fn parts(&self) -> (&[u8], &[usize]) {
        (&self.bytes, &self.offsets)
    }

    /// Writes the kind of each row into it.
    pub(crate) fn set_kinds(&mut self, kinds: impl Iterator<Item = u8>) {
        for (start, kind) in self.offsets.iter().zip(kinds) {
            if let Some(byte) = self.bytes.get_mut(*start) {
                *byte = kind;
            }
        }
    }

    /// Bytes that are allocated.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.offsets.windows(2).map(|ends| &self.bytes[ends[0]..ends[1]])
    }
}

impl KeyEncoder {
    /// An encoder for key columns of these types, in the order of the key; none is the key of a global aggregate. ROW and
    /// collections are a reason.
    pub fn try_new(types: &[LogicalType]) -> Result<Self, Reason> {
        let fields = types
            .iter()
            .map(|ty| {
                let layout = match &ty.kind {
                    TypeKind::Boolean
                    | TypeKind::TinyInt
                    | TypeKind::SmallInt
                    | TypeKind::Integer
                    | TypeKind::BigInt
                    | TypeKind::Float
                    | TypeKind::Double
                    | TypeKind::Date
                    | TypeKind::Time(_)
                    | TypeKind::IntervalYearMonth
                    | TypeKind::IntervalDayTime => Layout::Slot,
                    TypeKind::Decimal { precision, .. } if *precision <= MAX_COMPACT_PRECISION => Layout::Slot,
                    TypeKind::Decimal { .. } => Layout::WideDecimal,
                    TypeKind::Timestamp { precision, .. } | TypeKind::TimestampLtz { precision, .. } => {
                        if *precision <= MAX_MILLIS_PRECISION { Layout::Slot } else { Layout::NanoTimestamp }
                    }
                    TypeKind::Char(_) | TypeKind::VarChar(_) | TypeKind::Binary(_) | TypeKind::VarBinary(_) => {
                        Layout::Bytes
                    }
                    TypeKind::Row(_) => return Err(Reason::new("keys of type ROW are not supported natively")),
                    TypeKind::Array(_) => return Err(Reason::new("keys of type ARRAY are not supported natively")),
                    TypeKind::Map(..) => return Err(Reason::new("keys of type MAP are not supported natively")),
                    TypeKind::Multiset(_) => {
                        return Err(Reason::new("keys of type MULTISET are not supported natively"));
                    }
                    TypeKind::Null => return Err(Reason::new("keys of type NULL are not supported natively")),
                    TypeKind::View => return Err(Reason::new("accumulators cannot be keys")),
                    TypeKind::Other(text) => {
                        return Err(Reason::new(format!("keys of type {text} are not supported natively")));
                    }
                };
                Ok(KeyField { layout, arrow: arrow_type(ty)? })
            })
            .collect::<Result<_, Reason>>()?;
        Ok(Self { fields, reserves_nulls: true })
    }

    /// The same in the form of Flink's row serializer instead of its projections: a NULL has slot 0 and reserves nothing.
    pub(crate) fn like_serializer(types: &[LogicalType]) -> Result<Self, Reason> {
        Ok(Self { reserves_nulls: false, ..Self::try_new(types)? })
    }

    /// Replaces the rows of `rows` by the keys of `num_rows` rows. `columns` are the key columns alone, in the order of
    /// the key. Errors if they are not those of the encoder.
    pub fn encode(&self, columns: &[ArrayRef], num_rows: usize, rows: &mut KeyRows) -> Result<(), KeyError> {
        self.check(columns, num_rows)?;
        let null_bytes = null_word_bytes(self.fields.len());
        let fixed = null_bytes + 8 * self.fields.len();
        self.measure(columns, num_rows, fixed, rows)?;
        let reserves_nulls = self.reserves_nulls;
        let mut writer =
            RowWriter { bytes: &mut rows.bytes, offsets: &rows.offsets, null_bytes, field: 0, reserves_nulls };
        for (field, (key, column)) in self.fields.iter().zip(columns).enumerate() {
            writer.field = field;
            match key.layout {
                Layout::Slot => for_each_slot(column, |row, slot| match slot {
                    Some(slot) => writer.slot(row, slot),
                    None => writer.null(row),
                }),
                Layout::Bytes => write_bytes(&mut writer, column, &mut rows.cursors),
                Layout::WideDecimal => write_wide_decimals(&mut writer, column, &mut rows.cursors),
                Layout::NanoTimestamp => write_nano_timestamps(&mut writer, column, &mut rows.cursors),
            }
        }
        Ok(())
    }

    /// The hash of each row's key. `scratch` is only used, and overwritten, where the key is not one column whose hash
    /// comes straight from its values.
    pub fn hashes(&self, columns: &[ArrayRef], num_rows: usize, scratch: &mut KeyRows) -> Result<KeyHashes, KeyError> {
        let mut hashes = Vec::new();
        self.hash_into(columns, num_rows, scratch, &mut hashes)?;
        Ok(KeyHashes { hashes })
    }

    /// Like [`KeyEncoder::hashes`], into a vector that is overwritten.
    pub fn hash_into(
        &self,
        columns: &[ArrayRef],
        num_rows: usize,
        scratch: &mut KeyRows,
        hashes: &mut Vec<i32>,
    ) -> Result<(), KeyError> {
        hashes.clear();
        match (self.fields.as_slice(), columns) {
            ([key], [column]) if matches!(key.layout, Layout::Slot | Layout::Bytes) => {
                self.check(columns, num_rows)?;
                hashes.resize(num_rows, 0);
                single::hash_column(key.layout, column, hashes);
            }
            _ => {
                self.encode(columns, num_rows, scratch)?;
                hashes.extend(scratch.iter().map(hash_bytes_by_words));
            }
        }
        Ok(())
    }

    fn check(&self, columns: &[ArrayRef], num_rows: usize) -> Result<(), KeyError> {
        if columns.len() != self.fields.len() {
            return Err(KeyError::Columns { expected: self.fields.len(), found: columns.len() });
        }
        for (column, (key, array)) in self.fields.iter().zip(columns).enumerate() {
            if array.data_type() != &key.arrow || array.len() != num_rows {
                return Err(KeyError::Column {
                    column,
                    expected: key.arrow.clone(),
                    found: array.data_type().clone(),
                    expected_rows: num_rows,
                    rows: array.len(),
                });
            }
        }
        Ok(())
    }

    /// Lays out zeroed rows: sets offsets, cursors and the size of the arena.
    fn measure(&self, columns: &[ArrayRef], num_rows: usize, fixed: usize, rows: &mut KeyRows) -> Result<(), KeyError> {
        let smallest = fixed + self.fields.iter().map(|f| f.layout.reserved()).sum::<usize>();
        rows.offsets.clear();
        rows.offsets.resize(num_rows + 1, smallest);
        if let Some(first) = rows.offsets.first_mut() {
            *first = 0;
        }
        if !self.reserves_nulls {
            for (field, column) in self.fields.iter().zip(columns) {
                let unused = field.layout.reserved();
                if let Some(nulls) = column.nulls().filter(|_| unused > 0) {
                    let sizes = rows.offsets.iter_mut().skip(1);
                    sizes.zip(nulls).filter(|(_, valid)| !valid).for_each(|(size, _)| *size -= unused);
                }
            }
        }
        for (_, column) in self.fields.iter().zip(columns).filter(|(f, _)| f.layout == Layout::Bytes) {
            let (offsets, _) = byte_parts(column);
            let nulls = column.nulls();
            for (row, (size, ends)) in rows.offsets.iter_mut().skip(1).zip(offsets.windows(2)).enumerate() {
                let len = length(ends);
                if len > MAX_INLINE && !is_null(nulls, row) {
                    *size += len.next_multiple_of(8);
                    if i32::try_from(*size).is_err() {
                        return Err(KeyError::TooLarge { row });
                    }
                }
            }
        }
        let mut end = 0;
        for offset in &mut rows.offsets {
            end += *offset;
            *offset = end;
        }
        rows.bytes.clear();
        rows.bytes.resize(end, 0);
        rows.cursors.clear();
        if self.fields.iter().any(|f| f.layout != Layout::Slot) {
            // a row is not larger than an i32 by the check above
            rows.cursors.resize(num_rows, fixed as u32);
        }
        Ok(())
    }
}

/// Size of row kind and null bits.
pub(crate) const fn null_word_bytes(fields: usize) -> usize {
    (fields + 63 + 8) / 64 * 8
}

/// Writes the values of one field at a time into zeroed rows.
struct RowWriter<'a> {
    bytes: &'a mut [u8],
    offsets: &'a [usize],
    null_bytes: usize,
    field: usize,
    reserves_nulls: bool,
}

impl RowWriter<'_> {
    #[inline]
    fn slot(&mut self, row: usize, slot: u64) {
        self.part(row, self.null_bytes + 8 * self.field, &slot.to_le_bytes());
    }

    #[inline]
    fn null(&mut self, row: usize) {
        let bit = self.field + 8;
        self.bytes[self.offsets[row] + bit / 8] |= 1 << (bit % 8);
    }

    /// A NULL of a field that has a part of `reserved` bytes.
    #[inline]
    fn null_part(&mut self, row: usize, cursor: &mut u32, reserved: u32) {
        self.null(row);
        if self.reserves_nulls {
            self.slot(row, offset_slot(*cursor, 0));
            *cursor += reserved;
        }
    }

    /// Bytes at an offset from the row's start.
    #[inline]
    fn part(&mut self, row: usize, offset: usize, bytes: &[u8]) {
        let start = self.offsets[row] + offset;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }
}

fn write_bytes(writer: &mut RowWriter<'_>, column: &ArrayRef, cursors: &mut [u32]) {
    let (offsets, data) = byte_parts(column);
    let nulls = column.nulls();
    for (row, (ends, cursor)) in offsets.windows(2).zip(cursors).enumerate() {
        if is_null(nulls, row) {
            writer.null(row);
            continue;
        }
        let (start, len) = (index(ends[0]), length(ends));
        if len <= MAX_INLINE {
            writer.slot(row, inline_slot(data, start, len));
        } else {
            writer.slot(row, offset_slot(*cursor, len as u32)); // an Arrow length is an i32
            writer.part(row, *cursor as usize, &data[start..start + len]);
            *cursor += len.next_multiple_of(8) as u32;
        }
    }
}

fn write_wide_decimals(writer: &mut RowWriter<'_>, column: &ArrayRef, cursors: &mut [u32]) {
    let array = column.as_primitive::<Decimal128Type>();
    for (row, (value, cursor)) in array.values().iter().zip(cursors).enumerate() {
        if array.is_null(row) {
            writer.null_part(row, cursor, 16);
        } else {
            let magnitude = if *value < 0 { !*value } else { *value };
            let len = (128 - magnitude.leading_zeros()) / 8 + 1;
            writer.slot(row, offset_slot(*cursor, len));
            writer.part(row, *cursor as usize, &(*value << (128 - 8 * len)).to_be_bytes());
            *cursor += 16;
        }
    }
}

fn write_nano_timestamps(writer: &mut RowWriter<'_>, column: &ArrayRef, cursors: &mut [u32]) {
    let array = column.as_primitive::<Decimal128Type>();
    for (row, (value, cursor)) in array.values().iter().zip(cursors).enumerate() {
        if array.is_null(row) {
            writer.null_part(row, cursor, 8);
        } else {
            let (millis, nanos) = split_nanos(*value);
            writer.slot(row, offset_slot(*cursor, nanos));
            writer.part(row, *cursor as usize, &millis.to_le_bytes());
            *cursor += 8;
        }
    }
}

#[inline]
pub(super) fn offset_slot(offset: u32, low: u32) -> u64 {
    u64::from(offset) << 32 | u64::from(low)
}

/// The slot of `len` bytes, at most [`MAX_INLINE`], at `start` of `data`.
#[inline]
pub(super) fn inline_slot(data: &[u8], start: usize, len: usize) -> u64 {
    let mark = (0x80 | len as u64) << 56;
    // one load where 8 bytes are left, which is nearly always
    if let Some(word) = data.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
        return u64::from_le_bytes(*word) & ((1 << (8 * len)) - 1) | mark;
    }
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(&data[start..start + len]) {
        *to = *from;
    }
    u64::from_le_bytes(word) | mark
}

/// Offsets and data of a Utf8 or Binary column. The offsets need not start at 0.
pub(super) fn byte_parts(column: &ArrayRef) -> (&[i32], &[u8]) {
    match column.data_type() {
        DataType::Utf8 => {
            let array = column.as_string::<i32>();
            (array.value_offsets(), array.value_data())
        }
        _ => {
            let array = column.as_binary::<i32>();
            (array.value_offsets(), array.value_data())
        }
    }
}

#[inline]
pub(super) fn is_null(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_some_and(|nulls| nulls.is_null(row))
}

/// An Arrow offset, which is never negative.
#[inline]
pub(super) fn index(offset: i32) -> usize {
    offset as usize
}

#[inline]
pub(super) fn length(ends: &[i32]) -> usize {
    index(ends[1] - ends[0])
}

/// Calls `f` with the slot of each row of a column of [`Layout::Slot`], `None` for a NULL. The match is outside of the loop.
#[inline]
pub(super) fn for_each_slot(column: &ArrayRef, f: impl FnMut(usize, Option<u64>)) {
    match column.data_type() {
        DataType::Boolean => for_each_boolean(column.as_boolean(), f),
        DataType::Int8 => for_each_value::<Int8Type>(column, |v| u64::from(v.cast_unsigned()), f),
        DataType::Int16 => for_each_value::<Int16Type>(column, |v| u64::from(v.cast_unsigned()), f),
        DataType::Int32 => for_each_value::<Int32Type>(column, |v| u64::from(v.cast_unsigned()), f),
        DataType::Int64 => for_each_value::<Int64Type>(column, i64::cast_unsigned, f),
        DataType::Float32 => for_each_value::<Float32Type>(column, |v| u64::from(v.to_bits()), f),
        DataType::Float64 => for_each_value::<Float64Type>(column, f64::to_bits, f),
        DataType::Date32 => for_each_value::<Date32Type>(column, |v| u64::from(v.cast_unsigned()), f),
        DataType::Time32(_) => for_each_value::<Time32MillisecondType>(column, |v| u64::from(v.cast_unsigned()), f),
        DataType::Timestamp(..) => for_each_value::<TimestampMillisecondType>(column, i64::cast_unsigned, f),
        // DECIMAL(p <= 18): the unscaled value fits into an i64
        _ => for_each_value::<Decimal128Type>(column, |v| v as u64, f),
    }
}

#[inline]
fn for_each_value<T: ArrowPrimitiveType>(
    column: &ArrayRef,
    slot: impl Fn(T::Native) -> u64,
    mut f: impl FnMut(usize, Option<u64>),
) {
    let array: &PrimitiveArray<T> = column.as_primitive();
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => array.values().iter().enumerate().for_each(|(row, value)| f(row, Some(slot(*value)))),
        Some(nulls) => {
            for (row, (value, valid)) in array.values().iter().zip(nulls.iter()).enumerate() {
                f(row, valid.then(|| slot(*value)));
            }
        }
    }
}

fn for_each_boolean(array: &BooleanArray, mut f: impl FnMut(usize, Option<u64>)) {
    for (row, value) in array.iter().enumerate() {
        f(row, value.map(u64::from));
    }
}
