//! The accumulators of one call in the bundles of a frame: one per number, dense.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use streamfusion_plan::Reason;
use streamfusion_state::codec::{Codec, SectionColumns};

use super::merge::{Merge, ValueVisitor, Visitor, counted_extremum, visit, visit_value};
use super::view::{Carried, CountMarks, Extremes, FrameSet, SeenMarks, Set};
use crate::OperatorError;
use crate::group_agg::distinct::{DistinctKey, Shared};
use crate::group_agg::extremum::Extremum;
use crate::group_agg::native::Input;
use crate::group_agg::rows::{ACCUMULATE, RETRACT};
use crate::group_agg::support::{Call, Retraction};
use crate::group_agg::value::Value;

/// Rows of a batch with the number that each has in its frame.
#[derive(Debug, Clone)]
pub(super) struct Numbered<'a> {
    pub(super) rows: Range<usize>,
    /// One per row.
    pub(super) numbers: &'a [u32],
    /// How many numbers the frame has by now.
    pub(super) count: usize,
}

/// The accumulators of one call, whatever its function and type.
pub(super) trait Partial: Debug + Send {
    /// Takes rows. `argument` is the argument column, absent for a call without arguments; `actions` says what each row of
    /// the batch does, absent if all accumulate.
    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError>;

    /// Takes accumulators, whose columns these are.
    fn merge(&mut self, rows: &Numbered<'_>, columns: &[ArrayRef]) -> Result<(), OperatorError>;

    /// Merges accumulators with each other: that of each number goes to the one of the number in `numbers`, of which there are `count`.
    fn regroup(&mut self, numbers: &[u32], count: usize) -> Result<(), OperatorError>;

    /// Hands out the columns of all accumulators and forgets them.
    fn take_columns(&mut self, out: &mut Vec<ArrayRef>) -> Result<(), OperatorError>;

    /// Bytes taken.
    fn bytes(&self) -> usize;
}

/// The accumulators of a function.
#[derive(Debug)]
pub(super) struct Accumulators<F: Merge> {
    pub(super) function: F,
    output: DataType,
    pub(super) values: Vec<F::Accumulator>,
}

impl<F: Merge> Accumulators<F> {
    pub(super) fn new(function: F, call: &Call) -> Self {
        Self { function, output: call.output.clone(), values: Vec::new() }
    }

    /// Makes accumulators for so many numbers.
    pub(super) fn grow(&mut self, count: usize) {
        if self.values.len() < count {
            self.values.resize_with(count, || self.function.create());
        }
    }
}

impl<F: Merge> Partial for Accumulators<F> {
    fn fold(
        &mut self,
        rows: &Numbered<'_>,
        argument: Option<&ArrayRef>,
        actions: Option<&[u8]>,
    ) -> Result<(), OperatorError> {
        self.grow(rows.count);
        let empty: ArrayRef = Arc::new(NullArray::new(0));
        let column = F::Input::column(argument.unwrap_or(&empty))?;
        let nulls = F::Input::skipped(argument);
        let (function, values) = (&self.function, self.values.as_mut_slice());
        let rows = rows.rows.clone().zip(rows.numbers);
        if actions.is_none() && nulls.is_none() {
            for (row, number) in rows {
                function.accumulate(&mut values[*number as usize], F::Input::get(&column, row));
            }
            return Ok(());
        }
        for (row, number) in rows {
            let action = actions.map_or(ACCUMULATE, |actions| actions[row]);
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            if action & ACCUMULATE != 0 {
                function.accumulate(&mut values[*number as usize], F::Input::get(&column, row));
            } else if action & RETRACT != 0 {
                function.retract(&mut values[*number as usize], F::Input::get(&column, row));
            }
        }
        Ok(())
    }

    fn merge(&mut self, rows: &Numbered<'_>, columns: &[ArrayRef]) -> Result<(), OperatorError> {
        self.grow(rows.count);
        let codec = self.function.codec(&self.output);
        let fields = fields(&codec);
        let num_rows = columns.first().map_or(0, |column| column.len());
        let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new_with_options(schema, columns.to_vec(), &options)
            .map_err(|error| OperatorError::Input(error.to_string()))?;
        let wrong = |error: &dyn std::fmt::Display| OperatorError::Input(format!("an accumulator: {error}"));
        let reader = codec.reader("", &mut SectionColumns::new("", &batch, 0)).map_err(|error| wrong(&error))?;
        for (row, number) in rows.rows.clone().zip(rows.numbers) {
            let other = codec.read(&reader, row).map_err(|error| wrong(&error))?;
            self.function.merge(&mut self.values[*number as usize], &other);
        }
        Ok(())
    }

