//! Each row with what a connector finds for it.
//!
//! The lookup is the connector's own and runs in the JVM, over a whole batch or as much of it as gives enough output:
//! key columns go there, what was found comes back, and the other columns of the input never leave. For a row of a LEFT
//! join without a match the lookup hands back a row of NULLs itself.
//!
//! Invariants: what was found for a row follows what was found for the row before it, and has that row's kind; a batch is
//! looked up completely before the next one is taken, so nothing is in flight when a barrier passes.
//!
//! Follows: LookupJoinRunner, AsyncLookupJoinRunner, Flink 2.2. Differences: rows of an asynchronous lookup always leave in the
//! order in which they came, also where Flink may mix them.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, NullArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, UInt8Type};
use streamfusion_expr::clock::{self, Clock};
use streamfusion_expr::host::HostFunction;
use streamfusion_plan::{Reason, node};
use streamfusion_row::Batch;

use crate::calc::{like, record_batch};
use crate::{OUTPUT_BATCH_BYTES, Operator, OperatorError};

/// Whether the conditions can be evaluated where the lookup is.
pub fn supports(spec: &node::LookupJoin) -> Result<(), Reason> {
    let mut conditions = spec.pre_filter.iter().chain(&spec.condition);
    match conditions.find_map(|condition| clock::reader_of(condition, Clock::Operator)) {
        Some(name) => Err(Reason::new(format!("{name} in the condition of a lookup join is not supported natively"))),
        None => Ok(()),
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct LookupJoin {
    lookup: Arc<dyn HostFunction>,
    /// Number of columns that are found.
    found: usize,
    open: Option<Open>,
    ready: VecDeque<Batch>,
}

/// The batch that is looked up.
#[derive(Debug)]
struct Open {
    batch: Batch,
    input: RecordBatch,
    /// The first row that is not looked up.
    next: usize,
}

impl LookupJoin {
    /// A join with what `lookup` finds, which has `found` columns.
    pub fn new(lookup: Arc<dyn HostFunction>, found: usize) -> Self {
        Self { lookup, found, open: None, ready: VecDeque::new() }
    }

    /// Looks up as many rows as the lookup likes.
    fn advance(&mut self, open: &mut Open) -> Result<(), OperatorError> {
        let found = self.lookup.lookup(&open.input, open.next)?;
        let end = open.next + found.matches.len();
        let matches: usize = found.matches.iter().sum();
        let rows: usize = found.rows.iter().map(RecordBatch::num_rows).sum();
        if found.matches.is_empty() || end > open.batch.num_rows() || matches != rows {
            return Err(OperatorError::Internal(format!("a lookup of rows {}..{end} found {rows} rows", open.next)));
        }
        let mut of_input = Vec::with_capacity(rows);
        for (row, matches) in (open.next..end).zip(&found.matches) {
            let row = u32::try_from(row).map_err(|_| OperatorError::Internal("a batch has too many rows".into()))?;
            of_input.extend(std::iter::repeat_n(row, *matches));
        }
        open.next = end;
        let most = most_rows(&open.batch);
        let mut start = 0;
        for piece in &found.rows {
            if piece.num_columns() != self.found {
                return Err(OperatorError::Internal(format!("a lookup found {} columns", piece.num_columns())));
            }
            for from in (0..piece.num_rows()).step_by(most) {
                let rows = most.min(piece.num_rows() - from);
                let of_input = of_input.get(start..start + rows).unwrap_or_default();
                self.ready.push_back(join(&open.batch, of_input, &piece.slice(from, rows))?);
                start += rows;
            }
        }
        Ok(())
    }
}

/// How many copies of its rows have the size of a batch, on average.
fn most_rows(batch: &Batch) -> usize {
    // a batch as it came is no larger, however large that is
    (OUTPUT_BATCH_BYTES * batch.num_rows() / batch.bytes().max(1)).max(batch.num_rows()).max(1)
}

/// Rows of the input beside what was found for them.
fn join(batch: &Batch, of_input: &[u32], found: &RecordBatch) -> Result<Batch, OperatorError> {
    let rows = found.num_rows();
    // one match per row of the whole batch: the common case, in which nothing moves
    let unmoved = rows == batch.num_rows() && (0..).zip(of_input).all(|(place, row)| place == *row);
    let of_input = UInt32Array::from(of_input.to_vec());
    let gather = |column: &ArrayRef| match column.data_type() {
        _ if unmoved => Ok(Arc::clone(column)),
        DataType::Null => Ok(Arc::new(NullArray::new(rows)) as ArrayRef),
        _ => Ok(take(column, &of_input, None)?),
    };
    let mut columns = batch.columns().iter().map(gather).collect::<Result<Vec<_>, OperatorError>>()?;
    columns.extend(found.columns().iter().cloned());
    let kinds = match batch.kinds() {
        Some(kinds) if unmoved => Some(kinds.clone()),
        Some(kinds) => take(kinds, &of_input, None)?.as_primitive_opt::<UInt8Type>().cloned(),
        None => None,
    };
    Ok(like(batch, Batch::try_new(columns, rows, kinds)?))
}

impl Operator for LookupJoin {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let input = record_batch(batch.columns(), batch.num_rows())?;
        self.open = Some(Open { batch, input, next: 0 });
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        while self.ready.is_empty() {
            let Some(mut open) = self.open.take_if(|open| open.next < open.batch.num_rows()) else {
                self.open = None;
                return Ok(None);
            };
            self.advance(&mut open)?;
            self.open = Some(open);
        }
        Ok(self.ready.pop_front())
    }
}

#[cfg(test)]
mod tests;
