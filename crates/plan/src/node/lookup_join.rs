//! Joins with a table outside, which is asked for the rows of each key.

use std::collections::BTreeSet;

use super::JoinType;
use crate::rex::Rex;

/// A join of each row with what a connector's lookup function finds for it when the row comes.
///
/// The output has the columns of the input and, behind them, those of the table that are read. The lookup itself is the
/// connector's and runs in the JVM, with its cache and everything that is filtered and projected behind it: see
/// [`LookupJoin::LOOKUP`].
///
/// Follows: StreamExecLookupJoin, Flink 2.2, without its keyed forms.
#[derive(Debug, Clone, PartialEq)]
pub struct LookupJoin {
    /// INNER or LEFT.
    pub join_type: JoinType,
    /// Columns of the input that are looked up.
    pub keys: Vec<usize>,
    /// What must be TRUE of a row, or nothing is looked up for it.
    pub pre_filter: Option<Rex>,
    /// What must be TRUE of a row and one of the table: an expression over the columns of the output.
    pub condition: Option<Rex>,
    /// The table, as Flink writes it.
    pub table: String,
}

impl LookupJoin {
    /// JSON pointer of what runs in the JVM.
    pub const LOOKUP: &str = "/temporalTable";

    /// The columns of an input of `width` columns that the lookup reads, ascending. All, if it is not known of an expression.
    pub fn reads(&self, width: usize) -> Vec<usize> {
        let mut read: BTreeSet<usize> = self.keys.iter().copied().collect();
        let known = self.pre_filter.iter().chain(&self.condition).all(|rex| collect(rex, &mut read));
        if known { read.range(..width).copied().collect() } else { (0..width).collect() }
    }
}

/// Adds the columns that `rex` reads. Returns false where that is not known.
fn collect(rex: &Rex, read: &mut BTreeSet<usize>) -> bool {
    match rex {
        Rex::InputRef { index, .. } => {
            read.insert(*index);
            true
        }
        Rex::Literal { .. } => true,
        Rex::Call { operands, .. } => operands.iter().all(|operand| collect(operand, read)),
        Rex::Search { operand, .. } => collect(operand, read),
        Rex::FieldAccess { expr, .. } => collect(expr, read),
        Rex::Unknown { .. } => false,
    }
}
