//! Types in words, for the definitions in snapshots of keyed state.
//!
//! State is taken over if its definitions are those of the operator. So a word never changes, and does not come from a library:
//! it is the root of Flink's type with what values depend on. Nullability and lengths are left out; so are the names of
//! fields, which columns have.

use streamfusion_plan::types::{LogicalType, TypeKind};

/// The type in words.
pub(crate) fn describe(ty: &LogicalType) -> String {
    match &ty.kind {
        TypeKind::Char(_) => "CHAR".to_owned(),
        TypeKind::VarChar(_) => "VARCHAR".to_owned(),
        TypeKind::Boolean => "BOOLEAN".to_owned(),
        TypeKind::Binary(_) => "BINARY".to_owned(),
        TypeKind::VarBinary(_) => "VARBINARY".to_owned(),
        TypeKind::Decimal { precision, scale } => format!("DECIMAL({precision}, {scale})"),
        TypeKind::TinyInt => "TINYINT".to_owned(),
        TypeKind::SmallInt => "SMALLINT".to_owned(),
        TypeKind::Integer => "INT".to_owned(),
        TypeKind::BigInt => "BIGINT".to_owned(),
        TypeKind::Float => "FLOAT".to_owned(),
        TypeKind::Double => "DOUBLE".to_owned(),
        TypeKind::Date => "DATE".to_owned(),
        TypeKind::Time(precision) => format!("TIME({precision})"),
        TypeKind::Timestamp { precision, .. } => format!("TIMESTAMP({precision})"),
        TypeKind::TimestampLtz { precision, .. } => format!("TIMESTAMP_LTZ({precision})"),
        TypeKind::IntervalYearMonth => "INTERVAL YEAR TO MONTH".to_owned(),
        TypeKind::IntervalDayTime => "INTERVAL DAY TO SECOND".to_owned(),
        TypeKind::Row(fields) => format!("ROW<{}>", describe_all(fields.iter().map(|field| &field.ty))),
        TypeKind::Array(element) => format!("ARRAY<{}>", describe(element)),
        TypeKind::Map(key, value) => format!("MAP<{}>", describe_all([&**key, &**value])),
        TypeKind::Multiset(element) => format!("MULTISET<{}>", describe(element)),
        TypeKind::Null => "NULL".to_owned(),
        TypeKind::View => "RAW".to_owned(),
        TypeKind::Other(text) => text.clone(),
    }
}

/// The types in words, one behind the other.
pub(crate) fn describe_all<'a>(types: impl IntoIterator<Item = &'a LogicalType>) -> String {
    types.into_iter().map(describe).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use streamfusion_plan::types::{Field, TimeAttribute};

    use super::*;

    #[test]
    fn types_with_other_values_have_other_words() {
        let attribute = TimeAttribute::Regular;
        let of = |kind: TypeKind| describe(&LogicalType { kind, nullable: true });
        let all = [
            (TypeKind::Char(3), "CHAR"),
            (TypeKind::VarChar(3), "VARCHAR"),
            (TypeKind::Boolean, "BOOLEAN"),
            (TypeKind::Binary(3), "BINARY"),
            (TypeKind::VarBinary(3), "VARBINARY"),
            (TypeKind::Decimal { precision: 38, scale: 9 }, "DECIMAL(38, 9)"),
            (TypeKind::TinyInt, "TINYINT"),
            (TypeKind::SmallInt, "SMALLINT"),
            (TypeKind::Integer, "INT"),
            (TypeKind::BigInt, "BIGINT"),
            (TypeKind::Float, "FLOAT"),
            (TypeKind::Double, "DOUBLE"),
            (TypeKind::Date, "DATE"),
            (TypeKind::Time(0), "TIME(0)"),
            (TypeKind::Timestamp { precision: 3, attribute }, "TIMESTAMP(3)"),
            (TypeKind::TimestampLtz { precision: 3, attribute }, "TIMESTAMP_LTZ(3)"),
            (TypeKind::Timestamp { precision: 9, attribute }, "TIMESTAMP(9)"),
            (TypeKind::IntervalYearMonth, "INTERVAL YEAR TO MONTH"),
            (TypeKind::IntervalDayTime, "INTERVAL DAY TO SECOND"),
        ];
        for (kind, word) in all {
            assert_eq!(of(kind), word);
        }
        let field = |kind| Field { name: "f".to_owned(), ty: LogicalType { kind, nullable: false } };
        let row = TypeKind::Row([field(TypeKind::BigInt), field(TypeKind::VarChar(5))].into());
        assert_eq!(of(row), "ROW<BIGINT, VARCHAR>");
    }
}
