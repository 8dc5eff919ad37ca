//! The rows of windows as they are, with their kinds: what a table function hands on.
//!
//! A row has a number that is greater than those of all rows before it, and goes out behind these. In state the rows of a window lie in that
//! order, but behind those that a merge appended.
//!
//! Follows: UnalignedWindowTableFunctionOperator, Flink 2.2. Differences: rows are numbered per task and not per key, so that nothing is left
//! of a key without windows; Flink keeps the number of each key for ever.

use arrow::array::UInt8Array;
use arrow::datatypes::DataType;
use streamfusion_plan::node::WindowProperty;
use streamfusion_plan::types::LogicalType;
use streamfusion_row::{Batch, RowKind};
use streamfusion_state::codec::{Codec, Mapped, Required};
use streamfusion_state::{Identity, KeyedTable, PackedRows, RowEntries, RowEntriesId, RowLayout, Touched, Value};

use super::contents::{Contents, Pulled, property};
use super::open::{Due, Merge};
use crate::definition::describe;
use crate::keys::Keys;
use crate::window::{TimeWindow, WindowZone};
use crate::{OUTPUT_BATCH_BYTES, OUTPUT_BATCH_ROWS, OperatorError};

/// Name of the rows. Names never change.
const ROWS: &str = "window_rows";

/// What comes behind the columns of a row.
const PROPERTIES: [WindowProperty; 3] = [WindowProperty::Start, WindowProperty::End, WindowProperty::Rowtime];

/// What is kept beside a row.
#[derive(Debug, Clone, Copy, Default)]
struct Numbered {
    number: i64,
    kind: u8,
}

impl Value for Numbered {}

fn codec() -> impl Codec<Numbered> {
    let codec = (Required::<i64>::new("number", DataType::Int64), Required::<i8>::new("kind", DataType::Int8));
    let whole = |(number, kind): (i64, i8)| match u8::try_from(kind) {
        Ok(kind) if RowKind::from_byte(kind).is_some() => Ok(Numbered { number, kind }),
        _ => Err("a row kind that does not exist"),
    };
    // kinds are 0 to 3
    Mapped::new(codec, |row: &Numbered| (row.number, row.kind.cast_signed()), whole)
}

/// See the [module](self). Output columns: those of the rows, start, end and time attribute of the window.
#[derive(Debug)]
pub(super) struct Kept {
    rows: RowEntriesId<Numbered>,
    next_number: i64,
    packed: PackedRows,
    /// From 0 on, as many as the largest batch had rows.
    all: Vec<u32>,
    /// The rows of the first window that has fired, in order, and how many of them went out.
    first: Vec<u32>,
    gone: usize,
}

impl Kept {
    /// No rows; they are of the type `input`, whose columns have the types `types`.
    pub(super) fn try_new(
        input: &LogicalType,
        types: &[DataType],
        table: &mut KeyedTable,
    ) -> Result<Self, OperatorError> {
        let definitions = input.fields().iter().map(|field| describe(&field.ty)).collect();
        let layout = RowLayout::try_new(types)?;
        let nothing = Numbered::default();
        let rows = table.add_row_entries(ROWS, definitions, layout, Identity::None, codec(), nothing)?;
        let (packed, all, first) = (PackedRows::default(), Vec::new(), Vec::new());
        Ok(Self { rows, next_number: 0, packed, all, first, gone: 0 })
    }

    fn number_rows(&mut self, count: usize) {
        let known = self.all.len();
        self.all.extend((0..).take(count).skip(known));
    }

    /// What is packed was written; the memory of an outlier is not kept.
    fn written(&mut self) {
        if self.packed.bytes() > OUTPUT_BATCH_BYTES {
            self.packed = PackedRows::default();
        }
    }
}

/// The rows of a window, in order.
fn in_order(rows: &RowEntries<Numbered>, slot: u32, positions: &mut Vec<u32>) {
    positions.clear();
    positions.extend(rows.walk(slot));
    if !positions.is_sorted_by_key(|position| rows.value(*position).number) {
        positions.sort_unstable_by_key(|position| rows.value(*position).number);
    }
}

