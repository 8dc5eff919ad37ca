//! One input of a join with a condition on time: its keys, its times, and its rows in the table of the operator.
//!
//! Rows are entries of a table that both inputs share, each with a small value beside it; of what that is, and which row is found when, nothing
//! is known here.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType};
use streamfusion_plan::Reason;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_row::types::arrow_type;
use streamfusion_state::codec::Codec;
use streamfusion_state::{
    Identity, KeyedTable, PackedRows, RowEntries, RowEntriesId, RowLayout, Slots, Touched, Value,
};

use crate::definition::describe;
use crate::keys::Keys;
use crate::{OUTPUT_BATCH_BYTES, OperatorError};

/// Which columns count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns<'a> {
    pub(crate) keys: &'a [usize],
    /// The row time; `None` in processing time.
    pub(crate) time: Option<usize>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct TimedInput<V> {
    pub(crate) types: Vec<DataType>,
    /// Whether rows are of different sizes.
    pub(crate) has_text: bool,
    keys: Keys,
    time: Option<usize>,
    rows: RowEntriesId<V>,
    /// Rows of a batch, as they are written.
    packed: PackedRows,
}

/// Rows of a batch on their way into a table.
pub(crate) struct Writing<'a, V> {
    /// The rows of all keys, ..
    pub(crate) entries: &'a mut RowEntries<V>,
    /// .. the slots that they belong to, ..
    pub(crate) slots: &'a Slots,
    /// .. and the rows of the batch.
    pub(crate) packed: &'a PackedRows,
}

/// What there is of the type of an input.
struct Resolved {
    keys: Keys,
    types: Vec<DataType>,
    layout: RowLayout,
}

fn resolve(columns: Columns<'_>, input: &LogicalType) -> Result<Resolved, Reason> {
    let types = input.fields().iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
    let key_type = |key: &usize| Some((input.fields().get(*key)?.ty.clone(), types.get(*key)?.clone()));
    let key_types: Option<(Vec<_>, Vec<_>)> = columns.keys.iter().map(key_type).collect();
    let (logical, arrow) = key_types.ok_or_else(|| Reason::new("a key column does not exist"))?;
    let keys = Keys::try_new(columns.keys, &logical, &arrow)?;
    if let Some(time) = columns.time
        && types.get(time) != Some(&DataType::Timestamp(TimeUnit::Millisecond, None))
    {
        return Err(Reason::new("its row time is not in milliseconds"));
    }
    let layout = RowLayout::try_new(&types).map_err(|error| Reason::new(error.to_string()))?;
    Ok(Resolved { keys, types, layout })
}

/// Whether rows of the type `input` can be kept.
pub(crate) fn supports(columns: Columns<'_>, input: &LogicalType) -> Result<(), Reason> {
    resolve(columns, input).map(drop)
}

/// How keys are made of rows of the type `input`.
pub(crate) fn keys(columns: Columns<'_>, input: &LogicalType) -> Result<Keys, OperatorError> {
    resolve(columns, input).map(|resolved| resolved.keys).map_err(|reason| OperatorError::Internal(reason.to_string()))
}

fn is_text(ty: &DataType) -> bool {
    ty.primitive_width().is_none() && *ty != DataType::Boolean
}

impl<V: Value + Copy> TimedInput<V> {
    /// No rows, in a table without keys. `name` is that of the rows and never changes; `codec` and `nothing` are of what is beside a row.
    pub(crate) fn try_new(
        name: &'static str,
        columns: Columns<'_>,
        input: &LogicalType,
        codec: impl Codec<V>,
        nothing: V,
        table: &mut KeyedTable,
    ) -> Result<Self, OperatorError> {
        let Resolved { keys, types, layout } =
            resolve(columns, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let definitions = input.fields().iter().map(|field| describe(&field.ty)).collect();
        let rows = table.add_row_entries(name, definitions, layout, Identity::None, codec, nothing)?;
        let has_text = types.iter().any(is_text);
        Ok(Self { types, has_text, keys, time: columns.time, rows, packed: PackedRows::default() })
    }

    /// Errors if the columns are not those of the input.
    pub(crate) fn check(&self, batch: &Batch) -> Result<(), OperatorError> {
        if batch.columns().iter().map(|column| column.data_type()).eq(&self.types) {
            return Ok(());
        }
        let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
        Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))))
    }

    /// Loads the keys of a batch.
    pub(crate) fn load(
        &mut self,
        batch: &Batch,
        table: &mut KeyedTable,
        touched: &mut Touched,
    ) -> Result<(), OperatorError> {
        let columns = self.keys.columns(batch)?;
        self.keys.load(&columns, batch.num_rows(), table, touched)
    }

    /// The time of each row, `now` in processing time. A NULL is what Flink reads in its place: 0.
    pub(crate) fn times(&self, batch: &Batch, now: i64) -> Result<ScalarBuffer<i64>, OperatorError> {
        let Some(column) = self.time else { return Ok(vec![now; batch.num_rows()].into()) };
        let times = batch.columns().get(column);
        let times = times.and_then(|column| column.as_primitive_opt::<TimestampMillisecondType>());
        let times = times.ok_or_else(|| OperatorError::Internal("the row time is no column of timestamps".into()))?;
        if times.null_count() == 0 {
            return Ok(times.values().clone());
        }
        Ok(times.iter().map(Option::unwrap_or_default).collect::<Vec<_>>().into())
    }

    /// Packs rows of a batch, by number.
    pub(crate) fn write<'a>(
        &'a mut self,
        batch: &Batch,
        rows: &[u32],
        table: &'a mut KeyedTable,
    ) -> Result<Writing<'a, V>, OperatorError> {
        if self.packed.bytes() > OUTPUT_BATCH_BYTES {
            // an outlier, whose memory is not kept
            self.packed = PackedRows::default();
        }
        let (entries, slots) = table.row_entries(self.rows)?;
        entries.pack(batch.columns(), rows, &mut self.packed)?;
        Ok(Writing { entries, slots, packed: &self.packed })
    }

    /// The rows of all keys.
    pub(crate) fn entries<'a>(&self, table: &'a mut KeyedTable) -> Result<&'a mut RowEntries<V>, OperatorError> {
        Ok(table.row_entries(self.rows)?.0)
    }

    /// The rows at these positions, in this order.
    pub(crate) fn gather(&self, table: &mut KeyedTable, positions: &[u32]) -> Result<Vec<ArrayRef>, OperatorError> {
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.entries(table)?.gather(positions)?)
    }

    /// Bytes taken from one batch to the next, without the table.
    pub(crate) fn bytes(&self) -> usize {
        self.packed.bytes()
    }
}
