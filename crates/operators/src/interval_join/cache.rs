//! The rows of one input, by join key and time: what the other input finds, until they are too old.
//!
//! Each row has its time, and whether a pair with it went out; where it lies is [`kept`](super::kept)'s. A key has at
//! most one clean-up timer per input, and the key is in the table as long as it has one: rows never outlive their timer.
//!
//! Follows: TimeIntervalJoin (leftCache, rightCache, registerCleanUpTimer, calExpirationTime), Flink 2.2.

use arrow::array::Array;
use arrow::datatypes::DataType;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::Batch;
use streamfusion_state::codec::{Mapped, Nullable, Required};
use streamfusion_state::{ColumnId, KeyedTable, Touched, Value};

use super::kept::{self, Kept, Place, Recent};
use crate::OperatorError;
use crate::by_key::ByKey;
use crate::changelog::RowRef;
use crate::time_index::{TimeIndex, TimedRow};
use crate::timed_input::{Columns, TimedInput};

/// Names of what an input has in the table; they never change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub(super) rows: &'static str,
    pub(super) timer: &'static str,
}

/// What is kept beside a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cached {
    pub(super) time: i64,
    /// Whether a pair with it went out; kept only where it would be padded else.
    pub(super) emitted: bool,
}

impl Value for Cached {}

/// How an input is joined.
#[derive(Debug, Clone)]
pub(super) struct Spec<'a> {
    pub(super) columns: Columns<'a>,
    /// Per key column whether NULL matches nothing.
    pub(super) filter_nulls: &'a [bool],
    /// How much later than a row of this input a row of the other one may be; may be negative.
    pub(super) relative_ms: i64,
    /// How much longer rows are kept than that.
    pub(super) min_clean_up_interval_ms: i64,
    /// Whether rows that match nothing go out beside NULLs.
    pub(super) padded: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) input: TimedInput<Cached>,
    pub(super) padded: bool,
    pub(super) relative_ms: i64,
    /// Up to which time rows of this input have expired, as far as anybody looked.
    pub(super) expiration: i64,
    pub(super) index: TimeIndex<Place>,
    /// Rows that the table does not have yet.
    pub(super) recent: Recent,
    min_clean_up_interval_ms: i64,
    /// Key columns in which a NULL matches nothing.
    null_filtered: Vec<usize>,
    timer: ColumnId<Option<i64>>,
    /// Scratch.
    by_key: ByKey,
}

impl Cache {
    /// No rows, in a table without keys.
    pub(super) fn try_new(
        names: Names,
        spec: &Spec<'_>,
        input: &LogicalType,
        table: &mut KeyedTable,
    ) -> Result<Self, OperatorError> {
        let codec =
            (Required::<i64>::new("time", DataType::Int64), Required::<bool>::new("emitted", DataType::Boolean));
        let codec = Mapped::new(
            codec,
            |cached: &Cached| (cached.time, cached.emitted),
            |(time, emitted)| Ok(Cached { time, emitted }),
        );
        let nothing = Cached { time: 0, emitted: false };
        let input = TimedInput::try_new(names.rows, spec.columns, input, codec, nothing, table)?;
        let timer = table.add_column(names.timer, None, Nullable::<i64>::new("", DataType::Int64), None);
        let filtered = spec.columns.keys.iter().zip(spec.filter_nulls).filter(|(_, filtered)| **filtered);
        Ok(Self {
            input,
            padded: spec.padded,
            relative_ms: spec.relative_ms,
            expiration: 0,
            index: TimeIndex::default(),
            recent: Recent::default(),
            min_clean_up_interval_ms: spec.min_clean_up_interval_ms.max(0),
            null_filtered: filtered.map(|(key, _)| *key).collect(),
            timer,
            by_key: ByKey::default(),
        })
    }

    /// Whether a NULL in the key of this row keeps it from matching anything.
    pub(super) fn matches_nothing(&self, batch: &Batch, row: u32) -> bool {
        let null = |column: &usize| batch.columns().get(*column).is_some_and(|column| column.is_null(row as usize));
        self.null_filtered.iter().any(null)
    }

    /// Whether [`Cache::matches_nothing`] can be true in this batch.
    pub(super) fn has_filtered_nulls(&self, batch: &Batch) -> bool {
        let nulls = |column: &usize| batch.columns().get(*column).is_some_and(|column| column.null_count() > 0);
        self.null_filtered.iter().any(nulls)
    }

