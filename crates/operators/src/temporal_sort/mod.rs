//! ORDER BY a time attribute, and further columns behind it.
//!
//! By row time, rows wait until the watermark has come up to them; those of one time leave together, sorted by the other columns. By
//! processing time, rows are sorted by the other columns that came until a millisecond was over. Sorted by processing time alone rows
//! go on as they come, and there is no operator: [`is_stateful`].
//!
//! Rows that are not later than the last one that left are dropped, and counted by nobody.
//!
//! Follows: RowTimeSortOperator, ProcTimeSortOperator, Flink 2.2. Differences: none, as long as the clock does not go back.

#[cfg(test)]
mod tests;

use arrow::array::UInt32Array;
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, SortField};
use streamfusion_plan::types::{LogicalType, TimeDomain};
use streamfusion_row::Batch;
use streamfusion_row::types::arrow_type;
use streamfusion_state::canonical::Sections;
use streamfusion_state::codec::Nullable;
use streamfusion_state::{
    BatchKeys, ColumnId, KeyLayout, KeyedState, KeyedTable, RestoreError, RowLayout, StateContext, StateError,
    StateSnapshot, Store, Touched,
};

use crate::bundle::FlushReason;
use crate::group_agg::is_accumulate;
use crate::rank::sort_key::{self, BytesKeys, FixedKeys, SortKeys};
use crate::timed_rows::{TimedRows, row_times};
use crate::{OUTPUT_BATCH_ROWS, Operator, OperatorError, Residence};

/// Name of the table, and of its main section.
const TABLE: &str = "sort";

/// Whether [`open`] sorts rows of `input` exactly as Flink does.
pub fn supports(spec: &node::TemporalSort, input: &LogicalType) -> Result<(), Reason> {
    resolve(spec, input).map(drop)
}

/// Whether it is more than handing on rows as they come.
pub fn is_stateful(spec: &node::TemporalSort, input: &LogicalType) -> bool {
    spec.order_by.len() > 1 || spec.time(input) != Some(TimeDomain::Proctime)
}

/// The operator, with empty state, for rows of the type `input`. Errors if [`supports`] refuses it, or if there is [none](is_stateful).
pub fn open(
    spec: &node::TemporalSort,
    input: &LogicalType,
    context: &StateContext,
) -> Result<Box<dyn Operator>, OperatorError> {
    let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
    let resolved = resolve(spec, input).map_err(refused)?;
    if !is_stateful(spec, input) {
        return Err(OperatorError::Internal("rows that are not sorted".to_owned()));
    }
    if let Some(keys) = FixedKeys::try_new(&resolved.order_by, input) {
        return Ok(Box::new(TemporalSort::try_new(resolved, keys, input, context)?));
    }
    let keys = BytesKeys::try_new(&resolved.order_by, input).map_err(refused)?;
    Ok(Box::new(TemporalSort::try_new(resolved, keys, input, context)?))
}

/// A supported sort.
#[derive(Debug)]
struct Resolved {
    time: TimeDomain,
    column: usize,
    /// The columns behind the time.
    order_by: Vec<SortField>,
    types: Vec<DataType>,
}

fn resolve(spec: &node::TemporalSort, input: &LogicalType) -> Result<Resolved, Reason> {
    let types = input.fields().iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
    RowLayout::try_new(&types).map_err(|error| Reason::new(error.to_string()))?;
    let no_time = || Reason::new("it does not sort by a time attribute first");
    let (first, order_by) = spec.order_by.split_first().ok_or_else(no_time)?;
    let time = spec.time(input).ok_or_else(no_time)?;
    for field in order_by {
        let ty = input.fields().get(field.column).map(|field| &field.ty);
        sort_key::supports(ty.ok_or_else(|| Reason::new("a sort column does not exist"))?)?;
    }
    Ok(Resolved { time, column: first.column, order_by: order_by.to_vec(), types })
}

/// See the [module](self). There is one key.
#[derive(Debug)]
struct TemporalSort<S: SortKeys> {
    spec: Resolved,
    keys: S,
    table: KeyedTable,
    touched: Touched,
    waiting: TimedRows,
    /// By row time: that of the last row that left.
    last_time: ColumnId<Option<i64>>,
    /// The clock, by processing time.
    now: i64,
    /// By processing time: when the first millisecond is over that rows came in.
    over: Option<i64>,
    /// Whether state was restored of which nothing was made yet.
    restored: bool,
    output: Option<(Batch, usize)>,
}

impl<S: SortKeys> TemporalSort<S> {
    fn try_new(spec: Resolved, keys: S, input: &LogicalType, context: &StateContext) -> Result<Self, OperatorError> {
        let mut table = KeyedTable::new(TABLE, KeyLayout::Single, None, context);
        let waiting = TimedRows::try_new("waiting", input, &spec.types, &mut table)?;
        let last_time = table.add_column("last_time", None, Nullable::new("", DataType::Int64), None);
        Ok(Self {
            spec,
            keys,
            table,
            touched: Touched::default(),
            waiting,
            last_time,
            now: i64::MIN,
            over: None,
            restored: false,
            output: None,
        })
    }

    fn recover(&mut self) -> Result<(), OperatorError> {
        if std::mem::take(&mut self.restored) {
            self.waiting.restore(&mut self.table)?;
        }
        Ok(())
    }

