//! How a row is packed.
//!
//! ```text
//! validity bits | fixed part | text
//!
//! validity   one bit per field, nested fields and ROWs themselves included, in the order of the type; 1 = not NULL
//! fixed part per field its value, little-endian, BOOLEAN one byte; of text and binary values where they end in `text`
//!            (u32, they begin where the one before ends); a ROW has none of its own, only those of its fields
//! text       text and binary values, one behind the other
//! ```
//!
//! The value of a NULL is zero or empty, and so are the fields of a ROW that is NULL: one row has one form. The layout stays
//! in memory; in a snapshot rows are Arrow columns.

use arrow::datatypes::{DataType, Fields, TimeUnit};

use crate::StateError;

/// Bytes of the end of a text.
pub(super) const END_BYTES: usize = size_of::<u32>();

/// The places of the fields of rows of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLayout {
    pub(super) fields: Vec<Place>,
    /// Bytes of the validity bits.
    pub(super) validity: usize,
    /// Bytes in front of the text.
    pub(super) fixed: usize,
    /// Where the end of the last text lies, if there is any.
    last_end: Option<usize>,
}

/// Where a field lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) ty: DataType,
    /// Number of its validity bit.
    pub(super) bit: usize,
    pub(super) value: ValuePlace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ValuePlace {
    /// One byte.
    Boolean { offset: usize },
    /// So many bytes: 1, 2, 4, 8 or 16.
    Fixed { offset: usize, width: usize },
    /// Where the end of the text or binary value lies, and that of the one before.
    Text { offset: usize, before: Option<usize> },
    /// The fields of a ROW.
    Row { fields: Fields, children: Vec<Place> },
}

impl RowLayout {
    /// The layout of rows with columns of these types. Errors for a type that batches do not carry.
    pub fn try_new(types: &[DataType]) -> Result<Self, StateError> {
        let mut bits = 0;
        types.iter().for_each(|ty| count(ty, &mut bits));
        let validity = bits.div_ceil(8);
        let mut builder = Builder { bit: 0, offset: validity, last_end: None };
        let fields = types.iter().map(|ty| builder.place(ty)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { fields, validity, fixed: builder.offset, last_end: builder.last_end })
    }

    /// The types of the columns.
    pub fn types(&self) -> impl Iterator<Item = &DataType> {
        self.fields.iter().map(|place| &place.ty)
    }

    /// The text whose end lies at `end`, behind the one whose end lies at `before`.
    fn text<'a>(&self, row: &'a [u8], end: usize, before: Option<usize>) -> Option<&'a [u8]> {
        let start = before.and_then(|at| end_at(row, at)).unwrap_or_default();
        row.get(self.fixed + start..self.fixed + end_at(row, end)?)
    }

    /// Whether a packed row has in its fields `columns` what `other`, a packed row of the layout `layout` of those columns, has.
    pub(super) fn same_fields(&self, row: &[u8], columns: &[usize], layout: &Self, other: &[u8]) -> bool {
        columns.iter().zip(&layout.fields).all(|(column, place)| {
            self.fields.get(*column).is_some_and(|own| same_field((self, own, row), (layout, place, other)))
        })
    }

    /// Bytes that a row has at least.
    pub(crate) fn fixed_bytes(&self) -> usize {
        self.fixed
    }

    /// Whether these bytes can be read as a row: texts end one behind the other, the last one where the row ends.
    pub(crate) fn is_row(&self, row: &[u8]) -> bool {
        let mut end = 0;
        row.len() >= self.fixed
            && self.fields.iter().all(|place| texts_ascend(place, row, &mut end))
            && row.len() - self.fixed == end
    }

    /// Bytes of the row that begins in front of `bytes`, and nothing if it does not.
    pub(crate) fn row_bytes(&self, bytes: &[u8]) -> usize {
        self.fixed + self.last_end.and_then(|at| end_at(bytes, at)).unwrap_or_default()
    }
}

/// The end of a text.
#[inline]
pub(super) fn end_at(row: &[u8], at: usize) -> Option<usize> {
    let end = row.get(at..at + END_BYTES)?.first_chunk::<END_BYTES>()?;
    // usize has at least 32 bits where this runs
    Some(u32::from_le_bytes(*end) as usize)
}

/// Whether a field of one packed row equals a field of the same type of another one.
fn same_field(a: (&RowLayout, &Place, &[u8]), b: (&RowLayout, &Place, &[u8])) -> bool {
    let ((a_layout, a_place, a), (b_layout, b_place, b)) = (a, b);
    let valid = |row: &[u8], bit: usize| row.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0);
    if valid(a, a_place.bit) != valid(b, b_place.bit) {
        return false;
    }
    match (&a_place.value, &b_place.value) {
        (ValuePlace::Boolean { offset: at }, ValuePlace::Boolean { offset }) => a.get(*at) == b.get(*offset),
        (ValuePlace::Fixed { offset: at, width }, ValuePlace::Fixed { offset, .. }) => {
            a.get(*at..at + width) == b.get(*offset..offset + width)
        }
        (ValuePlace::Text { offset: at, before: a_before }, ValuePlace::Text { offset, before }) => {
            a_layout.text(a, *at, *a_before) == b_layout.text(b, *offset, *before)
        }
        (ValuePlace::Row { children: a_fields, .. }, ValuePlace::Row { children, .. }) => {
            let mut fields = a_fields.iter().zip(children);
            fields.all(|(a_field, field)| same_field((a_layout, a_field, a), (b_layout, field, b)))
        }
        _ => false,
    }
}

/// Whether texts of a field end behind `end`, which moves to the end of the last one.
fn texts_ascend(place: &Place, row: &[u8], end: &mut usize) -> bool {
    match &place.value {
        ValuePlace::Text { offset, .. } => match end_at(row, *offset) {
            Some(found) if found >= *end => {
                *end = found;
                true
            }
            _ => false,
        },
        ValuePlace::Row { children, .. } => children.iter().all(|child| texts_ascend(child, row, end)),
        ValuePlace::Boolean { .. } | ValuePlace::Fixed { .. } => true,
    }
}

fn count(ty: &DataType, bits: &mut usize) {
    *bits += 1;
    if let DataType::Struct(fields) = ty {
        fields.iter().for_each(|field| count(field.data_type(), bits));
    }
}

struct Builder {
    bit: usize,
    offset: usize,
    last_end: Option<usize>,
}

impl Builder {
    fn place(&mut self, ty: &DataType) -> Result<Place, StateError> {
        let bit = self.bit;
        self.bit += 1;
        let value = match ty {
            DataType::Boolean => ValuePlace::Boolean { offset: self.take(1) },
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Time32(TimeUnit::Millisecond)
            | DataType::Timestamp(TimeUnit::Millisecond, None)
            | DataType::Decimal128(..) => {
                let width = ty.primitive_width().ok_or(StateError::RowColumns)?;
                ValuePlace::Fixed { offset: self.take(width), width }
            }
            DataType::Utf8 | DataType::Binary => {
                let offset = self.take(END_BYTES);
                ValuePlace::Text { offset, before: self.last_end.replace(offset) }
            }
            DataType::Struct(fields) => {
                let children = fields.iter().map(|field| self.place(field.data_type())).collect::<Result<_, _>>()?;
                ValuePlace::Row { fields: fields.clone(), children }
            }
            _ => return Err(StateError::RowColumns),
        };
        Ok(Place { ty: ty.clone(), bit, value })
    }

    fn take(&mut self, bytes: usize) -> usize {
        let offset = self.offset;
        self.offset += bytes;
        offset
    }
}
