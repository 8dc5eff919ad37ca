//! Rows as a column of a table: snapshots, restore.
//!
//! In a section each field is a column of its own type, `name.0`, `name.1` and so on.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Field};

use super::layout::RowLayout;
use super::{Rows, gather};
use crate::canonical::Fault;
use crate::codec::{SectionColumns, with_definition};
use crate::column::{AnyColumn, ColumnSnapshot, field_bytes, for_each_used};
use crate::heap::{HeapSnapshot, Span};
use crate::keyed::RestoreError;
use crate::paged::PagedSnapshot;
use crate::slots::UsedPage;

/// Rows with what makes them Arrow columns.
#[derive(Debug)]
pub(crate) struct StoredRows {
    rows: Rows,
    name: String,
    /// Per field: what it holds, in words.
    definitions: Vec<String>,
}

impl StoredRows {
    pub(crate) fn new(name: String, definitions: Vec<String>, layout: RowLayout) -> Self {
        Self { rows: Rows::new(layout), name, definitions }
    }

    fn column_name(&self, field: usize) -> String {
        format!("{}.{field}", self.name)
    }
}

impl AnyColumn for StoredRows {
    fn typed(&mut self) -> &mut dyn Any {
        &mut self.rows
    }

    fn reset(&mut self, slot: u32) {
        self.rows.remove(slot);
    }

    fn maintain(&mut self, pages: usize) {
        self.rows.maintain(pages);
    }

    fn bytes(&self) -> usize {
        self.rows.bytes()
    }

    fn fields(&self, out: &mut Vec<Field>) {
        for (number, ty) in self.rows.layout.types().enumerate() {
            let field = Field::new(self.column_name(number), ty.clone(), true);
            out.push(with_definition(field, self.definitions.get(number).map(String::as_str)));
        }
    }

    fn snapshot(&mut self) -> Box<dyn ColumnSnapshot> {
        Box::new(Snapshot {
            layout: Arc::clone(&self.rows.layout),
            spans: self.rows.spans.snapshot(),
            heap: self.rows.heap.snapshot(),
        })
    }

    fn encode_slots(&self, slots: &[u32], out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        let columns = self.rows.gather(slots);
        out.extend(columns.map_err(|_| Fault::Unwritable { what: "a key without its row" })?);
        Ok(())
    }

    fn restore(&mut self, columns: &mut SectionColumns<'_>, slots: &[u32]) -> Result<(), RestoreError> {
        let layout = Arc::clone(&self.rows.layout);
        let mut arrays = Vec::new();
        for (number, ty) in layout.types().enumerate() {
            columns.define(self.definitions.get(number).map(String::as_str));
            let array = columns.column(&self.column_name(number), ty)?;
            if let Some(row) = wide_decimal(&array, &|_| true) {
                return Err(columns.value_error(row, "a decimal with too many digits"));
            }
            arrays.push(array);
        }
        columns.define(None);
        let rows: Vec<u32> = (0..).take(slots.len()).collect();
        Ok(self.rows.store(&arrays, &rows, slots)?)
    }
}

/// The first row with a decimal of more digits than its type has, in fields of ROWs too. `valid` says in which rows there is a
/// ROW around the column.
pub(super) fn wide_decimal(column: &ArrayRef, valid: &dyn Fn(usize) -> bool) -> Option<usize> {
    match column.data_type() {
        DataType::Decimal128(precision, _) => {
            let limit = 10_u128.checked_pow(u32::from(*precision))?;
            let array = column.as_primitive_opt::<Decimal128Type>()?;
            let is_wide =
                |(row, value): (usize, &i128)| value.unsigned_abs() >= limit && array.is_valid(row) && valid(row);
            array.values().iter().enumerate().position(is_wide)
        }
        DataType::Struct(_) => {
            let array = column.as_struct_opt()?;
            let valid = |row: usize| array.is_valid(row) && valid(row);
            array.columns().iter().filter_map(|child| wide_decimal(child, &valid)).min()
        }
        _ => None,
    }
}

#[derive(Debug)]
struct Snapshot {
    layout: Arc<RowLayout>,
    spans: PagedSnapshot<Span>,
    heap: HeapSnapshot,
}

impl ColumnSnapshot for Snapshot {
    fn encode(&self, pages: &[UsedPage], rows: usize, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        let mut packed = Vec::with_capacity(rows);
        let mut missing = false;
        for_each_used(&self.spans, pages, |span| match self.heap.get(*span) {
            Some(row) => packed.push(row),
            None => missing = true,
        });
        if missing {
            return Err(Fault::Unwritable { what: "a key without its row" });
        }
        let columns = gather::columns(&self.layout, &packed);
        out.extend(columns.map_err(|_| Fault::Unwritable { what: "rows with so much text" })?);
        Ok(())
    }

    fn bytes_bound(&self, pages: &[UsedPage], rows: usize) -> usize {
        let mut bytes = self.layout.types().map(field_bytes).sum::<usize>() * rows;
        for_each_used(&self.spans, pages, |span| bytes += span.string_bytes());
        bytes
    }
}
