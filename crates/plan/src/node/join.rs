//! Joins of two streams without a window or a time condition.

use crate::rex::Rex;

/// A regular join: both inputs are kept in state, by the join key.
///
/// Without an equality condition the key has no columns, and everything is on one subtask. The output has the columns of the
/// left input and, but for SEMI and ANTI, those of the right one behind them.
///
/// Follows: StreamExecJoin, Flink 2.2.
#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// Which rows go out.
    pub join_type: JoinType,
    /// The left input, the first.
    pub left: InputSide,
    /// The right input, the second.
    pub right: InputSide,
    /// Per pair of key columns whether NULL matches nothing; else it matches NULL.
    pub filter_nulls: Vec<bool>,
    /// What must be TRUE of two rows of equal keys: an expression over the columns of the left input and, behind them, those
    /// of the right one.
    pub condition: Option<Rex>,
    /// Rows of both inputs together per bundle, at least 1, where mini-batch is on. From the session, as the node keeps no
    /// options. Always `None` for SEMI and ANTI, which have no mini-batch form.
    pub mini_batch_size: Option<u64>,
}

/// Which rows go out of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JoinType {
    /// Pairs that match.
    Inner,
    /// Also left rows that match nothing.
    Left,
    /// Also right rows that match nothing.
    Right,
    /// Also rows of either side that match nothing.
    Full,
    /// Left rows that match something.
    Semi,
    /// Left rows that match nothing.
    Anti,
}

/// One input of a join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputSide {
    /// Columns that must be equal, in the order of the other side's.
    pub keys: Vec<usize>,
    /// Every set of columns that identifies a row of this input; a set may be empty: at most one row.
    pub upsert_keys: Vec<Vec<usize>>,
    /// Time to live of this side's state in milliseconds; 0 is off.
    pub ttl_ms: i64,
}

/// What identifies a row of an input among those of one join key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputSideKey<'a> {
    /// The join key alone: at most one row; the columns are among the key's.
    JoinKeyContainsUniqueKey(&'a [usize]),
    /// These columns.
    HasUniqueKey(&'a [usize]),
    /// Nothing: rows may be there several times.
    NoUniqueKey,
}

impl InputSide {
    /// The shape of this side's state. Of several keys the shortest counts, of several shortest the first.
    ///
    /// Follows: JoinUtil.analyzeJoinInput, Flink 2.2.
    pub fn unique_key(&self) -> InputSideKey<'_> {
        let within_join_key = |key: &&Vec<usize>| key.iter().all(|column| self.keys.contains(column));
        if let Some(key) = shortest(self.upsert_keys.iter().filter(within_join_key)) {
            return InputSideKey::JoinKeyContainsUniqueKey(key);
        }
        match shortest(self.upsert_keys.iter()) {
            Some(key) => InputSideKey::HasUniqueKey(key),
            None => InputSideKey::NoUniqueKey,
        }
    }
}

fn shortest<'a>(keys: impl Iterator<Item = &'a Vec<usize>>) -> Option<&'a Vec<usize>> {
    keys.min_by_key(|key| key.len())
}
