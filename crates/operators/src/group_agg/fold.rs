//! Folds the rows of a batch into the accumulators of one aggregate call, in arrival order.
//!
//! The accumulators of the touched groups are taken from the table once, folded in a dense vector, and put back once. The
//! loop is compiled per function and type: nothing is dispatched or allocated per row.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray};
use arrow::datatypes::DataType;
use streamfusion_state::PagedVec;

use super::native::Input;
use super::rows::{ACCUMULATE, EMPTY, RETRACT, Rows};
use super::versions::{Output, Versions};
use crate::OperatorError;

/// One aggregate function over one input type.
pub(super) trait Function: Debug + Send + 'static {
    type Input: Input;
    type Output: Output;
    type Accumulator: Clone + Debug + Send + Sync;

    /// The accumulator of a group without rows.
    fn create(&self) -> Self::Accumulator;

    /// Takes a value that is not NULL.
    fn accumulate(&self, accumulator: &mut Self::Accumulator, value: <Self::Input as Input>::Item<'_>);

    /// Takes back a value that is not NULL.
    fn retract(&self, accumulator: &mut Self::Accumulator, value: <Self::Input as Input>::Item<'_>);

    /// The result, `None` for NULL.
    fn value(&self, accumulator: &Self::Accumulator) -> Option<Self::Output>;
}

/// An aggregate call with its state, whatever its function and type.
pub(super) trait Aggregate: Debug + Send {
    /// Folds a batch and returns the values before and after each row. `argument` is the argument column, absent for a
    /// call without arguments; `actions` says what each row does for this call. Sets `changed` for each row whose value
    /// after it differs from the one before it.
    fn fold(
        &mut self,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        actions: &[u8],
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError>;

    /// Bytes of the state.
    fn bytes(&self) -> usize;
}

/// A [`Function`] with the accumulators of all groups.
#[derive(Debug)]
pub(super) struct Folded<F: Function> {
    function: F,
    output: DataType,
    accumulators: PagedVec<F::Accumulator>,
    touched: Vec<F::Accumulator>,
}

impl<F: Function> Folded<F> {
    /// Without state, for results of the Arrow type `output`.
    pub(super) fn boxed(function: F, output: &DataType) -> Box<dyn Aggregate> {
        Box::new(Self { function, output: output.clone(), accumulators: PagedVec::new(), touched: Vec::new() })
    }

    fn fold_rows(
        &mut self,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        column: &<F::Input as Input>::Column,
        actions: &[u8],
        changed: &mut [bool],
    ) -> <F::Output as Output>::Builder {
        let function = &self.function;
        let nulls = argument.and_then(|array| array.nulls());
        let mut builder = F::Output::builder(rows.len());
        let steps = rows.groups.iter().zip(actions).zip(changed.iter_mut());
        for (row, ((group, action), changed)) in steps.enumerate() {
            let accumulator = &mut self.touched[*group as usize];
            let before = function.value(accumulator);
            if action & (ACCUMULATE | RETRACT) != 0 && nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                let value = F::Input::get(column, row);
                if action & ACCUMULATE != 0 {
                    function.accumulate(accumulator, value);
                } else {
                    function.retract(accumulator, value);
                }
            }
            let after = function.value(accumulator);
            if action & EMPTY != 0 {
                *accumulator = function.create();
            }
            *changed |= match (&before, &after) {
                (Some(before), Some(after)) => !before.same(after),
                (None, None) => false,
                _ => true,
            };
            F::Output::push(&mut builder, before, after);
        }
        builder
    }
}

impl<F: Function> Aggregate for Folded<F> {
    fn fold(
        &mut self,
        rows: &Rows,
        argument: Option<&ArrayRef>,
        actions: &[u8],
        changed: &mut [bool],
    ) -> Result<Versions, OperatorError> {
        let empty: ArrayRef = Arc::new(NullArray::new(0));
        let column = F::Input::column(argument.unwrap_or(&empty))?;
        self.accumulators.grow(rows.slot_bound, &self.function.create());
        let (table, function) = (&mut self.accumulators, &self.function);
        self.touched.clear();
        self.touched.extend(rows.slots.iter().map(|slot| std::mem::replace(table.get_mut(*slot), function.create())));
        let builder = self.fold_rows(rows, argument, &column, actions, changed);
        for (slot, accumulator) in rows.slots.iter().zip(self.touched.drain(..)) {
            *self.accumulators.get_mut(*slot) = accumulator;
        }
        F::Output::finish(builder, &self.output)
    }

    fn bytes(&self) -> usize {
        self.accumulators.bytes()
    }
}
