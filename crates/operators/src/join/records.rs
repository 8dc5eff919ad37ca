//! The rows of one input, by join key: what the other input finds.
//!
//! What identifies a row among those of its join key decides how they are kept. Where the join key has at most one row, it lies
//! under the key's slot; otherwise rows are entries with positions, in the order in which they came, and what is the same row is
//! one entry, which counts its copies where nothing identifies rows. A *degree* says how many rows of the other input a row
//! matches; it is kept where the join type asks for it.
//!
//! Follows: JoinRecordStateViews, OuterJoinRecordStateViews, Flink 2.2. Differences: several rows of a join key come back in the order
//! in which they came in; Flink's order is that of a hash map or of bytes, as the state backend has it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, NullArray};
use arrow::datatypes::DataType;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{InputSide, InputSideKey};
use streamfusion_plan::types::LogicalType;
use streamfusion_row::types::arrow_type;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::codec::Required;
use streamfusion_state::{
    ColumnId, Identity, KeyedTable, PackedRows, RowEntries, RowEntriesId, RowLayout, Rows, RowsId, StateContext,
    StateTtl, Touched,
};

use super::copies::{Copies, CopiesCodec};
use crate::definition::describe;
use crate::keys::Keys;
use crate::{OUTPUT_BATCH_BYTES, OperatorError};

/// Names of a table and of its entries; they never change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub(super) keys: &'static str,
    pub(super) rows: &'static str,
}

/// Whether rows have a degree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Degrees {
    Kept,
    None,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Records {
    pub(super) keys: Keys,
    pub(super) types: Vec<DataType>,
    /// Key columns in which a NULL matches nothing.
    null_filtered: Vec<usize>,
    store: Store,
    /// Whether there is a time-to-live.
    expires: bool,
    degrees: Degrees,
    /// Rows of a batch, as they are written.
    packed: PackedRows,
    /// From 0 on, as many as the largest batch had rows.
    numbers: Vec<u32>,
}

#[derive(Debug)]
enum Store {
    /// JoinKeyContainsUniqueKey.
    One { rows: RowsId, degrees: Option<ColumnId<i32>> },
    /// InputSideHasUniqueKey, InputSideHasNoUniqueKey.
    Several { rows: RowEntriesId<Copies>, repeat: Repeat },
}

/// Whether what is the same row may be there several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Counted,
    /// Another one takes its place.
    Replaced,
}

/// How rows of the type `input` are kept.
struct Resolved {
    keys: Keys,
    types: Vec<DataType>,
    layout: RowLayout,
}

fn resolve(side: &InputSide, input: &LogicalType) -> Result<Resolved, Reason> {
    let types = input.fields().iter().map(|field| arrow_type(&field.ty)).collect::<Result<Vec<_>, _>>()?;
    let key_types: Option<(Vec<_>, Vec<_>)> =
        side.keys.iter().map(|key| Some((input.fields().get(*key)?.ty.clone(), types.get(*key)?.clone()))).collect();
    let (logical, arrow) = key_types.ok_or_else(|| Reason::new("a key column does not exist"))?;
    let keys = Keys::try_new(&side.keys, &logical, &arrow)?;
    if side.upsert_keys.iter().flatten().any(|column| *column >= types.len()) {
        return Err(Reason::new("a column of a unique key does not exist"));
    }
    let layout = RowLayout::try_new(&types).map_err(|error| Reason::new(error.to_string()))?;
    Ok(Resolved { keys, types, layout })
}

/// Whether rows of the type `input` can be kept.
pub(super) fn supports(side: &InputSide, input: &LogicalType) -> Result<(), Reason> {
    resolve(side, input).map(drop)
}

/// How keys are made of rows of the type `input`.
pub(super) fn keys(side: &InputSide, input: &LogicalType) -> Result<Keys, OperatorError> {
    resolve(side, input).map(|resolved| resolved.keys).map_err(|reason| OperatorError::Internal(reason.to_string()))
}

