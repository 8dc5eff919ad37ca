//! Functions whose value depends on when they are evaluated, and what that forbids in the JVM.
//!
//! Flink reads the clock of [`Clock::Record`] functions once per row for all expressions of a node. A host call runs over a
//! whole batch before the next one does, so that two of them would see different readings for one row. Functions of
//! [`Clock::Operator`] ask the operator for its time, which a host call does not have. None of them is ever native.
//!
//! Follows: CurrentTimePointCallGen, GenerateUtils (proctime, rowtime, watermark), Flink 2.2.

use streamfusion_plan::rex::{Function, Rex};

use crate::native::children;

/// Whose clock an expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clock {
    /// The machine's, once per row.
    Record,
    /// The operator's: processing time of its timer service, its watermark, the timestamp of its record.
    Operator,
}

impl Clock {
    /// The clock that a function of this name reads.
    fn of(name: &str) -> Option<Self> {
        match name {
            "CURRENT_DATE"
            | "CURRENT_ROW_TIMESTAMP"
            | "CURRENT_TIME"
            | "CURRENT_TIMESTAMP"
            | "LOCALTIME"
            | "LOCALTIMESTAMP"
            | "NOW"
            | "UNIX_TIMESTAMP" => Some(Self::Record),
            "CURRENT_WATERMARK" | "PROCTIME_MATERIALIZE" | "STREAMRECORD_TIMESTAMP" => Some(Self::Operator),
            _ => None,
        }
    }
}

/// The first function in `rex` that reads `clock`, as a user calls it.
pub fn reader_of(rex: &Rex, clock: Clock) -> Option<&str> {
    if let Rex::Call { function: Function::BuiltIn { name, .. }, operands, .. } = rex
        && Clock::of(name) == Some(clock)
        // with operands it converts a text
        && (name != "UNIX_TIMESTAMP" || operands.is_empty())
    {
        return Some(if name == "PROCTIME_MATERIALIZE" { "PROCTIME" } else { name });
    }
    children(rex, "").into_iter().find_map(|(child, _)| reader_of(child, clock))
}