impl Contents for Kept {
    fn add(&mut self, table: &mut KeyedTable, rows: &Batch, windows: &mut Touched) -> Result<(), OperatorError> {
        self.number_rows(rows.num_rows());
        let (entries, slots) = table.row_entries(self.rows)?;
        let all = self.all.get(..rows.num_rows()).unwrap_or_default();
        entries.pack(rows.columns(), all, &mut self.packed)?;
        let kinds = rows.kinds().map(|kinds| kinds.values());
        for (row, window) in windows.groups.iter().enumerate() {
            let slot = windows.slots.get(*window as usize).copied();
            let slot = slot.ok_or_else(|| OperatorError::Internal("a row without a window".to_owned()))?;
            let kind = kinds.and_then(|kinds| kinds.get(row)).copied().unwrap_or_default();
            entries.append(slots, slot, &self.packed, row, Numbered { number: self.next_number, kind })?;
            self.next_number += 1;
        }
        self.written();
        Ok(())
    }

    fn merge(&mut self, table: &mut KeyedTable, merge: Merge) -> Result<(), OperatorError> {
        let (entries, slots) = table.row_entries(self.rows)?;
        let moving: Vec<u32> = entries.walk(merge.from).collect();
        for moving in moving.chunks(OUTPUT_BATCH_ROWS) {
            let columns = entries.gather(moving)?;
            self.number_rows(moving.len());
            entries.pack(&columns, self.all.get(..moving.len()).unwrap_or_default(), &mut self.packed)?;
            for (row, position) in moving.iter().enumerate() {
                let value = *entries.value(*position);
                entries.append(slots, merge.into, &self.packed, row, value)?;
            }
        }
        self.written();
        Ok(())
    }

    fn pull(
        &mut self,
        _keys: &Keys,
        table: &mut KeyedTable,
        zone: &WindowZone,
        fired: &[Due],
    ) -> Result<Pulled, OperatorError> {
        let (rows, _) = table.row_entries(self.rows)?;
        let (mut going, mut of, mut bytes, mut windows) = (Vec::new(), Vec::new(), 0_usize, 0);
        for due in fired {
            if self.first.is_empty() {
                in_order(rows, due.slot, &mut self.first);
            }
            let left = self.first.get(self.gone..).unwrap_or_default();
            let fitting = left.iter().take(OUTPUT_BATCH_ROWS - going.len()).take_while(|position| {
                bytes = bytes.saturating_add(rows.row(**position).len());
                bytes <= OUTPUT_BATCH_BYTES
            });
            let mut count = fitting.count();
            if count == 0 && going.is_empty() {
                count = left.len().min(1); // however large it is
            }
            going.extend_from_slice(left.get(..count).unwrap_or_default());
            of.extend(std::iter::repeat_n(due.window, count));
            self.gone += count;
            if self.gone < self.first.len() {
                break;
            }
            self.first.clear();
            (self.gone, windows) = (0, windows + 1);
            if going.len() == OUTPUT_BATCH_ROWS {
                break;
            }
        }
        let batch = if going.is_empty() { None } else { Some(with_windows(rows, &going, &of, zone)?) };
        Ok(Pulled { batch, windows })
    }

    fn restore(&mut self, table: &mut KeyedTable) -> Result<(), OperatorError> {
        let mut slots = Vec::with_capacity(table.len());
        table.for_each_slot(|slot, _| slots.push(slot));
        let (rows, _) = table.row_entries(self.rows)?;
        let numbers = slots.into_iter().flat_map(|slot| rows.walk(slot)).map(|position| rows.value(position).number);
        self.next_number = self.next_number.max(numbers.max().map_or(0, |last| last.saturating_add(1)));
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.packed.bytes() + (self.all.capacity() + self.first.capacity()) * size_of::<u32>()
    }
}

/// Rows, each with its window.
fn with_windows(
    rows: &RowEntries<Numbered>,
    positions: &[u32],
    windows: &[TimeWindow],
    zone: &WindowZone,
) -> Result<Batch, OperatorError> {
    let mut columns = rows.gather(positions)?;
    columns.extend(PROPERTIES.map(|of| property(of, windows, zone)));
    let kinds: Vec<u8> = positions.iter().map(|position| rows.value(*position).kind).collect();
    let kinds = kinds.iter().any(|kind| *kind != RowKind::Insert as u8).then(|| UInt8Array::from(kinds));
    Ok(Batch::try_new(columns, positions.len(), kinds)?)
}
