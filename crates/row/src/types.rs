//! The Arrow type in which values of a Flink type lie in a batch.
//!
//! | Flink | Arrow | unit |
//! | --- | --- | --- |
//! | BOOLEAN | Boolean | |
//! | TINYINT, SMALLINT, INT, BIGINT | Int8, Int16, Int32, Int64 | |
//! | FLOAT, DOUBLE | Float32, Float64 | |
//! | DECIMAL(p, s) | Decimal128(p, s) | |
//! | CHAR, VARCHAR | Utf8 | |
//! | BINARY, VARBINARY | Binary | |
//! | DATE | Date32 | days |
//! | TIME(p) | Time32(Millisecond) | ms of the day |
//! | TIMESTAMP(p), TIMESTAMP_LTZ(p), p <= 3 | Timestamp(Millisecond, None) | ms since the epoch |
//! | the same, p > 3 | Decimal128(38, 9) | ns since the epoch: millis * 1,000,000 + nanos of the millisecond |
//! | INTERVAL YEAR TO MONTH | Int32 | months |
//! | INTERVAL DAY TO SECOND | Int64 | ms |
//! | ROW | Struct | |
//! | ARRAY, MAP, MULTISET | Binary | Flink's BinaryArrayData or BinaryMapData: see [`crate::collection`] |
//! | accumulators that hold a map | Binary | a form of our own |
//!
//! An i128 of nanoseconds is lossless for every year that Flink knows and compares with one instruction; an i64 of
//! nanoseconds ends in 2262. A column that nothing in the stage reads keeps its position, with Arrow type Null, so that
//! no expression is ever renumbered.

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};
use streamfusion_plan::Reason;
use streamfusion_plan::types::{LogicalType, TypeKind};

/// Precision and scale of the Decimal128 that holds timestamps of more than 3 digits.
pub const NANO_TIMESTAMP: DataType = DataType::Decimal128(38, 9);

/// The Arrow type for values of `ty`. A type that batches cannot carry is a reason.
pub fn arrow_type(ty: &LogicalType) -> Result<DataType, Reason> {
    Ok(match &ty.kind {
        TypeKind::Boolean => DataType::Boolean,
        TypeKind::TinyInt => DataType::Int8,
        TypeKind::SmallInt => DataType::Int16,
        TypeKind::Integer | TypeKind::IntervalYearMonth => DataType::Int32,
        TypeKind::BigInt | TypeKind::IntervalDayTime => DataType::Int64,
        TypeKind::Float => DataType::Float32,
        TypeKind::Double => DataType::Float64,
        TypeKind::Decimal { precision, scale } => {
            let scale = i8::try_from(*scale).map_err(|_| Reason::new("a DECIMAL scale is out of range"))?;
            DataType::Decimal128(*precision, scale)
        }
        TypeKind::Char(_) | TypeKind::VarChar(_) => DataType::Utf8,
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => DataType::Binary,
        TypeKind::Date => DataType::Date32,
        TypeKind::Time(_) => DataType::Time32(TimeUnit::Millisecond),
        TypeKind::Timestamp { precision, .. } | TypeKind::TimestampLtz { precision, .. } => {
            if *precision <= 3 {
                DataType::Timestamp(TimeUnit::Millisecond, None)
            } else {
                NANO_TIMESTAMP
            }
        }
        TypeKind::Row(fields) => DataType::Struct(
            fields
                .iter()
                .map(|f| Ok(Field::new(&f.name, arrow_type(&f.ty)?, true)))
                .collect::<Result<Fields, Reason>>()?,
        ),
        // elements are read as columns, so they must be of a type that a column has
        TypeKind::Array(element) | TypeKind::Multiset(element) => arrow_type(element).map(|_| DataType::Binary)?,
        TypeKind::Map(key, value) => {
            arrow_type(key)?;
            arrow_type(value).map(|_| DataType::Binary)?
        }
        TypeKind::Null => return Err(Reason::new("columns of type NULL are not supported natively")),
        TypeKind::View => DataType::Binary,
        TypeKind::Other(text) => {
            return Err(Reason::new(format!("columns of type {text} are not supported natively")));
        }
    })
}
