//! Types as a user writes them, for reasons.

use streamfusion_plan::types::TypeKind;

/// The SQL name of a type, without a length, a precision or children.
pub(crate) fn type_name(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Char(_) => "CHAR",
        TypeKind::VarChar(_) => "VARCHAR",
        TypeKind::Boolean => "BOOLEAN",
        TypeKind::Binary(_) => "BINARY",
        TypeKind::VarBinary(_) => "VARBINARY",
        TypeKind::Decimal { .. } => "DECIMAL",
        TypeKind::TinyInt => "TINYINT",
        TypeKind::SmallInt => "SMALLINT",
        TypeKind::Integer => "INT",
        TypeKind::BigInt => "BIGINT",
        TypeKind::Float => "FLOAT",
        TypeKind::Double => "DOUBLE",
        TypeKind::Date => "DATE",
        TypeKind::Time(_) => "TIME",
        TypeKind::Timestamp { .. } => "TIMESTAMP",
        TypeKind::TimestampLtz { .. } => "TIMESTAMP_LTZ",
        TypeKind::IntervalYearMonth => "INTERVAL YEAR TO MONTH",
        TypeKind::IntervalDayTime => "INTERVAL DAY TO SECOND",
        TypeKind::Row(_) => "ROW",
        TypeKind::Array(_) => "ARRAY",
        TypeKind::Map(..) => "MAP",
        TypeKind::Multiset(_) => "MULTISET",
        TypeKind::Null => "NULL",
        TypeKind::View => "RAW",
        TypeKind::Other(text) => text,
    }
    .to_owned()
}
