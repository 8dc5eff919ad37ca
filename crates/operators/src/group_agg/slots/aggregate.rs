//! One call over slots: its accumulators lie in a column of the table.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use streamfusion_plan::Reason;
use streamfusion_state::codec::{Codec, SectionColumns};
use streamfusion_state::{ColumnId, KeyedTable, Touched};

use super::Parts;
use super::entries::{PhasedEntries, SlotEntries};
use crate::OperatorError;
use crate::group_agg::dispatch::with_native;
use crate::group_agg::distinct::DistinctKey;
use crate::group_agg::extremum::{Extremum, RetractExtremum};
use crate::group_agg::fold::input;
use crate::group_agg::native::Input;
use crate::group_agg::position::{AppendPosition, RetractPosition};
use crate::group_agg::rows::{ACCUMULATE, RETRACT};
use crate::group_agg::support::{Call, FunctionKind, Retraction};
use crate::group_agg::two_phase::{Carried, Merge, ValueVisitor, Visitor, counted_extremum, visit, visit_value};
use crate::group_agg::value::Value;
use crate::group_agg::versions::{Bytes, Output};

/// A call with its state, whatever its function and type.
pub(in crate::group_agg) trait SlotAggregate: Debug + Send {
    /// Takes rows into the slots that `touched` has for them, each slot at most once. `argument` is the argument column, absent for a
    /// call without arguments; `actions` says what each row does, absent if all accumulate.
    fn fold(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError>;

    /// Adds the accumulators of `from` to those of `into`, pair by pair.
    fn merge(&mut self, table: &mut KeyedTable, from: &[u32], into: &[u32]) -> Result<(), OperatorError>;

    /// The values of slots.
    fn values(&mut self, table: &mut KeyedTable, slots: &[u32]) -> Result<ArrayRef, OperatorError>;

    /// The values of parts, as if their slots were merged in this order.
    fn merged_values(&mut self, table: &mut KeyedTable, parts: &Parts<'_>) -> Result<ArrayRef, OperatorError>;

    /// The values of accumulators of so many groups that see these rows and no others.
    fn fresh_values(
        &mut self,
        count: usize,
        groups: &[u32],
        argument: &ArrayRef,
        actions: &[u8],
    ) -> Result<ArrayRef, OperatorError>;

    /// Appends the columns of the accumulators of slots.
    fn accumulators(
        &mut self,
        table: &mut KeyedTable,
        slots: &[u32],
        out: &mut Vec<ArrayRef>,
    ) -> Result<(), OperatorError>;

    /// Adds accumulators, whose columns these are, row by row to those of the slots that `touched` has for them.
    fn fold_accumulators(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        columns: &[ArrayRef],
    ) -> Result<(), OperatorError>;
}

/// The accumulators of a function.
#[derive(Debug)]
struct SlotFold<F: Merge> {
    function: F,
    output: DataType,
    state: ColumnId<F::Accumulator>,
    /// Those of the touched slots, while they are folded.
    touched: Vec<F::Accumulator>,
}

impl<F: Merge> SlotFold<F> {
    fn boxed(function: F, call: &Call, table: &mut KeyedTable, name: String) -> Box<dyn SlotAggregate> {
        let (codec, empty) = (function.codec(&call.output), function.create());
        let state = table.add_column(name, Some(call.definition()), codec, empty);
        Box::new(Self { function, output: call.output.clone(), state, touched: Vec::new() })
    }

    fn take(&mut self, table: &mut KeyedTable, touched: &Touched) -> Result<(), OperatorError> {
        let column = table.column(self.state)?;
        self.touched.clear();
        self.touched.extend(touched.slots.iter().map(|slot| column.take(*slot)));
        Ok(())
    }

    fn put(&mut self, table: &mut KeyedTable, touched: &Touched) -> Result<(), OperatorError> {
        let column = table.column(self.state)?;
        for (slot, accumulator) in touched.slots.iter().zip(self.touched.drain(..)) {
            column.set(*slot, accumulator);
        }
        Ok(())
    }
}

/// Takes rows into accumulators by group.
#[inline]
fn fold_rows<F: Merge>(
    function: &F,
    accumulators: &mut [F::Accumulator],
    groups: &[u32],
    argument: Option<&ArrayRef>,
    actions: Option<&[u8]>,
) -> Result<(), OperatorError> {
    let column = input::<F::Input>(argument)?;
    let nulls = F::Input::skipped(argument);
    if actions.is_none() && nulls.is_none() {
        for (row, group) in groups.iter().enumerate() {
            function.accumulate(&mut accumulators[*group as usize], F::Input::get(&column, row));
        }
        return Ok(());
    }
    for (row, group) in groups.iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            continue;
        }
        let action = actions.map_or(ACCUMULATE, |actions| actions[row]);
        if action & ACCUMULATE != 0 {
            function.accumulate(&mut accumulators[*group as usize], F::Input::get(&column, row));
        } else if action & RETRACT != 0 {
            function.retract(&mut accumulators[*group as usize], F::Input::get(&column, row));
        }
    }
    Ok(())
}

impl<F: Merge> SlotAggregate for SlotFold<F> {
    fn fold(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        self.take(table, touched)?;
        fold_rows(&self.function, &mut self.touched, &touched.groups, argument, actions)?;
        self.put(table, touched)
    }

    fn merge(&mut self, table: &mut KeyedTable, from: &[u32], into: &[u32]) -> Result<(), OperatorError> {
        let column = table.column(self.state)?;
        for (from, into) in from.iter().zip(into) {
            let mut accumulator = column.take(*into);
            self.function.merge(&mut accumulator, column.get(*from));
            column.set(*into, accumulator);
        }
        Ok(())
    }

