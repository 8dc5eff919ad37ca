//! The accumulators of one call in state, and those of the open frame that are merged into them.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use streamfusion_state::{ColumnId, KeyedTable};

use super::merge::{Merge, Visitor};
use super::partial::{Accumulators, Numbered, Partial};
use crate::OperatorError;
use crate::group_agg::rows::{EMPTY, Rows};
use crate::group_agg::support::Call;
use crate::group_agg::versions::{Output, Versions};

/// One call of the global phase, whatever its function and type.
pub(super) trait Merged: Debug + Send {
    /// Takes accumulators into the frame.
    fn merge(&mut self, rows: &Numbered<'_>, columns: &[ArrayRef]) -> Result<(), OperatorError>;

    /// Merges the frame into state: `rows` are the frame's numbers with the groups and slots of their keys, in order. Returns
    /// the values before and after each; sets `changed` where they differ. A row that removes its group leaves an accumulator
    /// without rows.
    fn end_frame(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError>;

    /// Bytes that the frame takes.
    fn bytes(&self) -> usize;
}

/// The accumulators of a function.
#[derive(Debug)]
struct Stored<F: Merge> {
    frame: Accumulators<F>,
    output: DataType,
    state: ColumnId<F::Accumulator>,
    touched: Vec<F::Accumulator>,
}

impl<F: Merge> Merged for Stored<F> {
    fn merge(&mut self, rows: &Numbered<'_>, columns: &[ArrayRef]) -> Result<(), OperatorError> {
        self.frame.merge(rows, columns)
    }

    fn end_frame(
        &mut self,
        table: &mut KeyedTable,
        rows: &Rows,
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        let column = table.column(self.state)?;
        self.touched.clear();
        self.touched.extend(rows.touched.slots.iter().map(|slot| column.take(*slot)));
        let function = &self.frame.function;
        let mut versions = F::Output::builder(rows.len());
        let groups = rows.touched.groups.iter().zip(&rows.actions);
        for ((other, (group, action)), changed) in self.frame.values.iter().zip(groups).zip(changed) {
            let accumulator = &mut self.touched[*group as usize];
            let before = function.value(accumulator);
            function.merge(accumulator, other);
            let after = function.value(accumulator);
            *changed |= match (&before, &after) {
                (Some(before), Some(after)) => !before.same(after),
                (None, None) => false,
                _ => true,
            };
            F::Output::push(&mut versions, before, after);
            if action & EMPTY != 0 {
                *accumulator = function.create();
            }
        }
        self.frame.values.clear();
        for (slot, accumulator) in rows.touched.slots.iter().zip(self.touched.drain(..)) {
            column.set(*slot, accumulator);
        }
        F::Output::finish(versions, &self.output)
    }

    fn bytes(&self) -> usize {
        self.frame.bytes() + self.touched.capacity() * size_of::<F::Accumulator>()
    }
}

/// Registers the state of a call with a table, under a name.
pub(super) struct Register<'a> {
    pub(super) table: &'a mut KeyedTable,
    pub(super) name: String,
}

impl Visitor for Register<'_> {
    type Out = Box<dyn Merged>;

    fn visit<F: Merge>(self, function: F, call: &Call) -> Box<dyn Merged> {
        let (codec, empty) = (function.codec(&call.output), function.create());
        let state = self.table.add_column(self.name, Some(call.definition()), codec, empty);
        let (frame, output) = (Accumulators::new(function, call), call.output.clone());
        Box::new(Stored { frame, output, state, touched: Vec::new() })
    }
}
