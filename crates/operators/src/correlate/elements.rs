//! The elements of collections, piece by piece.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int32Array};
use arrow::datatypes::DataType;
use streamfusion_expr::ExprError;
use streamfusion_plan::Reason;
use streamfusion_plan::node::{Correlate, Ordinality};
use streamfusion_plan::types::TypeKind;
use streamfusion_row::collection::{ArrayView, Cell, CollectionError, ElementType, MapView};

use crate::OperatorError;
use crate::join::limits::{Limits, RowBytes};

/// Bytes of the slot of how often an element of a MULTISET is there.
const COUNT_WIDTH: usize = 4;

/// How collections are unnested.
#[derive(Debug)]
pub(super) struct Elements {
    kind: Kind,
    ordinality: Ordinality,
}

#[derive(Debug)]
enum Kind {
    Array(ElementType),
    Multiset(ElementType),
    Map(ElementType, ElementType),
}

/// Where the next element is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    row: usize,
    /// Elements of the ARRAY, or entries, that are done.
    entry: usize,
    /// How often an element of a MULTISET has come.
    repeated: i64,
    /// The number of the last element.
    number: i32,
}

/// Elements that are looked at together, and the rows that they belong to.
#[derive(Debug, Default)]
pub(super) struct Piece<'a> {
    /// The row of each element.
    pub(super) rows: Vec<u32>,
    /// The row that ends behind so many elements of the piece, row by row.
    pub(super) ends: Vec<(usize, u32)>,
    /// Where each element lies, or the key of an entry.
    cells: Vec<Option<Cell<'a>>>,
    /// Where the value of each entry lies.
    values: Vec<Option<Cell<'a>>>,
    numbers: Vec<i32>,
}

impl Position {
    /// The row of the next element.
    pub(super) fn row(&self) -> usize {
        self.row
    }
}

fn malformed(error: CollectionError) -> OperatorError {
    OperatorError::Input(error.to_string())
}

impl Elements {
    /// Says why elements of a type cannot be columns.
    pub(super) fn try_new(spec: &Correlate) -> Result<Self, Reason> {
        let kind = match spec.collection.ty().map(|ty| &ty.kind) {
            Some(TypeKind::Array(element)) => Kind::Array(ElementType::try_new(element)?),
            Some(TypeKind::Multiset(element)) => Kind::Multiset(ElementType::try_new(element)?),
            Some(TypeKind::Map(key, value)) => Kind::Map(ElementType::try_new(key)?, ElementType::try_new(value)?),
            _ => return Err(Reason::new("UNNEST of a value of this type is not supported natively")),
        };
        Ok(Self { kind, ordinality: spec.ordinality })
    }