    fn values(&mut self, table: &mut KeyedTable, slots: &[u32]) -> Result<ArrayRef, OperatorError> {
        let column = table.column(self.state)?;
        let mut values = F::Output::values(slots.len());
        for slot in slots {
            F::Output::push_value(&mut values, self.function.value(column.get(*slot)));
        }
        F::Output::column(values, &self.output)
    }

    fn merged_values(&mut self, table: &mut KeyedTable, parts: &Parts<'_>) -> Result<ArrayRef, OperatorError> {
        let column = table.column(self.state)?;
        let mut values = F::Output::values(parts.ends.len());
        for slots in parts.iter() {
            let mut accumulator = self.function.create();
            slots.iter().for_each(|slot| self.function.merge(&mut accumulator, column.get(*slot)));
            F::Output::push_value(&mut values, self.function.value(&accumulator));
        }
        F::Output::column(values, &self.output)
    }

    fn fresh_values(
        &mut self,
        count: usize,
        groups: &[u32],
        argument: &ArrayRef,
        actions: &[u8],
    ) -> Result<ArrayRef, OperatorError> {
        self.touched.clear();
        self.touched.resize_with(count, || self.function.create());
        fold_rows(&self.function, &mut self.touched, groups, Some(argument), Some(actions))?;
        let mut values = F::Output::values(count);
        for accumulator in self.touched.drain(..) {
            F::Output::push_value(&mut values, self.function.value(&accumulator));
        }
        F::Output::column(values, &self.output)
    }

    fn accumulators(
        &mut self,
        table: &mut KeyedTable,
        slots: &[u32],
        out: &mut Vec<ArrayRef>,
    ) -> Result<(), OperatorError> {
        let column = table.column(self.state)?;
        let codec = self.function.codec(&self.output);
        let mut writer = codec.writer(slots.len());
        slots.iter().for_each(|slot| codec.write(&mut writer, column.get(*slot)));
        codec.finish(writer, out).map_err(|_| OperatorError::TooLarge)
    }

    fn fold_accumulators(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        columns: &[ArrayRef],
    ) -> Result<(), OperatorError> {
        let codec = self.function.codec(&self.output);
        let options = RecordBatchOptions::new().with_row_count(Some(touched.groups.len()));
        let schema = Arc::new(Schema::new(fields(&codec)));
        let wrong = |error: &dyn std::fmt::Display| OperatorError::Input(format!("an accumulator: {error}"));
        let batch = RecordBatch::try_new_with_options(schema, columns.to_vec(), &options).map_err(|e| wrong(&e))?;
        let reader = codec.reader("", &mut SectionColumns::new("", &batch, 0)).map_err(|error| wrong(&error))?;
        self.take(table, touched)?;
        for (row, group) in touched.groups.iter().enumerate() {
            let other = codec.read(&reader, row).map_err(|error| wrong(&error))?;
            self.function.merge(&mut self.touched[*group as usize], &other);
        }
        self.put(table, touched)
    }
}

/// The fields of a codec's columns. Whether one has a NULL where there cannot be one is left to its reader.
fn fields<T>(codec: &impl Codec<T>) -> Vec<Field> {
    let mut fields = Vec::new();
    codec.fields("", &mut fields);
    fields.into_iter().map(|field| field.with_nullable(true)).collect()
}

/// Registers a function with a table, under a name.
struct Register<'a> {
    table: &'a mut KeyedTable,
    name: String,
}

impl Visitor for Register<'_> {
    type Out = Box<dyn SlotAggregate>;

    fn visit<F: Merge>(self, function: F, call: &Call) -> Box<dyn SlotAggregate> {
        SlotFold::boxed(function, call, self.table, self.name)
    }
}

/// Registers MIN or MAX over rows that retract with a table, under a name.
struct RegisterExtremum<'a> {
    extremum: Extremum,
    call: &'a Call,
    register: Register<'a>,
}

impl ValueVisitor for RegisterExtremum<'_> {
    type Out = Box<dyn SlotAggregate>;

    fn visit<I, V>(self) -> Box<dyn SlotAggregate>
    where
        I: Carried<Key = V>,
        V: DistinctKey<Input = I> + Value<Input = I>,
    {
        let Self { extremum, call, register: Register { table, name } } = self;
        PhasedEntries::boxed(RetractExtremum { extremum, value: PhantomData::<V> }, call, table, name)
    }
}

/// The aggregate of a call. Its state is registered with `table`, under `name`.
pub(super) fn register(
    call: &Call,
    table: &mut KeyedTable,
    name: String,
) -> Result<Box<dyn SlotAggregate>, OperatorError> {
    let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
    if let Some((extremum, ty)) = counted_extremum(call) {
        let register = Register { table, name };
        return visit_value(ty, RegisterExtremum { extremum, call, register }).map_err(refused);
    }
    match (call.function, &call.argument) {
        (FunctionKind::Position(..), Some(argument)) => {
            let kept = match &argument.arrow {
                DataType::Utf8 | DataType::Binary => kept::<Bytes>(call, table, name),
                ty => with_native!(ty, kept(call, table, name), None),
            };
            kept.ok_or_else(|| OperatorError::Internal(format!("no aggregate for a column of type {}", argument.arrow)))
        }
        _ => visit(call, Register { table, name }).map_err(refused),
    }
}

fn kept<V: Value>(call: &Call, table: &mut KeyedTable, name: String) -> Option<Box<dyn SlotAggregate>> {
    let value = PhantomData::<V>;
    match call.function {
        FunctionKind::Position(position, Retraction::None) => {
            Some(SlotFold::boxed(AppendPosition { position, value }, call, table, name))
        }
        FunctionKind::Position(position, Retraction::Applied) => {
            Some(SlotEntries::boxed(RetractPosition { position, value }, call, table, name))
        }
        _ => None,
    }
}
