//! Schemas of sections, out of messages that may be damaged.
//!
//! Arrow's own conversion panics where a type has parameters that do not exist; this one knows the types that sections have,
//! and refuses every other.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow_ipc as ipc;

/// Whether sections have columns of this type: Null, Boolean, integers, Float32, Float64, Decimal128, Utf8, Binary,
/// FixedSizeBinary, Date32, Time32 and Timestamp of milliseconds without a zone, List and Struct.
pub fn supported(ty: &DataType) -> bool {
    match ty {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Binary
        | DataType::Date32
        | DataType::Time32(TimeUnit::Millisecond)
        | DataType::Timestamp(TimeUnit::Millisecond, None) => true,
        DataType::Decimal128(precision, scale) => {
            (1..=38).contains(precision) && u8::try_from(*scale).is_ok_and(|scale| scale <= *precision)
        }
        DataType::FixedSizeBinary(width) => *width > 0,
        DataType::List(child) => supported(child.data_type()),
        DataType::Struct(children) => children.iter().all(|child| supported(child.data_type())),
        _ => false,
    }
}

/// The schema of a verified schema message. What is wrong otherwise.
pub(super) fn read(schema: ipc::Schema<'_>) -> Result<SchemaRef, &'static str> {
    if schema.endianness() != ipc::Endianness::Little {
        return Err("its columns are not little-endian");
    }
    let fields = schema.fields().ok_or("a schema without columns")?;
    let fields = fields.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let metadata = schema.custom_metadata().map(|pairs| metadata(pairs.iter())).unwrap_or_default();
    Ok(Arc::new(Schema::new_with_metadata(fields, metadata)))
}

fn field(field: ipc::Field<'_>) -> Result<Field, &'static str> {
    if field.dictionary().is_some() {
        return Err("a column with a dictionary");
    }
    let children = field.children().map(|children| children.iter().map(self::field).collect::<Result<Vec<_>, _>>());
    let ty = data_type(field, children.transpose()?.unwrap_or_default()).filter(supported);
    let ty = ty.ok_or("a column of a type that sections do not have")?;
    let metadata = field.custom_metadata().map(|pairs| metadata(pairs.iter())).unwrap_or_default();
    Ok(Field::new(field.name().unwrap_or_default(), ty, field.nullable()).with_metadata(metadata))
}

fn metadata<'a>(pairs: impl Iterator<Item = ipc::KeyValue<'a>>) -> HashMap<String, String> {
    pairs.filter_map(|pair| Some((pair.key()?.to_owned(), pair.value()?.to_owned()))).collect()
}

fn data_type(field: ipc::Field<'_>, children: Vec<Field>) -> Option<DataType> {
    let ty = field.type_type();
    match ty {
        ipc::Type::Struct_ => return Some(DataType::Struct(children.into())),
        ipc::Type::List => {
            let [child]: [Field; 1] = children.try_into().ok()?;
            return Some(DataType::List(Arc::new(child)));
        }
        _ if !children.is_empty() => return None,
        _ => {}
    }
    Some(match ty {
        ipc::Type::Null => DataType::Null,
        ipc::Type::Bool => DataType::Boolean,
        ipc::Type::Int => {
            let int = field.type_as_int()?;
            match (int.bitWidth(), int.is_signed()) {
                (8, true) => DataType::Int8,
                (16, true) => DataType::Int16,
                (32, true) => DataType::Int32,
                (64, true) => DataType::Int64,
                (8, false) => DataType::UInt8,
                (16, false) => DataType::UInt16,
                (32, false) => DataType::UInt32,
                (64, false) => DataType::UInt64,
                _ => return None,
            }
        }
        ipc::Type::FloatingPoint => match field.type_as_floating_point()?.precision() {
            ipc::Precision::SINGLE => DataType::Float32,
            ipc::Precision::DOUBLE => DataType::Float64,
            _ => return None,
        },
        ipc::Type::Decimal => {
            let decimal = field.type_as_decimal()?;
            if decimal.bitWidth() != 128 {
                return None;
            }
            DataType::Decimal128(decimal.precision().try_into().ok()?, decimal.scale().try_into().ok()?)
        }
        ipc::Type::Utf8 => DataType::Utf8,
        ipc::Type::Binary => DataType::Binary,
        ipc::Type::FixedSizeBinary => DataType::FixedSizeBinary(field.type_as_fixed_size_binary()?.byteWidth()),
        ipc::Type::Date if field.type_as_date()?.unit() == ipc::DateUnit::DAY => DataType::Date32,
        ipc::Type::Time => {
            let time = field.type_as_time()?;
            if (time.bitWidth(), time.unit()) != (32, ipc::TimeUnit::MILLISECOND) {
                return None;
            }
            DataType::Time32(TimeUnit::Millisecond)
        }
        ipc::Type::Timestamp => {
            let timestamp = field.type_as_timestamp()?;
            if timestamp.unit() != ipc::TimeUnit::MILLISECOND || timestamp.timezone().is_some() {
                return None;
            }
            DataType::Timestamp(TimeUnit::Millisecond, None)
        }
        _ => return None,
    })
}