    /// The elements from `position` on, as many as make a batch of the usual size; nothing behind the last row.
    pub(super) fn next<'a>(
        &self,
        collections: &'a BinaryArray,
        position: &mut Position,
        bytes: &RowBytes,
        limits: &Limits,
    ) -> Result<Piece<'a>, OperatorError> {
        let mut piece = Piece::default();
        let mut room = Room { elements: limits.output_rows, bytes: limits.bytes };
        while position.row < collections.len() && room.is_left() {
            let row = u32::try_from(position.row).map_err(|_| OperatorError::Input("too many rows".into()))?;
            if collections.is_valid(position.row) {
                let mut of_row = RowOf { number: row, bytes: bytes.get(row), room: &mut room, piece: &mut piece };
                if self.row(collections.value(position.row), position, &mut of_row)? == Rest::Some {
                    break;
                }
            }
            piece.ends.push((piece.rows.len(), row));
            *position = Position { row: position.row + 1, ..Position::default() };
        }
        Ok(piece)
    }

    /// Takes elements of one row as long as there is room.
    fn row<'a>(
        &self,
        collection: &'a [u8],
        position: &mut Position,
        of_row: &mut RowOf<'_, 'a>,
    ) -> Result<Rest, OperatorError> {
        match &self.kind {
            Kind::Array(element) => {
                let array = ArrayView::try_new(collection).map_err(malformed)?;
                while position.entry < array.len() {
                    if !of_row.take_room() {
                        return Ok(Rest::Some);
                    }
                    let cell = array.get(position.entry, element.width());
                    position.entry += 1;
                    position.number += 1;
                    self.push(element, cell, position.number, of_row)?;
                }
            }
            Kind::Multiset(element) => {
                let map = MapView::try_new(collection).map_err(malformed)?;
                while position.entry < map.keys.len() {
                    let count = map.values.get(position.entry, COUNT_WIDTH);
                    let count = count.map_or(Ok(0), |count| count.integer(COUNT_WIDTH)).map_err(malformed)?;
                    let cell = map.keys.get(position.entry, element.width());
                    while position.repeated < count {
                        if !of_row.take_room() {
                            return Ok(Rest::Some);
                        }
                        position.repeated += 1;
                        position.number = position.number.wrapping_add(1);
                        self.push(element, cell, position.number, of_row)?;
                    }
                    position.repeated = 0;
                    position.entry += 1;
                }
            }
            Kind::Map(key, value) => {
                let map = MapView::try_new(collection).map_err(malformed)?;
                while position.entry < map.keys.len() {
                    if !of_row.take_room() {
                        return Ok(Rest::Some);
                    }
                    of_row.piece.values.push(map.values.get(position.entry, value.width()));
                    let cell = map.keys.get(position.entry, key.width());
                    position.entry += 1;
                    position.number += 1;
                    of_row.push(cell, position.number);
                }
            }
        }
        Ok(Rest::None)
    }

    /// Takes an element of an ARRAY or a MULTISET.
    #[inline]
    fn push<'a>(
        &self,
        element: &ElementType,
        cell: Option<Cell<'a>>,
        number: i32,
        of_row: &mut RowOf<'_, 'a>,
    ) -> Result<(), OperatorError> {
        if let (None, DataType::Struct(fields)) = (&cell, element.arrow()) {
            match (self.ordinality, fields.len()) {
                (Ordinality::Without, _) => return Ok(()),
                // Flink makes a row of the NULL and the number, whatever the fields are
                (Ordinality::Numbered, 1) => {}
                (Ordinality::Numbered, fields) => {
                    return Err(OperatorError::Expr(ExprError::Java {
                        class: "java.lang.ArrayIndexOutOfBoundsException",
                        message: format!("Index {fields} out of bounds for length 2"),
                    }));
                }
            }
        }
        of_row.push(cell, number);
        Ok(())
    }

    /// The columns of the elements: those behind the columns of the input.
    pub(super) fn columns(&self, piece: &Piece<'_>) -> Result<Vec<ArrayRef>, OperatorError> {
        let column = |element: &ElementType, cells: &[_]| element.column(cells).map_err(malformed);
        let mut columns = match &self.kind {
            Kind::Map(key, value) => vec![column(key, &piece.cells)?, column(value, &piece.values)?],
            Kind::Array(element) | Kind::Multiset(element) => {
                let elements = column(element, &piece.cells)?;
                match elements.as_struct_opt() {
                    Some(rows) => rows.columns().to_vec(),
                    None => vec![elements],
                }
            }
        };
        if self.ordinality == Ordinality::Numbered {
            columns.push(Arc::new(Int32Array::from(piece.numbers.clone())));
        }
        Ok(columns)
    }
}

/// Whether elements of a row are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Some,
    None,
}

/// What still goes into a piece.
#[derive(Debug)]
struct Room {
    elements: usize,
    bytes: usize,
}

impl Room {
    fn is_left(&self) -> bool {
        self.elements > 0 && self.bytes > 0
    }
}

/// The row whose elements are taken.
#[derive(Debug)]
struct RowOf<'p, 'a> {
    number: u32,
    /// Bytes of its text and binary values, where they count.
    bytes: usize,
    room: &'p mut Room,
    piece: &'p mut Piece<'a>,
}

impl<'a> RowOf<'_, 'a> {
    #[inline]
    fn take_room(&mut self) -> bool {
        let is_left = self.room.is_left();
        if is_left {
            self.room.elements -= 1;
            self.room.bytes = self.room.bytes.saturating_sub(self.bytes);
        }
        is_left
    }

    #[inline]
    fn push(&mut self, cell: Option<Cell<'a>>, number: i32) {
        self.piece.rows.push(self.number);
        self.piece.cells.push(cell);
        self.piece.numbers.push(number);
    }
}
