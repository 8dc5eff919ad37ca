//! UNNEST.

use super::JoinType;
use crate::rex::Rex;
use crate::types::{Field, LogicalType, TypeKind};

/// Each row with the elements of one of its ARRAYs, MAPs or MULTISETs, in their order.
///
/// The output has the columns of the input and, behind them, those of an element: the fields of a ROW, key and value of an entry of a
/// MAP, else the element itself. An element of a MULTISET comes as often as it is there.
///
/// Follows: StreamExecCorrelate with UnnestRowsFunction, Flink 2.2. Other table functions are no node of this type.
#[derive(Debug, Clone, PartialEq)]
pub struct Correlate {
    /// INNER, or LEFT: a row of which nothing comes goes out once, with NULLs.
    pub join_type: JoinType,
    /// What is unnested: an expression over the columns of the input.
    pub collection: Rex,
    /// Whether the number of the element is the last column.
    pub ordinality: Ordinality,
    /// What must be TRUE of an element: an expression over the columns of the element, from 0.
    pub condition: Option<Rex>,
}

/// Whether elements are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ordinality {
    /// From 1, as INT.
    Numbered,
    /// Not at all.
    Without,
}

impl Correlate {
    /// The JSON pointer of what is unnested.
    pub const COLLECTION: &'static str = "/functionCall/operands/0";

    /// The columns behind those of the input; `None` if something else than a collection is unnested.
    pub fn element_columns(&self) -> Option<Vec<Field>> {
        let field = |name: &str, ty: &LogicalType| Field { name: name.to_owned(), ty: ty.clone() };
        let mut columns = match &self.collection.ty()?.kind {
            TypeKind::Map(key, value) => vec![field("f0", key), field("f1", value)],
            TypeKind::Array(element) | TypeKind::Multiset(element) => match &element.kind {
                TypeKind::Row(fields) => fields.to_vec(),
                _ => vec![field("f0", element)],
            },
            _ => return None,
        };
        if self.ordinality == Ordinality::Numbered {
            columns.push(field("ORDINALITY", &LogicalType { kind: TypeKind::Integer, nullable: false }));
        }
        Some(columns)
    }
}
