//! Joins in processing time: a left row meets what its key has on the right side when it comes.
//!
//! The right input is a changelog of which the last row of each key is kept; a left row goes out at once, or not at all. What time it is
//! only says when state has been idle for too long.
//!
//! Invariant: between batches a key is in the table exactly if it has a row.
//!
//! Follows: TemporalProcessTimeJoinOperator, Flink 2.2. Differences: the clock is read once per batch.

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, JoinType};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::{KeyedState, KeyedTable, RowLayout, RowsId, StateContext, Touched};

use super::timers::{Retention, Timers};
use crate::definition::describe;
use crate::join::condition::{self, Condition, Operand, Pairs};
use crate::join::limits::Limits;
use crate::join::output::{NO_ROW, Output, Shape, Source};
use crate::join::{Input, is_accumulate, keys_agree};
use crate::keys::Keys;
use crate::row_per_key;
use crate::{Operator, OperatorError, Residence};

/// Name of the table, and of the rows in it. Names never change.
const TABLE: &str = "latest_join";
const RIGHT: &str = "right";

/// Whether [`LatestJoin`] does over rows of these types exactly what Flink does.
pub(super) fn supports(spec: &node::TemporalJoin, left: &LogicalType, right: &LogicalType) -> Result<(), Reason> {
    let join = &spec.join;
    row_per_key::resolve(&join.left_keys, left)?;
    row_per_key::supports(&join.right_keys, right)?;
    keys_agree([&join.left_keys, &join.right_keys], &join.filter_nulls, left, right)?;
    join.condition.as_ref().map_or(Ok(()), condition::supports)
}

/// One input: its keys, and the types of its columns.
#[derive(Debug)]
struct Side {
    keys: Keys,
    types: Vec<DataType>,
}

impl Side {
    fn try_new(keys: &[usize], input: &LogicalType) -> Result<Self, Reason> {
        row_per_key::resolve(keys, input).map(|(keys, types)| Self { keys, types })
    }

    /// Loads the keys of a batch. Errors if its columns are not those of the input.
    fn load(&mut self, batch: &Batch, table: &mut KeyedTable, touched: &mut Touched) -> Result<(), OperatorError> {
        if !batch.columns().iter().map(|column| column.data_type()).eq(&self.types) {
            let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
            return Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))));
        }
        let columns = self.keys.columns(batch)?;
        self.keys.load(&columns, batch.num_rows(), table, touched)
    }
}

/// See the [module](self). The output has the columns of the left input and, behind them, those of the right one.
#[derive(Debug)]
pub(super) struct LatestJoin {
    is_outer: bool,
    /// The clock.
    now: i64,
    left: Side,
    right: Side,
    table: KeyedTable,
    rows: RowsId,
    timers: Timers,
    condition: Option<Condition>,
    limits: Limits,
    touched: Touched,
    output: Output,
    /// The rows that output refers to.
    sources: [Source; 2],
    /// Whether timers have what the table has: it may have been restored.
    is_indexed: bool,
}

impl LatestJoin {
    pub(super) fn with_limits(
        spec: &node::TemporalJoin,
        left: &LogicalType,
        right: &LogicalType,
        context: &StateContext,
        limits: Limits,
    ) -> Result<Self, OperatorError> {
        let refused = |reason: Reason| OperatorError::Internal(reason.to_string());
        let left_side = Side::try_new(&spec.join.left_keys, left).map_err(refused)?;
        let right_side = Side::try_new(&spec.join.right_keys, right).map_err(refused)?;
        let mut table = KeyedTable::new(TABLE, right_side.keys.layout(), None, context);
        let definitions = right.fields().iter().map(|field| describe(&field.ty)).collect();
        let rows = table.add_rows(RIGHT, definitions, RowLayout::try_new(&right_side.types)?);
        let condition = |condition| Condition::try_new(condition, left.fields().len());
        Ok(Self {
            is_outer: spec.join.join_type == JoinType::Left,
            now: 0,
            left: left_side,
            right: right_side,
            rows,
            timers: Timers::new(Retention::new(spec.retention_ms), &mut table),
            table,
            condition: spec.join.condition.as_ref().map(condition).transpose()?,
            limits,
            touched: Touched::default(),
            output: Output::new(limits),
            sources: [Source::default(), Source::default()],
            is_indexed: false,
        })
    }

    /// Takes the timers of what was restored, before the first batch or timer.
    fn index(&mut self) -> Result<(), OperatorError> {
        if std::mem::replace(&mut self.is_indexed, true) {
            return Ok(());
        }
        let mut slots = Vec::with_capacity(self.table.len());
        self.table.for_each_slot(|slot, _| slots.push(slot));
        slots.into_iter().try_for_each(|slot| self.timers.restored(&mut self.table, slot))
    }