    fn regroup(&mut self, numbers: &[u32], count: usize) -> Result<(), OperatorError> {
        self.grow(numbers.len());
        let old = std::mem::take(&mut self.values);
        self.grow(count);
        for (value, number) in old.iter().zip(numbers) {
            self.function.merge(&mut self.values[*number as usize], value);
        }
        Ok(())
    }

    fn take_columns(&mut self, out: &mut Vec<ArrayRef>) -> Result<(), OperatorError> {
        let codec = self.function.codec(&self.output);
        let mut writer = codec.writer(self.values.len());
        for value in &self.values {
            codec.write(&mut writer, value);
        }
        codec.finish(writer, out).map_err(|_| OperatorError::TooLarge)?;
        self.values.clear();
        Ok(())
    }

    fn bytes(&self) -> usize {
        let heap = if std::mem::needs_drop::<F::Accumulator>() {
            self.values.iter().map(streamfusion_state::Value::heap_bytes).sum()
        } else {
            0
        };
        self.values.capacity() * size_of::<F::Accumulator>() + heap
    }
}

/// The fields of a codec's columns. Whether one has a NULL where there cannot be one is left to its reader.
fn fields<T>(codec: &impl Codec<T>) -> Vec<Field> {
    let mut fields = Vec::new();
    codec.fields("", &mut fields);
    fields.into_iter().map(|field| field.with_nullable(true)).collect()
}

/// The types of a call's accumulator columns.
struct ColumnTypes;

impl Visitor for ColumnTypes {
    type Out = Vec<DataType>;

    fn visit<F: Merge>(self, function: F, call: &Call) -> Vec<DataType> {
        fields(&function.codec(&call.output)).into_iter().map(|field| field.data_type().clone()).collect()
    }
}

/// The Arrow types of a call's accumulator columns, or why it has none here.
pub(in crate::group_agg) fn column_types(call: &Call) -> Result<Vec<DataType>, Reason> {
    match counted_extremum(call) {
        Some((extremum, ty)) => visit_value(ty, NewExtremes(extremum)).map(|_| vec![DataType::Binary]),
        None => visit(call, ColumnTypes),
    }
}

/// Accumulators without state.
struct New;

impl Visitor for New {
    type Out = Box<dyn Partial>;

    fn visit<F: Merge>(self, function: F, call: &Call) -> Box<dyn Partial> {
        Box::new(Accumulators::new(function, call))
    }
}

/// The same of MIN or MAX over rows that retract.
struct NewExtremes(Extremum);

impl ValueVisitor for NewExtremes {
    type Out = Box<dyn Partial>;

    fn visit<I, V>(self) -> Box<dyn Partial>
    where
        I: Carried<Key = V>,
        V: DistinctKey<Input = I> + Value<Input = I>,
    {
        Box::new(Extremes::<V>::new(self.0))
    }
}

/// The accumulators of a call without state.
pub(super) fn partial(call: &Call) -> Result<Box<dyn Partial>, Reason> {
    match counted_extremum(call) {
        Some((extremum, ty)) => visit_value(ty, NewExtremes(extremum)),
        None => visit(call, New),
    }
}

/// A DISTINCT set without state.
struct NewSet {
    retraction: Retraction,
    calls: usize,
}

impl ValueVisitor for NewSet {
    type Out = Box<dyn Set>;

    fn visit<I, V>(self) -> Box<dyn Set>
    where
        I: Carried<Key = V>,
        V: DistinctKey<Input = I> + Value<Input = I>,
    {
        match self.retraction {
            Retraction::None => Box::new(FrameSet::<I, SeenMarks>::new(self.calls)),
            Retraction::Applied => Box::new(FrameSet::<I, CountMarks>::new(self.calls)),
        }
    }
}

/// A DISTINCT set without state.
pub(super) fn set(shared: &Shared, retraction: Retraction) -> Result<Box<dyn Set>, Reason> {
    visit_value(&shared.ty, NewSet { retraction, calls: shared.calls })
}