impl Records {
    /// No rows, and the table that they will be in.
    pub(super) fn try_new(
        names: Names,
        side: &InputSide,
        filter_nulls: &[bool],
        input: &LogicalType,
        degrees: Degrees,
        context: &StateContext,
    ) -> Result<(Self, KeyedTable), OperatorError> {
        let Resolved { keys, types, layout } =
            resolve(side, input).map_err(|reason| OperatorError::Internal(reason.to_string()))?;
        let ttl = StateTtl::of_millis(side.ttl_ms);
        let mut table = KeyedTable::new(names.keys, keys.layout(), ttl, context);
        let definitions = input.fields().iter().map(|field| describe(&field.ty)).collect();
        let several = |table: &mut KeyedTable, identity, repeat| {
            let codec = CopiesCodec::new(repeat == Repeat::Counted, degrees == Degrees::Kept);
            let nothing = Copies { count: 1, degree: 0 };
            let rows = table.add_row_entries(names.rows, definitions, layout.clone(), identity, codec, nothing)?;
            Ok::<_, OperatorError>(Store::Several { rows, repeat })
        };
        let store = match side.unique_key() {
            InputSideKey::JoinKeyContainsUniqueKey(_) => {
                let definitions = input.fields().iter().map(|field| describe(&field.ty)).collect();
                let rows = table.add_rows("row", definitions, layout);
                let column = |table: &mut KeyedTable| {
                    table.add_column("degree", None, Required::<i32>::new("", DataType::Int32), 0)
                };
                Store::One { rows, degrees: (degrees == Degrees::Kept).then(|| column(&mut table)) }
            }
            InputSideKey::HasUniqueKey(key) => several(&mut table, Identity::Columns(key.to_vec()), Repeat::Replaced)?,
            InputSideKey::NoUniqueKey => several(&mut table, Identity::WholeRow, Repeat::Counted)?,
        };
        let filtered = side.keys.iter().zip(filter_nulls).filter(|(_, filtered)| **filtered);
        let null_filtered = filtered.map(|(key, _)| *key).collect();
        let (expires, packed, numbers) = (ttl.is_some(), PackedRows::default(), Vec::new());
        Ok((Self { keys, types, null_filtered, store, expires, degrees, packed, numbers }, table))
    }

    /// Errors if the columns are not those of the input.
    pub(super) fn check(&self, batch: &Batch) -> Result<(), OperatorError> {
        if batch.columns().iter().map(|column| column.data_type()).eq(&self.types) {
            return Ok(());
        }
        let found = batch.columns().iter().map(|column| column.data_type().to_string()).collect::<Vec<_>>();
        Err(OperatorError::Input(format!("rows of the types {}", found.join(", "))))
    }

    /// Whether a NULL in the key of this row keeps it from matching anything.
    pub(super) fn matches_nothing(&self, batch: &Batch, row: u32) -> bool {
        let null = |column: &usize| batch.columns().get(*column).is_some_and(|column| column.is_null(row as usize));
        self.null_filtered.iter().any(null)
    }

    /// Calls `body` with a way through the rows.
    pub(super) fn walk<T>(&self, table: &mut KeyedTable, body: impl WalkBody<Output = T>) -> Result<T, OperatorError> {
        Ok(match &self.store {
            Store::One { rows, .. } => body.run(&*table.rows(*rows)?),
            Store::Several { rows, .. } => body.run(&*table.row_entries(*rows)?.0),
        })
    }

