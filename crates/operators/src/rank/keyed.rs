//! The partitions of a Top-N as keys of a table, and the last rank of each.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type};
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, RankRange};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::types::arrow_type;
use streamfusion_state::codec::Nullable;
use streamfusion_state::{ColumnId, KeyedTable, StateClock, StateContext, StateTtl, Touched};

use crate::OperatorError;
use crate::keys::Keys;

/// The partitions that the rows of a batch belong to.
#[derive(Debug)]
pub(super) struct Partitions {
    keys: Keys,
    pub(super) table: KeyedTable,
    pub(super) touched: Touched,
    pub(super) types: Vec<DataType>,
}

/// The partition keys of rows of the type `input`, and the Arrow types of its columns.
pub(super) fn resolve(partition: &[usize], input: &LogicalType) -> Result<(Keys, Vec<DataType>), Reason> {
    let types = input.fields().iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
    let key_types: Option<(Vec<_>, Vec<_>)> =
        partition.iter().map(|key| Some((input.fields().get(*key)?.ty.clone(), types.get(*key)?.clone()))).collect();
    let (logical, arrow) = key_types.ok_or_else(|| Reason::new("a partition column does not exist"))?;
    Ok((Keys::try_new(partition, &logical, &arrow)?, types))
}

impl Partitions {
    pub(super) fn try_new(
        table: &'static str,
        spec: &node::Rank,
        input: &LogicalType,
        context: &StateContext,
    ) -> Result<Self, OperatorError> {
        let (keys, types) =
            resolve(&spec.partition, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let table = KeyedTable::new(table, keys.layout(), StateTtl::of_millis(spec.ttl_ms), context);
        Ok(Self { keys, table, touched: Touched::default(), types })
    }

    /// Begins a frame of these batches: numbers the partitions of their rows, one batch after the other.
    pub(super) fn load(&mut self, batches: &[Batch]) -> Result<(), OperatorError> {
        for batch in batches {
            let types = batch.columns().iter().map(|column| column.data_type());
            if !types.eq(&self.types) {
                let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
                return Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))));
            }
        }
        self.keys.load_batches(batches, &mut self.table, &mut self.touched)
    }
}

/// The last rank of each partition that is emitted.
#[derive(Debug)]
pub(super) enum RankEnds {
    /// One for all.
    Constant(i64),
    /// What the first row of the partition has in a column.
    Variable {
        /// The column.
        column: usize,
        /// Where it is kept.
        state: ColumnId<Option<i64>>,
        /// With a time-to-live.
        life: Option<Life>,
        /// Those of the batch, by the number of the partition.
        ends: Vec<i64>,
    },
}

/// Until when a last rank is kept. In Flink it is a state of its own, which is written once.
#[derive(Debug)]
pub(super) struct Life {
    ttl: StateTtl,
    clock: StateClock,
    /// When it was written, in milliseconds since the epoch.
    written: ColumnId<Option<i64>>,
}

impl Life {
    fn is_over(&self, written: Option<i64>, now_ms: i64) -> bool {
        written.is_none_or(|written| self.ttl.deadline(written) <= now_ms)
    }
}

/// Rows that Flink's buffer takes whatever their sort key, if the last rank is not constant.
const DEFAULT_TOPN_SIZE: usize = 100;

impl RankEnds {
    /// Registers in `table` what is kept.
    pub(super) fn new(spec: &node::Rank, table: &mut KeyedTable, clock: &StateClock) -> Self {
        match spec.range {
            RankRange::Constant { end, .. } => Self::Constant(end),
            RankRange::Variable { end_column } => {
                let state = table.add_column("rank_end", None, Nullable::new("", DataType::Int64), None);
                let life = StateTtl::of_millis(spec.ttl_ms).map(|ttl| {
                    let codec = Nullable::new("", DataType::Int64);
                    Life {
                        ttl,
                        clock: clock.clone(),
                        written: table.add_column("rank_end_last_write", None, codec, None),
                    }
                });
                Self::Variable { column: end_column, state, life, ends: Vec::new() }
            }
        }
    }

    /// How many rows the buffer of a partition takes whatever their sort key.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Constant(end) => usize::try_from(*end).unwrap_or_default(),
            Self::Variable { .. } => DEFAULT_TOPN_SIZE,
        }
    }

    /// Whether something is kept of a partition that has no rows.
    pub(super) fn outlives_rows(&self) -> bool {
        matches!(self, Self::Variable { .. })
    }

    /// Begins a frame of these batches, whose partitions were loaded.
    pub(super) fn load(
        &mut self,
        batches: &[Batch],
        touched: &Touched,
        table: &mut KeyedTable,
    ) -> Result<(), OperatorError> {
        let Self::Variable { column, state, life, ends } = self else { return Ok(()) };
        let values = table.column(*state)?;
        let mut known: Vec<Option<i64>> = touched.slots.iter().map(|slot| *values.get(*slot)).collect();
        if let Some(life) = life {
            let now_ms = life.clock.now();
            let written = table.column(life.written)?;
            for (end, slot) in known.iter_mut().zip(&touched.slots) {
                if life.is_over(*written.get(*slot), now_ms) {
                    // the first row of the batch says a new one
                    *end = None;
                    written.set(*slot, Some(now_ms));
                }
            }
        }
        let values = table.column(*state)?;
        let mut groups = touched.groups.iter();
        for batch in batches {
            let read = read_ends(batch, *column)?;
            for (row, group) in groups.by_ref().take(batch.num_rows()).enumerate() {
                if let Some(end @ None) = known.get_mut(*group as usize)
                    && let Some(slot) = touched.slots.get(*group as usize)
                {
                    *end = Some(read(row));
                    values.set(*slot, *end);
                }
            }
        }
        *ends = known.into_iter().flatten().collect();
        Ok(())
    }

    /// The last rank of a partition of the batch.
    #[inline]
    pub(super) fn of(&self, group: u32) -> i64 {
        match self {
            Self::Constant(end) => *end,
            Self::Variable { ends, .. } => ends.get(group as usize).copied().unwrap_or_default(),
        }
    }
}

/// What the rows of a batch say about their last rank.
fn read_ends(batch: &Batch, column: usize) -> Result<Box<dyn Fn(usize) -> i64 + '_>, OperatorError> {
    let input = batch.columns().get(column);
    let input = input.ok_or_else(|| OperatorError::Input("the column of the last rank is missing".to_owned()))?;
    // of NULL Flink reads the zero that lies in its place
    let valid = |row: usize| input.is_valid(row);
    Ok(match input.data_type() {
        DataType::Int64 => {
            let values = input.as_primitive::<Int64Type>();
            Box::new(move |row| if valid(row) { values.value(row) } else { 0 })
        }
        DataType::Int32 => {
            let values = input.as_primitive::<Int32Type>();
            Box::new(move |row| if valid(row) { values.value(row).into() } else { 0 })
        }
        DataType::Int16 => {
            let values = input.as_primitive::<Int16Type>();
            Box::new(move |row| if valid(row) { values.value(row).into() } else { 0 })
        }
        other => return Err(OperatorError::Input(format!("a last rank of type {other}"))),
    })
}
