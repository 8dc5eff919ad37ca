//! Which rows go out when a row of one input comes in.
//!
//! Level `n` joins input `n` to what the inputs before it came to, as INNER or as LEFT. A walk goes down the levels with one row of
//! each, by number: at the level of the row that came in with that row, at the others with each row of the state that
//! matches, and at a LEFT level where none does with NULLs. What reaches the end goes out, with the kind of the row that
//! came in. At its own level, if that is LEFT, the row may also be the first that matches, so that the row of NULLs goes back
//! before it, or the last one that goes, so that it comes behind.
//!
//! The row that came in is not among the rows of the state if it is added, and is if it is taken away: state is written behind
//! the walk. A row that is taken away although the state has never had it, or has lost it to its time-to-live, leaves no row of
//! NULLs behind where nothing else matches, as in Flink.
//!
//! Follows: StreamingMultiJoinOperator.recursiveMultiJoin, Flink 2.2. Differences: Flink stops to count at a row's own level as soon
//! as the count decides, and evaluates the condition for fewer rows; what goes out is the same.

use streamfusion_row::RowKind;

use crate::OperatorError;

/// No row: its columns are NULL.
pub const NO_ROW: u32 = u32::MAX;
/// The row that came in.
pub const ARRIVED: u32 = u32::MAX - 1;

/// What a level does with rows that match nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// They go no further. The first level, which joins nothing, is one of these.
    Inner,
    /// They go on beside NULLs.
    Left,
}

/// The rows of the inputs, for the key of the row that came in.
pub trait Inputs {
    /// Adds the numbers of the rows in the state of input `level` that match the rows of `path`, in the order of arrival, and
    /// each as often as it is there. `path` has one number per input before `level`. At level 0, all rows match.
    fn matching(&mut self, level: usize, path: &[u32], rows: &mut Vec<u32>) -> Result<(), OperatorError>;

    /// Whether the row that came in, at its own `level`, matches the rows of `path`. At level 0 it does.
    fn arrived_matches(&mut self, level: usize, path: &[u32]) -> Result<bool, OperatorError>;

    /// Takes a row that goes out: one number per input.
    fn emit(&mut self, kind: RowKind, path: &[u32]) -> Result<(), OperatorError>;
}

/// See the [module](self). What it allocates is used again for the next row.
#[derive(Debug)]
pub struct Walk {
    levels: Vec<Level>,
    path: Vec<u32>,
    /// Rows of the levels that the walk is at, one level behind the other.
    rows: Vec<u32>,
}

/// The row that came in.
#[derive(Debug, Clone, Copy)]
struct Arrived {
    input: usize,
    kind: RowKind,
}

impl Walk {
    /// One level per input.
    pub fn new(levels: Vec<Level>) -> Self {
        Self { levels, path: Vec::new(), rows: Vec::new() }
    }

    /// Emits what a row of this kind, in the input of this number, changes. Errors are those of `inputs`.
    pub fn run(&mut self, input: usize, kind: RowKind, inputs: &mut impl Inputs) -> Result<(), OperatorError> {
        self.path.clear();
        self.rows.clear();
        self.level(Arrived { input, kind }, kind, inputs)
    }

    /// Goes on behind the rows of the path. What goes out is of the kind `out`.
    fn level(&mut self, arrived: Arrived, out: RowKind, inputs: &mut impl Inputs) -> Result<(), OperatorError> {
        let level = self.path.len();
        let Some(join) = self.levels.get(level).copied() else { return inputs.emit(out, &self.path) };
        let left = level > 0 && join == Level::Left;
        if level == arrived.input {
            return if left { self.own_left(arrived, inputs) } else { self.own_inner(arrived, inputs) };
        }
        let start = self.rows.len();
        inputs.matching(level, &self.path, &mut self.rows)?;
        let end = self.rows.len();
        for position in start..end {
            let row = self.rows[position];
            self.descend(row, arrived, out, inputs)?;
        }
        self.rows.truncate(start);
        if left && start == end { self.descend(NO_ROW, arrived, out, inputs) } else { Ok(()) }
    }

    fn own_inner(&mut self, arrived: Arrived, inputs: &mut impl Inputs) -> Result<(), OperatorError> {
        if !inputs.arrived_matches(arrived.input, &self.path)? {
            return Ok(());
        }
        self.descend(ARRIVED, arrived, arrived.kind, inputs)
    }

    fn own_left(&mut self, arrived: Arrived, inputs: &mut impl Inputs) -> Result<(), OperatorError> {
        if !inputs.arrived_matches(arrived.input, &self.path)? {
            return Ok(());
        }
        let start = self.rows.len();
        inputs.matching(arrived.input, &self.path, &mut self.rows)?;
        let there = self.rows.len() - start;
        self.rows.truncate(start);
        let accumulates = matches!(arrived.kind, RowKind::Insert | RowKind::UpdateAfter);
        if accumulates && there == 0 {
            self.descend(NO_ROW, arrived, RowKind::Delete, inputs)?;
        }
        self.descend(ARRIVED, arrived, arrived.kind, inputs)?;
        if !accumulates && there == 1 {
            self.descend(NO_ROW, arrived, RowKind::Insert, inputs)?;
        }
        Ok(())
    }

    fn descend(
        &mut self,
        row: u32,
        arrived: Arrived,
        out: RowKind,
        inputs: &mut impl Inputs,
    ) -> Result<(), OperatorError> {
        self.path.push(row);
        self.level(arrived, out, inputs)?;
        self.path.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
