//! The accumulators of one call in state, and those of the open frame that are merged into them.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_state::{ColumnId, KeyedTable};

use super::merge::{Merge, ValueVisitor, Visitor, counted_extremum, visit, visit_value};
use super::partial::{Accumulators, Numbered, Partial};
use super::view::{Carried, StoredExtremum, StoredSet, StoredValues};
use crate::OperatorError;
use crate::group_agg::distinct::{Counted, DistinctKey, ManyCounts, Seen, Shared};
use crate::group_agg::extremum::Extremum;
use crate::group_agg::rows::{EMPTY, Rows};
use crate::group_agg::support::{Call, Retraction};
use crate::group_agg::value::Value;
use crate::group_agg::versions::{Output, Versions};

/// One call of the global phase, whatever its function and type.
pub(super) trait Merged: Debug + Send {
    /// Takes accumulators into the frame.
    fn merge(&mut self, rows: &Numbered<'_>, columns: &[ArrayRef]) -> Result<(), OperatorError>;

    /// Takes rows into the frame: values of a DISTINCT set that became known to the call, or are not counted any more. For the rest see
    /// [`Partial::fold`].
    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError>;

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

    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        self.frame.fold(rows, argument, actions)
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
struct Register<'a> {
    table: &'a mut KeyedTable,
    name: String,
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

/// [`Register`] for MIN or MAX over rows that retract.
struct RegisterExtremum<'a> {
    extremum: Extremum,
    call: &'a Call,
    register: Register<'a>,
}

impl ValueVisitor for RegisterExtremum<'_> {
    type Out = Box<dyn Merged>;

    fn visit<I, V>(self) -> Box<dyn Merged>
    where
        I: Carried<Key = V>,
        V: DistinctKey<Input = I> + Value<Input = I>,
    {
        StoredExtremum::<V>::boxed(self.extremum, self.call, self.register.table, self.register.name)
    }
}

/// The accumulators of a call in state, which is registered with `table`, under `name`.
pub(super) fn merged(call: &Call, table: &mut KeyedTable, name: String) -> Result<Box<dyn Merged>, Reason> {
    let register = Register { table, name };
    match counted_extremum(call) {
        Some((extremum, ty)) => visit_value(ty, RegisterExtremum { extremum, call, register }),
        None => visit(call, register),
    }
}

/// Registers the state of a DISTINCT set with a table.
struct RegisterSet<'a> {
    shared: &'a Shared,
    retraction: Retraction,
    wanted: bool,
    table: &'a mut KeyedTable,
}

impl ValueVisitor for RegisterSet<'_> {
    type Out = Box<dyn StoredSet>;

    fn visit<I, V>(self) -> Box<dyn StoredSet>
    where
        I: Carried<Key = V>,
        V: DistinctKey<Input = I> + Value<Input = I>,
    {
        let Self { shared, retraction, wanted, table } = self;
        match (retraction, shared.calls) {
            (Retraction::None, _) => Box::new(StoredValues::<I, Seen<V>>::new(shared, wanted, table)),
            (Retraction::Applied, 1) => Box::new(StoredValues::<I, Counted<V, i64>>::new(shared, wanted, table)),
            (Retraction::Applied, _) => Box::new(StoredValues::<I, Counted<V, ManyCounts>>::new(shared, wanted, table)),
        }
    }
}

/// A DISTINCT set in state, which is registered with `table`. `wanted` says whether a call asks for the values themselves.
pub(super) fn stored_set(
    shared: &Shared,
    retraction: Retraction,
    wanted: bool,
    table: &mut KeyedTable,
) -> Result<Box<dyn StoredSet>, Reason> {
    visit_value(&shared.ty, RegisterSet { shared, retraction, wanted, table })
}