    /// Works off the next rows that are due. Returns whether there were any.
    fn next_chunk(&mut self) -> Result<bool, OperatorError> {
        let count = self.waiting.fitting_times(OUTPUT_BATCH_ROWS)?;
        let Some(last) = count.checked_sub(1).and_then(|last| self.waiting.due().get(last)).copied() else {
            return Ok(false);
        };
        let times: Vec<i64> = self.waiting.due().iter().take(count).map(|row| row.time).collect();
        let batch = self.waiting.leave(&mut self.table, count)?;
        self.output = Some((self.sorted(batch, &times)?, 0));
        if self.spec.time == TimeDomain::Rowtime {
            self.table.column(self.last_time)?.set(last.slot, Some(last.time));
            self.table.commit(&[last.slot]);
        }
        Ok(true)
    }

    /// The rows of a batch, those of one time sorted.
    fn sorted(&self, batch: Batch, times: &[i64]) -> Result<Batch, OperatorError> {
        if self.spec.order_by.is_empty() || times.windows(2).all(|pair| pair[0] != pair[1]) {
            return Ok(batch);
        }
        let encoded = self.keys.encode(batch.columns(), batch.num_rows())?;
        let mut rows: Vec<(S::Key, u32)> =
            (0..).take(times.len()).map(|row| (S::key(&encoded, row as usize), row)).collect();
        let mut rest = rows.as_mut_slice();
        for run in times.chunk_by(|a, b| a == b) {
            let (rows, behind) = rest.split_at_mut(run.len());
            // by key, and equal ones as they came
            rows.sort_unstable();
            rest = behind;
        }
        Ok(batch.take(&UInt32Array::from_iter_values(rows.iter().map(|(_, row)| *row)))?)
    }
}

impl<S: SortKeys> KeyedState for TemporalSort<S> {
    fn table(&self) -> &'static str {
        TABLE
    }

    /// No row may wait outside of state: the engine flushes first.
    fn snapshot(&mut self) -> Box<dyn StateSnapshot> {
        debug_assert!(self.waiting.is_stored());
        self.table.snapshot()
    }

    fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        self.restored = true;
        self.table.restore(sections)
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn attach(&mut self, store: &Store) -> Result<bool, StateError> {
        self.restored = true;
        KeyedState::attach(&mut self.table, store)
    }

    fn write_back(&mut self) -> Result<(), StateError> {
        self.table.write_back()
    }
}

impl<S: SortKeys> Operator for TemporalSort<S> {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.recover()?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if batch.kinds().is_some_and(|kinds| !kinds.values().iter().all(|kind| is_accumulate(*kind))) {
            return Err(OperatorError::UnexpectedRetraction);
        }
        if !batch.columns().iter().map(|column| column.data_type()).eq(&self.spec.types) {
            return Err(OperatorError::Input("rows of other types than the plan says".to_owned()));
        }
        self.table.load(BatchKeys::Single(batch.num_rows()), &mut self.touched)?;
        let slot = self.touched.slots.first().copied();
        let slot = slot.ok_or_else(|| OperatorError::Internal("a table without a key".to_owned()))?;
        let number = self.waiting.add(&batch)?;
        match self.spec.time {
            TimeDomain::Rowtime => {
                let last = *self.table.column(self.last_time)?.get(slot);
                for (row, time) in (0..).zip(row_times(&batch, self.spec.column)?.iter()) {
                    if last.is_none_or(|last| *time > last) {
                        self.waiting.push(number, row, *time, slot);
                    }
                }
            }
            TimeDomain::Proctime => {
                for (row, _) in (0..).zip(0..batch.num_rows()) {
                    self.waiting.push(number, row, 0, slot);
                }
                self.over.get_or_insert(self.now.wrapping_add(1));
            }
        }
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        loop {
            if let Some((batch, row)) = &mut self.output {
                let rows = (batch.num_rows() - *row).min(OUTPUT_BATCH_ROWS);
                if rows > 0 {
                    let output = batch.slice(*row, rows)?;
                    *row += rows;
                    return Ok(Some(output));
                }
                self.output = None;
            }
            if !self.next_chunk()? {
                self.waiting.settle()?;
                return Ok(None);
            }
        }
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        if reason == FlushReason::Checkpoint {
            self.recover()?;
            self.waiting.store(&mut self.table)?;
        }
        Ok(())
    }

    fn watermark(&mut self, watermark_ms: i64) -> Result<Option<i64>, OperatorError> {
        if self.spec.time == TimeDomain::Rowtime {
            self.recover()?;
            self.waiting.advance(watermark_ms);
        }
        Ok(Some(watermark_ms))
    }

    fn timer(&self) -> Option<i64> {
        match self.spec.time {
            TimeDomain::Rowtime => None,
            // what there is after a restore is not known before the first call
            TimeDomain::Proctime if self.restored => Some(0),
            TimeDomain::Proctime => Some(self.over.unwrap_or(i64::MAX)),
        }
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        if self.spec.time == TimeDomain::Proctime {
            let restored = self.restored;
            self.recover()?;
            self.now = now_ms;
            if restored || self.over.is_some_and(|over| over <= now_ms) {
                self.over = None;
                self.waiting.advance(i64::MAX);
            }
        }
        Ok(None)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }

    fn bundle_bytes(&self) -> usize {
        self.waiting.bytes()
    }
}
