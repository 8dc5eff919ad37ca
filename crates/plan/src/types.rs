//! Flink's logical types, as compiled plans name them.
//!
//! A type is what the plan says about a value: root, parameters, nullability. How its values lie in memory is not decided
//! here: see `streamfusion_row::types` for Arrow and `streamfusion_row::binary` for Flink's BinaryRow.

use std::sync::Arc;

/// A Flink logical type with its nullability.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogicalType {
    /// Root and parameters.
    pub kind: TypeKind,
    /// Whether a value may be NULL.
    pub nullable: bool,
}

/// Type root and parameters. Lengths are in characters (CHAR, VARCHAR) or bytes (BINARY, VARBINARY).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TypeKind {
    /// `CHAR(n)`
    Char(u32),
    /// `VARCHAR(n)`; STRING is `VARCHAR(2147483647)`
    VarChar(u32),
    /// `BOOLEAN`
    Boolean,
    /// `BINARY(n)`
    Binary(u32),
    /// `VARBINARY(n)`; BYTES is `VARBINARY(2147483647)`
    VarBinary(u32),
    /// `DECIMAL(p, s)`, 1 <= p <= 38, 0 <= s <= p
    Decimal {
        /// Total digits.
        precision: u8,
        /// Digits behind the point.
        scale: u8,
    },
    /// `TINYINT`
    TinyInt,
    /// `SMALLINT`
    SmallInt,
    /// `INT`
    Integer,
    /// `BIGINT`
    BigInt,
    /// `FLOAT`
    Float,
    /// `DOUBLE`
    Double,
    /// `DATE`: days since the epoch
    Date,
    /// `TIME(p)`: milliseconds of the day, whatever the precision
    Time(u8),
    /// `TIMESTAMP(p)`
    Timestamp {
        /// Digits of the fraction of a second, 0 to 9.
        precision: u8,
        /// Whether it is a time attribute.
        attribute: TimeAttribute,
    },
    /// `TIMESTAMP_LTZ(p)`
    TimestampLtz {
        /// Digits of the fraction of a second, 0 to 9.
        precision: u8,
        /// Whether it is a time attribute.
        attribute: TimeAttribute,
    },
    /// `INTERVAL YEAR TO MONTH` and its shorter forms: months
    IntervalYearMonth,
    /// `INTERVAL DAY TO SECOND` and its shorter forms: milliseconds
    IntervalDayTime,
    /// `ROW<..>`
    Row(Arc<[Field]>),
    /// `ARRAY<t>`
    Array(Arc<LogicalType>),
    /// `MAP<k, v>`
    Map(Arc<LogicalType>, Arc<LogicalType>),
    /// `MULTISET<t>`
    Multiset(Arc<LogicalType>),
    /// The type of a bare NULL.
    Null,
    /// An accumulator that holds a map, as the phases of an aggregate hand it on: the values of a DISTINCT set, or those of MIN or MAX over
    /// rows that retract. It is a Java object in Flink and bytes of our own here, so that it never goes from one to the other.
    View,
    /// A type that is not known here; holds the plan's own text.
    Other(String),
}

/// Whether a timestamp is a time attribute of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TimeAttribute {
    /// An ordinary column.
    #[default]
    Regular,
    /// Event time.
    Rowtime,
    /// Processing time.
    Proctime,
}

/// The time that an operator goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeDomain {
    /// Event time: what the rows say, as far as watermarks have come.
    Rowtime,
    /// Processing time: the clock.
    Proctime,
}

/// One field of a ROW.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Name, without quotes.
    pub name: String,
    /// Type.
    pub ty: LogicalType,
}

impl LogicalType {
    /// The fields of a ROW; empty for every other type.
    pub fn fields(&self) -> &[Field] {
        match &self.kind {
            TypeKind::Row(fields) => fields,
            _ => &[],
        }
    }

    /// Whether one of the fields is a [`TypeKind::View`].
    pub fn has_views(&self) -> bool {
        self.fields().iter().any(|field| field.ty.kind == TypeKind::View)
    }
}