    /// The rows at these positions, in this order. Columns that are not `wanted` are without values.
    pub(super) fn gather(
        &self,
        table: &mut KeyedTable,
        positions: &[u32],
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Vec<ArrayRef>, OperatorError> {
        let numbers: Vec<usize> = (0..self.types.len()).filter(|column| wanted(*column)).collect();
        let without_values: ArrayRef = Arc::new(NullArray::new(positions.len()));
        let mut columns = vec![without_values; self.types.len()];
        if numbers.is_empty() {
            return Ok(columns);
        }
        let gathered = match &self.store {
            Store::One { rows, .. } => table.rows(*rows)?.gather_columns(positions, &numbers)?,
            Store::Several { rows, .. } => table.row_entries(*rows)?.0.gather_columns(positions, &numbers)?,
        };
        for (number, column) in numbers.into_iter().zip(gathered) {
            columns[number] = column;
        }
        Ok(columns)
    }

    /// How often the rows at these positions are there, empty if once each; and their degrees, if they are kept.
    pub(super) fn read(
        &self,
        table: &mut KeyedTable,
        positions: &[u32],
        copies: &mut Vec<i32>,
        degrees: &mut Vec<i32>,
    ) -> Result<(), OperatorError> {
        copies.clear();
        degrees.clear();
        match &self.store {
            Store::One { degrees: None, .. } => {}
            Store::One { degrees: Some(column), .. } => {
                let column = table.column(*column)?;
                degrees.extend(positions.iter().map(|position| *column.get(*position)));
            }
            Store::Several { rows, repeat } => {
                let (rows, _) = table.row_entries(*rows)?;
                if *repeat == Repeat::Counted {
                    copies.extend(positions.iter().map(|position| rows.value(*position).count));
                }
                if self.degrees == Degrees::Kept {
                    degrees.extend(positions.iter().map(|position| rows.value(*position).degree));
                }
            }
        }
        Ok(())
    }

    /// Sets the degrees of rows that were matched, by position. They live anew from now on.
    pub(super) fn set_degrees(
        &self,
        table: &mut KeyedTable,
        degrees: impl Iterator<Item = (u32, i32)>,
    ) -> Result<(), OperatorError> {
        // what lives for ever does not begin anew
        let mut slots = Vec::new();
        match &self.store {
            Store::One { degrees: None, .. } => {}
            Store::One { degrees: Some(column), .. } => {
                let column = table.column(*column)?;
                for (slot, degree) in degrees {
                    column.set(slot, degree);
                    if self.expires {
                        slots.push(slot);
                    }
                }
            }
            Store::Several { rows, .. } => {
                let (rows, _) = table.row_entries(*rows)?;
                for (position, degree) in degrees {
                    rows.value_mut(position).degree = degree;
                    if self.expires {
                        slots.push(rows.slot(position));
                    }
                }
            }
        }
        table.commit(&slots);
        Ok(())
    }

    /// Bytes taken from one batch to the next, without the table.
    pub(super) fn bytes(&self) -> usize {
        self.packed.bytes() + self.numbers.capacity() * size_of::<u32>()
    }

    /// Takes over the rows of a batch in their order: accumulating ones are added, with what they matched as their degree,
    /// retracting ones removed. Keys without a row are forgotten.
    pub(super) fn write(
        &mut self,
        table: &mut KeyedTable,
        touched: &Touched,
        written: &Written<'_>,
    ) -> Result<(), OperatorError> {
        match &self.store {
            Store::One { rows, degrees } => write_one(table, *rows, *degrees, touched, written),
            Store::Several { rows, repeat } => {
                let (batch, packed) = (written.batch, &mut self.packed);
                let (entries, _) = table.row_entries(*rows)?;
                let known = self.numbers.len();
                self.numbers.extend((0..).take(batch.num_rows()).skip(known));
                entries.pack(batch.columns(), &self.numbers[..batch.num_rows()], packed)?;
                write_several(table, *rows, *repeat, packed, touched, written)?;
                if packed.bytes() > OUTPUT_BATCH_BYTES {
                    // an outlier, whose memory is not kept
                    *packed = PackedRows::default();
                }
                Ok(())
            }
        }
    }
}

/// Rows whose place in the table is read at once: what they touch fits into the cache nearest to the core.
const WARMED_ROWS: usize = 128;

/// What a batch does to the rows of its input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) batch: &'a Batch,
    /// Per row: how many rows of the other input it matches. Empty if degrees are not kept.
    pub(super) matches: &'a [i32],
    /// Which retractions leave the row where it is, because the next row replaces it.
    pub(super) suppressed: Option<&'a [bool]>,
}

impl Written<'_> {
    /// Per row whether it is accumulating, without the retractions that change nothing.
    fn changes(&self) -> impl Iterator<Item = (usize, bool)> {
        let kinds = self.batch.kinds().map(|kinds| kinds.values());
        (0..self.batch.num_rows()).filter_map(move |row| {
            let accumulates = kinds.is_none_or(|kinds| is_accumulate(kinds[row]));
            let suppressed = !accumulates && self.suppressed.is_some_and(|suppressed| suppressed[row]);
            (!suppressed).then_some((row, accumulates))
        })
    }

    fn degree(&self, row: usize) -> i32 {
        self.matches.get(row).copied().unwrap_or_default()
    }
}

#[inline]
pub(crate) fn is_accumulate(kind: u8) -> bool {
    kind == RowKind::Insert as u8 || kind == RowKind::UpdateAfter as u8
}

