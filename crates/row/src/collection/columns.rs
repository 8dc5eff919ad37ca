//! Elements as a column.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, TimestampMillisecondType,
};
use streamfusion_plan::Reason;
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::{Cell, CollectionError};
use crate::binary::decoder::{nano_timestamp, wide_decimal};
use crate::binary::{MAX_COMPACT_PRECISION, MAX_MILLIS_PRECISION, null_word_bytes};
use crate::types::arrow_type;

/// The type of an element, compiled.
#[derive(Debug, Clone)]
pub struct ElementType {
    arrow: DataType,
    layout: Layout,
}

#[derive(Debug, Clone)]
enum Layout {
    Boolean,
    /// So many bytes, in the form of the Arrow type.
    Fixed(usize),
    /// The unscaled value in 8 bytes.
    CompactDecimal,
    WideDecimal,
    NanoTimestamp,
    Text,
    Bytes,
    /// A part that is carried as it is.
    Collection,
    Row(Fields, Vec<ElementType>),
}

impl ElementType {
    /// Elements of type `ty`. A type that batches cannot carry is a reason.
    pub fn try_new(ty: &LogicalType) -> Result<Self, Reason> {
        let arrow = arrow_type(ty)?;
        let layout = match (&ty.kind, &arrow) {
            (TypeKind::Row(fields), DataType::Struct(names)) => {
                let children = fields.iter().map(|field| Self::try_new(&field.ty)).collect::<Result<_, _>>()?;
                Layout::Row(names.clone(), children)
            }
            (TypeKind::Array(_) | TypeKind::Map(..) | TypeKind::Multiset(_), _) => Layout::Collection,
            (TypeKind::Decimal { precision, .. }, _) if *precision <= MAX_COMPACT_PRECISION => Layout::CompactDecimal,
            (TypeKind::Decimal { .. }, _) => Layout::WideDecimal,
            (TypeKind::Timestamp { precision, .. } | TypeKind::TimestampLtz { precision, .. }, _)
                if *precision > MAX_MILLIS_PRECISION =>
            {
                Layout::NanoTimestamp
            }
            (_, DataType::Boolean) => Layout::Boolean,
            (_, DataType::Utf8) => Layout::Text,
            (_, DataType::Binary) => Layout::Bytes,
            (_, arrow) => match arrow.primitive_width() {
                Some(width) => Layout::Fixed(width),
                None => return Err(Reason::new("elements of this type are not supported natively")),
            },
        };
        Ok(Self { arrow, layout })
    }

    /// The Arrow type of [`ElementType::column`].
    pub fn arrow(&self) -> &DataType {
        &self.arrow
    }

    /// Bytes of a slot in an array.
    pub fn width(&self) -> usize {
        match self.layout {
            Layout::Boolean => 1,
            Layout::Fixed(width) => width,
            _ => 8,
        }
    }

