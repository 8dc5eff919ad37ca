//! How much text the expressions of a Calc are going to make, before they are evaluated.
//!
//! Counted are the values of functions that can make more than they take (REPEAT, LPAD, CONCAT, ..) and constants, which become
//! columns; all else is at most as large as the input. The estimate looks at columns, not at rows: the bytes of a text column, the
//! largest number of an INT column. It errs on the high side but for numbers that are themselves computed, for
//! padding with characters of several bytes and for what the JVM makes; then the evaluation itself says that a result does not fit.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int32Type};
use streamfusion_plan::node;
use streamfusion_plan::rex::{Function, Literal, Rex};
use streamfusion_plan::types::TypeKind;

/// The text that the expressions of a Calc make.
#[derive(Debug)]
pub(super) struct Estimate(Vec<Size>);

/// Bytes of a value over all rows.
#[derive(Debug, Clone, PartialEq)]
enum Size {
    Nothing,
    /// A column; a field of a ROW by its path.
    Column(Vec<usize>),
    /// In each row.
    Constant(usize),
    Sum(Vec<Size>),
    /// A text so many times.
    Times(Box<Size>, Count),
    /// A text of so many characters.
    Padded(Count),
}

/// The largest number of the rows.
#[derive(Debug, Clone, PartialEq)]
enum Count {
    Constant(usize),
    Column(Vec<usize>),
    Unknown,
}

impl Estimate {
    pub(super) fn of(spec: &node::Calc) -> Self {
        let mut made = Vec::new();
        for rex in spec.condition.iter().chain(&spec.projection) {
            size(rex, &mut made);
        }
        made.retain(|size| *size != Size::Nothing);
        Self(made)
    }

    /// Whether no text is made whatever the rows.
    pub(super) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes for these rows of the input.
    pub(super) fn bytes(&self, columns: &[ArrayRef], rows: usize) -> usize {
        self.0.iter().map(|size| size.bytes(columns, rows)).fold(0, usize::saturating_add)
    }
}

/// The size of an expression's value. Adds to `made` what it and its operands make.
fn size(rex: &Rex, made: &mut Vec<Size>) -> Size {
    match rex {
        Rex::InputRef { .. } | Rex::FieldAccess { .. } => match path(rex) {
            Some(path) => Size::Column(path),
            None => operands(rex).first().map_or(Size::Nothing, |operand| size(operand, made)),
        },
        Rex::Literal { value, .. } => {
            let size = match value {
                Literal::String(text) => Size::Constant(text.len()),
                Literal::Bytes(bytes) => Size::Constant(bytes.len()),
                _ => Size::Nothing,
            };
            made.push(size.clone());
            size
        }
        Rex::Call { function, ty, .. } => {
            let sizes: Vec<Size> = operands(rex).iter().map(|operand| size(operand, made)).collect();
            let count = operands(rex).get(1).map_or(Count::Unknown, count);
            let (size, grows) = match (function, &ty.kind, sizes.as_slice()) {
                (Function::BuiltIn { name, .. }, _, [text, ..]) => match (name.as_str(), &ty.kind) {
                    ("REPEAT", _) => (Size::Times(Box::new(text.clone()), count), true),
                    ("LPAD" | "RPAD", _) => (Size::Padded(count), true),
                    ("REPLACE", _) => (Size::Times(Box::new(text.clone()), replaced(operands(rex))), true),
                    ("CAST" | "TRY_CAST", TypeKind::Char(length) | TypeKind::Binary(length)) => {
                        (Size::Constant(usize::try_from(*length).unwrap_or(usize::MAX)), true)
                    }
                    ("CONCAT" | "CONCAT_WS" | "||", _) => (sum(sizes), true),
                    _ => (sum(sizes), false),
                },
                _ => (sum(sizes), false),
            };
            if grows {
                made.push(size.clone());
            }
            // Numbers, dates and conditions take no bytes.
            if is_bytes(&ty.kind) { size } else { Size::Nothing }
        }
        Rex::Search { operand, .. } => {
            size(operand, made);
            Size::Nothing
        }
        Rex::Unknown { .. } => Size::Nothing,
    }
}

fn operands(rex: &Rex) -> &[Rex] {
    match rex {
        Rex::Call { operands, .. } => operands,
        Rex::FieldAccess { expr, .. } => std::slice::from_ref(expr),
        _ => &[],
    }
}

fn sum(mut sizes: Vec<Size>) -> Size {
    sizes.retain(|size| *size != Size::Nothing);
    match sizes.as_slice() {
        [] => Size::Nothing,
        [_] => sizes.swap_remove(0),
        _ => Size::Sum(sizes),
    }
}

fn is_bytes(kind: &TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::Char(_) | TypeKind::VarChar(_) | TypeKind::Binary(_) | TypeKind::VarBinary(_) | TypeKind::Row(_)
    )
}

fn count(rex: &Rex) -> Count {
    match rex {
        Rex::Literal { value: Literal::Integer(value), .. } => Count::Constant(usize::try_from(*value).unwrap_or(0)),
        _ => path(rex).map_or(Count::Unknown, Count::Column),
    }
}

/// How often REPLACE can multiply its text.
fn replaced(operands: &[Rex]) -> Count {
    match operands {
        [_, Rex::Literal { value: Literal::String(old), .. }, Rex::Literal { value: Literal::String(new), .. }] => {
            Count::Constant(new.len().div_ceil(old.len().max(1)).max(1))
        }
        _ => Count::Unknown,
    }
}

/// A column, or a field of a field .. of a column.
fn path(rex: &Rex) -> Option<Vec<usize>> {
    match rex {
        Rex::InputRef { index, .. } => Some(vec![*index]),
        Rex::FieldAccess { expr, index, .. } => {
            let mut path = path(expr)?;
            path.push(*index);
            Some(path)
        }
        _ => None,
    }
}

impl Size {
    fn bytes(&self, columns: &[ArrayRef], rows: usize) -> usize {
        match self {
            Size::Nothing => 0,
            Size::Column(path) => find(columns, path).map_or(0, value_bytes),
            Size::Constant(bytes) => bytes.saturating_mul(rows),
            Size::Sum(sizes) => sizes.iter().map(|size| size.bytes(columns, rows)).fold(0, usize::saturating_add),
            Size::Times(size, count) => size.bytes(columns, rows).saturating_mul(count.largest(columns).unwrap_or(1)),
            Size::Padded(count) => rows.saturating_mul(count.largest(columns).unwrap_or(0)),
        }
    }
}

impl Count {
    fn largest(&self, columns: &[ArrayRef]) -> Option<usize> {
        match self {
            Count::Constant(count) => Some(*count),
            Count::Column(path) => {
                let numbers = find(columns, path)?.as_primitive_opt::<Int32Type>()?;
                Some(numbers.values().iter().max().map_or(0, |largest| usize::try_from(*largest).unwrap_or(0)))
            }
            Count::Unknown => None,
        }
    }
}

fn find<'a>(columns: &'a [ArrayRef], path: &[usize]) -> Option<&'a ArrayRef> {
    let (first, fields) = path.split_first()?;
    fields.iter().try_fold(columns.get(*first)?, |column, field| column.as_struct_opt()?.columns().get(*field))
}

/// Bytes of the text or binary values of a column.
fn value_bytes(column: &ArrayRef) -> usize {
    let offsets = match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value_offsets(),
        DataType::Binary => column.as_binary::<i32>().value_offsets(),
        _ => return 0,
    };
    match offsets {
        [first, .., last] => usize::try_from(last - first).unwrap_or_default(),
        _ => 0,
    }
}