fn write_one(
    table: &mut KeyedTable,
    rows: RowsId,
    degrees: Option<ColumnId<i32>>,
    touched: &Touched,
    written: &Written<'_>,
) -> Result<(), OperatorError> {
    /// What is left of a key after the batch.
    #[derive(Clone, Copy)]
    enum Left {
        /// What there was.
        Same,
        Row(u32),
        Nothing,
    }
    let mut left = vec![Left::Same; touched.slots.len()];
    for (row, accumulates) in written.changes() {
        if let Some(left) = touched.groups.get(row).and_then(|key| left.get_mut(*key as usize)) {
            // rows are counted in 31 bits
            *left = if accumulates { Left::Row(row as u32) } else { Left::Nothing };
        }
    }
    let (mut stored, mut slots) = (Vec::with_capacity(left.len()), Vec::with_capacity(left.len()));
    for (left, slot) in left.iter().zip(&touched.slots) {
        if let Left::Row(row) = left {
            stored.push(*row);
            slots.push(*slot);
        }
    }
    table.rows(rows)?.store(written.batch.columns(), &stored, &slots)?;
    if let Some(column) = degrees {
        let column = table.column(column)?;
        stored.iter().zip(&slots).for_each(|(row, slot)| column.set(*slot, written.degree(*row as usize)));
    }
    table.commit(&slots);
    for (left, slot) in left.iter().zip(&touched.slots) {
        if matches!(left, Left::Nothing) {
            table.remove(*slot)?;
        }
    }
    Ok(())
}

fn write_several(
    table: &mut KeyedTable,
    rows: RowEntriesId<Copies>,
    repeat: Repeat,
    packed: &PackedRows,
    touched: &Touched,
    written: &Written<'_>,
) -> Result<(), OperatorError> {
    let (entries, slots) = table.row_entries(rows)?;
    let slot_of = |row: usize| touched.groups.get(row).and_then(|key| touched.slots.get(*key as usize)).copied();
    let mut warm_before = 0;
    for (row, accumulates) in written.changes() {
        if row >= warm_before {
            warm_before = row + WARMED_ROWS;
            let next = row..warm_before.min(touched.groups.len());
            entries.warm(packed, next.filter_map(|row| Some((slot_of(row)?, row))));
        }
        let slot = slot_of(row).ok_or_else(|| OperatorError::Internal("a row without a key".to_owned()))?;
        let (found, degree) = (entries.find(slot, packed, row), written.degree(row));
        match (found, accumulates, repeat) {
            (None, true, _) => {
                entries.append(slots, slot, packed, row, Copies { count: 1, degree })?;
            }
            (Some(position), true, Repeat::Replaced) => {
                entries.replace(position, packed, row)?;
                entries.value_mut(position).degree = degree;
            }
            (Some(position), true, Repeat::Counted) => {
                let copies = entries.value_mut(position);
                *copies = Copies { count: copies.count.saturating_add(1), degree };
            }
            (Some(position), false, Repeat::Counted) if entries.value(position).count > 1 => {
                entries.value_mut(position).count -= 1;
            }
            (Some(position), false, _) => {
                entries.remove(position);
            }
            (None, false, _) => {} // never seen, or expired
        }
    }
    let (kept, gone): (Vec<u32>, Vec<u32>) = touched.slots.iter().partition(|slot| entries.first(**slot).is_some());
    table.commit(&kept);
    gone.into_iter().try_for_each(|slot| table.remove(slot))?;
    Ok(())
}

/// The rows under a slot, one after the other.
pub(super) trait Walk {
    /// The position of the first row of a slot.
    fn first(&self, slot: u32) -> Option<u32>;
    /// The position of the row behind this one.
    fn next(&self, position: u32) -> Option<u32>;
    /// Whether the row has expired.
    fn expired(&self, position: u32) -> bool;
    /// Bytes of the row.
    fn bytes(&self, position: u32) -> usize;
}

/// Something to do with either way of keeping rows.
pub(super) trait WalkBody {
    type Output;
    fn run<W: Walk>(self, walk: &W) -> Self::Output;
}

impl Walk for Rows {
    #[inline]
    fn first(&self, slot: u32) -> Option<u32> {
        self.has(slot).then_some(slot)
    }

    #[inline]
    fn next(&self, _: u32) -> Option<u32> {
        None
    }

    #[inline]
    fn expired(&self, _: u32) -> bool {
        // the key's slot has, and is not found then
        false
    }

    #[inline]
    fn bytes(&self, position: u32) -> usize {
        self.get(position).map_or(0, <[u8]>::len)
    }
}

impl Walk for RowEntries<Copies> {
    #[inline]
    fn first(&self, slot: u32) -> Option<u32> {
        self.first(slot)
    }

    #[inline]
    fn next(&self, position: u32) -> Option<u32> {
        self.next(position)
    }

    #[inline]
    fn expired(&self, position: u32) -> bool {
        self.expired(position)
    }

    #[inline]
    fn bytes(&self, position: u32) -> usize {
        self.row(position).len()
    }
}
