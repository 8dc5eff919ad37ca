//! One row per key: of an upsert stream, or the first or last by time.

use crate::rex::Rex;
use crate::types::{LogicalType, TimeAttribute, TimeDomain, TypeKind};

/// Makes a full changelog of an upsert stream: the rows before a change come from state, repeated changes vanish.
///
/// +I always stands for the first row of a key. The output has the type of the input.
///
/// Follows: StreamExecChangelogNormalize, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangelogNormalize {
    /// Key columns.
    pub unique_keys: Vec<usize>,
    /// Whether -U goes out before +U.
    pub generate_update_before: bool,
    /// Only rows for which this is TRUE are there; a row that changes to another value is deleted.
    pub filter: Option<Rex>,
    /// State time to live in milliseconds; 0 is off.
    pub ttl_ms: i64,
    /// Rows per bundle, at least 1, where mini-batch is on.
    pub mini_batch_size: Option<u64>,
}

/// The first or last row per key of an insert-only stream. The output has the type of the input.
///
/// Follows: StreamExecDeduplicate, Flink 2.2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deduplicate {
    /// Key columns.
    pub unique_keys: Vec<usize>,
    /// By which time rows are ordered; for row time see [`Deduplicate::rowtime_column`].
    pub time: TimeDomain,
    /// Which row stays.
    pub keep: KeepRow,
    /// Whether a first row by row time goes out only when no earlier one can come any more, and once. Flink looks at it only
    /// there; it is never set where mini-batch is on.
    pub output_insert_only: bool,
    /// Whether -U goes out before +U.
    pub generate_update_before: bool,
    /// Whether the first row of a key must be +I; else every row may be +U
    /// (`table.exec.deduplicate.insert-update-after-sensitive-enabled`).
    pub generate_insert: bool,
    /// Whether a bundle by row time hands on only the last change of a key
    /// (`table.exec.deduplicate.mini-batch.compact-changes-enabled`).
    pub compact_changes: bool,
    /// State time to live in milliseconds; 0 is off.
    pub ttl_ms: i64,
    /// Rows per bundle, at least 1, where mini-batch is on.
    pub mini_batch_size: Option<u64>,
}

/// Which row of a key stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeepRow {
    /// The earliest.
    First,
    /// The latest.
    Last,
}

impl Deduplicate {
    /// The column that orders the rows of an input by row time: its first row-time attribute. `None` by processing time.
    pub fn rowtime_column(&self, input: &LogicalType) -> Option<usize> {
        let is_rowtime = |kind: &TypeKind| {
            matches!(
                kind,
                TypeKind::Timestamp { attribute: TimeAttribute::Rowtime, .. }
                    | TypeKind::TimestampLtz { attribute: TimeAttribute::Rowtime, .. }
            )
        };
        match self.time {
            TimeDomain::Rowtime => input.fields().iter().position(|field| is_rowtime(&field.ty.kind)),
            TimeDomain::Proctime => None,
        }
    }
}
