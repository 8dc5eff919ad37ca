//! Pairs of rows for which the condition was evaluated ahead.
//!
//! Flink evaluates pair by pair, and for SEMI and ANTI stops at the first one of a left row that matches. Here many are evaluated at once, so that a pair
//! may fail that Flink never looks at. Then they are evaluated one by one, as they are asked for.

use arrow::buffer::BooleanBuffer;
use streamfusion_plan::node::JoinType;

use super::flush::{Cursor, Group};
use crate::OperatorError;
use crate::join::Input;
use crate::join::condition::{Condition, Operand, Pairs};
use crate::join::limits::Limits;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Evaluated {
    pairs: Pairs,
    passes: Option<BooleanBuffer>,
    next: usize,
    /// How many more pairs are evaluated one by one.
    one_by_one: usize,
}

impl Evaluated {
    pub(super) fn clear(&mut self) {
        *self = Self { pairs: std::mem::take(&mut self.pairs), ..Self::default() };
    }

    fn len(&self) -> usize {
        self.passes.as_ref().map_or(0, BooleanBuffer::len)
    }

    /// Whether there is no pair left.
    pub(super) fn is_empty(&self) -> bool {
        self.next >= self.len()
    }

    /// Whether the condition is TRUE of the next pair.
    pub(super) fn next(&mut self) -> bool {
        let passes = self.passes.as_ref().filter(|passes| self.next < passes.len());
        let passes = passes.is_some_and(|passes| passes.value(self.next));
        self.next += 1;
        passes
    }

    /// Leaves out pairs, which may not have been evaluated yet.
    pub(super) fn skip(&mut self, pairs: usize) {
        self.next = self.next.saturating_add(pairs).min(self.len());
        self.one_by_one = self.one_by_one.saturating_sub(pairs);
    }

    /// Evaluates the condition for the next pairs from the cursor on.
    pub(super) fn fill(
        &mut self,
        condition: &Condition,
        join_type: JoinType,
        groups: &[Group],
        cursor: &Cursor,
        [left, right]: [Operand<'_>; 2],
        limits: &Limits,
    ) -> Result<(), OperatorError> {
        let most = if self.one_by_one > 0 { 1 } else { limits.pairs };
        self.collect(join_type, groups, cursor, most);
        let count = self.pairs.input.len();
        let passes = match condition.passes(Input::Left, left, right, &mut self.pairs, limits) {
            Ok(passes) => passes,
            Err(_) if count > 1 && matches!(join_type, JoinType::Semi | JoinType::Anti) => {
                self.one_by_one = count;
                self.collect(join_type, groups, cursor, 1);
                condition.passes(Input::Left, left, right, &mut self.pairs, limits)?
            }
            Err(error) => return Err(error),
        };
        self.one_by_one = self.one_by_one.saturating_sub(1);
        (self.passes, self.next) = (Some(passes), 0);
        Ok(())
    }

    /// Collects at most so many pairs.
    fn collect(&mut self, join_type: JoinType, groups: &[Group], cursor: &Cursor, most: usize) {
        self.pairs.input.clear();
        self.pairs.other.clear();
        let (mut first_outer, mut first_inner) = (cursor.outer, cursor.inner);
        for group in groups.iter().skip(cursor.group) {
            let (outer, inner) = group.loops(join_type);
            let rows = if inner.is_empty() { outer.end..outer.end } else { outer };
            for row in rows.skip(first_outer as usize) {
                let room = most - self.pairs.input.len();
                let run = inner.clone().skip(first_inner as usize).take(room);
                let count = run.len();
                let (of_row, of_run) = match join_type {
                    JoinType::Right => (&mut self.pairs.other, &mut self.pairs.input),
                    _ => (&mut self.pairs.input, &mut self.pairs.other),
                };
                of_row.extend(std::iter::repeat_n(row, count));
                of_run.extend(run);
                first_inner = 0;
                if self.pairs.input.len() >= most {
                    return;
                }
            }
            first_outer = 0;
        }
    }

    /// Bytes taken.
    pub(super) fn bytes(&self) -> usize {
        (self.pairs.input.capacity() + self.pairs.other.capacity()) * size_of::<u32>()
            + self.passes.as_ref().map_or(0, |passes| passes.inner().capacity())
    }
}
