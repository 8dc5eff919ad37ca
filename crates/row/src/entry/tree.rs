//! The columns that a stage reads, in depth-first order.

use arrow::datatypes::{DataType, Field as ArrowField, Fields};
use streamfusion_plan::types::{Field, LogicalType, TypeKind};
use streamfusion_plan::{EntryField, Reason};

use crate::types::arrow_type;

/// The columns of an entry: those fields of the input rows that the stage reads, a ROW followed by its children.
#[derive(Debug, Clone)]
pub struct ColumnTree {
    pub(super) roots: Vec<Node>,
}

/// A field of the input rows.
#[derive(Debug, Clone)]
pub(super) enum Node {
    /// Not read: no column, but a position.
    Skipped,
    /// A column of values.
    Values(Values),
    /// A column of validity only, and its children.
    Row { name: String, fields: Fields, children: Vec<Node> },
}

/// A column of values.
#[derive(Debug, Clone)]
pub(super) struct Values {
    /// Path of the field, names joined by stops.
    pub(super) name: String,
    pub(super) form: Form,
    pub(super) arrow: DataType,
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One byte, 0 or 1.
    Boolean,
    /// As in Arrow, so many bytes.
    Fixed(usize),
    /// i64 millis, i64 nanos of the millisecond.
    NanoTimestamp,
    /// End offsets and data.
    Bytes,
}

impl Form {
    /// Bytes per row in the values buffer.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Boolean => 1,
            Self::Fixed(width) => width,
            Self::NanoTimestamp => 16,
            Self::Bytes => 4,
        }
    }
}

impl ColumnTree {
    /// The tree of rows of type `row`, of which `entry` is read: one element per field. A type that batches cannot carry, or
    /// an entry that does not fit the type, is a reason.
    pub fn try_new(row: &LogicalType, entry: &[EntryField]) -> Result<Self, Reason> {
        match &row.kind {
            TypeKind::Row(fields) => Ok(Self { roots: nodes(fields, entry, "")? }),
            _ => Err(Reason::new("the input of a stage is not made of rows")),
        }
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        count(&self.roots)
    }

    /// Whether there are no columns, since no field is read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn count(nodes: &[Node]) -> usize {
    nodes
        .iter()
        .map(|node| match node {
            Node::Skipped => 0,
            Node::Values(_) => 1,
            Node::Row { children, .. } => 1 + count(children),
        })
        .sum()
}

fn nodes(fields: &[Field], entry: &[EntryField], parent: &str) -> Result<Vec<Node>, Reason> {
    if fields.len() != entry.len() {
        return Err(Reason::new("the fields to be read do not fit the type of the input rows"));
    }
    fields.iter().zip(entry).map(|(field, entry)| node(field, entry, parent)).collect()
}

fn node(field: &Field, entry: &EntryField, parent: &str) -> Result<Node, Reason> {
    let name = if parent.is_empty() { field.name.clone() } else { format!("{parent}.{}", field.name) };
    match (entry, &field.ty.kind) {
        (EntryField::Skip, _) => Ok(Node::Skipped),
        (EntryField::Row(entry), TypeKind::Row(fields)) => {
            let children = nodes(fields, entry, &name)?;
            let fields = fields
                .iter()
                .zip(&children)
                .map(|(field, child)| ArrowField::new(&field.name, child.arrow(), true))
                .collect();
            Ok(Node::Row { name, fields, children })
        }
        (EntryField::Read, TypeKind::View) => {
            Err(Reason::new(format!("the field {name} is an accumulator, which Flink has in another form")))
        }
        (EntryField::Read, kind) if !matches!(kind, TypeKind::Row(_)) => {
            let arrow = arrow_type(&field.ty)?;
            let form = match (kind, &arrow) {
                (TypeKind::Timestamp { precision: 4.., .. } | TypeKind::TimestampLtz { precision: 4.., .. }, _) => {
                    Form::NanoTimestamp
                }
                (_, DataType::Boolean) => Form::Boolean,
                (_, DataType::Utf8 | DataType::Binary) => Form::Bytes,
                (_, arrow) => match arrow.primitive_width() {
                    Some(width) => Form::Fixed(width),
                    None => return Err(Reason::new(format!("the field {name} has a type that cannot be read"))),
                },
            };
            Ok(Node::Values(Values { name, form, arrow }))
        }
        _ => Err(Reason::new("the fields to be read do not fit the type of the input rows")),
    }
}

impl Node {
    fn arrow(&self) -> DataType {
        match self {
            Self::Skipped => DataType::Null,
            Self::Values(values) => values.arrow.clone(),
            Self::Row { fields, .. } => DataType::Struct(fields.clone()),
        }
    }
}
