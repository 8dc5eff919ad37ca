//! The values of the calls for a chunk of rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::{compile, evaluate};
use streamfusion_plan::node::{self, AggCall, OverFrame};
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::{KeyedTable, Touched};

use super::chunk::Chunk;
use super::frame::{Extent, Frame};
use super::support::with_constants;
use crate::OperatorError;
use crate::calc::record_batch;
use crate::group_agg::{Emit, Running, RunningWindow, Steps};

/// The calls, and the frame that rows leave.
#[derive(Debug)]
pub(super) struct Evaluation {
    running: Running,
    form: Form,
    /// Those that calls have as arguments.
    constants: Vec<Option<Arc<dyn PhysicalExpr>>>,
    /// Per row, if rows of one time have one value: the number of its value.
    values: Vec<u32>,
}

#[derive(Debug)]
enum Form {
    /// No row leaves, and each has a value of its own.
    EachRow,
    /// No row leaves, and rows of one time and key have one value.
    EachTime,
    /// Rows leave.
    Bounded(Box<Frame>),
}

impl Evaluation {
    /// Registers with `table` what is kept.
    pub(super) fn try_new(
        spec: &node::OverAggregate,
        calls: &[AggCall],
        frame: OverFrame,
        input: &LogicalType,
        types: &[DataType],
        table: &mut KeyedTable,
    ) -> Result<Self, OperatorError> {
        let window = RunningWindow { retracts: frame.is_bounded(), constants: &spec.constants };
        let running = Running::try_new(calls, window, &with_constants(spec, input), table)?;
        let form = match (Extent::of(frame), frame) {
            (Some(extent), _) => {
                let frame = Frame::try_new(extent, running.columns(), input, types, table)?;
                Form::Bounded(Box::new(frame))
            }
            (None, OverFrame::UnboundedRange) => Form::EachTime,
            (None, _) => Form::EachRow,
        };
        let read = running.columns();
        let constant = |(number, constant): (usize, &node::Constant)| {
            let rex = Rex::Literal { value: constant.value.clone(), ty: constant.ty.clone() };
            read.contains(&(types.len() + number)).then(|| compile(&rex, "", &|_| None)).transpose()
        };
        let constants = spec.constants.iter().enumerate().map(constant).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { running, form, constants, values: Vec::new() })
    }

    /// The columns that calls read of rows and of constants behind them.
    pub(super) fn columns(&self) -> Vec<usize> {
        self.running.columns()
    }

    /// Where the keys of the next chunk are named.
    pub(super) fn steps(&mut self) -> &mut Steps {
        self.running.steps()
    }

    /// The rows of a chunk, with the values of the calls behind their columns. Its keys have been named.
    pub(super) fn evaluate(
        &mut self,
        table: &mut KeyedTable,
        batch: &Batch,
        chunk: &Chunk<'_>,
    ) -> Result<Batch, OperatorError> {
        let Self { running, form, constants, values } = self;
        let mut results = match form {
            Form::EachRow => {
                running.steps().accumulate_each(chunk.groups);
                running.run(table, &with_columns(batch, constants)?)?
            }
            Form::EachTime => {
                let steps = running.steps();
                for run in chunk.runs() {
                    accumulate(run, chunk, steps);
                }
                running.run(table, &with_columns(batch, constants)?)?
            }
            Form::Bounded(frame) => {
                frame.steps(table, chunk, running.steps())?;
                let rows = frame.rows(table, batch)?;
                let results = running.run(table, &with_columns(&rows, constants)?)?;
                frame.end(table, batch, chunk, running.steps().slots())?;
                results
            }
        };
        if form.shares_values() && results.first().is_some_and(|values| values.len() != batch.num_rows()) {
            values.clear();
            for (number, run) in (0..).zip(chunk.runs()) {
                values.resize(run.end, number);
            }
            let values = UInt32Array::from_iter_values(values.iter().copied());
            for column in &mut results {
                *column = take(column, &values, None)?;
            }
        }
        let columns = batch.columns().iter().cloned().chain(results).collect();
        Ok(Batch::try_new(columns, batch.num_rows(), None)?)
    }

    /// [`Evaluation::evaluate`] for rows in the order in which they came, which were loaded as `touched`.
    pub(super) fn evaluate_loaded(
        &mut self,
        table: &mut KeyedTable,
        batch: &Batch,
        touched: &mut Touched,
    ) -> Result<Batch, OperatorError> {
        let steps = self.running.steps();
        if matches!(self.form, Form::EachRow) {
            steps.accumulate_all(touched);
            let results = self.running.run(table, &with_columns(batch, &self.constants)?)?;
            let columns = batch.columns().iter().cloned().chain(results).collect();
            return Ok(Batch::try_new(columns, batch.num_rows(), None)?);
        }
        steps.clear();
        for slot in &touched.slots {
            steps.add_group(*slot);
        }
        self.evaluate(table, batch, &Chunk { groups: &touched.groups, times: &[] })
    }

    /// Bytes taken beside the table.
    pub(super) fn bytes(&self) -> usize {
        let frame = match &self.form {
            Form::Bounded(frame) => frame.bytes(),
            Form::EachRow | Form::EachTime => 0,
        };
        self.running.bytes() + self.values.capacity() * size_of::<u32>() + frame
    }
}

impl Form {
    /// Whether rows of one time and key have one value.
    fn shares_values(&self) -> bool {
        match self {
            Self::EachRow => false,
            Self::EachTime => true,
            Self::Bounded(frame) => frame.shares_values(),
        }
    }
}

/// The rows of one time and key; the last one hands out the value of all.
fn accumulate(run: Range<usize>, chunk: &Chunk<'_>, steps: &mut Steps) {
    let Some((last, others)) = chunk.groups.get(run).and_then(<[u32]>::split_last) else { return };
    for group in others {
        steps.accumulate(*group, Emit::Nothing);
    }
    steps.accumulate(*last, Emit::Values);
}

/// The columns of the batch, and a column per constant behind them.
fn with_columns(batch: &Batch, constants: &[Option<Arc<dyn PhysicalExpr>>]) -> Result<Batch, OperatorError> {
    if constants.iter().all(Option::is_none) {
        return Ok(batch.clone());
    }
    let rows = record_batch(&[], batch.num_rows())?;
    let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
    for constant in constants {
        columns.push(match constant {
            Some(constant) => evaluate(constant, &rows)?,
            None => Arc::new(NullArray::new(batch.num_rows())),
        });
    }
    Ok(Batch::try_new(columns, batch.num_rows(), None)?)
}
