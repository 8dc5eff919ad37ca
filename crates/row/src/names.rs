//! Names of the fields inside ROW columns.
//!
//! Flink compares ROW types by position: the inputs of a UNION ALL may name the fields of a ROW column differently. Arrow
//! takes two such columns for different types, so that a stage gives all batches the names of its own types.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::error::ArrowError;
use streamfusion_plan::types::{LogicalType, TypeKind};

use crate::batch::Batch;
use crate::gather::GatherError;
use crate::types::arrow_type;

/// The ROW columns of a row type, with the names of their fields.
#[derive(Debug, Clone, Default)]
pub struct RowNames(Vec<(usize, DataType)>);

impl RowNames {
    /// The names in the fields of `row`.
    pub fn new(row: &LogicalType) -> Self {
        let rows = row.fields().iter().enumerate().filter(|(_, field)| matches!(field.ty.kind, TypeKind::Row(_)));
        // What batches cannot carry is in none of them.
        Self(rows.filter_map(|(column, field)| Some((column, arrow_type(&field.ty).ok()?))).collect())
    }

    /// The same batch with these names. Errors if a ROW has another number of fields.
    pub fn apply(&self, batch: Batch) -> Result<Batch, GatherError> {
        let differs = |(column, ty): &(usize, DataType)| {
            batch.columns().get(*column).is_some_and(|array| differs(array.data_type(), ty))
        };
        if !self.0.iter().any(differs) {
            return Ok(batch);
        }
        let mut columns = batch.columns().to_vec();
        for (column, ty) in &self.0 {
            if let Some(array) = columns.get_mut(*column) {
                *array = renamed(array, ty)?;
            }
        }
        let renamed = Batch::try_new(columns, batch.num_rows(), batch.kinds().cloned())?;
        Ok(match batch.key_group() {
            Some(key_group) => renamed.with_key_group(key_group),
            None => renamed,
        })
    }
}

/// Whether a name differs. A part that nobody reads has no names.
fn differs(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::Struct(found), DataType::Struct(wanted)) => {
            found.len() != wanted.len()
                || found.iter().zip(wanted).any(|(found, wanted)| {
                    found.name() != wanted.name() || differs(found.data_type(), wanted.data_type())
                })
        }
        _ => false,
    }
}

fn renamed(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    let (Some(rows), DataType::Struct(wanted)) = (array.as_struct_opt(), wanted) else {
        return Ok(Arc::clone(array));
    };
    if rows.columns().len() != wanted.len() {
        let message = format!("a ROW of {} fields instead of {}", rows.columns().len(), wanted.len());
        return Err(ArrowError::InvalidArgumentError(message));
    }
    let columns = rows.columns().iter().zip(wanted).map(|(column, field)| renamed(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let fields: Fields = wanted
        .iter()
        .zip(&columns)
        .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
        .collect();
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, rows.nulls().cloned(), rows.len())?))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, NullArray};
    use arrow::buffer::NullBuffer;
    use streamfusion_plan::types::Field as RowField;

    use super::*;

    fn row(fields: Vec<(&str, TypeKind)>) -> TypeKind {
        let field =
            |(name, kind): (&str, _)| RowField { name: name.to_owned(), ty: LogicalType { kind, nullable: true } };
        TypeKind::Row(fields.into_iter().map(field).collect())
    }

    fn structs(columns: Vec<(&str, ArrayRef)>, valid: Vec<bool>) -> Result<ArrayRef, ArrowError> {
        let (fields, columns): (Vec<_>, Vec<_>) =
            columns.into_iter().map(|(name, c)| (Field::new(name, c.data_type().clone(), true), c)).unzip();
        Ok(Arc::new(StructArray::try_new(fields.into(), columns, Some(NullBuffer::from(valid)))?))
    }

    #[test]
    fn names_change_and_nothing_else_does() -> Result<(), GatherError> {
        let of_type = |x: &str, y: &str| {
            let inner = row(vec![(x, TypeKind::Integer), ("unread", TypeKind::Integer)]);
            LogicalType { kind: row(vec![("r", row(vec![(y, inner)])), ("unread", row(vec![]))]), nullable: false }
        };
        let batch = |x: &str, y: &str| -> Result<Batch, GatherError> {
            let unread: ArrayRef = Arc::new(NullArray::new(2));
            let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
            let inner = structs(vec![(x, values), ("unread", Arc::clone(&unread))], vec![true, false])?;
            let outer = structs(vec![(y, inner)], vec![true, true])?;
            Ok(Batch::try_new(vec![outer, unread], 2, None)?.with_key_group(7))
        };
        let names = RowNames::new(&of_type("x", "y"));
        let renamed = names.apply(batch("a", "b")?)?;
        assert_eq!(renamed.columns(), batch("x", "y")?.columns());
        assert_eq!(renamed.key_group(), Some(7));
        let same = batch("x", "y")?;
        assert!(Arc::ptr_eq(&same.columns()[0], &names.apply(same.clone())?.columns()[0]));
        Ok(())
    }
}
