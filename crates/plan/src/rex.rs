//! Scalar expressions of a compiled plan (Flink's RexNode JSON), typed.

use crate::types::LogicalType;

/// A scalar expression over the columns of one input row.
#[derive(Debug, Clone, PartialEq)]
pub enum Rex {
    /// Column `index` of the input.
    InputRef {
        /// Position in the input row.
        index: usize,
        /// Type of the column.
        ty: LogicalType,
    },
    /// A constant.
    Literal {
        /// Its value.
        value: Literal,
        /// Its type.
        ty: LogicalType,
    },
    /// A function or operator applied to operands.
    Call {
        /// Which one.
        function: Function,
        /// Arguments, in order.
        operands: Vec<Rex>,
        /// Type of the result.
        ty: LogicalType,
    },
    /// `SEARCH(operand, sarg)`: membership in a set of ranges.
    Search {
        /// What is searched for.
        operand: Box<Rex>,
        /// The ranges.
        sarg: Sarg,
        /// Type of the result, BOOLEAN.
        ty: LogicalType,
    },
    /// A field of a ROW value.
    FieldAccess {
        /// The row.
        expr: Box<Rex>,
        /// Position of the field in the row's type.
        index: usize,
        /// Type of the result: nullable where the row or the field is.
        ty: LogicalType,
    },
    /// An expression that this reader does not model (correlation variables, pattern references, table arguments, an
    /// unknown kind). It is never evaluated natively; `inputs` may still be unknown.
    Unknown {
        /// What it is, in words for a reason.
        what: String,
    },
}

/// Identity of a called function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Function {
    /// A built-in: `$CASE$1` is `BuiltIn { name: "CASE", version: 1 }`.
    BuiltIn {
        /// Upper-case name as the plan has it between the dollar signs, for example `CASE`, `=`, `IS TRUE`.
        name: String,
        /// Version of the signature.
        version: u32,
    },
    /// Anything else: a catalog, system or inline user function. Holds the name for reasons.
    User(String),
}

/// A literal's value. Integers of every width are `Integer`.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// NULL
    Null,
    /// BOOLEAN
    Boolean(bool),
    /// TINYINT to BIGINT, and both kinds of interval (months or milliseconds).
    Integer(i64),
    /// DECIMAL: the unscaled value at the scale of the literal's type.
    Decimal(i128),
    /// FLOAT and DOUBLE
    Double(f64),
    /// CHAR and VARCHAR
    String(String),
    /// BINARY and VARBINARY
    Bytes(Vec<u8>),
    /// DATE: days since the epoch
    Date(i32),
    /// TIME: milliseconds of the day
    Time(i32),
    /// TIMESTAMP (wall clock read as UTC) and TIMESTAMP_LTZ
    Timestamp {
        /// Milliseconds since the epoch.
        millis: i64,
        /// Nanoseconds of the millisecond, 0 to 999,999.
        nanos: i32,
    },
    /// A symbol such as a time unit.
    Symbol {
        /// Kind, for example `TIME_UNIT_RANGE`.
        kind: String,
        /// Value, for example `HOUR`.
        value: String,
    },
}

/// A set of ranges over one type, sorted and disjoint as the plan has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Sarg {
    /// The ranges.
    pub ranges: Vec<SargRange>,
    /// Result for a NULL operand: `None` is UNKNOWN.
    pub null_as: Option<bool>,
    /// Type of the bounds; may differ from the operand's, in which case values are compared after conversion.
    pub ty: LogicalType,
}

/// One range; a missing bound is infinite.
#[derive(Debug, Clone, PartialEq)]
pub struct SargRange {
    /// Lower bound.
    pub lower: Option<SargBound>,
    /// Upper bound.
    pub upper: Option<SargBound>,
}

/// An end of a range.
#[derive(Debug, Clone, PartialEq)]
pub struct SargBound {
    /// The end.
    pub value: Literal,
    /// Whether the end belongs to the range.
    pub inclusive: bool,
}

impl Rex {
    /// Type of the result; `None` for an expression that is not modelled.
    pub fn ty(&self) -> Option<&LogicalType> {
        match self {
            Rex::InputRef { ty, .. }
            | Rex::Literal { ty, .. }
            | Rex::Call { ty, .. }
            | Rex::Search { ty, .. }
            | Rex::FieldAccess { ty, .. } => Some(ty),
            Rex::Unknown { .. } => None,
        }
    }
}