    /// The values in these slots, `None` for a NULL: one row each. Errors if one of them is none of this type.
    pub fn column(&self, cells: &[Option<Cell<'_>>]) -> Result<ArrayRef, CollectionError> {
        match (&self.layout, &self.arrow) {
            (Layout::Boolean, _) => {
                let mut builder = BooleanBuilder::with_capacity(cells.len());
                each(cells, |cell| {
                    builder.append_option(match cell {
                        None => None,
                        Some(cell) => Some(cell.fixed::<1>()? != [0]),
                    });
                    Some(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            (Layout::Text, _) => {
                let mut builder = StringBuilder::with_capacity(cells.len(), 8 * cells.len());
                each(cells, |cell| {
                    builder.append_option(match cell {
                        None => None,
                        Some(cell) => Some(std::str::from_utf8(cell.bytes().ok()?).ok()?),
                    });
                    Some(())
                })?;
                Ok(Arc::new(builder.finish()))
            }
            (Layout::Bytes, _) => self.binary(cells, |cell| cell.bytes().ok()),
            (Layout::Collection, _) => self.binary(cells, |cell| cell.nested()),
            (Layout::WideDecimal, _) => self.primitive::<Decimal128Type>(cells, |cell| wide_decimal(cell.slot()?)),
            (Layout::NanoTimestamp, _) => self.primitive::<Decimal128Type>(cells, |cell| nano_timestamp(cell.slot()?)),
            (Layout::CompactDecimal, _) => {
                self.primitive::<Decimal128Type>(cells, |cell| Some(i64::from_le_bytes(cell.fixed()?).into()))
            }
            (Layout::Row(names, children), _) => row(cells, names, children),
            (Layout::Fixed(_), DataType::Int8) => {
                self.primitive::<Int8Type>(cells, |cell| Some(i8::from_le_bytes(cell.fixed()?)))
            }
            (Layout::Fixed(_), DataType::Int16) => {
                self.primitive::<Int16Type>(cells, |cell| Some(i16::from_le_bytes(cell.fixed()?)))
            }
            (Layout::Fixed(_), DataType::Int32) => {
                self.primitive::<Int32Type>(cells, |cell| Some(i32::from_le_bytes(cell.fixed()?)))
            }
            (Layout::Fixed(_), DataType::Date32) => {
                self.primitive::<Date32Type>(cells, |cell| Some(i32::from_le_bytes(cell.fixed()?)))
            }
            (Layout::Fixed(_), DataType::Time32(_)) => {
                self.primitive::<Time32MillisecondType>(cells, |cell| Some(i32::from_le_bytes(cell.fixed()?)))
            }
            (Layout::Fixed(_), DataType::Float32) => {
                self.primitive::<Float32Type>(cells, |cell| Some(f32::from_le_bytes(cell.fixed()?)))
            }
            (Layout::Fixed(_), DataType::Float64) => {
                self.primitive::<Float64Type>(cells, |cell| Some(f64::from_le_bytes(cell.fixed()?)))
            }
            (Layout::Fixed(_), DataType::Timestamp(..)) => {
                self.primitive::<TimestampMillisecondType>(cells, |cell| Some(i64::from_le_bytes(cell.fixed()?)))
            }
            (Layout::Fixed(_), _) => self.primitive::<Int64Type>(cells, |cell| Some(i64::from_le_bytes(cell.fixed()?))),
        }
    }

    #[inline]
    fn primitive<T: ArrowPrimitiveType>(
        &self,
        cells: &[Option<Cell<'_>>],
        value: impl Fn(&Cell<'_>) -> Option<T::Native>,
    ) -> Result<ArrayRef, CollectionError> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(cells.len()).with_data_type(self.arrow.clone());
        each(cells, |cell| {
            builder.append_option(match cell {
                None => None,
                Some(cell) => Some(value(cell)?),
            });
            Some(())
        })?;
        Ok(Arc::new(builder.finish()))
    }

    fn binary<'a>(
        &self,
        cells: &[Option<Cell<'a>>],
        value: impl Fn(&Cell<'a>) -> Option<&'a [u8]>,
    ) -> Result<ArrayRef, CollectionError> {
        let mut builder = BinaryBuilder::with_capacity(cells.len(), 8 * cells.len());
        each(cells, |cell| {
            builder.append_option(match cell {
                None => None,
                Some(cell) => Some(value(cell)?),
            });
            Some(())
        })?;
        Ok(Arc::new(builder.finish()))
    }
}

/// Calls `f` with each slot; where it says `None`, the value is malformed.
#[inline]
fn each<'c, 'a>(
    cells: &'c [Option<Cell<'a>>],
    mut f: impl FnMut(Option<&'c Cell<'a>>) -> Option<()>,
) -> Result<(), CollectionError> {
    cells.iter().try_for_each(|cell| f(cell.as_ref()).ok_or(CollectionError::Element))
}

/// ROWs, whose fields are columns of their own: NULL where the row is.
fn row(cells: &[Option<Cell<'_>>], names: &Fields, children: &[ElementType]) -> Result<ArrayRef, CollectionError> {
    let fields = fields_of(cells, children.len());
    let columns = children.iter().zip(fields?).map(|(child, cells)| child.column(&cells)).collect::<Result<_, _>>()?;
    let nulls: NullBuffer = cells.iter().map(Option::is_some).collect();
    let nulls = (nulls.null_count() > 0).then_some(nulls);
    let rows = StructArray::try_new_with_length(names.clone(), columns, nulls, cells.len());
    Ok(Arc::new(rows.map_err(|_| CollectionError::Element)?))
}

/// The slots of the fields of the rows in these slots, field by field.
fn fields_of<'a>(cells: &[Option<Cell<'a>>], arity: usize) -> Result<Vec<Vec<Option<Cell<'a>>>>, CollectionError> {
    let slots = null_word_bytes(arity);
    let mut fields: Vec<_> = (0..arity).map(|_| Vec::with_capacity(cells.len())).collect();
    for cell in cells {
        let row = match cell {
            None => None,
            Some(cell) => Some(cell.nested().ok_or(CollectionError::Element)?),
        };
        for (field, into) in fields.iter_mut().enumerate() {
            into.push(match row {
                None => None,
                Some(row) => {
                    let bit = field + 8;
                    let null = row.get(bit / 8).ok_or(CollectionError::Element)? >> (bit % 8) & 1 == 1;
                    (!null).then_some(Cell { container: row, at: slots + 8 * field })
                }
            });
        }
    }
    Ok(fields)
}