    /// Up to which time rows have expired at `now`.
    pub(super) fn expires(&self, now: i64) -> i64 {
        if now == i64::MAX { i64::MAX } else { now.wrapping_sub(self.relative_ms).wrapping_sub(1) }
    }

    /// Whether a row of this time may still be asked for.
    #[inline]
    pub(super) fn keeps(&self, time: i64, now: i64) -> bool {
        now < time.wrapping_add(self.relative_ms)
    }

    /// The rows of all keys.
    pub(super) fn kept<'a>(&'a mut self, table: &'a mut KeyedTable) -> Result<Kept<'a>, OperatorError> {
        Ok(Kept { recent: &mut self.recent, entries: self.input.entries(table)? })
    }

    /// Moves all rows into the table, in front of a checkpoint.
    pub(super) fn store_all(&mut self, table: &mut KeyedTable) -> Result<(), OperatorError> {
        kept::store(&mut self.recent, &mut self.index, &mut self.input, table)
    }

    /// Lets go of memory that few rows need. Nobody may know where rows lie.
    pub(super) fn settle(&mut self) -> Result<(), OperatorError> {
        kept::settle(&mut self.recent, &mut self.index)
    }

    /// When the rows of a slot are to be cleaned up.
    pub(super) fn timer(&self, table: &mut KeyedTable, slot: u32) -> Result<Option<i64>, OperatorError> {
        Ok(*table.column(self.timer)?.get(slot))
    }

    pub(super) fn clear_timer(&self, table: &mut KeyedTable, slot: u32) -> Result<(), OperatorError> {
        table.column(self.timer)?.set(slot, None);
        Ok(())
    }

    /// Sets the timer of a slot whose first row has this time; says when it is due.
    pub(super) fn register(&self, table: &mut KeyedTable, slot: u32, time: i64) -> Result<i64, OperatorError> {
        let due = time.wrapping_add(self.relative_ms).wrapping_add(self.min_clean_up_interval_ms).wrapping_add(1);
        table.column(self.timer)?.set(slot, Some(due));
        Ok(due)
    }

    /// Keeps the rows of a batch that may still be asked for, in their order. `emitted` says per row whether a pair with it went
    /// out, and is empty where that is not kept; `timers` gets the timers that are set, with their slots.
    pub(super) fn store(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        batch: &Batch,
        arrived: &Arrived<'_>,
        timers: &mut Vec<(i64, u32)>,
    ) -> Result<(), OperatorError> {
        let Arrived { times, emitted, now } = arrived;
        let rows = times.iter().filter(|time| self.keeps(**time, *now)).count();
        if rows == 0 {
            return Ok(());
        }
        let number = self.recent.add(batch, emitted, rows)?;
        let (keeps_all, relative_ms, now) = (rows == times.len(), self.relative_ms, *now);
        self.by_key.sort(&touched.groups, touched.slots.len());
        let mut kept = Vec::new();
        let timed =
            |row: &u32| TimedRow { time: times[*row as usize], position: Place::in_batch(RowRef::new(number, *row)) };
        for (slot, rows) in touched.slots.iter().zip(self.by_key.keys()) {
            let first = if keeps_all {
                self.index.insert_all(*slot, rows, timed);
                rows.first()
            } else {
                kept.clear();
                // as in `keeps`
                kept.extend(rows.iter().filter(|row| now < times[**row as usize].wrapping_add(relative_ms)));
                self.index.insert_all(*slot, &kept, timed);
                kept.first()
            };
            let Some(first) = first.and_then(|first| times.get(*first as usize)) else { continue };
            if table.column(self.timer)?.get(*slot).is_none() {
                timers.push((self.register(table, *slot, *first)?, *slot));
            }
        }
        Ok(())
    }

    /// Takes the rows of a slot that was restored into the index; says when they are to be cleaned up.
    pub(super) fn restored(&mut self, table: &mut KeyedTable, slot: u32) -> Result<Option<i64>, OperatorError> {
        let entries = self.input.entries(table)?;
        for position in entries.walk(slot) {
            self.index
                .insert(slot, TimedRow { time: entries.value(position).time, position: Place::in_state(position) });
        }
        self.timer(table, slot)
    }

    /// Bytes taken from one batch to the next, without the table.
    pub(super) fn bytes(&self) -> usize {
        self.input.bytes() + self.index.bytes() + self.recent.bytes() + self.by_key.bytes()
    }
}

/// What is known of the rows of a batch.
#[derive(Debug)]
pub(super) struct Arrived<'a> {
    pub(super) times: &'a [i64],
    pub(super) emitted: &'a [bool],
    pub(super) now: i64,
}