    /// Joins the rows of a batch. What goes out is in `output`.
    fn join(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let Self { left, table, rows, timers, condition, limits, touched, output, now, .. } = self;
        left.load(batch, table, touched)?;
        let kept = table.rows(*rows)?;
        let mut found = Vec::new();
        let place = |slot: &u32| {
            // no more keys than rows, which are counted in 31 bits
            kept.has(*slot).then(|| {
                found.push(*slot);
                found.len() as u32 - 1
            })
        };
        let places: Vec<Option<u32>> = touched.slots.iter().map(place).collect();
        let columns = if found.is_empty() { Vec::new() } else { kept.gather(&found)? };
        for slot in &found {
            timers.used(table, *slot, *now)?;
        }
        table.commit(&found);
        for (slot, place) in touched.slots.iter().zip(&places) {
            if place.is_none() {
                // nothing is kept of left rows
                table.remove(*slot)?;
            }
        }
        let place_of = |key: &u32| places.get(*key as usize).copied().flatten();
        let passes = match condition {
            Some(condition) if !found.is_empty() => {
                let mut pairs = Pairs::default();
                for (row, place) in (0..).zip(touched.groups.iter().map(place_of)) {
                    if let Some(place) = place {
                        pairs.input.push(row);
                        pairs.other.push(place);
                    }
                }
                let left_bytes = condition.row_bytes(Input::Left, batch.columns(), batch.num_rows(), limits);
                let right_bytes = condition.row_bytes(Input::Right, &columns, found.len(), limits);
                let of_left = Operand { columns: batch.columns(), row_bytes: &left_bytes };
                let of_right = Operand { columns: &columns, row_bytes: &right_bytes };
                Some(condition.passes(Input::Left, of_left, of_right, &mut pairs, limits)?)
            }
            _ => None,
        };
        let kinds = batch.kinds().map(|kinds| kinds.values());
        let mut pair = 0;
        for (row, key) in (0_u32..).zip(&touched.groups) {
            let mut place = place_of(key);
            if place.is_some() {
                if passes.as_ref().is_some_and(|passes| !passes.value(pair)) {
                    place = None;
                }
                pair += 1;
            }
            if place.is_some() || self.is_outer {
                let kind = kinds.and_then(|kinds| kinds.get(row as usize)).copied().unwrap_or(RowKind::Insert as u8);
                output.push_kind(kind, row, place.unwrap_or(NO_ROW));
            }
        }
        self.sources = [
            Source::new(batch.columns().to_vec(), batch.num_rows(), limits),
            Source::new(columns, found.len(), limits),
        ];
        Ok(())
    }

    /// Keeps the last row of each key of a batch, unless that one takes back what there was.
    fn keep(&mut self, batch: &Batch) -> Result<(), OperatorError> {
        let Self { right, table, rows, timers, touched, now, .. } = self;
        right.load(batch, table, touched)?;
        let kinds = batch.kinds().map(|kinds| kinds.values());
        let adds = |row: usize| kinds.and_then(|kinds| kinds.get(row)).is_none_or(|kind| is_accumulate(*kind));
        // per key: its last row, and whether the key had none in between
        let mut last: Vec<(u32, bool)> = vec![(0, false); touched.slots.len()];
        for (row, key) in touched.groups.iter().enumerate() {
            if let Some((last, was_gone)) = last.get_mut(*key as usize) {
                // rows are counted in 31 bits
                *last = row as u32;
                *was_gone |= !adds(row);
            }
        }
        let (mut stored, mut slots) = (Vec::new(), Vec::new());
        for (slot, (row, was_gone)) in touched.slots.iter().zip(last) {
            if was_gone {
                timers.unused(table, *slot)?;
            }
            if adds(row as usize) {
                timers.used(table, *slot, *now)?;
                stored.push(row);
                slots.push(*slot);
            } else {
                table.remove(*slot)?;
            }
        }
        table.rows(*rows)?.store(batch.columns(), &stored, &slots)?;
        table.commit(&slots);
        Ok(())
    }
}

impl Operator for LatestJoin {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.index()?;
        if batch.num_rows() == 0 { Ok(()) } else { self.join(&batch) }
    }

    fn push_second(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.index()?;
        if batch.num_rows() == 0 { Ok(()) } else { self.keep(&batch) }
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        let types: [&[_]; 2] = [&self.left.types, &self.right.types];
        let [left, right] = &self.sources;
        let batch = self.output.pull(Shape::Both, Input::Left, [left, right], types)?;
        if batch.is_none() {
            self.sources = [Source::default(), Source::default()];
        }
        Ok(batch)
    }

    fn ignores_second_watermarks(&self) -> bool {
        true
    }

    fn timer(&self) -> Option<i64> {
        self.timers.first_idle()
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        if self.timers.cleans_up() {
            self.index()?;
            self.now = now_ms;
            while let Some(slot) = self.timers.next_idle(&mut self.table, now_ms)? {
                self.table.remove(slot)?;
            }
        }
        Ok(None)
    }

    fn state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(&mut self.table)
    }

    fn residence(&self) -> Residence {
        Residence::Resident
    }

    fn bundle_bytes(&self) -> usize {
        let Touched { groups, slots } = &self.touched;
        self.timers.bytes()
            + self.output.bytes()
            + self.sources.iter().map(Source::bytes).sum::<usize>()
            + (groups.capacity() + slots.capacity()) * size_of::<u32>()
    }
}
